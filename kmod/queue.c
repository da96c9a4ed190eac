// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: how a queue is stopped and woken
 *
 * The policy (flow.c) says when; this file keeps the queue's bit, lock and timer.
 * A queue is in one of four states::
 *
 *   closed   the device is down, off, or not served: nothing is touched
 *   open     packets flow; a sender checks the ring now and then
 *   stopped  we set __QUEUE_STATE_DRV_XOFF; the timer is armed
 *   stalled  the reader is too slow: packets flow, a full ring drops them
 *
 * Assumes:
 *   - a sender is in the driver with BH off, so each CPU holds at most one
 *     packet between the core's test of the stopped bit and the ring;
 *   - the driver frees a ring's struct a grace period after unpublishing it;
 *   - the reader moves consumer_head with each packet and consumer_tail, the
 *     first slot that is not yet free, at least once per ring->batch packets;
 *   - timers have high resolution (checked at load).
 *
 * Guarantees, while the qdisc has a queue:
 *   - no stop lasts longer than stall_ms plus the lateness of one timer,
 *     whatever the reader does;
 *   - the ring does not overflow while the queue is not stalled, with any
 *     number of senders that the headroom covers, see ring.c;
 *   - a queue we stopped has an armed timer: both change only under q->lock,
 *     and so a wake-up cannot be lost. If the timer itself is lost, the
 *     backstop reviews the queue one to two seconds later (backstop.c);
 *   - we clear the stopped bit only if we set it, and never after the device
 *     was announced to go down.
 *
 * Does not guarantee:
 *   - room for what is put into the ring without passing the transmit
 *     function (XDP_REDIRECT);
 *   - anything on a device whose qdisc has no queue: that is stock behaviour;
 *   - that a new qdisc is noticed before the next check, a quarter of the ring
 *     later at most.
 *
 * Checks. Reading the reader's indices costs a cache miss, so a sender does it
 * only when the ring could have reached its limit since the last check:
 * q->next_check holds the last producer index that needs none. Whoever checks
 * writes it, without a lock, unless somebody else did in the meantime: a sender
 * that was delayed for a part of the ring must not write an index of the past
 * that looks like one of the future.
 */
#include <net/sch_generic.h>

#include "compat.h"
#include "sluice.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* While a queue is stalled, so many packets pass without a check. */
#define PASSES_UNCHECKED	8

bool sluice_holds_closed;	/* see sluice_device_resize() */

static struct ptr_ring *queue_ring(const struct sluice_queue *q)
{
	return sluice_layout_ring(READ_ONCE(*q->slot));
}

/* Is it the ring that the policy knows, and as long? */
static bool __queue_knows(const struct sluice_queue *q, const struct ptr_ring *ring)
{
	return ring && ring == q->ring && READ_ONCE(ring->size) == q->size;
}

/* A lockless qdisc of this queue alone: it runs for no other. */
static bool is_held_if_closed(const struct Qdisc *qdisc)
{
	return READ_ONCE(sluice_holds_closed) &&
	       READ_ONCE(qdisc->flags) & TCQ_F_ONETXQUEUE;
}

/*
 * OPEN if packets may wait in the qdisc: it has a queue, and this kernel does
 * not free packets of it twice when one of several queues is closed.
 */
static enum sluice_queue_state qdisc_state(const struct netdev_queue *txq)
{
	const struct Qdisc *qdisc = rcu_dereference_raw(txq->qdisc);

	if (!READ_ONCE(qdisc->enqueue))
		return SLUICE_QUEUE_NOQUEUE;
	if (!sluice_locked_reset && txq->dev->num_tx_queues > 1 &&
	    READ_ONCE(qdisc->flags) & TCQ_F_NOLOCK && !is_held_if_closed(qdisc))
		return SLUICE_QUEUE_LOCKLESS;
	return SLUICE_QUEUE_OPEN;
}

static bool qdisc_may_hold(const struct netdev_queue *txq)
{
	return qdisc_state(txq) == SLUICE_QUEUE_OPEN;
}

static void __queue_arm(struct sluice_queue *q, u64 ns)
{
	lockdep_assert_held(&q->lock);
	hrtimer_start(&q->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
}

/* proofs/litmus: stop_against_wake, expiry_against_stop, one_owner */
static void __queue_stop(struct sluice_queue *q,
			 const struct sluice_flow_ring *count)
{
	u64 ns;

	lockdep_assert_held(&q->lock);

	/* If the bit was set, somebody else stopped the queue and wakes it. */
	if (test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state))
		return;
	/* Somebody else woke our stop. Our timer is still armed: it is ours again. */
	if (q->stopped)
		return;

	q->stopped = true;
	if (!q->stops++)
		sluice_events_schedule(q);
	ns = sluice_flow_stop(&q->flow, count, ktime_get_ns());
	__queue_arm(q, ns);
	sluice_backstop_watch();
	trace_queue_stop(q, count->fill, 0);
}

