/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets of a tun file by io_uring: one read is always submitted, its completion is
 * waited for.
 */
#ifndef URING_H
#define URING_H

#include <errno.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct uring {
	int fd, file;
	bool submitted;
	unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqes;
};

/* Blocks for a packet, as read() does; its bytes, or -1 with errno. */
static inline ssize_t uring_read(struct uring *u, unsigned char *packet,
				 size_t room)
{
	unsigned int head = *u->cq_head;
	int submit = !u->submitted;
	ssize_t result;

	if (submit) {
		*u->sqe = (struct io_uring_sqe){
			.opcode = IORING_OP_READ,
			.fd = u->file,
			.addr = (uintptr_t)packet,
			.len = room,
		};
		__atomic_store_n(u->sq_tail, *u->sq_tail + 1, __ATOMIC_RELEASE);
	}
	u->submitted = true;
	while (__atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE) == head) {
		if (syscall(SYS_io_uring_enter, u->fd, submit, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -1;
		submit = 0;
	}
	u->submitted = false;
	result = u->cqes[head & *u->cq_mask].res;
	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

static inline void *uring_map(struct uring *u, size_t bytes, uint64_t what)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, u->fd, what);
}

/* Prepare to read this file; 0, or -1 with errno. */
static inline int uring_open(struct uring *u, int file)
{
	struct io_uring_params p = { 0 };
	unsigned char *sq, *cq;

	u->file = file;
	u->fd = syscall(SYS_io_uring_setup, 1, &p);
	if (u->fd < 0)
		return -1;
	sq = uring_map(u, p.sq_off.array + sizeof(*u->sq_array),
		       IORING_OFF_SQ_RING);
	cq = uring_map(u, p.cq_off.cqes + p.cq_entries * sizeof(*u->cqes),
		       IORING_OFF_CQ_RING);
	u->sqe = uring_map(u, sizeof(*u->sqe), IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || u->sqe == MAP_FAILED)
		return -1;
	u->sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	u->sq_array = (unsigned int *)(sq + p.sq_off.array);
	u->sq_array[0] = 0;	/* the only entry */
	u->cq_head = (unsigned int *)(cq + p.cq_off.head);
	u->cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	u->cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	u->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return 0;
}

#endif
