// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: how much a ring may hold
 *
 * Headroom. Let n be the CPUs that send at once. When a sender finds the limit
 * reached, others may have found it not reached and not yet put their packet
 * into the ring (n - 1), and once they did each CPU may be past the stopped
 * test again (n): 2n - 1 packets after the last check that passed. The reader
 * frees slots in batches, from the last to the first, without a barrier: one
 * batch more. See docs/design.md and proofs/.
 *
 * Depth. The ring holds what its reader takes in target_us, at the reader's
 * own pace, and a quarter of that while senders refill it at least four times
 * as fast as it is read: then packets wait in the qdisc, and the ring need
 * only last until the next of them arrive. But not fewer than 16 packets, if
 * they are read in target_us: each stop takes a timer and a run of the qdisc.
 * The pace is learned while the queue is stopped, because then the reader has
 * work. A reader that found the ring empty gets a deeper ring.
 */
#include <linux/math64.h>

#include "sluice.h"

/* The pace assumed of a new reader: 1000 packets/s. */
#define READER_NS_AT_FIRST	NSEC_PER_MSEC

/* Packets are counted in fractions of 1/PACE_SCALE, so that a few can decay. */
#define PACE_SCALE		64

/* Senders at once that the headroom covers in any case. */
#define SENDERS_MIN		8

/*
 * A ring that senders refill in less than this part of the time in which it was
 * read holds this part of the target, or so many packets.
 */
#define QUICK_REFILL		4
#define QUICK_PACKETS		16

/* The least depth in packets, and the greatest in time. */
#define DEPTH_MIN		4
#define DEPTH_MAX_NS		(SLUICE_TARGET_US_MAX * NSEC_PER_USEC)

/*
 * Slots kept free for senders that are past the stopped test: 2n + batch for n
 * senders at once, see the DOC block. Every CPU may be one. On machines where
 * that takes more than an eighth of the ring the number is learned: it begins
 * with all CPUs, falls to four times what was seen to come after a stop, and
 * rises at once. Never below 2 * SENDERS_MIN + batch, never above half the ring:
 * then it covers (size / 2 - batch) / 2 senders at once.
 */
static int headroom_for(const struct sluice_queue *q,
			const struct ptr_ring *ring, int size)
{
	int batch = READ_ONCE(ring->batch);
	int all = 2 * num_online_cpus() + batch;
	int least = max(2 * SENDERS_MIN + batch, size / 8);

	if (all > least)
		all = clamp_t(int, READ_ONCE(q->headroom), least, all);
	return min(all, size / 2);
}

/**
 * sluice_limit() - slots in use at which a queue stops
 * @q: the queue
 * @ring: its ring
 * @size: slots of @ring
 *
 * Half a ring at least, and so more than a batch that was read and is not
 * handed back: an empty ring is below it.
 *
 * Context: BH off, or @q->lock.
 * Return: 1 to @size, so at least one packet always fits.
 */
int sluice_limit(const struct sluice_queue *q, const struct ptr_ring *ring,
		 int size)
{
	return max(size - headroom_for(q, ring, size), 1);
}

/**
 * sluice_depth() - packets at which a queue stops
 * @q: the queue
 * @limit: of sluice_limit()
 *
 * Context: any.
 * Return: what the operator or the target allows, at most @limit.
 */
int sluice_depth(const struct sluice_queue *q, int limit)
{
	u32 wanted = READ_ONCE(q->device->limit);

	if (wanted && wanted < limit)
		limit = wanted;
	if (!READ_ONCE(q->device->target_us))
		return limit;
	return min_t(int, READ_ONCE(q->depth), limit);
}

/**
 * sluice_low() - packets at which a queue wakes
 * @q: the queue
 * @depth: of sluice_depth()
 *
 * Context: any.
 * Return: a number below @depth.
 */
int sluice_low(const struct sluice_queue *q, int depth)
{
	return depth * READ_ONCE(q->device->low_percent) / 100;
}

static s64 target_ns(const struct sluice_queue *q)
{
	return (s64)READ_ONCE(q->device->target_us) * NSEC_PER_USEC;
}

