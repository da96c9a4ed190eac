// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Searches for a reader before which the real queue.c and flow.c break the
 * contract.
 *
 *	adversary SEED SECONDS		plays what is known; if that is fine, searches
 *	adversary SEED SECONDS BOUND	the same for one bound, and searches anyway
 *	adversary --play 'BOUND SEQUENCE'	plays one sequence, see sequence.h
 *
 * It fails where a bound is passed, and prints the sequence, which is then added
 * to the known ones. A sequence has a score for each bound, above 1 if it passes
 * it. A search begins with the best of some sequences, random ones and known ones
 * that are changed. Then it keeps each change that does not lower the score. Short
 * plays choose, a long one decides.
 */
#include <time.h>

#include "queues.h"
#include "contract.h"

#define EVENTS_SHORT	40000
#define BEGINNINGS	20	/* of a climb: it goes on from the best */
#define CLIMB_IDLE	80	/* it ends after so many changes in vain */

static const struct known known[] = {
	/* what the contract was written for */
	{ "reads nothing", "dead:" },
	{ "reads nothing, timers 10 ms late", "dead least=10ms:" },
	{ "reads nothing, timers 300 ms late", "again least=300ms:" },
	{ "4 packets/s", "held: read 1 249ms" },
	{ "50 packets/s, timers 10 ms late", "held least=10ms: read 1 20ms" },
	{ "16 at once, three times/s", "held: batch 16 20833us" },
	{ "250 packets/s", "steady: read 1 4ms" },
	{ "5000 packets/s", "steady: read 1 200us" },
	{ "200 000 packets/s", "steady: read 1 5us" },
	{ "200 000 packets/s, whole ring", "steady target=0ns: read 1 5us" },
	{ "1 000 000 packets/s", "steady: read 1 1us" },
	{ "2 500 000 packets/s, timers 50 us late", "steady late=50us: read 1 400ns" },
	{ "50 000, timers 2 ms late", "steady late=2ms: read 1 20us" },
	{ "50 000, timers 10 ms late", "steady ring=1000 least=10ms: read 1 20us" },
	{ "50 000, one timer in 8 up to 8 ms late",
	  "steady late=8ms seldom=8: read 1 20us" },
	{ "500 000, batches of 64", "steady late=50us: batch 64 2us" },
	{ "64 KB beside ACKs", "steady late=50us: read 1 500us; read 1 5us" },
	{ "20 000, sleeps 50 ms in each second",
	  "steady late=50us: read 19000 50us; rest 50ms" },
	{ "500 000, sleeps 20 ms in each 30 ms",
	  "steady ring=1000 late=50us: read 5000 2us; rest 20ms" },
	{ "3 000 000, sleeps 240 ms in each 250 ms",
	  "steady ring=2000 late=50us: read 33000 300ns; rest 240ms" },
	{ "10 000, socket of 92, link of 10 Mbit/s",
	  "reads late=200us: read 46 100us; rest 48760us" },
	{ "the same, of which half is full now and then",
	  "rests late=1160us: read 46 100us; rest 48760us; read 20 100us; rest 21ms" },
	{ "the first, 50 000 packets/s",
	  "rests late=200us rate=50000: read 46 100us; rest 48760us" },
	{ "200 000, limit of 4 packets", "reviews limit=4: read 1 5us" },
	{ "5000, lists of 44", "steady list=44: read 1 200us" },
	{ "100 000, then 1000, and again",
	  "steady late=50us: read 200000 10us; read 2000 1ms" },
	{ "300 and 40, by turns", "reads: drain 300 5us; tick 20ms; drain 40 5us; rest 5ms" },
	{ "256 queues, each is read in turn",
	  "crowd queues=256 each=1: drain 50 20us; turn 1" },
	{ "others fill the ring", "others: fill 500; read 1 10us" },
	{ "others fill the ring of a slow reader", "others: fill 500; read 1 4ms" },
	/* what passed a bound once */
	{ "waits for the stall, empties the ring, window of 3",
	  "held rate=200000 socket=3: await 300ms; drain 1000 5us" },
	{ "the same, beside a peer",
	  "peer turns=1 rate=200000 socket=3: await 300ms; drain 1000 5us" },
	{ "1000/s, drained each 270 ms, beside a peer",
	  "peer turns=1 rate=1000 socket=3: rest 270ms; drain 1000 5us" },
	{ "alone", "held rate=1000 socket=3: rest 270ms; drain 1000 5us" },
	{ "1000/s, drained each 255 ms, window of 3",
	  "reads rate=1000 socket=3: rest 255ms; drain 1000 5us" },
	{ "1000/s, drained each 255 ms, qdisc of 1000",
	  "reads rate=1000 socket=1000 refuses=1: rest 255ms; drain 1000 5us" },
	{ "steers over 9 queues, 4 packets/s",
	  "held queues=9: await 300ms; steer 1; read 1 5us" },
	{ "steers over 64 queues, reads nothing",
	  "held queues=64: await 300ms; steer 1" },
	{ "the same, reads one", "held queues=64: await 300ms; steer 1; read 1 5us" },
	{ "500 at most each 10 ms", "reads: drain 500 5us; tick 10ms" },
	{ "500 at most each 50 ms", "reads: drain 500 5us; tick 50ms" },
	{ "all each 50 ms, 15 000/s in steps, ring of 1000",
	  "reads ring=1000 rate=15000 step=500us socket=277 refuses=1: drain 2000 10us; idle 50ms" },
	{ "all each 5 ms",
	  "reads ring=1000 rate=15000 step=500us socket=277 refuses=1: drain 2000 10us; idle 5ms" },
	{ "500 each 50 ms, 15 000/s",
	  "reads ring=1000 rate=15000 step=500us socket=277 refuses=1: drain 500 5us; tick 50ms" },
	{ "500 each 20 ms, 30 000/s",
	  "reads late=100us rate=30000 socket=92: drain 500 10us; tick 20ms" },
	{ "200 each 40 ms, 6000/s",
	  "reads rate=6000 socket=92: drain 200 10us; tick 40ms" },
	{ "100 each 10 ms", "rhythm: read 100 5us; rest 9500us" },
	{ "rests 300 ms of each second", "reads: read 140000 5us; rest 300ms" },
	{ "rests 30 of 60 ms beside 30 queues that stop and 30 that stall",
	  "reads beside=30 others=30: read 6000 5us; rest 30ms" },
	{ "5000/s beside 500 stopped queues", "reads beside=500: read 1 200us" },
	{ "2300/s, reads two, then all",
	  "reads ring=1000 rate=2300 socket=32: read 2 98us; idle 230ms; drain 100 98us" },
	{ "reads all, waits for three, rests",
	  "reads ring=1000: drain 540 2us; read 3 2us; rest 3900us" },
	{ "250 each 39 ms, and waits for one",
	  "reads: tick 39ms; drain 250 120us; read 1 120us" },
	{ "500 each 10 ms, 60 000/s",
	  "reads late=200us rate=60000 socket=92: drain 500 9us; tick 10ms" },
	{ "320 at 1000/s, rests 240 ms, 620/s", "reads rate=620: drain 320 1ms; rest 240ms" },
	{ "136 each 226 ms, 4300/s", "reads rate=4300: drain 136 1ms; rest 90ms" },
	{ "rests 3ms", "reads rate=6486 socket=4: rest 3200us; drain 99 122us" },
	{ "100, waits for one", "reads: drain 100 10us; idle 100ms; rest 20ms" },
	{ "480 at 20 us, away for 10 ms", "wait: read 480 20us; rest 10ms" },
	{ "1000/s, delayed now and then",
	  "wait: read 8 1ms; rest 3ms; read 20 1ms; rest 4ms; read 60 1ms; rest 5ms" },
	{ "5000/s, away for 3 ms", "wait: read 200 200us; rest 3ms" },
	{ "350 and 20", "reads: drain 350 5us; rest 6ms; drain 20 5us; rest 90ms" },
	{ "slow, then fast", "reads: drain 200 1ms; drain 200 10us; rest 10ms" },
	{ "30 each 120 ms", "reads: drain 30 1ms; rest 90ms" },
	{ "3 each 325 us", "reads target=500us: drain 3 14us; rest 283us" },
	{ "36 each 232 ms", "reads: drain 36 200us; idle 190ms; rest 35ms" },
	{ "visits farther apart than stall_ms",
	  "reads rate=1000 socket=32: rest 255ms; drain 340 160us" },
	{ "reads while the queue is open, ring full again",
	  "lost target=0ns rate=3100: rest 240ms; read 140 2us" },
	{ "reads more than a ring while the queue is open",
	  "lost target=0ns rate=2100: rest 160ms; tick 72ms; drain 240 12us" },
	{ "62 each 250 ms", "lost target=0ns rate=1200: rest 250ms; drain 62 2us" },
	{ "180 each 248 ms",
	  "lost target=0ns rate=1400 socket=3: rest 247800us; read 180 4us" },
	{ "140 each 250 ms, and twice as many",
	  "lost ring=1000 target=0ns rate=3100: read 280 3us; rest 250ms; read 140 1us" },
	{ "steers away while a sender waits, 95 packets/s",
	  "held queues=8 rate=230000: await 230ms; steer 3; read 24 2700ns" },
	{ "steers over 7 queues, each pays while others are stopped",
	  "held queues=7 rate=53000: touch; steer 2; await 69ms; drain 19 10us; turn 2" },
	{ "each stop ends with room, 99 packets/s",
	  "peer turns=1 rate=20000 socket=3 late=270us: read 2 3600us; await 390ms; rest 1580us" },
	{ "blocks at first, then leaves when the ring is empty",
	  "reads ring=1000 rate=2800: read 97 110us; idle 250ms" },
	{ "hands back more than it reads",
	  "held stall=1s: rest 280ms; back 35; drain 17 69us" },
	{ "hands back, and others fill",
	  "held queues=2 stall=1s: fill 64; drain 3 1us; back 64; fill 64; touch; turn 1" },
	{ "hands back what it reads", "held: drain 64 5us; back 64; rest 10ms" },
	{ "attaches again each 236 ms", "again: rest 236ms; attach" },
	{ "opens again each 236 ms", "again: rest 236ms; anew" },
	{ "the same, reads five", "again: read 5 5us; rest 236ms; anew" },
	{ "reads nothing", "held:" },
	{ "just enough", "lost: read 1 4900us" },
	{ "500 queues, nothing read", "crowd queues=500 each=1:" },
	{ "500 queues, nothing read, stops of a minute",
	  "crowd queues=500 each=1 stall=60s:" },
	{ "a packet each 20 us", "reviews: read 1 20us" },
	{ "64 packets each 450 us", "reviews: drain 64 1us; rest 450us" },
	{ "attaches again and again", "reviews rate=42000: attach; back 6; anew" },
	{ "half a ring outlasts a stop", "stop target=0ns: read 1 2ms" },
};

