// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does tun_txq.h keep its contract, whatever reads the ring?
 *
 * One queue, a sender that always has a packet, one reader, and a clock that
 * jumps from event to event. A line ends in TOO MUCH where
 *
 *   - a stop lasts longer than 250 ms, one review and the timers' lateness;
 *   - a reader that is fast enough loses a packet;
 *   - the median packet waits for more than twice the target, or for longer
 *     than the fewest packets in a ring take;
 *   - the reader is without work for more than some per cent of the time;
 *   - a slow reader holds its sender for more than its share of the time.
 *
 * A queue that is stopped without a timer ends the test. The first tenth of a
 * run, and a tenth after a change of pace, do not count for waits and work.
 */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"
#include "tun_txq.h"

#define SIZE		1000
#define BATCH		16
#define WAITS_MAX	(1 << 22)
#define READER_WAKES_NS	20000	/* a process that slept in read() */
#define SENDS_AGAIN_NS	200000	/* after the ring was full */

struct reader {
	const char *what;
	u64 pace_ns;		/* for a packet; 0: reads nothing */
	u64 other_ns;		/* for every other packet, if it differs */
	u64 later_ns;		/* its pace in the second half of the time */
	int batch;		/* takes so many at once */
	u64 pause_ns, every_ns;	/* sleeps so long, so often */
	int socket;		/* sleeps with so many unsent, until half are */
	u64 link_ns;		/* a packet's, of the link that sends them */
	u64 late_ns;		/* timers come up to so late */
	unsigned int late_one_in;
	double idle_percent;	/* the most it may be without work */
	double held_percent;	/* slow: the most its sender may be stopped */
	double seconds;
};