static void __queue_wake(struct sluice_queue *q, int fill,
			 enum sluice_wake_cause cause)
{
	u64 now = ktime_get_ns(), stopped_ns = now - q->flow.stopped_at;

	lockdep_assert_held(&q->lock);

	sluice_flow_wake(&q->flow, now);
	q->stopped = false;
	q->wakes[cause]++;
	if (stopped_ns > q->longest_stop_ns)
		q->longest_stop_ns = stopped_ns;
	trace_queue_wake(q, fill, stopped_ns);
	if (!q->held)
		netif_tx_wake_queue(q->txq);
}

static void __queue_release(struct sluice_queue *q)
{
	lockdep_assert_held(&q->lock);
	if (!q->held)
		return;
	q->held = false;
	netif_tx_wake_queue(q->txq);
}

/* Senders pass, and a full ring drops their packets as the driver does without us. */
static void __queue_stall(struct sluice_queue *q, int fill)
{
	lockdep_assert_held(&q->lock);

	q->stalls++;
	sluice_events_schedule(q);
	trace_queue_stall(q, fill, ktime_get_ns() - q->flow.stopped_at);
	__queue_wake(q, fill, SLUICE_WAKE_OTHER);
}

/*
 * A stopped queue is reviewed: wake it, stall it, or review it again later.
 * proofs/litmus: stop_against_wake, reader_without_barrier
 * Context: q->lock and RCU read side: hard irq of the timer, or the backstop.
 */
static void __queue_review(struct sluice_queue *q)
{
	struct ptr_ring *ring = queue_ring(q);
	struct sluice_flow_ring count;
	u64 next_ns;

	lockdep_assert_held(&q->lock);

	if (!__queue_knows(q, ring) || !qdisc_may_hold(q->txq)) {
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
		return;
	}

	count = sluice_count_ring(ring, q->size, true);
	switch (sluice_flow_review(&q->flow, &count, ktime_get_ns(), &next_ns)) {
	case SLUICE_FLOW_WAKE:
		__queue_wake(q, count.fill, SLUICE_WAKE_TIMER);
		break;
	case SLUICE_FLOW_STALL:
		__queue_stall(q, count.fill);
		break;
	case SLUICE_FLOW_WAIT:
		__queue_arm(q, next_ns);
		break;
	}
}

/* proofs/litmus: expiry_against_stop */
static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct sluice_queue *q = container_of(timer, struct sluice_queue, timer);
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (q->stopped)
		__queue_review(q);
	raw_spin_unlock_irqrestore(&q->lock, flags);
	return HRTIMER_NORESTART;
}

/*
 * Do senders pass because the queue is stalled? The ring, which is still q->ring, is
 * counted under the lock: the policy must not see a count older than the last it saw.
 */
static bool __queue_passes(struct sluice_queue *q)
{
	struct sluice_flow_ring count;

	lockdep_assert_held(&q->lock);

	if (!q->flow.stalled)
		return false;
	count = sluice_count_ring(q->ring, q->size, true);
	return sluice_flow_passes(&q->flow, &count, ktime_get_ns());
}

/*
 * A sender found that the queue must stop, or that it is stalled. While the sender
 * waited for the lock the queue may have been stopped and stalled, or got another
 * ring; or the count is a guess. Then nothing is done, and the next sender looks.
 * proofs/litmus: off_against_stop
 */
static void queue_filled(struct sluice_queue *q, struct ptr_ring *ring, bool full)
{
	struct sluice_flow_ring count;
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (q->open && __queue_knows(q, ring) && !__queue_passes(q) && full) {
		count = sluice_count_ring(ring, q->size, true);
		if (!count.guessed)
			__queue_stop(q, &count);
	}
	raw_spin_unlock_irqrestore(&q->lock, flags);
}

/*
 * The file or the size is not that of the last check, or sluice_queue_opened()
 * made the queue forget its file, which a reader can cause (TUNSETPERSIST).
 */