#define KNOWN	(sizeof(known) / sizeof(*known))

static double score_short(const struct bound *of, const struct sequence *sequence)
{
	struct plays p;

	return measure(of, sequence, of->few, EVENTS_SHORT, &p);
}

static double score_long(const struct bound *of, const struct sequence *sequence)
{
	struct plays p;

	return measure(of, sequence, of->many, EVENTS_LONG, &p);
}

/* The search's own chance: that of a play begins anew with each. */
static u64 search_state;

static u64 pick(u64 below)
{
	search_state ^= search_state << 13;
	search_state ^= search_state >> 7;
	search_state ^= search_state << 17;
	return (search_state >> 8) % below;
}

static double pick_share(void)
{
	return pick(1 << 24) / (double)(1 << 24);
}

/* To two digits, which are easier to read, or to more. */
static u64 rounded(double number, u64 below)
{
	u64 unit = 1;

	while (number / unit >= below)
		unit *= 10;
	return (u64)(number / unit + .5) * unit;
}

/* As often from 1 to 10 as from 10 to 100. */
static u64 pick_log(u64 least, u64 most)
{
	double share = pick_share();

	return clamp_t(u64,
		       rounded(least * pow((double)most / least, share), 100),
		       least, most);
}

/* A little or much more, or less. */
static u64 pick_near(u64 number, u64 least, u64 most)
{
	static const double powers[] = { .02, .2, 1, 3 };
	u64 how = pick(ARRAY_SIZE(powers));
	double changed = number * exp(powers[how] * (2 * pick_share() - 1));

	if (number < 100)
		return clamp_t(u64, changed + pick(2), least, most);
	/* fine steps, so that times can meet each other */
	return clamp_t(u64, rounded(changed, how ? 100 : 10000), least, most);
}

