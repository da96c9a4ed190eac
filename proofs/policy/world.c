// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The world around the real hook.c, ring.c, flow.c, queue.c, device.c and
 * layout.c: a device of the stock driver, senders, readers, and an operator
 * (operator.c) who does to it whatever may be done, as long as there is time. It
 * fails when
 *
 *   - a packet is lost at a ring that ought to lose none (see struct process);
 *   - a stop that is not ours is woken, or ours outlasts its bound;
 *   - a queue is stopped by us while it is closed, or while no timer is armed;
 *   - a queue is stopped although its ring was never as full as its limit, or not
 *     stopped although it was never less full while the sender was in the hook;
 *   - more packets need no check than there is room for;
 *   - a review leaves a queue stopped behind another ring or without a qdisc;
 *   - a queue is still stopped after its readers caught up, or after unload;
 *   - a reader that lives is stalled, or a stall outlasts what caused it;
 *   - packets, or stops and wakes, do not add up;
 *   - a drop is counted at an empty ring, or not counted at a full one;
 *   - a device's state is not what its flags say;
 *   - memory is used after it is freed, or not freed at all, or the module runs
 *     after it was unloaded.
 *
 *     ./world FIRST COUNT [SECONDS]   each seed in a process of its own
 *     ./world SEED 1 0 show           the same, with its events
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.c"
#define SLACK_NS	(60 * NSEC_PER_MSEC)	/* CPUs that are held, late timers */

#include "driver.h"
#include "fields.h"

#define QUEUES		2
#define FILES		3
#define DEFAULT_TARGET_US 2000	/* main.c */

struct plan {
	u64 packets;		/* each sender's */
	bool operates;		/* there is an operator */
	bool intrudes;		/* somebody else stops and wakes our queues */
	bool leaves;		/* the module is unloaded under traffic */
	bool dies;		/* readers pause for longer than the stall time */
	bool refuses;		/* ftrace does not let the hook in */
	bool busy_direct;	/* somebody else has the direct call */
	bool upstream;		/* IFF_BACKPRESSURE */
	bool batches;		/* readers take several under one lock */
	bool low_memory;	/* the first allocations fail */
	bool has_rule;		/* for the device's settings */
	bool loses_timers;	/* the kernel does: the backstop is for that */
	unsigned int reader_pace;
	int size, batch;
	unsigned int queues;
	u32 limit;		/* the operator's, from the start */
};

/* Who has a tun file open and reads from it. */
struct process {
	struct tun_file *file;
	bool inside;		/* the driver, with this file */
	int index;		/* the file's queue, -1 while detached */
	unsigned int idle;	/* so often in a row there was no packet */
	/*
	 * No packet may be lost: since the last change of anything that
	 * excuses a loss the reader caught up once, and every sender has
	 * since begun anew. Both say how many excuses there had been, so that
	 * one that comes at the same time is not overwritten.
	 */
	unsigned int strict;
	unsigned int waits;	/* caught up, waits for the senders */
	unsigned int caught_up[SENDERS_MAX];	/* senders' rounds at that time */
};

/* What a sender's ring held while the sender was in the hook. */
struct sending {
	int queue;		/* -1: not in the hook */
	int least, most;	/* slots in use */
	int added;		/* by others, in the meantime */
};

/* A device, with what its private area begins with. */
struct tun_device {
	struct net_device dev;
	void *slots[QUEUES];
	unsigned int attached;
	bool foreign[QUEUES];	/* stopped by somebody else */
};

struct totals {
	u64 seeds, packets, strict, stops, stalls;
};

bool sluice_direct_call;
bool sluice_locked_reset = true;
bool sluice_default_on = true;
uint sluice_default_stall_ms;
uint sluice_default_low_percent;
uint sluice_default_target_us;
int policy_senders;

