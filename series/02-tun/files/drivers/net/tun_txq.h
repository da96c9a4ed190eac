/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Backpressure for TUN/TAP: when a transmit queue stops and when it wakes.
 */
#ifndef _TUN_TXQ_H
#define _TUN_TXQ_H

#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/netdevice.h>
#include <linux/ptr_ring.h>
#include <net/sch_generic.h>

/**
 * DOC: transmit queue of a TUN/TAP file
 *
 * The ring between ndo_start_xmit and the reader of the file shall neither
 * overflow nor hold packets for long, so that the qdisc in front of it can do
 * its work.
 *
 * Stop. A sender reserves a slot of the ring before it changes the skb. If no
 * slot is left it stops the queue and returns NETDEV_TX_BUSY, so no packet is
 * lost however many CPUs are in the driver at once (the driver is lockless).
 * A sender also stops the queue behind a packet that makes the ring longer than
 * &tun_txq.depth: as many packets as the reader reads in &tun_txq.depth_ns.
 * That is TUN_TXQ_TARGET_NS, or a quarter of it while senders refill the ring
 * at least four times as fast as it is read; but not less than the time of
 * TUN_TXQ_QUICK_PACKETS, if that is within the target: each stop takes a timer
 * and a run of the qdisc. A list of segments is not divided before the ring
 * holds TUN_TXQ_LIST_PACKETS more: the core would put the rest back in front of
 * the qdisc's packets, which wait for it either way, and send each segment as if
 * it came alone.
 *
 * Wake. Whoever stops the queue arms a timer on its own CPU. The timer reviews
 * the ring when the reader should have halved it, less the time that timers
 * come late, and wakes the queue (also if it comes a little early) or arms
 * itself again. The reader does not take part: it runs no barrier and reads no
 * flag, and the NET_TX softirq that refills the ring runs on the CPU of the
 * sender. A queue this code stopped has a timer that is armed or is about to
 * take the lock; both change under the producer lock only, so there is no
 * wake-up to lose.
 *
 * Bound. A stop ends after TUN_TXQ_STOP_MAX_NS whatever the reader does. A
 * reader that reads fewer than TUN_TXQ_READ_MIN packets in that much stopped
 * time is stalled: for eight times as long and until it reads on, or until it
 * has emptied the ring, packets that find the ring full are dropped and the
 * queue is not stopped. So a dead reader holds its senders in two stops at most,
 * unless reviews come more than TUN_TXQ_PAUSE_NS late. The same if a stop lasted
 * for that long although the reader reads: then somebody who does not wait
 * (XDP_REDIRECT) put in one packet for every two that were read. A pause of the
 * machine is not held against the reader.
 *
 * Nothing is done where packets cannot wait (noqueue), and where timers are so
 * coarse that the ring would be empty between two of them.
 *
 * All fields are protected by the ring's producer lock.
 */
#define TUN_TXQ_TARGET_NS	(2 * NSEC_PER_MSEC)
#define TUN_TXQ_QUICK_REFILL	4
#define TUN_TXQ_QUICK_PACKETS	16
#define TUN_TXQ_DEPTH_MAX_NS	(100 * NSEC_PER_MSEC)
#define TUN_TXQ_DEPTH_MIN	4
#define TUN_TXQ_LIST_PACKETS	64

#define TUN_TXQ_REVIEW_MIN_NS	(20 * NSEC_PER_USEC)
#define TUN_TXQ_REVIEW_MAX_NS	(2 * NSEC_PER_MSEC)
#define TUN_TXQ_BACKOFF_MAX	5

/* The lateness of timers is subtracted when they are armed, so every other comes
 * a little early. A queue wakes where no more than this part of its way is left:
 * one timer more for each stop is what costs most.
 */
#define TUN_TXQ_WAKE_EARLY	4

#define TUN_TXQ_STOP_MAX_NS	(250 * NSEC_PER_MSEC)
#define TUN_TXQ_STALL_JIFFIES	(2 * HZ)
#define TUN_TXQ_READ_MIN	50

/* A review that comes later found the machine paused, and so the reader. */
#define TUN_TXQ_PAUSE_NS	(16 * NSEC_PER_MSEC)

#define TUN_TXQ_RESOLUTION_MAX_NS	NSEC_PER_MSEC

/* In hard interrupt context, so that a sender finds the queue awake even where
 * the CPU's softirqs wait for ksoftirqd. Not without SMP: there a spin_trylock()
 * never fails, and a hard interrupt may have interrupted the holder.
 */
