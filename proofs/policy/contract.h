/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is promised to whoever sends to a device or reads from it. Each promise is a
 * bound; a sequence that is played has a score for each, above 1 if it passes the bound.
 */
#ifndef POLICY_CONTRACT_H
#define POLICY_CONTRACT_H

#include <math.h>
#include <stdio.h>

#include "arena.h"

#define EVENTS_LONG	3000000

#define ANY	((1 << KINDS) - 1)
#define SENDER	(1 << RATE | 1 << SOCKET)
#define VISITS	(1 << READ | 1 << DRAIN | 1 << REST)

/* A sequence, and what it came to. */
struct plays {
	const struct sequence *of;
	struct outcome sluice, stock;
};

struct bound {
	const char *name, *what;
	double (*score)(const struct plays *p);
	double many;			/* s (or stall_ms), that a play takes */
	bool in_stalls;
	/* of those that are kept whatever reads, which a search may ask */
	double few;			/* in short plays */
	unsigned int kinds, settings;	/* what it may use and change */
	const char *begin;		/* settings that all its sequences have */
};

struct known {
	const char *what, *sequence;
};

/* How late a timer may be. */
static u64 latest(const struct plays *p)
{
	return p->of->set[LATE] + p->of->set[LEAST];
}

/* Promised beside a device that reads fewer than half of STALL_PACKETS. */
static double if_slow(const struct plays *p, double score)
{
	double half = STALL_PACKETS / 2 * (double)NSEC_PER_SEC / p->of->set[STALL];

	return p->sluice.net_reads < half ? score :
	       min(score, .99) * half / p->sluice.net_reads;
}

/* Senders are held only so long by a device that reads little. */
static double score_held(const struct plays *p)
{
	return if_slow(p, p->sluice.held / HELD_MOST);
}

/* One that never reads holds its sender once. */
static double score_dead(const struct plays *p)
{
	return p->sluice.held * p->sluice.ns / DEAD_STOPS /
	       (p->of->set[STALL] + REVIEW_NS + latest(p));
}

/* Of one that opens again now and then, whatever its ring lost by that. */
static double score_again(const struct plays *p)
{
	return p->sluice.held / HELD_MOST;
}

/* Also if others fill the ring, packets of senders that no qdisc holds. */
static double score_others(const struct plays *p)
{
	return p->sluice.held / HELD_BY_OTHERS;
}

/* A peer on the same socket gets nearly what it gets without us. */
static double score_peer(const struct plays *p)
{
	return if_slow(p, (1 - p->sluice.peer) / (1 - PEER_LEAST));
}

/*
 * A reader of one queue gets nearly what it gets without us. Stock lets a sender go
 * on while the ring is full; one that loses packets then, and at other times is too
 * slow for the reader, sends less if it is held: that is no fault.
 */
static double score_reads(const struct plays *p)
{
	double score;

	if (p->stock.reads <= 0)
		return 0;
	score = (1 - p->sluice.reads / p->stock.reads) / (1 - READS_LEAST);
	return 100 * p->stock.lost > p->stock.taken && p->stock.dry ?
		       min(score, .99) : score;
}

/*
 * The same of any reader whose visits are all alike and fit into the ring, and that
 * rests for 0.5 ms at least and for less than stall_ms. Below 0: it is none.
 */
static double score_rhythm(const struct plays *p)
{
	double enough = STALL_PACKETS * (double)NSEC_PER_SEC / p->of->set[STALL];
	unsigned int visits = 0;

	for (unsigned int i = 0; i < p->of->count; i++) {
		const struct op *op = &p->of->ops[i];
		bool visit = op->kind <= BATCH;

		visits += visit;
		if (visit ? op->count > .96 * p->of->set[RING] :
			    op->ns < 500000 || op->ns > .9 * p->of->set[STALL])
			return -1;
	}
	return visits == 1 && p->stock.reads > enough ?
		       (1 - p->sluice.reads / p->stock.reads) / (1 - READS_LEAST) : -1;
}

