// SPDX-License-Identifier: GPL-2.0-only
/**
 * DOC: the policy of one queue
 *
 * Arithmetic over one struct: no lock, no timer, no ring, no device. The caller
 * (queue.c) looks at the ring and passes what it saw, and the time.
 *
 * Depth. The ring holds what the reader takes in target_us, or what it takes at
 * one visit if that is more. Its pace is learned while the queue is stopped,
 * because then it has work. A reader that was left without work for a time gets
 * as many packets more as it could have read in that time, and loses them again
 * slowly, some with each wake.
 * Time without work is time for which a stop left the ring empty, and the time
 * that a reader that left because the ring was empty (it comes on a tick, or
 * sleeps) then rests although packets wait. It left so if the queue woke with an
 * empty ring. Else it may have left so, unless it had read in this stop, or its rest
 * was short compared with its visit: it gets up to a quarter more than it took.
 *
 * Review. A stopped queue is reviewed when its reader should have read down to
 * the low watermark; the queue wakes if it did, and while the reader rests if there
 * is room at all, for what is in the ring when it comes may be all that it finds. A
 * review that saw nothing read is followed by the next after a sixteenth of the debt.
 *
 * Debt. Stopped time is debt; each packet by which the ring gets shorter pays for
 * 1/STALL_PACKETS of stall_ms, and time in which no queue of the device was stopped
 * for half of itself. A queue with a debt of stall_ms stalls: senders pass,
 * and a full ring drops, until STALL_READ packets were read, or until the ring is
 * short again. In the latter case the debt is what remains to be read, as a part of
 * stall_ms; a packet pays that much less until all were read. If others than our
 * senders fill the ring (XDP_REDIRECT), so that packets were read and the ring did
 * not get shorter, senders pass for STALL_FACTOR * stall_ms at least. A queue that
 * stops after another of its device stalled begins with a debt of stall_ms, once for
 * each such stall.
 *
 * So no stop is longer than stall_ms and a review; a dead reader holds senders
 * once, for stall_ms; one that reads half of STALL_PACKETS per stall_ms holds them
 * for a seventh of the time; one that reads more than STALL_PACKETS is waited for.
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "flow.h"

/* The pace assumed of a new reader: 1000 packets/s. */
#define PACE_NS_AT_FIRST	NSEC_PER_MSEC

/* Packets are counted in fractions of 1/SCALE, so that a few can fade. */
#define SCALE			1024

#define DEPTH_MIN		4

/* Such a part of what was added to the depth goes with each wake. */
#define WAKE_FADES		128
/* A reader that could read less than this part of its visit in a rest was delayed. */
#define REST_PART		4
/* What the depth may become if the queue woke with an empty ring. */
#define ANY_DEPTH		(~0ULL)
/* More than any ring holds: a longer visit counts as this one. */
#define VISIT_MAX		1000000

/*
 * Segments of one packet come as a list. If the queue stops within it the core
 * puts the rest back in front of the qdisc's packets, so waiting gains nothing.
 * 64 KB of TCP make 44 segments with an MTU of 1500.
 */
#define LIST_PACKETS		64

#define STALL_PACKETS		50
#define STALL_FACTOR		6
#define OPEN_FACTOR		2
#define STALL_READ		(STALL_FACTOR * STALL_PACKETS)

/* A softirq can do nothing useful sooner. */
#define REVIEW_MIN_NS		(20 * NSEC_PER_USEC)
/* At most 2000 reviews per second, and one more for each 64 packets read. */
#define REVIEW_NS		(500 * NSEC_PER_USEC)
#define REVIEW_PACKETS		64
/* A reader may become faster than it was: look again. */
#define REVIEW_PACE_NS		(2 * NSEC_PER_MSEC)
/* 500 queues whose readers are dead are reviewed 5000 times per second. */
#define REVIEW_MAX_NS		(100 * NSEC_PER_MSEC)
#define REVIEW_DEBT_PART	16

static u64 stall_ns(const struct sluice_flow *f)
{
	return (u64)READ_ONCE(f->settings->stall_ms) * NSEC_PER_MSEC;
}

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

static u64 readable_in(const struct sluice_flow *f, u64 ns)
{
	return div_u64(ns, f->pace_ns + 1);
}

/* The depth in packets, for senders. */
static void set_depth(struct sluice_flow *f)
{
	u64 target_ns = (u64)READ_ONCE(f->settings->target_us) * NSEC_PER_USEC;
	u64 packets = readable_in(f, target_ns);

	packets = max3(packets, div_u64(f->held, SCALE), (u64)DEPTH_MIN);
	WRITE_ONCE(f->depth, target_ns ? min_t(u64, packets, INT_MAX) : INT_MAX);
}