static bool queue_adopt(struct sluice_queue *q, void *file, int size)
{
	struct ptr_ring *ring = sluice_layout_ring(file);
	struct sluice_flow_ring count;
	unsigned long flags;

	if (sluice_layout_check(q->slot))
		return false;

	raw_spin_lock_irqsave(&q->lock, flags);
	count = sluice_count_ring(ring, size, true);
	sluice_flow_rebase(&q->flow, &count, ring == q->ring && size == q->size);
	/* The last index was one of the other ring: all check until it is written. */
	atomic64_add(1LL << 32, &q->next_check);
	atomic64_or(U32_MAX, &q->next_check);
	smp_store_release(&q->size, size); /* after that index is gone */
	WRITE_ONCE(q->ring, ring);
	/* pairs with check_needed(); proofs/litmus: ring_before_file */
	smp_store_release(&q->file, file);
	raw_spin_unlock_irqrestore(&q->lock, flags);
	return true;
}

/*
 * The next check is due @room packets after @producer, or where the ring wraps
 * to slot 0, unless somebody else wrote in the meantime.
 * proofs/litmus: check_exchanged
 */
static void set_next_check(struct sluice_queue *q, s64 check,
			   const struct sluice_flow_ring *count, int room)
{
	int span = clamp_t(int, room, 0, sluice_check_span(count->size));
	u32 last = min(count->producer + span, count->size) - 1;
	u64 checks = sluice_check_count(check);

	if (sluice_check_last(check) != last)
		atomic64_cmpxchg(&q->next_check, check, (checks + 1) << 32 | last);
}

/* Nothing was read since the last look: a stalled queue stays so. */
static bool nothing_changed(const struct sluice_queue *q,
			    const struct sluice_flow_ring *count)
{
	return count->producer == READ_ONCE(q->flow.producer) &&
	       count->fill == READ_ONCE(q->flow.fill);
}

/* A sender that replaces @check saw the ring. */
static void queue_checked(struct sluice_queue *q, struct ptr_ring *ring,
			  const struct sluice_flow_ring *count, s64 check)
{
	int room;

	if (!qdisc_may_hold(q->txq)) {	/* until it may: stock behaviour */
		set_next_check(q, check, count, count->safe_limit - count->used - 1);
		return;
	}
	if (count->used >= count->size)
		atomic64_inc(&q->drops);
	if (unlikely(READ_ONCE(q->flow.stalled))) {
		room = min(count->size - count->used, PASSES_UNCHECKED);
		set_next_check(q, check, count, room);
		if (!nothing_changed(q, count))
			queue_filled(q, ring, false);
		return;
	}
	room = sluice_flow_room(&q->flow, count, false);
	set_next_check(q, check, count, room);
	if (room <= 0 &&
	    (!netdev_xmit_more() ||
	     sluice_flow_room(&q->flow, count, true) <= 0))
		queue_filled(q, ring, true);
}

/**
 * sluice_queue_check() - a packet is about to enter a ring that may be filling
 * @q: its queue; if it is closed, nothing but that is read
 *
 * Context: BH off.
 */
void sluice_queue_check(struct sluice_queue *q)
{
	struct sluice_flow_ring count;
	struct ptr_ring *ring;
	void *file;
	s64 check;
	int size;

	if (!READ_ONCE(q->open))
		return;
	check = atomic64_read(&q->next_check);
	/* proofs/litmus: check_before_producer */
	smp_rmb(); /* what we see of the ring is newer than what we replace */
	file = READ_ONCE(*q->slot);
	if (!file)
		return;
	ring = sluice_layout_ring(file);
	size = READ_ONCE(ring->size);
	if (size < 1)
		return;
	if ((file != READ_ONCE(q->file) || size != READ_ONCE(q->size)) &&
	    !queue_adopt(q, file, size))
		return;

	count = sluice_count_ring(ring, size, false);
	queue_checked(q, ring, &count, check);
}

/**
 * sluice_queue_opened() - from now on the queue may be stopped
 * @q: the queue
 *
 * Also called when something about its reader changed: forget the file, so
 * that the next sender checks the ring. The backstop looks at the queues in use
 * only, so our stop of a queue that has no reader now ends here.
 *
 * Context: process, RTNL.
 */
void sluice_queue_opened(struct sluice_queue *q)
{
	raw_spin_lock_irq(&q->lock);
	WRITE_ONCE(q->open, true);
	sluice_flow_configure(&q->flow);
	WRITE_ONCE(q->file, NULL);
	if (q->stopped && !READ_ONCE(*q->slot))
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
	raw_spin_unlock_irq(&q->lock);
}

/**
 * sluice_queue_closed() - undo our stop, if any; the queue is not stopped again
 * @q: the queue
 *
 * Context: process, RTNL; may sleep until the timer's handler is done.
 * proofs/litmus: off_against_stop, off_cancels_timer
 */
