// SPDX-License-Identifier: GPL-2.0-or-later
/* events.c: which events are sent, how often, and that none is lost. */
#include "examples.h"

#define hash_for_each(table, bucket, object, member) \
	hash_for_each_rcu(table, bucket, object, member)
#define hlist_for_each_entry(object, head, member) \
	hlist_for_each_entry_rcu(object, head, member)
#include "events.c"

#define NONE	{ -1 }

struct message { int queue; enum sluice_event_kind kind; u32 count; };

static struct message told[200];	/* since it was asked last */
static unsigned int told_count;
static bool not_sent;			/* the message cannot be sent */
static bool stalls_meanwhile;		/* a queue stalls while its device is reported */

bool sluice_netlink_report(const struct sluice_queue *of,
			   const struct sluice_queue_view *view,
			   enum sluice_event_kind kind, u32 count,
			   unsigned int *budget)
{
	if (not_sent || !*budget)
		return false;
	--*budget;
	told[told_count++] = (struct message){ of - of->device->queue, kind, count };
	if (stalls_meanwhile)
		LOCKED(q, sluice_events_schedule(q));
	stalls_meanwhile = false;
	return true;
}

static void expect_told(int i, const struct message *expected)
{
	unsigned int count = expected->queue < 0 ? 0 : 1;

	EXPECT_OF(i, told_count, count);
	EXPECT_OF(i, count ? memcmp(told, expected, sizeof(*expected)) : 0, 0);
	told_count = 0;
}

static void fresh_events(void)
{
	fresh();
	sluice_devices[0].first = sluice_devices[1].first = NULL;
	ready = true;
	runner.work.queued = watcher.work.queued = false;
	told_count = 0;
	not_sent = stalls_meanwhile = false;
}

static void events_of_a_queue(void)
{
	static const struct {
		u64 stops, stalls;	/* more than before */
		u64 ns;			/* later */
		bool not_sent, meanwhile, quiet;
		struct message told;
		bool again;		/* something remains */
	} cases[] = {	/* one after the other */
		{ .told = NONE },
		{ 1, 0, 0, .quiet = true, .told = NONE },	/* nobody said so */
		{ 0, 0, 0, .not_sent = true, .told = NONE, .again = true },
		{ 0, 0, 0, .told = { 0, SLUICE_EVENT_STOP, 1 } },
		{ 1, 0, 0, .told = NONE },			/* the first alone */
		{ 0, 2, 0, .not_sent = true, .told = NONE, .again = true },
		{ 0, 1, 0, .told = { 0, SLUICE_EVENT_STALL, 3 } },
		{ 0, 1, NSEC_PER_SEC - 1, .told = NONE, .again = true },	/* one a second */
		{ 0, 2, 1, .told = { 0, SLUICE_EVENT_STALL, 3 } },
		/* what happens while the device is reported is not forgotten */
		{ 0, 1, 2 * NSEC_PER_SEC, .meanwhile = true,
		  .told = { 0, SLUICE_EVENT_STALL, 1 }, .again = true },
	};

	fresh_events();
	hash_add_rcu(sluice_devices, &device->node, 0);
	now = 5;	/* right after the boot: what comes first is told at once */
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		q->stops += cases[i].stops;
		q->stalls += cases[i].stalls;
		now += cases[i].ns;
		not_sent = cases[i].not_sent;
		stalls_meanwhile = cases[i].meanwhile;
		if (!cases[i].quiet)
			LOCKED(q, sluice_events_schedule(q));
		cancel_delayed_work_sync(&runner);
		send_pending(NULL);
		expect_told(i, &cases[i].told);
		EXPECT_OF(i, runner.work.queued, cases[i].again);
		EXPECT_OF(i, device->events_pending && q->events_pending, cases[i].again);
	}
}

/* Each of its queues, so often. */
static void stall(struct sluice_device *one, u64 times)
{
	one->events_pending = true;
	for (unsigned int id = 0; id < one->queues; id++) {
		one->queue[id].stalls += times;
		one->queue[id].events_pending = true;
	}
}

static struct sluice_device *add_stalled(unsigned int list, unsigned int queues)
{
	struct tun_device *of = tun_create(queues);
	struct sluice_device *one = add_device(&of->dev, queues, list);

	of->dev.real_num_tx_queues = queues;
	stall(one, 1);
	return one;
}

