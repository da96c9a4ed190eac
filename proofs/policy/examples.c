// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What flow.c, ring.c, queue.c, entry.h, hook.c, direct.c, device.c, layout.c and
 * main.c do, by examples whose results were worked out by hand from the comments
 * above the functions. One thread; the sources are
 * included, so that their static functions can be called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#undef schedule_timeout_idle
#define schedule_timeout_idle(ticks)	wait_for_ever(ticks)
#define MAX_SCHEDULE_TIMEOUT		LONG_MAX
void wait_for_ever(long ticks);

#include <linux/ptr_ring.h>
#include "ring.c"
#include "queue.c"
#include "hook.c"
#include "device.c"
#include "single.h"

/* hook_examples.c replaces what hook.c calls of direct.c. */
#define sluice_direct_start	start_directly
#define sluice_direct_stop	stopped_directly
#undef kzalloc
#undef kfree
#define kzalloc(size, flags)	allocate_for_direct(size)
#define kfree(memory)		release(memory)
#define synchronize_rcu()	wait_for_readers()
void wait_for_readers(void);
void release(void *memory);
void *allocate_for_direct(size_t size);
#include "direct.c"
#undef sluice_direct_start
#undef sluice_direct_stop
#undef synchronize_rcu

#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)
#define MS		NSEC_PER_MSEC
#define US		NSEC_PER_USEC
#define SLOTS_MAX	1024

#define EXPECT(what, expected) \
	expect(__LINE__, #what, (s64)(what), (s64)(expected))
#define EXPECT_LOG(expected)	expect_log(__LINE__, expected)

bool sluice_direct_call;
bool sluice_locked_reset = true;
static char text[1000];		/* what was called, in its order */
static unsigned int examples;
static struct ptr_ring ring;
static void *slots[SLOTS_MAX], *queue_slot[2];
static struct Qdisc fq = { .enqueue = &fq }, noqueue;
static struct Qdisc lockless = { .enqueue = &fq, .flags = TCQ_F_NOLOCK };
static struct netdev_queue txqs[2];
static struct net_device_ops transmit_ops;
static struct net_device dev = { .tx = txqs, .netdev_ops = &transmit_ops };
static struct sluice_device *device;
static struct sluice_queue *q;
static const char *layout_wrong;
static int wrong_queue = -1;	/* the only one with a wrong layout; -1: all */

static void expect(int line, const char *what, s64 is, s64 expected)
{
	examples++;
	if (is != expected)
		fail("line %d: %s is %ld, not %ld", line, what, is, expected);
}

/* What was called since the last time; nothing is left locked. */
static void expect_log(int line, const char *expected)
{
	examples++;
	if (strcmp(text, expected))
		fail("line %d: \"%s\", not \"%s\"", line, text, expected);
	if (locks_held || read_sides)
		fail("line %d: a lock is still held", line);
	*text = '\0';
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, sizeof(text) - length, format, arguments);
	va_end(arguments);
}

/* What queue.c calls */
void sluice_events_schedule(struct sluice_queue *of) { note("event;"); }
void sluice_backstop_watch(void) { note("watch;"); }

void show(const char *event, const struct sluice_queue *of, int fill, u64 ns)
{
	note("%s %d %lu;", event, fill, ns);
}

void hrtimer_setup_in_world(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *))
{
	timer->function = function;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	timer->expires = now + ns;
	note("arm %ld;", ns);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	if (locks_held)
		fail("a handler that waits for the lock is waited for");
	note("cancel;");
	return 0;
}

void netif_tx_wake_queue(struct netdev_queue *txq)
{
	txq->state &= ~XOFF;
	note("wake;");
}

void **sluice_layout_slot(const struct net_device *of, unsigned int id)
{
	return &queue_slot[id];
}

const char *sluice_layout_check(void **at)
{
	if (at != &queue_slot[0] && at != &queue_slot[1])
		fail("the layout of no queue is asked for");
	return wrong_queue < 0 || at == &queue_slot[wrong_queue] ? layout_wrong : NULL;
}

struct ptr_ring *sluice_layout_ring(void *file)
{
	return file;
}

