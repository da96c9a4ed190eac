// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * flow.c: numbers that were worked out from its DOC block. A ring of 100 whose safe limit
 * is 92, the default settings.
 */
#include "examples.h"
#include "flow.c"

static const struct sluice_flow_settings defaults = { 250, 50, 0, 2000 };
static struct sluice_flow_device shared;
static struct sluice_flow f;

/* Of a queue whose device was not seen before. */
static void begin(struct sluice_flow flow)
{
	f = flow;
	f.settings = &defaults;
	f.device = &shared;
	shared = (struct sluice_flow_device){ 0 };
	sluice_flow_init(&f);
}

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

		f = (struct sluice_flow){ .settings = &s, .depth = cases[i].depth };
		s.user_limit = cases[i].user_limit;
		EXPECT_OF(i, sluice_flow_room(&f, &r, cases[i].more), cases[i].room);
	}
	begin((struct sluice_flow){ 0 });
	EXPECT(sluice_flow_low(&f, 92), 46);
	EXPECT(sluice_flow_low(&f, 1), 0);
}

/* A queue that stops at 1 s, with 60 packets in the ring, of which 60 may be there. */
static u64 begin_stop(u64 debt)
{
	struct sluice_flow_ring r = holding(60, 60);

	begin((struct sluice_flow){ .debt_ns = debt, .looked_at = NSEC_PER_SEC });
	sluice_flow_rebase(&f, &r, true);
	f.depth = 60, f.held = 60 * SCALE;
	return sluice_flow_stop(&f, &r, NSEC_PER_SEC);
}

/*
 * The same with a debt; what the first review does after @ns with @fill packets left.
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
		struct sluice_flow_ring r = holding(60 + cases[i].came, cases[i].fill);
		u64 left = 0;

		EXPECT_OF(i, begin_stop(cases[i].debt), 2 * MS);
		EXPECT_OF(i, sluice_flow_review(&f, &r, NSEC_PER_SEC + cases[i].ns, &left),
			  cases[i].verdict);
		EXPECT_OF(i, cases[i].verdict == SLUICE_FLOW_WAIT ? left : 0, cases[i].left);
		EXPECT_OF(i, f.debt_ns, cases[i].debt_left);
	}
}

/* While the reader rests the ring is filled up. */
static void rests(void)
{
	static const struct { int fill; enum sluice_flow_verdict verdict; } cases[] = {
		{ 61, SLUICE_FLOW_WAIT }, { 60, SLUICE_FLOW_WAIT }, { 59, SLUICE_FLOW_WAKE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_ring r = holding(61, cases[i].fill);
		u64 left;

		begin_stop(0);
		sluice_flow_rebase(&f, &r, true);	/* what is gone was not read */
		EXPECT_OF(i, sluice_flow_review(&f, &r, NSEC_PER_SEC + 2 * MS, &left),
			  cases[i].verdict);
	}
}

/* A queue that stalled with 61 packets in its ring; in a crowd 60 were read before. */
static struct sluice_flow_ring begin_stall(bool crowd)
{
	struct sluice_flow_ring r = holding(60, 60);
	u64 left;

	begin_stop(0);
	shared.stalls = 8;	/* another queue of the device stalled */
	sluice_flow_stop(&f, &r, NSEC_PER_SEC);
	EXPECT(f.debt_ns, 250 * MS);
	EXPECT(f.device_stalls, 8);
	f.stop_read = crowd * 60;
	r = holding(61 - crowd, 61);
	EXPECT(sluice_flow_review(&f, &r, NSEC_PER_SEC + 1, &left), SLUICE_FLOW_STALL);
	EXPECT(f.stalled, true);
	EXPECT(shared.stalls, 9);
	return r;
}

/* It ends when 300 packets were read; in a crowd not before 1.5 s are over. */
static void stalls(void)
{
	static const struct { int came, fill; u64 ns; bool passes, in_crowd; } cases[] = {
		/* 99 were read, 24 handed back */
		{ 99, 61, 0, true, true }, { 0, 85, 0, true, true },
		{ 99, 61, 0, true, true }, { 0, 85, 0, true, true },
		{ 99, 61, 0, true, true }, { 0, 85, 0, true, true },
		{ 3, 91, 0, true, true }, { 50, 61, 0, false, true },
		{ 0, 61, 1500 * MS, false, false },
	};

	for (int crowd = 0; crowd < 2; crowd++) {
		struct sluice_flow_ring r = begin_stall(crowd);

		for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
			r = holding((r.producer + cases[i].came) % SIZE, cases[i].fill);
			EXPECT_OF(i, sluice_flow_passes(&f, &r,
							NSEC_PER_SEC + 2 + i + cases[i].ns),
				  crowd ? cases[i].in_crowd : cases[i].passes);
		}
		EXPECT(f.stalled, false);
		EXPECT(f.debt_ns, 0);
		sluice_flow_stop(&f, &r, NSEC_PER_SEC + 99);
		EXPECT(f.debt_ns, 0);	/* it knows that one */
	}
}