/**
 * sluice_flow_depth() - packets at which a queue stops
 * @f: the queue's policy
 * @safe_limit: see struct sluice_flow_ring
 *
 * Context: any.
 * Return: 1 to @safe_limit.
 */
int sluice_flow_depth(const struct sluice_flow *f, int safe_limit)
{
	u32 user_limit = READ_ONCE(f->settings->user_limit);

	if (user_limit && user_limit < safe_limit)
		safe_limit = user_limit;
	return min(READ_ONCE(f->depth), safe_limit);
}

/**
 * sluice_flow_low() - packets at which a queue wakes
 * @f: the queue's policy
 * @depth: of sluice_flow_depth()
 *
 * Context: any.
 * Return: a number below @depth.
 */
int sluice_flow_low(const struct sluice_flow *f, int depth)
{
	return depth * READ_ONCE(f->settings->low_percent) / 100;
}

/**
 * sluice_flow_room() - how many packets may follow the one that is on its way?
 * @f: the queue's policy
 * @ring: what is in the ring without that packet
 * @more: that packet has others of its list behind it
 *
 * Context: any, without the queue's lock.
 * Return: so many packets; the queue is to stop if it is 0 or less.
 */
int sluice_flow_room(const struct sluice_flow *f, const struct sluice_flow_ring *ring,
		     bool more)
{
	int depth = sluice_flow_depth(f, ring->safe_limit);

	if (more)
		depth += LIST_PACKETS;
	return min(ring->safe_limit - ring->used, depth - ring->fill) - 1;
}

/*
 * How many packets were read since the last look; less than 0 if more were handed
 * back (vhost-net) than read.
 */
static int look(struct sluice_flow *f, const struct sluice_flow_ring *ring)
{
	int came = sluice_slots_between(f->producer, ring->producer, ring->size);
	int read = f->fill + came - ring->fill;

	if (ring->guessed)
		return 0;
	WRITE_ONCE(f->producer, ring->producer);
	WRITE_ONCE(f->fill, ring->fill);
	return read;
}

/* @packets were read. After a stall each pays less, until enough were read. */
static void pay(struct sluice_flow *f, int packets)
{
	u64 price = div_u64(stall_ns(f), STALL_PACKETS);

	packets = max(packets, 0);
	if (f->unread > 0) {
		price = div_u64(price, STALL_FACTOR);
		f->unread -= packets;
	}
	f->debt_ns -= min(f->debt_ns, price * packets);
}

/**
 * sluice_flow_passes() - do the senders of a stalled queue still pass?
 * @f: the queue's policy, @stalled
 * @ring: the ring
 * @now: the time
 *
 * Context: the queue's lock.
 * Return: true; or false, and the queue is no longer stalled.
 */
bool sluice_flow_passes(struct sluice_flow *f, const struct sluice_flow_ring *ring,
			u64 now)
{
	int low = sluice_flow_low(f, sluice_flow_depth(f, ring->safe_limit));
	bool is_short = ring->fill < f->least && ring->fill <= low;

	f->unread = min(f->unread - look(f, ring), STALL_READ);
	if (!is_short && (f->unread > 0 || now < f->passes_until))
		return true;
	f->debt_ns = div_u64(stall_ns(f) * max(f->unread, 0), STALL_READ);
	f->looked_at = now;
	WRITE_ONCE(f->stalled, false);
	return false;
}

/*
 * The reader rested in this stop, and reads again. If it may have rested for want of
 * packets, the ring may hold twice as many and what it could have read meanwhile, up to
 * f->most. Unless it had found the ring empty, a short rest was a delay.
 */
static void visit_begins(struct sluice_flow *f, int size)
{
	u64 more = readable_in(f, f->looked_at - f->stopped_at);
	u64 most = min(f->most, (u64)size * SCALE);

	if (f->held < most && (f->most == ANY_DEPTH || f->visit / REST_PART <= more))
		f->held = min(SCALE * (2 * min(f->depth, size) + more), most);
	f->visit = 0;
}

/*
 * The queue stops, and woke with @left packets in the ring. What may f->held become if
 * the reader rests now? Anything if it had found the ring empty. Else it may have: then
 * a quarter more than the visit took.
 */
