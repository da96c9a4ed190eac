// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The world around the real sources: a device of the stock driver, senders, readers, and
 * an operator (operator.c) who does to it whatever may be done, as long as there is
 * time. It fails when
 *
 *   - a packet is lost at a ring that ought to lose none (see struct process);
 *   - a stop that is not ours is woken, or ours outlasts its bound;
 *   - a queue is stopped by us while it is closed, or while no timer is armed;
 *   - more packets need no check than there is room for;
 *   - a queue is still stopped after its readers caught up, or after unload;
 *   - a reader that lives is stalled, or a stall outlasts what caused it;
 *   - packets, or stops and wakes, do not add up;
 *   - memory is used after it is freed, or not freed at all, or the module runs
 *     after it was unloaded.
 */
#include "world.h"

#define DEFAULT_TARGET_US 2000	/* main.c */

bool sluice_direct_call;
bool sluice_locked_reset = true;
bool sluice_default_on = true;
uint sluice_default_stall_ms;
uint sluice_default_low_percent;
uint sluice_default_target_us;

struct plan plan;
struct process processes[FILES];
int senders, senders_left;
u64 sent[SENDERS_MAX], found;
bool acting, over;
static unsigned int rounds[SENDERS_MAX];
static int lost_lately, inside_module;
static int timers_to_lose;
unsigned int excuses = 1;
static bool unloaded, readers_stop;

struct sluice_device *served_device(void)
{
	struct tun_device *tun = the_device;

	return tun ? sluice_device_find(&tun->dev) : NULL;
}

bool timer_is_lost(void)
{
	return timers_to_lose && chance(20) == 0 && timers_to_lose--;
}

void complain(const char *format, ...)
{
	if (!plan.loses_timers)
		fail("the module complains, and without a reason: %s", format);
}

/* rules.c: one, for every device */
static struct sluice_rule the_rule;

const struct sluice_rule *sluice_rules_find(const struct net_device *dev)
{
	return &the_rule;
}

void sluice_rules_free(void) { }

/* events.c: nobody listens */
void sluice_events_watch(void) { }
void sluice_events_schedule(struct sluice_queue *q)
{
	WRITE_ONCE(q->device->events_pending, true);
}

/* entry_....S: nothing has to be preserved */
void sluice_entered(const struct sk_buff *skb, const struct net_device *dev);

void sluice_entry(const struct sk_buff *skb, const struct net_device *dev)
{
	sluice_entered(skb, dev);
}

void sluice_entry_try(unsigned long *registers)
{
	sluice_entry((void *)registers[0], (void *)registers[1]);
}

/* Packets that wait in a qdisc are not in this world: now and then there are some. */
unsigned int qdisc_qlen_sum(const struct Qdisc *qdisc)
{
	return qdisc->enqueue && chance(4) == 0;
}

void netif_schedule_queue(struct netdev_queue *txq)
{
	memory_check(txq, sizeof(*txq));
	step();
}

/* The packet of a sender may have others of its list behind it. */
bool netdev_xmit_more(void)
{
	return chance(4) == 0;
}

static bool serves(unsigned int id)
{
	struct tun_device *tun = the_device;
	struct sluice_device *served = served_device();

	return served && id < served->queues && served->queue[id].open &&
	       tun->dev.tx[id].qdisc == &fq &&
	       !served->queue[id].flow.stalled;
}

/* Slots that are not free, as they are in memory. */
static int slots_used(const struct tun_file *file)
{
	const struct ptr_ring *ring = &file->ring;
	int used = ring->producer - ring->consumer_tail;
	int newest = ring->producer ? ring->producer - 1 : ring->size - 1;

	if (!used)
		return ring->queue[newest] ? ring->size : 0;
	return used < 0 ? used + ring->size : used;
}

static bool is_strict(const struct tun_file *file)
{
	return !acting && processes[file->process].strict == excuses;
}

/* The tracepoints. A stall excuses losses. */
void show(const char *event, const struct sluice_queue *q, int fill, u64 stopped_ns)
{
	const struct ptr_ring *ring;

	if (!strcmp(event, "queue_stall")) {
		if (!plan.dies)
			fail("a reader that lives is stalled");
		totals->stalls++;
		excuses++;
	}
	totals->stops += !strcmp(event, "queue_stop");
	if (!verbose)
		return;
	ring = q->ring;
	printf("%12lu %s: queue %u fill %d producer %d head %d tail %d\n",
	       ktime_get_ns(), event, (unsigned int)(q - q->device->queue), fill,
	       ring->producer, ring->consumer_head, ring->consumer_tail);
}

void check_invariants(void)
{
	struct hlist_node *node;
	struct sluice_device *served;
	unsigned int id;

	/* without a marked access, which takes time */
	for (node = sluice_devices[0].first; node; node = node->next) {
		served = container_of(node, struct sluice_device, node);
		for (id = 0; id < served->queues; id++) {
			const struct sluice_queue *q = &served->queue[id];

			if (q->lock.owner || !q->stopped)
				continue;
			if (!q->open)
				fail("queue %u: stopped, though closed", id);
			if (!(q->timer.queued || q->timer.running) && !plan.loses_timers)
				fail("queue %u: stopped without a timer", id);
		}
	}
}

