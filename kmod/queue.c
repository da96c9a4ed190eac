// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: when a queue stops, wakes and stalls
 *
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
 *   - no stop lasts longer than stall_ms plus one review (2 ms) plus the
 *     lateness of one timer, whatever the reader does;
 *   - a reader that reads fewer than STALL_PACKETS packets in stall_ms of
 *     stopped time is stalled: its senders pass for PASS_FACTOR times
 *     stall_ms and until it reads on, or until it has caught up, before the
 *     queue stops again. So a dead reader holds senders that go on sending for
 *     stall_ms (for five stops if each timer is later than that), one at half
 *     that pace for 1/5 of the time, one that opens or attaches the device
 *     again and again and reads nothing for 1/9; a queue that stops while
 *     another of its device is stalled begins as unpaid as that one;
 *   - the ring does not overflow while the queue is not stalled, with any
 *     number of senders that the headroom covers, see depth.c; with two fifths
 *     as many where pauses of the machine end three stops at the limit in a row;
 *   - a queue we stopped has an armed timer: both change only under q->lock,
 *     and so a wake-up cannot be lost. If the timer itself is lost, the
 *     backstop reviews the queue one to two seconds later (backstop.c);
 *   - we clear the stopped bit only if we set it, and never after the device
 *     was announced to go down;
 *   - a queue is reviewed at most REVIEWS_PER_SEC times per second, plus once
 *     for every REVIEW_PACKETS packets that its reader reads;
 *   - while N queues are stopped, a review that saw no packet read is followed
 *     by the next after N - 1 times REVIEW_SHARE_NS, but REVIEW_MIN_NS at least
 *     and REVIEW_MAX_NS at most, doubled for each such review in a row. A queue
 *     whose reader reads does not wait for others.
 *
 * Does not guarantee:
 *   - room for what is put into the ring without passing the transmit
 *     function (XDP_REDIRECT);
 *   - anything on a device whose qdisc has no queue: that is stock behaviour;
 *   - that a new qdisc is noticed before the next check, a quarter of the ring
 *     later at most;
 *   - that a slow reader is stalled where each timer is so late that it finds
 *     the ring at the low watermark: two packets later for the slowest.
 *
 * Checks. Reading the reader's indices costs a cache miss, so a sender does it
 * only when the ring could have reached its limit since the last check:
 * q->next_check holds the last producer index that needs none. Whoever checks
 * writes it, without a lock, unless somebody else did in the meantime: a sender
 * that was delayed for a part of the ring must not write an index of the past
 * that looks like one of the future.
 *
 * Lists. The core gives the segments of one packet to the driver as a list. If
 * the queue stops within it, the core puts the rest back in front of the qdisc's
 * packets, and sends each as if it came alone. What comes later waits for them
 * wherever they are. So a queue that holds as many packets as it is to hold stops
 * behind the last of a list. It stops within a list at the limit, and LIST_PACKETS
 * beyond the depth: a slow reader must not find list upon list in its ring.
 */
#include <linux/math64.h>
#include <net/sch_generic.h>

#include "compat.h"
#include "sluice.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * The stall rule. Each packet that the reader reads pays for 1/STALL_PACKETS of
 * stall_ms of stopped time in which the reader had work, and time for which the
 * queue was not stopped pays for 1/PASS_FACTOR of itself; a queue whose unpaid
 * time reaches stall_ms is stalled. With the default of 250 ms that is a reader
 * of fewer than 200 packets/s. The lateness of a timer costs no more than a quarter
 * of stall_ms: a timer that is later than that was lost, or the machine was paused,
 * and so was the reader.
 */
#define STALL_PACKETS		50
#define PASS_FACTOR		8

/*
 * The first review after a stop or after progress comes no sooner than a
 * softirq can do useful work. Reviews without progress back off, up to
 * REVIEW_MIN_NS << REVIEW_BACKOFF_MAX = 640 us: a reader that rests for some ms
 * must not find the ring empty for long when it reads on. REVIEW_MAX_NS bounds
 * how long an unannounced change (a new qdisc, a vanished reader) goes unseen
 * while few queues are stopped; see __queue_review_gap() for more.
 */
