// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: which events events.c sends, how often, and that none is lost. */
#define sluice_events_schedule	schedule_events
#define sluice_events_watch	watch_qdiscs
#define sluice_events_start	start_events
#define sluice_events_stop	stop_events
#define run			send_events
#define runner			sender
#define RUN_EVERY		EVENTS_EVERY
#define hash_for_each(table, bucket, object, member) \
	hash_for_each_rcu(table, bucket, object, member)
#define hlist_for_each_entry(object, head, member) \
	hlist_for_each_entry_rcu(object, head, member)
#define synchronize_rcu()	wait_for_readers()
#include "events.c"
#undef sluice_events_schedule
#undef sluice_events_watch
#undef sluice_events_start
#undef sluice_events_stop
#undef run
#undef runner
#undef synchronize_rcu

static bool not_sent;		/* the message cannot be sent */
static bool stalls_meanwhile;	/* a queue stalls while its device is reported */
static bool quiet;		/* messages are counted only */
static unsigned int messages;

bool sluice_netlink_report(const struct sluice_queue *of,
			   const struct sluice_queue_view *view,
			   enum sluice_event_kind kind, u32 count,
			   unsigned int *budget)
{
	if (not_sent || !*budget)
		return false;
	--*budget;
	messages++;
	if (!quiet)
		note("tell %d %d %u;", (int)(of - of->device->queue), kind, count);
	if (stalls_meanwhile)
		schedule_events(q);
	return true;
}

static void send(void)
{
	sender.work.func(&sender.work);
}

/* Two open queues of a device in the table, and events are sent. */
static void fresh_events(void)
{
	fresh();
	*text = '\0';
	sluice_devices[0].first = NULL;
	hash_add_rcu(sluice_devices, &device->node, 0);
	dev.real_num_tx_queues = 2;
	ready = true;
	not_sent = stalls_meanwhile = leaving = false;
}

static void events_of_stops(void)
{
	fresh_events();
	send();
	EXPECT_LOG("rtnl 0;unlock 0;");
	q->stops = 1;
	send();		/* nobody said so */
	EXPECT_LOG("rtnl 0;unlock 0;");
	schedule_events(q);
	EXPECT_LOG("work 100000000;");
	not_sent = true;
	send();
	EXPECT_LOG("rtnl 0;unlock 0;work 100000000;");
	not_sent = false;
	send();
	EXPECT_LOG("rtnl 0;tell 0 0 1;unlock 0;");
	q->stops = 2;
	schedule_events(q);
	send();		/* the first alone */
	EXPECT_LOG("work 100000000;rtnl 0;unlock 0;");
	ready = false;
	schedule_events(q);
	EXPECT_LOG("");
	send();
	EXPECT_LOG("rtnl 0;unlock 0;");
}

static void events_of_stalls(void)
{
	fresh_events();
	q->stalls = 2;
	device->events_pending = q->events_pending = not_sent = true;
	send();
	EXPECT_LOG("rtnl 0;unlock 0;work 100000000;");
	q->stalls = 3;
	not_sent = false;
	send();		/* those that could not be told are counted */
	EXPECT_LOG("rtnl 0;tell 0 1 3;unlock 0;");
	EXPECT(device->events_pending, false);
	q->stalls = 4;
	device->events_pending = q->events_pending = true;
	now += NSEC_PER_SEC - 1;
	send();		/* one message a second */
	EXPECT_LOG("rtnl 0;unlock 0;work 100000000;");
	q->stalls = 6;
	now++;
	send();
	EXPECT_LOG("rtnl 0;tell 0 1 3;unlock 0;");

	/* what happens while the device is reported is not forgotten */
	now += 2 * NSEC_PER_SEC;
	q->stalls = 7;
	device->events_pending = q->events_pending = stalls_meanwhile = true;
	send();
	EXPECT_LOG("rtnl 0;tell 0 1 1;work 100000000;unlock 0;work 100000000;");
	EXPECT(device->events_pending, true);
	ready = false;
	stalls_meanwhile = false;
	q->stalls = 8;
	send();		/* too early, and not again: events end */
	EXPECT_LOG("rtnl 0;unlock 0;");

	/* the first comes at once, also right after the boot */
	fresh_events();
	now = 5;
	q->stalls = 1;
	device->events_pending = q->events_pending = true;
	send();
	EXPECT_LOG("rtnl 0;tell 0 1 1;unlock 0;");
}

/* A device in this list of the table whose queues have an event each. */
static struct sluice_device *add_to_crowd(unsigned int list, unsigned int queues)
{
	struct sluice_device *one = zeroed(struct_size(one, queue, queues));
	unsigned int id;

	one->dev = zeroed(sizeof(dev));
	one->dev->real_num_tx_queues = queues;
	one->queues = queues;
	one->events_pending = true;
	for (id = 0; id < queues; id++) {
		one->queue[id].device = one;
		one->queue[id].txq = &txqs[0];
		raw_spin_lock_init(&one->queue[id].lock);
		one->queue[id].stalls = id + 1;
		one->queue[id].events_pending = true;
	}
	hash_add_rcu(sluice_devices, &one->node, list);
	return one;
}

/* The next run of a device each of whose queues stalled ten times more. */
static void send_ten_more(struct sluice_device *one)
{
	unsigned int id;

	for (id = 0; id < one->queues; id++) {
		one->queue[id].stalls += 10;
		one->queue[id].events_pending = true;
	}
	now += NSEC_PER_SEC;
	send();
}