#define TUN_TXQ_TIMER_MODE	(IS_ENABLED(CONFIG_SMP) && \
				 !IS_ENABLED(CONFIG_PREEMPT_RT) ? \
				 HRTIMER_MODE_REL_PINNED_HARD : \
				 HRTIMER_MODE_REL_PINNED_SOFT)

/* Packets are counted in 1/64, so that a few of them can be averaged. */
#define TUN_TXQ_PACKET		64

struct tun_txq_stats {
	u64 stops;
	u64 wakes;
};

/**
 * struct tun_txq - transmit queue of a TUN/TAP file
 * @reserved:		slots promised to senders that are in the driver
 * @room:		packets that may follow before the length is tested
 * @depth:		length above which the queue stops
 * @stalled:		the reader is too slow to wait for it
 * @stopped:		the queue that is stopped, or NULL
 * @stalled_until:	jiffies
 * @head:		the reader's index at the last review
 * @stop_read:		packets read in this stop
 * @stop_len:		packets in the ring when it began
 * @window_read:	packets read in @window_ns
 * @window_ns:		stopped time that counts, up to TUN_TXQ_STOP_MAX_NS
 * @stopped_at:		time of the last stop
 * @open_ns:		time from the review before it to the last stop
 * @reviewed_at:	time of the last review or stop
 * @idle_reviews:	reviews since packets were seen to be read
 * @late_ns:		average lateness of the timer
 * @packet_ns:		time the reader needs for a packet
 * @sum_ns:		fading sum of the time it worked
 * @sum_packets:	fading sum of the packets it read in that time
 * @depth_ns:		time the ring shall last
 * @stats:		stops and wakes
 * @timer:		reviews a stopped queue
 * @ring:		the ring of the same file
 */
struct tun_txq {
	int reserved ____cacheline_aligned_in_smp;
	int room;
	int depth;
	bool stalled;
	struct netdev_queue *stopped;
	unsigned long stalled_until;

	int head;
	int stop_read;
	int stop_len;
	int window_read;
	u64 window_ns;
	u64 stopped_at;
	u64 open_ns;
	u64 reviewed_at;
	int idle_reviews;
	s32 late_ns;
	u32 packet_ns;
	u64 sum_ns;
	u32 sum_packets;
	s64 depth_ns;

	struct tun_txq_stats stats;
	struct hrtimer timer;
	struct ptr_ring *ring;
};

/* Length above which the queue stops. A batch of read slots may not be free yet. */
static inline int tun_txq_limit(const struct tun_txq *txq)
{
	return clamp(txq->ring->size - txq->ring->batch, 1, txq->depth);
}

/* Segments of a list that may follow beyond that, where they find a free slot. */
static inline int tun_txq_list(const struct tun_txq *txq)
{
	return clamp(txq->ring->size - txq->ring->batch - tun_txq_limit(txq),
		     0, TUN_TXQ_LIST_PACKETS);
}

/* Packets at which the queue shall wake. */
static inline int tun_txq_low(const struct tun_txq *txq)
{
	return tun_txq_limit(txq) / 2;
}

static inline void __tun_txq_set_depth(struct tun_txq *txq)
{
	u64 packets = div_u64(txq->depth_ns, txq->packet_ns);

	txq->depth = clamp_t(u64, packets, TUN_TXQ_DEPTH_MIN, INT_MAX);
}

static inline void __tun_txq_arm(struct tun_txq *txq, int len)
{
	s64 least = TUN_TXQ_REVIEW_MIN_NS <<
		    min(txq->idle_reviews, TUN_TXQ_BACKOFF_MAX);
	int to_read = max(len - tun_txq_low(txq), 0);
	s64 ns = (s64)txq->packet_ns * to_read - txq->late_ns;

	hrtimer_start(&txq->timer,
		      ns_to_ktime(clamp_t(s64, ns, least, TUN_TXQ_REVIEW_MAX_NS)),
		      TUN_TXQ_TIMER_MODE);
}

static inline void __tun_txq_wake(struct tun_txq *txq)
{
	struct netdev_queue *queue = txq->stopped;

	txq->stopped = NULL;
	txq->room = 0;
	/* tun_net_close() takes the lock before it stops all queues */
	if (!netif_running(queue->dev))
		return;
	txq->stats.wakes++;
	netif_tx_wake_queue(queue);
}

