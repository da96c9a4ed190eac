// SPDX-License-Identifier: GPL-2.0-or-later
/* The situation in which examples begin, and what all of them call; see examples.h. */
#include <unistd.h>

#include "examples.h"
#include "single.h"

struct tun_device *tun;
struct ptr_ring *ring;
struct sluice_device *device;
struct sluice_queue *q;
struct sluice_rule rule;
bool has_rule, sluice_direct_call;
int refused_allocation;
bool sluice_locked_reset = true;
int complaints;
unsigned int waiting[QUEUES], runs[QUEUES];
static unsigned int examples;

void expect(const char *file, int line, int at, const char *what, s64 is, s64 expected)
{
	char of[16] = "";

	examples++;
	if (at >= 0)
		snprintf(of, sizeof(of), ", example %d", at);
	if (is != expected)
		fail("%s:%d%s: %s is %ld, not %ld", file, line, of, what, is, expected);
	if (locks_held || read_sides)
		fail("%s:%d%s: a lock is still held", file, line, of);
}

/* Tracepoints, messages, events and the rules: nobody listens. */
void show(const char *event, const struct sluice_queue *of, int fill, u64 ns) { }
void complain(const char *format, ...) { complaints++; }
void sluice_rules_free(void) { }
const struct sluice_rule *sluice_rules_find(const struct net_device *of)
{
	return has_rule ? &rule : NULL;
}

/* Timers, and work, that wait for their time */
void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	timer->expires = now + ns;
	timer->queued = true;
}

int hrtimer_cancel(struct hrtimer *timer)
{
	if (locks_held > !!rtnl.owner)
		fail("a handler that waits for the lock is waited for");
	timer->queued = false;
	return 0;
}

bool start_work(struct work_struct *work, u64 after_ns)
{
	if (work->queued)
		return false;
	work->queued = true;
	work->due = now + after_ns;
	return true;
}

bool cancel_work_sync(struct work_struct *work)
{
	work->queued = false;
	return true;
}

/* At its time; whether it waited for that. */
bool run_work(struct work_struct *work)
{
	if (!work->queued)
		return false;
	work->queued = false;
	now = max(now, work->due);
	work->func(work);
	return true;
}

void *allocate_for_module(size_t size)
{
	return refused_allocation && !--refused_allocation ? NULL : calloc(1, size);
}

void free_after_grace_period(void *memory)
{
	if (sluice_device_find(&tun->dev))
		fail("a device is freed that senders still find");
}

unsigned int qdisc_qlen_sum(const struct Qdisc *qdisc)
{
	return waiting[qdisc == &lockless];
}

void netif_schedule_queue(struct netdev_queue *txq)
{
	runs[txq - tun->dev.tx]++;
}

int read_carefully(void *to, const void *from, size_t size)
{
	if (from < (void *)4096)
		return -EFAULT;
	memcpy(to, from, size);
	return 0;
}

bool is_stopped(unsigned int id)
{
	return tun->dev.tx[id].state & XOFF;
}

/* A ring of @size: packets from @head to @producer, read slots from @tail on. */
void set_ring(int size, int tail, int head, int producer)
{
	ring->size = size;
	ring->consumer_tail = tail;
	ring->consumer_head = head;
	ring->producer = producer;
	memset(ring->queue, 0, SIZE * sizeof(*ring->queue));
	for (int i = tail; i != producer; i = (i + 1) % size)
		ring->queue[i] = ring;
}

/* The same, without a free slot. */
void set_full_ring(int size, int head, int producer)
{
	set_ring(size, producer, head, producer);
	for (int i = 0; i < size; i++)
		ring->queue[i] = ring;
}

struct sluice_device *add_device(struct net_device *dev, unsigned int queues,
				 unsigned int list)
{
	struct sluice_device *one = zeroed(struct_size(one, queue, queues));

	one->dev = dev;
	one->queues = queues;
	for (unsigned int id = 0; id < queues; id++)
		sluice_queue_init(&one->queue[id], one, id);
	hash_add_rcu(sluice_devices, &one->node, list);
	return one;
}

void fresh(void)
{
	sluice_devices[0].first = sluice_devices[1].first = NULL;
	memset(waiting, 0, sizeof(waiting));
	memset(runs, 0, sizeof(runs));
	memset(&rule, 0, sizeof(rule));
	has_rule = more_follow = sluice_direct_call = false;
	refused_allocation = 0;
	flags_shown = "0x1003\n";
	hook_is_forgotten();
	complaints = 0;
	cpus = 2;
	now = NSEC_PER_SEC;
	the_device = NULL;
	tun = tun_create(QUEUES);
	tun->dev.real_num_tx_queues = QUEUES;
	tun->dev.running = true;
	for (unsigned int id = 0; id < QUEUES; id++)
		tun->slots[id] = driver_open(id, SIZE, 4);
	ring = sluice_layout_ring(tun->slots[0]);
	device = add_device(&tun->dev, QUEUES, 0);
	device->verified = true;
	device->flow.stall_ms = 250;
	device->flow.low_percent = 50;
	q = &device->queue[0];
	sluice_queue_opened(q);
	q->file = tun->slots[0];
	q->ring = ring;
	q->size = SIZE;
}

void fresh_stopped(void)
{
	fresh();
	set_ring(SIZE, 0, 0, 60);
	device->flow.user_limit = 60;
	sluice_queue_check(q);
	set_ring(SIZE, 0, 0, 61);	/* with the packet that stopped it */
}

/* The first learns the layout, too. */
#define EACH(of) \
	of(layout) of(flow) of(ring) of(queue) of(hook) of(direct) of(device) of(backstop) \
	of(events) of(main)
#define DECLARED(name)	void name##_examples(void);
#define CALLED(name)	name##_examples();
EACH(DECLARED)

int main(void)
{
	alarm(20);	/* a loop without an end */
	mutex = &rtnl;
	EACH(CALLED)
	printf("fine: %u examples\n", examples);
	return 0;
}
