// SPDX-License-Identifier: GPL-2.0-or-later
/* What is done to a device, its files and the machine while packets flow. */
#include "world.h"

static void purge(struct tun_file *file)
{
	void *packet;

	while (driver_consume_batch(file, &packet, 1))
		found++;
}

void open_file(unsigned int at)
{
	if (!processes[at].file)
		processes[at].file = driver_open(at, plan.size, plan.batch);
}

/* Somebody stops or wakes a queue without asking whose stop it is. */
static void wake_any(struct netdev_queue *txq)
{
	struct tun_device *tun = container_of(txq->dev, struct tun_device, dev);

	tun->foreign[txq - tun->dev.tx] = false;
	clear_bit(__QUEUE_STATE_DRV_XOFF, &txq->state);
}

static void stop_any(struct netdev_queue *txq)
{
	struct tun_device *tun = container_of(txq->dev, struct tun_device, dev);

	if (!test_and_set_bit(__QUEUE_STATE_DRV_XOFF, &txq->state))
		tun->foreign[txq - tun->dev.tx] = true;
}

/* TUNSETQUEUE, or the file is closed: the last queue's file moves into the hole. */
static void detach_process(struct tun_device *tun, struct process *process)
{
	struct tun_file *last = tun->slots[tun->attached - 1];
	int hole = process->index;

	driver_publish(&tun->slots[hole], last);
	processes[last->process].index = hole;
	driver_publish(&tun->slots[tun->attached - 1], NULL);
	process->index = -1;
	tun->attached--;
	if (chance(2) && tun->dev.running)	/* as 7.3 does */
		wake_any(&tun->dev.tx[hole]);
	synchronize_rcu();
	purge(process->file);
	if (tun->attached)
		tun->dev.real_num_tx_queues = tun->attached;
	notify(tun, NETDEV_CHANGE);
}

static void attach_process(struct tun_device *tun, struct process *process)
{
	if (tun->attached == plan.queues)
		return;
	process->index = tun->attached;
	driver_publish(&tun->slots[tun->attached], process->file);
	tun->attached++;
	tun->dev.real_num_tx_queues = tun->attached;
	notify(tun, NETDEV_CHANGE);
}

static void detach(void)
{
	struct process *process = &processes[chance(FILES)];

	if (process->index >= 0 && the_device->attached > 1)
		detach_process(the_device, process);
}

static void attach(void)
{
	struct process *process = &processes[chance(FILES)];

	if (the_device && process->file && process->index < 0)
		attach_process(the_device, process);
}

/* Nobody closes a file while he reads from it. */
static void close_file(void)
{
	struct process *process = &processes[chance(FILES)];
	struct tun_file *file = process->file;

	if (!file)
		return;
	if (process->index >= 0)
		detach_process(the_device, process);
	process->file = NULL;
	while (process->inside)
		sleep_ns(NSEC_PER_USEC);
	purge(file);
	driver_close(file);
}

static void reopen_file(void)
{
	open_file(chance(FILES));
}

static void set_size(void)
{
	int i, size = 2 * senders + 8 + chance(60);

	for (i = 0; i < FILES; i++)
		if (processes[i].file)
			driver_resize(processes[i].file, size, count_purged);
	if (the_device)
		notify(the_device, NETDEV_CHANGE_TX_QUEUE_LEN);
}

static void link_down(void)
{
	unsigned int i;

	if (!the_device || !the_device->dev.running)
		return;
	notify(the_device, NETDEV_GOING_DOWN);
	the_device->dev.running = false;
	for (i = 0; i < plan.queues; i++)
		stop_any(&the_device->dev.tx[i]);
	if (chance(2))	/* the core waits; nothing of ours relies on it */
		synchronize_rcu();
}

static void link_up(void)
{
	unsigned int i;

	if (!the_device || the_device->dev.running)
		return;
	for (i = 0; i < plan.queues; i++)
		wake_any(&the_device->dev.tx[i]);
	the_device->dev.running = true;
	notify(the_device, NETDEV_UP);
}

void create_device(void)
{
	struct tun_device *tun;
	unsigned int i;

	if (the_device)
		return;
	tun = tun_create(plan.queues);
	notify(tun, NETDEV_REGISTER);
	for (i = 0; i < FILES; i++)
		if (processes[i].file && processes[i].index < 0)
			attach_process(tun, &processes[i]);
	the_device = tun;
	link_up();
}

/* The slots are left as they are, as the driver does: nobody looks any more. */
static void remove_device(void)
{
	struct tun_device *tun = the_device;
	unsigned int i;

	if (!tun)
		return;
	link_down();
	tun->dev.reg_state = NETREG_UNREGISTERING;
	notify(tun, NETDEV_UNREGISTER);
	the_device = NULL;
	synchronize_rcu();
	for (i = 0; i < FILES; i++)
		if (processes[i].index >= 0) {
			processes[i].index = -1;
			purge(processes[i].file);
		}
	poison_free(tun->dev.tx);
	poison_free(tun);
}

static void set_qdisc(void)
{
	struct Qdisc *qdiscs[] = { &fq, &fq, &noqueue, &lockless };
	struct Qdisc *qdisc = qdiscs[chance(4)];
	unsigned int i;

	for (i = 0; the_device && i < plan.queues; i++)
		driver_set_qdisc(&the_device->dev.tx[i], qdisc);
	synchronize_rcu();
}