static const struct reader readers[] = {
	{ "reads nothing", 0, .held_percent = 13, .seconds = 20 },
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
	{ "500 000, batches of 64", 2000, .batch = 64, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
	{ "64 KB beside ACKs", 500000, .other_ns = 5000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 10 },
	{ "20 000, sleeps 50 ms in each second", 50000, .pause_ns = 50000000,
	  .every_ns = 1000000000, .late_ns = 50000, .idle_percent = 3,
	  .seconds = 20 },
	{ "500 000, sleeps 20 ms in each 30 ms", 2000, .pause_ns = 20000000,
	  .every_ns = 30000000, .late_ns = 50000, .idle_percent = 5,
	  .seconds = 20 },
	{ "10 000, socket of 92, link of 10 Mbit/s", 100000, .socket = 92,
	  .link_ns = 1160000, .late_ns = 200000, .idle_percent = 3,
	  .seconds = 20 },
	{ "100 000, then 1000", 10000, .later_ns = 1000000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
	{ "1000, then 100 000", 1000000, .later_ns = 10000, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 20 },
};

static u64 now;
static const struct reader *reader;
static struct netdev_queue queue;
static struct ptr_ring ring;
static struct tun_txq txq;
static void *slots[SIZE];
static u64 entered[SIZE], waits[WAITS_MAX];
static size_t wait_count;
static u64 produced, consumed, lost, idle;
static u64 fires, reads_at, sends_at, idle_from, pauses_at, link_free;
static u64 stopped_from, stopped_ns, longest_stop;

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
	fires = now + ns;
	if (reader->late_ns && (!reader->late_one_in || !chance(reader->late_one_in)))
		fires += chance(reader->late_ns);
}

void netif_tx_stop_queue(struct netdev_queue *of)
{
	if (!of->stopped)
		stopped_from = now;
	of->stopped = true;
}

void netif_tx_wake_queue(struct netdev_queue *of)
{
	if (!of->stopped)
		return;
	of->stopped = false;
	stopped_ns += now - stopped_from;
	longest_stop = max(longest_stop, now - stopped_from);
}

int __ptr_ring_produce(struct ptr_ring *r, void *entry)
{
	if (r->queue[r->producer])
		return -ENOSPC;
	r->queue[r->producer] = entry;
	r->producer = (r->producer + 1) % r->size;
	return 0;
}

static bool is_empty(void)
{
	return !ring.queue[ring.consumer_head];
}

/* Frees what was read in batches, as the kernel's consumer does. */
static void consume(void)
{
	int head = ring.consumer_head + 1;

	if (head - ring.consumer_tail >= BATCH || head == SIZE) {
		while (ring.consumer_tail < head)
			ring.queue[ring.consumer_tail++] = NULL;
		ring.consumer_tail %= SIZE;
	}
	ring.consumer_head = head % SIZE;
}

static bool counts_at(u64 end)
{
	u64 part = 10 * now / end;

	return part && !(reader->later_ns && part < 6);
}

static u64 pace(u64 end)
{
	if (reader->later_ns && now > end / 2)
		return reader->later_ns;
	return reader->other_ns && consumed % 2 ? reader->other_ns :
						  reader->pace_ns;
}

/* When there is room in the reader's socket. */
static u64 socket_opens(void)
{
	u64 half = reader->socket / 2 * reader->link_ns;

	if (!reader->socket || link_free < now + 2 * half)
		return now;
	return link_free - half;
}

static void read_packets(u64 end)
{
	int left = reader->batch ? reader->batch : 1;

	reads_at = socket_opens();
	if (reads_at > now)
		return;
	while (left-- && !is_empty()) {
		consume();
		if (counts_at(end) && wait_count < WAITS_MAX)
			waits[wait_count++] = now - entered[consumed % SIZE];
		reads_at += pace(end);
		link_free = max(link_free, now) + reader->link_ns;
		consumed++;
	}
	if (reader->pause_ns && now > pauses_at) {
		reads_at += reader->pause_ns;
		pauses_at += reader->every_ns;
	}
	if (is_empty())
		idle_from = reads_at;
}

/* As tun_net_xmit() does it, until the queue is stopped or a packet is lost. */
static void send_packets(void)
{
	int reserved;

	while (!queue.stopped) {
		reserved = tun_txq_reserve(&txq, &queue);
		if (reserved < 0)
			return;
		entered[produced % SIZE] = now;
		if (tun_txq_produce(&txq, &queue, (void *)&txq, reserved)) {
			if (reserved)
				tun_txq_cancel(&txq);
			lost++;
			sends_at = now + SENDS_AGAIN_NS;
			return;
		}
		produced++;
	}
}

static u64 next_event(void)
{
	u64 next = ~0ULL;

	if (queue.stopped && !fires) {
		printf("%s: stopped without a timer: TOO MUCH\n", reader->what);
		exit(1);
	}
	if (reader->pace_ns && !is_empty())
		next = max(reads_at, now);
	if (!queue.stopped)
		next = min(next, max(sends_at, now));
	return fires ? min(next, max(fires, now)) : next;
}

static void happen(u64 end)
{
	bool was_empty = is_empty();

	if (fires && fires <= now) {
		fires = 0;
		txq.timer.function(&txq.timer);
	}
	if (sends_at <= now)
		send_packets();
	if (was_empty && !is_empty() && idle_from) {
		if (now >= idle_from) {
			reads_at = now + READER_WAKES_NS;
			if (counts_at(end))
				idle += reads_at - idle_from;
		}
		idle_from = 0;
	}
	if (reader->pace_ns && !is_empty() && reads_at <= now)
		read_packets(end);
}

static void begin(void)
{
	memset(slots, 0, sizeof(slots));
	memset(&txq, 0, sizeof(txq));
	ring = (struct ptr_ring){ .size = SIZE, .batch = BATCH, .queue = slots };
	queue = (struct netdev_queue){ 0 };
	now = wait_count = produced = consumed = lost = idle = fires = 0;
	reads_at = sends_at = link_free = 0;
	stopped_from = stopped_ns = longest_stop = 0;
	idle_from = 1;
	pauses_at = reader->every_ns;
	tun_txq_init(&txq, &ring);
}

static int compare(const void *a, const void *b)
{
	u64 one = *(const u64 *)a, other = *(const u64 *)b;

	return one < other ? -1 : one > other;
}

static bool judge(u64 end)
{
	u64 fewest = (TUN_TXQ_DEPTH_MIN + 1) * max(reader->pace_ns, reader->later_ns);
	u64 median = 0, most = max(2 * (u64)TUN_TXQ_TARGET_NS, fewest);
	double idles = 100.0 * idle / (0.9 * end), held = 100.0 * stopped_ns / end;
	bool wrong;

	qsort(waits, wait_count, sizeof(*waits), compare);
	if (wait_count)
		median = waits[wait_count / 2];
	wrong = longest_stop > TUN_TXQ_STOP_MAX_NS + TUN_TXQ_REVIEW_MAX_NS +
			       reader->late_ns;
	if (reader->held_percent)
		wrong |= held > reader->held_percent;
	else
		wrong |= lost || idles > reader->idle_percent ||
			 median > most + reader->late_ns;
	printf("%-40s wait %8.2f ms, idle %4.1f %%, lost %6lu, longest stop %5.1f ms%s\n",
	       reader->what, median / 1e6, idles, (unsigned long)lost,
	       longest_stop / 1e6, wrong ? " TOO MUCH" : "");
	return wrong;
}

int main(void)
{
	bool wrong = false;
	size_t i;

	for (i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		u64 end;

		reader = &readers[i];
		end = reader->seconds * NSEC_PER_SEC;
		begin();
		while ((now = next_event()) < end)
			happen(end);
		wrong |= judge(end);
	}
	return wrong;
}