static u64 most_after_rest(const struct sluice_flow *f, int left)
{
	if (!left)
		return ANY_DEPTH;
	return (u64)f->visit * (SCALE + SCALE / 4);
}

/**
 * sluice_flow_wake() - a stop ends
 * @f: the queue's policy
 * @now: the time
 *
 * Also without a review: a reader that detaches or gets another ring has not paid.
 *
 * Context: the queue's lock.
 */
void sluice_flow_wake(struct sluice_flow *f, u64 now)
{
	f->debt_ns = min(f->debt_ns + (now - f->looked_at), stall_ns(f));
	f->looked_at = now;
	WRITE_ONCE(f->device->stopped_at, now);
}

/* How many packets must be read until the queue may wake, and one more. */
static int to_read(const struct sluice_flow_ring *ring, int low)
{
	return max(ring->fill - low, ring->used - ring->safe_limit) + 1;
}

/* The reader reads on at its pace: when has it read @packets? */
static u64 review_after(struct sluice_flow *f, int packets, u64 least_ns, u64 left_ns,
			u64 now)
{
	u64 ns = min_t(u64, (u64)f->pace_ns * max(packets, 1), REVIEW_PACE_NS);

	ns = min_t(u64, max(ns, least_ns), REVIEW_MAX_NS);
	ns = max_t(s64, ns, f->review_from - now);
	ns = max_t(u64, min(ns, left_ns), REVIEW_MIN_NS);
	f->due = now + ns;
	return ns;
}

/**
 * sluice_flow_stop() - a queue stops
 * @f: its policy, not @stalled
 * @ring: the ring, without the packet of the sender that stops the queue
 * @now: the time
 *
 * Context: the queue's lock.
 * Return: nanoseconds until the first review.
 */
u64 sluice_flow_stop(struct sluice_flow *f, const struct sluice_flow_ring *ring, u64 now)
{
	u64 open_from = max(f->looked_at, READ_ONCE(f->device->stopped_at));
	int depth = sluice_flow_depth(f, ring->safe_limit);
	u32 stalls = READ_ONCE(f->device->stalls);
	int left = f->fill, read = max(look(f, ring), 0);

	if (now > open_from)
		f->debt_ns -= min(f->debt_ns,
				  div_u64(now - open_from, OPEN_FACTOR));
	pay(f, read);
	f->visit = min(f->visit + read, VISIT_MAX);
	if (stalls != f->device_stalls)
		f->debt_ns = stall_ns(f);
	f->device_stalls = stalls;
	WRITE_ONCE(f->device->stopped_at, now);
	f->resting = f->resting && !read;
	if (!f->resting)
		f->most = most_after_rest(f, left);
	f->stopped_at = now;
	f->looked_at = now;
	f->least = ring->fill + 1;
	f->stop_read = 0;
	f->lost_ns = 0;
	return review_after(f, to_read(ring, sluice_flow_low(f, depth)), 0,
			    stall_ns(f), now);
}

/*
 * @read packets were read in @ns of stopped time. Its pace is recent time over
 * recent packets; time in which it read nothing does not count. If it emptied the
 * ring it waited for a part of that time: then only a faster pace is news.
 * Returns how long it waited: what its pace leaves of the time, and a sixteenth of
 * it at least, because the pace may be faster than what was seen so far.
 */
static u64 learn_pace(struct sluice_flow *f, int read, u64 ns, bool dry)
{
	u64 busy = (u64)f->pace_ns * read;
	u64 seen = min_t(u64, ns, NSEC_PER_SEC);

	if (!dry) {
		f->sum_ns += seen - f->sum_ns / 8;
		f->sum_packets += (u64)read * SCALE - f->sum_packets / 8;
	} else if (ns < busy) {
		f->sum_ns = 8 * seen;
		f->sum_packets = 8 * (u64)read * SCALE;
	}
	f->pace_ns = div64_u64(f->sum_ns * SCALE, f->sum_packets);
	return dry ? max(ns - min(ns, busy), ns / 16) : 0;
}

/* A stop ends: has the ring been too short for its reader? */
static void learn_depth(struct sluice_flow *f, int size)
{
	u64 more = readable_in(f, f->lost_ns);

	if (f->lost_ns)
		f->held = SCALE * min_t(u64, min(f->depth, size) + more + 1, size);
	else
		f->held -= f->held / WAKE_FADES;
	set_depth(f);
}

/*
 * The stopped time since the last look is debt, and packets that the reader takes
 * out of the ring pay. A timer that is later than a quarter of stall_ms was lost, or
 * the machine was paused, and so was the reader.
 */
