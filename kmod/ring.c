// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many slots of a ring are in use, and how many packets it holds, while the
 * driver and the reader go on.
 */
#include "sluice.h"

/**
 * sluice_slots_between() - slots from one index forward to another
 * @from: an index of a ring
 * @to: another
 * @size: slots of the ring
 *
 * A ring that changes may show any index: the producer is at the end for a
 * moment before it wraps to 0, and a ring that is resized may show indices of
 * its other size.
 *
 * Context: any.
 * Return: 0 to @size - 1, whatever the indices are.
 */
int sluice_slots_between(int from, int to, int size)
{
	int slots = to - from;

	if (slots < 0)
		slots += size;
	return (unsigned int)slots < (unsigned int)size ? slots : 0;
}

/*
 * Whether a ring whose producer and tail are equal is full and not empty: then
 * the newest packet is still in its slot. (The slot at the producer would not
 * tell: the reader clears the last slot of a batch before it moves the tail.)
 */
static bool __ring_is_full(const struct ptr_ring *ring, int size)
{
	int newest = ring->producer ? ring->producer - 1 : size - 1;

	lockdep_assert_held(&ring->producer_lock);
	return ring->size == size && READ_ONCE(ring->queue[newest]);
}

/**
 * sluice_count_ring() - count what a ring holds
 * @ring: the ring
 * @size: its slots, as the caller read them
 * @in_irq: the caller is in a hard irq, which may have interrupted the holder of
 *	    the producer's lock
 *
 * Equal indices mean empty or full; the producer's lock tells which, because it
 * keeps a resize from freeing the slots. In a hard irq that finds it taken the
 * answer is "full", which the next review corrects; what was read since the last
 * counts as not read.
 *
 * Context: BH off, or hard irq.
 * Return: the slots in use and the packets.
 */
struct sluice_ring_count sluice_count_ring(struct ptr_ring *ring, int size,
					   bool in_irq)
{
	int tail = READ_ONCE(ring->consumer_tail);
	struct sluice_ring_count count;

	smp_rmb(); /* proofs/litmus: tail_before_slots, tail_before_producer */
	count.used = sluice_slots_between(tail, READ_ONCE(ring->producer), size);
	if (!count.used) {
		if (!in_irq)
			spin_lock(&ring->producer_lock);
		else if (!spin_trylock(&ring->producer_lock))
			return (struct sluice_ring_count){ size, size };
		tail = READ_ONCE(ring->consumer_tail);
		smp_rmb(); /* as above */
		count.used = sluice_slots_between(tail, ring->producer, size);
		if (!count.used && __ring_is_full(ring, size))
			count.used = size;
		spin_unlock(&ring->producer_lock);
	}
	/* head == producer means empty or full; @used tells which. */
	count.fill = sluice_slots_between(READ_ONCE(ring->consumer_head),
					  READ_ONCE(ring->producer), size);
	if (!count.fill)
		count.fill = count.used == size ? size : 0;
	/* The reader may move the tail past a head that is about to follow. */
	count.fill = min(count.fill, count.used);
	return count;
}
