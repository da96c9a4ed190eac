// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each function of ring.c, depth.c, queue.c, entry.h, hook.c, direct.c,
 * device.c, layout.c and main.c does, by examples whose results were worked out
 * by hand from the comments above the functions. One thread; the sources are
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
#include "depth.c"
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
void sluice_events_schedule(struct sluice_device *of) { note("event;"); }
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
	device->stall_ms = 250;
	device->low_percent = 50;
	dev.num_tx_queues = 2;
	txqs[0] = txqs[1] = (struct netdev_queue){ .qdisc = &fq, .dev = &dev };
	memset(&ring, 0, sizeof(ring));
	spin_lock_init(&ring.producer_lock);
	set_ring(100, 0, 0, 0);
	queue_slot[0] = queue_slot[1] = &ring;
	layout_wrong = NULL;
	cpus = 2;
	now = NSEC_PER_SEC;
	atomic_set(&stopped_queues, 0);
	sluice_queue_init(&device->queue[0], device, 0);
	sluice_queue_init(&device->queue[1], device, 1);
	q = &device->queue[0];
	sluice_queue_opened(q);
	q->ring = &ring;
	q->file = &ring;
	q->size = 100;
	*text = '\0';
}

/* Stopped now, by us. */
static void fresh_stopped(void)
{
	fresh();
	raw_spin_lock_irq(&q->lock);
	__queue_stop(q, &ring, 60, 92);
	raw_spin_unlock_irq(&q->lock);
	*text = '\0';
}

#define LOCKED(statement) do {			\
	raw_spin_lock_irq(&q->lock);		\
	statement;				\
	raw_spin_unlock_irq(&q->lock);		\
} while (0)

static void slots_and_counts(void)
{
	struct sluice_ring_count count;

	EXPECT(sluice_slots_between(0, 0, 8), 0);
	EXPECT(sluice_slots_between(2, 5, 8), 3);
	EXPECT(sluice_slots_between(0, 7, 8), 7);
	EXPECT(sluice_slots_between(6, 2, 8), 4);
	EXPECT(sluice_slots_between(7, 0, 8), 1);
	EXPECT(sluice_slots_between(5, 4, 8), 7);
	/* indices of another size */
	EXPECT(sluice_slots_between(0, 8, 8), 0);
	EXPECT(sluice_slots_between(0, 20, 8), 0);
	EXPECT(sluice_slots_between(20, 0, 8), 0);

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
	EXPECT_LOG("");
}