/* Senders use the depth in packets: what the reader reads in depth_ns. */
static void __set_depth(struct sluice_queue *q)
{
	u64 packets = div_u64(q->depth_ns, q->reader_ns + 1);

	lockdep_assert_held(&q->lock);
	WRITE_ONCE(q->depth, clamp_t(u64, packets, DEPTH_MIN, INT_MAX));
}

/**
 * sluice_learn_pace() - learn the reader's pace, as recent time over recent packets
 * @q: a stopped queue
 * @packets: what the reader read since the last review or stop; not 0, because
 *	     time in which it read nothing does not count
 * @ns: that time, nanoseconds
 * @dry: the reader found the ring empty and waited for a part of that time: then
 *	 only a faster pace is used, and it replaces the pace so far
 *
 * Context: @q->lock.
 * Return: how long the reader waited, nanoseconds: what its pace leaves of the
 * time, and a sixteenth of it at least, because the pace may be faster than what was
 * seen so far. 0 if not @dry.
 */
u64 sluice_learn_pace(struct sluice_queue *q, int packets, u64 ns, bool dry)
{
	u64 busy = (u64)q->reader_ns * packets;
	u64 seen = min_t(u64, ns, NSEC_PER_SEC);

	lockdep_assert_held(&q->lock);

	if (!dry) {
		q->read_ns += seen - q->read_ns / 8;
		q->read += packets * PACE_SCALE - q->read / 8;
	} else if (ns < busy) {
		q->read_ns = 8 * seen;
		q->read = 8 * packets * PACE_SCALE;
	}
	q->reader_ns = div64_u64(q->read_ns * PACE_SCALE, q->read);
	__set_depth(q);
	return dry ? max(ns - min(ns, busy), ns / 16) : 0;
}

/**
 * sluice_learn_depth() - a stop ends: how long shall the packets in the ring last?
 * @q: the queue
 * @idle: how long this stop left the reader without work, nanoseconds
 *
 * The target or a part of it, see QUICK_REFILL; longer for a while if @idle.
 *
 * Context: @q->lock.
 */
void sluice_learn_depth(struct sluice_queue *q, s64 idle)
{
	u64 stopped_ns = q->reviewed_at - q->stopped_at;
	s64 target = target_ns(q);

	lockdep_assert_held(&q->lock);

	if (QUICK_REFILL * q->open_ns < stopped_ns)
		target = clamp_t(s64, (s64)QUICK_PACKETS * q->reader_ns,
				 target / QUICK_REFILL, target);
	if (idle)
		q->depth_ns += min(idle, q->depth_ns / 2);
	else
		q->depth_ns -= (q->depth_ns - target) / 64;
	q->depth_ns = min_t(s64, q->depth_ns, DEPTH_MAX_NS);
	__set_depth(q);
}

/**
 * sluice_learn_headroom() - learn how many senders are past the stopped test
 * @q: a stopped queue
 * @ring: its ring
 *
 * From the packets that came after the stop, see headroom_for().
 *
 * Context: @q->lock.
 */
void sluice_learn_headroom(struct sluice_queue *q, const struct ptr_ring *ring)
{
	int all = 2 * num_online_cpus() + READ_ONCE(ring->batch);
	int came = sluice_slots_between(q->stop_producer,
					READ_ONCE(ring->producer), q->size);
	int wanted = min(4 * came + READ_ONCE(ring->batch), all);
	int headroom = min(q->headroom, all);

	lockdep_assert_held(&q->lock);
	if (wanted < headroom)
		wanted = headroom - DIV_ROUND_UP(headroom - wanted, 16);
	WRITE_ONCE(q->headroom, wanted);
}

/**
 * sluice_reset_depth() - the packets in the ring shall last for the target
 * @q: a queue that opens, or whose settings changed
 *
 * Context: @q->lock.
 */
void sluice_reset_depth(struct sluice_queue *q)
{
	q->depth_ns = target_ns(q);
	__set_depth(q);
}

/**
 * sluice_init_depth() - nothing is known of the reader and of the senders
 * @q: a queue of a device that appeared
 *
 * Context: process, RTNL; nobody else uses @q yet.
 */
void sluice_init_depth(struct sluice_queue *q)
{
	q->reader_ns = READER_NS_AT_FIRST;
	q->read = PACE_SCALE;
	q->read_ns = READER_NS_AT_FIRST;
	q->headroom = INT_MAX;
}