#define REVIEW_MIN_NS		(20 * NSEC_PER_USEC)
#define REVIEW_MAX_NS		(2 * NSEC_PER_MSEC)
#define REVIEW_BACKOFF_MAX	5
#define REVIEWS_PER_SEC		2000
#define REVIEW_NS		(NSEC_PER_SEC / REVIEWS_PER_SEC)
#define REVIEW_BURST_NS		(8 * REVIEW_NS)
#define REVIEW_PACKETS		64
#define REVIEW_SHARE_NS		(25 * NSEC_PER_USEC)

/*
 * Reviews are armed early by the average lateness of timers, so about half of them
 * come too early. The queue wakes then, too, if no more than this part of its way
 * to the low watermark is left: a second timer for the stop costs more.
 */
#define WAKE_EARLY		4

/* More than the 44 segments that 64 KB of TCP make with an MTU of 1500. */
#define LIST_PACKETS		64

/* Queues that are stopped now, of all devices. */
static atomic_t stopped_queues = ATOMIC_INIT(0);

bool sluice_holds_closed;	/* see sluice_device_resize() */

static struct ptr_ring *queue_ring(const struct sluice_queue *q)
{
	return sluice_layout_ring(READ_ONCE(*q->slot));
}

/* A lockless qdisc of this queue alone: it runs for no other. */
static bool is_held_if_closed(const typeof(noop_qdisc) *qdisc)
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
	const typeof(noop_qdisc) *qdisc = rcu_dereference_raw(txq->qdisc);

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

static u64 stall_ns(const struct sluice_queue *q)
{
	return (u64)READ_ONCE(q->device->stall_ms) * NSEC_PER_MSEC;
}

/* The least time until the next review: see the last of the guarantees. */
static u64 __queue_review_gap(const struct sluice_queue *q)
{
	u64 share = (u64)(atomic_read(&stopped_queues) - 1) * REVIEW_SHARE_NS;

	lockdep_assert_held(&q->lock);
	if (!q->idle_reviews)
		return REVIEW_MIN_NS;
	return clamp_t(u64, share, REVIEW_MIN_NS, REVIEW_MAX_NS) << q->idle_reviews;
}

/*
 * Review the queue when a reader at its learned pace has read @packets, minus
 * the recent average lateness of the timer. Not sooner than the bounds on
 * reviews allow, and not later than the end of the longest stop.
 */
