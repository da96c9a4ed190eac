/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queues with a ring, a sender that always has a packet, and a reader each, and a
 * clock that jumps from event to event: for policy/pace.c and series/pace.c. Whoever
 * includes it says before what a u64 is and what the time is (now, chance()), and
 * after what a queue is: lane_...() below.
 *
 * The first tenth of a run, and a tenth after a change of pace, is for learning and
 * does not count for waits and work.
 */
#ifndef SIMULATOR_H
#define SIMULATOR_H

#define SIZE		1000		/* of a ring */
#define WAITS_MAX	(1 << 22)
#define READER_WAKES_NS	20000		/* a process that slept in read() */
#define SENDS_AGAIN_NS	200000		/* after the ring was full */

struct reader {
	const char *what;
	u64 pace_ns;		/* for a packet; 0: reads nothing */
	u64 other_ns;		/* for every other packet, if it differs */
	u64 later_ns;		/* its pace in the second half of the time */
	int batch;		/* takes so many at once */
	u64 pause_ns;		/* sleeps so long */
	u64 every_ns;		/* so often; not once a second */
	int socket;		/* sleeps with so many unsent, until half of them are */
	u64 link_ns;		/* a packet's, of the link that sends them */
	unsigned int list;	/* its senders send so many in a list */
	u64 late_ns;		/* timers come up to so late */
	u64 late_least_ns;	/* and at least so late, all of them */
	unsigned int late_one_in;	/* only so many of them do */
	double idle_percent;	/* the most it may be without work */
	u32 limit;		/* the operator's, packets */
	double held_percent;	/* slow: the most its sender may be stopped */
	double seconds;
};

/* A queue as its sender and its reader see it. */
struct lane {
	u64 entered[SIZE];
	u64 produced, consumed, lost;
	u64 fires, reads_at, sends_at, idle_from, pauses_at, link_free;
	u64 stopped_from, stopped_ns, longest_stop;
	u64 idle, counted;
	u64 divided;		/* lists that a stop divided */
};

static const struct reader *reader;
static struct lane lanes[LANES_MAX];
static u64 waits[WAITS_MAX];
static size_t wait_count;

static bool lane_is_stopped(const struct lane *lane);
static bool lane_is_empty(const struct lane *lane);
static void lane_sends(struct lane *lane);	/* until it is stopped, or loses one */
static void lane_takes(struct lane *lane);	/* a packet that is there */
static void lane_expires(struct lane *lane);	/* its timer */

/* A timer that is to fire in @ns. */
static void lane_arms(struct lane *lane, u64 ns)
{
	lane->fires = now + ns + reader->late_least_ns;
	if (reader->late_ns && (!reader->late_one_in || !chance(reader->late_one_in)))
		lane->fires += chance(reader->late_ns);
}

static void lane_is_woken(struct lane *lane)
{
	lane->stopped_ns += now - lane->stopped_from;
	lane->longest_stop = max(lane->longest_stop, now - lane->stopped_from);
	lane->sends_at = now;
}

/* Whether the next packet has others of its list behind it. */
static bool lane_has_more(const struct lane *lane)
{
	return reader->list && (lane->produced + lane->lost + 1) % reader->list;
}

/* A packet that goes into the ring now, or does not. */
static bool lane_adds(struct lane *lane, bool fits)
{
	if (!fits) {
		lane->lost++;
		lane->sends_at = now + SENDS_AGAIN_NS;
		return false;
	}
	lane->entered[lane->produced++ % SIZE] = now;
	return true;
}

static u64 pace(const struct lane *lane, u64 end)
{
	if (reader->later_ns && now > end / 2)
		return reader->later_ns;
	return reader->other_ns && lane->consumed % 2 ? reader->other_ns :
							reader->pace_ns;
}

/* When there is room in the reader's socket. */
static u64 socket_opens(const struct lane *lane)
{
	u64 half = reader->socket / 2 * reader->link_ns;

	if (!reader->socket || lane->link_free < now + 2 * half)
		return now;
	return lane->link_free - half;
}