static void lost(struct tun_file *file, unsigned int id)
{
	bool served = serves(id);

	found++;
	lost_lately = 1;
	if (verbose)
		printf("%12lu lost: queue %u%s\n", ktime_get_ns(), id,
		       served ? "" : ", stalled or not served");
	if (is_strict(file) && served && !over)
		fail("queue %u: a packet is lost at a ring of %d (producer %d, head %d, tail %d)",
		     id, file->ring.size, file->ring.producer,
		     file->ring.consumer_head, file->ring.consumer_tail);
}

/* What the stock driver does with a packet. */
static void driver_transmits(struct tun_device *tun, unsigned int id)
{
	struct tun_file *file = driver_file(&tun->slots[id]);

	if (!file) {
		found++;
		return;
	}
	if (is_strict(file))
		totals->strict++;
	if (driver_produce(file, &found))
		lost(file, id);
}

/* What the driver's first instruction calls. */
static void call_hook(struct sk_buff *skb, struct tun_device *tun)
{
	struct ftrace_regs regs = { .argument = { skb, &tun->dev } };
	struct ftrace_ops *ops = tracer.callback;
	void (*direct)(const struct sk_buff *, const struct net_device *) =
		(void *)tracer.direct_function;

	if (ops && ops->filter != transmit_ip())
		ops = NULL;
	if ((ops || direct) && unloaded)
		fail("the hook runs after the module is unloaded");
	if (!ops && !direct)
		return;
	inside_module++;
	if (ops)
		ops->func(transmit_ip(), 0, ops, &regs);
	if (direct)
		direct(skb, &tun->dev);
	inside_module--;
}

/*
 * The packets that need no check from now on leave the headroom free: who wrote the
 * next check saw no tail that is newer than this one.
 */
static void check_unchecked(const struct tun_file *file, const struct sluice_queue *q)
{
	int size = file->ring.size, used = slots_used(file);
	int limit = size - min(2 * senders + file->ring.batch, size / 2) - 1;
	u32 left = sluice_check_last(q->next_check.counter) - file->ring.producer;

	if (used < size && left < sluice_check_span(size) && used + (int)left + 1 > limit)
		fail("queue %ld: %d of %d slots in use, and %u packets need no check",
		     (long)(q - q->device->queue), used, size, left + 1);
}

/* The hook, before the driver. */
static void hook_sees(struct tun_device *tun, int id)
{
	struct sk_buff skb = { .queue_mapping = id };
	struct sluice_device *served = served_device();
	struct tun_file *file = tun->slots[id];

	call_hook(&skb, tun);
	if (file && tun->slots[id] == file && served && serves(id) && is_strict(file) &&
	    !plan.operates && !plan.batches && !over)
		check_unchecked(file, &served->queue[id]);
}

/* One packet of a sender, from the core's test of the stopped bit. */
static bool transmit(unsigned int queue)
{
	struct tun_device *tun;
	unsigned int id;
	bool goes;

	rcu_read_lock_bh();
	tun = the_device;
	goes = tun && tun->dev.running;
	id = goes ? queue % tun->dev.real_num_tx_queues : 0;
	goes = goes && !driver_stopped(&tun->dev.tx[id]);
	if (goes) {
		hook_sees(tun, id);
		driver_transmits(tun, id);
	}
	rcu_read_unlock_bh();
	return goes;
}

static void sender(void *argument)
{
	long at = (long)argument;
	unsigned int refused = 0;	/* in a row */

	while (sent[at] < plan.packets) {
		if (transmit(chance(8) ? at : chance(QUEUES))) {
			sent[at]++;
			refused = 0;
		} else {
			sleep_ns((500UL + chance(3000)) << min(refused++, 9U));
		}
		rounds[at]++;
		if (chance(200) == 0)
			sleep_ns(chance(60000));
		if (lost_lately && chance(40) == 0) {
			lost_lately = 0;	/* a dead reader may come round */
			sleep_ns(8 * NSEC_PER_MSEC);
		}
	}
	rounds[at] += 1000000;	/* holds no packet any more */
	senders_left--;
}

/* The reader found its ring empty: soon nothing excuses a loss. */
static void caught_up(struct process *process)
{
	unsigned int excused = excuses;	/* before all that may be excused */
	bool all = true, served;
	int i, id;

	if (acting || process->strict == excused)
		return;
	rcu_read_lock_bh();
	id = process->index;
	served = id >= 0 && serves(id);
	rcu_read_unlock_bh();
	if (!served)
		return;
	if (process->waits != excused) {
		for (i = 0; i < senders; i++)
			process->caught_up[i] = rounds[i];
		process->waits = excused;
		return;
	}
	for (i = 0; i < senders; i++)
		all &= rounds[i] > process->caught_up[i] + 1;
	if (all)
		process->strict = excused;
}

void count_purged(void *packet)
{
	found++;
}

