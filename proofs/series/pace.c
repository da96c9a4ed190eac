// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does tun_txq.h keep its contract, whatever reads the ring?
 *
 * A line ends in TOO MUCH where
 *
 *   - a stop lasts longer than 250 ms, one review and the timers' lateness;
 *   - a queue is stopped without a timer;
 *   - a reader that is fast enough loses a packet;
 *   - the median packet waits for more than half the target (senders refill the
 *     ring at once, so that a quarter of it is enough), or for longer
 *     than the fewest packets in a ring take; and a third of the time that
 *     timers come late, all of it if only a few of them do;
 *   - a stop divides a list of few packets;
 *   - the reader is without work for more than some per cent of the time;
 *   - a slow reader holds its sender for more than its share of the time, also if
 *     it detaches and attaches its file;
 *   - somebody who does not wait for room leaves the sender less than a tenth of
 *     what is read;
 *   - a packet is lost because the machine was paused;
 *   - a queue is stopped although timers are coarse.
 */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"
#include "tun_txq.h"

unsigned int hrtimer_resolution = 1;
static u64 now;
static unsigned int chance(unsigned int below);

#define LANES_MAX	1
#include "simulator.h"

#define BATCH		16

static const struct reader readers[] = {
	{ "reads nothing", 0, .held_percent = 2, .seconds = 20 },
	{ "1 packet/s", 1000000000, .held_percent = 13, .seconds = 30 },
	{ "5 packets/s", 200000000, .held_percent = 13, .seconds = 30 },
	{ "100 packets/s", 10000000, .held_percent = 21, .seconds = 30 },
	{ "250 packets/s", 4000000, .idle_percent = 3, .seconds = 30 },
	{ "1000 packets/s", 1000000, .idle_percent = 3, .seconds = 20 },
	{ "5000 packets/s", 200000, .idle_percent = 3, .seconds = 10 },
	{ "50 000 packets/s", 20000, .idle_percent = 3, .seconds = 4 },
	{ "200 000 packets/s", 5000, .idle_percent = 3, .seconds = 4 },
	{ "1 000 000 packets/s", 1000, .idle_percent = 3, .seconds = 2 },
	{ "50 000, timers 2 ms late", 20000, .late_ns = 2000000,
	  .idle_percent = 3, .seconds = 10 },
	{ "50 000, one timer in 8 up to 8 ms late", 20000, .late_ns = 8000000,
	  .late_one_in = 8, .idle_percent = 4, .seconds = 20 },
	{ "50 000, timers 10 ms late", 20000, .late_least_ns = 10000000,
	  .idle_percent = 3, .seconds = 10 },
	{ "500 000, batches of 64", 2000, .batch = 64, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
	{ "64 KB beside ACKs", 500000, .other_ns = 5000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 10 },
	{ "20 000, sleeps 50 ms in each second", 50000, .pause_ns = 50000000,
	  .every_ns = 1000000000, .late_ns = 50000, .idle_percent = 3,
	  .seconds = 20 },
	{ "500 000, sleeps 20 ms in each 30 ms", 2000, .pause_ns = 20000000,
	  .every_ns = 30000000, .late_ns = 50000, .idle_percent = 1,
	  .seconds = 20 },
	{ "10 000, socket of 92, link of 10 Mbit/s", 100000, .socket = 92,
	  .link_ns = 1160000, .late_ns = 200000, .idle_percent = 1,
	  .seconds = 20 },
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

static struct netdev_queue queue;
static struct ptr_ring ring;
static struct tun_txq txq;
static unsigned long refused;	/* packets that found no slot to reserve */
static void *slots[SIZE];

static unsigned int chance(unsigned int below)
{
	static u64 state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 16) % below;
}

u64 ktime_get_ns(void)
{
	return now;
}

void start_timer(ktime_t ns)
{
	lane_arms(&lanes[0], ns);
}

void netif_tx_stop_queue(struct netdev_queue *of)
{
	if (!of->stopped)
		lanes[0].stopped_from = now;
	of->stopped = true;
}

void netif_tx_wake_queue(struct netdev_queue *of)
{
	if (of->stopped)
		lane_is_woken(&lanes[0]);
	of->stopped = false;
}

int __ptr_ring_produce(struct ptr_ring *r, void *entry)
{
	if (r->queue[r->producer])
		return -ENOSPC;
	r->queue[r->producer] = entry;
	r->producer = (r->producer + 1) % r->size;
	return 0;
}

bool netdev_xmit_more(void)
{
	return lane_has_more(&lanes[0]);
}

static bool lane_is_stopped(const struct lane *lane)
{
	return queue.stopped;
}

static bool lane_is_empty(const struct lane *lane)
{
	return !ring.queue[ring.consumer_head];
}

/* Frees what was read in batches, as the kernel's consumer does. */
static void lane_takes(struct lane *lane)
{
	int head = ring.consumer_head + 1;

	if (head - ring.consumer_tail >= ring.batch || head == ring.size) {
		while (ring.consumer_tail < head)
			ring.queue[ring.consumer_tail++] = NULL;
		ring.consumer_tail %= ring.size;
	}
	ring.consumer_head = head % ring.size;
}

/* As tun_net_xmit() does it. */
static void lane_sends(struct lane *lane)
{
	int reserved, err;

	while (!queue.stopped) {
		reserved = tun_txq_reserve(&txq, &queue);
		if (reserved < 0) {
			refused++;
			return;
		}
		err = tun_txq_produce(&txq, &queue, (void *)&txq, reserved);
		lane->divided += queue.stopped && netdev_xmit_more();
		if (err && reserved)
			tun_txq_cancel(&txq);
		if (!lane_adds(lane, !err))
			return;
	}
}

static void lane_expires(struct lane *lane)
{
	txq.timer.function(&txq.timer);
}

static void begin(void)
{
	memset(slots, 0, sizeof(slots));
	memset(&txq, 0, sizeof(txq));
	ring = (struct ptr_ring){ .size = SIZE, .batch = BATCH, .queue = slots };
	queue = (struct netdev_queue){ 0 };
	refused = 0;
	now = wait_count = 0;
	begin_lane(&lanes[0]);
	tun_txq_init(&txq, &ring);
}

static bool run(u64 end)
{
	u64 slowest = max(reader->pace_ns, reader->later_ns);
	u64 fewest = (TUN_TXQ_DEPTH_MIN + 1) * slowest;
	u64 quick = clamp(TUN_TXQ_QUICK_PACKETS * slowest,
			  (u64)TUN_TXQ_TARGET_NS / 2, (u64)TUN_TXQ_TARGET_NS);
	u64 late = reader->late_one_in ? reader->late_ns :
					 reader->late_ns / 3 + reader->late_least_ns;
	u64 list = min(reader->list, (unsigned int)TUN_TXQ_LIST_PACKETS);
	u64 most = max(quick + list * slowest, fewest) + late;
	const struct lane *lane = &lanes[0];
	double idle, held;
	bool wrong;

	begin();
	run_lanes(1, end);
	sort_waits();
	idle = idle_percent(lane);
	held = 100.0 * lane->stopped_ns / end;
	wrong = lane->longest_stop > TUN_TXQ_STOP_MAX_NS + TUN_TXQ_REVIEW_MAX_NS +
				     reader->late_ns + reader->late_least_ns;
	if (reader->held_percent)
		wrong |= held > reader->held_percent;
	else
		wrong |= lane->lost || (lane->divided && list == reader->list) ||
			 idle > reader->idle_percent || wait_at(.5) > most;
	printf("%-40s wait %8.2f ms, idle %4.1f %%, lost %6lu, longest stop %5.1f ms%s\n",
	       reader->what, wait_at(.5) / 1e6, idle, (unsigned long)lane->lost,
	       lane->longest_stop / 1e6, wrong ? " TOO MUCH" : "");
	return wrong;
}

static bool told(const char *what, double percent, bool wrong)
{
	printf("%-40s %5.1f %%%s\n", what, percent, wrong ? " TOO MUCH" : "");
	return wrong;
}

/* What is due happens, and the time is @end. */
static void expire_until(u64 end)
{
	struct lane *lane = &lanes[0];

	while (lane->fires && lane->fires <= end) {
		now = max(now, lane->fires);
		lane->fires = 0;
		lane_expires(lane);
	}
	now = end;
}

/* The sender sends what it may, and the reader reads a packet, if one is there. */
static bool send_and_read(struct lane *lane)
{
	bool is_there;

	lane_sends(lane);
	is_there = !lane_is_empty(lane);
	if (is_there)
		lane_takes(lane);
	return is_there;
}

/*
 * A packet is read every 5 us. Of those that do not wait 21 come for every 20 reads,
 * while there are fewer than @level in the ring.
 */
static bool run_crowded(int level)
{
	u64 reads = 1000000, frames = 0, i;
	struct lane *lane = &lanes[0];

	begin();
	for (i = 0; i < reads; i++) {
		expire_until(5000 * i);
		for (; frames < i * 21 / 20; frames++)
			if (__ptr_ring_len(&ring) < level)
				tun_txq_produce_frame(&txq, &txq);
		send_and_read(lane);
	}
	return told("of the reads in a crowd are its sender's",
		    100.0 * lane->produced / reads, lane->produced < reads / 10);
}

/*
 * A ring of so few slots, and so long a batch: the sender fills it. A packet is read
 * every @pace_ns, in @least per cent of the time or more. The only sender is never
 * refused a slot, unless there is one slot.
 */
static bool run_small(int size, int batch, u64 pace_ns, double least)
{
	struct lane *lane = &lanes[0];
	u64 reads = 100000, taken = 0, i;
	bool wrong;

	begin();
	ring.size = size;
	ring.batch = batch;
	for (i = 0; i < reads; i++) {
		expire_until(pace_ns * i);
		taken += send_and_read(lane);
	}
	wrong = told("are lost at a small ring", 100.0 * lane->lost / reads,
		     lane->lost || (refused && size > 1));
	return told("of the time a packet is there",
		    100.0 * taken / reads, taken < least / 100 * reads) | wrong;
}

/* A packet is read every @pace_ns. About once per second all rests for 300 ms. */
static bool run_paused(u64 pace_ns)
{
	struct lane *lane = &lanes[0];
	u64 paused = 0, awake;

	begin();
	for (awake = pace_ns; awake < 30 * NSEC_PER_SEC; awake += pace_ns) {
		if (awake / (1037 * NSEC_PER_MSEC) > paused) {
			paused++;
			now += 300 * NSEC_PER_MSEC;
		}
		expire_until(awake + paused * 300 * NSEC_PER_MSEC);
		send_and_read(lane);
	}
	return told("are lost where the machine is paused",
		    100.0 * lane->lost / lane->produced, lane->lost);
}

/* A reader that reads nothing, and takes its file off and back every 260 ms. */
static bool run_attached(void)
{
	struct lane *lane = &lanes[0];
	u64 i;

	begin();
	for (i = 1; i <= 100; i++) {
		lane_sends(lane);
		expire_until(260 * NSEC_PER_MSEC * i);
		while (!lane_is_empty(lane))
			lane_takes(lane);	/* what was in the ring is dropped */
		tun_txq_release(&txq);
	}
	return told("of the time a reader that detaches holds", 100.0 * lane->stopped_ns / now,
		    lane->stopped_ns > now / 10);
}

static bool run_coarse(void)
{
	struct lane *lane = &lanes[0];

	hrtimer_resolution = 4 * NSEC_PER_MSEC;
	begin();
	lane_sends(lane);
	return told("stopped with coarse timers", 100.0 * queue.stopped, queue.stopped);
}

int main(void)
{
	static const struct reader lists = { "lists of 88", .list = 88 };
	bool wrong = false;
	size_t i;

	reader = &readers[0];
	wrong |= run_crowded(SIZE);
	wrong |= run_crowded(SIZE / 2);
	wrong |= run_small(16, 1, 128000, 99);
	wrong |= run_small(16, 1, 5000, 95);
	wrong |= run_small(1, 1, 1000000, 99);
	wrong |= run_small(1, 1, 4000000, 99);
	reader = &lists;
	wrong |= run_small(500, 16, 3333, 95);
	reader = &readers[0];
	wrong |= run_paused(2500000);
	wrong |= run_paused(1000000);
	wrong |= run_paused(100000);
	wrong |= run_attached();
	for (i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		reader = &readers[i];
		wrong |= run(reader->seconds * NSEC_PER_SEC);
	}
	wrong |= run_coarse();
	if (!wrong)
		printf("fine: %zu readers\n", sizeof(readers) / sizeof(*readers));
	return wrong;
}
