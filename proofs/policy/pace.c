// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does the real queue.c hold a ring to its target, whatever reads it?
 *
 * One queue, a sender that always has a packet, one reader, a clock that jumps
 * from event to event. After a time to learn, it fails where
 *
 *   - the median packet waits in the ring for more than twice the target, or for
 *     more than what the fewest packets a ring is held to (and a batch) take;
 *   - the reader is without work for more than some per cent of the time;
 *   - a packet is lost.
 *
 * And with no target, where the ring is as long as it is and only the last two
 * are asked.
 *
 * Last, beside somebody who fills whatever room there is and asks nobody: it fails
 * where the sender waits for longer than it takes to read a ring of packets (or the
 * stall time), or still loses packets when it has long been alone again.
 */
#include <stdarg.h>
#include <stdio.h>

#include <linux/ptr_ring.h>
#include "sluice.h"

#define SIZE		1000
#define TARGET_US	2000
#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)
#define FEWEST		4	/* DEPTH_MIN of queue.c */
#define WAITS_MAX	(1 << 22)
#define READER_WAKES_NS	20000	/* a process that slept in read() */
#define REVIEW_NS	20000000	/* PATIENCE_MAX_NS of queue.c */

struct reader {
	const char *what;
	u64 pace_ns;		/* for a packet */
	u64 other_ns;		/* for every other packet, if it differs */
	u64 later_ns;		/* its pace in the second half of the time */
	int batch;		/* takes so many at once */
	u64 pause_ns;		/* sleeps so long */
	u64 every_ns;		/* so often; not once a second */
	int socket;		/* sleeps with so many unsent, until half of them are */
	u64 link_ns;		/* a packet's, of the link that sends them */
	u64 late_ns;		/* timers come up to so late */
	unsigned int late_one_in;	/* only so many of them do */
	double idle_percent;	/* the most it may be without work */
	double seconds;
};