/* A stall ends early where the ring is short again: what was not read is debt. */
static void short_rings(void)
{
	static const struct { int producer, fill; bool rebased, passes; int unread; } cases[] = {
		{ 60, 60, true, true, 300 },
		{ 60, 15, true, true, 300 },	/* emptied, not read */
		{ 60, 15, false, true, 300 },	/* the depth has grown meanwhile */
		{ 60, 10, true, true, 300 },
		{ 60, 20, true, true, 300 },	/* handed back */
		{ 70, 20, false, true, 290 },	/* ten came, ten were read */
		{ 70, 10, false, false, 280 },
	};

	begin((struct sluice_flow){ .depth = 40, .stalled = true, .unread = 300, .least = 15 });
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_ring r = holding(cases[i].producer, cases[i].fill);

		if (cases[i].rebased)
			sluice_flow_rebase(&f, &r, true);
		else
			EXPECT_OF(i, sluice_flow_passes(&f, &r, 1), cases[i].passes);
		EXPECT_OF(i, f.unread, cases[i].unread);
	}
	EXPECT(f.debt_ns, 250 * MS * 280 / 300);
	pay(&f, 30);			/* each a sixth of 5 ms */
	EXPECT(f.debt_ns, 250 * MS * 280 / 300 - 30 * (5 * MS / 6));
	EXPECT(f.unread, 250);
}

/* What was in another ring was perhaps not read, and pays for nothing. */
static void other_rings(void)
{
	static const struct { int fill; u64 debt; } cases[] = {
		{ 61, 102 * MS }, { 20, 102 * MS }, { 10, 52 * MS },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sluice_flow_ring r = holding(20, 20);
		u64 left;

		begin_stop(100 * MS);
		sluice_flow_rebase(&f, &r, false);
		r = holding(20, cases[i].fill);
		sluice_flow_review(&f, &r, NSEC_PER_SEC + 2 * MS, &left);
		EXPECT_OF(i, f.debt_ns, cases[i].debt);
	}
}

/* Empty or full, and nobody could tell: nothing was read, and nothing is learned. */
static void guesses(void)
{
	struct sluice_flow_ring guess = { 100, 60, 100, 100, 92, true };
	struct sluice_flow_ring r = holding(60, 60);
	u64 left, start = NSEC_PER_SEC;

	begin((struct sluice_flow){ 0 });
	sluice_flow_rebase(&f, &r, true);
	sluice_flow_stop(&f, &r, start);
	EXPECT(sluice_flow_review(&f, &guess, start + MS, &left), SLUICE_FLOW_WAIT);
	sluice_flow_rebase(&f, &guess, true);
	r = holding(60, 0);
	EXPECT(sluice_flow_review(&f, &r, start + 2 * MS, &left), SLUICE_FLOW_WAKE);
	EXPECT(f.visit, 60);
}

/* A stop that ends without a review is debt, and no open time pays for it. */
static void stops_without_review(void)
{
	struct sluice_flow_ring r = holding(60, 60);
	u64 time = NSEC_PER_SEC;

	begin((struct sluice_flow){ 0 });
	sluice_flow_rebase(&f, &r, true);
	for (int i = 1; i <= 20; i++) {
		sluice_flow_stop(&f, &r, time);
		time += 15 * MS;
		sluice_flow_wake(&f, time);
		EXPECT(f.debt_ns, (i < 17 ? i * 15 : 250) * MS);
	}
}

void flow_examples(void)
{
	slots_between();
	rooms();
	verdicts();
	rests();
	stalls();
	short_rings();
	guesses();
	stops_without_review();
	other_rings();
}