/* A ring of @size: packets from @head to @producer, read slots from @tail on. */
static void set_ring(int size, int tail, int head, int producer)
{
	int i;

	ring.size = size;
	ring.batch = 4;
	ring.queue = slots;
	ring.consumer_tail = tail;
	ring.consumer_head = head;
	ring.producer = producer;
	memset(slots, 0, sizeof(slots));
	for (i = tail; i != producer; i = (i + 1) % size)
		slots[i] = &ring;
}

/* The same, without a free slot. */
static void set_full_ring(int size, int head, int producer)
{
	int i;

	set_ring(size, producer, head, producer);
	for (i = 0; i < size; i++)
		slots[i] = &ring;
}

/* A queue that is open, an empty ring of 100, at 1 s. */
static void fresh(void)
{
	free(device);
	device = zeroed(struct_size(device, queue, 2));
	device->dev = &dev;
	device->queues = 2;
	device->verified = true;
	device->flow.stall_ms = 250;
	device->flow.low_percent = 50;
	dev.num_tx_queues = 2;
	txqs[0] = txqs[1] = (struct netdev_queue){ .qdisc = &fq, .dev = &dev };
	memset(&ring, 0, sizeof(ring));
	spin_lock_init(&ring.producer_lock);
	set_ring(100, 0, 0, 0);
	queue_slot[0] = queue_slot[1] = &ring;
	layout_wrong = NULL;
	cpus = 2;
	now = NSEC_PER_SEC;
	sluice_queue_init(&device->queue[0], device, 0);
	sluice_queue_init(&device->queue[1], device, 1);
	q = &device->queue[0];
	sluice_queue_opened(q);
	q->ring = &ring;
	q->file = &ring;
	q->size = 100;
	*text = '\0';
}

/* Stopped now, by us, with 60 packets. */
static void fresh_stopped(void)
{
	struct sluice_flow_ring count;

	fresh();
	set_ring(100, 0, 0, 60);
	count = sluice_count_ring(&ring, 100, false);
	sluice_flow_rebase(&q->flow, &count, true);
	raw_spin_lock_irq(&q->lock);
	__queue_stop(q, &count);
	raw_spin_unlock_irq(&q->lock);
	set_ring(100, 0, 0, 61);	/* with the packet that stopped it */
	*text = '\0';
}

#define LOCKED(statement) do {			\
	raw_spin_lock_irq(&q->lock);		\
	statement;				\
	raw_spin_unlock_irq(&q->lock);		\
} while (0)

static void counts(void)
{
	struct sluice_flow_ring count;

	fresh();
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 0);
	EXPECT(count.fill, 0);
	set_ring(100, 10, 12, 20);
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 10);
	EXPECT(count.fill, 8);
	set_ring(100, 95, 98, 10);
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 15);
	EXPECT(count.fill, 12);
	set_ring(100, 10, 20, 20);
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 10);
	EXPECT(count.fill, 0);
	/* the tail is moved, the head not yet */
	set_ring(100, 15, 12, 20);
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 5);
	EXPECT(count.fill, 5);
	EXPECT(count.producer, 20);
	/* two slots for each CPU and a batch, half a ring at most */
	EXPECT(count.safe_limit, 92);
	EXPECT(sluice_count_ring(&ring, 8, false).safe_limit, 4);
	EXPECT(sluice_count_ring(&ring, 1, false).safe_limit, 1);
	cpus = 64;
	EXPECT(sluice_count_ring(&ring, 100, false).safe_limit, 50);
	EXPECT_LOG("");
}

