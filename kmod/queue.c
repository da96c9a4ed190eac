// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: when a queue stops, wakes and stalls
 *
 * A queue is in one of four states::
 *
 *   closed   device down, off, or not ours to serve: we touch nothing
 *   open     packets flow; a sender looks at the ring now and then
 *   stopped  we set __QUEUE_STATE_DRV_XOFF; the timer is armed
 *   stalled  the reader is dead, or others take all the room it makes;
 *            packets flow, the driver drops them
 *
 * Assumes:
 *   - a sender is in the driver with BH off, so each CPU holds at most one
 *     packet between the core's test of the stopped bit and the ring;
 *   - the driver frees a ring's struct a grace period after unpublishing it;
 *   - the reader moves consumer_head with each packet and consumer_tail, the
 *     first slot that is not yet free, at least once per ring->batch packets.
 *
 * Guarantees, while the qdisc has a queue and the reader lives (after a qdisc
 * without one, from the next look on, a quarter of the ring later at most):
 *   - the ring never overflows, with any number of senders, as long as half
 *     the ring is more than headroom_for() asks;
 *   - a queue we stopped has an armed timer: both change only under q->lock,
 *     and so a wake-up cannot be lost;
 *   - we clear the stopped bit only if we set it, and never after the device
 *     was announced to go down;
 *   - a sender waits at most stall_ms for a reader that shows no life, and for
 *     one whose room others take (XDP_REDIRECT) until it read a ring of packets,
 *     or stall_ms if that is longer.
 *
 * Does not guarantee:
 *   - room for what is put into the ring without passing the transmit
 *     function (XDP_REDIRECT);
 *   - anything on a device whose qdisc has no queue: that is stock.
 *
 * Headroom. Let n be the CPUs. When a sender finds the limit reached, others
 * may have found it not reached and not yet put their packet into the ring
 * (n - 1), and once they did each CPU may be past the stopped test again
 * (n): 2n - 1 packets after the last look that passed. The reader frees slots
 * in batches, from the last to the first, and tells so without a barrier: one
 * batch more. See docs/design.md and proofs/.
 *
 * Depth. With target_us the queue stops earlier, and wakes at a part of that:
 * at the packets its reader, at its own pace, reads in that time. The pace is
 * learned while the queue is stopped, for then the reader has work; a reader
 * that ran dry gets more. See docs/design.md.
 *
 * Looks. Reading the reader's indices costs a cache miss, so a sender does it
 * only when the ring could have reached its limit since the last look:
 * q->look holds the producer index at which that can be. Whoever looks
 * writes it, without lock, unless somebody else did since: a sender that was
 * held up for a part of the ring would make an index of the past look like
 * one of the future.
 */
#include <linux/math64.h>
#include <net/sch_generic.h>

#include "compat.h"
#include "sluice.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * A review comes no sooner than a softirq can do something useful, and no
 * later than a reader that suddenly is faster may be without work. The latter
 * is learned (q->patience_ns), as each review costs an idle CPU its sleep. An
 * unannounced change (a new qdisc, a vanished reader) waits for it, too.
 */
#define REVIEW_MIN_NS		(20 * NSEC_PER_USEC)
#define PATIENCE_MIN_NS		(2 * NSEC_PER_MSEC)
#define PATIENCE_MAX_NS		(20 * NSEC_PER_MSEC)
#define READER_NS_AT_FIRST	NSEC_PER_MSEC

/* Packets are counted in fractions, so that few of them can fade, too. */
#define PACE_SCALE		64

/* The least a ring is held to, in packets, and the most, in time. */
#define DEPTH_MIN		4
#define DEPTH_MAX_NS		(SLUICE_TARGET_US_MAX * NSEC_PER_USEC)

static struct ptr_ring *queue_ring(const struct sluice_queue *q)
{
	return sluice_layout_ring(READ_ONCE(*q->slot));
}

/*
 * OPEN if packets may wait in the qdisc. Not if it has no queue, nor if this
 * kernel frees some of them twice when one of several queues is closed.
 */
static enum sluice_queue_state qdisc_state(const struct netdev_queue *txq)
{
	if (!READ_ONCE(rcu_access_pointer(txq->qdisc)->enqueue))
		return SLUICE_QUEUE_NOQUEUE;
	if (!SLUICE_LOCKED_RESET && txq->dev->num_tx_queues > 1 &&
	    rcu_access_pointer(txq->qdisc)->flags & TCQ_F_NOLOCK)
		return SLUICE_QUEUE_LOCKLESS;
	return SLUICE_QUEUE_OPEN;
}