static void full_rings(void)
{
	struct sluice_ring_count count;

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
	struct sluice_ring_count count;

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

static void limits(void)
{
	fresh();
	EXPECT(headroom_for(q, &ring, 100), 2 * 2 + 4);
	EXPECT(sluice_limit(q, &ring, 100), 92);
	EXPECT(headroom_for(q, &ring, 8), 4);
	EXPECT(headroom_for(q, &ring, 1), 0);
	EXPECT(sluice_limit(q, &ring, 1), 1);
	EXPECT(sluice_limit(q, &ring, 0), 1);
	cpus = 64;
	EXPECT(headroom_for(q, &ring, 1000), 2 * 64 + 4);
	q->headroom = 130;
	EXPECT(headroom_for(q, &ring, 1000), 130);
	q->headroom = 10;
	EXPECT(headroom_for(q, &ring, 1000), 125);	/* an eighth */
	EXPECT(headroom_for(q, &ring, 96), 2 * 8 + 4);	/* SENDERS_MIN */
	q->headroom = INT_MAX;
	EXPECT(headroom_for(q, &ring, 96), 48);		/* half a ring */
	cpus = 8;	/* no more than SENDERS_MIN: nothing is learned */
	q->headroom = 1;
	EXPECT(headroom_for(q, &ring, 100), 20);
	EXPECT(headroom_for(q, &ring, 1000), 20);

	fresh();
	EXPECT(sluice_depth(q, 92), 92);
	q->depth = 7;
	EXPECT(sluice_depth(q, 92), 92);	/* no target */
	device->limit = 200;
	EXPECT(sluice_depth(q, 92), 92);
	device->limit = 10;
	EXPECT(sluice_depth(q, 92), 10);
	device->target_us = 1;
	EXPECT(sluice_depth(q, 92), 7);
	q->depth = 30;
	EXPECT(sluice_depth(q, 92), 10);
	device->limit = 0;
	EXPECT(sluice_depth(q, 92), 30);
	q->depth = 300;
	EXPECT(sluice_depth(q, 92), 92);
	EXPECT(sluice_low(q, 92), 46);
	EXPECT(sluice_low(q, 920), 460);
	device->low_percent = 95;
	EXPECT(sluice_low(q, 3), 2);
	EXPECT(stall_ns(q), 250 * MS);
	device->stall_ms = 60000;
	EXPECT(stall_ns(q), 60000 * MS);
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
	EXPECT_LOG("read tail;barrier ;read producer;read producer;");
	set_full_ring(100, 30, 30);
	sluice_count_ring(&ring, 100, false);
	EXPECT_LOG("read tail;barrier ;read producer;"
		   "read tail;barrier ;read newest;read producer;");
	set_ring(100, 10, 12, 20);
	sluice_queue_check(q);
	EXPECT_LOG("read next_check;barrier ;read slot;read size;read file;"
		   "read q->size;"
		   "read producer;"
		   "read tail;barrier ;read producer;read producer;");
	queue_adopted(q, &ring, 100);
	EXPECT_LOG("release q->size;release file;");
	when_ordered = NULL;
}

static const char *armed(int packets)
{
	LOCKED(__queue_arm(q, packets, now));
	return text;
}

static void timers(void)
{
	fresh_stopped();
	q->reader_ns = 1000;
	armed(100);
	EXPECT_LOG("arm 100000;");
	q->timer_late_ns = 30000;
	armed(100);
	EXPECT_LOG("arm 70000;");
	armed(1);
	EXPECT_LOG("arm 20000;");
	armed(40);
	EXPECT_LOG("arm 20000;");
	armed(10000);
	EXPECT_LOG("arm 2000000;");
	q->idle_reviews = 3;
	armed(1);
	EXPECT_LOG("arm 160000;");
	q->idle_reviews = 0;
	/* others are stopped, and the reader reads */
	atomic_set(&stopped_queues, 101);
	armed(1);
	EXPECT_LOG("arm 20000;");
	armed(10000);
	EXPECT_LOG("arm 2000000;");
	/* or does not */
	q->idle_reviews = 1;
	atomic_set(&stopped_queues, 5);
	armed(1);
	EXPECT_LOG("arm 200000;");
	atomic_set(&stopped_queues, 41);
	armed(1);
	EXPECT_LOG("arm 2000000;");
	atomic_set(&stopped_queues, 101);
	armed(1);
	EXPECT_LOG("arm 4000000;");
	armed(10000);
	EXPECT_LOG("arm 4000000;");
	q->idle_reviews = 0;
	atomic_set(&stopped_queues, 1);
	/* the bound on reviews */
	q->next_review_at = now + 3 * MS;
	armed(1);
	EXPECT_LOG("arm 3000000;");
	q->next_review_at = 0;
	/* the longest stop */
	now = q->stopped_at + 249 * MS + 500 * US;
	armed(10000);
	EXPECT_LOG("arm 500000;");
	q->next_review_at = now + 3 * MS;
	armed(1);
	EXPECT_LOG("arm 500000;");
	now = q->stopped_at + 251 * MS;
	armed(1);
	EXPECT_LOG("arm 20000;");
}

static void reviews_are_paid(void)
{
	fresh();
	LOCKED(__queue_pay_review(q, 0, now));
	EXPECT(q->idle_reviews, 1);
	EXPECT(q->next_review_at, now - 4 * MS + 500 * US);
	q->next_review_at = now + 1;
	LOCKED(__queue_pay_review(q, 0, now));
	EXPECT(q->next_review_at, now + 1 + 500 * US);
	EXPECT(q->idle_reviews, 2);
	q->idle_reviews = 4;
	LOCKED(__queue_pay_review(q, 0, now));
	LOCKED(__queue_pay_review(q, 0, now));
	EXPECT(q->idle_reviews, 5);
	q->next_review_at = now;
	LOCKED(__queue_pay_review(q, 1, now));
	EXPECT(q->idle_reviews, 0);
	EXPECT(q->next_review_at, now + 500000 - 7812);
	q->next_review_at = now;
	LOCKED(__queue_pay_review(q, 64, now));
	EXPECT(q->next_review_at, now + 500000 - 64 * 7812);
	q->next_review_at = now;
	LOCKED(__queue_pay_review(q, 65, now));
	EXPECT(q->next_review_at, now + 500000 - 64 * 7812);
	/* the machine has just booted */
	q->next_review_at = 0;
	LOCKED(__queue_pay_review(q, 0, 1 * MS));
	EXPECT(q->next_review_at, 500 * US);

	q->timer_late_ns = 80000;
	q->timer.expires = now - 160000;
	LOCKED(EXPECT(__queue_learn_lateness(q), 160000));
	EXPECT(q->timer_late_ns, 90000);
	q->timer.expires = now - 10 * MS;
	q->timer_late_ns = 0;
	LOCKED(EXPECT(__queue_learn_lateness(q), 10 * MS));
	EXPECT(q->timer_late_ns, 250 * US);
	q->timer.expires = now + 1000;
	q->timer_late_ns = 8000;
	LOCKED(EXPECT(__queue_learn_lateness(q), 0));
	EXPECT(q->timer_late_ns, 7000);
}

static void charges(void)
{
	fresh();
	LOCKED(__queue_charge(q, 20 * MS, 1));
	EXPECT(q->unpaid_ns, 15 * MS);
	LOCKED(__queue_charge(q, 1 * MS, 2));
	EXPECT(q->unpaid_ns, 6 * MS);
	LOCKED(__queue_charge(q, 1 * MS, 2));
	EXPECT(q->unpaid_ns, 0);
	LOCKED(__queue_charge(q, 3 * MS, 0));
	EXPECT(q->unpaid_ns, 3 * MS);
}

static void stops(void)
{
	fresh();
	set_ring(100, 10, 12, 90);
	q->head = 10;
	q->reader_ns = 1000;
	q->unpaid_ns = 14 * MS + 2;
	q->idle_reviews = 3;
	q->reviewed_at = now - 16;	/* an eighth of that is paid */
	LOCKED(__queue_stop(q, &ring, 78, 80));
	EXPECT_LOG("event;arm 38000;watch;queue_stop 78 0;");
	EXPECT(q->stopped, true);
	EXPECT(txqs[0].state, XOFF);
	EXPECT(txqs[1].state, 0);
	EXPECT(atomic_read(&stopped_queues), 1);
	EXPECT(q->stops, 1);
	EXPECT(q->stopped_at, now);
	EXPECT(q->open_ns, 16);
	EXPECT(q->reviewed_at, now);
	EXPECT(q->idle_reviews, 0);
	EXPECT(q->stop_producer, 90);
	EXPECT(q->head, 12);
	EXPECT(q->unpaid_ns, 4 * MS);

	/* somebody else woke it */
	txqs[0].state = 0;
	now += MS;
	LOCKED(__queue_stop(q, &ring, 78, 80));
	EXPECT_LOG("");
	EXPECT(txqs[0].state, XOFF);
	EXPECT(q->stops, 1);
	EXPECT(q->stopped_at, now - MS);
	LOCKED(__queue_stop(q, &ring, 78, 80));
	EXPECT_LOG("");

	LOCKED(__queue_wake(q, 5, SLUICE_WAKE_TIMER));
	EXPECT_LOG("queue_wake 5 1000000;wake;");
	EXPECT(q->stopped, false);
	EXPECT(atomic_read(&stopped_queues), 0);
	EXPECT(q->wakes[SLUICE_WAKE_TIMER], 1);
	EXPECT(q->wakes[SLUICE_WAKE_OTHER], 0);
	EXPECT(q->longest_stop_ns, MS);

	/* the second stop, shorter; then one by somebody else */
	LOCKED(__queue_stop(q, &ring, 78, 80));
	EXPECT_LOG("arm 38000;watch;queue_stop 78 0;");
	now += 1000;
	LOCKED(__queue_wake(q, 6, SLUICE_WAKE_OTHER));
	EXPECT_LOG("queue_wake 6 1000;wake;");
	EXPECT(q->longest_stop_ns, MS);
	EXPECT(q->wakes[SLUICE_WAKE_OTHER], 1);
	EXPECT(q->stops, 2);
	txqs[0].state = XOFF;
	LOCKED(__queue_stop(q, &ring, 78, 80));
	EXPECT_LOG("");
	EXPECT(q->stopped, false);

	txqs[0].state = 0;	/* more than twice as full as it wakes */
	LOCKED(__queue_stop(q, &ring, 90, 80));
	EXPECT_LOG("arm 50000;watch;queue_stop 90 0;");

	/* 2 packets and those in the ring make a whole ring: they were not read */
	for (int fill = 97; fill <= 98; fill++) {
		fresh();
		set_ring(100, 10, 12, 90);
		q->head = 10;
		q->unpaid_ns = 14 * MS;
		q->reviewed_at = now;
		LOCKED(__queue_stop(q, &ring, fill, 80));
		EXPECT(q->unpaid_ns, fill < 98 ? 4 * MS : 14 * MS);
		*text = '\0';
	}
}

static void stalls(void)
{
	fresh_stopped();
	now += 7 * MS;
	q->unpaid_ns = 1;
	LOCKED(__queue_stall(q, 9, now));
	EXPECT_LOG("event;queue_stall 9 7000000;queue_wake 9 7000000;wake;");
	EXPECT(q->stalled, true);
	EXPECT(q->pass_until, now + 8 * 250 * MS);
	EXPECT(q->unpaid_ns, 1);	/* nothing is forgiven */
	EXPECT(q->device->debt_until, q->pass_until);
	EXPECT(q->stalls, 1);
	EXPECT(q->wakes[SLUICE_WAKE_OTHER], 1);

	q->head = 3;
	ring.consumer_head = 4;
	EXPECT(stall_lasts(q, &ring, 50, 40), true);
	EXPECT(stall_lasts(q, &ring, 41, 40), true);
	EXPECT(stall_lasts(q, &ring, 40, 40), false);	/* it caught up */
	now = q->pass_until - 1;
	EXPECT(stall_lasts(q, &ring, 50, 40), true);
	now = q->pass_until;
	EXPECT(stall_lasts(q, &ring, 50, 40), false);
	ring.consumer_head = 3;	/* it has read nothing */
	EXPECT(stall_lasts(q, &ring, 50, 40), true);
	q->stalled = false;
	EXPECT(stall_lasts(q, &ring, 50, 40), false);

	fresh_stopped();
	now += 2 * NSEC_PER_SEC;
	LOCKED(__queue_stall(q, 9, now));
	EXPECT_LOG("event;queue_stall 9 2000000000;queue_wake 9 2000000000;wake;");
}

static void depths(void)
{
	fresh();
	device->target_us = 2000;
	q->reader_ns = 999;
	q->depth_ns = 2 * MS;
	LOCKED(__set_depth(q));
	EXPECT(q->depth, 2000);
	q->depth_ns = 4 * MS;
	LOCKED(__set_depth(q));
	EXPECT(q->depth, 4000);
	q->reader_ns = NSEC_PER_SEC;
	LOCKED(__set_depth(q));
	EXPECT(q->depth, 4);
	q->reader_ns = 0;
	q->depth_ns = 1UL << 40;
	LOCKED(__set_depth(q));
	EXPECT(q->depth, INT_MAX);

	q->reader_ns = 999;
	q->depth_ns = 2 * MS;
	LOCKED(sluice_learn_depth(q, 300 * US));
	EXPECT(q->depth_ns, 2300 * US);
	EXPECT(q->depth, 2300);
	q->depth_ns = 2 * MS;
	LOCKED(sluice_learn_depth(q, 5 * MS));
	EXPECT(q->depth_ns, 3 * MS);
	q->depth_ns = 2640 * US;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 2630 * US);
	q->depth_ns = 99 * MS;
	LOCKED(sluice_learn_depth(q, 5 * MS));
	EXPECT(q->depth_ns, 100 * MS);
	EXPECT(q->depth, 100000);

	/* a refill in less than a quarter of the stop: a quarter of the target */
	q->stopped_at = 7 * MS;
	q->reviewed_at = 8 * MS;
	q->open_ns = 250 * US;
	q->depth_ns = 2 * MS;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 2 * MS);
	q->open_ns++;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 2 * MS);
	q->open_ns -= 2;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 2 * MS - 1500 * US / 64);
	q->depth_ns = 500 * US;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 500 * US);
	q->open_ns++;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 500 * US + 1500 * US / 64);

	/* but 16 packets, if they are read within the target */
	q->open_ns = 0;
	q->reader_ns = 100 * US;
	q->depth_ns = 1600 * US;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 1600 * US);
	q->reader_ns = MS;
	q->depth_ns = 2 * MS;
	LOCKED(sluice_learn_depth(q, 0));
	EXPECT(q->depth_ns, 2 * MS);
}