static void full_rings(void)
{
	struct sluice_flow_ring count;

	fresh();
	set_full_ring(100, 0, 0);
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 100);
	EXPECT(count.fill, 100);
	set_full_ring(100, 33, 30);
	count = sluice_count_ring(&ring, 100, true);
	EXPECT(count.used, 100);
	EXPECT(count.fill, 97);
	/* somebody holds the lock that would tell */
	spin_lock(&ring.producer_lock);
	count = sluice_count_ring(&ring, 100, true);
	EXPECT(count.used, 100);
	EXPECT(count.fill, 100);
	/* where the indices tell, the lock is not asked */
	set_ring(100, 10, 12, 20);
	count = sluice_count_ring(&ring, 100, true);
	spin_unlock(&ring.producer_lock);
	EXPECT(count.used, 10);
	EXPECT(count.fill, 8);
	/* the newest packet's slot tells, and no other */
	set_ring(100, 30, 30, 30);
	slots[29] = &ring;
	EXPECT(sluice_count_ring(&ring, 100, false).used, 100);
	set_ring(100, 0, 0, 0);
	slots[99] = &ring;
	EXPECT(sluice_count_ring(&ring, 100, false).used, 100);
	set_ring(100, 30, 30, 30);
	slots[28] = slots[30] = slots[31] = &ring;
	EXPECT(sluice_count_ring(&ring, 100, true).used, 0);
	/* it is resized */
	set_full_ring(100, 0, 0);
	ring.size = 101;
	EXPECT(sluice_count_ring(&ring, 100, false).used, 0);
	ring.size = 99;
	EXPECT(sluice_count_ring(&ring, 100, false).used, 0);
	EXPECT_LOG("");
}

static void packet_comes(void)
{
	slots[ring.producer++] = &ring;
}

static void batch_is_freed(void)
{
	ring.consumer_head = 38;
	ring.consumer_tail = 38;
	ring.producer = 40;
}

/* Whoever held the producer's lock changed the ring. */
static void rings_that_change(void)
{
	struct sluice_flow_ring count;

	fresh();
	set_ring(100, 30, 30, 30);
	while_waiting = packet_comes;
	count = sluice_count_ring(&ring, 100, false);
	EXPECT(count.used, 1);
	EXPECT(count.fill, 1);
	set_full_ring(100, 30, 30);
	while_waiting = batch_is_freed;
	count = sluice_count_ring(&ring, 100, true);
	EXPECT(count.used, 2);
	EXPECT(count.fill, 2);
	EXPECT_LOG("");
}

/* What of a queue and its ring is read and released, and the barriers between. */
static void note_order(const char *what, const volatile void *at)
{
	const struct { const volatile void *at; const char *name; } places[] = {
		{ NULL, "" }, { &q->next_check, "next_check" }, { &q->file, "file" },
		{ &q->size, "q->size" },
		{ &queue_slot[0], "slot" }, { &ring.size, "size" },
		{ &ring.producer, "producer" }, { &ring.consumer_tail, "tail" },
		{ &slots[29], "newest" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i].at == at)
			note("%s %s;", what, places[i].name);
}

/* The barriers that proofs/litmus asks for are where it says. */
static void barriers(void)
{
	fresh();
	set_ring(100, 10, 12, 20);
	when_ordered = note_order;
	sluice_count_ring(&ring, 100, false);
	EXPECT_LOG("read tail;barrier ;read producer;");
	set_full_ring(100, 30, 30);
	sluice_count_ring(&ring, 100, false);
	EXPECT_LOG("read tail;barrier ;read producer;"
		   "read tail;barrier ;read newest;");
	set_ring(100, 10, 12, 20);
	sluice_queue_check(q);
	EXPECT_LOG("read next_check;barrier ;read slot;read size;read file;"
		   "read q->size;"
		   "read tail;barrier ;read producer;");
	queue_adopt(q, &ring, 100);
	EXPECT_LOG("read tail;barrier ;read producer;release q->size;release file;");
	when_ordered = NULL;
}

static void queue_is_opened(void)
{
	sluice_queue_opened(q);
}

static void queue_stalls(void)
{
	q->flow.stalled = true;
	q->flow.unread = 300;
}

static void queue_gets_another_ring(void)
{
	q->ring = NULL;
}