/* One that is fast enough loses nothing. */
static double score_lost(const struct plays *p)
{
	if (p->sluice.slowest >= 1)
		return .5 / p->sluice.slowest;
	return p->sluice.lost ? 1 + p->sluice.lost : .5 + .4 * p->sluice.slowest;
}

static double score_reviews(const struct plays *p)
{
	return p->sluice.review_share;
}

/* Of many queues, those that see nothing read. */
static double score_crowd(const struct plays *p)
{
	double most = CROWD_REVIEWS * p->of->set[QUEUES] / (double)CROWD;

	return p->sluice.idle_reviews / (most + CROWD_PER_READ * p->sluice.reads);
}

static double score_stop(const struct plays *p)
{
	return p->sluice.longest_stop /
	       (double)(p->of->set[STALL] + REVIEW_NS + latest(p));
}

/*
 * A reader that is fast enough has no more than the target, or FEWEST and a batch, and
 * a list that is not divided.
 */
static double score_wait(const struct plays *p)
{
	u64 slowest = 0, batch = 0;

	if (p->sluice.slowest >= 1)
		return .5 / p->sluice.slowest;
	for (unsigned int i = 0; i < p->of->count; i++) {
		const struct op *op = &p->of->ops[i];

		if (op->kind <= BATCH)
			slowest = max(slowest, op->ns);
		if (op->kind == BATCH)
			batch = max(batch, op->count);
	}
	return p->sluice.median_wait / (double)(latest(p) +
		(1 + min(p->of->set[LIST], LIST_MOST)) * slowest +
		max(p->of->set[TARGET], (FEWEST + batch) * slowest));
}

/*
 * Before a reader that rests, most packets wait for no more than its longest rest, and
 * for what it takes at a visit.
 */
static double score_rests(const struct plays *p)
{
	u64 rest = 0, visit = 0;

	for (unsigned int i = 0; i < p->of->count; i++) {
		const struct op *op = &p->of->ops[i];

		if (op->kind == REST)
			rest = max(rest, op->ns);
		else
			visit = max(visit, max(op->count, 1) * op->ns);
	}
	return rest ? p->sluice.median_wait / (double)(latest(p) + rest + visit) : 0;
}

/* A timer for each stop of one that never rests, not two: few reviews come too early. */
static double score_few(const struct plays *p)
{
	for (unsigned int i = 0; i < p->of->count; i++)
		if (p->of->ops[i].kind > BATCH)
			return 0;
	return p->sluice.reviews * p->sluice.ns / NSEC_PER_SEC /
	       (REVIEWS_PER_STOP * p->sluice.stops + p->sluice.ns / REVIEW_NS);
}

/* All that is promised to one that is fast enough. */
static double score_steady(const struct plays *p)
{
	double score = max3(score_reads(p), score_lost(p), score_stop(p));

	score = max3(score, score_reviews(p), score_few(p));
	if (p->of->set[TARGET])
		score = max3(score, score_wait(p), 2. * p->sluice.divided);
	return max(score, 2. * p->sluice.stalls);
}

