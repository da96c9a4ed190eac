/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ways a process waits for the next packet of a tun file and takes it.
 *
 *   read       the call blocks
 *   readv      the same, into several pieces
 *   poll       the file does not block, poll() does
 *   epoll      the same with epoll_wait(), level triggered
 *   io_uring   one read is always submitted, its completion is waited for
 *
 * Each blocks for one packet as read() does, and returns EINTR after a signal.
 */
#ifndef READING_H
#define READING_H

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define READING_PIECE_BYTES 64

struct reading {
	ssize_t (*take)(struct reading *r, unsigned char *packet, size_t room);
	int (*wait)(struct reading *r);
	int fd, epoll;
	struct {
		int fd;
		bool submitted;
		unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail, *cq_mask;
		struct io_uring_sqe *sqe;
		struct io_uring_cqe *cqes;
	} ring;
};

static inline ssize_t take_by_read(struct reading *r, unsigned char *packet,
				   size_t room)
{
	return read(r->fd, packet, room);
}

static inline ssize_t take_by_readv(struct reading *r, unsigned char *packet,
				    size_t room)
{
	struct iovec pieces[] = {
		{ packet, READING_PIECE_BYTES },
		{ packet + READING_PIECE_BYTES, READING_PIECE_BYTES },
		{ packet + 2 * READING_PIECE_BYTES,
		  room - 2 * READING_PIECE_BYTES },
	};

	return readv(r->fd, pieces, 3);
}

static inline int wait_by_poll(struct reading *r)
{
	struct pollfd wanted = { .fd = r->fd, .events = POLLIN };

	return poll(&wanted, 1, -1);
}

static inline int wait_by_epoll(struct reading *r)
{
	struct epoll_event ready;

	return epoll_wait(r->epoll, &ready, 1, -1);
}

/* If another reader of the same queue took the packet, wait again. */
static inline ssize_t take_after_wait(struct reading *r, unsigned char *packet,
				      size_t room)
{
	ssize_t length;

	for (;;) {
		if (r->wait(r) < 0)
			return -1;
		length = read(r->fd, packet, room);
		if (length >= 0 || errno != EAGAIN)
			return length;
	}
}

static inline void submit_read(struct reading *r, unsigned char *packet,
			       size_t room)
{
	memset(r->ring.sqe, 0, sizeof(*r->ring.sqe));
	r->ring.sqe->opcode = IORING_OP_READ;
	r->ring.sqe->fd = r->fd;
	r->ring.sqe->addr = (uintptr_t)packet;
	r->ring.sqe->len = room;
	__atomic_store_n(r->ring.sq_tail, *r->ring.sq_tail + 1,
			 __ATOMIC_RELEASE);
}

static inline ssize_t take_by_io_uring(struct reading *r,
				       unsigned char *packet, size_t room)
{
	unsigned int head = *r->ring.cq_head;
	int submit = !r->ring.submitted;
	ssize_t result;

	if (submit)
		submit_read(r, packet, room);
	r->ring.submitted = true;
	while (__atomic_load_n(r->ring.cq_tail, __ATOMIC_ACQUIRE) == head) {
		if (syscall(SYS_io_uring_enter, r->ring.fd, submit, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return -1;
		submit = 0;
	}
	r->ring.submitted = false;
	result = r->ring.cqes[head & *r->ring.cq_mask].res;
	__atomic_store_n(r->ring.cq_head, head + 1, __ATOMIC_RELEASE);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

static inline void *map_ring(int fd, size_t bytes, uint64_t what)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, what);
}

static inline int open_io_uring(struct reading *r)
{
	struct io_uring_params p = { 0 };
	unsigned char *sq, *cq;

	r->ring.fd = syscall(SYS_io_uring_setup, 1, &p);
	if (r->ring.fd < 0)
		return -1;
	sq = map_ring(r->ring.fd, p.sq_off.array +
		      p.sq_entries * sizeof(*r->ring.sq_array),
		      IORING_OFF_SQ_RING);
	cq = map_ring(r->ring.fd, p.cq_off.cqes +
		      p.cq_entries * sizeof(*r->ring.cqes),
		      IORING_OFF_CQ_RING);
	r->ring.sqe = map_ring(r->ring.fd, sizeof(*r->ring.sqe),
			       IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || r->ring.sqe == MAP_FAILED)
		return -1;
	r->ring.sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	r->ring.sq_array = (unsigned int *)(sq + p.sq_off.array);
	r->ring.sq_array[0] = 0;	/* the only entry */
	r->ring.cq_head = (unsigned int *)(cq + p.cq_off.head);
	r->ring.cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	r->ring.cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	r->ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return 0;
}

static inline int open_epoll(struct reading *r)
{
	struct epoll_event wanted = { .events = EPOLLIN };

	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	return r->epoll < 0 ? -1 :
	       epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->fd, &wanted);
}

/* Prepare take() to return the packets of fd; 0, or -1 with errno. */
static inline int reading_open(struct reading *r, int fd, const char *way)
{
	bool by_epoll = !strcmp(way, "epoll");

	r->fd = fd;
	if (by_epoll || !strcmp(way, "poll")) {
		r->take = take_after_wait;
		r->wait = by_epoll ? wait_by_epoll : wait_by_poll;
		if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK))
			return -1;
		return by_epoll ? open_epoll(r) : 0;
	}
	if (!strcmp(way, "io_uring")) {
		r->take = take_by_io_uring;
		return open_io_uring(r);
	}
	r->take = strcmp(way, "readv") ? take_by_read : take_by_readv;
	if (r->take == take_by_readv || !strcmp(way, "read"))
		return 0;
	errno = EINVAL;
	return -1;
}

#endif