static void paces(void)
{
	fresh();
	q->depth_ns = 2 * MS;
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 100000, false), 0));
	EXPECT(q->read_ns, 1000000 + 100000 - 125000);
	EXPECT(q->read, 64 + 640 - 8);
	EXPECT(q->reader_ns, 975000 * 64 / 696);
	EXPECT(q->depth, 2000000 / (89655 + 1));
	/* the ring was empty: it waited, or it is faster than was known */
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 1800000, true), 1800000 - 896550));
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 950000, true), 59375));
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 896550, true), 56034));
	EXPECT(q->reader_ns, 89655);
	EXPECT(q->read, 696);
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 5000, true), 312));
	EXPECT(q->read_ns, 40000);
	EXPECT(q->read, 5120);
	EXPECT(q->reader_ns, 500);
	EXPECT(q->depth, 2000000 / 501);
	/* of a pace a second at most, but of waiting all */
	LOCKED(sluice_learn_pace(q, 1, 5 * NSEC_PER_SEC, false));
	EXPECT(q->read_ns, 40000 + NSEC_PER_SEC - 5000);
	EXPECT(q->read, 5120 + 64 - 640);
	q->read_ns = 1000 * 8;
	q->reader_ns = 1 << 30;
	LOCKED(sluice_learn_pace(q, 10, 5 * NSEC_PER_SEC, true));
	EXPECT(q->read_ns, 8 * NSEC_PER_SEC);
	q->reader_ns = 1000;
	LOCKED(EXPECT(sluice_learn_pace(q, 10, 5 * NSEC_PER_SEC, true),
		      5 * NSEC_PER_SEC - 10000));

	fresh();
	cpus = 64;	/* 132 at most */
	q->stop_producer = 10;
	ring.producer = 15;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 132 - 7);
	q->headroom = 20;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 24);
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 24);
	q->headroom = 25;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 24);
	ring.producer = 60;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 132);
	ring.producer = 9;	/* once round */
	q->headroom = 20;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 132);
	ring.producer = 13;
	q->headroom = INT_MAX;
	LOCKED(sluice_learn_headroom(q, &ring));
	EXPECT(q->headroom, 132 - 8);
}