void sluice_queue_closed(struct sluice_queue *q)
{
	raw_spin_lock_irq(&q->lock);
	WRITE_ONCE(q->open, false);
	__queue_release(q);
	if (q->stopped)
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
	raw_spin_unlock_irq(&q->lock);
	hrtimer_cancel(&q->timer);
}

/**
 * sluice_queue_hold() - keep a queue stopped while it is closed
 * @q: the queue
 * @closes: it is about to be closed; otherwise it is, or will be, in use
 *
 * A stop that we had ends, but for the bit. See sluice_device_resize();
 * proofs/litmus: close_against_run
 *
 * Context: process, RTNL.
 */
void sluice_queue_hold(struct sluice_queue *q, bool closes)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (!closes)
		__queue_release(q);
	else if (!test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state) ||
		 q->stopped)
		q->held = true;
	if (q->held && q->stopped)
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
	raw_spin_unlock_irqrestore(&q->lock, flags);
}

/**
 * sluice_queue_rescue() - review a queue whose timer is a second overdue
 * @q: the queue
 * @stopped: set if the queue was stopped by us
 *
 * Context: process or BH, RCU read side.
 * Return: whether it was overdue.
 */
bool sluice_queue_rescue(struct sluice_queue *q, bool *stopped)
{
	bool lost = false;
	s64 late;

	raw_spin_lock_irq(&q->lock);
	if (q->stopped) {
		*stopped = true;
		late = ktime_get_ns() - ktime_to_ns(hrtimer_get_expires(&q->timer));
		lost = late > (s64)NSEC_PER_SEC;
		if (lost) {
			q->rescued++;
			__queue_review(q);
		}
	}
	raw_spin_unlock_irq(&q->lock);
	return lost;
}

static enum sluice_queue_state __queue_state(struct sluice_queue *q,
					     struct ptr_ring *ring)
{
	enum sluice_queue_state qdisc;

	lockdep_assert_held(&q->lock);

	if (!q->open)
		return SLUICE_QUEUE_IDLE;
	if (q->stopped)
		return SLUICE_QUEUE_STOPPED;
	if (!ring)
		return SLUICE_QUEUE_UNREAD;
	qdisc = qdisc_state(q->txq);
	if (qdisc != SLUICE_QUEUE_OPEN)
		return qdisc;
	if (__queue_knows(q, ring) ? __queue_passes(q) : q->flow.stalled)
		return SLUICE_QUEUE_STALLED;
	return SLUICE_QUEUE_OPEN;
}

/**
 * sluice_queue_read() - what the operator sees of a queue
 * @q: the queue
 * @view: filled in
 *
 * Context: process, RTNL.
 */
void sluice_queue_read(struct sluice_queue *q, struct sluice_queue_view *view)
{
	struct sluice_flow_ring count = { };
	struct ptr_ring *ring;

	memset(view, 0, sizeof(*view));
	rcu_read_lock_bh();
	ring = q->device->verified ? queue_ring(q) : NULL;
	if (ring && READ_ONCE(ring->size) > 0) {
		count = sluice_count_ring(ring, READ_ONCE(ring->size), false);
		view->size = count.size;
		view->fill = count.fill;
		view->limit = sluice_flow_depth(&q->flow, count.safe_limit);
		view->low = sluice_flow_low(&q->flow, view->limit);
	}
	raw_spin_lock_irq(&q->lock);
	view->state = __queue_state(q, ring);
	view->reader_ns = q->flow.pace_ns;
	view->stops = q->stops;
	memcpy(view->wakes, q->wakes, sizeof(view->wakes));
	view->stalls = q->stalls;
	view->longest_stop_ns = q->longest_stop_ns;
	view->drops = atomic64_read(&q->drops);
	view->rescued = q->rescued;
	view->checks = sluice_check_count(atomic64_read(&q->next_check));
	raw_spin_unlock_irq(&q->lock);
	rcu_read_unlock_bh();
}

/**
 * sluice_queue_init() - a queue of a device that appeared
 * @q: zeroed memory
 * @device: its device
 * @id: its number
 *
 * Context: process, RTNL.
 */
void sluice_queue_init(struct sluice_queue *q, struct sluice_device *device,
		       unsigned int id)
{
	q->device = device;
	q->slot = sluice_layout_slot(device->dev, id);
	q->txq = netdev_get_tx_queue(device->dev, id);
	q->flow.settings = &device->flow;
	q->flow.device = &device->shared;
	sluice_flow_init(&q->flow);
	raw_spin_lock_init(&q->lock);
	hrtimer_setup(&q->timer, timer_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
}
