// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does the real queue.c keep its contract, whatever reads the ring?
 *
 * Queues of one device with default parameters, a sender for each that always
 * has a packet, one reader for each, and a clock that jumps from event to event.
 * It fails where
 *
 *   - a stop lasts longer than stall_ms, one review and the timers' lateness;
 *   - a slow or dead reader holds its sender for more than its share of the time;
 *   - a reader that is fast enough loses a packet or is stalled;
 *   - the median packet waits in the ring for more than twice the target, or for
 *     more than what the fewest packets in a ring (and a batch) take;
 *   - the reader is without work for more than some per cent of the time;
 *   - a queue is reviewed more often than REVIEWS_PER_SEC and once for every
 *     REVIEW_PACKETS packets, in any second;
 *   - many queues together are reviewed more often than MANY_REVIEWS_PER_SEC;
 *   - with 128 or 256 CPUs a ring of 500 loses a packet of as many direct senders,
 *     or more than a quarter of its slots once one sender at a time is all it saw.
 *
 * The first tenth of a run, and a tenth after a change of pace, is for learning
 * and does not count for waits and work. The other bounds always hold.
 */
#include <stdarg.h>
#include <stdio.h>

#include <linux/ptr_ring.h>
#include "sluice.h"
#include "single.h"

#define SIZE		1000
#define LANES_MAX	500
#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)
#define FEWEST		4		/* DEPTH_MIN of queue.c */
#define WAITS_MAX	(1 << 22)
#define READER_WAKES_NS	20000		/* a process that slept in read() */
#define SENDS_AGAIN_NS	200000	/* after the ring was full */
#define REVIEW_NS	2000000		/* REVIEW_MAX_NS of queue.c */
#define REVIEWS		2000		/* REVIEWS_PER_SEC of queue.c */
#define REVIEWS_BURST	20
#define PER_REVIEW	64		/* REVIEW_PACKETS of queue.c */
#define MANY_REVIEWS_PER_SEC	20000	/* 5 % of a CPU at 2.5 us each */

struct reader {
	const char *what;
	u64 pace_ns;		/* for a packet; 0: reads nothing */
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
	u32 limit;		/* the operator's, packets */
	double held_percent;	/* slow: the most its sender may be stopped */
	double seconds;
};

#define SLOW(text, ns, held) \
	{ text, ns, .held_percent = held, .idle_percent = 100, .seconds = 60 }