static void __queue_arm(struct sluice_queue *q, int packets, u64 now)
{
	u64 gap = __queue_review_gap(q);
	s64 ns = (u64)q->reader_ns * packets - q->timer_late_ns;
	s64 left = q->stopped_at + stall_ns(q) - now;

	lockdep_assert_held(&q->lock);

	ns = clamp_t(s64, ns, gap, max_t(s64, gap, REVIEW_MAX_NS));
	ns = max_t(s64, ns, q->next_review_at - now);
	ns = max_t(s64, min(ns, left), REVIEW_MIN_NS);
	hrtimer_start(&q->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
}

/* A review happens, and @packets were read since the last: pay for it. */
static void __queue_pay_review(struct sluice_queue *q, int packets, u64 now)
{
	u64 paid = min(packets, REVIEW_PACKETS) * (REVIEW_NS / REVIEW_PACKETS);

	lockdep_assert_held(&q->lock);
	if (packets)
		q->idle_reviews = 0;
	else if (q->idle_reviews < REVIEW_BACKOFF_MAX)
		q->idle_reviews++;
	q->next_review_at = max_t(s64, q->next_review_at,
				  now - REVIEW_BURST_NS) + REVIEW_NS - paid;
}

/* Returns how late the timer is, nanoseconds. */
static u64 __queue_learn_lateness(struct sluice_queue *q)
{
	s64 late = ktime_to_ns(hrtimer_cb_get_time(&q->timer)) -
		   ktime_to_ns(hrtimer_get_expires(&q->timer));

	lockdep_assert_held(&q->lock);
	late = max_t(s64, late, 0);
	q->timer_late_ns = (7LL * q->timer_late_ns +
			    min_t(s64, late, REVIEW_MAX_NS)) / 8;
	return late;
}

/*
 * Packets read since @q->head, of a stopped queue or one that stops, where now
 * @there are in the ring. If both make a whole ring, none counts as read: others
 * than our senders fill what room there is (XDP_REDIRECT), so that waiting does
 * not help; or vhost-net handed packets back.
 */
static int __queue_read_since(const struct sluice_queue *q, int head, int there)
{
	int packets = sluice_slots_between(q->head, head, q->size);

	lockdep_assert_held(&q->lock);
	return packets + there < q->size ? packets : 0;
}

/*
 * The longest stop is over, the reader read enough, and @fill packets are in the
 * ring: did others than our senders put in one for every two that were read? Then
 * waiting does not help. If the machine was paused hardly any were read.
 */
static bool __queue_is_crowded(const struct sluice_queue *q, int fill)
{
	int came = q->stop_read + fill - q->stop_fill;

	lockdep_assert_held(&q->lock);
	return q->stop_read >= STALL_PACKETS && 2 * came >= q->stop_read;
}

/*
 * The stall rule: @packets were read in @ns of stopped time in which the reader
 * had work. What is left is time for which no packet paid, stall_ms at most.
 */
static void __queue_charge(struct sluice_queue *q, u64 ns, int packets)
{
	u64 paid = div_u64(stall_ns(q), STALL_PACKETS) * packets;

	lockdep_assert_held(&q->lock);
	q->unpaid_ns += ns;
	q->unpaid_ns -= min(q->unpaid_ns, paid);
	q->unpaid_ns = min(q->unpaid_ns, stall_ns(q));
}

/*
 * A queue that stops after another of its device stalled, and before the time of that
 * stall is over, begins with stall_ms of unpaid time, once for each stall: a reader
 * that steers its senders from queue to queue would otherwise hold them at each.
 */
static void __queue_inherit_debt(struct sluice_queue *q)
{
	u64 until = READ_ONCE(q->device->debt_until);

	lockdep_assert_held(&q->lock);
	if (until != q->debt_seen && until > q->stopped_at)
		q->unpaid_ns = stall_ns(q);
	q->debt_seen = until;
}

/* proofs/litmus: stop_against_wake, expiry_against_stop, one_owner */
static void __queue_stop(struct sluice_queue *q, struct ptr_ring *ring,
			 int fill, int depth)
{
	int head = READ_ONCE(ring->consumer_head);

	lockdep_assert_held(&q->lock);

	/* If the bit was set, somebody else stopped the queue and wakes it. */
	if (test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state))
		return;
	q->stop_read = 0;
	q->stop_fill = fill;
	/* Somebody else woke our stop. Our timer is still armed: it is ours again. */
	if (q->stopped)
		return;

	q->stopped = true;
	atomic_inc(&stopped_queues);
	if (!q->stops++)
		sluice_events_schedule(q->device);
	q->stopped_at = ktime_get_ns();
	q->open_ns = q->stopped_at - q->reviewed_at;
	q->reviewed_at = q->stopped_at;
	q->idle_reviews = 0;
	q->stop_producer = READ_ONCE(ring->producer);
	q->unpaid_ns -= min(q->unpaid_ns, div_u64(q->open_ns, PASS_FACTOR));
	__queue_inherit_debt(q);
	__queue_charge(q, 0, __queue_read_since(q, head, fill));
	WRITE_ONCE(q->head, head);
	__queue_arm(q, fill - sluice_low(q, depth), q->stopped_at);
	sluice_backstop_watch();
	trace_queue_stop(q, fill, 0);
}

static void __queue_wake(struct sluice_queue *q, int fill,
			 enum sluice_wake_cause cause)
{
	u64 stopped_ns = ktime_get_ns() - q->stopped_at;

	lockdep_assert_held(&q->lock);

