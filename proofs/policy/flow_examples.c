// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * flow.c: numbers that were worked out from its DOC block. A ring of 100 whose safe limit
 * is 92, the default settings.
 */
#include "examples.h"
#include "flow.c"

static struct sluice_flow f;
static const struct sluice_flow_settings defaults = { 250, 50, 0, 2000 };

static struct sluice_flow_ring holding(int producer, int fill)
{
	return (struct sluice_flow_ring){ 100, producer, fill, fill, 92 };
}

/* Slots from one index to another, also of a ring of another size. */
static void slots_between(void)
{
	static const struct { int from, to, slots; } cases[] = {
		{ 0, 0, 0 }, { 2, 5, 3 }, { 0, 7, 7 }, { 6, 2, 4 }, { 7, 0, 1 },
		{ 5, 4, 7 }, { 0, 8, 0 }, { 0, 20, 0 }, { 20, 0, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		EXPECT_OF(i, sluice_slots_between(cases[i].from, cases[i].to, 8),
			  cases[i].slots);
}

/* How many packets may follow. */
static void rooms(void)
{
	static const struct {
		int depth;
		u32 user_limit;
		int used, fill;
		bool more;
		int room;
	} cases[] = {
		{ 1000, 0, 10, 10, false, 81 },
		{ 1000, 0, 91, 91, false, 0 },
		{ 1000, 0, 91, 20, false, 0 },	/* read, and not handed back */
		{ 1000, 20, 10, 10, false, 9 },
		{ 1000, 200, 10, 10, false, 81 },
		{ 20, 0, 19, 19, false, 0 },
		{ 20, 30, 19, 19, false, 0 },
		{ 20, 0, 60, 19, false, 0 },
		{ 20, 0, 19, 19, true, 64 },	/* a list is not divided */
		{ 20, 0, 84, 83, true, 0 },	/* but 64 packets later */
		{ 20, 0, 91, 19, true, 0 },	/* or where no slot is safe */
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_settings s = defaults;
		struct sluice_flow_ring r = { 100, 0, cases[i].used, cases[i].fill, 92 };

		f.depth = cases[i].depth;
		s.user_limit = cases[i].user_limit;
		EXPECT_OF(i, sluice_flow_room(&f, &s, &r, cases[i].more), cases[i].room);
	}
	EXPECT(sluice_flow_low(&defaults, 92), 46);
	EXPECT(sluice_flow_low(&defaults, 1), 0);
}

/* The depth that follows from the pace, in packets. */
static void depths(void)
{
	static const struct { u32 target_us, pace_ns; int held, depth; } cases[] = {
		{ 2000, NSEC_PER_MSEC, 0, 4 },		/* the least */
		{ 2000, 20000, 0, 99 },
		{ 2000, 20000, 300, 300 },
		{ 0, 20000, 0, INT_MAX },		/* the whole ring */
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_settings s = defaults;

		s.target_us = cases[i].target_us;
		f = (struct sluice_flow){ .pace_ns = cases[i].pace_ns,
					  .held = cases[i].held };
		set_depth(&f, &s);
		EXPECT_OF(i, f.depth, cases[i].depth);
	}
}

/*
 * A queue stopped with 60 packets in the ring, of which 60 may be there, and a debt;
 * what the first review does after @ns with @fill packets left.
 */
static void verdicts(void)
{
	static const struct {
		u64 debt, ns;
		int came, fill;
		enum sluice_flow_verdict verdict;
		u64 left, debt_left;
	} cases[] = {
		/* read down to the low watermark, or not quite */
		{ 0, 2 * MS, 0, 30, SLUICE_FLOW_WAKE, 0, 0 },
		{ 0, 2 * MS, 1, 31, SLUICE_FLOW_WAIT, 34 * 7812L, 0 },
		/* nothing read: a sixteenth of the debt, 2 ms at this pace at least */
		{ 0, 2 * MS, 1, 61, SLUICE_FLOW_WAIT, 2 * MS, 2 * MS },
		{ 62 * MS, 2 * MS, 1, 61, SLUICE_FLOW_WAIT, 4 * MS, 64 * MS },
		/* a packet pays 5 ms */
		{ 62 * MS, 2 * MS, 1, 57, SLUICE_FLOW_WAIT, 2 * MS, 44 * MS },
		/* what others put in again does not */
		{ 62 * MS, 2 * MS, 31, 61, SLUICE_FLOW_WAIT, 2 * MS, 64 * MS },
		/* handed back, more than was there */
		{ 62 * MS, 2 * MS, 1, 90, SLUICE_FLOW_WAIT, 4 * MS, 64 * MS },
		/* enough debt, and no room: it stalls; with room it wakes */
		{ 248 * MS, 2 * MS, 1, 61, SLUICE_FLOW_STALL, 0, 250 * MS },
		{ 248 * MS, 50 * MS, 1, 61, SLUICE_FLOW_STALL, 0, 250 * MS },
		{ 248 * MS, 2 * MS, 1, 20, SLUICE_FLOW_WAKE, 0, 45 * MS },
		/* the longest stop of a reader that pays */
		{ 0, 250 * MS, 1, 31, SLUICE_FLOW_WAKE, 0, 0 },
		/* the machine was paused */
		{ 0, 240 * MS, 1, 61, SLUICE_FLOW_WAIT, 64500 * US / 16, 64500 * US },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_device device = { 0 };
		struct sluice_flow_ring r = holding(60, 60);
		u64 left = 0, start = NSEC_PER_SEC;

		f = (struct sluice_flow){ 0 };
		sluice_flow_init(&f);
		sluice_flow_rebase(&f, &r, true);
		f.depth = f.held = 60;
		f.debt_ns = cases[i].debt;
		f.looked_at = start;
		EXPECT_OF(i, sluice_flow_stop(&f, &defaults, &r, &device, start), 2 * MS);
		r = holding(60 + cases[i].came, cases[i].fill);
		EXPECT_OF(i, sluice_flow_review(&f, &defaults, &r, &device,
						start + cases[i].ns, &left),
			  cases[i].verdict);
		EXPECT_OF(i, cases[i].verdict == SLUICE_FLOW_WAIT ? left : 0, cases[i].left);
		EXPECT_OF(i, f.debt_ns, cases[i].debt_left);
	}
}

/* A stall ends when 300 packets were read; in a crowd not before 1.5 s are over. */
static void stalls(void)
{
	for (int crowd = 0; crowd < 2; crowd++) {
		struct sluice_flow_device device = { .stalls = 8 };
		struct sluice_flow_ring r = holding(60, 60);
		u64 left, time = NSEC_PER_SEC;

		f = (struct sluice_flow){ .device_stalls = 7 };
		sluice_flow_init(&f);
		sluice_flow_rebase(&f, &r, true);
		/* another queue of the device stalled since: it begins in debt */
		sluice_flow_stop(&f, &defaults, &r, &device, time);
		EXPECT(f.debt_ns, 250 * MS);
		r = holding(61 - crowd, 61);
		f.stop_read = crowd * 60;
		EXPECT(sluice_flow_review(&f, &defaults, &r, &device, ++time, &left),
		       SLUICE_FLOW_STALL);
		EXPECT(f.stalled, true);
		EXPECT(device.stalls, 9);
		for (int i = 0; i < 3; i++) {	/* 99 each, and 24 handed back */
			r = holding((r.producer + 99) % 100, 61);
			EXPECT(sluice_flow_passes(&f, &defaults, &r, ++time), true);
			r.fill += 24;
			EXPECT(sluice_flow_passes(&f, &defaults, &r, ++time), true);
		}
		r = holding((r.producer + 3) % 100, 91);
		EXPECT(sluice_flow_passes(&f, &defaults, &r, ++time), true);
		r = holding((r.producer + 50) % 100, 61);
		EXPECT(sluice_flow_passes(&f, &defaults, &r, ++time), crowd);
		r = holding(r.producer, 61);
		EXPECT(sluice_flow_passes(&f, &defaults, &r, time + 1500 * MS), false);
		EXPECT(f.stalled, false);
		EXPECT(f.debt_ns, 0);
		sluice_flow_stop(&f, &defaults, &r, &device, time);
		EXPECT(f.debt_ns, 0);	/* it knows that one */
	}
}

/* A stall ends early where the ring is short again: what was not read is debt. */
static void short_rings(void)
{
	struct sluice_flow_ring r = holding(60, 60);

	f = (struct sluice_flow){ .depth = 40, .stalled = true, .unread = 300,
				  .least = 15 };
	sluice_flow_rebase(&f, &r, true);
	r = holding(60, 15);			/* the depth has grown meanwhile */
	sluice_flow_rebase(&f, &r, true);
	EXPECT(sluice_flow_passes(&f, &defaults, &r, 1), true);
	r = holding(60, 10);			/* emptied, not read */
	sluice_flow_rebase(&f, &r, true);
	r = holding(60, 20);			/* handed back */
	sluice_flow_rebase(&f, &r, true);
	EXPECT(f.unread, 300);
	r = holding(70, 20);			/* ten came, ten were read */
	EXPECT(sluice_flow_passes(&f, &defaults, &r, 1), true);
	r = holding(70, 10);
	EXPECT(sluice_flow_passes(&f, &defaults, &r, 1), false);
	EXPECT(f.unread, 280);
	EXPECT(f.debt_ns, 250 * MS * 280 / 300);
	pay(&f, &defaults, 30);			/* each a sixth of 5 ms */
	EXPECT(f.debt_ns, 250 * MS * 280 / 300 - 30 * (5 * MS / 6));
}

/* Empty or full, and nobody could tell: nothing was read, and nothing is learned. */
static void guesses(void)
{
	struct sluice_flow_ring guess = { 100, 60, 100, 100, 92, true };
	struct sluice_flow_ring r = holding(60, 60);
	struct sluice_flow_device device = { 0 };
	u64 left, start = NSEC_PER_SEC;

	f = (struct sluice_flow){ 0 };
	sluice_flow_init(&f);
	sluice_flow_rebase(&f, &r, true);
	sluice_flow_stop(&f, &defaults, &r, &device, start);
	EXPECT(sluice_flow_review(&f, &defaults, &guess, &device, start + MS, &left),
	       SLUICE_FLOW_WAIT);
	sluice_flow_rebase(&f, &guess, true);
	r = holding(60, 0);
	EXPECT(sluice_flow_review(&f, &defaults, &r, &device, start + 2 * MS, &left),
	       SLUICE_FLOW_WAKE);
	EXPECT(f.visit, 60);
}

/* A stop that ends without a review is debt, and no open time pays for it. */
static void stops_without_review(void)
{
	struct sluice_flow_ring r = holding(60, 60);
	struct sluice_flow_device device = { 0 };
	u64 time = NSEC_PER_SEC;

	f = (struct sluice_flow){ 0 };
	sluice_flow_init(&f);
	sluice_flow_rebase(&f, &r, true);
	for (int i = 1; i <= 20; i++) {
		sluice_flow_stop(&f, &defaults, &r, &device, time);
		time += 15 * MS;
		sluice_flow_wake(&f, &defaults, &device, time);
		EXPECT(f.debt_ns, (i < 17 ? i * 15 : 250) * MS);
	}
}

void flow_examples(void)
{
	slots_between();
	rooms();
	depths();
	verdicts();
	stalls();
	short_rings();
	guesses();
	stops_without_review();
}