static spinlock_t rtnl;
static struct plan plan;
static struct tun_device *the_device;	/* published to senders */
static struct process processes[FILES];
static struct Qdisc fq = { .enqueue = &fq }, noqueue;
struct Qdisc noop_qdisc;
static struct Qdisc lockless = { .enqueue = &fq, .flags = TCQ_F_NOLOCK };
static struct ftrace_ops *callback;
static struct ftrace_ops *placed_ops, *direct_ops;	/* the last that were */
static unsigned long direct_function;
static struct notifier_block *notifier;
static u64 sent[SENDERS_MAX], found;	/* packets sent, and those found again */
static unsigned int rounds[SENDERS_MAX];
static struct sending sending[SENDERS_MAX];
static int senders_left, stop_readers, lost_lately, inside_module;
static int allocations_to_fail, timers_to_lose;
static unsigned int excuses = 1;	/* for lost packets, so far */
static bool acting;	/* the operator: all is excused */
static bool over;	/* the operator's time; nothing is strict any more */
static bool unloaded, verbose;
static u64 jumped_ns;
static struct totals *totals;

static void driver_transmit(void) { }
static struct rtnl_link_ops tun_ops = { .kind = "tun" };
static struct net_device_ops transmit_ops = { .ndo_start_xmit = driver_transmit };

static struct sluice_device *served_device(void)
{
	struct tun_device *tun = load(the_device);

	return tun ? sluice_device_find(&tun->dev) : NULL;
}

bool timer_is_lost(void)
{
	return timers_to_lose && chance(20) == 0 && timers_to_lose--;
}

u64 packets_sent(void)
{
	u64 all = 0;
	int i;

	for (i = 0; i < policy_senders; i++)
		all += sent[i];
	return all;
}

unsigned int ring_slots(void)
{
	return plan.size;
}

bool allocation_fails(void)
{
	return allocations_to_fail && allocations_to_fail--;
}

/* In real time a timer may be late because the machine is busy or was paused. */
void complain(const char *format, ...)
{
	va_list arguments;

	if (plan.refuses || plan.loses_timers || !one_at_a_time())
		return;
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	fail("the module complains, and without a reason");
}

/* rules.c: one at most, for every device */
static struct sluice_rule the_rule;

const struct sluice_rule *sluice_rules_find(const struct net_device *dev)
{
	(void)dev;
	return plan.has_rule ? &the_rule : NULL;
}

void sluice_rules_free(void)
{
}

/* events.c: nobody listens */
void sluice_events_schedule(struct sluice_queue *q)
{
	WRITE_ONCE(q->device->events_pending, true);
}

void sluice_events_watch(void)
{
}

/* Files, as layout.c sees them */
struct file *filp_open(const char *path, int flags, int mode)
{
	(void)path, (void)flags, (void)mode;
	return driver_open(FILES, 8, 1)->open;
}

int filp_close(struct file *file, void *unused)
{
	(void)unused;
	driver_close(file->private_data);
	return 0;
}

struct socket *tun_get_socket(struct file *file)
{
	return &((struct tun_file *)file->private_data)->socket;
}

struct ptr_ring *tun_get_tx_ring(struct file *file)
{
	return &((struct tun_file *)file->private_data)->ring;
}

/* ftrace */
static unsigned long transmit_ip(void)
{
	return (unsigned long)driver_transmit;
}

int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove,
			 int reset)
{
	if (remove || (ops->filter && !reset))
		fail("ftrace: the hook is to trace more than one function");
	if (ip > transmit_ip() && ip <= transmit_ip() + 8)
		return -EINVAL;	/* it patches the first instruction */
	if (plan.refuses && chance(2))
		return -EINVAL;
	store(ops->filter, ip);
	return 0;
}

int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *name, int length,
		      int reset)
{
	if (name || length || !reset)
		fail("ftrace: the filter is not emptied");
	if (ops == callback || (direct_function && ops == direct_ops))
		fail("ftrace: without a filter it would trace every function");
	store(ops->filter, 0UL);
	return 0;
}

int register_ftrace_function(struct ftrace_ops *ops)
{
	if (!ops->filter)
		fail("ftrace: the hook is to trace every function");
	if (callback)
		fail("ftrace: the hook is placed twice");
	if (!(ops->flags & FTRACE_OPS_FL_PERMANENT))
		fail("ftrace: the hook can be switched off");
	if (plan.refuses)
		return -EBUSY;
	placed_ops = ops;
	store(callback, ops);
	return 0;
}