/* The budget of a device is used up: its other queues are first the next time. */
static void events_of_many_queues(void)
{
	struct sluice_device *one;

	fresh_events();
	sluice_devices[0].first = NULL;
	one = add_to_crowd(0, 6);
	send();
	EXPECT_LOG("rtnl 0;tell 0 1 1;tell 1 1 2;tell 2 1 3;tell 3 1 4;unlock 0;"
		   "work 100000000;");
	send_ten_more(one);
	EXPECT_LOG("rtnl 0;tell 4 1 15;tell 5 1 16;tell 0 1 10;tell 1 1 10;unlock 0;"
		   "work 100000000;");
	send_ten_more(one);
	EXPECT_LOG("rtnl 0;tell 2 1 20;tell 3 1 20;tell 4 1 10;tell 5 1 10;unlock 0;"
		   "work 100000000;");
	sluice_devices[0].first = NULL;
	free(one);
}

/* Each device is asked. After 32 messages there is another run. */
static void events_of_many_devices(void)
{
	/* queues of the last device, of each other, and how many others there are */
	static const unsigned int crowds[][3] = {
		{ 3, 4, 7 }, { 4, 4, 7 }, { 4, 4, 8 }, { 1, 1, 8 },
	};
	struct sluice_device *crowd[9];
	unsigned int i, c, all;

	for (c = 0; c < ARRAY_SIZE(crowds); c++) {
		all = crowds[c][0] + crowds[c][1] * crowds[c][2];
		fresh_events();
		sluice_devices[0].first = NULL;
		for (i = 0; i <= crowds[c][2]; i++)
			crowd[i] = add_to_crowd(0, crowds[c][i == 0 ? 0 : 1]);
		messages = 0;
		quiet = true;
		send();
		quiet = false;
		EXPECT(messages, all);
		if (all < 32)
			EXPECT_LOG("rtnl 0;unlock 0;");
		else
			EXPECT_LOG("rtnl 0;unlock 0;work 100000000;");
		sluice_devices[0].first = NULL;
		for (i = 0; i <= crowds[c][2]; i++)
			free(crowd[i]);
	}
}

/* After 32 messages or more a run looks at no other list: the next begins with it.
 * list: where the last run did not end.
 */
static void events_of_two_lists(unsigned int list, unsigned int more)
{
	struct sluice_device *crowd[10];
	unsigned int i;

	fresh_events();
	sluice_devices[0].first = NULL;
	crowd[0] = add_to_crowd(!list, 1);
	for (i = 1; i < 9; i++)
		crowd[i] = add_to_crowd(list, 4);
	crowd[9] = add_to_crowd(list, more);
	messages = 0;
	quiet = true;
	send();
	EXPECT(messages, 32 + more);
	EXPECT(crowd[0]->events_pending, true);
	quiet = false;
	EXPECT_LOG("rtnl 0;unlock 0;work 100000000;");
	send();
	EXPECT_LOG("rtnl 0;tell 0 1 1;unlock 0;");
	sluice_devices[0].first = sluice_devices[1].first = NULL;
	for (i = 0; i < 10; i++)
		free(crowd[i]);
}

static void events_of_noqueue(void)
{
	fresh_events();
	txqs[0].qdisc = &noqueue;
	watch(NULL);	/* no rule, no rule that names a qdisc */
	device->rule = &the_rule;
	the_rule.qdisc[0] = '\0';
	watch(NULL);
	EXPECT_LOG("rtnl 0;unlock 0;rtnl 0;unlock 0;");
	strcpy(the_rule.qdisc, "fq");
	not_sent = true;
	watch(NULL);
	EXPECT_LOG("rtnl 0;unlock 0;work 1000000000;");
	not_sent = false;
	watch(NULL);
	EXPECT_LOG("rtnl 0;tell 0 2 1;unlock 0;work 1000000000;");
	now += 10 * NSEC_PER_SEC - 1;
	watch(NULL);
	EXPECT_LOG("rtnl 0;unlock 0;work 1000000000;");
	now++;
	watch(NULL);
	EXPECT_LOG("rtnl 0;tell 0 2 1;unlock 0;work 1000000000;");
	txqs[0].qdisc = &fq;
	watch(NULL);
	txqs[0].qdisc = &noqueue;
	watch(NULL);	/* missing once more */
	EXPECT_LOG("rtnl 0;unlock 0;work 1000000000;"
		   "rtnl 0;tell 0 2 1;unlock 0;work 1000000000;");
	ready = false;
	watch(NULL);
	watch_qdiscs();
	EXPECT_LOG("rtnl 0;unlock 0;");
	device->rule = NULL;
	the_rule.qdisc[0] = '\0';
}

static void events(void)
{
	events_of_stops();
	events_of_stalls();
	events_of_many_queues();
	events_of_many_devices();
	events_of_noqueue();
	events_of_two_lists(1, 0);
	events_of_two_lists(0, 3);
	start_events();
	EXPECT(ready, true);
	EXPECT_LOG("work 0;work 0;");
	watch_qdiscs();
	EXPECT_LOG("work 100000000;");
	stop_events();
	EXPECT(ready, false);
	EXPECT_LOG("rtnl 0;unlock 0;grace;no work 0;no work 0;");
	sluice_devices[0].first = NULL;
}