/* What a review does to the bit, the timer and the counts. */
static void reviews(void)
{
	fresh_stopped();
	now += 2 * MS;		/* it read nothing */
	timer_expired(&q->timer);
	EXPECT_LOG("arm 2000000;");
	ring.consumer_head = ring.consumer_tail = 20;
	now += 2 * MS;		/* the depth is 92: the low watermark 46 */
	timer_expired(&q->timer);
	EXPECT_LOG("queue_wake 41 4000000;wake;");
	EXPECT(q->wakes[SLUICE_WAKE_TIMER], 1);
	timer_expired(&q->timer);	/* a timer that was late */
	EXPECT_LOG("");

	fresh_stopped();
	q->flow.debt_ns = 250 * MS;
	now += MS;
	timer_expired(&q->timer);
	EXPECT_LOG("event;queue_stall 61 1000000;queue_wake 61 1000000;wake;");
	EXPECT(q->stalls, 1);
	EXPECT(device->shared.stalls, 1);
	EXPECT(q->flow.device_stalls, 1);
	EXPECT(q->longest_stop_ns, MS);

	for (int i = 0; i < 5; i++) {	/* what ends a stop at once */
		fresh_stopped();
		if (i == 0)
			queue_slot[0] = NULL;
		if (i == 1)
			q->ring = NULL;
		if (i == 2)
			ring.size = 99;
		if (i == 3)
			txqs[0].qdisc = &noqueue;
		timer_expired(&q->timer);
		EXPECT(q->stopped, i == 4);
		EXPECT(q->wakes[SLUICE_WAKE_OTHER], i != 4);
		*text = '\0';
	}
}

/* Somebody else stops and wakes the queue, too. */
static void others_stop(void)
{
	struct sluice_flow_ring count = { 100, 60, 60, 60, 92 };

	fresh();
	txqs[0].state = XOFF;
	LOCKED(__queue_stop(q, &count));
	EXPECT(q->stopped, false);
	EXPECT_LOG("");
	fresh_stopped();
	txqs[0].state = 0;	/* woken by others: ours again */
	LOCKED(__queue_stop(q, &count));
	EXPECT(q->stops, 1);
	EXPECT(txqs[0].state, XOFF);
	EXPECT_LOG("");
}

/* What changed while a sender waited for the lock. */
static void fills(void)
{
	static const struct { void (*meanwhile)(void); bool open, full, stopped; } cases[] = {
		{ NULL, true, true, true },
		{ NULL, true, false, false },
		{ NULL, false, true, false },
		{ queue_stalls, true, true, false },
		{ queue_gets_another_ring, true, true, false },
	};
	struct sluice_flow_ring count = { 100, 0, 0, 0, 92 };

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		q->open = cases[i].open;
		while_waiting = cases[i].meanwhile;
		queue_filled(q, &ring, &count, cases[i].full);
		EXPECT(q->stopped, cases[i].stopped);
		*text = '\0';
	}
	fresh();	/* it has read enough since: the stall ends, and the queue stops */
	q->flow.stalled = true;
	queue_filled(q, &ring, &count, true);
	EXPECT(q->flow.stalled, false);
	EXPECT(q->stopped, true);
	*text = '\0';
}

static void adoptions(void)
{
	static struct ptr_ring other = { .size = 50, .consumer_head = 7,
					 .consumer_tail = 7, .producer = 9 };

	fresh();
	layout_wrong = "wrong";
	EXPECT(queue_adopt(q, &other, 50), false);
	EXPECT(q->ring == &ring, true);
	layout_wrong = NULL;
	q->flow.stalled = true;
	q->flow.debt_ns = 5;
	atomic64_set(&q->next_check, 5L << 32 | 40);
	EXPECT(queue_adopt(q, &other, 50), true);
	EXPECT(atomic64_read(&q->next_check), 6L << 32 | U32_MAX);
	EXPECT(q->ring == &other && q->file == &other, true);
	EXPECT(q->size, 50);
	EXPECT(q->flow.stalled, true);	/* and what it owes */
	EXPECT(q->flow.debt_ns, 5);
	when_released = queue_is_opened;	/* at the same time */
	EXPECT(queue_adopt(q, &other, 40), true);
	EXPECT(q->file == NULL, true);
	EXPECT_LOG("");
}

/* Where the next check is due, @room packets after the one at @producer. */
static void next_checks(void)
{
	static const struct { int producer, room; u32 last; } cases[] = {
		{ 10, 5, 14 }, { 10, 0, 9 }, { 10, -3, 9 }, { 10, 50, 34 },
		{ 95, 20, 99 }, { 0, 0, U32_MAX },
	};
	struct sluice_flow_ring count = { .size = 100 };

	fresh();
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		atomic64_set(&q->next_check, 5L << 32 | 77);
		count.producer = cases[i].producer;
		set_next_check(q, 5L << 32 | 77, &count, cases[i].room);
		EXPECT(sluice_check_last(q->next_check.counter), cases[i].last);
		EXPECT(sluice_check_count(q->next_check.counter), 6);
	}
	atomic64_set(&q->next_check, 3);	/* somebody else wrote it */
	set_next_check(q, 4, &count, 5);
	EXPECT(q->next_check.counter, 3);
}

