// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: transmit queue of a TUN/TAP file
 *
 * A sender reserves a slot of the ring before it changes the skb. If none is left
 * it stops the queue and returns NETDEV_TX_BUSY: no packet is lost, however many
 * CPUs are in the driver at once (it is lockless).
#if PATCH >= 3
 *
 * tun_tx_flow.c, the policy, says when a queue stops and wakes. Whoever stops it
 * arms a timer on its own CPU, which wakes the queue or arms itself again, both
 * under @lock: a queue that was stopped here has an armed timer. That does not
 * wait for the producer lock: without it a full ring and an empty one look the
 * same, and pass for a full one. So a stop ends on time whoever holds that lock.
 *
 * Nothing is done where packets cannot wait (noqueue), and where timers are coarse.
#endif
 */
#if PATCH >= 3
#include <linux/hrtimer.h>
#endif
#include <linux/module.h>
#include <net/sch_generic.h>

#include "tun_txq.h"
#if PATCH >= 3

#define PASSES_UNCHECKED	8	/* packets of a stalled queue */

/*
 * In a hard interrupt a queue wakes also where the softirqs of the CPU wait for
 * ksoftirqd. Not where a trylock cannot tell that the lock's holder was interrupted
 * (!SMP), or cannot be tried in a hard interrupt (PREEMPT_RT).
 */
#define TIMER_MODE	(IS_ENABLED(CONFIG_SMP) && !IS_ENABLED(CONFIG_PREEMPT_RT) ? \
			 HRTIMER_MODE_REL_PINNED_HARD : \
			 HRTIMER_MODE_REL_PINNED_SOFT)

static const struct tun_tx_flow_settings settings = {
	.stall_ms = 250,
	.low_percent = 50,
#if PATCH >= 5
	.target_us = 2000,
#endif
};

/* If the indices are equal the ring is empty, or @full. */
static struct tun_tx_flow_ring view_indices(const struct ptr_ring *ring, bool full)
{
	int head = READ_ONCE(ring->consumer_head);
	int tail = READ_ONCE(ring->consumer_tail);
	struct tun_tx_flow_ring view = { .size = READ_ONCE(ring->size) };

	smp_rmb();	/* the producer is not older than the reader */
	view.safe_limit = view.size;
	view.producer = READ_ONCE(ring->producer);
	view.used = tun_tx_slots_between(tail, view.producer, view.size);
	if (!view.used && full)
		view.used = view.size;
	view.fill = tun_tx_slots_between(head, view.producer, view.size);
	if (!view.fill && view.used == view.size)
		view.fill = view.size;
	view.fill = min(view.fill, view.used);
	return view;
}

/* The newest packet is in its slot if the ring is full. */
static struct tun_tx_flow_ring view_locked(const struct ptr_ring *ring)
{
	int newest = (ring->producer ?: ring->size) - 1;

	lockdep_assert_held(&ring->producer_lock);
	/* the consumer clears slots meanwhile */
	return view_indices(ring, ring->size && data_race(ring->queue[newest]));
}

/* The timer's view: see DOC. */
static struct tun_tx_flow_ring view_unlocked(struct ptr_ring *ring)
{
	struct tun_tx_flow_ring view = view_indices(ring, true);

	if (view.used < view.size)
		return view;
	if (!spin_trylock(&ring->producer_lock)) {
		view.guessed = true;
		return view;
	}
	view = view_locked(ring);
	spin_unlock(&ring->producer_lock);
	return view;
}

static void __tun_txq_wake(struct tun_txq *txq)
{
	struct netdev_queue *queue = txq->stopped;

	lockdep_assert_held(&txq->lock);
	tun_tx_flow_wake(&txq->flow, ktime_get_ns());
	txq->stopped = NULL;
	/* tun_net_close() takes the lock before it stops all queues */
	if (!netif_running(queue->dev))
		return;
#if PATCH >= 6
	txq->stats.wakes++;
#endif
	netif_tx_wake_queue(queue);
}

