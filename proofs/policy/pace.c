// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Do the real queue.c and flow.c keep the contract, whatever reads the ring steadily, in
 * batches or with pauses? Who opens again, steers or has others beside him: adversary.c.
 *
 * Queues of one device with default parameters, a sender for each that always
 * has a packet, one reader for each, and a clock that jumps from event to event.
 * It fails where
 *
 *   - a stop lasts longer than stall_ms, one review and the timers' lateness;
 *   - a slow or dead reader holds its sender for more than its share of the time;
 *   - a reader that is fast enough loses a packet or is stalled;
 *   - the median packet waits in the ring for longer than the target and the timers'
 *     lateness, and for longer than what the fewest packets in a ring (and a batch)
 *     take;
 *   - a stop divides a list of few packets;
 *   - the reader is without work for more than some per cent of the time;
 *   - a queue is reviewed more often than REVIEWS_PER_SEC and once for every
 *     REVIEW_PACKETS packets, in any second;
 *   - a stop before a reader that does not rest takes more than 1.5 reviews, but for
 *     one each 2 ms;
 *   - many queues whose readers are dead have more than DEAD_REVIEWS_PER_SEC
 *     reviews together, or reviews that see no packet read outnumber the packets;
 *   - a sender waits longer than for a dead reader because others fill the ring, or
 *     loses a packet once it is alone again;
 *   - with 128 or 256 CPUs a ring of 500 loses a packet of as many direct senders,
 *     or stops at less than half of its slots.
 *
 * Bounds of waits and work hold after learning (simulator.h), the others always.
 */
#include <stdio.h>

#include "queues.h"
#define LANES_MAX	500
#include "simulator.h"

#define FEWEST		4		/* DEPTH_MIN of flow.c */
#define LIST		64u		/* LIST_PACKETS of flow.c */
#define REVIEW_NS	2000000		/* REVIEW_PACE_NS of flow.c */
#define REVIEWS		2000		/* once in REVIEW_NS of flow.c */
#define REVIEWS_BURST	20
#define PER_REVIEW	64		/* REVIEW_PACKETS of flow.c */
#define DEAD_REVIEWS_PER_SEC	12000	/* 3 % of a CPU at 2.5 us each */

#define LATE(text, ns, late, held) \
	{ text, ns, .late_least_ns = late, .held_percent = held, \
	  .idle_percent = 100, .seconds = 60 }
#define SLOW(text, ns, held)	LATE(text, ns, 0, held)