static const struct reader readers[] = {
	SLOW("reads nothing", 0, 1),
	SLOW("1 packet/s", 1000000000, 12),
	SLOW("4 packets/s (one per 249 ms)", 249000000, 12),
	SLOW("5 packets/s", 200000000, 12),
	SLOW("10 packets/s", 100000000, 12),
	SLOW("50 packets/s", 20000000, 15),
	SLOW("100 packets/s", 10000000, 21),
	{ "16 at once, four times/s", 15625000, .batch = 16, .held_percent = 21,
	  .idle_percent = 100, .seconds = 60 },
	{ "16 at once, three times/s", 20833333, .batch = 16, .held_percent = 15,
	  .idle_percent = 100, .seconds = 60 },
	{ "250 packets/s", 4000000, .idle_percent = 3, .seconds = 60 },
	{ "1000 packets/s", 1000000, .idle_percent = 3, .seconds = 20 },
	{ "5000 packets/s", 200000, .idle_percent = 3, .seconds = 10 },
	{ "50 000 packets/s", 20000, .idle_percent = 3, .seconds = 4 },
	{ "200 000 packets/s", 5000, .idle_percent = 3, .seconds = 4 },
	{ "1 000 000 packets/s", 1000, .idle_percent = 3, .seconds = 2 },
	{ "2 500 000 packets/s, timers 50 us late", 400, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 2 },
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
	{ "3 000 000, sleeps 240 ms in each 250 ms", 300, .pause_ns = 240000000,
	  .every_ns = 250000000, .late_ns = 50000, .idle_percent = 8,
	  .seconds = 20 },
	{ "10 000, socket of 92, link of 10 Mbit/s", 100000, .socket = 92,
	  .link_ns = 1160000, .late_ns = 200000, .idle_percent = 3, .seconds = 20 },
	{ "200 000, limit of 4 packets", 5000, .limit = 4, .idle_percent = 100,
	  .seconds = 4 },
	{ "100 000, then 1000", 10000, .later_ns = 1000000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
	{ "1000, then 100 000", 1000000, .later_ns = 10000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
};

/* The parameters' defaults are those of kmod/main.c. */
bool sluice_default_on = true;
uint sluice_default_stall_ms = 250;
uint sluice_default_low_percent = 50;
uint sluice_default_target_us = 2000;

/* A queue with its ring, its sender and its reader. */
struct lane {
	struct ptr_ring ring;
	void *slot;
	u64 entered[SIZE];
	u64 produced, consumed, lost, reviews;
	u64 fires, reads_at, sends_at, idle_from, pauses_at, link_free;
	u64 stopped_from, stopped_ns, longest_stop;
	u64 idle, counted;
	u64 window_from, window_reviews, window_consumed;
	bool too_often;
};

static const struct reader *reader;
static u32 target_us;
static struct Qdisc fq = { .enqueue = &fq };
static struct netdev_queue txqs[LANES_MAX];
static struct net_device dev = { .tx = txqs };
static struct sluice_device *device;
static struct lane lanes[LANES_MAX];
static u64 waits[WAITS_MAX];
static size_t wait_count;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

void sluice_events_due(struct sluice_device *of) { (void)of; }
void sluice_backstop_watch(void) { }
void show(const char *event, const struct sluice_queue *q, int fill, u64 ns) { }

static struct lane *lane_of(const struct sluice_queue *q)
{
	return &lanes[q - device->queue];
}

void hrtimer_setup_in_world(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *))
{
	timer->function = function;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	struct lane *lane = lane_of(container_of(timer, struct sluice_queue, timer));

	timer->expires = now + ns;
	lane->fires = timer->expires;
	if (reader->late_ns && (!reader->late_one_in || !chance(reader->late_one_in)))
		lane->fires += chance(reader->late_ns);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	lane_of(container_of(timer, struct sluice_queue, timer))->fires = 0;
	return 0;
}

void netif_tx_wake_queue(struct netdev_queue *queue)
{
	struct lane *lane = &lanes[queue - txqs];

	queue->state &= ~XOFF;
	lane->stopped_ns += now - lane->stopped_from;
	lane->longest_stop = max(lane->longest_stop, now - lane->stopped_from);
	lane->sends_at = now;
}

void **sluice_layout_slot(const struct net_device *of, unsigned int id)
{
	return &lanes[id].slot;
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
static void send(struct sluice_queue *q)
{
	struct lane *lane = lane_of(q);

	while (!(q->txq->state & XOFF)) {
		sluice_queue_check(q);
		if (q->txq->state & XOFF)
			lane->stopped_from = now;
		lane->entered[lane->produced % SIZE] = now;
		if (ptr_ring_produce(&lane->ring, &lane->ring)) {
			lane->lost++;
			lane->sends_at = now + SENDS_AGAIN_NS;
			return;
		}
		lane->produced++;
	}
}

static u64 pace(const struct lane *lane, u64 end)
{
	if (reader->later_ns && now > end / 2)
		return reader->later_ns;
	return reader->other_ns && lane->consumed % 2 ? reader->other_ns :
							reader->pace_ns;
}

/* When there is room in the reader's socket. */
static u64 socket_opens(const struct lane *lane)
{
	u64 half = reader->socket / 2 * reader->link_ns;

	if (!reader->socket || lane->link_free < now + 2 * half)
		return now;
	return lane->link_free - half;
}

/* Learns in the first tenth, and in the first tenth after a change of pace. */
static bool counts_at(u64 end)
{
	u64 part = 10 * now / end;

	return part && !(reader->later_ns && part < 6);
}

/* The reader takes what it takes at once, and is then busy. */
static void take(struct lane *lane, u64 end)
{
	int left = reader->batch ? reader->batch : 1;
	u64 every = reader->every_ns ? reader->every_ns : NSEC_PER_SEC;

	lane->reads_at = socket_opens(lane);
	if (lane->reads_at > now)
		return;
	while (left-- && __ptr_ring_consume(&lane->ring)) {
		if (counts_at(end) && wait_count < WAITS_MAX)
			waits[wait_count++] =
				now - lane->entered[lane->consumed % SIZE];
		lane->reads_at += pace(lane, end);
		lane->link_free = max(lane->link_free, now) + reader->link_ns;
		lane->consumed++;
	}
	if (reader->pause_ns && now > lane->pauses_at) {
		lane->reads_at += reader->pause_ns;
		lane->pauses_at += every;
	}
}

static void review(struct sluice_queue *q)
{
	struct lane *lane = lane_of(q);

	lane->fires = 0;
	if (now - lane->window_from >= NSEC_PER_SEC) {
		lane->window_from = now;
		lane->window_reviews = 0;
		lane->window_consumed = lane->consumed;
	}
	lane->reviews++;
	if (++lane->window_reviews > REVIEWS + REVIEWS_BURST +
	    (lane->consumed - lane->window_consumed) / PER_REVIEW)
		lane->too_often = true;
	q->timer.function(&q->timer);
}

/* Empty rings behind @queues queues that are served. */
static void begin(unsigned int queues)
{
	for (unsigned int id = 0; device && id < device->queues; id++)
		sluice_queue_closed(&device->queue[id]);
	free(device);
	device = zeroed(struct_size(device, queue, queues));
	now = wait_count = 0;
	dev.num_tx_queues = queues;
	device->dev = &dev;
	device->queues = queues;
	device->served = device->verified = true;
	device->stall_ms = sluice_default_stall_ms;
	device->low_percent = sluice_default_low_percent;
	device->target_us = target_us;
	device->limit = reader->limit;
	for (unsigned int id = 0; id < queues; id++) {
		struct lane *lane = &lanes[id];

		ptr_ring_cleanup(&lane->ring, NULL);
		memset(lane, 0, sizeof(*lane));
		ptr_ring_init(&lane->ring, SIZE, 0);
		lane->slot = &lane->ring;
		lane->pauses_at = reader->every_ns ? reader->every_ns : NSEC_PER_SEC;
		txqs[id] = (struct netdev_queue){ .qdisc = &fq, .dev = &dev };
		sluice_queue_init(&device->queue[id], device, id);
		sluice_queue_opened(&device->queue[id]);
	}
}

static bool is_stopped(const struct sluice_queue *q)
{
	return q->txq->state & XOFF;
}

/* When the reader takes the next packet; never if there is none. */
static u64 next_read(const struct lane *lane)
{
	if (!reader->pace_ns || __ptr_ring_empty(&lane->ring))
		return ~0ULL;
	return max(lane->reads_at, now);
}

static u64 next_event(const struct sluice_queue *q)
{
	const struct lane *lane = lane_of(q);
	u64 next = next_read(lane);

	if (is_stopped(q) && !lane->fires)
		fail("%s: a queue is stopped without a timer", reader->what);
	if (!is_stopped(q))
		next = min(next, max(lane->sends_at, now));
	if (lane->fires)
		next = min(next, max(lane->fires, now));
	return next;
}

/* What happens at this moment: the timer before the reader. */
static void happen(struct sluice_queue *q, u64 end)
{
	struct lane *lane = lane_of(q);
	bool was_empty = __ptr_ring_empty(&lane->ring);

	if (lane->fires && lane->fires <= now)
		review(q);
	if (!is_stopped(q) && lane->sends_at <= now)
		send(q);
	if (was_empty && !__ptr_ring_empty(&lane->ring) && lane->idle_from) {
		if (now >= lane->idle_from) {
			lane->reads_at = now + READER_WAKES_NS;
			if (counts_at(end))
				lane->idle += lane->reads_at - lane->idle_from;
		}
		lane->idle_from = 0;
	}
	if (next_read(lane) <= now)
		take(lane, end);
	/* It has no work once it is done with what it took. */
	if (!lane->idle_from && __ptr_ring_empty(&lane->ring))
		lane->idle_from = max(lane->reads_at, now);
}

static void simulate(unsigned int queues, u64 end)
{
	begin(queues);
	for (;;) {
		u64 before = now, next = ~0ULL;

		for (unsigned int id = 0; id < queues; id++)
			next = min(next, next_event(&device->queue[id]));
		if (next >= end)
			return;
		now = next;
		if (counts_at(end))
			lanes[0].counted += now - before;
		for (unsigned int id = 0; id < queues; id++)
			if (next_event(&device->queue[id]) <= now)
				happen(&device->queue[id], end);
	}
}

static int compare(const void *one, const void *other)
{
	u64 a = *(const u64 *)one, b = *(const u64 *)other;

	return a < b ? -1 : a > b;
}

/* Nanoseconds from the sorted waits. */
static u64 wait_at(double share)
{
	return wait_count ? waits[(size_t)(share * (wait_count - 1))] : 0;
}

static u64 most_wait(void)
{
	u64 slowest = max(reader->pace_ns, reader->other_ns);

	if (reader->held_percent || !target_us)
		return ~0ULL;
	if (reader->later_ns)
		slowest = reader->later_ns;
	return max(2000UL * target_us + reader->late_ns,
		   slowest * (FEWEST + reader->batch + 1));
}

static bool run(void)
{
	u64 end = reader->seconds * NSEC_PER_SEC;
	u64 most_stop = sluice_default_stall_ms * NSEC_PER_MSEC + REVIEW_NS +
			reader->late_ns;
	struct lane *lane = &lanes[0];
	double idle, held;
	bool fine;

	simulate(1, end);
	qsort(waits, wait_count, sizeof(*waits), compare);
	idle = lane->counted ? 100.0 * lane->idle / lane->counted : 0;
	held = 100.0 * lane->stopped_ns / end;
	fine = lane->longest_stop <= most_stop && !lane->too_often;
	if (reader->held_percent)
		fine = fine && held <= reader->held_percent;
	else
		fine = fine && !lane->lost && !device->queue[0].stalls &&
		       wait_at(.5) <= most_wait() && idle <= reader->idle_percent;
	printf("%-41s %4u us: median %8.3f ms, p99 %8.3f ms, without work %5.2f %%, sender held %5.1f %%, longest stop %5.1f ms, %6lu stops, %5.0f reviews/s, %lu stalls%s\n",
	       reader->what, target_us, wait_at(.5) / 1e6, wait_at(.99) / 1e6, idle,
	       held, lane->longest_stop / 1e6, device->queue[0].stops,
	       lane->reviews / reader->seconds, device->queue[0].stalls,
	       fine ? "" : ": TOO MUCH");
	return fine;
}

/* Many queues: of one device, or of many devices of one user. */
static bool run_many(const struct reader *of, unsigned int queues)
{
	u64 reviews = 0;
	bool fine;

	reader = of;
	simulate(queues, reader->seconds * NSEC_PER_SEC);
	for (unsigned int id = 0; id < queues; id++)
		reviews += lanes[id].reviews;
	fine = reviews / reader->seconds <= MANY_REVIEWS_PER_SEC;
	printf("%u queues, %s: %.0f reviews/s together%s\n", queues, reader->what,
	       reviews / reader->seconds, fine ? "" : ": TOO MUCH");
	return fine;
}

/*
 * Somebody else fills whatever room there is, without a check, for the first
 * half of the time: the sender waits no longer than for a dead reader, and loses
 * nothing once it is alone again.
 */
static bool run_crowded(u64 pace_ns)
{
	static const struct reader prompt = { "crowd" };
	u64 stop_ns = sluice_default_stall_ms * NSEC_PER_MSEC;
	u64 end = 40 * max(stop_ns, SIZE * pace_ns);
	struct lane *lane = &lanes[0];
	struct sluice_queue *q;
	u64 lost_before = 0;
	bool fine;

	reader = &prompt;
	begin(1);
	q = &device->queue[0];
	for (u64 reads_at = 0; now < end; now = max(now, reads_at)) {
		while (lane->fires && lane->fires <= reads_at) {
			now = max(now, lane->fires);
			review(q);
		}
		send(q);
		while (now < end / 2 && !ptr_ring_produce(&lane->ring, &lane->ring))
			;
		if (now < end * 3 / 4)
			lost_before = lane->lost;
		__ptr_ring_consume(&lane->ring);
		reads_at = now + pace_ns;
	}
	fine = lane->longest_stop <= stop_ns + REVIEW_NS + pace_ns &&
	       lane->lost == lost_before && lane->lost;
	printf("%lu packets/s in a crowd: longest stop %.3f ms, lost %lu in it, %lu alone, %lu stalls%s\n",
	       NSEC_PER_SEC / pace_ns, lane->longest_stop / 1e6, lost_before,
	       lane->lost - lost_before, q->stalls, fine ? "" : ": TOO MUCH");
	return fine;
}

/*
 * Each CPU is at one of three points: before the stopped test, before the check,
 * before the ring. Whose turn it is is chance. The reader is slower than all.
 */
static bool run_direct(int senders, int rounds)
{
	static const struct reader steady = { "direct senders", 1000 };
	static int at[LANES_MAX];
	struct lane *lane = &lanes[0];
	struct sluice_queue_view view;
	struct sluice_queue *q;
	bool fine;

	reader = &steady;
	target_us = 0;	/* the limit alone */
	begin(1);
	ptr_ring_resize(&lane->ring, 500, 0, NULL);
	memset(at, 0, sizeof(at));
	q = &device->queue[0];
	while (rounds--) {
		int cpu = chance(senders);

		now += chance(20);
		if (lane->fires && lane->fires <= now)
			review(q);
		if (!chance(40))
			__ptr_ring_consume(&lane->ring);
		if (!at[cpu] && is_stopped(q)) {
			now += 100;
			continue;
		}
		if (at[cpu] == 1)
			sluice_queue_check(q);
		else if (at[cpu] == 2 && ptr_ring_produce(&lane->ring, q))
			lane->lost++;
		at[cpu] = (at[cpu] + 1) % 3;
	}
	sluice_queue_read(q, &view);
	fine = !lane->lost && (senders > 1 || view.limit >= 375);
	printf("%d CPUs, %d direct senders, ring of 500: stops at %u, %lu stops, %lu lost%s\n",
	       cpus, senders, view.limit, q->stops, lane->lost,
	       fine ? "" : ": TOO MUCH");
	return fine;
}

static bool run_large_machines(void)
{
	static const int machines[] = { 128, 256 };
	bool fine = true;

	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
		cpus = machines[i];
		fine = fine && run_direct(cpus, 2000000) && run_direct(1, 2000000);
	}
	cpus = 4;
	return fine;
}

int main(void)
{
	static const struct reader paused = {
		"reads for 1 ms, rests 249 ms", 20000, .pause_ns = 249000000,
		.every_ns = 250000000, .seconds = 4,
	};
	static const struct reader dead = { "read nothing", .seconds = 4 };

	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		reader = &readers[i];
		target_us = sluice_default_target_us;
		if (!run())
			return 1;
		target_us = 0;	/* the whole ring, which an operator may ask for */
		if (!run())
			return 1;
	}
	target_us = sluice_default_target_us;
	return !(run_many(&paused, 256) && run_many(&paused, 500) &&
		 run_many(&dead, 500) && run_crowded(10000) &&
		 run_crowded(4000000) && run_large_machines());
}