static bool qdisc_may_hold(const struct netdev_queue *txq)
{
	return qdisc_state(txq) == SLUICE_QUEUE_OPEN;
}

/*
 * Slots from @from forward to @to, 0 to @size - 1, whatever is seen of a ring
 * that changes: the producer may be at the end for a moment before it is at 0,
 * and a ring that is resized may show indices of its other size.
 */
static int slots_between(int from, int to, int size)
{
	int slots = to - from;

	if (slots < 0)
		slots += size;
	return (unsigned int)slots < (unsigned int)size ? slots : 0;
}

/*
 * Slots that are not free: the packets, and what was read of the batch that is
 * not yet handed back. Reads the tail first: a batch handed back meanwhile
 * makes the answer too high, never too low. A full ring looks empty; see
 * __ring_used_exact().
 */
static int ring_used(const struct ptr_ring *ring, int size)
{
	int tail = READ_ONCE(ring->consumer_tail);

	smp_rmb(); /* proofs/litmus: tail_before_slots, tail_before_producer */
	return slots_between(tail, READ_ONCE(ring->producer), size);
}

/*
 * The same, but a full ring is told from an empty one: the newest packet is
 * still there. (The slot the producer is at would not do. The reader clears
 * the last slot of a batch before it moves the tail.)
 */
static int __ring_used_exact(const struct ptr_ring *ring, int size)
{
	int used, newest;

	lockdep_assert_held(&ring->producer_lock);

	used = ring_used(ring, size);
	if (used || ring->size != size)
		return used;
	newest = ring->producer ? ring->producer - 1 : size - 1;
	return READ_ONCE(ring->queue[newest]) ? size : 0;
}

/* Context: BH off, no lock of ours: takes the producer's lock if in doubt. */
static int ring_used_exact(struct ptr_ring *ring, int size)
{
	int used = ring_used(ring, size);

	if (used)
		return used;
	spin_lock(&ring->producer_lock);
	used = __ring_used_exact(ring, size);
	spin_unlock(&ring->producer_lock);
	return used;
}

/* Context: hard irq, which may have interrupted the lock's holder: then the
 * answer errs high, and the next review tells.
 */
static int ring_used_in_irq(struct ptr_ring *ring, int size)
{
	int used = ring_used(ring, size);

	if (used)
		return used;
	if (!spin_trylock(&ring->producer_lock))
		return size;
	used = __ring_used_exact(ring, size);
	spin_unlock(&ring->producer_lock);
	return used;
}

/*
 * Packets among @used slots, as one of the above told. The head and the producer
 * are where all was read, and where nothing was of a full ring. The reader may
 * move the tail past a head that is about to follow.
 */
static int ring_fill(const struct ptr_ring *ring, int size, int used)
{
	int fill = slots_between(READ_ONCE(ring->consumer_head),
				 READ_ONCE(ring->producer), size);

	if (!fill)
		return used == size ? size : 0;
	return min(fill, used);
}

/* Slots kept free for senders that are past the stopped test. */
static int headroom_for(const struct ptr_ring *ring, int size)
{
	return min_t(int, 2 * num_online_cpus() + READ_ONCE(ring->batch),
		     size / 2);
}

/*
 * Slots in use at which the queue stops; at least one packet always fits. Half
 * a ring at least, and so more than what was read of a batch: an empty ring is
 * below it.
 */
static int limit_for(const struct ptr_ring *ring, int size)
{
	return max(size - headroom_for(ring, size), 1);
}

/*
 * Packets at which the queue stops: as many as the operator says, or as the
 * reader reads in a while.
 */
static int depth_for(const struct sluice_queue *q, int limit)
{
	u32 wanted = READ_ONCE(q->device->limit);

	if (wanted && wanted < limit)
		limit = wanted;
	if (!READ_ONCE(q->device->target_us))
		return limit;
	return min_t(int, READ_ONCE(q->depth), limit);
}

/* Packets at which the queue wakes; below the depth. */
static int low_for(const struct sluice_queue *q, int depth)
{
	return depth * READ_ONCE(q->device->low_percent) / 100;
}

static u64 stall_ns(const struct sluice_queue *q)
{
	return (u64)READ_ONCE(q->device->stall_ms) * NSEC_PER_MSEC;
}