/* Four of a device in a run: its other queues are first the next time. */
static void events_of_many_queues(void)
{
	static const struct { int queue[4]; u32 count[4]; } runs[] = {
		{ { 0, 1, 2, 3 }, { 1, 1, 1, 1 } },
		{ { 4, 5, 0, 1 }, { 11, 11, 10, 10 } },
		{ { 2, 3, 4, 5 }, { 20, 20, 10, 10 } },
	};
	struct sluice_device *one;

	fresh_events();
	one = add_stalled(0, 6);
	for (unsigned int i = 0; i < ARRAY_SIZE(runs); i++) {
		send_pending(NULL);
		EXPECT_OF(i, told_count, 4);
		EXPECT_OF(i, runner.work.queued, true);
		for (int n = 0; n < 4; n++) {
			EXPECT_OF(i, told[n].queue, runs[i].queue[n]);
			EXPECT_OF(i, told[n].count, runs[i].count[n]);
		}
		told_count = 0;
		stall(one, 10);
		now += NSEC_PER_SEC;
	}
}

/* Each device of a list is asked; after 32 messages there is another run. */
static void events_of_many_devices(void)
{
	static const struct { unsigned int last, others, each, all; bool again; } cases[] = {
		{ 3, 7, 4, 31, false }, { 4, 7, 4, 32, true }, { 4, 8, 4, 36, true },
		{ 1, 8, 1, 9, false },
		{ 1, 2, 6, 9, true },	/* two of six queues wait, behind them a device has none */
	};
	struct sluice_device *crowd[16];

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh_events();
		add_stalled(0, cases[i].last);
		for (unsigned int n = 0; n < cases[i].others; n++)
			add_stalled(0, cases[i].each);
		send_pending(NULL);
		EXPECT_OF(i, told_count, cases[i].all);
		EXPECT_OF(i, runner.work.queued, cases[i].again);
	}
	/* then it looks at no other list: the next run begins with that, whoever has more */
	fresh_events();
	for (unsigned int n = 0; n < 16; n++)
		crowd[n] = add_stalled(n % 2, 4);
	send_pending(NULL);
	EXPECT(told_count, 32);
	now += NSEC_PER_SEC;
	for (unsigned int n = 0; n < 16; n++)
		if (!crowd[n]->events_pending)
			stall(crowd[n], 10);
	send_pending(NULL);
	EXPECT(told_count, 64);
	EXPECT(told[32].count, 1);
}

/* A device whose rule names a qdisc: told at once, then each ten seconds it is missing. */
static void events_of_noqueue(void)
{
	static const struct {
		const char *qdisc;	/* of the rule; NULL: no rule */
		struct Qdisc *is;
		bool not_sent, ready;
		u64 ns;
		struct message told;
		bool again;
	} cases[] = {
		{ NULL, &noqueue, false, true, 0, NONE, false },
		{ "", &noqueue, false, true, 0, NONE, false },
		{ "fq", &noqueue, true, true, 0, NONE, true },
		{ "fq", &noqueue, false, true, 0, { 0, SLUICE_EVENT_NOQUEUE, 1 }, true },
		{ "fq", &noqueue, false, true, 10 * NSEC_PER_SEC - 1, NONE, true },
		{ "fq", &noqueue, false, true, 1, { 0, SLUICE_EVENT_NOQUEUE, 1 }, true },
		{ "fq", &fq, false, true, 0, NONE, true },
		{ "fq", &noqueue, false, true, 0, { 0, SLUICE_EVENT_NOQUEUE, 1 }, true },
		{ "fq", &noqueue, false, false, 0, NONE, false },
	};

	fresh_events();
	hash_add_rcu(sluice_devices, &device->node, 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		device->rule = cases[i].qdisc ? &rule : NULL;
		if (cases[i].qdisc)
			strcpy(rule.qdisc, cases[i].qdisc);
		tun->dev.tx[0].qdisc = cases[i].is;
		not_sent = cases[i].not_sent;
		ready = cases[i].ready;
		now += cases[i].ns;
		cancel_delayed_work_sync(&watcher);
		watch(NULL);
		expect_told(i, &cases[i].told);
		EXPECT_OF(i, watcher.work.queued, cases[i].again);
	}
}

void events_examples(void)
{
	events_of_a_queue();
	events_of_many_queues();
	events_of_many_devices();
	events_of_noqueue();
	fresh_events();
	sluice_events_start();
	EXPECT(runner.work.queued && watcher.work.queued, true);
	cancel_delayed_work_sync(&runner);
	cancel_delayed_work_sync(&watcher);
	LOCKED(q, sluice_events_schedule(q));
	EXPECT(runner.work.due, now + NSEC_PER_SEC / 10);
	UNDER_RTNL(sluice_events_watch());
	EXPECT(watcher.work.due, now + NSEC_PER_SEC / 10);
	sluice_events_stop();
	EXPECT(runner.work.queued || watcher.work.queued, false);
	UNDER_RTNL(sluice_events_watch());
	LOCKED(q, sluice_events_schedule(q));
	EXPECT(runner.work.queued || watcher.work.queued, false);
}