int unregister_ftrace_function(struct ftrace_ops *ops)
{
	if (callback != ops)
		fail("ftrace: a hook is removed that is not placed");
	store(callback, NULL);
	synchronize_rcu();
	return 0;
}

int register_ftrace_direct(struct ftrace_ops *ops, unsigned long function)
{
	if (ops->filter != transmit_ip())
		fail("ftrace: the direct call is in another function");
	if (direct_function)
		fail("ftrace: two direct calls");
	if (!ops->ops_func || ops->ops_func(ops, transmit_ip(), 0))
		fail("ftrace: the direct call keeps live patches out");
	if (plan.busy_direct)
		return -EBUSY;
	step();
	direct_ops = ops;
	store(direct_function, function);
	return 0;
}

int unregister_ftrace_direct(struct ftrace_ops *ops, unsigned long function,
			     bool free_filters)
{
	(void)ops, (void)free_filters;
	if (direct_function != function)
		fail("ftrace: a direct call is removed that is not placed");
	store(direct_function, 0UL);
	return 0;
}

/* entry_....S: nothing has to be preserved */
void sluice_entered(const struct sk_buff *skb, const struct net_device *dev);

void sluice_entry(const struct sk_buff *skb, const struct net_device *dev)
{
	sluice_entered(skb, dev);
}

/* What the backstop does with each device, from a worker of its own. */
static void visit_devices(void)
{
	struct sluice_device *device;
	struct netdev_queue *txq;
	bool stopped = false;

	hlist_for_each_entry_rcu(device, &sluice_devices[0], node) {
		sluice_queue_rescue(&device->queue[0], &stopped);
		txq = device->queue[0].txq;
		if (!txq || !rcu_dereference(txq->qdisc))
			fail("the backstop follows a null pointer");
	}
}

void sluice_entry_try(unsigned long *registers)
{
	visit_devices();
	sluice_entry((void *)registers[0], (void *)registers[1]);
}

/* RTNL and its notifiers */
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

static void notify(struct tun_device *tun, unsigned long event)
{
	if (notifier)
		notifier->notifier_call(notifier, event, &tun->dev);
}

int register_netdevice_notifier(struct notifier_block *block)
{
	rtnl_lock();
	notifier = block;
	if (the_device) {
		notify(the_device, NETDEV_REGISTER);
		if (the_device->dev.running)
			notify(the_device, NETDEV_UP);
	}
	rtnl_unlock();
	return 0;
}

int unregister_netdevice_notifier(struct notifier_block *block)
{
	if (notifier != block)
		fail("a notifier is removed that is not ours");
	rtnl_lock();
	if (the_device) {
		if (the_device->dev.running)
			notify(the_device, NETDEV_GOING_DOWN);
		notify(the_device, NETDEV_UNREGISTER);
	}
	notifier = NULL;
	rtnl_unlock();
	return 0;
}

