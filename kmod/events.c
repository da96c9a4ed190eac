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
 * checked once a second.
 */
#define WATCH_EVERY		HZ
#define NOQUEUE_EVERY_NS	(10ULL * NSEC_PER_SEC)

static bool ready;
static void watch(struct work_struct *unused);
static DECLARE_DELAYED_WORK(watcher, watch);
static void send_pending(struct work_struct *unused);
static DECLARE_DELAYED_WORK(runner, send_pending);

/**
 * sluice_events_schedule() - a queue stopped for the first time, or stalled
 * @q: the queue
 *
 * Context: any with interrupts off, hard irq included; @q->lock, which
 *	    report_queue() takes after report_device() cleared both flags.
 */
void sluice_events_schedule(struct sluice_queue *q)
{
	WRITE_ONCE(q->events_pending, true);
	WRITE_ONCE(q->device->events_pending, true);
	if (READ_ONCE(ready))	/* pairs with sluice_events_stop() */
		schedule_delayed_work(&runner, RUN_EVERY);
}

/* Whether an event remains to be sent. */
static bool report_queue(struct sluice_queue *q, unsigned int *budget)
{
	struct sluice_queue_view v;
	u64 now = ktime_get_ns();

	ASSERT_RTNL();
	sluice_queue_read(q, &v);
	if (v.stops && !q->stop_reported) {
		if (!sluice_netlink_report(q, &v, SLUICE_EVENT_STOP, 1, budget))
			return true;
		q->stop_reported = true;
	}
	if (v.stalls == q->stalls_reported)
		return false;
	if ((q->stalls_reported &&
	     now - q->stalls_reported_at < STALLS_EVERY_NS) ||
	    !sluice_netlink_report(q, &v, SLUICE_EVENT_STALL,
				   v.stalls - q->stalls_reported, budget))
		return true;
	q->stalls_reported = v.stalls;
	q->stalls_reported_at = now;
	return false;
}

/* Returns how many messages were sent. */
static unsigned int report_device(struct sluice_device *device)
{
	unsigned int n, queues = device->dev->real_num_tx_queues;
	unsigned int budget = MESSAGES_PER_DEVICE;
	struct sluice_queue *q;
	bool pending = false;

	WRITE_ONCE(device->events_pending, false);
	for (n = 0; n < queues; n++) {
		q = &device->queue[(device->next_queue + n) % queues];
		if (!READ_ONCE(q->events_pending))
			continue;
		WRITE_ONCE(q->events_pending, false);
		if (report_queue(q, &budget)) {
			WRITE_ONCE(q->events_pending, true);
			pending = true;
		}
	}
	device->next_queue += MESSAGES_PER_DEVICE;
	if (pending)
		WRITE_ONCE(device->events_pending, true);
	return MESSAGES_PER_DEVICE - budget;
}

static void send_pending(struct work_struct *unused)
{
	unsigned int left = HASH_SIZE(sluice_devices), sent = 0;
	static unsigned int bucket;
	struct sluice_device *device;
	bool pending = false;

	rtnl_lock();
	while (left-- && sent < MESSAGES_PER_RUN) {
		bucket = (bucket + 1) % HASH_SIZE(sluice_devices);
		hlist_for_each_entry(device, &sluice_devices[bucket], node) {
			if (!READ_ONCE(device->events_pending))
				continue;
			sent += report_device(device);
			pending |= READ_ONCE(device->events_pending);
		}
		cond_resched();
	}
	rtnl_unlock();
	if ((pending || sent >= MESSAGES_PER_RUN) && READ_ONCE(ready))
		schedule_delayed_work(&runner, RUN_EVERY);
}

/* Repeated while the qdisc is missing: the program that attaches it may fail. */
static void report_noqueue(struct sluice_device *device)
{
	struct sluice_queue *q = &device->queue[0];
	unsigned int budget = 1;
	struct sluice_queue_view v;
	u64 now = ktime_get_ns();

	sluice_queue_read(q, &v);
	if (v.state != SLUICE_QUEUE_NOQUEUE) {
		q->noqueue_reported_at = 0;
		return;
	}
	if (q->noqueue_reported_at &&
	    now - q->noqueue_reported_at < NOQUEUE_EVERY_NS)
		return;
	if (sluice_netlink_report(q, &v, SLUICE_EVENT_NOQUEUE, 1, &budget))
		q->noqueue_reported_at = now;
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
		report_noqueue(device);
		cond_resched();
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
 * sluice_events_start() - from now on events are sent, earlier ones as well
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
	synchronize_rcu(); /* interrupts are off in sluice_events_schedule() */
	cancel_delayed_work_sync(&runner);
	cancel_delayed_work_sync(&watcher);
}
