/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is done with each packet at the entry of the driver's transmit function.
 * Called by hook.c, or by the lab's own hook on a kernel without ftrace.
 */
#ifndef SLUICE_ENTRY_H
#define SLUICE_ENTRY_H

#include <linux/skbuff.h>

#include "sluice.h"

/*
 * A check is needed once the producer passed the last index known to be safe, or
 * the ring changed. Of the driver's memory only what the driver itself reads or
 * writes next is read here.
 * A device that was never served has no file, so its slot is not read.
 */
static __always_inline bool check_needed(const struct sluice_queue *q)
{
	/* pairs with queue_adopt(): q->ring is in this file, or a later
	 * proofs/litmus: ring_before_file
	 */
	void *file = smp_load_acquire(&q->file);
	const struct ptr_ring *ring = READ_ONCE(q->ring);
	u32 left, size = READ_ONCE(q->size);

	if (unlikely(!file || file != READ_ONCE(*q->slot) ||
		     size != READ_ONCE(ring->size)))
		return true;
	left = sluice_check_last(atomic64_read(&q->next_check)) -
	       READ_ONCE(ring->producer);
	return left >= sluice_check_span(size); /* or below 0: it is behind */
}

/*
 * The queue the packet goes to, if the ring has to be checked first.
 *
 * Context: whoever transmits, with BH off (and so inside an RCU read side);
 * the packet is not yet the driver's. proofs/litmus: unload_against_sender
 */
static __always_inline struct sluice_queue *
queue_to_check(const struct sk_buff *skb, const struct net_device *dev)
{
	struct sluice_device *device = sluice_device_find(dev);
	unsigned int id = skb_get_queue_mapping(skb);
	struct sluice_queue *q;

	if (!device || id >= device->queues)
		return NULL;
	q = &device->queue[id];
	OPTIMIZER_HIDE_VAR(q);	/* compute its address once */
	return check_needed(q) ? q : NULL;
}

#endif