static inline void __tun_txq_stop(struct tun_txq *txq,
				  struct netdev_queue *queue, int len)
{
	if (unlikely(txq->stopped && txq->stopped != queue))
		__tun_txq_wake(txq);	/* the file has another index now */

	netif_tx_stop_queue(queue);
	txq->stop_read = 0;
	txq->stop_len = len;
	if (txq->stopped)	/* this CPU passed the test before the stop */
		return;

	txq->stopped = queue;
	txq->stats.stops++;
	txq->head = READ_ONCE(txq->ring->consumer_head);
	txq->stopped_at = ktime_get_ns();
	txq->open_ns = txq->stopped_at - txq->reviewed_at;
	txq->reviewed_at = txq->stopped_at;
	txq->idle_reviews = 0;
	__tun_txq_arm(txq, len);
}

/*
 * The reader read @read packets in the @ns since the last review or stop. Time
 * in which it read nothing does not count. If the ring ran dry it waited for a
 * part of that time: then only a higher pace is news. Returns how long it
 * waited, in nanoseconds: what its pace leaves of the time, and a sixteenth of
 * it at least, because the pace may be higher than what was seen so far.
 */
static inline u64 __tun_txq_learn(struct tun_txq *txq, int read, u64 ns,
				  bool dry)
{
	u64 busy = (u64)txq->packet_ns * read;

	ns = min_t(u64, ns, NSEC_PER_SEC);
	if (!dry) {
		txq->sum_ns += ns - txq->sum_ns / 8;
		txq->sum_packets += read * TUN_TXQ_PACKET -
				    txq->sum_packets / 8;
	} else if (ns < busy) {
		txq->sum_ns = 8 * ns;
		txq->sum_packets = 8 * read * TUN_TXQ_PACKET;
	}
	txq->packet_ns = div_u64(txq->sum_ns * TUN_TXQ_PACKET,
				 txq->sum_packets) + 1;
	return dry ? max(ns - min(ns, busy), ns / 16) : 0;
}

/*
 * A stop ends. The ring shall last for the target, or for a part of it if the
 * senders refilled it that much faster than it was read, and for longer for a
 * while if the stop left the reader without work for @idle nanoseconds.
 */
static inline void __tun_txq_set_depth_ns(struct tun_txq *txq, s64 idle)
{
	u64 stopped_ns = txq->reviewed_at - txq->stopped_at;
	s64 target = TUN_TXQ_TARGET_NS;

	if (TUN_TXQ_QUICK_REFILL * txq->open_ns < stopped_ns)
		target = clamp_t(s64, (s64)TUN_TXQ_QUICK_PACKETS * txq->packet_ns,
				 target / TUN_TXQ_QUICK_REFILL, target);
	if (idle)
		txq->depth_ns += min(idle, txq->depth_ns / 2);
	else
		txq->depth_ns -= (txq->depth_ns - target) / 64;
	txq->depth_ns = min_t(s64, txq->depth_ns, TUN_TXQ_DEPTH_MAX_NS);
	__tun_txq_set_depth(txq);
}

static inline void __tun_txq_learn_lateness(struct tun_txq *txq)
{
	s64 late = ktime_to_ns(hrtimer_cb_get_time(&txq->timer)) -
		   ktime_to_ns(hrtimer_get_expires(&txq->timer));

	late = clamp_t(s64, late, 0, TUN_TXQ_REVIEW_MAX_NS);
	txq->late_ns += ((s32)late - txq->late_ns) / 8;
}

/*
 * True if the stop ends whatever else there is: it lasted for as long as a stop
 * may, or all stops since the reader was last judged did together, and it read too
 * little. @read packets were read in the @ns until this review, and @len are left.
 */
static inline bool __tun_txq_is_over(struct tun_txq *txq, int read, u64 ns,
				     int len)
{
	bool over = txq->reviewed_at - txq->stopped_at >= TUN_TXQ_STOP_MAX_NS;

	txq->stop_read += read;
	txq->window_read += read;
	txq->window_ns += min_t(u64, ns, TUN_TXQ_PAUSE_NS);
	if (txq->window_ns >= TUN_TXQ_STOP_MAX_NS) {
		txq->stalled = txq->window_read < TUN_TXQ_READ_MIN;
		txq->window_read = 0;
		txq->window_ns = 0;
	}
	/* others than our senders fill the room */
	if (over && txq->stop_read >= TUN_TXQ_READ_MIN &&
	    2 * (txq->stop_read + len - txq->stop_len) >= txq->stop_read)
		txq->stalled = true;
	if (txq->stalled)
		txq->stalled_until = jiffies + TUN_TXQ_STALL_JIFFIES;
	return txq->stalled || over;
}