static void __tun_txq_stop(struct tun_txq *txq, struct netdev_queue *queue,
			   const struct tun_tx_flow_ring *view, u64 now)
{
	u64 ns;

	lockdep_assert_held(&txq->lock);
	if (unlikely(txq->stopped && txq->stopped != queue))
		__tun_txq_wake(txq);	/* the file has another index now */

	netif_tx_stop_queue(queue);
	if (txq->stopped)	/* this CPU passed the test before the stop */
		return;
	txq->stopped = queue;
#if PATCH >= 6
	txq->stats.stops++;
#endif
	ns = tun_tx_flow_stop(&txq->flow, view, now);
	hrtimer_start(&txq->timer, ns_to_ktime(ns), TIMER_MODE);
}

static void __tun_txq_review(struct tun_txq *txq)
{
	struct tun_tx_flow_ring view = view_unlocked(txq->ring);
	u64 ns;

	lockdep_assert_held(&txq->lock);
	if (!qdisc_txq_has_no_queue(txq->stopped) &&
	    tun_tx_flow_review(&txq->flow, &view, ktime_get_ns(),
			       &ns) == TUN_TX_FLOW_WAIT)
		hrtimer_start(&txq->timer, ns_to_ktime(ns), TIMER_MODE);
	else
		__tun_txq_wake(txq);
}

static enum hrtimer_restart tun_txq_expired(struct hrtimer *timer)
{
	struct tun_txq *txq = container_of(timer, struct tun_txq, timer);
	unsigned long flags;

	raw_spin_lock_irqsave(&txq->lock, flags);
	if (txq->stopped)
		__tun_txq_review(txq);
	raw_spin_unlock_irqrestore(&txq->lock, flags);
	return HRTIMER_NORESTART;
}

/* A sender saw @view. Returns whether the queue is stopped. */
static bool tun_txq_look(struct tun_txq *txq, struct netdev_queue *queue,
			 const struct tun_tx_flow_ring *view, bool full)
{
	u64 now = ktime_get_ns();
	unsigned long flags;

	raw_spin_lock_irqsave(&txq->lock, flags);
	if (txq->released || view->size != txq->size)
		tun_tx_flow_rebase(&txq->flow, view, view->size == txq->size);
	txq->released = false;
	txq->size = view->size;
	if (txq->flow.stalled && tun_tx_flow_passes(&txq->flow, view, now))
		full = false;
	if (full)
		__tun_txq_stop(txq, queue, view, now);
	raw_spin_unlock_irqrestore(&txq->lock, flags);
	return full;
}

/* A packet is about to enter a ring that may be filling. */
static void tun_txq_check(struct tun_txq *txq, struct netdev_queue *queue)
{
	struct tun_tx_flow_ring view = view_locked(txq->ring);

	if (unlikely(READ_ONCE(txq->flow.stalled))) {
		txq->room = PASSES_UNCHECKED;
		tun_txq_look(txq, queue, &view, false);
		return;
	}
	txq->room = tun_tx_flow_room(&txq->flow, &view, false);
	if (txq->room <= 0 &&
	    (!netdev_xmit_more() ||
	     tun_tx_flow_room(&txq->flow, &view, true) <= 0))
		tun_txq_look(txq, queue, &view, true);
}
#else

/* The ring is full: unless the reader has just made room, who then may not see this. */
static bool tun_txq_stop(struct tun_txq *txq, struct netdev_queue *queue)
{
	netif_tx_stop_queue(queue);
	/* Paired with smp_mb() in __tun_wake_queue() */
	smp_mb__after_atomic();
	if (!__ptr_ring_has_room(txq->ring, txq->reserved))
		return true;
	netif_tx_wake_queue(queue);
	return false;
}
#endif

/*
 * Returns 1 if a slot is reserved for a packet, 0 if not and it may be dropped, -EBUSY
 * if the queue was stopped. A reserved slot stays free until tun_txq_produce(), unless
 * vhost_net gives packets back or the ring is resized: the packet may be dropped then.
 */
