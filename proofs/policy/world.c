// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The world around the real hook.c, queue.c and device.c: one device of the
 * stock driver with two queues, senders, readers, and an operator who does to
 * it whatever may be done. It fails when
 *
 *   - a packet is lost at a ring that ought to lose none (see strict below);
 *   - a stop that is not ours is woken, or ours outlasts the stall time;
 *   - a queue is still stopped after its readers caught up, or after unload;
 *   - a reader that lives is taken for dead;
 *   - packets, or stops and wakes, do not add up;
 *   - a drop is counted at an empty ring, or not counted at a full one.
 */
#include <stdio.h>
#include <unistd.h>

#ifdef THREADS
#include "threads.c"
#define LONGEST_STOP_NS	(30 * NSEC_PER_SEC)	/* of real time, on a busy machine */
#else
#include "steps.c"
#define LONGEST_STOP_NS	(200 * NSEC_PER_MSEC)
#endif

#include <linux/ptr_ring.h>
#include "sluice.h"

#define QUEUES		2
#define FILES		2
#define SENDERS_MAX	4
#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)

struct tun_file {
	struct ptr_ring ring;
	int index;		/* its queue, -1 while detached */
	/*
	 * No packet may be lost: since the last change of anything that
	 * excuses a loss the reader caught up once, and every sender has
	 * since begun anew.
	 */
	bool strict;
	unsigned int caught_up[SENDERS_MAX];	/* senders' rounds at that time */
	bool waits;		/* caught up, waits for the senders */
	u64 read, dropped, purged;
};

struct plan {
	u64 packets;		/* each sender's */
	bool operates;		/* there is an operator */
	bool leaves;		/* the module is unloaded under traffic */
	bool dies;		/* readers pause for longer than the stall time */
	int reader_pace;	/* in steps of virtual time */
	int size;
	u32 limit;		/* the operator's, from the start */
};

bool sluice_direct_call;
bool sluice_default_on = true;
uint sluice_default_stall_ms = 1;
uint sluice_default_low_percent = 50;
uint sluice_default_target_us;
int policy_senders;

static spinlock_t rtnl;
static struct plan plan;
static void *slots[QUEUES];
static struct tun_file *files[FILES];
static unsigned int attached;
static struct netdev_queue txqs[QUEUES];
static bool foreign[QUEUES];		/* stopped by the driver: the link is down */
static struct Qdisc fq = { .enqueue = &fq }, noqueue;
static struct ftrace_ops *hook;
static struct notifier_block *notifier;
static u64 sent[SENDERS_MAX], unread_drops;
static unsigned int rounds[SENDERS_MAX];
static int senders_left, stop_readers, lost_lately;
static bool over;	/* the operator's time; nothing is strict any more */
static bool verbose;
static u64 strict_packets, stops, stalls;
static struct rtnl_link_ops tun_ops = { .kind = "tun" };
static struct net_device_ops transmit_ops = { .ndo_start_xmit = &hook };
static struct net_device dev = {
	.num_tx_queues = QUEUES,
	.real_num_tx_queues = QUEUES,
	.rtnl_link_ops = &tun_ops,
	.netdev_ops = &transmit_ops,
	.tx = txqs,
};

#define load(x)		__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define store(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#define add(x, n)	__atomic_fetch_add(&(x), n, __ATOMIC_ACQ_REL)

/* layout.c, of a driver whose file begins with its ring */
void **sluice_layout_slot(const struct net_device *device, unsigned int id)
{
	(void)device;
	return &slots[id];
}

const char *sluice_layout_check(void **slot)
{
	return load(*slot) ? NULL : "";
}

struct ptr_ring *sluice_layout_ring(void *file)
{
	return file;
}

/* rules.c: there are none */
const struct sluice_rule *sluice_rules_find(const struct net_device *dev)
{
	(void)dev;
	return NULL;
}

void sluice_rules_free(void)
{
}

void sluice_events_watch(void)
{
}