static const struct bound bounds[] = {
	{ "held", "senders of a slow device are held", score_held, 80, true,
	  10, ANY, SENDER | 1 << QUEUES | 1 << STALL | 1 << LATE, "" },
	{ "peer", "a peer beside a slow device gets less", score_peer, 80, true,
	  10, ANY, SENDER | 1 << QUEUES | 1 << STALL | 1 << LATE,
	  "turns=1 rate=20000 socket=3" },
	{ "reviews", "a queue is reviewed too often", score_reviews, 6, false,
	  1.2, ANY, SENDER | 1 << STALL | 1 << TARGET | 1 << LATE, "" },
	{ "crowd", "500 queues are reviewed too often", score_crowd, 8, false,
	  2, ANY & ~(1 << STEER), 1 << STALL, "queues=50 each=1" },
	{ "stop", "a stop takes too long", score_stop, 40, true,
	  5, ANY, SENDER | 1 << QUEUES | 1 << STALL | 1 << TARGET | 1 << LATE, "" },
	{ "dead", "senders of a dead device are held", score_dead, 80, true },
	{ "again", "senders are held by one that opens again", score_again, 80, true },
	{ "others", "senders are held because others fill the ring", score_others,
	  80, true },
	{ "reads", "a reader gets less than from stock", score_reads, 20 },
	{ "rhythm", "a reader that comes at a rhythm gets less", score_rhythm, 20, false,
	  10, VISITS, 1 << SOCKET, "" },
	{ "lost", "a reader that is fast enough loses packets", score_lost, 80, true },
	{ "wait", "packets wait in the ring of a steady reader", score_wait, 10 },
	{ "rests", "packets wait for more than one rest and visit", score_rests, 20 },
	{ "steady", "a reader that is fast enough gets less than that", score_steady, 20 },
};

#define BOUNDS	(sizeof(bounds) / sizeof(*bounds))

static bool asks_stock(const struct bound *of)
{
	return of->score == score_reads || of->score == score_rhythm ||
	       of->score == score_steady;
}

/*
 * Play it for so many units of time, or a shorter time if that takes more than
 * @events.
 */
static double measure(const struct bound *of, const struct sequence *sequence,
		      double units, u64 events, struct plays *p)
{
	u64 end = units * (of->in_stalls ? sequence->set[STALL] : NSEC_PER_SEC);

	*p = (struct plays){ .of = sequence };
	if (!play(sequence, end, false, events, &p->sluice)) {
		end = now;
		play(sequence, end, false, ~0ULL, &p->sluice);
	}
	if (asks_stock(of))
		play(sequence, end, true, ~0ULL, &p->stock);
	return of->score(p);
}

/* Play it long, tell what came of it, and return whether the bound is kept. */
static bool tell_play(const struct bound *of, const struct sequence *sequence,
		      const char *what)
{
	struct plays p;
	double score = measure(of, sequence, of->many, EVENTS_LONG, &p);

	printf("%s %s (%s): ", of->name, print_sequence(sequence), what);
	if (asks_stock(of))
		printf("reads %.1f/s of %.1f (%.3f), ", p.sluice.reads,
		       p.stock.reads, p.sluice.reads / p.stock.reads);
	else
		printf("reads %.1f/s, ", p.sluice.net_reads);
	if (of->score == score_peer)
		printf("peer's share %.3f, ", p.sluice.peer);
	printf("held %.1f %%, lost %lu, %lu stalls, longest stop %.3f ms, ",
	       100 * p.sluice.held, p.sluice.lost, p.sluice.stalls,
	       p.sluice.longest_stop / 1e6);
	printf("median wait %.3f ms, %.0f reviews/s, %.0f idle%s\n",
	       p.sluice.median_wait / 1e6, p.sluice.reviews, p.sluice.idle_reviews,
	       score > 1 ? ": TOO MUCH" : "");
	return score <= 1;
}

/* The bound that a text begins with; the text then goes on behind it. */
static const struct bound *parse_bound(const char **text)
{
	for (size_t i = 0; i < BOUNDS; i++)
		if (skip_word(text, bounds[i].name))
			return &bounds[i];
	fail("no bound: '%s'", *text);
}

static bool play_text(const char *text, const char *what)
{
	const struct bound *of = parse_bound(&text);
	struct sequence sequence;

	parse_sequence(&sequence, text);
	return tell_play(of, &sequence, what);
}

/* Returns how many of @known pass their bound; @of: of each if NULL, up to the first. */
static unsigned int play_known(const struct known *known, size_t count,
			       const struct bound *of)
{
	unsigned int passed = 0;

	for (size_t i = 0; i < count && (of || !passed); i++) {
		const char *text = known[i].sequence;

		if (!of || parse_bound(&text) == of)
			passed += !play_text(known[i].sequence, known[i].what);
	}
	return passed;
}

#endif