static inline void __tun_txq_review(struct tun_txq *txq)
{
	struct ptr_ring *ring = txq->ring;
	int head = READ_ONCE(ring->consumer_head);
	int len = __ptr_ring_len(ring);
	int read = head - txq->head;
	u64 now = ktime_get_ns();
	u64 ns = now - txq->reviewed_at;
	u64 idle = 0;
	bool over;
	int low;

	if (read < 0)
		read += ring->size;
	if (read < 0 || read >= ring->size)	/* it was resized */
		read = 0;
	/* fewer are left than were there, and none was read: the whole ring was */
	if (!read && len < txq->stop_len - txq->stop_read)
		read = ring->size;
	txq->head = head;
	txq->reviewed_at = now;
	over = __tun_txq_is_over(txq, read, ns, len);
	txq->idle_reviews++;
	if (read) {
		txq->idle_reviews = 0;
		idle = __tun_txq_learn(txq, read, ns, !len);
		__tun_txq_set_depth(txq);
	}

	low = tun_txq_low(txq);
	if (len <= low + (tun_txq_limit(txq) - low) / TUN_TXQ_WAKE_EARLY) {
		__tun_txq_set_depth_ns(txq, idle);
		__tun_txq_wake(txq);
	} else if (over || qdisc_txq_has_no_queue(txq->stopped)) {
		__tun_txq_wake(txq);
	} else {
		__tun_txq_arm(txq, len);
	}
}

static inline enum hrtimer_restart tun_txq_expired(struct hrtimer *timer)
{
	struct tun_txq *txq = container_of(timer, struct tun_txq, timer);

	/* the holder may be a sender that this interrupt has interrupted */
	if (!spin_trylock(&txq->ring->producer_lock)) {
		hrtimer_start(timer, ns_to_ktime(TUN_TXQ_REVIEW_MIN_NS),
			      TUN_TXQ_TIMER_MODE);
		return HRTIMER_NORESTART;
	}
	if (txq->stopped) {
		__tun_txq_learn_lateness(txq);
		__tun_txq_review(txq);
	}
	spin_unlock(&txq->ring->producer_lock);
	return HRTIMER_NORESTART;
}

/*
 * Is the reader too slow to wait for it? Not if it has caught up, and not after
 * the time is over if it has read anything since. A dead reader has not.
 */
static inline bool __tun_txq_stalled(struct tun_txq *txq, int len)
{
	bool waits;

	if (likely(!txq->stalled))
		return false;
	waits = time_before(jiffies, txq->stalled_until) ||
		READ_ONCE(txq->ring->consumer_head) == txq->head;
	txq->stalled = waits && len > tun_txq_low(txq);
	return txq->stalled;
}

/**
 * tun_txq_reserve() - a packet is about to enter the ring
 * @txq:	transmit queue of the file
 * @queue:	the netdev queue the packet comes from
 *
 * Context: BH off.
 * Return: 1 if a slot is reserved, 0 if not and the packet may be dropped,
 * -EBUSY if the queue was stopped. A slot stays free until tun_txq_produce(),
 * unless vhost_net gives packets back (ptr_ring_unconsume()): then the packet may
 * be dropped.
 */
static inline int tun_txq_reserve(struct tun_txq *txq,
				  struct netdev_queue *queue)
{
	struct ptr_ring *ring = txq->ring;
	int ret = 1;

	if (qdisc_txq_has_no_queue(queue) ||
	    hrtimer_resolution > TUN_TXQ_RESOLUTION_MAX_NS)
		return 0;

	spin_lock(&ring->producer_lock);
	if (likely(__ptr_ring_has_room(ring, txq->reserved))) {
		txq->reserved++;
	} else if (!ring->size || __tun_txq_stalled(txq, ring->size)) {
		ret = 0;
	} else {
		__tun_txq_stop(txq, queue, __ptr_ring_len(ring));
		ret = -EBUSY;
	}
	spin_unlock(&ring->producer_lock);
	return ret;
}

/**
 * tun_txq_cancel() - a packet for which a slot was reserved was dropped
 * @txq:	transmit queue of the file
 */
