// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: whom backstop.c wakes, and when it runs again. */
#define sluice_backstop_watch	watch_again
#define sluice_backstop_stop	watch_no_longer
#define run			run_backstop
#include "backstop.c"
#undef sluice_backstop_watch
#undef sluice_backstop_stop
#undef run

static unsigned int waiting[2];	/* packets in the qdisc of each queue */

unsigned int qdisc_qlen_sum(const struct Qdisc *qdisc)
{
	return waiting[qdisc == &lockless];
}

void netif_schedule_queue(struct netdev_queue *txq)
{
	note("schedule %d;", (int)(txq - txqs));
}

/* A stopped queue of one device in this list of the table, and another device in the first
 * list, before or behind it.
 */
static void two_devices(unsigned int list, bool first)
{
	static struct sluice_device *other;
	static struct netdev_queue txq = { .qdisc = &fq };
	static struct net_device another = {
		.tx = &txq, .num_tx_queues = 1, .real_num_tx_queues = 1,
	};

	free(other);
	other = zeroed(struct_size(other, queue, 1));
	other->dev = &another;
	other->queues = 1;
	fresh_stopped();
	dev.real_num_tx_queues = 2;
	sluice_queue_init(&other->queue[0], other, 0);
	sluice_devices[0].first = sluice_devices[1].first = NULL;
	runner.work.func(&runner.work);	/* it found nothing the last time */
	if (first)
		hash_add_rcu(sluice_devices, &other->node, 0);
	hash_add_rcu(sluice_devices, &device->node, list);
	if (!first)
		hash_add_rcu(sluice_devices, &other->node, 0);
	*text = '\0';
}

static void backstops(void)
{
	waiting[0] = waiting[1] = 0;
	watch_again();
	EXPECT_LOG("work 1000000000;");
	EXPECT(started == &runner.work, true);
	two_devices(0, true);
	runner.work.func(&runner.work);
	EXPECT_LOG("work 1000000000;");
	two_devices(0, false);
	runner.work.func(&runner.work);
	EXPECT_LOG("work 1000000000;");
	two_devices(1, true);
	runner.work.func(&runner.work);
	EXPECT_LOG("work 1000000000;");
	now = q->timer.expires + NSEC_PER_SEC + 1;
	runner.work.func(&runner.work);
	EXPECT(q->rescued, 1);
	EXPECT_LOG("queue_wake 61 1002000001;wake;complain;work 1000000000;");
	runner.work.func(&runner.work);	/* once more: a qdisc may come back */
	EXPECT_LOG("work 1000000000;");
	runner.work.func(&runner.work);
	EXPECT_LOG("");

	/* of each open queue that is in use the qdisc is run, if it holds packets */
	sluice_queue_opened(&device->queue[1]);
	txqs[1].qdisc = &lockless;
	waiting[1] = 3;
	runner.work.func(&runner.work);
	EXPECT_LOG("schedule 1;work 1000000000;");
	dev.real_num_tx_queues = 1;
	runner.work.func(&runner.work);
	EXPECT_LOG("work 1000000000;");
	runner.work.func(&runner.work);
	EXPECT_LOG("");
	dev.real_num_tx_queues = 2;
	sluice_queue_closed(&device->queue[1]);
	*text = '\0';
	runner.work.func(&runner.work);
	EXPECT_LOG("");
	waiting[1] = 0;
	watch_no_longer();
	EXPECT_LOG("no work 0;");
	sluice_devices[0].first = sluice_devices[1].first = NULL;
	dev.real_num_tx_queues = 0;
}
