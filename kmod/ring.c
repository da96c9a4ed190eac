// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many slots of a ring are in use, and how many packets it holds, while the
 * driver and the reader go on.
 */
#include "sluice.h"

/*
 * Slots kept free for senders that are past the stopped test. Let n be the CPUs
 * that send at once. When a sender finds the limit reached, others may have found
 * it not reached and not yet put their packet into the ring (n - 1), and once they
 * did each CPU may be past the stopped test again (n): 2n - 1 packets after the last
 * check that passed. The reader frees slots in batches, from the last to the first,
 * without a barrier: one batch more. Never above half the ring: then it covers
 * (size / 2 - batch) / 2 senders at once.
 *
 * Half a ring is also more than a batch that was read and is not handed back, so an
 * empty ring is below the limit.
 */
static int headroom_for(const struct ptr_ring *ring, int size)
{
	return min_t(int, 2 * num_online_cpus() + READ_ONCE(ring->batch),
		     size / 2);
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
 * @in_irq: interrupts are off; the code that was interrupted may hold the lock
 *
 * Equal indices mean empty or full; the producer's lock tells which, because it
 * keeps a resize from freeing the slots. If interrupts are off and somebody has that
 * lock, the answer is "full", marked as a guess.
 *
 * Context: BH off, or hard irq.
 * Return: what the ring holds; its safe_limit is what the headroom leaves.
 */
struct sluice_flow_ring sluice_count_ring(struct ptr_ring *ring, int size,
					  bool in_irq)
{
	struct sluice_flow_ring count = {
		.size = size,
		.safe_limit = max(size - headroom_for(ring, size), 1),
	};
	int head = READ_ONCE(ring->consumer_head);
	int tail = READ_ONCE(ring->consumer_tail);

	smp_rmb(); /* proofs/litmus: tail_before_slots, tail_before_producer */
	count.producer = READ_ONCE(ring->producer);
	count.used = sluice_slots_between(tail, count.producer, size);
	if (!count.used) {
		if (!in_irq) {
			spin_lock(&ring->producer_lock);
		} else if (!spin_trylock(&ring->producer_lock)) {
			count.used = size;
			count.fill = size;
			count.guessed = true;
			return count;
		}
		head = READ_ONCE(ring->consumer_head);
		tail = READ_ONCE(ring->consumer_tail);
		smp_rmb(); /* as above */
		count.producer = ring->producer;
		count.used = sluice_slots_between(tail, count.producer, size);
		if (!count.used && __ring_is_full(ring, size))
			count.used = size;
		spin_unlock(&ring->producer_lock);
	}
	/* head == producer means empty or full; @used tells which. */
	count.fill = sluice_slots_between(head, count.producer, size);
	if (!count.fill)
		count.fill = count.used == size ? size : 0;
	/* The reader may move the tail past a head that is about to follow. */
	count.fill = min(count.fill, count.used);
	return count;
}