static const struct reader readers[] = {
	SLOW("reads nothing", 0, 1),
	LATE("reads nothing, timers 10 ms late", 0, 10000000, 1),
	LATE("4 packets/s, timers 10 ms late", 250000000, 10000000, 12),
	LATE("50 packets/s, timers 10 ms late", 20000000, 10000000, 15),
	LATE("100 packets/s, timers 10 ms late", 10000000, 10000000, 21),
	LATE("reads nothing, timers 300 ms late", 0, 300000000, 3),
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
	{ "50 000, timers 10 ms late", 20000, .late_least_ns = 10000000,
	  .idle_percent = 3, .seconds = 10 },
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
	{ "200 000, lists of 44", 5000, .list = 44, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
	{ "5000, lists of 44", 200000, .list = 44, .idle_percent = 3,
	  .seconds = 20 },
	{ "250, lists of 88", 4000000, .list = 88, .idle_percent = 3,
	  .seconds = 60 },
	{ "1000, lists of 400", 1000000, .list = 400, .idle_percent = 3,
	  .seconds = 60 },
	{ "100 000, then 1000", 10000, .later_ns = 1000000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
	{ "1000, then 100 000", 1000000, .later_ns = 10000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
};

/* The rest of a lane: what the module sees, and how often it reviews. */
struct module_lane {
	struct ptr_ring ring;
	void *slot;
	u64 reviews, idle_reviews, reviewed, window_from, window_reviews,
	    window_consumed;
	bool too_often;
};

static u32 target_us;
static struct netdev_queue txqs[LANES_MAX];
static struct net_device dev = { .tx = txqs };
static struct sluice_device *device;
static struct module_lane modules[LANES_MAX];

static struct lane *lane_of(const struct sluice_queue *q)
{
	return &lanes[q - device->queue];
}

static struct module_lane *module_of(const struct lane *lane)
{
	return &modules[lane - lanes];
}

static struct sluice_queue *queue_of(const struct lane *lane)
{
	return &device->queue[lane - lanes];
}

static void timer_is_set(struct sluice_queue *q, u64 ns)
{
	lane_arms(lane_of(q), ns);
}

static void timer_is_cancelled(struct sluice_queue *q)
{
	lane_of(q)->fires = 0;
}

void netif_tx_wake_queue(struct netdev_queue *queue)
{
	queue->state &= ~XOFF;
	lane_is_woken(&lanes[queue - txqs]);
}

void **sluice_layout_slot(const struct net_device *of, unsigned int id)
{
	return &modules[id].slot;
}

static bool lane_is_stopped(const struct lane *lane)
{
	return queue_of(lane)->txq->state & XOFF;
}

static bool lane_is_empty(const struct lane *lane)
{
	return __ptr_ring_empty(&module_of(lane)->ring);
}

static void lane_sends(struct lane *lane)
{
	struct ptr_ring *ring = &module_of(lane)->ring;

	while (!lane_is_stopped(lane)) {
		more_follow = lane_has_more(lane);
		sluice_queue_check(queue_of(lane));
		if (lane_is_stopped(lane)) {
			lane->stopped_from = now;
			lane->divided += more_follow;
		}
		if (!lane_adds(lane, !ptr_ring_produce(ring, ring)))
			return;
	}
}

static void lane_takes(struct lane *lane)
{
	__ptr_ring_consume(&module_of(lane)->ring);
}

static void lane_expires(struct lane *lane)
{
	struct module_lane *own = module_of(lane);
	struct sluice_queue *q = queue_of(lane);

	lane->fires = 0;
	if (now - own->window_from >= NSEC_PER_SEC) {
		own->window_from = now;
		own->window_reviews = 0;
		own->window_consumed = lane->consumed;
	}
	own->reviews++;
	own->idle_reviews += lane->consumed == own->reviewed;
	own->reviewed = lane->consumed;
	if (++own->window_reviews > REVIEWS + REVIEWS_BURST +
	    (lane->consumed - own->window_consumed) / PER_REVIEW)
		own->too_often = true;
	q->timer.function(&q->timer);
}

/* Empty rings behind @queues queues that are served. */
static void begin(unsigned int queues)
{
	for (unsigned int id = 0; device && id < device->queues; id++)
		sluice_queue_closed(&device->queue[id]);
	free(device);
	now = wait_count = 0;
	for (unsigned int id = 0; id < queues; id++) {
		struct module_lane *own = &modules[id];

		begin_lane(&lanes[id]);
		ptr_ring_cleanup(&own->ring, NULL);
		memset(own, 0, sizeof(*own));
		ptr_ring_init(&own->ring, SIZE, 0);
		own->slot = &own->ring;
		txqs[id] = (struct netdev_queue){ .qdisc = &fq, .dev = &dev };
	}
	device = serve(&dev, queues, sluice_default_stall_ms, target_us, reader->limit);
}

static u64 most_wait(void)
{
	u64 slowest = max(reader->pace_ns, reader->other_ns);

	if (reader->held_percent || !target_us)
		return ~0ULL;
	if (reader->later_ns)
		slowest = reader->later_ns;
	return max(1000 * target_us + reader->late_ns + reader->late_least_ns +
			   reader->link_ns + min(reader->list, LIST) * slowest,
		   slowest * (FEWEST + reader->batch + 1));
}

/* A timer for each stop, not two: few reviews come too early. */
static bool has_few_reviews(void)
{
	u64 reviews = 1.5 * device->queue[0].stops +
		      reader->seconds * (NSEC_PER_SEC / REVIEW_NS);

	return reader->held_percent || reader->pause_ns || reader->link_ns ||
	       modules[0].reviews <= reviews;
}

static bool run(void)
{
	u64 end = reader->seconds * NSEC_PER_SEC;
	u64 most_stop = sluice_default_stall_ms * NSEC_PER_MSEC + REVIEW_NS +
			reader->late_ns + reader->late_least_ns;
	struct lane *lane = &lanes[0];
	double idle, held;
	bool fine;

	begin(1);
	run_lanes(1, end);
	sort_waits();
	idle = idle_percent(lane);
	held = 100.0 * lane->stopped_ns / end;
	fine = lane->longest_stop <= most_stop && !modules[0].too_often &&
	       has_few_reviews();
	if (reader->held_percent)
		fine = fine && held <= reader->held_percent;
	else
		fine = fine && !lane->lost && !device->queue[0].stalls &&
		       !(target_us && lane->divided && reader->list <= LIST) &&
		       wait_at(.5) <= most_wait() && idle <= reader->idle_percent;
	printf("%-41s %4u us: median %8.3f ms, p99 %8.3f ms, without work %5.2f %%, sender held %5.1f %%, longest stop %5.1f ms, %6lu stops, %5.0f reviews/s, %lu stalls%s\n",
	       reader->what, target_us, wait_at(.5) / 1e6, wait_at(.99) / 1e6, idle,
	       held, lane->longest_stop / 1e6, device->queue[0].stops,
	       modules[0].reviews / reader->seconds, device->queue[0].stalls,
	       fine ? "" : ": TOO MUCH");
	return fine;
}

/* Many queues: of one device, or of many devices of one user. */
static bool run_many(const struct reader *of, unsigned int queues)
{
	u64 reviews = 0, idle = 0, read = 0;
	bool fine;

	reader = of;
	begin(queues);
	run_lanes(queues, reader->seconds * NSEC_PER_SEC);
	for (unsigned int id = 0; id < queues; id++) {
		reviews += modules[id].reviews;
		idle += modules[id].idle_reviews;
		read += lanes[id].consumed;
	}
	fine = idle <= DEAD_REVIEWS_PER_SEC * reader->seconds + read;
	printf("%u queues, %s: %.0f reviews/s together, %.0f see no packet read%s\n",
	       queues, reader->what, reviews / reader->seconds,
	       idle / reader->seconds, fine ? "" : ": TOO MUCH");
	return fine;
}

/*
 * Somebody else fills the ring up to @level, without a check, for the first
 * half of the time: the sender waits no longer than for a dead reader, and loses
 * nothing once it is alone again.
 */
static bool run_crowded(u64 pace_ns, int level)
{
	static const struct reader prompt = { "crowd" };
	u64 stop_ns = sluice_default_stall_ms * NSEC_PER_MSEC;
	u64 end = 40 * max(stop_ns, SIZE * pace_ns);
	struct lane *lane = &lanes[0];
	struct ptr_ring *ring = &modules[0].ring;
	struct sluice_queue *q;
	u64 lost_before = 0, held = 0;
	bool fine;

	reader = &prompt;
	begin(1);
	q = &device->queue[0];
	for (u64 reads_at = 0; now < end; now = max(now, reads_at)) {
		while (lane->fires && lane->fires <= reads_at) {
			now = max(now, lane->fires);
			lane_expires(lane);
		}
		lane_sends(lane);
		while (now < end / 2 &&
		       sluice_count_ring(ring, SIZE, true).fill < level &&
		       !ptr_ring_produce(ring, ring))
			;
		if (now < end * 3 / 4)
			lost_before = lane->lost;
		if (now < end / 2)
			held = lane->stopped_ns;
		__ptr_ring_consume(ring);
		reads_at = now + pace_ns;
	}
	fine = lane->longest_stop <= stop_ns + REVIEW_NS + pace_ns &&
	       lane->lost == lost_before && lane->lost && held < end / 10;
	printf("%lu packets/s in a crowd of %d: longest stop %.3f ms, held %.1f %%, lost %lu in it, %lu alone, %lu stalls%s\n",
	       NSEC_PER_SEC / pace_ns, level, lane->longest_stop / 1e6, 200.0 * held / end, lost_before,
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
	struct ptr_ring *ring = &modules[0].ring;
	struct sluice_queue_view view;
	struct sluice_queue *q;
	bool fine;

	reader = &steady;
	target_us = 0;	/* the limit alone */
	begin(1);
	ptr_ring_resize(ring, 500, 0, NULL);
	memset(at, 0, sizeof(at));
	q = &device->queue[0];
	while (rounds--) {
		int cpu = chance(senders);

		now += chance(20);
		if (lane->fires && lane->fires <= now)
			lane_expires(lane);
		if (!chance(40))
			__ptr_ring_consume(ring);
		if (!at[cpu] && lane_is_stopped(lane)) {
			now += 100;
			continue;
		}
		if (at[cpu] == 1)
			sluice_queue_check(q);
		else if (at[cpu] == 2 && ptr_ring_produce(ring, q))
			lane->lost++;
		at[cpu] = (at[cpu] + 1) % 3;
	}
	sluice_queue_read(q, &view);
	fine = !lane->lost && view.limit >= 250;
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

	/* What takes least comes first: with a fault the first complaint ends it. */
	target_us = sluice_default_target_us;
	if (!(run_crowded(10000, SIZE) && run_crowded(4000000, SIZE) &&
	      run_crowded(10000, SIZE / 2) &&
	      run_many(&paused, 256) && run_large_machines()))
		return 1;
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
	if (!(run_many(&paused, 500) && run_many(&dead, 500)))
		return 1;
	printf("fine: %zu readers\n", sizeof(readers) / sizeof(*readers));
	return 0;
}