static bool counts_at(u64 end)
{
	u64 part = 10 * now / end;

	return part && !(reader->later_ns && part < 6);
}

static u64 pauses_every(void)
{
	return reader->every_ns ? reader->every_ns : NSEC_PER_SEC;
}

/* The reader takes what it takes at once, and is then busy. */
static void take(struct lane *lane, u64 end)
{
	int left = reader->batch ? reader->batch : 1;

	lane->reads_at = socket_opens(lane);
	if (lane->reads_at > now)
		return;
	while (left-- && !lane_is_empty(lane)) {
		lane_takes(lane);
		if (counts_at(end) && wait_count < WAITS_MAX)
			waits[wait_count++] =
				now - lane->entered[lane->consumed % SIZE];
		lane->reads_at += pace(lane, end);
		lane->link_free = max(lane->link_free, now) + reader->link_ns;
		lane->consumed++;
	}
	if (reader->pause_ns && now > lane->pauses_at) {
		lane->reads_at += reader->pause_ns;
		lane->pauses_at += pauses_every();
	}
}

/* When the reader takes the next packet; never if there is none. */
static u64 next_read(const struct lane *lane)
{
	if (!reader->pace_ns || lane_is_empty(lane))
		return ~0ULL;
	return max(lane->reads_at, now);
}

static u64 next_event(const struct lane *lane)
{
	u64 next = next_read(lane);

	if (lane_is_stopped(lane) && !lane->fires) {
		printf("%s: a queue is stopped without a timer: TOO MUCH\n",
		       reader->what);
		exit(1);
	}
	if (!lane_is_stopped(lane))
		next = min(next, max(lane->sends_at, now));
	if (lane->fires)
		next = min(next, max(lane->fires, now));
	return next;
}

/* What happens at this moment: the timer before the reader. */
static void happen(struct lane *lane, u64 end)
{
	bool was_empty = lane_is_empty(lane);

	if (lane->fires && lane->fires <= now) {
		lane->fires = 0;
		lane_expires(lane);
	}
	if (!lane_is_stopped(lane) && lane->sends_at <= now)
		lane_sends(lane);
	if (was_empty && !lane_is_empty(lane) && lane->idle_from) {
		if (now >= lane->idle_from) {
			lane->reads_at = now + READER_WAKES_NS;
			if (counts_at(end))
				lane->idle += lane->reads_at - lane->idle_from;
		}
		lane->idle_from = 0;
	}
	if (next_read(lane) <= now)
		take(lane, end);
	/* It has no work once it is done with what it took. */
	if (!lane->idle_from && lane_is_empty(lane))
		lane->idle_from = max(lane->reads_at, now);
}

static void begin_lane(struct lane *lane)
{
	memset(lane, 0, sizeof(*lane));
	lane->pauses_at = pauses_every();
}

static void run_lanes(unsigned int count, u64 end)
{
	for (;;) {
		u64 before = now, next = ~0ULL;

		for (unsigned int id = 0; id < count; id++)
			next = min(next, next_event(&lanes[id]));
		if (next >= end)
			return;
		now = next;
		if (counts_at(end))
			lanes[0].counted += now - before;
		for (unsigned int id = 0; id < count; id++)
			if (next_event(&lanes[id]) <= now)
				happen(&lanes[id], end);
	}
}

static int compare(const void *one, const void *other)
{
	u64 a = *(const u64 *)one, b = *(const u64 *)other;

	return a < b ? -1 : a > b;
}

static void sort_waits(void)
{
	qsort(waits, wait_count, sizeof(*waits), compare);
}

/* Nanoseconds from the sorted waits. */
static u64 wait_at(double share)
{
	return wait_count ? waits[(size_t)(share * (wait_count - 1))] : 0;
}

/* Of the time that counts, for which the reader had no work. */
static double idle_percent(const struct lane *lane)
{
	return lane->counted ? 100.0 * lane->idle / lane->counted : 0;
}

#endif
