// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends an event when a queue stopped or stalled, or when a device lacks the
 * qdisc that its rule names.
 *
 * A queue stops or stalls under q->lock, perhaps in hard irq, where no message
 * can be sent. Only a flag is set there; a work item compares each queue's
 * counts with those it sent. So no event is allocated or queued, and none is
 * lost: if events come faster than messages may, the next message counts them.
 *
 * Limits: one message of stalls per queue and second, MESSAGES_PER_RUN per
 * tenth of a second in all (more if one bucket of devices exceeds it). The
 * first stop of a queue is sent once. A device with many events does not hold
 * up those of others: each device may send MESSAGES_PER_DEVICE in a run,
 * whatever the others sent, and a run begins where the last one ended.
 */
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "sluice.h"

#define RUN_EVERY		(HZ / 10)
#define MESSAGES_PER_RUN	32u
#define MESSAGES_PER_DEVICE	4u
#define STALLS_EVERY_NS		NSEC_PER_SEC

/* No notifier reports a change of the qdisc: devices whose rule names one are
 * looked at once a second.
 */
#define WATCH_EVERY		HZ
#define NOQUEUE_EVERY_NS	(10ULL * NSEC_PER_SEC)

static bool ready;
static void watch(struct work_struct *unused);
static DECLARE_DELAYED_WORK(watcher, watch);
static void run(struct work_struct *unused);
static DECLARE_DELAYED_WORK(runner, run);

/**
 * sluice_events_due() - a queue stopped for the first time, or stalled
 * @device: its device
 *
 * Context: any with interrupts off, hard irq included; that queue's lock,
 *	    which tell_queue() takes after it cleared @device->due.
 */
void sluice_events_due(struct sluice_device *device)
{
	WRITE_ONCE(device->due, true);
	if (READ_ONCE(ready))	/* pairs with sluice_events_stop() */
		schedule_delayed_work(&runner, RUN_EVERY);
}

/* Whether an event remains to be sent. */
static bool tell_queue(struct sluice_queue *q, unsigned int *left)
{
	struct sluice_queue_view v;
	u64 now = ktime_get_ns();

	ASSERT_RTNL();
	sluice_queue_read(q, &v);
	if (v.stops && !q->told_stop) {
		if (!sluice_netlink_tell(q, &v, SLUICE_EVENT_STOP, 1, left))
			return true;
		q->told_stop = true;
	}
	if (v.stalls == q->told_stalls)
		return false;
	if ((q->told_stalls && now - q->told_at < STALLS_EVERY_NS) ||
	    !sluice_netlink_tell(q, &v, SLUICE_EVENT_STALL,
				 v.stalls - q->told_stalls, left))
		return true;
	q->told_stalls = v.stalls;
	q->told_at = now;
	return false;
}

/* Returns how many messages it took. */
static unsigned int tell_device(struct sluice_device *device)
{
	unsigned int n, id, rest = MESSAGES_PER_DEVICE;
	bool untold = false;

	WRITE_ONCE(device->due, false);
	for (n = 0; n < device->queues; n++) {
		id = (device->turn + n) % device->queues;
		untold |= tell_queue(&device->queue[id], &rest);
	}
	device->turn += MESSAGES_PER_DEVICE;
	if (untold)
		WRITE_ONCE(device->due, true);
	return MESSAGES_PER_DEVICE - rest;
}

static void run(struct work_struct *unused)
{
	unsigned int left = HASH_SIZE(sluice_devices), told = 0;
	static unsigned int bucket;
	struct sluice_device *device;
	bool untold = false;

	rtnl_lock();
	while (left-- && told < MESSAGES_PER_RUN) {
		bucket = (bucket + 1) % HASH_SIZE(sluice_devices);
		hlist_for_each_entry(device, &sluice_devices[bucket], node) {
			if (!READ_ONCE(device->due))
				continue;
			told += tell_device(device);
			untold |= READ_ONCE(device->due);
		}
		cond_resched();
	}
	rtnl_unlock();
	if ((untold || told >= MESSAGES_PER_RUN) && READ_ONCE(ready))
		schedule_delayed_work(&runner, RUN_EVERY);
}

/* Repeated while it lasts: whoever attaches the qdisc may have failed. */
static void tell_noqueue(struct sluice_device *device)
{
	struct sluice_queue *q = &device->queue[0];
	unsigned int left = 1;
	struct sluice_queue_view v;
	u64 now = ktime_get_ns();

	sluice_queue_read(q, &v);
	if (v.state != SLUICE_QUEUE_NOQUEUE) {
		device->told_noqueue_at = 0;
		return;
	}
	if (device->told_noqueue_at &&
	    now - device->told_noqueue_at < NOQUEUE_EVERY_NS)
		return;
	device->told_noqueue_at = now;
	sluice_netlink_tell(q, &v, SLUICE_EVENT_NOQUEUE, 1, &left);
}

static void watch(struct work_struct *unused)
{
	struct sluice_device *device;
	bool wanted = false;
	int bucket;

	rtnl_lock();
	hash_for_each(sluice_devices, bucket, device, node) {
		if (!device->rule || !*device->rule->qdisc)
			continue;
		wanted = true;
		tell_noqueue(device);
	}
	rtnl_unlock();
	if (wanted && READ_ONCE(ready))
		schedule_delayed_work(&watcher, WATCH_EVERY);
}

/**
 * sluice_events_watch() - a device has a rule that names a qdisc
 *
 * Context: process, RTNL.
 */
void sluice_events_watch(void)
{
	ASSERT_RTNL();
	if (READ_ONCE(ready))	/* pairs with sluice_events_stop() */
		schedule_delayed_work(&watcher, WATCH_EVERY / 10);
}

/**
 * sluice_events_start() - from now on events are told, those so far as well
 *
 * Context: process, module load, after sluice_netlink_start().
 */
void sluice_events_start(void)
{
	WRITE_ONCE(ready, true);
	schedule_delayed_work(&runner, 0);
	schedule_delayed_work(&watcher, 0);	/* for rules that came before */
}

/**
 * sluice_events_stop() - no message is under way once this returns
 *
 * Context: process, module unload, before sluice_netlink_stop(), without RTNL.
 */
void sluice_events_stop(void)
{
	WRITE_ONCE(ready, false);
	rtnl_lock();	/* sluice_events_watch() is done */
	rtnl_unlock();
	synchronize_rcu(); /* interrupts are off in sluice_events_due() */
	cancel_delayed_work_sync(&runner);
	cancel_delayed_work_sync(&watcher);
}
