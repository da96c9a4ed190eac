// SPDX-License-Identifier: GPL-2.0-or-later
/* backstop.c: whom it wakes, and when it runs again. */
#include "examples.h"
#include "backstop.c"

/* A device that has nothing to do, in the table before @device or behind it. */
static void add_idle_device(bool first, unsigned int list)
{
	sluice_devices[0].first = NULL;
	if (first)
		add_device(&tun_create(1)->dev, 1, 0);
	hash_add_rcu(sluice_devices, &device->node, list);
	if (!first)
		add_device(&tun_create(1)->dev, 1, 0);
}

static void begin(void)
{
	fresh();
	for (int i = 0; i < 3; i++)	/* it found nothing the last time */
		review_lost(NULL);
	runner.work.queued = false;
}

/* Where a device with a stopped queue is: it runs each second while it is stopped. */
static void tables(void)
{
	static const struct { bool idle_first; unsigned int list; } cases[] = {
		{ true, 0 }, { false, 0 }, { true, 1 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		begin();
		fresh_stopped();
		add_idle_device(cases[i].idle_first, cases[i].list);
		sluice_backstop_watch();
		EXPECT_OF(i, runner.work.due, now + NSEC_PER_SEC);
		EXPECT_OF(i, run_work(&runner.work) && q->stopped && runner.work.queued, true);
		now = q->timer.expires + NSEC_PER_SEC + 1;
		EXPECT_OF(i, run_work(&runner.work) && !q->stopped && q->rescued, true);
		EXPECT_OF(i, complaints, 1);
		/* once more: a qdisc may come back */
		EXPECT_OF(i, run_work(&runner.work) && runner.work.queued, true);
		EXPECT_OF(i, run_work(&runner.work) && !runner.work.queued, true);
	}
}

/* Of each open queue that is in use the qdisc is run, if it holds packets. */
static void qdiscs(void)
{
	static const struct { bool open; unsigned int waiting, queues; bool runs; } cases[] = {
		{ true, 3, 2, true }, { true, 0, 2, false }, { true, 3, 1, false },
		{ false, 3, 2, false },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		begin();
		if (cases[i].open)
			sluice_queue_opened(&device->queue[1]);
		tun->dev.tx[1].qdisc = &lockless;
		tun->dev.real_num_tx_queues = cases[i].queues;
		waiting[1] = cases[i].waiting;
		review_lost(NULL);
		EXPECT_OF(i, runs[1], cases[i].runs);
		EXPECT_OF(i, runner.work.queued, cases[i].runs);
		EXPECT_OF(i, runs[0], 0);
		sluice_backstop_stop();
		EXPECT_OF(i, runner.work.queued, false);
	}
}

static void stop_queue(void)
{
	set_ring(SIZE, 0, 0, 95);
	sluice_queue_check(q);
}

/* A queue that stops after the backstop looked at it is watched as well. */
static void stops_meanwhile(void)
{
	begin();
	sluice_backstop_watch();
	when_released = stop_queue;
	EXPECT(run_work(&runner.work) && q->stopped && runner.work.queued, true);
}

void backstop_examples(void)
{
	tables();
	qdiscs();
	stops_meanwhile();
	begin();
}