static void reviewed_late(u64 ns, u64 late)
{
	now += ns;
	LOCKED(__queue_review(q, late));
}

static void reviewed_after(u64 ns)
{
	reviewed_late(ns, 0);
}

/* Nothing but a wake: there is no ring of ours behind the queue any more. */
static void reviews_of_a_change(void)
{
	struct ptr_ring other = { .size = 100 };
	int i;

	for (i = 0; i < 6; i++) {
		fresh_stopped();
		if (i == 0)
			queue_slot[0] = NULL;
		else if (i == 1)
			queue_slot[0] = &other;
		else if (i == 2)
			q->ring = &other;
		else if (i == 3)
			ring.size = 101;
		else if (i == 4)
			ring.size = 99;
		else
			txqs[0].qdisc = &noqueue;
		reviewed_after(MS);
		EXPECT_LOG("queue_wake 0 1000000;wake;");
		EXPECT(q->wakes[SLUICE_WAKE_OTHER], 1);
		EXPECT(q->unpaid_ns, 0);
	}
	fresh_stopped();
	q->ring = NULL;
	queue_slot[0] = NULL;
	reviewed_after(MS);
	EXPECT_LOG("queue_wake 0 1000000;wake;");
}

static void reviews(void)
{
	/* limit 92, low 46: 22 packets too many */
	fresh_stopped();
	q->reader_ns = 1000;
	q->read_ns = 1000;
	set_ring(100, 0, 4, 72);
	q->head = 0;
	reviewed_after(40 * US);
	EXPECT(q->head, 4);
	EXPECT(q->reviewed_at, now);
	EXPECT(q->reader_ns, (1000 + 40000 - 125) * 64 / (64 + 256 - 8));
	EXPECT(q->unpaid_ns, 0);
	EXPECT(q->next_review_at, now - 4 * MS + 500000 - 4 * 7812);
	EXPECT_LOG("arm 184448;");
	EXPECT(q->stopped, true);
	EXPECT(q->headroom, INT_MAX);
	/* nothing is read: that is charged */
	reviewed_after(5 * MS);
	EXPECT(q->unpaid_ns, 5 * MS);
	EXPECT(q->reader_ns, 8384);
	EXPECT(q->idle_reviews, 1);
	EXPECT_LOG("arm 184448;");
	/* 57 packets are few enough, 58 are not */
	set_ring(100, 4, 4, 62);
	reviewed_after(MS);
	EXPECT(q->stopped, true);
	EXPECT_LOG("arm 100608;");
	set_ring(100, 5, 5, 62);
	q->depth_ns = 2 * MS;
	q->headroom = INT_MAX;
	reviewed_after(MS);
	EXPECT_LOG("queue_wake 57 7040000;wake;");
	EXPECT(q->wakes[SLUICE_WAKE_TIMER], 1);
	EXPECT(q->depth_ns, 2 * MS - 2 * MS / 64);
	EXPECT(q->headroom, 8);

	/* slots that are read and not handed back do not wake it */
	fresh_stopped();
	set_ring(100, 0, 90, 92);
	reviewed_after(MS);
	EXPECT(q->stopped, true);
	set_ring(100, 1, 90, 92);
	*text = '\0';
	reviewed_after(MS);
	EXPECT_LOG("queue_wake 2 2000000;wake;");
	/* with 94 in use the next review is when three more are handed back */
	fresh_stopped();
	q->reader_ns = 200 * US;
	q->head = 90;
	set_ring(100, 0, 90, 94);
	reviewed_after(MS);
	EXPECT_LOG("arm 600000;");
	EXPECT(q->stopped, true);

	/* it wakes at half of the depth, not of the limit */
	fresh_stopped();
	device->limit = 20;
	q->reader_ns = 100 * US;
	set_ring(100, 0, 0, 15);
	reviewed_after(MS);
	EXPECT_LOG("arm 500000;");
}