static void __queue_arm(struct sluice_queue *q, u64 ns)
{
	lockdep_assert_held(&q->lock);
	hrtimer_start(&q->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
}

/*
 * The moment a reader at its learned pace has read @packets, less what timers
 * were late of late: a CPU may sleep, or be a virtual one that waits.
 */
static void __queue_arm_after(struct sluice_queue *q, int packets)
{
	s64 ns = (u64)q->reader_ns * packets - q->late_ns;
	u64 most = min_t(u64, q->patience_ns, stall_ns(q));

	__queue_arm(q, clamp_t(s64, ns, REVIEW_MIN_NS, most));
}

static void __queue_learn_lateness(struct sluice_queue *q)
{
	s64 late = ktime_to_ns(hrtimer_cb_get_time(&q->timer)) -
		   ktime_to_ns(hrtimer_get_expires(&q->timer));

	lockdep_assert_held(&q->lock);
	q->late_ns = (7LL * q->late_ns +
		      clamp_t(s64, late, 0, PATIENCE_MIN_NS)) / 8;
}

/* proofs/litmus: stop_against_wake, expiry_against_stop, one_owner */
static void __queue_stop(struct sluice_queue *q, struct ptr_ring *ring,
			 int fill, int depth)
{
	lockdep_assert_held(&q->lock);

	/* Somebody else stopped it: theirs to wake. If somebody else woke
	 * our stop, our timer is still armed and it is ours again.
	 */
	if (test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &q->txq->state) ||
	    q->stopped)
		return;

	q->stopped = true;
	if (!q->stops++)
		sluice_events_due(q->device);
	q->stopped_at = ktime_get_ns();
	q->alive_at = q->stopped_at;
	q->passed = 0;
	WRITE_ONCE(q->head, READ_ONCE(ring->consumer_head));
	__queue_arm_after(q, fill - low_for(q, depth));
	trace_queue_stop(q, fill, 0);
}

static void __queue_wake(struct sluice_queue *q, int fill,
			 enum sluice_wake_cause cause)
{
	u64 stopped_ns = ktime_get_ns() - q->stopped_at;

	lockdep_assert_held(&q->lock);

	q->stopped = false;
	q->wakes[cause]++;
	if (stopped_ns > q->longest_stop_ns)
		q->longest_stop_ns = stopped_ns;
	trace_queue_wake(q, fill, stopped_ns);
	netif_tx_wake_queue(q->txq);
}

/* What the reader reads in the time the ring shall last, for senders. */
static void __queue_set_depth(struct sluice_queue *q)
{
	u64 ns = max_t(u64, q->depth_ns,
		       READ_ONCE(q->device->target_us) * NSEC_PER_USEC);

	lockdep_assert_held(&q->lock);
	WRITE_ONCE(q->depth, clamp_t(u64, div_u64(ns, q->reader_ns + 1),
				     DEPTH_MIN, INT_MAX));
}

/*
 * The reader read @packets since its last sign of life: learn its pace, the
 * time over the packets of late. A reader that ran dry waited for some of that
 * time: then only a faster pace is news, and what was known before is wrong.
 * Returns how long it waited, nanoseconds.
 */
static u64 __queue_learn(struct sluice_queue *q, int packets, u64 now, bool dry)
{
	u64 ns = min_t(u64, now - q->alive_at, NSEC_PER_SEC);
	u64 busy = (u64)q->reader_ns * packets;

	lockdep_assert_held(&q->lock);

	q->alive_at = now;
	if (dry && ns >= busy)
		return ns - busy;
	if (!dry) {
		q->read_ns += ns - q->read_ns / 8;
		q->read += packets * PACE_SCALE - q->read / 8;
	} else {
		q->read_ns = 8 * ns;
		q->read = 8 * packets * PACE_SCALE;
	}
	q->reader_ns = div64_u64(q->read_ns * PACE_SCALE, q->read);
	__queue_set_depth(q);
	return 0;
}

/*
 * A review saw progress, and @excess packets above those the queue wakes at. A
 * ring that ran dry shows that it came late; one that needs more time than a
 * review may take, that it came early.
 */
static void __queue_learn_patience(struct sluice_queue *q, bool dry, int excess)
{
	u32 ns = q->patience_ns;

	lockdep_assert_held(&q->lock);

	if (dry)
		ns /= 2;
	else if (excess > 0 && (u64)q->reader_ns * excess > ns)
		ns += ns / 32;
	q->patience_ns = clamp_t(u32, ns, PATIENCE_MIN_NS, PATIENCE_MAX_NS);
}

/*
 * How long the ring shall last: the target, and longer for a while if that left
 * the reader without work for @idle nanoseconds.
 */
static void __queue_set_depth_ns(struct sluice_queue *q, u64 idle)
{
	u64 target = READ_ONCE(q->device->target_us) * NSEC_PER_USEC;
	u64 depth_ns = max(q->depth_ns, target);

	lockdep_assert_held(&q->lock);

	if (idle)
		depth_ns += min(idle, depth_ns / 2);
	else
		depth_ns -= (depth_ns - target) / 64;
	q->depth_ns = min_t(u64, depth_ns, DEPTH_MAX_NS);
	__queue_set_depth(q);
}

