/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What adversary.c plays: the settings of a device and of its sender, and a short
 * program that its reader repeats. As text, for example:
 *
 *	ring=1000 rate=15000 socket=277 refuses=1: drain 1000 2us; idle 50ms
 *
 * A setting that is not named has its default.
 */
#ifndef POLICY_SEQUENCE_H
#define POLICY_SEQUENCE_H

#include <ctype.h>
#include <stdio.h>

#define OPS_MAX		12
#define QUEUES_MAX	512
#define TEXT_MAX	1024
#define NEVER		(~0ULL)

enum setting { RING, QUEUES, STALL, TARGET, LIMIT, LATE, LEAST, SELDOM, RATE, SOCKET,
	       STEP, LIST, REFUSES, EACH, TURNS, BESIDE, OTHERS, SETTINGS };

static const struct {
	const char *name;
	bool is_time;
	u64 initial, most;
} settings[SETTINGS] = {
	[RING] = { "ring", false, 500, 65536 },
	[QUEUES] = { "queues", false, 1, QUEUES_MAX },
	/* the most of these two as in sluice.h */
	[STALL] = { "stall", true, 250 * NSEC_PER_MSEC, 60 * NSEC_PER_SEC },
	[TARGET] = { "target", true, 2 * NSEC_PER_MSEC, 100 * NSEC_PER_MSEC },
	[LIMIT] = { "limit", false, 0, 65536 },		/* the operator's */
	[LATE] = { "late", true, 0, NSEC_PER_SEC },	/* timers, up to so much */
	[LEAST] = { "least", true, 0, NSEC_PER_SEC },	/* all timers, beside that */
	[SELDOM] = { "seldom", false, 0, 1000 },	/* one in so many is late */
	[RATE] = { "rate", false, 0, 10000000 },	/* 0: has always one more */
	[SOCKET] = { "socket", false, 1, 100000 },	/* may wait in qdiscs */
	[STEP] = { "step", true, 0, NSEC_PER_SEC },	/* sends so often */
	[LIST] = { "list", false, 0, 1000 },		/* so many in a list */
	[REFUSES] = { "refuses", false, 0, 1 },		/* not: it blocks */
	[EACH] = { "each", false, 0, 1 },		/* queue has a sender */
	[TURNS] = { "turns", false, 0, 1 },		/* with a fast peer */
	[BESIDE] = { "beside", false, 0, QUEUES_MAX },	/* dead, stay stopped */
	[OTHERS] = { "others", false, 0, QUEUES_MAX },	/* dead, and stall */
};

enum kind { READ, DRAIN, BATCH, REST, TICK, IDLE, AWAIT, ATTACH, ANEW, TOUCH, BACK,
	    STEER, TURN, FILL, KINDS };

/* What an operation is followed by: a number, a time or both. */
static const struct {
	const char *name;
	bool count, time;
	u64 most, least_ns, most_ns;	/* that the search tries */
} kinds[KINDS] = {
	[READ] = { "read", true, true, 600, 1000, 50000000 },	/* waits for it */
	[DRAIN] = { "drain", true, true, 2000, 1000, 1000000 },	/* what is there */
	[BATCH] = { "batch", true, true, 64, 1000, 1000000 },	/* at once, then busy */
	[REST] = { "rest", false, true, 0, 10000, 600000000 },
	[TICK] = { "tick", false, true, 0, 100000, 100000000 },	/* to a multiple */
	[IDLE] = { "idle", false, true, 0, 10000, 400000000 },	/* if it is empty */
	[AWAIT] = { "await", false, true, 0, 1000000, 600000000 }, /* a wake */
	[ATTACH] = { "attach" },	/* the ring was emptied */
	[ANEW] = { "anew" },		/* the same, and begins at slot 0 */
	[TOUCH] = { "touch" },		/* the module looks again */
	[BACK] = { "back", true, false, 64 },
	[STEER] = { "steer", true, false, 7 },	/* sender and reader move on */
	[TURN] = { "turn", true, false, 7 },	/* the reader alone */
	[FILL] = { "fill", true, false, 500 },	/* by others, up to here */
};