static u64 pick_setting(enum setting setting)
{
	static const u64 stalls_ms[] = { 250, 250, 250, 50, 100, 1000 };
	static const u64 targets_us[] = { 2000, 2000, 500, 20000, 0 };

	switch (setting) {
	case QUEUES:
		return 1 + pick(8);
	case STALL:
		return stalls_ms[pick(ARRAY_SIZE(stalls_ms))] * NSEC_PER_MSEC;
	case TARGET:
		return targets_us[pick(ARRAY_SIZE(targets_us))] * NSEC_PER_USEC;
	case LATE:
		return pick(2) ? 0 : pick_log(10000, 10000000);
	case RATE:
		return pick(3) ? pick_log(500, 200000) : 0;
	default:
		return pick_log(1, 300);
	}
}

static struct op pick_op(const struct bound *of, const struct sequence *in)
{
	struct op op = { };

	do {
		op.kind = pick(KINDS);
	} while (!(of->kinds & 1 << op.kind) ||
		 (in->set[QUEUES] == 1 && (op.kind == STEER || op.kind == TURN)));
	if (kinds[op.kind].count)
		op.count = pick_log(1, kinds[op.kind].most);
	if (kinds[op.kind].time)
		op.ns = pick(8) ? pick_log(kinds[op.kind].least_ns,
					   kinds[op.kind].most_ns) :
			clamp_t(u64, in->set[STALL], kinds[op.kind].least_ns,
				kinds[op.kind].most_ns);
	return op;
}