/*
 * Stock's tail drop until the reader reads. Where it does, but somebody who asks
 * nobody takes the room, for as long as the senders waited.
 */
static void __queue_stall(struct sluice_queue *q, int fill, u64 now, bool crowded)
{
	u64 waited = now - q->stopped_at;

	lockdep_assert_held(&q->lock);

	WRITE_ONCE(q->stalled_until, crowded ? now + waited : now);
	WRITE_ONCE(q->stalled, true);
	q->stalls++;
	sluice_events_due(q->device);
	trace_queue_stall(q, fill, waited);
	__queue_wake(q, fill, SLUICE_WAKE_OTHER);
}

/*
 * A stopped queue is looked at: wake it, call its reader dead, or come back.
 * proofs/litmus: stop_against_wake, reader_without_barrier
 * Context: q->lock, hard irq on the CPU of the sender.
 */
static void __queue_review(struct sluice_queue *q, enum sluice_wake_cause cause)
{
	struct ptr_ring *ring = queue_ring(q);
	int used, fill, head, limit, excess, packets;
	u64 now = ktime_get_ns();
	u64 idle = 0;
	bool crowded;

	lockdep_assert_held(&q->lock);

	if (!ring || ring != q->ring || READ_ONCE(ring->size) != q->size ||
	    !qdisc_may_hold(q->txq)) {
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
		return;
	}

	head = READ_ONCE(ring->consumer_head);
	used = ring_used_in_irq(ring, q->size);
	fill = ring_fill(ring, q->size, used);
	packets = slots_between(q->head, head, q->size);
	if (packets) {
		idle = __queue_learn(q, packets, now, !fill);
		q->passed += packets;
		WRITE_ONCE(q->head, head);
	}
	limit = limit_for(ring, q->size);
	excess = max(fill - low_for(q, depth_for(q, limit)), used - limit + 1);
	/* All that was in the ring is gone, and others filled it. */
	crowded = q->passed >= q->size && now - q->stopped_at >= stall_ns(q);
	if (packets)
		__queue_learn_patience(q, !fill, excess);

	if (excess <= 0) {
		__queue_set_depth_ns(q, idle);
		__queue_wake(q, fill, cause);
	} else if (crowded || now - q->alive_at >= stall_ns(q)) {
		__queue_stall(q, fill, now, crowded);
	} else {
		__queue_arm_after(q, excess);
	}
}

/* proofs/litmus: expiry_against_stop */
static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct sluice_queue *q = container_of(timer, struct sluice_queue, timer);
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	if (q->stopped) {
		__queue_learn_lateness(q);
		__queue_review(q, SLUICE_WAKE_TIMER);
	}
	raw_spin_unlock_irqrestore(&q->lock, flags);
	return HRTIMER_NORESTART;
}

/* A sender found the limit reached. proofs/litmus: off_against_stop */
static void queue_filled(struct sluice_queue *q, struct ptr_ring *ring,
			 int fill, int depth)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&q->lock, flags);
	WRITE_ONCE(q->stalled, false);
	if (q->open)
		__queue_stop(q, ring, fill, depth);
	raw_spin_unlock_irqrestore(&q->lock, flags);
}

/*
 * Nothing was read since the reader was called dead, or others have the room for
 * a while: this packet is stock's to keep or to drop. The ring was not empty then:
 * if it is, the reader read all of it, and its head came round to where it was.
 */
static bool stall_lasts(struct sluice_queue *q, struct ptr_ring *ring, int size)
{
	int used;

	if (likely(!READ_ONCE(q->stalled)) ||
	    (READ_ONCE(ring->consumer_head) != READ_ONCE(q->head) &&
	     ktime_get_ns() >= READ_ONCE(q->stalled_until)))
		return false;
	used = ring_used_exact(ring, size);
	if (used >= size)
		atomic64_inc(&q->drops);
	return used > 0;
}

/* A ring we have not seen behind this queue, or not at this size. */
static bool queue_adopted(struct sluice_queue *q, void *file, int size)
{
	struct ptr_ring *ring = sluice_layout_ring(file);
	unsigned long flags;

	if (sluice_layout_check(q->slot))
		return false;

	raw_spin_lock_irqsave(&q->lock, flags);
	WRITE_ONCE(q->stalled, false);
	if (ring != q->ring || size != q->size)	/* of a stop that lasts */
		WRITE_ONCE(q->head, READ_ONCE(ring->consumer_head));
	WRITE_ONCE(q->size, size);
	WRITE_ONCE(q->ring, ring);
	/* pairs with look_is_due(); proofs/litmus: ring_before_file */
	smp_store_release(&q->file, file);
	raw_spin_unlock_irqrestore(&q->lock, flags);
	return true;
}