int tun_txq_reserve(struct tun_txq *txq, struct netdev_queue *queue)
{
	struct ptr_ring *ring = txq->ring;
#if PATCH >= 3
	struct tun_tx_flow_ring view;
#endif
	int ret = 1;

#if PATCH >= 3
	if (qdisc_txq_has_no_queue(queue) || hrtimer_resolution > NSEC_PER_MSEC)
		return 0;
#else
	if (qdisc_txq_has_no_queue(queue) || !netif_running(queue->dev))
		return 0;
#endif

	spin_lock(&ring->producer_lock);
	if (unlikely(!__ptr_ring_has_room(ring, txq->reserved))) {
#if PATCH >= 3
		view = view_locked(ring);
		txq->room = 0;
		ret = ring->size && tun_txq_look(txq, queue, &view, true) ? -EBUSY : 0;
#else
		if (!ring->size)
			ret = 0;
		else if (tun_txq_stop(txq, queue))
			ret = -EBUSY;
#endif
	}
	txq->reserved += ret > 0;
	spin_unlock(&ring->producer_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(tun_txq_reserve);

/* A packet for which a slot was reserved was dropped. */
void tun_txq_cancel(struct tun_txq *txq, struct netdev_queue *queue)
{
	spin_lock(&txq->ring->producer_lock);
	txq->reserved--;
#if PATCH < 3
	/* the reader of an empty ring would not wake who found no slot */
	if (netif_running(queue->dev))
		netif_tx_wake_queue(queue);
#endif
	spin_unlock(&txq->ring->producer_lock);
}
EXPORT_SYMBOL_GPL(tun_txq_cancel);

/* Returns 0, or an error if the ring is full. */
int tun_txq_produce(struct tun_txq *txq, struct netdev_queue *queue,
		    struct sk_buff *skb, bool reserved)
{
	struct ptr_ring *ring = txq->ring;
	int ret;

	spin_lock(&ring->producer_lock);
#if PATCH >= 3
	if (reserved && --txq->room <= 0)
		tun_txq_check(txq, queue);
#endif
	ret = __ptr_ring_produce(ring, skb);
	if (!ret)
		txq->reserved -= reserved;
#if PATCH < 3
	/* Do not touch the queue state of a device that is going down. */
	if (reserved && netif_running(queue->dev) &&
	    !__ptr_ring_has_room(ring, txq->reserved))
		tun_txq_stop(txq, queue);
#endif
	spin_unlock(&ring->producer_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(tun_txq_produce);

/* A redirected frame gets no slot that is reserved. */
bool tun_txq_produce_frame(struct tun_txq *txq, void *frame)
{
	lockdep_assert_held(&txq->ring->producer_lock);
	return __ptr_ring_has_room(txq->ring, txq->reserved) &&
	       !__ptr_ring_produce(txq->ring, frame);
}
EXPORT_SYMBOL_GPL(tun_txq_produce_frame);
#if PATCH >= 3

/*
 * The device, index or ring of the file changes. Does not cancel the timer: a sender
 * may have stopped the queue again. Debt and a stall stay, and what leaves the ring
 * (tun_queue_purge()) pays for nothing: a reader may attach again and again.
 */
void tun_txq_release(struct tun_txq *txq)
{
	raw_spin_lock_irq(&txq->lock);
	if (txq->stopped)
		__tun_txq_wake(txq);
	txq->released = true;
	raw_spin_unlock_irq(&txq->lock);
}
EXPORT_SYMBOL_GPL(tun_txq_release);
#endif
#if PATCH >= 6

/* Adds the stops and wakes to @sum, and forgets them if @take. */
void tun_txq_read_stats(struct tun_txq *txq, struct tun_txq_stats *sum, bool take)
{
	raw_spin_lock_irq(&txq->lock);
	sum->stops += txq->stats.stops;
	sum->wakes += txq->stats.wakes;
	if (take)
		memset(&txq->stats, 0, sizeof(txq->stats));
	raw_spin_unlock_irq(&txq->lock);
}
EXPORT_SYMBOL_GPL(tun_txq_read_stats);
#endif

/* A file is opened; @txq is zeroed. */
void tun_txq_init(struct tun_txq *txq, struct ptr_ring *ring)
{
	txq->ring = ring;
#if PATCH >= 3
	raw_spin_lock_init(&txq->lock);
	txq->flow.settings = &settings;
	tun_tx_flow_init(&txq->flow);
	tun_tx_flow_configure(&txq->flow);
	hrtimer_setup(&txq->timer, tun_txq_expired, CLOCK_MONOTONIC, TIMER_MODE);
#endif
}
EXPORT_SYMBOL_GPL(tun_txq_init);

MODULE_DESCRIPTION("Transmit queues of TUN/TAP devices");
MODULE_LICENSE("GPL");