static inline void tun_txq_cancel(struct tun_txq *txq)
{
	spin_lock(&txq->ring->producer_lock);
	txq->reserved--;
	spin_unlock(&txq->ring->producer_lock);
}

/**
 * tun_txq_produce() - put a packet into the ring
 * @txq:	transmit queue of the file
 * @queue:	the netdev queue the packet comes from
 * @skb:	the packet
 * @reserved:	whether a slot is reserved for it
 *
 * Context: BH off.
 * Return: 0, or an error if the ring is full.
 */
static inline int tun_txq_produce(struct tun_txq *txq,
				  struct netdev_queue *queue,
				  struct sk_buff *skb, bool reserved)
{
	struct ptr_ring *ring = txq->ring;
	int len, ret;

	spin_lock(&ring->producer_lock);
	ret = __ptr_ring_produce(ring, skb);
	if (!ret && reserved) {
		txq->reserved--;
		if (--txq->room < 0) {
			len = __ptr_ring_len(ring);
			txq->room = tun_txq_limit(txq) - len;
			if (!__tun_txq_stalled(txq, len - 1) &&
			    txq->room < (netdev_xmit_more() ?
					 -tun_txq_list(txq) : 0))
				__tun_txq_stop(txq, queue, len);
		}
	}
	spin_unlock(&ring->producer_lock);
	return ret;
}

/**
 * tun_txq_produce_frame() - put a redirected frame into the ring
 * @txq:	transmit queue of the file
 * @frame:	the frame, as the reader expects it
 *
 * Context: BH off, producer lock held.
 * Return: true if it is in the ring, false if senders have the last slots.
 */
static inline bool tun_txq_produce_frame(struct tun_txq *txq, void *frame)
{
	return __ptr_ring_has_room(txq->ring, txq->reserved) &&
	       !__ptr_ring_produce(txq->ring, frame);
}

/**
 * tun_txq_release() - wake the queue if it is stopped, and begin anew
 * @txq:	transmit queue of a file whose device, index or ring changes
 *
 * Does not cancel the timer: a sender may have stopped the queue again. Whoever
 * was stalled is judged at the next review: otherwise a reader that reads nothing
 * could hold its senders again and again, by detaching and attaching its file.
 *
 * Context: process, RTNL. No stop of before a grace period outlasts this.
 */
static inline void tun_txq_release(struct tun_txq *txq)
{
	spin_lock_bh(&txq->ring->producer_lock);
	if (txq->stopped)
		__tun_txq_wake(txq);
	txq->room = 0;
	if (txq->stalled)
		txq->window_ns = TUN_TXQ_STOP_MAX_NS;
	txq->stalled = false;
	spin_unlock_bh(&txq->ring->producer_lock);
}

/* Adds the stops and wakes to @sum. Context: process. */
static inline void tun_txq_read_stats(struct tun_txq *txq,
				      struct tun_txq_stats *sum)
{
	spin_lock_bh(&txq->ring->producer_lock);
	sum->stops += txq->stats.stops;
	sum->wakes += txq->stats.wakes;
	spin_unlock_bh(&txq->ring->producer_lock);
}

/* The same, and begins anew: senders must be out of reach. */
static inline void tun_txq_take_stats(struct tun_txq *txq,
				      struct tun_txq_stats *sum)
{
	tun_txq_read_stats(txq, sum);
	memset(&txq->stats, 0, sizeof(txq->stats));
}

/**
 * tun_txq_destroy() - the file goes
 * @txq:	released, and out of reach of senders since a grace period
 *
 * Context: process.
 */
static inline void tun_txq_destroy(struct tun_txq *txq)
{
	hrtimer_cancel(&txq->timer);
}

/**
 * tun_txq_init() - the transmit queue of a new file
 * @txq:	zeroed memory
 * @ring:	the file's ring
 */
static inline void tun_txq_init(struct tun_txq *txq, struct ptr_ring *ring)
{
	txq->ring = ring;
	txq->packet_ns = 100 * NSEC_PER_USEC;
	txq->sum_ns = txq->packet_ns;
	txq->sum_packets = TUN_TXQ_PACKET;
	txq->depth_ns = TUN_TXQ_TARGET_NS;
	__tun_txq_set_depth(txq);
	hrtimer_setup(&txq->timer, tun_txq_expired, CLOCK_MONOTONIC,
		      TUN_TXQ_TIMER_MODE);
}

#endif /* _TUN_TXQ_H */