void netif_tx_wake_queue(struct netdev_queue *txq)
{
	struct tun_device *tun = container_of(txq->dev, struct tun_device, dev);

	memory_check(txq, sizeof(*txq));
	if (load(tun->foreign[txq - tun->dev.tx]))
		fail("queue %ld: woken, though somebody else stopped it",
		     (long)(txq - tun->dev.tx));
	clear_bit(__QUEUE_STATE_DRV_XOFF, &txq->state);
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

/* Something happened that may cost packets. */
static void excuse(void)
{
	add(excuses, 1);
}

static bool serves(unsigned int id)
{
	struct tun_device *tun = load(the_device);
	struct sluice_device *served = served_device();

	return served && id < served->queues && queue_open(&served->queue[id]) &&
	       load(tun->dev.tx[id].qdisc) == &fq &&
	       !queue_stalled(&served->queue[id]);
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
	return !load(acting) &&
	       load(processes[file->process].strict) == load(excuses);
}

/* Slots in use at which the next packet stops a queue held to nothing else. */
static int limit_of(const struct tun_file *file)
{
	int size = file->ring.size;

	return size - min(2 * policy_senders + file->ring.batch, size / 2) - 1;
}

static bool whole_ring(const struct sluice_device *served)
{
	return !served->flow.user_limit && !served->flow.target_us;
}

/* Of the sender that runs; NULL where others go on meanwhile. */
static const struct sending *sending_here(void)
{
	return one_at_a_time() ? &sending[this_cpu()] : NULL;
}

/*
 * A stop by a sender. It reads the tail before the producer, so it may count what
 * others added in the meantime, and no more: each of them may just have begun.
 * A weak machine may show the reader's tail before the last slot that it cleared:
 * an empty ring is taken for full then, until the next review.
 */
static void check_stop(const struct sluice_queue *q, int fill)
{
	int id = q - q->device->queue;
	struct tun_device *tun = load(the_device);
	struct tun_file *file = tun ? load(tun->slots[id]) : NULL;
	const struct sending *by = sending_here();
	int most;

	if (!by || by->queue != id || !file || !is_strict(file))
		return;
	if (memory_is_weak() && !by->least)
		return;
	most = by->most + by->added + policy_senders - 1;
	if (whole_ring(q->device) && most < limit_of(file))
		fail("queue %d: stopped with %d of %d slots in use", id, most,
		     file->ring.size);
	if (fill > most)
		fail("queue %d: %d packets are said to be in a ring that had %d",
		     id, fill, most);
}

/* The tracepoints. A stall excuses losses. */
void show(const char *event, const struct sluice_queue *q, int fill, u64 stopped_ns)
{
	const struct ptr_ring *ring;

	(void)stopped_ns;
	if (!strcmp(event, "queue_stall")) {
		if (!plan.dies && one_at_a_time())	/* real ones may have to wait */
			fail("a reader that lives is stalled");
		add(totals->stalls, 1);
		excuse();
	}
	if (!strcmp(event, "queue_stop")) {
		add(totals->stops, 1);
		check_stop(q, fill);
	}
	if (!verbose)
		return;
	ring = queue_ring_seen(q);
	printf("%12lu %s: queue %u fill %d producer %d head %d tail %d\n",
	       ktime_get_ns(), event, (unsigned int)(q - q->device->queue), fill,
	       ring->producer, ring->consumer_head, ring->consumer_tail);
}

/* After each handler: one that saw no ring of ours has let the queue go. */
static struct {
	const void *ring;
	const struct Qdisc *qdisc;
	int size;
} reviewed[QUEUES];

static void look_at_queue(struct tun_device *tun, unsigned int id)
{
	struct tun_file *file = tun->slots[id];

	reviewed[id].ring = file ? &file->ring : NULL;
	reviewed[id].size = file ? file->ring.size : 0;
	reviewed[id].qdisc = tun->dev.tx[id].qdisc;
}

static bool queue_of_timer(struct hrtimer *timer, struct tun_device **tun,
			   struct sluice_queue **q)
{
	struct sluice_device *served = served_device();
	unsigned int id;

	*tun = load(the_device);
	for (id = 0; served && id < served->queues; id++)
		if (timer == &served->queue[id].timer) {
			*q = &served->queue[id];
			return true;
		}
	return false;
}

void handler_begins(struct hrtimer *timer)
{
	struct tun_device *tun;
	struct sluice_queue *q;

	if (queue_of_timer(timer, &tun, &q))
		look_at_queue(tun, q - q->device->queue);
}

void handler_ended(struct hrtimer *timer)
{
	struct tun_device *tun;
	struct sluice_queue *q;
	unsigned int id;

	if (!queue_of_timer(timer, &tun, &q))
		return;
	id = q - q->device->queue;
	__typeof__(reviewed[0]) before = reviewed[id];

	look_at_queue(tun, id);
	if (!queue_stopped(q) || queue_locked(q) ||
	    before.ring != reviewed[id].ring || before.size != reviewed[id].size ||
	    before.qdisc != reviewed[id].qdisc || timer->queued == false)
		return;
	if (before.ring != queue_ring_seen(q) || before.size != queue_size_seen(q) ||
	    before.qdisc == &noqueue)
		fail("queue %u: a review leaves it stopped behind another ring or qdisc",
		     id);
}

/* Whenever nobody is at work on a queue. */
void check_invariants(void)
{
	struct hlist_node *node;
	struct sluice_device *served;
	unsigned int id;

	for (node = sluice_devices[0].first; node; node = node->next) {
		served = container_of(node, struct sluice_device, node);
		for (id = 0; id < served->queues; id++) {
			const struct sluice_queue *q = &served->queue[id];

			if (queue_locked(q) || !queue_stopped(q))
				continue;
			if (!queue_open(q))
				fail("queue %u: stopped, though closed", id);
			if (!queue_timer_armed(q) && !plan.loses_timers)
				fail("queue %u: stopped without a timer", id);
		}
	}
}

static void lost(struct tun_file *file, unsigned int id)
{
	bool served = serves(id);

	add(found, 1);
	store(lost_lately, 1);
	if (verbose)
		printf("%12lu lost: queue %u%s\n", ktime_get_ns(), id,
		       served ? "" : ", stalled or not served");
	if (is_strict(file) && served && !load(over))
		fail("queue %u: a packet is lost at a ring of %d (producer %d, head %d, tail %d)",
		     id, file->ring.size, file->ring.producer,
		     file->ring.consumer_head, file->ring.consumer_tail);
}

/* A packet came into a ring, or out of it. */
static void note_used(struct tun_file *file, int id)
{
	int used, i;

	if (!one_at_a_time())
		return;
	used = slots_used(file);
	for (i = 0; i < policy_senders; i++)
		if (sending[i].queue == id) {
			sending[i].least = min(sending[i].least, used);
			sending[i].most = max(sending[i].most, used);
		}
}

/* A packet is about to come into a ring. */
static void note_added(int id)
{
	int i;

	for (i = 0; i < policy_senders; i++)
		sending[i].added += sending[i].queue == id;
}

/* What the stock driver does with a packet. */
static void driver_transmits(struct tun_device *tun, unsigned int id)
{
	struct tun_file *file;

	file = driver_file(&tun->slots[id]);
	if (!file) {
		add(found, 1);
		return;
	}
	if (is_strict(file))
		add(totals->strict, 1);
	note_used(file, id);	/* a reader may be about to tell of its part */
	note_added(id);
	if (driver_produce(file, &found))
		lost(file, id);
	else
		note_used(file, id);
}

/* What the driver's first instruction calls. */
static void call_hook(struct sk_buff *skb, struct tun_device *tun)
{
	struct ftrace_regs regs = { .argument = { skb, &tun->dev } };
	struct ftrace_ops *ops = load(callback);
	void (*direct)(const struct sk_buff *, const struct net_device *) =
		(void *)load(direct_function);

	if (ops && load(ops->filter) != transmit_ip())
		ops = NULL;
	if ((ops || direct) && load(unloaded))
		fail("the hook runs after the module is unloaded");
	if (!ops && !direct)
		return;
	add(inside_module, 1);
	if (ops)
		ops->func(transmit_ip(), 0, ops, &regs);
	if (direct)
		direct(skb, &tun->dev);
	add(inside_module, -1);
}

/*
 * What a single sender's hook counts as a drop, if the ring held @used slots before
 * and is left alone by everybody but its reader.
 */
static void check_drops(struct tun_file *file, const struct sluice_queue *q,
			u64 drops, int used)
{
	int id = q - q->device->queue;

	if (!used && queue_drops(q) != drops)
		fail("queue %d: a drop is counted at an empty ring", id);
	if (used == file->ring.size && slots_used(file) == used &&
	    queue_open(q) && !load(over) && queue_drops(q) == drops)
		fail("queue %d: a drop at a full ring of %d is not counted", id,
		     file->ring.size);
}

/*
 * The packets that need no check from now on leave the headroom free: who wrote the
 * next check saw no tail that is newer than this one.
 */
static void check_unchecked(const struct tun_file *file, const struct sluice_queue *q)
{
	int size = file->ring.size, used = slots_used(file);
	u32 left = sluice_check_last(queue_next_check(q)) - file->ring.producer;

	/*
	 * Or it is empty, and a slot is cleared late; or the reader took a packet
	 * whose sender's index is not seen yet, and the tail is past the producer.
	 */
	if (used == size || (used == size - 1 && !memory_is_in_order()))
		return;
	if (left < sluice_check_span(size) && used + (int)left + 1 > limit_of(file))
		fail("queue %ld: %d of %d slots in use, and %u packets need no check",
		     (long)(q - q->device->queue), used, size, left + 1);
}

/* The ring was beyond that all the time: then the sender stops its queue. */
static void check_passed(struct tun_device *tun, struct tun_file *file, int id,
			 int at)
{
	if (memory_is_in_order() && !plan.operates && !load(over) &&
	    !load(unloaded) && !plan.leaves && is_strict(file) && serves(id) &&
	    whole_ring(served_device()) && sending[at].least > limit_of(file) &&
	    !(load(tun->dev.tx[id].state) & XOFF))
		fail("queue %d: not stopped with %d of %d slots in use", id,
		     sending[at].least, file->ring.size);
}

/* The hook, before the driver. */
static void hook_sees(struct tun_device *tun, int id, int at)
{
	struct sk_buff skb = { .queue_mapping = id };
	struct sluice_device *served = served_device();
	struct tun_file *file = load(tun->slots[id]);
	bool alone = policy_senders == 1 && memory_is_in_order() && served && file &&
		     !plan.refuses && !plan.operates && !plan.leaves && !plan.batches;
	int used = file && one_at_a_time() ? slots_used(file) : 0;
	u64 drops = alone ? queue_drops(&served->queue[id]) : 0;

	sending[at].least = sending[at].most = used;
	sending[at].added = 0;
	sending[at].queue = id;
	call_hook(&skb, tun);
	file = load(tun->slots[id]) == file ? file : NULL;
	if (file)
		note_used(file, id);
	sending[at].queue = -1;
	if (!file)
		return;
	if (one_at_a_time() && !plan.operates && !plan.batches && served &&
	    serves(id) && is_strict(file) && !load(over))
		check_unchecked(file, &served->queue[id]);
	check_passed(tun, file, id, at);
	if (alone)
		check_drops(file, &served->queue[id], drops, used);
}

/* One packet of a sender, from the core's test of the stopped bit. */
static bool transmit(unsigned int queue, unsigned int at)
{
	struct tun_device *tun;
	unsigned int id;
	bool goes;

	rcu_read_lock_bh();
	tun = load(the_device);
	goes = tun && load(tun->dev.running);
	id = goes ? queue % tun->dev.real_num_tx_queues : 0;
	goes = goes && !driver_stopped(&tun->dev.tx[id]);
	if (goes) {
		hook_sees(tun, id, at);
		driver_transmits(tun, id);
	}
	rcu_read_unlock_bh();
	return goes;
}

static void sender(void *argument)
{
	long at = (long)argument;
	unsigned int refused = 0;	/* in a row */

	while (load(sent[at]) < plan.packets) {
		while (!cpu_is_online(at))
			sleep_ns(20 * NSEC_PER_USEC);
		if (transmit(chance(8) ? at : chance(QUEUES), at)) {
			add(sent[at], 1);
			refused = 0;
		} else {
			sleep_ns((500UL + chance(3000)) << min(refused++, 9U));
		}
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
static void caught_up(struct process *process)
{
	unsigned int excused = load(excuses);	/* before all that may be excused */
	bool all = true, served;
	int i, id;

	if (load(acting) || load(process->strict) == excused)
		return;
	rcu_read_lock_bh();
	id = load(process->index);
	served = id >= 0 && serves(id);
	rcu_read_unlock_bh();
	if (!served)
		return;
	if (process->waits != excused) {
		for (i = 0; i < policy_senders; i++)
			process->caught_up[i] = load(rounds[i]);
		process->waits = excused;
		return;
	}
	for (i = 0; i < policy_senders; i++)
		all &= load(rounds[i]) > process->caught_up[i] + 1;
	if (all)
		store(process->strict, excused);
}

static void count_purged(void *packet)
{
	(void)packet;
	add(found, 1);
}

static bool read_some(struct tun_file *file)
{
	void *packets[8];
	int count, back;

	if (!plan.batches) {
		count = driver_consume(file) ? 1 : 0;
		add(found, count);
		return count;
	}
	count = driver_consume_batch(file, packets, 1 + chance(8));
	back = count && chance(64) == 0 ? chance(count) : 0;
	add(found, count - back);
	if (back) {	/* vhost-net is detached, and attached again */
		excuse();
		driver_unconsume(file, packets, back, count_purged);
		excuse();
	}
	return count;
}

/* Returns for how long the reader is busy, or finds nothing to do. */
static u64 read_once(struct process *process)
{
	struct tun_file *file;
	u64 ns = 5 * NSEC_PER_USEC;

	__atomic_exchange_n(&process->inside, true, __ATOMIC_SEQ_CST);
	file = load(process->file);
	if (file && read_some(file)) {
		ns = chance(3) ? 0 : 1 + chance(plan.reader_pace);
		note_used(file, load(process->index));
		process->idle = 0;
	} else if (file) {
		ns = (200UL + chance(2000)) << min(process->idle++ / 8, 9U);
		caught_up(process);
	}
	store(process->inside, false);
	return ns;
}

static void reader(void *argument)
{
	struct process *process = argument;
	u64 ns;

	while (!load(stop_readers)) {
		ns = read_once(process);
		if (ns)
			sleep_ns(ns);
		if (plan.dies && chance(500) == 0) {
			excuse();
			sleep_ns((u64)chance(4) * sluice_default_stall_ms *
				 NSEC_PER_MSEC);
			excuse();
		}
	}
}

#include "operator.c"

static int stopped_queue(void)
{
	unsigned int id;

	for (id = 0; the_device && id < plan.queues; id++)
		if (load(the_device->dev.tx[id].state) & XOFF)
			return id;
	return -1;
}

/* The senders have ended, or are held up for ever: all must come to rest. */
static void check_rest(void)
{
	u64 stall_ns = sluice_default_stall_ms * NSEC_PER_MSEC;
	u64 end = ktime_get_ns() + (plan.dies ? 12 : 1) * stall_ns +
		  (plan.loses_timers ? 4000 : 50) * NSEC_PER_MSEC;

	while (ktime_get_ns() < end)
		sleep_ns(NSEC_PER_MSEC);
	if (stopped_queue() >= 0)
		fail("queue %d: still stopped when its readers had caught up",
		     stopped_queue());
	rtnl_lock();
	check_view();
	rtnl_unlock();
}

static bool transmit_ops_filtered(void)
{
	return (placed_ops && placed_ops->filter) ||
	       (direct_ops && direct_ops->filter);
}

static void unload(void)
{
	bool direct = sluice_direct_call;

	if (!plan.leaves && callback && direct != !!direct_function &&
	    one_at_a_time())	/* else it may not have been placed yet */
		fail("the parameter direct_call does not say how the hook is placed");
	sluice_devices_stop();
	sluice_backstop_stop();
	if (transmit_ops_filtered())
		fail("unload: a filter of ftrace keeps its memory");
	if (load(inside_module))
		fail("unload: a sender is still inside the module");
	store(unloaded, true);
	if (callback || direct_function)
		fail("unload: the hook is left in place");
	if (sluice_devices[0].first)
		fail("unload: the device is still known");
}

/* The module is unloaded, at rest or under traffic, and the driver goes on. */
static void closing(void *unused)
{
	(void)unused;
	while (load(sent[0]) < plan.packets / 2)
		sleep_ns(100000);
	if (plan.leaves) {
		end_operator();
		unload();
	}
	while (load(senders_left))
		sleep_ns(100000);
	if (!plan.leaves) {
		end_operator();
		check_rest();
		unload();
	}
	check_rest();
	store(stop_readers, 1);
}

static void make_plan(u64 packets)
{
	static const u32 stall_ms[] = { 250, 250, 20, 1 };
	bool defaults = chance(2);

	policy_senders = chance(4) ? 1 + chance(SENDERS_MAX) : 1;
	plan.leaves = chance(2);
	plan.packets = 1 + chance(packets);
	plan.operates = chance(3);
	plan.intrudes = chance(4) == 0;
	plan.dies = chance(3) == 0;
	plan.refuses = chance(16) == 0;
	plan.busy_direct = chance(4) == 0;
	plan.upstream = chance(16) == 0;
	plan.low_memory = chance(16) == 0;
	plan.loses_timers = chance(16) == 0;
	plan.batches = may_batch() && chance(4) == 0;
	sluice_direct_call = chance(2);
	sluice_default_low_percent = defaults ? 50 : chance(96);
	sluice_default_stall_ms = plan.dies ? stall_ms[chance(4)] : 250;
	sluice_default_target_us = defaults ? DEFAULT_TARGET_US : chance(2) * chance(200);
	plan.reader_pace = 100 << chance(8);
	plan.batch = 1 << chance(3);
	plan.size = 4 * policy_senders + plan.batch + 2 + chance(40);
	plan.size = max(plan.size, 4 * plan.batch);
	plan.queues = 1 + chance(QUEUES);
	plan.limit = defaults ? 0 : chance(2) * chance(8);
	plan.has_rule = plan.limit || chance(4) == 0;
	the_rule.settings.given = SLUICE_SETTING_LIMIT;
	the_rule.settings.limit = plan.limit;
	timers_to_lose = 2 * plan.loses_timers;
	allocations_to_fail = plan.low_memory ? 1 + chance(3) : 0;
}

static void run_seed(unsigned int seed, u64 packets)
{
	long i;

	seed_world(seed);
	spin_lock_init(&rtnl);
	make_plan(packets);
	if (sluice_layout_learn())
		fail("the driver's layout is not learned");
	for (i = 0; i < FILES; i++) {
		processes[i].index = -1;
		open_file(i);
	}
	for (i = 0; i < SENDERS_MAX; i++)
		sending[i].queue = -1;
	create_device();
	if (sluice_devices_start())
		fail("the module does not start");
	senders_left = policy_senders;
	for (i = 0; i < policy_senders; i++)
		spawn(sender, (void *)i, i);
	for (i = 0; i < FILES; i++)
		spawn(reader, &processes[i], SENDERS_MAX + i);
	spawn(operator, NULL, SENDERS_MAX + FILES);
	spawn(closing, NULL, SENDERS_MAX + FILES + 1);
	run_world(seed);
	check_end();
	totals->seeds++;
}

/* One seed in a process of its own, so that it begins with nothing. */
static bool try_seed(unsigned int seed, u64 packets)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = verbose && !learning ? 0 : fork();
	if (!child) {
		alarm(SEED_SECONDS);
		run_seed(seed, packets);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("seed %u: ended by signal %d\n", seed, WTERMSIG(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int main(int count, char **arguments)
{
	unsigned int seed = count > 1 ? atoi(arguments[1]) : 0;
	unsigned int end = seed + (count > 2 ? atoi(arguments[2]) : 1);
	time_t until = time(NULL) + (count > 3 ? atoi(arguments[3]) : 0);
	u64 packets = count > 4 ? atoi(arguments[4]) : PACKETS;

	verbose = count > 5;
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!learn_places(packets))
		return 1;
	memset(totals, 0, sizeof(*totals));
	for (; seed != end; seed++) {
		if (!try_seed(seed, packets))
			return 1;
		if (count > 3 && atoi(arguments[3]) && time(NULL) >= until)
			break;
	}
	printf("fine: %lu seeds, %lu packets, %lu of them strict, %lu stops, %lu stalls\n",
	       totals->seeds, totals->packets, totals->strict, totals->stops,
	       totals->stalls);
	return 0;
}