/* A check at these indices: what the next one is due at. */
static u32 checked(int tail, int head, int producer)
{
	set_ring(100, tail, head, producer);
	atomic64_set(&q->next_check, 7777);
	sluice_queue_check(q);
	return sluice_check_last(atomic64_read(&q->next_check));
}

static void checks(void)
{
	fresh();
	EXPECT(checked(0, 0, 10), 34);		/* a quarter of the ring later */
	EXPECT(checked(0, 0, 75), 75 + 92 - 75 - 1 - 1);
	EXPECT(checked(0, 20, 90), 90);
	EXPECT_LOG("");
	EXPECT(checked(0, 0, 91), 90);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 91 0;");

	fresh();	/* a list is not divided, but at the limit */
	device->flow.user_limit = 20;
	more_follow = true;
	EXPECT(checked(0, 10, 29), 28);
	EXPECT_LOG("");
	EXPECT(checked(0, 10, 91), 90);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 81 0;");
	more_follow = false;

	fresh();	/* nothing is open, read, known */
	q->open = false;
	EXPECT(checked(0, 0, 95), 7777);
	q->open = true;
	queue_slot[0] = NULL;
	EXPECT(checked(0, 0, 95), 7777);
	queue_slot[0] = &ring;
	q->file = NULL;
	layout_wrong = "wrong";
	EXPECT(checked(0, 0, 95), 7777);
	EXPECT_LOG("");

	fresh();	/* adopted: another file, another size */
	q->file = (void *)-1L;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->file == &ring, true);
	q->size = 101;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->size, 100);
}

static void checks_of_full_rings(void)
{
	fresh();
	txqs[0].qdisc = &noqueue;
	EXPECT(checked(0, 0, 80), 80 + 11 - 1);
	EXPECT(checked(0, 0, 99), 98);
	set_full_ring(100, 30, 30);
	sluice_queue_check(q);
	EXPECT(q->drops.counter, 0);	/* as without us */
	EXPECT_LOG("");

	fresh();
	set_full_ring(100, 30, 30);
	queue_stalls();
	sluice_queue_check(q);
	EXPECT(q->drops.counter, 1);
	EXPECT(sluice_check_last(q->next_check.counter), 29);	/* each packet */
	EXPECT(q->flow.stalled, true);
	EXPECT(q->stopped, false);
	EXPECT(checked(0, 0, 50), 57);	/* each eighth */
	EXPECT_LOG("");
}

static void openings(void)
{
	fresh();
	device->flow.target_us = 2000;
	q->open = false;
	q->flow.held = 99;
	sluice_queue_opened(q);
	EXPECT(q->open, true);
	EXPECT(q->file == NULL, true);
	EXPECT(q->flow.depth, 4);
	EXPECT_LOG("");

	/* something about its reader changed: a stop goes on, unless it is gone */
	fresh_stopped();
	sluice_queue_opened(q);
	EXPECT(q->stopped, true);
	EXPECT_LOG("");
	queue_slot[0] = NULL;
	sluice_queue_opened(q);
	EXPECT_LOG("queue_wake 0 0;wake;");

	fresh_stopped();
	q->flow.debt_ns = 5;
	sluice_queue_closed(q);
	EXPECT_LOG("queue_wake 0 0;wake;cancel;");
	EXPECT(q->open, false);
	EXPECT(q->flow.debt_ns, 5);	/* who brings it up again owes it still */
	sluice_queue_closed(q);
	EXPECT_LOG("cancel;");
}

static void rescues(void)
{
	bool stopped = false;

	fresh_stopped();
	now = q->timer.expires + NSEC_PER_SEC;
	EXPECT(sluice_queue_rescue(q, &stopped), false);
	EXPECT(stopped, true);
	EXPECT_LOG("");
	now++;
	EXPECT(sluice_queue_rescue(q, &stopped), true);
	EXPECT(q->rescued, 1);
	EXPECT_LOG("queue_wake 61 1002000001;wake;");	/* the longest stop is over */
	stopped = false;
	EXPECT(sluice_queue_rescue(q, &stopped), false);
	EXPECT(stopped, false);
	EXPECT_LOG("");
}