struct op {
	enum kind kind;
	u64 count, ns;
};

struct sequence {
	u64 set[SETTINGS];
	unsigned int count;
	struct op ops[OPS_MAX];
};

static void set_defaults(struct sequence *to)
{
	memset(to, 0, sizeof(*to));
	for (int i = 0; i < SETTINGS; i++)
		to->set[i] = settings[i].initial;
}

static const struct { const char *name; u64 ns; } units[] = {
	{ "s", NSEC_PER_SEC }, { "ms", NSEC_PER_MSEC }, { "us", NSEC_PER_USEC }, { "ns", 1 },
};

/* Prints at @text, and returns where it ends. */
static char *print_time(char *text, u64 ns)
{
	int i = 0;

	while (i < (int)ARRAY_SIZE(units) - 1 && (ns % units[i].ns || ns < units[i].ns))
		i++;
	return text + sprintf(text, "%lu%s", ns / units[i].ns, units[i].name);
}

static const char *print_sequence(const struct sequence *of)
{
	static char text[TEXT_MAX];
	char *at = text;

	for (int i = 0; i < SETTINGS; i++) {
		if (of->set[i] == settings[i].initial)
			continue;
		at += sprintf(at, "%s%s=", at > text ? " " : "", settings[i].name);
		at = settings[i].is_time ? print_time(at, of->set[i]) :
			at + sprintf(at, "%lu", of->set[i]);
	}
	at += sprintf(at, ":");
	for (unsigned int i = 0; i < of->count; i++) {
		const struct op *op = &of->ops[i];

		at += sprintf(at, "%s %s", i ? ";" : "", kinds[op->kind].name);
		if (kinds[op->kind].count)
			at += sprintf(at, " %lu", op->count);
		if (kinds[op->kind].time) {
			*at++ = ' ';
			at = print_time(at, op->ns);
		}
	}
	return text;
}

/* Whether @text goes on with @name, which is then skipped. */
static bool skip_word(const char **text, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(*text, name, length) || isalpha((*text)[length]))
		return false;
	*text += length;
	*text += strspn(*text, " ");
	return true;
}

static u64 parse_number(const char **text, bool is_time)
{
	const char *begin = *text;
	u64 number = strtoull(begin, (char **)text, 10);
	int i = 0;

	if (*text == begin)
		fail("a number is missing at '%s'", begin);
	while (is_time && i < (int)ARRAY_SIZE(units) && !skip_word(text, units[i].name))
		i++;
	if (is_time && i == ARRAY_SIZE(units) && number)
		fail("a unit is missing at '%s'", begin);
	*text += strspn(*text, " ");
	return is_time && i < (int)ARRAY_SIZE(units) ? number * units[i].ns : number;
}

static void parse_setting(struct sequence *to, const char **text)
{
	for (int i = 0; i < SETTINGS; i++) {
		if (!skip_word(text, settings[i].name))
			continue;
		if (*(*text)++ != '=')
			break;
		to->set[i] = parse_number(text, settings[i].is_time);
		if (to->set[i] > settings[i].most)
			fail("%s is too large", settings[i].name);
		return;
	}
	fail("no setting: '%s'", *text);
}

static void parse_op(struct sequence *to, const char **text)
{
	struct op *op = &to->ops[to->count];

	if (to->count++ == OPS_MAX)
		fail("more than %d operations", OPS_MAX);
	for (op->kind = 0; op->kind < KINDS; op->kind++)
		if (skip_word(text, kinds[op->kind].name))
			break;
	if (op->kind == KINDS)
		fail("no operation: '%s'", *text);
	if (kinds[op->kind].count)
		op->count = parse_number(text, false);
	if (kinds[op->kind].time)
		op->ns = parse_number(text, true);
}

static void parse_sequence(struct sequence *to, const char *text)
{
	set_defaults(to);
	while (*text && *text != ':')
		parse_setting(to, &text);
	while (*text && (*text == ':' || *text == ';')) {
		text++;
		text += strspn(text, " ");
		if (*text)
			parse_op(to, &text);
	}
	if (*text)
		fail("not understood: '%s'", text);
}

#endif