/*
 * Look again @room packets on from where the producer was at this look, or where
 * the ring begins anew, unless somebody wrote meanwhile.
 * proofs/litmus: look_exchanged
 */
static void look_next(struct sluice_queue *q, s64 look, int producer, int room,
		      int size)
{
	int span = clamp_t(int, room, 0, sluice_look_span(size));
	u32 last = min(producer + span, size) - 1;
	u64 looks = (u64)look >> 32;

	if (sluice_look_last(look) != last)
		atomic64_cmpxchg(&q->look, look, (looks + 1) << 32 | last);
}

/**
 * sluice_queue_look() - a packet is about to enter a ring that may be filling
 * @q: its queue; of a device that is not served, nothing but that is read
 *
 * Context: BH off.
 */
void sluice_queue_look(struct sluice_queue *q)
{
	int size, producer, limit, depth, used, fill, room;
	struct ptr_ring *ring;
	void *file;
	s64 look;

	if (!READ_ONCE(q->device->served))
		return;
	look = atomic64_read(&q->look);
	/* proofs/litmus: look_before_producer */
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
	limit = limit_for(ring, size);
	if (!qdisc_may_hold(q->txq)) {	/* stock's, until it may again */
		room = limit - ring_used(ring, size) - 1;
		look_next(q, look, producer, room, size);
		return;
	}
	if (stall_lasts(q, ring, size)) {
		look_next(q, look, producer, 0, size);
		return;
	}
	depth = depth_for(q, limit);
	used = ring_used_exact(ring, size);
	fill = ring_fill(ring, size, used);
	room = min(limit - used, depth - fill) - 1;
	look_next(q, look, producer, room, size);
	if (room <= 0) {
		if (used >= size)
			atomic64_inc(&q->drops);
		queue_filled(q, ring, fill, depth);
		return;
	}
	if (unlikely(READ_ONCE(q->stalled)))
		WRITE_ONCE(q->stalled, false);
}

/**
 * sluice_queue_opened() - from now on the queue may be stopped
 * @q: the queue
 *
 * Also called when something about its reader changed: forget the file, so
 * that the next sender looks.
 *
 * Context: process, RTNL.
 */
void sluice_queue_opened(struct sluice_queue *q)
{
	raw_spin_lock_irq(&q->lock);
	q->open = true;
	__queue_set_depth(q);
	WRITE_ONCE(q->file, NULL);
	raw_spin_unlock_irq(&q->lock);
}

/**
 * sluice_queue_closed() - our stop, if any, is undone, and none follows
 * @q: the queue
 *
 * Context: process, RTNL; may sleep until the timer's handler is done.
 * proofs/litmus: off_against_stop, off_cancels_timer
 */
void sluice_queue_closed(struct sluice_queue *q)
{
	raw_spin_lock_irq(&q->lock);
	q->open = false;
	WRITE_ONCE(q->stalled, false);
	if (q->stopped)
		__queue_wake(q, 0, SLUICE_WAKE_OTHER);
	raw_spin_unlock_irq(&q->lock);
	hrtimer_cancel(&q->timer);
}

static enum sluice_queue_state __queue_state(const struct sluice_queue *q,
					     const struct ptr_ring *ring)
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
	return READ_ONCE(q->stalled) ? SLUICE_QUEUE_STALLED : SLUICE_QUEUE_OPEN;
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
		view->fill = ring_fill(ring, view->size,
				       ring_used_exact(ring, view->size));
		view->limit = depth_for(q, limit_for(ring, view->size));
		view->low = low_for(q, view->limit);
	}
	raw_spin_lock_irq(&q->lock);
	view->state = __queue_state(q, ring);
	view->reader_ns = q->reader_ns;
	view->stops = q->stops;
	memcpy(view->wakes, q->wakes, sizeof(view->wakes));
	view->stalls = q->stalls;
	view->longest_stop_ns = q->longest_stop_ns;
	view->drops = atomic64_read(&q->drops);
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
	q->reader_ns = READER_NS_AT_FIRST;
	q->read = PACE_SCALE;
	q->read_ns = READER_NS_AT_FIRST;
	q->patience_ns = PATIENCE_MIN_NS;
	raw_spin_lock_init(&q->lock);
	hrtimer_setup(&q->timer, timer_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
}