static void lock_is_released(void)
{
	spin_unlock(&ring.producer_lock);
}

static void checks_of_small_rings(void)
{
	fresh();
	ring.size = 0;
	sluice_queue_check(q);
	ring.size = -1;
	sluice_queue_check(q);
	EXPECT(q->size, 100);
	EXPECT_LOG("");
	set_ring(1, 0, 0, 0);	/* one packet fits, but no second */
	sluice_queue_check(q);
	EXPECT(q->size, 1);
	EXPECT_LOG("event;arm 1000000;watch;queue_stop 0 0;");

	fresh();	/* a sender waits for the lock that tells full from empty */
	set_ring(100, 30, 30, 30);
	spin_lock(&ring.producer_lock);
	while_waiting = lock_is_released;
	sluice_queue_check(q);
	EXPECT(q->stopped, false);
	EXPECT_LOG("");
}

static struct sluice_queue_view seen(void)
{
	struct sluice_queue_view view;

	memset(&view, 0xff, sizeof(view));
	sluice_queue_read(q, &view);
	return view;
}

static void views(void)
{
	struct sluice_queue_view view;

	fresh_stopped();
	set_ring(100, 0, 2, 30);
	q->flow.pace_ns = 11;
	q->stops = 12;
	q->wakes[0] = 13;
	q->wakes[1] = 14;
	q->stalls = 15;
	q->longest_stop_ns = 16;
	q->rescued = 17;
	atomic64_set(&q->drops, 18);
	atomic64_set(&q->next_check, 19L << 32 | 40);
	view = seen();
	EXPECT(view.state, SLUICE_QUEUE_STOPPED);
	EXPECT(view.size, 100);
	EXPECT(view.fill, 28);
	EXPECT(view.limit, 92);
	EXPECT(view.low, 46);
	EXPECT(view.reader_ns, 11);
	EXPECT(view.stops, 12);
	EXPECT(view.wakes[0], 13);
	EXPECT(view.wakes[1], 14);
	EXPECT(view.stalls, 15);
	EXPECT(view.longest_stop_ns, 16);
	EXPECT(view.rescued, 17);
	EXPECT(view.drops, 18);
	EXPECT(view.checks, 19);
	EXPECT_LOG("");

	LOCKED(__queue_wake(q, 0, SLUICE_WAKE_TIMER));
	*text = '\0';
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);
	q->flow.stalled = true;	/* 28 packets of 46 */
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);
	set_ring(100, 0, 2, 80);
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	txqs[0].qdisc = &noqueue;
	EXPECT(seen().state, SLUICE_QUEUE_NOQUEUE);
	/* packets in it may be freed twice, on a device of several queues */
	txqs[0].qdisc = &lockless;
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	sluice_locked_reset = false;
	EXPECT(seen().state, SLUICE_QUEUE_LOCKLESS);
	dev.num_tx_queues = 1;
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	dev.num_tx_queues = 2;
	txqs[0].qdisc = &fq;
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	txqs[0].qdisc = &lockless;	/* but those of each queue are stopped then */
	lockless.flags |= TCQ_F_ONETXQUEUE;
	EXPECT(seen().state, SLUICE_QUEUE_LOCKLESS);
	sluice_holds_closed = true;
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	lockless.flags &= ~TCQ_F_ONETXQUEUE;
	EXPECT(seen().state, SLUICE_QUEUE_LOCKLESS);
	txqs[0].qdisc = &fq;
	sluice_holds_closed = false;
	sluice_locked_reset = true;
	set_ring(100, 30, 30, 30);	/* the lock tells full from empty */
	spin_lock(&ring.producer_lock);
	while_waiting = lock_is_released;
	EXPECT(seen().fill, 0);
	device->verified = false;
	view = seen();
	EXPECT(view.state, SLUICE_QUEUE_UNREAD);
	EXPECT(view.size, 0);
	EXPECT(view.fill, 0);
	device->verified = true;
	ring.size = 0;
	EXPECT(seen().limit, 0);
	ring.size = -5;
	EXPECT(seen().size, 0);
	ring.size = 1;
	EXPECT(seen().limit, 1);
	queue_slot[0] = NULL;
	EXPECT(seen().state, SLUICE_QUEUE_UNREAD);
	q->open = false;
	EXPECT(seen().state, SLUICE_QUEUE_IDLE);
	EXPECT_LOG("");
}