static const struct reader readers[] = {
	{ "100 packets/s", 10000000, .idle_percent = 3, .seconds = 60 },
	{ "1000 packets/s", 1000000, .idle_percent = 3, .seconds = 20 },
	{ "5000 packets/s", 200000, .idle_percent = 3, .seconds = 10 },
	{ "50 000 packets/s", 20000, .idle_percent = 3, .seconds = 4 },
	{ "200 000 packets/s", 5000, .idle_percent = 3, .seconds = 4 },
	{ "1 000 000 packets/s", 1000, .idle_percent = 3, .seconds = 2 },
	{ "50 000, timers 200 us late", 20000, .late_ns = 200000,
	  .idle_percent = 3, .seconds = 4 },
	{ "50 000, timers 2 ms late", 20000, .late_ns = 2000000,
	  .idle_percent = 10, .seconds = 10 },
	{ "50 000, one timer in 8 up to 8 ms late", 20000, .late_ns = 8000000,
	  .late_one_in = 8, .idle_percent = 4, .seconds = 20 },
	{ "500 000, batches of 64", 2000, .batch = 64, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
	{ "64 KB beside ACKs", 500000, .other_ns = 5000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 10 },
	{ "20 000, sleeps 50 ms in each second", 50000, .pause_ns = 50000000,
	  .late_ns = 50000, .idle_percent = 3, .seconds = 20 },
	{ "500 000, sleeps 20 ms in each 30 ms", 2000, .pause_ns = 20000000,
	  .every_ns = 30000000, .late_ns = 50000, .idle_percent = 5,
	  .seconds = 20 },
	{ "10 000, socket of 92, link of 10 Mbit/s", 100000, .socket = 92,
	  .link_ns = 1160000, .late_ns = 200000, .idle_percent = 3, .seconds = 20 },
	{ "100 000, then 1000", 10000, .later_ns = 1000000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
	{ "1000, then 100 000", 1000000, .later_ns = 10000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
};

bool sluice_default_on = true;
uint sluice_default_stall_ms = 60000;
uint sluice_default_low_percent = 50;
uint sluice_default_target_us;

static u64 now, random_state = 88172645463325252ULL;
static struct hrtimer *armed;
static u64 expires;
static const struct reader *reader;
static u32 target_us;
static struct Qdisc fq = { .enqueue = &fq };
static struct netdev_queue txq = { .qdisc = &fq };
static struct net_device dev = { .num_tx_queues = 1, .tx = &txq };
static struct ptr_ring ring;
static void *slot = &ring;
static u64 entered[SIZE], produced, consumed, lost;
static u64 waits[WAITS_MAX];
static size_t wait_count;
static u64 link_free;		/* when the link has sent all */

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

unsigned int chance(unsigned int below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % below;
}

/* One thread: nobody waits for anybody. */
void step(void) { }
void unseen_fence(void) { }
void spin_lock_init(spinlock_t *lock) { }
void spin_lock(spinlock_t *lock) { }
bool spin_trylock(spinlock_t *lock) { return true; }
void spin_unlock(spinlock_t *lock) { }
bool irq_off(void) { return false; }
void irq_restore(bool were_off) { }
void lockdep_assert_held(const spinlock_t *lock) { }
void rcu_read_lock_bh(void) { }
void rcu_read_unlock_bh(void) { }
void synchronize_rcu(void) { }
void poison_free(void *memory) { free(memory); }
void *zeroed(size_t size) { return calloc(1, size); }
int num_online_cpus(void) { return 4; }
u64 ktime_get_ns(void) { return now; }
void sluice_events_due(struct sluice_device *device) { (void)device; }
void show(const char *event, const struct sluice_queue *q, int fill, u64 ns) { }

void unseen_read(const volatile void *from, void *to, size_t size)
{
	memcpy(to, (const void *)from, size);
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	timer->expires = now + ns;
	armed = timer;
	expires = timer->expires;
	if (reader->late_ns && (!reader->late_one_in || !chance(reader->late_one_in)))
		expires += chance(reader->late_ns);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	armed = NULL;
	return 0;
}

void netif_tx_wake_queue(struct netdev_queue *queue)
{
	queue->state &= ~XOFF;
}

void **sluice_layout_slot(const struct net_device *device, unsigned int id)
{
	return &slot;
}

const char *sluice_layout_check(void **at)
{
	return NULL;
}

struct ptr_ring *sluice_layout_ring(void *file)
{
	return file;
}

/* The sender: as many packets as the queue takes. */
static void fill_ring(struct sluice_queue *q)
{
	while (!(txq.state & XOFF)) {
		sluice_queue_look(q);
		entered[produced % SIZE] = now;
		if (ptr_ring_produce(&ring, &ring)) {
			lost++;
			return;
		}
		produced++;
	}
}

static u64 pace(u64 end)
{
	if (reader->later_ns && now > end / 2)
		return reader->later_ns;
	return reader->other_ns && consumed % 2 ? reader->other_ns : reader->pace_ns;
}

/* When there is room in the reader's socket. */
static u64 socket_opens(void)
{
	u64 half = reader->socket / 2 * reader->link_ns;

	if (!reader->socket || link_free < now + 2 * half)
		return now;
	return link_free - half;
}

/* The reader takes what it takes at once; how long it is then busy. */
static u64 take(u64 end, bool counts)
{
	int left = reader->batch ? reader->batch : 1;
	u64 busy = 0;

	while (left-- && __ptr_ring_consume(&ring)) {
		if (counts && wait_count < WAITS_MAX)
			waits[wait_count++] = now - entered[consumed % SIZE];
		busy += pace(end);
		link_free = max(link_free, now) + reader->link_ns;
		consumed++;
	}
	return busy;
}

static int compare(const void *one, const void *other)
{
	u64 a = *(const u64 *)one, b = *(const u64 *)other;

	return a < b ? -1 : a > b;
}

/* Learns in the first tenth, and in the first tenth after a change of pace. */
static bool counts_at(u64 end)
{
	u64 part = 10 * now / end;

	return part && !(reader->later_ns && part < 6);
}

static bool judge(u64 idle, u64 counted, u64 stops, u64 reviews)
{
	u64 slowest = max(reader->pace_ns, reader->other_ns);
	u64 most = 2000UL * target_us, fewest, median, late;
	double share = 100.0 * idle / counted;
	bool fine;

	if (reader->later_ns)
		slowest = reader->later_ns;
	fewest = slowest * (FEWEST + reader->batch + 1);
	most = target_us ? max(most + reader->late_ns, fewest) : ~0UL;
	qsort(waits, wait_count, sizeof(*waits), compare);
	median = waits[wait_count / 2];
	late = waits[wait_count * 99 / 100];
	fine = median <= most && share <= reader->idle_percent && !lost;
	printf("%-39s %4u us: median %8.3f ms, p99 %8.3f ms, without work %5.2f %%, %6lu stops, %6lu reviews%s\n",
	       reader->what, target_us, median / 1e6, late / 1e6, share, stops, reviews,
	       fine ? "" : ": TOO MUCH");
	return fine;
}

/* An empty ring behind a queue that is served. */
static struct sluice_queue *begin(u32 stall_ms)
{
	struct sluice_device *device = zeroed(struct_size(device, queue, 1));

	ptr_ring_init(&ring, SIZE, 0);
	txq.state = 0;
	now = produced = consumed = lost = wait_count = link_free = 0;
	armed = NULL;
	device->dev = &dev;
	device->served = device->verified = true;
	device->stall_ms = stall_ms;
	device->low_percent = sluice_default_low_percent;
	device->target_us = target_us;
	sluice_queue_init(&device->queue[0], device, 0);
	sluice_queue_opened(&device->queue[0]);
	return &device->queue[0];
}

static void timer_fires(void)
{
	struct hrtimer *timer = armed;

	now = max(now, expires);
	armed = NULL;
	timer->function(timer);
}

static bool run(void)
{
	u64 end = reader->seconds * NSEC_PER_SEC, reads_at = 0, idle_from = 0;
	u64 every = reader->every_ns ? reader->every_ns : NSEC_PER_SEC;
	u64 idle = 0, counted = 0, reviews = 0, pauses_at = every;
	struct sluice_queue *q = begin(sluice_default_stall_ms);

	while (now < end) {
		bool asleep, counts = counts_at(end);
		u64 before = now;

		fill_ring(q);
		asleep = __ptr_ring_empty(&ring);
		if (!asleep && idle_from) {
			if (now >= idle_from) {
				reads_at = now + READER_WAKES_NS;
				idle += counts ? reads_at - idle_from : 0;
			}
			idle_from = 0;
		}
		if (asleep && !armed)
			fail("%s: a queue is stopped without a timer", reader->what);
		if (armed && (asleep || expires <= reads_at)) {
			timer_fires();
			reviews++;
		} else {
			now = max(now, reads_at);
			reads_at = socket_opens();
			if (reads_at == now)
				reads_at += take(end, counts);
			if (reader->pause_ns && now > pauses_at) {
				reads_at += reader->pause_ns;
				pauses_at += every;
			}
		}
		/* Empty when it is done with what it took: without work from then. */
		if (!idle_from && __ptr_ring_empty(&ring) && reads_at <= now)
			idle_from = now;
		else if (!idle_from && __ptr_ring_empty(&ring))
			idle_from = reads_at;
		counted += counts ? now - before : 0;
	}
	return judge(idle, counted, q->stops, reviews);
}

static bool run_crowded(u64 pace_ns, u32 stall_ms)
{
	static const struct reader prompt;
	struct sluice_queue *q;
	u64 stop_ns = max(stall_ms * NSEC_PER_MSEC, SIZE * pace_ns);
	u64 end = 40 * stop_ns, most = stop_ns + 2 * REVIEW_NS;
	u64 waits_from = 0, longest = 0, lost_before = 0;
	bool fine;

	reader = &prompt;
	target_us = 0;
	q = begin(stall_ms);
	for (u64 reads_at = 0; now < end; now = max(now, reads_at)) {
		while (armed && expires <= reads_at)
			timer_fires();
		if (!(txq.state & XOFF)) {
			longest = max(longest, now - waits_from);
			waits_from = now;
			fill_ring(q);
		}
		while (now < end / 2 && !ptr_ring_produce(&ring, &ring))
			;
		if (now < end * 3 / 4)
			lost_before = lost;
		__ptr_ring_consume(&ring);
		reads_at = now + pace_ns;
	}
	fine = longest <= most && lost == lost_before && lost;
	printf("%lu packets/s in a crowd, stall time %u ms: waited %.3f ms at most, lost %lu in it, %lu alone, %lu stalls%s\n",
	       NSEC_PER_SEC / pace_ns, stall_ms, longest / 1e6, lost_before,
	       lost - lost_before, q->stalls, fine ? "" : ": TOO MUCH");
	return fine;
}

int main(void)
{
	bool fine = true;

	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		reader = &readers[i];
		target_us = TARGET_US;
		fine &= run();
		target_us = 0;
		fine &= run();
	}
	fine &= run_crowded(10000, 250);
	fine &= run_crowded(10000000, 250);
	return !fine;
}