/* Its sender holds the lock that would tell full from empty. */
static void reviews_in_an_interrupt(void)
{
	fresh_stopped();
	set_ring(100, 30, 30, 30);
	spin_lock(&ring.producer_lock);
	reviewed_after(MS);
	spin_unlock(&ring.producer_lock);
	EXPECT_LOG("arm 2000000;");
	EXPECT(q->stopped, true);
	reviewed_after(MS);
	EXPECT_LOG("queue_wake 0 2000000;wake;");
}

/* Soon after the boot: times are of the order of what lies between them. */
static void reviews_at_boot(void)
{
	fresh();
	now = 200 * MS;
	LOCKED(__queue_stop(q, &ring, 60, 92));
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 60 0;");
	q->reviewed_at = 2 * MS;
	set_ring(100, 0, 0, 60);
	now = 7 * MS;
	q->stopped_at = 3 * MS;
	reviewed_after(0);
	EXPECT(q->unpaid_ns, 5 * MS);
	EXPECT_LOG("arm 2000000;");
	q->stopped_at = 200 * MS;
	q->reviewed_at = now = 460 * MS;
	reviewed_after(0);
	EXPECT_LOG("queue_wake 60 260000000;wake;");
}

/* The reader found the ring empty: it waits, and the ring becomes deeper. */
static void reviews_of_an_empty_ring(void)
{
	fresh_stopped();
	q->depth_ns = 2 * MS;
	q->reader_ns = 1000;
	q->read_ns = 1000;
	q->head = 0;
	set_ring(100, 60, 60, 60);
	reviewed_after(100 * US);
	EXPECT_LOG("queue_wake 0 100000;wake;");
	EXPECT(q->reader_ns, 1000);
	EXPECT(q->depth_ns, 2 * MS + 40 * US);
	EXPECT(q->unpaid_ns, 0);

	/* neither what it waited nor a long lateness is charged, whichever is more */
	fresh_stopped();
	q->reader_ns = 1000;
	q->read_ns = 1000;
	set_ring(100, 1, 1, 1);
	q->unpaid_ns = 200 * MS;
	reviewed_after(10 * MS);
	EXPECT(q->unpaid_ns, 200 * MS + 1000 - 5 * MS);
}

static void reviews_of_a_slow_reader(void)
{
	/* 249 ms unpaid, then 250 */
	fresh_stopped();
	set_ring(100, 0, 0, 60);
	q->stopped_at -= MS;
	reviewed_after(249 * MS - 1);
	EXPECT(q->stopped, true);
	*text = '\0';
	q->unpaid_ns = 250 * MS - 1;
	q->stopped_at = now;
	reviewed_after(0);
	EXPECT(q->stopped, true);
	*text = '\0';
	reviewed_after(1);
	EXPECT_LOG("event;queue_stall 60 1;queue_wake 60 1;wake;");

	/* the longest stop is over: it read enough, so it is woken */
	fresh_stopped();
	set_ring(100, 0, 0, 60);
	q->reviewed_at = now + 250 * MS - 1;
	reviewed_after(250 * MS - 1);
	EXPECT(q->stopped, true);
	*text = '\0';
	q->reviewed_at = now;
	reviewed_after(1);
	EXPECT_LOG("queue_wake 60 250000000;wake;");
	EXPECT(q->wakes[SLUICE_WAKE_TIMER], 1);
	EXPECT(q->stalled, false);

	/* the machine was paused: so was the reader, however full the ring is */
	fresh_stopped();
	set_ring(100, 0, 0, 98);
	reviewed_late(300 * MS, 299 * MS);
	EXPECT_LOG("queue_wake 98 300000000;wake;");
	EXPECT(q->stalled, false);
	EXPECT(q->unpaid_ns, 63500 * US);
	/* all of what is not lateness is charged, and all of less */
	fresh_stopped();
	set_ring(100, 0, 0, 98);
	reviewed_after(200 * MS);
	EXPECT(q->unpaid_ns, 200 * MS);
	*text = '\0';
	fresh_stopped();
	set_ring(100, 0, 0, 98);
	reviewed_late(63 * MS, 62500 * US);
	EXPECT(q->unpaid_ns, 63 * MS);
	*text = '\0';
	/* the fourth time in a row it stalls */
	fresh_stopped();
	q->unpaid_ns = 3 * 62500 * US;
	set_ring(100, 0, 0, 60);
	reviewed_late(300 * MS, 300 * MS);
	EXPECT_LOG("event;queue_stall 60 300000000;queue_wake 60 300000000;wake;");
	/* no more than stall_ms is unpaid, however often it has caught up */
	fresh_stopped();
	q->unpaid_ns = 249 * MS;
	set_ring(100, 1, 1, 20);
	reviewed_after(10 * MS);
	EXPECT_LOG("queue_wake 19 10000000;wake;");
	EXPECT(q->unpaid_ns, 250 * MS);

	fresh_stopped();
	set_ring(100, 0, 0, 60);
	q->unpaid_ns = 251 * MS;
	reviewed_after(0);
	EXPECT_LOG("event;queue_stall 60 0;queue_wake 60 0;wake;");

	/* 40 read, 59 or 60 slots in use: the last were not of our senders */
	for (int used = 59; used <= 60; used++) {
		fresh_stopped();
		set_ring(100, 40, 40, (40 + used) % 100);
		reviewed_after(MS);
		EXPECT(q->head, 40);
		EXPECT(q->unpaid_ns, used < 60 ? 0 : MS);
		EXPECT(q->reader_ns == NSEC_PER_MSEC, used == 60);
		EXPECT(q->stop_read, used < 60 ? 40 : 0);
		*text = '\0';
	}

	/* a stop that is over, 50 read or more: others put in half as many, or fewer */
	for (int read = 49; read <= 51; read++)
		for (int came = 24; came <= 26; came++) {
			fresh_stopped();
			q->stop_fill = 90;
			q->stop_read = read - 5;
			set_ring(100, 5, 5, 5 + 90 - read + came);
			q->stopped_at -= 250 * MS;
			device->limit = 10;
			reviewed_after(MS);
			EXPECT(q->stopped, false);
			EXPECT(q->stalled, read >= 50 && 2 * came >= read);
			*text = '\0';
		}
	/* not before that */
	fresh_stopped();
	q->stop_fill = 60;
	q->stop_read = 60;
	set_ring(100, 5, 5, 65);
	reviewed_after(MS);
	EXPECT(q->stop_read, 65);
	EXPECT(q->stopped, true);
	/* somebody woke our stop: its senders filled the ring again */
	txqs[0].state = 0;
	LOCKED(__queue_stop(q, &ring, 60, 92));
	EXPECT(q->stop_read, 0);
	EXPECT(q->stop_fill, 60);
	*text = '\0';
}