static void new_queues(void)
{
	fresh();
	q = &device->queue[1];
	EXPECT(q->device == device, true);
	EXPECT(q->slot == &queue_slot[1], true);
	EXPECT(q->txq == &txqs[1], true);
	EXPECT(q->flow.pace_ns, MS);
	EXPECT(q->timer.function == timer_expired, true);
	EXPECT(q->lock.owner == NULL, true);
}

static bool needed_at(int producer)
{
	ring.producer = producer;
	return check_needed(q);
}

static void entries(void)
{
	struct sk_buff skb = { .queue_mapping = 0 };
	struct ptr_ring other = { .size = 100 };

	fresh();
	atomic64_set(&q->next_check, 9L << 32 | 40);
	EXPECT(needed_at(40), false);
	EXPECT(needed_at(41), true);
	EXPECT(needed_at(16), false);
	EXPECT(needed_at(15), true);
	ring.producer = 30;
	queue_slot[0] = &other;
	EXPECT(check_needed(q), true);
	queue_slot[0] = &ring;
	q->file = &other;
	EXPECT(check_needed(q), true);
	q->file = &ring;
	ring.size = 101;
	EXPECT(check_needed(q), true);
	ring.size = 99;
	EXPECT(check_needed(q), true);
	ring.size = 100;
	q->file = NULL;
	EXPECT(check_needed(q), true);
	hash_add_rcu(sluice_devices, &device->node, 0);
	EXPECT(queue_to_check(&skb, &dev) == q, true);
	q->file = &ring;
	EXPECT(queue_to_check(&skb, &dev) == NULL, true);
	skb.queue_mapping = 1;
	EXPECT(queue_to_check(&skb, &dev) == &device->queue[1], true);
	skb.queue_mapping = 2;
	EXPECT(queue_to_check(&skb, &dev) == NULL, true);
	skb.queue_mapping = 3;
	EXPECT(queue_to_check(&skb, &dev) == NULL, true);
	EXPECT(queue_to_check(&skb, (void *)&other) == NULL, true);
}

/* The callback, for a packet of a ring beyond its limit, and for another. */
static void callbacks(void)
{
	struct sk_buff skb = { .queue_mapping = 0 };
	struct ftrace_regs regs = { .argument = { &skb, &dev } };

	set_ring(100, 0, 0, 30);
	transmit_hook.func(1, 2, &transmit_hook, &regs);
	EXPECT_LOG("");
	set_ring(100, 0, 0, 95);
	transmit_hook.func(1, 2, &transmit_hook, &regs);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 95 0;");
	EXPECT(txqs[0].state, XOFF);
	EXPECT(txqs[1].state, 0);
	skb.queue_mapping = 1;
	sluice_queue_opened(&device->queue[1]);
	transmit_hook.func(1, 2, &transmit_hook, &regs);
	EXPECT(txqs[1].state, XOFF);
	*text = '\0';
	EXPECT(transmit_hook.flags, SLUICE_FTRACE_FLAGS);
	sluice_devices[0].first = NULL;
}

#include "flow_examples.c"
#include "hook_examples.c"
#include "direct_examples.c"
#include "device_examples.c"
#include "backstop_examples.c"
#include "events_examples.c"
#include "layout_examples.c"
#include "main_examples.c"

int main(void)
{
	alarm(20);	/* a loop without an end */
	flows();
	counts();
	full_rings();
	rings_that_change();
	barriers();
	reviews();
	others_stop();
	fills();
	adoptions();
	next_checks();
	checks();
	checks_of_small_rings();
	checks_of_full_rings();
	openings();
	rescues();
	views();
	new_queues();
	entries();
	callbacks();
	hooks();
	directs();
	devices();
	backstops();
	events();
	layouts();
	parameters_within_their_ranges();
	starts();
	starts_that_fail();
	printf("fine: %u examples\n", examples);
	return 0;
}