/* Who sends by turns has a rate. */
static void put_right(struct sequence *sequence)
{
	if (sequence->set[TURNS] && !sequence->set[RATE])
		sequence->set[RATE] = 20000;
}

static void pick_sequence(const struct bound *of, struct sequence *to)
{
	parse_sequence(to, of->begin);
	for (int i = 0; i < SETTINGS; i++)
		if (of->settings & 1 << i)
			to->set[i] = pick_setting(i);
	to->count = 1 + pick(6);
	for (unsigned int i = 0; i < to->count; i++)
		to->ops[i] = pick_op(of, to);
	put_right(to);
}

static void change_setting(const struct bound *of, struct sequence *sequence)
{
	int i;

	do {
		i = pick(SETTINGS);
	} while (!(of->settings & 1 << i));
	if ((i == RATE || i == SOCKET || i == LATE) && sequence->set[i] && pick(2))
		sequence->set[i] = pick_near(sequence->set[i], 1, 1000000);
	else
		sequence->set[i] = pick_setting(i);
}

static void change_op(struct op *op)
{
	if (kinds[op->kind].time && (!kinds[op->kind].count || pick(2)))
		op->ns = pick_near(op->ns, kinds[op->kind].least_ns,
				   kinds[op->kind].most_ns);
	else if (kinds[op->kind].count)
		op->count = pick_near(op->count, 1, kinds[op->kind].most);
}

static void remove_op(struct sequence *sequence, unsigned int at)
{
	sequence->count--;
	memmove(&sequence->ops[at], &sequence->ops[at + 1],
		(sequence->count - at) * sizeof(struct op));
}

static void insert_op(struct sequence *sequence, unsigned int at, struct op op)
{
	memmove(&sequence->ops[at + 1], &sequence->ops[at],
		(sequence->count - at) * sizeof(struct op));
	sequence->ops[at] = op;
	sequence->count++;
}