static void charge(struct sluice_flow *f, int fill, u64 now)
{
	s64 pause_ns = now - f->due - stall_ns(f) / 4;

	f->debt_ns += now - f->looked_at - max_t(s64, pause_ns, 0);
	pay(f, f->least - fill);
	f->least = min(f->least, fill);
	f->debt_ns = min(f->debt_ns, stall_ns(f));
}

static void stall(struct sluice_flow *f, int size, u64 now)
{
	f->unread = STALL_READ;
	f->passes_until = now;
	if (f->stop_read >= STALL_PACKETS)
		f->passes_until += STALL_FACTOR * stall_ns(f);
	if (!f->stop_read) {	/* it rests for longer than a stop may last */
		f->held = SCALE * (u64)size;
		set_depth(f);
	}
	WRITE_ONCE(f->stalled, true);
}

/**
 * sluice_flow_review() - wake a stopped queue, stall it, or review it again?
 * @f: its policy
 * @ring: the ring
 * @now: the time
 * @next_ns: nanoseconds until the next review, of SLUICE_FLOW_WAIT
 *
 * Context: the queue's lock.
 * Return: what to do.
 */
enum sluice_flow_verdict
sluice_flow_review(struct sluice_flow *f, const struct sluice_flow_ring *ring, u64 now,
		   u64 *next_ns)
{
	u64 stopped_ns = now - f->stopped_at;
	int read = look(f, ring);
	int depth, low;

	WRITE_ONCE(f->device->stopped_at, now);
	charge(f, ring->fill, now);
	if (read > 0) {
		if (f->resting)
			visit_begins(f, ring->size);
		f->most = 0;
		f->visit = min(f->visit + read, VISIT_MAX);
		f->stop_read += read;
		f->lost_ns += learn_pace(f, read, now - f->looked_at, !ring->fill);
		set_depth(f);
	}
	f->resting = read <= 0;
	f->looked_at = now;
	f->review_from = now + REVIEW_NS / REVIEW_PACKETS *
			 (REVIEW_PACKETS - clamp(read, 0, REVIEW_PACKETS));

	depth = sluice_flow_depth(f, ring->safe_limit);
	low = sluice_flow_low(f, depth);
	if (read <= 0)
		low = depth - 1;
	if (f->debt_ns >= stall_ns(f)) {
		stall(f, ring->size, now);
		f->device_stalls = READ_ONCE(f->device->stalls) + 1;
		WRITE_ONCE(f->device->stalls, f->device_stalls);
		return SLUICE_FLOW_STALL;
	}
	if (ring->used < ring->safe_limit && ring->fill <= low) {
		learn_depth(f, ring->size);
		return SLUICE_FLOW_WAKE;
	}
	if (stopped_ns >= stall_ns(f))
		return SLUICE_FLOW_WAKE;
	*next_ns = review_after(f, to_read(ring, low),
				read > 0 ? 0 : div_u64(f->debt_ns, REVIEW_DEBT_PART),
				stall_ns(f) - stopped_ns, now);
	return SLUICE_FLOW_WAIT;
}

/**
 * sluice_flow_rebase() - the queue may have another ring, or its ring was emptied
 * @f: the queue's policy
 * @ring: the ring
 * @same: it is the ring of the last look, and as long
 *
 * What is gone was perhaps not read and pays for nothing; what was handed back is
 * still to be read. Debt and a stall are carried over, or whoever opens a device
 * again and again would hold its senders each time.
 *
 * Context: the queue's lock.
 */
void sluice_flow_rebase(struct sluice_flow *f, const struct sluice_flow_ring *ring,
			bool same)
{
	int read = look(f, ring);

	if (!f->stalled)
		f->least = min(f->least, ring->fill);
	else if (same)
		f->unread = min(f->unread - min(read, 0), STALL_READ);
}

/**
 * sluice_flow_configure() - the queue opens, or its settings changed
 * @f: the queue's policy
 *
 * Context: the queue's lock.
 */
void sluice_flow_configure(struct sluice_flow *f)
{
	f->held = 0;
	set_depth(f);
}

/**
 * sluice_flow_init() - nothing is known of the reader
 * @f: zeroed memory, but for its settings and device
 *
 * Context: nobody else uses @f yet.
 */
void sluice_flow_init(struct sluice_flow *f)
{
	f->pace_ns = PACE_NS_AT_FIRST;
	f->sum_packets = SCALE;
	f->sum_ns = PACE_NS_AT_FIRST;
}