/*
 * Somebody stops a queue unless our stop lasts: there is one bit for both. Under the
 * queue's lock, because a wake of ours ends the stop before it clears the bit.
 */
static void stop_unless_ours(struct netdev_queue *txq, struct sluice_queue *q)
{
	if (!q) {
		stop_any(txq);
		return;
	}
	spin_lock_irq(&q->lock);
	if (!q->stopped)
		stop_any(txq);
	spin_unlock_irq(&q->lock);
}

/* Somebody stops a queue that is open, and wakes it later. */
static void stop_foreign(void)
{
	struct sluice_device *served = served_device();
	unsigned int id = chance(plan.queues);
	struct netdev_queue *txq;

	if (!the_device || !the_device->dev.running)
		return;
	txq = &the_device->dev.tx[id];
	stop_unless_ours(txq, served ? &served->queue[id] : NULL);
	if (!the_device->foreign[txq - the_device->dev.tx])
		return;
	sleep_ns(chance(chance(2) ? 3000 : 3000000));
	wake_any(txq);
}

/* Somebody wakes a queue that we stopped. */
static void wake_foreign(void)
{
	if (the_device && the_device->dev.running)
		wake_any(&the_device->dev.tx[chance(plan.queues)]);
}

static void set_switch(void)
{
	struct sluice_device *served = served_device();

	if (!served)
		return;
	served->by_hand.given |= SLUICE_SETTING_ON;
	served->by_hand.on = !served->on;
	sluice_device_configure(served);
}

static void set_parameters(void)
{
	static const u32 limits[] = { 0, 0, 1, 5, 1000 };
	struct sluice_device *served = served_device();

	if (!served)
		return;
	served->by_hand = (struct sluice_settings){
		.given = chance(32),
		.on = served->by_hand.on,
		.limit = limits[chance(5)],
		.low_percent = chance(96),
		.target_us = chance(2) * chance(200),
		.stall_ms = sluice_default_stall_ms,
	};
	sluice_device_configure(served);
}

static void check_queue(struct sluice_device *served, unsigned int id)
{
	u64 most_ns = served->flow.stall_ms * NSEC_PER_MSEC + SLACK_NS +
		      plan.loses_timers * 3UL * NSEC_PER_SEC;
	struct sluice_queue_view view;

	sluice_queue_read(&served->queue[id], &view);
	if (view.stops != view.wakes[0] + view.wakes[1] +
	    (view.state == SLUICE_QUEUE_STOPPED))
		fail("queue %u: stops and wakes do not add up", id);
	if (view.longest_stop_ns > most_ns)
		fail("queue %u: stopped for %lu ns", id, view.longest_stop_ns);
	if ((view.state == SLUICE_QUEUE_IDLE) !=
	    (served->state != SLUICE_DEVICE_SERVED))
		fail("queue %u: open while its device is not served, or closed", id);
	if (view.fill > view.size || view.low > view.limit || view.limit > view.size)
		fail("queue %u: shown with fill %u, limit %u, low %u of %u", id,
		     view.fill, view.limit, view.low, view.size);
}

void check_view(void)
{
	struct sluice_device *served = served_device();
	unsigned int id;

	if (!served)
		return;
	for (id = 0; id < served->queues; id++)
		check_queue(served, id);
	if (the_device->attached && the_device->dev.running && served->on &&
	    served->state != SLUICE_DEVICE_SERVED)
		fail("a device with a reader is not served");
}

static void act(void)
{
	static void (*const acts[])(void) = {
		set_switch, set_parameters, set_qdisc, link_down, detach, attach,
		close_file, reopen_file, attach, set_size, remove_device,
		create_device, stop_foreign, stop_foreign, wake_foreign, wake_foreign,
		set_switch, attach,
	};

	acting = true;
	if (plan.intrudes && chance(4))
		(chance(2) ? stop_foreign : wake_foreign)();
	else
		acts[chance(ARRAY_SIZE(acts))]();
	check_view();
	if (chance(2)) {	/* let them send again */
		create_device();
		link_up();
	}
	excuses++;
	acting = false;
}

void operator(void *unused)
{
	while (senders_left) {
		sleep_ns(chance(chance(4) || plan.intrudes ? 20000 : 2000000));
		if (!plan.operates)
			continue;
		rtnl_lock();
		if (!over)
			act();
		rtnl_unlock();
	}
}

void end_operator(void)
{
	unsigned int i;

	rtnl_lock();
	over = true;
	excuses++;
	create_device();
	link_up();
	for (i = 0; i < FILES; i++)
		open_file(i);
	for (i = 0; i < FILES; i++)
		if (processes[i].index < 0)
			attach_process(the_device, &processes[i]);
	rtnl_unlock();
}

/* When all threads have ended. */
u64 check_end(void)
{
	u64 out = 0;
	int i;

	for (i = 0; i < FILES; i++)
		if (processes[i].file)
			purge(processes[i].file);
	for (i = 0; i < senders; i++)
		out += sent[i];
	if (found != out)
		fail("%lu packets sent, %lu found again", out, found);
	return out;
}