	q->stopped = false;
	atomic_dec(&stopped_queues);
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

/*
 * Senders pass, and a full ring drops their packets as the driver does without
 * us, until the reader has caught up or the time is over: see stall_lasts(). What
 * is unpaid stays so: only open time and packets that are read pay.
 */
static void __queue_stall(struct sluice_queue *q, int fill, u64 now)
{
	lockdep_assert_held(&q->lock);

	WRITE_ONCE(q->pass_until, now + PASS_FACTOR * stall_ns(q));
	WRITE_ONCE(q->stalled, true);
	q->debt_seen = q->pass_until;
	WRITE_ONCE(q->device->debt_until, q->pass_until);
	q->stalls++;
	sluice_events_schedule(q->device);
	trace_queue_stall(q, fill, now - q->stopped_at);
	__queue_wake(q, fill, SLUICE_WAKE_OTHER);
}

/*
 * A stopped queue is reviewed: wake it, stall it, or review it again later. The
 * timer is @late, nanoseconds.
 * proofs/litmus: stop_against_wake, reader_without_barrier
 * Context: q->lock and RCU read side: hard irq of the timer, or the backstop.
 */
static void __queue_review(struct sluice_queue *q, u64 late)
{
	struct ptr_ring *ring = queue_ring(q);
	int head, limit, depth, low, packets;
	struct sluice_ring_count count;
	u64 now = ktime_get_ns();
	u64 ns = now - q->reviewed_at;
	u64 idle = 0;
	bool over;

	lockdep_assert_held(&q->lock);

	if (!ring || ring != q->ring || READ_ONCE(ring->size) != q->size ||
	    !qdisc_may_hold(q->txq)) {
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
		return;
	}

	head = READ_ONCE(ring->consumer_head);
	count = sluice_count_ring(ring, q->size, true);
	packets = __queue_read_since(q, head, count.used);
	q->stop_read += packets;
	__queue_pay_review(q, packets, now);
	if (packets)
		idle = sluice_learn_pace(q, packets, ns, !count.fill);
	late -= min(late, stall_ns(q) / 4);
	__queue_charge(q, ns - min(ns, max(idle, late)), packets);
	WRITE_ONCE(q->head, head);
	q->reviewed_at = now;
	limit = sluice_limit(q, ring, q->size);
	depth = sluice_depth(q, limit);
	low = sluice_low(q, depth);
	over = now - q->stopped_at >= stall_ns(q);

	if (count.used < limit &&
	    count.fill <= low + (depth - low) / WAKE_EARLY) {
		sluice_learn_headroom(q, ring);
		sluice_learn_depth(q, idle);
		__queue_wake(q, count.fill, SLUICE_WAKE_TIMER);
	} else if (q->unpaid_ns >= stall_ns(q) ||
		   (over && __queue_is_crowded(q, count.fill))) {
		__queue_stall(q, count.fill, now);
	} else if (over) {
		__queue_wake(q, count.fill, SLUICE_WAKE_TIMER);
	} else {
		__queue_arm(q, max(count.fill - low, count.used - limit + 1), now);
	}
}

/* proofs/litmus: expiry_against_stop */
static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct sluice_queue *q = container_of(timer, struct sluice_queue, timer);
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (q->stopped)
		__queue_review(q, __queue_learn_lateness(q));
	raw_spin_unlock_irqrestore(&q->lock, flags);
	return HRTIMER_NORESTART;
}

/*
 * Whether senders still pass. The stall ends when the reader has caught up, at
 * @low packets; or when its time is over and the reader has read anything since,
 * so that senders do not wait for a dead reader again and again.
 */
static bool stall_lasts(const struct sluice_queue *q,
			const struct ptr_ring *ring, int fill, int low)
{
	if (likely(!READ_ONCE(q->stalled)) || fill <= low)
		return false;
	return READ_ONCE(ring->consumer_head) == READ_ONCE(q->head) ||
	       ktime_get_ns() < READ_ONCE(q->pass_until);
}

/*
 * A sender found the queue to be stopped (@full), or a stall over. While it waited for
 * the lock the queue may have been stopped and stalled, or got another ring: then
 * the next sender looks. proofs/litmus: off_against_stop
 */
static void queue_filled(struct sluice_queue *q, struct ptr_ring *ring,
			 int fill, int depth, bool full)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (ring == q->ring &&
	    !stall_lasts(q, ring, fill, sluice_low(q, depth))) {
		WRITE_ONCE(q->stalled, false);
		if (full && q->open)
			__queue_stop(q, ring, fill, depth);
	}
	raw_spin_unlock_irqrestore(&q->lock, flags);
}