/* events.c: nobody listens */
void sluice_events_due(struct sluice_device *device)
{
	(void)device;
}

int register_ftrace_function(struct ftrace_ops *ops)
{
	store(hook, ops);
	return 0;
}

int unregister_ftrace_function(struct ftrace_ops *ops)
{
	(void)ops;
	store(hook, NULL);
	synchronize_rcu();
	return 0;
}

static void notify(unsigned long event)
{
	if (notifier)
		notifier->notifier_call(notifier, event, &dev);
}

void rtnl_lock(void)
{
	spin_lock(&rtnl);
}

void rtnl_unlock(void)
{
	spin_unlock(&rtnl);
}

void ASSERT_RTNL(void)
{
	lockdep_assert_held(&rtnl);
}

int register_netdevice_notifier(struct notifier_block *block)
{
	rtnl_lock();
	notifier = block;
	notify(NETDEV_REGISTER);
	if (dev.running)
		notify(NETDEV_UP);
	rtnl_unlock();
	return 0;
}

int unregister_netdevice_notifier(struct notifier_block *block)
{
	(void)block;
	rtnl_lock();
	if (dev.running)
		notify(NETDEV_GOING_DOWN);
	notify(NETDEV_UNREGISTER);
	notifier = NULL;
	rtnl_unlock();
	return 0;
}

void netif_tx_wake_queue(struct netdev_queue *txq)
{
	if (load(foreign[txq - txqs]))
		fail("queue %ld: woken, though somebody else stopped it",
		     (long)(txq - txqs));
	step();
	__atomic_fetch_and(&txq->state, ~XOFF, __ATOMIC_SEQ_CST);
}

/* Something happened that may cost packets. */
static void excuse(void)
{
	unsigned int i;

	for (i = 0; i < FILES; i++) {
		store(files[i]->strict, false);
		store(files[i]->waits, false);
	}
}

/* The tracepoints: a reader taken for dead excuses, and whoever repeats a seed
 * wants to see them.
 */
void show(const char *event, const struct sluice_queue *q, int fill, u64 stopped_ns)
{
	const struct ptr_ring *ring = q->ring;

	if (!strcmp(event, "queue_stall")) {
		if (!plan.dies)
			fail("a reader that lives is taken for dead");
		excuse();
	}
	if (verbose)
		printf("%12lu %s: queue %u fill %d producer %d head %d tail %d\n",
		       ktime_get_ns(), event, (unsigned int)(q - q->device->queue),
		       fill, ring->producer, ring->consumer_head,
		       ring->consumer_tail);
}

void sluice_backstop_watch(void)
{
}

static struct sluice_device *device(void)
{
	return sluice_device_find(&dev);
}

static bool serves(unsigned int id)
{
	struct sluice_device *served = device();

	return served && load(served->served) && load(txqs[id].qdisc) == &fq &&
	       !load(served->queue[id].stalled);
}

static void lost(struct tun_file *file, unsigned int id)
{
	bool served = serves(id);

	add(file->dropped, 1);
	store(lost_lately, 1);
	if (verbose)
		printf("%12lu lost: queue %u%s\n", ktime_get_ns(), id,
		       served ? "" : ", stalled or not served");
	if (load(file->strict) && served && !load(over))
		fail("queue %u: a packet is lost at a ring of %d (producer %d, head %d, tail %d)",
		     id, file->ring.size, file->ring.producer,
		     file->ring.consumer_head, file->ring.consumer_tail);
}

/* What the stock driver does with a packet. */
static void driver_transmits(unsigned int id)
{
	struct tun_file *file;

	step();
	file = load(slots[id]);
	if (!file) {
		add(unread_drops, 1);
		return;
	}
	if (load(file->strict))
		add(strict_packets, 1);
	if (ptr_ring_produce(&file->ring, file))
		lost(file, id);
}

