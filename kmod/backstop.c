// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reviews a stopped queue whose timer was lost, runs a qdisc whose wake was lost.
 *
 * A stopped queue depends on one hrtimer, and tun has no ndo_tx_timeout. This
 * work item does not depend on the timer: it runs once per second while any
 * queue is stopped, and reviews those whose timer is a second overdue. It finds
 * nothing to do unless the kernel, or a hypervisor, lost a timer.
 *
 * A wake that comes while the core changes txqueuelen can be lost: on 7.2.12 the
 * packets in the qdisc survive the change, and then waited for the next packet.
 * While it lasts the queue has an empty qdisc, so it runs once more at the end.
 */
#include <linux/workqueue.h>
#include <net/sch_generic.h>

#include "sluice.h"

#define RUN_EVERY	HZ

/* Read with each stop, and so written only once in a second. */
static bool watching;
static void review_lost(struct work_struct *unused);
static DECLARE_DELAYED_WORK(runner, review_lost);

/**
 * sluice_backstop_watch() - a queue was stopped
 *
 * Context: any, hard irq included; the lock of that queue, which review_lost()
 *	    takes after it cleared @watching. So it sees that stop, or this call
 *	    schedules it.
 */
void sluice_backstop_watch(void)
{
	if (READ_ONCE(watching))
		return;
	WRITE_ONCE(watching, true);
	schedule_delayed_work(&runner, RUN_EVERY);
}

static bool run_waiting(const struct sluice_queue *q)
{
	if (!READ_ONCE(q->open) || !qdisc_qlen_sum(rcu_dereference(q->txq->qdisc)))
		return false;
	netif_schedule_queue(q->txq); /* no effect while it is stopped */
	return true;
}

/* Return: true if a queue is stopped or has packets: run again. */
static bool rescue_device(struct sluice_device *device)
{
	bool again = false;
	unsigned int id;

	for (id = 0; id < READ_ONCE(device->dev->real_num_tx_queues); id++) {
		if (sluice_queue_rescue(&device->queue[id], &again))
			pr_warn_once("%s: queue %u: its timer was lost; the backstop replaced it; please report this\n",
				     device->dev->name, id);
		again |= run_waiting(&device->queue[id]);
	}
	return again;
}

static void review_lost(struct work_struct *unused)
{
	static bool before;
	struct sluice_device *device;
	unsigned int bucket;
	bool again = false;

	WRITE_ONCE(watching, false);
	for (bucket = 0; bucket < HASH_SIZE(sluice_devices); bucket++) {
		rcu_read_lock();
		hlist_for_each_entry_rcu(device, &sluice_devices[bucket], node)
			again |= rescue_device(device);
		rcu_read_unlock();
		cond_resched();
	}
	if (again || before)
		sluice_backstop_watch();
	before = again;
}

/**
 * sluice_backstop_stop() - the work item does not run once this returns
 *
 * Context: process, module unload, when every queue is closed, and so none can
 *	    stop.
 */
void sluice_backstop_stop(void)
{
	cancel_delayed_work_sync(&runner);
}