static bool read_some(struct tun_file *file)
{
	void *packets[8];
	int count, back;

	count = driver_consume_batch(file, packets, plan.batches ? 1 + chance(8) : 1);
	back = count > 1 && chance(64) == 0 ? chance(count) : 0;
	found += count - back;
	if (back) {	/* vhost-net is detached, and attached again */
		excuses++;
		driver_unconsume(file, packets, back, count_purged);
		excuses++;
	}
	return count;
}

/* Returns for how long the reader is busy, or finds nothing to do. */
static u64 read_once(struct process *process)
{
	struct tun_file *file;
	u64 ns = 5 * NSEC_PER_USEC;

	process->inside = true;
	file = process->file;
	if (file && read_some(file)) {
		ns = chance(3) ? 0 : 1 + chance(plan.reader_pace);
		process->idle = 0;
	} else if (file) {
		ns = (200UL + chance(2000)) << min(process->idle++ / 8, 9U);
		caught_up(process);
	}
	process->inside = false;
	return ns;
}

static void reader(void *argument)
{
	struct process *process = argument;
	u64 ns;

	while (!readers_stop) {
		ns = read_once(process);
		if (ns)
			sleep_ns(ns);
		if (plan.dies && chance(500) == 0) {
			excuses++;
			sleep_ns((u64)chance(4) * sluice_default_stall_ms *
				 NSEC_PER_MSEC);
			excuses++;
		}
	}
}

/* The senders have ended, or are held up for ever: all must come to rest. */
static void check_rest(void)
{
	u64 stall_ns = sluice_default_stall_ms * NSEC_PER_MSEC;
	u64 end = ktime_get_ns() + (plan.dies ? 12 : 1) * stall_ns +
		  (plan.loses_timers ? 4000 : 50) * NSEC_PER_MSEC;

	while (ktime_get_ns() < end)
		sleep_ns(NSEC_PER_MSEC);
	for (unsigned int id = 0; id < plan.queues; id++)
		if (the_device->dev.tx[id].state & XOFF)
			fail("queue %u: still stopped when its readers had caught up", id);
	rtnl_lock();
	check_view();
	rtnl_unlock();
}

static void unload(void)
{
	sluice_devices_stop();
	sluice_backstop_stop();
	if (inside_module)
		fail("unload: a sender is still inside the module");
	unloaded = true;
	if (tracer.callback || tracer.direct)
		fail("unload: the hook is left in place");
	if (sluice_devices[0].first)
		fail("unload: the device is still known");
}

/* The module is unloaded, at rest or under traffic, and the driver goes on. */
static void closing(void *unused)
{
	while (sent[0] < plan.packets / 2)
		sleep_ns(100000);
	if (plan.leaves) {
		end_operator();
		unload();
	}
	while (senders_left)
		sleep_ns(100000);
	if (!plan.leaves) {
		end_operator();
		check_rest();
		unload();
	}
	check_rest();
	readers_stop = true;
}

static void make_plan(u64 packets)
{
	static const u32 stall_ms[] = { 250, 250, 20, 1 };
	bool defaults = chance(2);

	senders = chance(4) ? 1 + chance(SENDERS_MAX) : 1;
	plan.leaves = chance(2);
	plan.packets = 1 + chance(packets);
	plan.operates = chance(3);
	plan.intrudes = chance(4) == 0;
	plan.dies = chance(3) == 0;
	plan.loses_timers = chance(16) == 0;
	plan.batches = chance(4) == 0;
	sluice_direct_call = chance(2);
	sluice_default_low_percent = defaults ? 50 : chance(96);
	sluice_default_stall_ms = plan.dies ? stall_ms[chance(4)] : 250;
	sluice_default_target_us = defaults ? DEFAULT_TARGET_US : chance(2) * chance(200);
	plan.reader_pace = 100 << chance(8);
	plan.batch = 1 << chance(3);
	plan.size = 4 * senders + plan.batch + 2 + chance(40);
	plan.size = max(plan.size, 4 * plan.batch);
	plan.queues = 1 + chance(QUEUES);
	plan.limit = defaults ? 0 : chance(2) * chance(8);
	the_rule.settings.given = SLUICE_SETTING_LIMIT;
	the_rule.settings.limit = plan.limit;
	timers_to_lose = 2 * plan.loses_timers;
}

void run_seed(u64 packets)
{
	long i;

	make_plan(packets);
	if (sluice_layout_learn())
		fail("the driver's layout is not learned");
	for (i = 0; i < FILES; i++) {
		processes[i].index = -1;
		open_file(i);
	}
	create_device();
	if (sluice_devices_start())
		fail("the module does not start");
	senders_left = senders;
	for (i = 0; i < senders; i++)
		spawn(sender, (void *)i, i);
	for (i = 0; i < FILES; i++)
		spawn(reader, &processes[i], SENDERS_MAX + i);
	spawn(operator, NULL, SENDERS_MAX + FILES);
	spawn(closing, NULL, SENDERS_MAX + FILES + 1);
	run_threads();
	totals->packets += check_end();
	totals->seeds++;
}
