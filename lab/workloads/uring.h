/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets of a tun file by io_uring: one read is always submitted, its completion is
 * waited for. The rings have one entry, which new memory names as it should: 0.
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
	struct io_uring_params p;
	struct io_uring_sqe *sqe;
	unsigned char *rings;
};

static inline unsigned int *uring_at(struct uring *u, unsigned int offset)
{
	return (unsigned int *)(u->rings + offset);
}

/* Blocks for a packet, as read() does; its bytes, or -1 with errno. */
static inline ssize_t uring_read(struct uring *u, unsigned char *packet,
				 size_t room)
{
	unsigned int *sent = uring_at(u, u->p.sq_off.tail);
	unsigned int *seen = uring_at(u, u->p.cq_off.head);
	unsigned int *done = uring_at(u, u->p.cq_off.tail);
	struct io_uring_cqe *cqes = (void *)uring_at(u, u->p.cq_off.cqes);
	int submit = !u->submitted;
	ssize_t result;

	if (submit) {
		*u->sqe = (struct io_uring_sqe){
			.opcode = IORING_OP_READ,
			.fd = u->file,
			.addr = (uintptr_t)packet,
			.len = room,
		};
		__atomic_store_n(sent, *sent + 1, __ATOMIC_RELEASE);
	}
	u->submitted = true;
	while (__atomic_load_n(done, __ATOMIC_ACQUIRE) == *seen) {
		if (syscall(SYS_io_uring_enter, u->fd, submit, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -1;
		submit = 0;
	}
	u->submitted = false;
	result = cqes[*seen % u->p.cq_entries].res;
	__atomic_store_n(seen, *seen + 1, __ATOMIC_RELEASE);
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
	u->file = file;
	u->fd = syscall(SYS_io_uring_setup, 1, &u->p);
	if (u->fd < 0)
		return -1;
	/* both rings are in one piece of memory, the submissions last */
	u->rings = uring_map(u, u->p.sq_off.array + sizeof(unsigned int),
			     IORING_OFF_SQ_RING);
	u->sqe = uring_map(u, sizeof(*u->sqe), IORING_OFF_SQES);
	return u->rings == MAP_FAILED || (void *)u->sqe == MAP_FAILED ? -1 : 0;
}

#endif