/* The hook, before the driver. */
static void hook_sees(unsigned int id, struct ftrace_regs *regs)
{
	struct sluice_device *served = device();
	struct ftrace_ops *ops = load(hook);
	struct tun_file *file = load(slots[id]);
	bool alone = policy_senders == 1 && served && file;
	bool empty = alone && __ptr_ring_empty(&file->ring);
	bool full = alone && !plan.operates && !plan.leaves &&
		    __ptr_ring_full(&file->ring);
	u64 drops = served ? load(served->queue[id].drops.counter) : 0;

	if (ops)
		ops->func(0, 0, ops, regs);
	if (empty && file == load(slots[id]) &&
	    load(served->queue[id].drops.counter) != drops)
		fail("queue %u: a drop is counted at an empty ring", id);
	if (full && !load(over) && __ptr_ring_full(&file->ring) &&
	    load(served->queue[id].drops.counter) == drops)
		fail("queue %u: a drop at a full ring of %d is not counted", id,
		     file->ring.size);
}

/* One packet of a sender, from the core's test of the stopped bit. */
static bool transmit(unsigned int id)
{
	struct sk_buff skb = { .queue_mapping = id };
	struct ftrace_regs regs = { .argument = { &skb, &dev } };
	bool open;

	rcu_read_lock_bh();
	open = !(load(txqs[id].state) & XOFF);
	if (open) {
		step();
		hook_sees(id, &regs);
		driver_transmits(id);
	}
	rcu_read_unlock_bh();
	return open;
}

static void sender(void *argument)
{
	long at = (long)argument;

	while (load(sent[at]) < plan.packets) {
		if (transmit(chance(8) ? at % QUEUES : chance(QUEUES)))
			add(sent[at], 1);
		else
			sleep_ns(500 + chance(3000));
		add(rounds[at], 1);
		if (chance(200) == 0)
			sleep_ns(chance(60000));
		if (load(lost_lately) && chance(40) == 0) {
			store(lost_lately, 0);	/* a dead reader may come round */
			sleep_ns(8 * NSEC_PER_MSEC);
		}
	}
	add(rounds[at], 1000000);	/* holds no packet any more */
	add(senders_left, -1);
}

/* The reader found its ring empty: soon nothing excuses a loss. */
static void caught_up(struct tun_file *file)
{
	bool all = true;
	int i;

	if (load(file->strict) || load(file->index) < 0)
		return;
	if (!load(file->waits)) {
		for (i = 0; i < policy_senders; i++)
			file->caught_up[i] = load(rounds[i]);
		store(file->waits, true);
		return;
	}
	for (i = 0; i < policy_senders; i++)
		all &= load(rounds[i]) > file->caught_up[i] + 1;
	rcu_read_lock_bh();
	if (all && load(file->index) >= 0 && serves(load(file->index)))
		store(file->strict, true);
	rcu_read_unlock_bh();
}

static void reader(void *argument)
{
	struct tun_file *file = argument;

	while (!load(stop_readers)) {
		if (ptr_ring_consume(&file->ring)) {
			add(file->read, 1);
			if (chance(3) == 0)
				sleep_ns(1 + chance(plan.reader_pace));
		} else {
			caught_up(file);
			sleep_ns(200 + chance(2000));
		}
		if (plan.dies && chance(1500) == 0) {
			excuse();
			sleep_ns(chance(4) * NSEC_PER_MSEC);
			excuse();
		}
	}
}

static void count_purged(void *packet)
{
	add(((struct tun_file *)packet)->purged, 1);
}

static void purge(struct tun_file *file)
{
	while (ptr_ring_consume(&file->ring))
		add(file->purged, 1);
}

/* TUNSETQUEUE: the last queue's file moves into the hole. */
static void detach(void)
{
	struct tun_file *file = files[chance(FILES)], *last;

	if (file->index < 0 || attached < 2)
		return;
	last = slots[attached - 1];
	store(slots[file->index], last);
	store(last->index, file->index);
	store(slots[attached - 1], NULL);
	attached--;
	store(file->index, -1);
	synchronize_rcu();
	purge(file);
	dev.real_num_tx_queues = attached;
	notify(NETDEV_CHANGE);
}