/*
 * The file or the size is not that of the last check, or sluice_queue_opened()
 * made the queue forget its file, which a reader can cause (TUNSETPERSIST). So
 * a stall goes on if the ring is the same. It may be another at the same address,
 * or have been emptied. So what was read until now does not pay for anything, and
 * if the queue was stalled the next stop stalls at once if nothing is read: whoever
 * opens or attaches a device again and again, and does not read, would otherwise
 * hold the senders anew each time.
 */
static bool queue_adopted(struct sluice_queue *q, void *file, int size)
{
	struct ptr_ring *ring = sluice_layout_ring(file);
	unsigned long flags;

	if (sluice_layout_check(q->slot))
		return false;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (q->stalled)
		q->unpaid_ns = stall_ns(q);
	if (ring != q->ring || size != q->size) {	/* during a stop, too */
		WRITE_ONCE(q->stalled, false);
		q->stop_producer = READ_ONCE(ring->producer);
		WRITE_ONCE(q->headroom, INT_MAX);
	}
	q->stop_read = 0;
	q->stop_fill = size;	/* it is not crowded */
	WRITE_ONCE(q->head, READ_ONCE(ring->consumer_head));
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
static void set_next_check(struct sluice_queue *q, s64 check, int producer,
			   int room, int size)
{
	int span = clamp_t(int, room, 0, sluice_check_span(size));
	u32 last = min(producer + span, size) - 1;
	u64 checks = sluice_check_count(check);

	if (sluice_check_last(check) != last)
		atomic64_cmpxchg(&q->next_check, check, (checks + 1) << 32 | last);
}

/**
 * sluice_queue_check() - a packet is about to enter a ring that may be filling
 * @q: its queue; if it is closed, nothing but that is read
 *
 * Context: BH off.
 */
void sluice_queue_check(struct sluice_queue *q)
{
	int size, producer, limit, depth, room, beyond;
	struct sluice_ring_count count;
	struct ptr_ring *ring;
	void *file;
	bool full;
	s64 check;

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
	    !queue_adopted(q, file, size))
		return;

	producer = READ_ONCE(ring->producer);
	count = sluice_count_ring(ring, size, false);
	limit = sluice_limit(q, ring, size);
	depth = sluice_depth(q, limit);
	if (!qdisc_may_hold(q->txq)) {	/* until it may: stock behaviour */
		set_next_check(q, check, producer, limit - count.used - 1, size);
		return;
	}
	if (count.used >= size)
		atomic64_inc(&q->drops);
	if (stall_lasts(q, ring, count.fill, sluice_low(q, depth))) {
		set_next_check(q, check, producer, 0, size);
		return;
	}
	room = min(limit - count.used, depth - count.fill) - 1;
	set_next_check(q, check, producer, room, size);
	beyond = netdev_xmit_more() ? LIST_PACKETS : 0;
	full = min(limit - count.used, depth + beyond - count.fill) <= 1;
	if (full || unlikely(READ_ONCE(q->stalled)))
		queue_filled(q, ring, count.fill, depth, full);
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
	sluice_reset_depth(q);
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
	q->unpaid_ns = 0;
	WRITE_ONCE(q->stalled, false);
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
			__queue_review(q, late);
		}
	}
	raw_spin_unlock_irq(&q->lock);
	return lost;
}

static enum sluice_queue_state
__queue_state(const struct sluice_queue *q, const struct ptr_ring *ring,
	      const struct sluice_queue_view *view)
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
	return stall_lasts(q, ring, view->fill, view->low) ?
		       SLUICE_QUEUE_STALLED : SLUICE_QUEUE_OPEN;
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
	struct ptr_ring *ring;

	memset(view, 0, sizeof(*view));
	rcu_read_lock_bh();
	ring = q->device->verified ? queue_ring(q) : NULL;
	if (ring && READ_ONCE(ring->size) > 0) {
		view->size = READ_ONCE(ring->size);
		view->fill = sluice_count_ring(ring, view->size, false).fill;
		view->limit = sluice_depth(q, sluice_limit(q, ring, view->size));
		view->low = sluice_low(q, view->limit);
	}
	raw_spin_lock_irq(&q->lock);
	view->state = __queue_state(q, ring, view);
	view->reader_ns = q->reader_ns;
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
	sluice_init_depth(q);
	raw_spin_lock_init(&q->lock);
	hrtimer_setup(&q->timer, timer_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
}
