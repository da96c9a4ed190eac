// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the module assumes of the kernel and no compiler checks, tested at load.
 *
 * The policy reads the fields of the driver's ptr_ring. If a kernel changed
 * their meaning and not their names, the module would still compile. So the
 * kernel's own functions fill and empty a ring of ours, and after each step its
 * fields must have the meaning that ring.c assumes:
 *
 *   producer        slot of the next packet; one on per packet, 0 after the last
 *   consumer_head   slot of the next packet to read, likewise
 *   consumer_tail   first slot that is not free: follows the head once that is
 *                   a batch ahead or wraps to 0
 *   queue[]         NULL in free slots, until then the packet
 *   size, batch     slots, and packets per move of the tail
 */
#include <linux/ptr_ring.h>

#include "sluice.h"

#define TRIED_SIZE	151	/* no multiple of a batch, several batches */
#define TRIED_ROUNDS	3	/* times that producer and reader come round */

/* What the ring must look like, counted by ourselves. */
struct expected {
	int size;
	int produced;
	int consumed;
	int tail;
};

static void *packet(int number)
{
	return (void *)((number + 1UL) << 4);
}

/* NULL, or the name of the first field whose meaning differs. */
static const char *find_difference(const struct ptr_ring *ring,
				   const struct expected *e)
{
	int head = e->consumed % e->size;
	int first = e->consumed - (head - e->tail);
	int number;

	if (ring->size != e->size)
		return "size";
	if (ring->batch < 1 || ring->batch > max(e->size / 2, 1))
		return "batch";
	if (ring->producer != e->produced % e->size)
		return "producer";
	if (ring->consumer_head != head)
		return "consumer_head";
	if (ring->consumer_tail != e->tail)
		return "consumer_tail";
	/* from the tail on what was read of a batch, then what was not */
	for (number = first; number < e->produced; number++)
		if (ring->queue[number % e->size] != packet(number))
			return "queue (a packet)";
	/* and the rest is free */
	for (; number < first + e->size; number++)
		if (ring->queue[number % e->size])
			return "queue (a free slot)";
	return NULL;
}

static const char *try_produce(struct ptr_ring *ring, struct expected *e)
{
	int used = e->produced - e->consumed + e->consumed % e->size - e->tail;
	bool room = used < e->size;
	int err = __ptr_ring_produce(ring, packet(e->produced));

	if (room == !!err)
		return "a full ring";
	if (!err)
		e->produced++;
	return find_difference(ring, e);
}

static const char *try_consume(struct ptr_ring *ring, struct expected *e)
{
	void *got = __ptr_ring_consume(ring);
	int head;

	if (got != (e->consumed < e->produced ? packet(e->consumed) : NULL))
		return "the packet read";
	if (got) {
		head = ++e->consumed % e->size;
		if (!head || head - e->tail >= ring->batch)
			e->tail = head;
	}
	return find_difference(ring, e);
}

/* Until the ring is full, then @reads packets are read, and so on. */
static const char *try_rounds(struct ptr_ring *ring, struct expected *e,
			      int reads)
{
	int last = e->produced + TRIED_ROUNDS * e->size;
	const char *wrong = NULL;
	int before, i;

	while (!wrong && e->produced < last) {
		do {
			before = e->produced;
			wrong = try_produce(ring, e);
		} while (!wrong && e->produced > before);
		for (i = 0; !wrong && i < reads; i++)
			wrong = try_consume(ring, e);
	}
	return wrong;
}

static void drop(void *unused)
{
}

/* The packets that were not read are kept, and come first. */
static const char *try_resize(struct ptr_ring *ring, struct expected *e,
			      int size)
{
	int left = e->produced - e->consumed;
	int i;

	if (ptr_ring_resize(ring, size, GFP_KERNEL, drop))
		return "resize";
	/* renumbered, so that the first is in slot 0 */
	if (left > size)
		left = size;
	for (i = 0; i < left; i++) {
		if (ring->queue[i] != packet(e->consumed + i))
			return "resize (a packet)";
		ring->queue[i] = packet(i);
	}
	e->size = size;
	e->consumed = 0;
	e->produced = left;
	e->tail = 0;
	return find_difference(ring, e);
}

static const char *try_ring(struct ptr_ring *ring)
{
	struct expected e = { .size = TRIED_SIZE };
	const char *wrong = find_difference(ring, &e);

	wrong = wrong ?: try_rounds(ring, &e, 1);
	wrong = wrong ?: try_rounds(ring, &e, ring->batch);
	wrong = wrong ?: try_rounds(ring, &e, TRIED_SIZE + 1);
	wrong = wrong ?: try_rounds(ring, &e, TRIED_SIZE / 2);
	wrong = wrong ?: try_resize(ring, &e, 2 * TRIED_SIZE);
	wrong = wrong ?: try_rounds(ring, &e, 3);
	wrong = wrong ?: try_resize(ring, &e, 4);
	wrong = wrong ?: try_rounds(ring, &e, 1);
	return wrong;
}

/**
 * sluice_selftest_ring() - does a ptr_ring work as ring.c assumes?
 *
 * Context: process, at module load.
 * Return: 0, or a negative errno after saying what differs.
 */
int sluice_selftest_ring(void)
{
	struct ptr_ring ring;
	const char *wrong;
	int err;

	err = ptr_ring_init(&ring, TRIED_SIZE, GFP_KERNEL);
	if (err)
		return err;
	wrong = try_ring(&ring);
	ptr_ring_cleanup(&ring, NULL);
	if (!wrong)
		return 0;
	pr_err("self-test: %s of a ptr_ring is not what sluice knows; not loaded, stock behaviour remains\n",
	       wrong);
	return -ENODEV;
}