static void attach(void)
{
	struct tun_file *file = files[chance(FILES)];

	if (file->index >= 0)
		return;
	store(file->index, attached);
	store(slots[attached], file);
	attached++;
	dev.real_num_tx_queues = attached;
	notify(NETDEV_CHANGE);
}

static void set_size(void)
{
	int i, size = 24 + chance(64);

	for (i = 0; i < FILES; i++)
		ptr_ring_resize_noprof(&files[i]->ring, size, GFP_KERNEL, count_purged);
	notify(NETDEV_CHANGE_TX_QUEUE_LEN);
}

static void link_down(void)
{
	int i;

	if (!dev.running)
		return;
	notify(NETDEV_GOING_DOWN);
	dev.running = false;
	for (i = 0; i < QUEUES; i++) {
		store(foreign[i], true);
		__atomic_fetch_or(&txqs[i].state, XOFF, __ATOMIC_SEQ_CST);
	}
}

static void link_up(void)
{
	int i;

	if (dev.running)
		return;
	dev.running = true;
	for (i = 0; i < QUEUES; i++) {
		store(foreign[i], false);
		__atomic_fetch_and(&txqs[i].state, ~XOFF, __ATOMIC_SEQ_CST);
	}
	notify(NETDEV_UP);
}

static void set_qdisc(void)
{
	int i;
	struct Qdisc *qdisc = load(txqs[0].qdisc) == &fq ? &noqueue : &fq;

	for (i = 0; i < QUEUES; i++)
		store(txqs[i].qdisc, qdisc);
	synchronize_rcu();
}

/* Somebody stops a queue that is open, and wakes it later. */
static void stop_foreign(void)
{
	unsigned int id = chance(QUEUES);

	if (!dev.running || __atomic_fetch_or(&txqs[id].state, XOFF, __ATOMIC_SEQ_CST) & XOFF)
		return;
	store(foreign[id], true);
	sleep_ns(chance(3000000));
	store(foreign[id], false);
	__atomic_fetch_and(&txqs[id].state, ~XOFF, __ATOMIC_SEQ_CST);
}

static void set_switch(void)
{
	struct sluice_device *served = device();

	served->on = !served->on;
	sluice_device_settle(served);
}

static void set_parameters(void)
{
	static const u32 limits[] = { 0, 0, 1, 5, 1000 };
	struct sluice_device *served = device();

	WRITE_ONCE(served->limit, limits[chance(5)]);
	WRITE_ONCE(served->low_percent, chance(96));
	WRITE_ONCE(served->target_us, chance(2) * chance(200));
	sluice_device_settle(served);
}

static void check_view(void)
{
	struct sluice_queue_view view;
	unsigned int id;

	for (id = 0; id < QUEUES; id++) {
		sluice_queue_read(&device()->queue[id], &view);
		if (view.stops != view.wakes[0] + view.wakes[1] +
		    (view.state == SLUICE_QUEUE_STOPPED))
			fail("queue %u: stops and wakes do not add up", id);
		if (!view.reader_ns)
			fail("queue %u: its reader's pace is lost", id);
		if (view.longest_stop_ns > LONGEST_STOP_NS)
			fail("queue %u: stopped for %lu ns", id, view.longest_stop_ns);
	}
}

static void operator(void *unused)
{
	static void (*const acts[])(void) = {
		set_switch, set_parameters, set_qdisc, link_down, link_up, detach,
		attach, set_size, check_view, link_up, attach, stop_foreign,
		stop_foreign,
	};

	(void)unused;
	while (load(senders_left)) {
		sleep_ns(chance(chance(4) ? 20000 : 2000000));
		if (!plan.operates)
			continue;
		rtnl_lock();
		if (load(over)) {
			rtnl_unlock();
			return;
		}
		excuse();
		acts[chance(sizeof(acts) / sizeof(acts[0]))]();
		excuse();
		rtnl_unlock();
		if (!dev.running) {	/* let them send again */
			rtnl_lock();
			link_up();
			rtnl_unlock();
		}
	}
}