static void change(const struct bound *of, struct sequence *sequence)
{
	unsigned int at = sequence->count ? pick(sequence->count) : 0;
	unsigned int how = pick(10);

	if (how < 2)
		change_setting(of, sequence);
	else if (how < 4 && sequence->count < OPS_MAX)
		insert_op(sequence, pick(sequence->count + 1),
			  pick_op(of, sequence));
	else if (!sequence->count)
		return;
	else if (how == 4 && sequence->count > 1)
		remove_op(sequence, at);
	else if (how == 5)
		sequence->ops[at] = pick_op(of, sequence);
	else
		change_op(&sequence->ops[at]);
	if (!pick(3))
		change(of, sequence);
	put_right(sequence);
}

/* A known one, changed; or a random one. */
static void begin_climb(const struct bound *of, struct sequence *to)
{
	const char *text;

	if (pick(3)) {
		pick_sequence(of, to);
		return;
	}
	do {
		text = known[pick(KNOWN)].sequence;
	} while (parse_bound(&text) != of);
	parse_sequence(to, text);
	if (to->set[QUEUES] > 8)	/* more take too long */
		to->set[QUEUES] = to->set[EACH] ? 50 : 8;
	for (int i = pick(4); i >= 0; i--)
		change(of, to);
}

/* What was found for a bound. */
struct find {
	struct sequence best;
	double score;
	u64 plays, climbs;
};

static u64 clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

static void climb(const struct bound *of, struct find *find, u64 until)
{
	struct sequence at, next;
	double best = -HUGE_VAL, reached;

	for (int i = 0; i < BEGINNINGS && clock_ns() < until; i++) {
		begin_climb(of, &next);
		reached = score_short(of, &next);
		find->plays++;
		if (reached > best) {
			best = reached;
			at = next;
		}
	}
	for (int idle = 0; idle < CLIMB_IDLE && clock_ns() < until; idle++) {
		next = at;
		change(of, &next);
		reached = score_short(of, &next);
		find->plays++;
		if (reached < best)
			continue;
		if (reached > best)
			idle = 0;
		best = reached;
		at = next;
	}
	find->climbs++;
	if (best <= find->score)
		return;
	if (at.set[EACH])	/* few of them chose */
		at.set[QUEUES] = CROWD;
	reached = score_long(of, &at);
	if (reached > find->score) {
		find->score = reached;
		find->best = at;
	}
}

/* Returns whether a sequence passes the bound. */
static bool search(const struct bound *of, u64 ns, u64 *plays)
{
	u64 until = clock_ns() + ns;
	struct find find = { .score = 0 };

	while (find.score <= 1 && clock_ns() < until)
		climb(of, &find, until);
	*plays += find.plays;
	printf("%s: the worst of %lu sequences, %lu climbs, has %.3f of the bound\n",
	       of->name, find.plays, find.climbs, find.score);
	if (!find.climbs || !find.score)
		return false;
	return !tell_play(of, &find.best, of->what);
}

int main(int argc, char **argv)
{
	const struct bound *only = NULL;
	unsigned int passed;
	u64 ns, plays = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "--play"))
		return !play_text(argv[2], "played");
	if (argc < 3)
		fail("arguments are SEED SECONDS [BOUND], or --play SEQUENCE");
	if (argc > 3)
		only = parse_bound((const char **)&argv[3]);
	search_state = 2 * atoll(argv[1]) + 88172645463325253ULL;
	passed = play_known(known, KNOWN, only);
	if (passed && !only)
		return 1;
	ns = atof(argv[2]) * NSEC_PER_SEC / (only ? 1 : BOUNDS);
	for (size_t i = 0; ns && i < BOUNDS; i++)
		if (bounds[i].kinds && (!only || only == &bounds[i]))
			passed += search(&bounds[i], ns, &plays);
	if (passed)
		return 1;
	printf("fine: %zu known sequences, %lu others of seed %s\n",
	       KNOWN, plays, argv[1]);
	return 0;
}