static void queue_is_stalled(void)
{
	q->stalled = true;
}

static void queue_is_opened(void)
{
	sluice_queue_opened(q);
}

static void expiries(void)
{
	static struct ptr_ring other[2] = { { .size = 100 }, { .size = 100 } };
	unsigned int i;

	fresh_stopped();
	now = q->timer.expires + 3 * MS;
	q->reviewed_at = now - 10 * MS;
	set_ring(100, 0, 0, 60);
	EXPECT(q->timer.function(&q->timer), HRTIMER_NORESTART);
	EXPECT(q->unpaid_ns, 10 * MS);
	EXPECT(q->timer_late_ns, 250 * US);
	EXPECT_LOG("arm 2000000;");
	LOCKED(__queue_wake(q, 0, SLUICE_WAKE_OTHER));
	*text = '\0';
	EXPECT(q->timer.function(&q->timer), HRTIMER_NORESTART);
	EXPECT_LOG("");
	EXPECT(q->timer_late_ns, 250 * US);

	fresh();
	q->stalled = true;
	q->head = 1;	/* the reader reads */
	queue_filled(q, &ring, 60, 92, true);
	EXPECT(q->stalled, false);
	EXPECT(q->stopped, true);
	*text = '\0';
	fresh();
	q->open = false;
	q->stalled = true;
	q->head = 1;
	queue_filled(q, &ring, 60, 92, true);
	EXPECT(q->stalled, false);
	EXPECT_LOG("");
	fresh();	/* not full: only the stall ends */
	q->stalled = true;
	q->head = 1;
	queue_filled(q, &ring, 60, 92, false);
	EXPECT(q->stalled, false);
	EXPECT(q->stopped, false);
	fresh();	/* stalled while it waited for the lock: by a reader that read since */
	while_waiting = queue_is_stalled;
	q->head = 1;
	queue_filled(q, &ring, 60, 92, true);
	EXPECT(q->stalled, false);
	EXPECT(q->stopped, true);
	*text = '\0';
	for (i = 0; i < 2; i++) {	/* it has another ring since */
		fresh();
		q->ring = &other[i];
		queue_filled(q, &other[!i], 60, 92, true);
		EXPECT(q->stopped, false);
		q->stalled = true;
		queue_filled(q, &other[!i], 0, 92, false);
		EXPECT(q->stalled, true);
		EXPECT_LOG("");
	}
	fresh();	/* and by one that did not: the stall lasts, above the low watermark */
	while_waiting = queue_is_stalled;
	queue_filled(q, &ring, 47, 92, true);
	EXPECT(q->stalled, true);
	EXPECT(q->stopped, false);
	queue_filled(q, &ring, 46, 92, false);
	EXPECT(q->stalled, false);
	EXPECT_LOG("");
}