static void check_counts(void)
{
	u64 put = unread_drops, out = 0;
	int i;

	for (i = 0; i < FILES; i++)
		put += files[i]->read + files[i]->dropped + files[i]->purged;
	for (i = 0; i < policy_senders; i++)
		out += sent[i];
	if (put != out)
		fail("%lu packets sent, %lu found again", out, put);
}

/* The senders have ended, or are held up for ever: all must come to rest. */
static void check_rest(void)
{
	u64 end = ktime_get_ns() + 50 * NSEC_PER_MSEC;
	unsigned int id;

	while (ktime_get_ns() < end)
		sleep_ns(100000);
	for (id = 0; id < QUEUES; id++) {
		if (load(txqs[id].state) & XOFF)
			fail("queue %u: still stopped when its readers had caught up", id);
		if (device()) {
			stops += device()->queue[id].stops;
			stalls += device()->queue[id].stalls;
		}
	}
	if (device())
		check_view();
}

static void end_operator(void)
{
	rtnl_lock();
	store(over, true);
	excuse();
	link_up();
	rtnl_unlock();
}

/* The module is unloaded, at rest or under traffic, and stock remains. */
static void closing(void *unused)
{
	(void)unused;
	while (load(sent[0]) < plan.packets / 2)
		sleep_ns(100000);
	if (plan.leaves) {
		end_operator();
		sluice_devices_stop();
	}
	while (load(senders_left))
		sleep_ns(100000);
	if (!plan.leaves) {
		end_operator();
		check_rest();
		sluice_devices_stop();
	}
	if (device())
		fail("unload: the device is still known");
	check_rest();
	store(stop_readers, 1);
}

static void make_plan(u64 packets)
{
	policy_senders = 1 + chance(2) * chance(4);
	plan.leaves = chance(2);
	plan.packets = packets;
	plan.operates = chance(2);
	plan.dies = chance(2);
	sluice_default_stall_ms = plan.dies ? 1 : 20;
	sluice_default_target_us = chance(2) * chance(200);
	plan.reader_pace = 100 << chance(8);
	plan.size = 24 + chance(64);
	plan.limit = chance(2) * chance(8);
}

int main(int count, char **arguments)
{
	unsigned int seed = count > 1 ? atoi(arguments[1]) : 1;
	long i;

	verbose = count > 3;
	seed_world(seed);
	spin_lock_init(&rtnl);
	make_plan(count > 2 ? atoi(arguments[2]) : 2000);
	for (i = 0; i < QUEUES; i++)
		txqs[i].qdisc = &fq;
	dev.running = true;
	attached = FILES;
	for (i = 0; i < FILES; i++) {
		files[i] = zeroed(sizeof(*files[i]));
		ptr_ring_init_noprof(&files[i]->ring, plan.size, GFP_KERNEL);
		files[i]->index = i;
		slots[i] = files[i];
	}
	if (sluice_devices_start())
		fail("the module does not start");
	device()->limit = plan.limit;
	senders_left = policy_senders;
	for (i = 0; i < policy_senders; i++)
		spawn(sender, (void *)i, i);
	for (i = 0; i < FILES; i++)
		spawn(reader, files[i], 8 + i);
	spawn(operator, NULL, 12);
	spawn(closing, NULL, 13);
	run_world(seed);
	for (i = 0; i < FILES; i++)
		purge(files[i]);
	check_counts();
	for (i = 0; i < QUEUES; i++)
		if (txqs[i].state & XOFF)
			fail("queue %ld: still stopped after unload", i);
	printf("seed %u: fine: %lu packets, %lu of them strict, %lu stops, %lu stalls\n",
	       seed, sent[0] + sent[1] + sent[2], strict_packets, stops, stalls);
	return 0;
}