static void adoptions(void)
{
	static struct ptr_ring other = { .size = 50, .consumer_head = 7, .producer = 9 };

	fresh();
	q->stalled = true;
	layout_wrong = "wrong";
	EXPECT(queue_adopted(q, &other, 50), false);
	EXPECT(q->stalled, true);
	EXPECT(q->ring == &ring, true);
	layout_wrong = NULL;
	q->headroom = 20;
	atomic64_set(&q->next_check, 5L << 32 | 40);
	q->stop_read = 30;
	EXPECT(queue_adopted(q, &other, 50), true);
	EXPECT(atomic64_read(&q->next_check), 6L << 32 | U32_MAX);
	EXPECT(q->stop_read, 0);
	EXPECT(q->stop_fill, 50);
	EXPECT(q->stalled, false);
	EXPECT(q->unpaid_ns, 250 * MS);	/* the next stop may stall at once */
	EXPECT(q->ring == &other && q->file == &other, true);
	EXPECT(q->size, 50);
	EXPECT(q->head, 7);
	EXPECT(q->stop_producer, 9);
	EXPECT(q->headroom, INT_MAX);
	/* the same: what was learned is kept, what was read does not pay */
	q->head = q->stop_producer = 1;
	q->headroom = 20;
	q->stalled = true;
	q->unpaid_ns = 7;
	EXPECT(queue_adopted(q, &other, 50), true);
	EXPECT(q->stalled, true);
	EXPECT(q->unpaid_ns, 250 * MS);
	EXPECT(q->head, 7);
	EXPECT(q->stop_producer, 1);
	EXPECT(q->headroom, 20);
	/* another size, another ring of the same size */
	q->unpaid_ns = 7;
	EXPECT(queue_adopted(q, &other, 51), true);
	EXPECT(q->stalled, false);
	EXPECT(q->unpaid_ns, 250 * MS);
	q->unpaid_ns = 7;	/* was not stalled: no more to pay than before */
	EXPECT(q->head, 7);
	EXPECT(q->headroom, INT_MAX);
	q->headroom = 20;
	EXPECT(queue_adopted(q, &other, 40), true);
	EXPECT(q->headroom, INT_MAX);
	EXPECT(q->unpaid_ns, 7);
	q->headroom = 20;
	EXPECT(queue_adopted(q, &ring, 40), true);
	EXPECT(q->head, 0);
	EXPECT(q->headroom, INT_MAX);
	q->headroom = 20;
	EXPECT(queue_adopted(q, &other, 40), true);
	EXPECT(q->head, 7);
	EXPECT(q->headroom, INT_MAX);
	/* at the same time */
	while_waiting = queue_is_stalled;
	EXPECT(queue_adopted(q, &ring, 40), true);
	EXPECT(q->stalled, false);
	when_released = queue_is_opened;
	EXPECT(queue_adopted(q, &other, 40), true);
	EXPECT(q->file == NULL, true);
	EXPECT_LOG("");
}

/* The last index without a check, after the packet that is at @producer. */
static u32 next_check(int producer, int room, int size)
{
	s64 before = 5L << 32 | 77;

	atomic64_set(&q->next_check, before);
	set_next_check(q, before, producer, room, size);
	return sluice_check_last(atomic64_read(&q->next_check));
}

static void next_checks(void)
{
	fresh();
	EXPECT(next_check(10, 5, 100), 14);
	EXPECT(next_check(10, 0, 100), 9);
	EXPECT(next_check(10, -3, 100), 9);
	EXPECT(next_check(10, 50, 100), 34);	/* a quarter of the ring */
	EXPECT(next_check(95, 20, 100), 99);
	EXPECT(next_check(0, 0, 100), (u32)-1);
	EXPECT(atomic64_read(&q->next_check) >> 32, 6);
	EXPECT(next_check(73, 5, 100), 77);
	EXPECT(atomic64_read(&q->next_check) >> 32, 5);
	/* somebody else wrote it */
	atomic64_set(&q->next_check, 3);
	set_next_check(q, 4, 10, 5, 100);
	EXPECT(atomic64_read(&q->next_check), 3);
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
	EXPECT(checked(0, 0, 10), 34);
	EXPECT(checked(0, 0, 75), 75 + 92 - 75 - 1 - 1);
	EXPECT(checked(0, 0, 90), 90);
	EXPECT(checked(0, 20, 80), 80 + 92 - 80 - 1 - 1);
	EXPECT_LOG("");
	EXPECT(checked(0, 0, 91), 90);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 91 0;");

	fresh();	/* the depth, in packets and not in slots */
	device->limit = 20;
	EXPECT(checked(0, 10, 20), 20 + 9 - 1);
	EXPECT(checked(0, 10, 28), 28);
	EXPECT_LOG("");
	EXPECT(checked(0, 10, 29), 28);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 19 0;");

	fresh();	/* a list is not divided, but at the limit */
	device->limit = 20;
	more_follow = true;
	EXPECT(checked(0, 10, 29), 28);
	EXPECT(checked(0, 10, 90), 89);
	EXPECT_LOG("");
	EXPECT(checked(0, 10, 91), 90);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 81 0;");

	fresh();	/* and 64 packets beyond the depth */
	device->limit = 20;
	EXPECT(checked(0, 0, 82), 81);
	EXPECT_LOG("");
	EXPECT(checked(0, 0, 83), 82);
	EXPECT_LOG("event;arm 2000000;watch;queue_stop 83 0;");
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
	ring.size = 0;
	sluice_queue_check(q);
	ring.size = 1;
	sluice_queue_check(q);
	EXPECT(q->drops.counter, 0);
	EXPECT_LOG("");

	fresh();	/* adopted: another file, another size */
	q->file = NULL;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->file == &ring, true);
	q->file = (void *)-1L;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->file == &ring, true);
	q->size = 7;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->size, 100);
	q->size = 101;
	EXPECT(checked(0, 0, 10), U32_MAX);
	EXPECT(q->size, 100);

	fresh();
	q->stalled = true;	/* and has nearly caught up */
	q->pass_until = now + 1;
	EXPECT(checked(0, 0, 10), 34);
	EXPECT(q->stalled, false);
	EXPECT_LOG("");
	q->stalled = true;
	EXPECT(checked(0, 0, 91), 90);
	EXPECT(q->stalled, true);
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
	EXPECT_LOG("event;arm 20000;watch;queue_stop 0 0;");

	fresh();	/* a sender waits for the lock that tells full from empty */
	set_ring(100, 30, 30, 30);
	spin_lock(&ring.producer_lock);
	while_waiting = lock_is_released;
	sluice_queue_check(q);
	EXPECT(q->stopped, false);
	EXPECT_LOG("");
}

static void checks_of_full_rings(void)
{
	fresh();
	txqs[0].qdisc = &noqueue;
	EXPECT(checked(0, 0, 10), 34);
	EXPECT(checked(0, 0, 80), 80 + 11 - 1);
	EXPECT(checked(0, 0, 91), 90);
	EXPECT(checked(0, 0, 99), 98);
	set_full_ring(100, 30, 30);
	sluice_queue_check(q);
	EXPECT(q->drops.counter, 0);	/* as without us */
	EXPECT_LOG("");

	fresh();
	set_full_ring(100, 30, 30);
	q->stalled = true;
	q->head = 30;
	atomic64_set(&q->next_check, 7777);
	sluice_queue_check(q);
	EXPECT(q->drops.counter, 1);
	EXPECT(sluice_check_last(q->next_check.counter), 29);
	EXPECT(q->stalled, true);
	EXPECT_LOG("");
	EXPECT(checked(0, 0, 99), 98);
	EXPECT(q->drops.counter, 1);
	EXPECT(q->stopped, true);	/* it has read, and the time is over */
	EXPECT(q->stalled, false);
}

static void openings(void)
{
	fresh();
	device->target_us = 2000;
	q->open = false;
	q->reader_ns = 999;
	q->depth_ns = 9 * MS;
	sluice_queue_opened(q);
	EXPECT(q->open, true);
	EXPECT(q->file == NULL, true);
	EXPECT(q->depth_ns, 2 * MS);
	EXPECT(q->depth, 2000);
	EXPECT_LOG("");

	/* something about its reader changed: a stop goes on, unless it is gone */
	fresh_stopped();
	sluice_queue_opened(q);
	EXPECT(q->stopped, true);
	EXPECT_LOG("");
	queue_slot[0] = NULL;
	sluice_queue_opened(q);
	EXPECT(q->stopped, false);
	EXPECT(q->stalled, false);
	EXPECT_LOG("queue_wake 0 0;wake;");
	sluice_queue_opened(q);
	EXPECT_LOG("");

	fresh_stopped();
	q->stalled = true;
	q->unpaid_ns = 5;
	sluice_queue_closed(q);
	EXPECT_LOG("queue_wake 0 0;wake;cancel;");
	EXPECT(q->open, false);
	EXPECT(q->stalled, false);
	EXPECT(q->unpaid_ns, 0);
	EXPECT(q->wakes[SLUICE_WAKE_OTHER], 1);
	sluice_queue_closed(q);
	EXPECT_LOG("cancel;");
}

static void rescues(void)
{
	bool stopped = false;

	fresh_stopped();
	EXPECT(sluice_queue_rescue(q, &stopped), false);
	now = q->timer.expires + NSEC_PER_SEC;
	EXPECT(sluice_queue_rescue(q, &stopped), false);
	EXPECT(stopped, true);
	EXPECT(q->rescued, 0);
	EXPECT_LOG("");
	now++;
	stopped = false;
	EXPECT(sluice_queue_rescue(q, &stopped), true);
	EXPECT(stopped, true);
	EXPECT(q->rescued, 1);
	EXPECT(q->wakes[SLUICE_WAKE_TIMER], 1);
	EXPECT_LOG("queue_wake 0 1002000001;wake;");
	stopped = false;
	EXPECT(sluice_queue_rescue(q, &stopped), false);
	EXPECT(stopped, false);
	EXPECT_LOG("");

	/* as at any review: 62.5 ms of the lateness are charged, which is enough here */
	fresh_stopped();
	set_ring(100, 0, 0, 60);
	q->unpaid_ns = 3 * 62500 * US;
	now = q->timer.expires + NSEC_PER_SEC + 1;
	EXPECT(sluice_queue_rescue(q, &stopped), true);
	EXPECT_LOG("event;queue_stall 60 1002000001;queue_wake 60 1002000001;wake;");
	/* a stop that may last longer goes on */
	fresh_stopped();
	set_ring(100, 0, 0, 60);
	device->stall_ms = 2000;
	now = q->timer.expires + NSEC_PER_SEC + 1;
	EXPECT(sluice_queue_rescue(q, &stopped), true);
	EXPECT(q->stopped, true);
	EXPECT_LOG("arm 2000000;");
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
	q->reader_ns = 11;
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
	q->stalled = true;
	q->head = 2;
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);	/* 28 of 46 */
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
	EXPECT(q->reader_ns, MS);
	EXPECT(q->read, 64);
	EXPECT(q->read_ns, MS);
	EXPECT(q->headroom, INT_MAX);
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
	EXPECT(atomic_read(&stopped_queues), 0);
	slots_and_counts();
	full_rings();
	rings_that_change();
	limits();
	barriers();
	timers();
	reviews_are_paid();
	charges();
	stops();
	stalls();
	depths();
	paces();
	reviews_of_a_change();
	reviews();
	reviews_in_an_interrupt();
	reviews_at_boot();
	reviews_of_an_empty_ring();
	reviews_of_a_slow_reader();
	expiries();
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
	starts();
	starts_that_fail();
	printf("fine: %u examples\n", examples);
	return 0;
}
