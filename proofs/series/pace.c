// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does tun_txq.c do what the policy says, whatever reads the ring, and whoever holds the
 * producer lock? What the policy promises to each reader is asked in policy/.
 *
 * A line ends in TOO MUCH where
 *
 *   - a stop lasts longer than 250 ms and the timers' lateness, also where each trylock
 *     of the producer lock fails;
 *   - a queue is stopped without a timer;
 *   - a packet is lost although its reader is fast enough, or a slot was reserved;
 *   - a stop divides a list of few packets;
 *   - the reader is without work for more than some per cent of the time;
 *   - a slow reader holds its sender for more than its share of the time, also if it
 *     detaches and attaches its file, or opens another;
 *   - a queue is stopped although timers are coarse.
 */
#include "tun_txq.h"
#undef spin_trylock
#include "single.h"
#define LANES_MAX	1
#include "simulator.h"

#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)
#define BATCH		16
#define STALL_NS	(250 * NSEC_PER_MSEC)

bool producer_lock_is_taken;
unsigned int hrtimer_resolution = 1;
static const struct reader readers[] = {
	{ "reads nothing", 0, .held_percent = 2, .seconds = 20 },
	{ "5 packets/s", 200000000, .held_percent = 15, .seconds = 30 },
	{ "250 packets/s", 4000000, .idle_percent = 3, .seconds = 30 },
	{ "5000 packets/s", 200000, .idle_percent = 3, .seconds = 10 },
	{ "200 000 packets/s", 5000, .idle_percent = 3, .seconds = 4 },
	{ "50 000, timers 2 ms late", 20000, .late_ns = 2000000,
	  .idle_percent = 3, .seconds = 10 },
	{ "500 000, batches of 64", 2000, .batch = 64, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
	{ "200 000, lists of 44", 5000, .list = 44, .late_ns = 50000,
	  .idle_percent = 3, .seconds = 4 },
};

static struct net_device dev = { .running = true };
static struct netdev_queue queue = { .dev = &dev };
static struct ptr_ring ring;
static struct tun_txq txq;
static struct tun_tx_flow_device device;
static unsigned long refused;	/* packets that found no slot to reserve */

void hrtimer_setup_in_world(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *))
{
	timer->function = function;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	lane_arms(&lanes[0], ns);
}

void netif_tx_stop_queue(struct netdev_queue *of)
{
	if (!(of->state & XOFF))
		lanes[0].stopped_from = now;
	of->state |= XOFF;
}

void netif_tx_wake_queue(struct netdev_queue *of)
{
	if (of->state & XOFF)
		lane_is_woken(&lanes[0]);
	of->state = 0;
}

static bool lane_is_stopped(const struct lane *lane)
{
	return queue.state & XOFF;
}

static bool lane_is_empty(const struct lane *lane)
{
	return __ptr_ring_empty(&ring);
}

static void lane_takes(struct lane *lane)
{
	__ptr_ring_consume(&ring);
}

/* As tun_net_xmit() does it. */
static void lane_sends(struct lane *lane)
{
	int reserved, err;

	while (!lane_is_stopped(lane)) {
		more_follow = lane_has_more(lane);
		reserved = tun_txq_reserve(&txq, &queue);
		if (reserved < 0) {
			refused++;
			return;
		}
		err = tun_txq_produce(&txq, &queue, (void *)&txq, reserved);
		lane->divided += lane_is_stopped(lane) && more_follow;
		if (err && reserved)
			tun_txq_cancel(&txq, &queue);
		if (!lane_adds(lane, !err))
			return;
	}
}

static void lane_expires(struct lane *lane)
{
	txq.timer.function(&txq.timer);
}

/* A file that is new to the device. */
static void open_file(void)
{
	ptr_ring_cleanup(&ring, NULL);
	ptr_ring_init(&ring, SIZE, 0);
	ring.batch = BATCH;
	memset(&txq, 0, sizeof(txq));
	tun_txq_init(&txq, &ring);
	txq.device = &device;
}

static void begin(void)
{
	open_file();
	queue.state = 0;
	device = (struct tun_tx_flow_device){ 0 };
	refused = 0;
	now = wait_count = 0;
	begin_lane(&lanes[0]);
}

static bool told(const char *what, double percent, bool wrong)
{
	printf("%-48s %5.1f %%%s\n", what, percent, wrong ? " TOO MUCH" : "");
	return wrong;
}

static bool run(bool is_taken)
{
	u64 end = reader->seconds * NSEC_PER_SEC;
	const struct lane *lane = &lanes[0];
	double idle, held;
	bool wrong;

	begin();
	producer_lock_is_taken = is_taken;
	run_lanes(1, end);
	now = end;
	netif_tx_wake_queue(&queue);	/* a stop that has not ended counts, too */
	idle = idle_percent(lane);
	held = 100.0 * lane->stopped_ns / end;
	wrong = lane->longest_stop > STALL_NS + reader->late_ns;
	if (reader->held_percent)
		wrong |= held > reader->held_percent;
	else if (!is_taken)
		wrong |= lane->lost || lane->divided || idle > reader->idle_percent;
	printf("%-26s%s idle %4.1f %%, held %4.1f %%, lost %6lu, longest stop %5.1f ms%s\n",
	       reader->what, is_taken ? ", lock taken:" : ":            ", idle, held,
	       (unsigned long)lane->lost, lane->longest_stop / 1e6,
	       wrong ? " TOO MUCH" : "");
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

/*
 * A ring of so few slots: the sender fills it, and a packet is read every @pace_ns, in
 * @least per cent of the time or more. The only sender is never refused a slot.
 */
static bool run_small(int size, u64 pace_ns, double least)
{
	struct lane *lane = &lanes[0];
	u64 reads = 100000, taken = 0, i;
	bool wrong;

	begin();
	ring.size = size;
	ring.batch = 1;
	for (i = 0; i < reads; i++) {
		expire_until(pace_ns * i);
		lane_sends(lane);
		if (!lane_is_empty(lane)) {
			lane_takes(lane);
			taken++;
		}
	}
	wrong = told("are lost or refused at a small ring",
		     100.0 * (lane->lost + refused) / reads, lane->lost || refused);
	return told("of the time a packet is there", 100.0 * taken / reads,
		    taken < least / 100 * reads) | wrong;
}

/*
 * The reader reads nothing, and every 260 ms takes its file off and back: what was in
 * the ring is dropped. Or it opens another file.
 */
static bool run_attached(bool another_file)
{
	struct lane *lane = &lanes[0];
	u64 i;

	begin();
	for (i = 1; i <= 100; i++) {
		lane_sends(lane);
		expire_until(260 * NSEC_PER_MSEC * i);
		tun_txq_release(&txq);
		while (!lane_is_empty(lane))
			lane_takes(lane);
		if (another_file)
			open_file();
	}
	return told(another_file ? "of the time a reader that opens again holds" :
				   "of the time a reader that detaches holds",
		    100.0 * lane->stopped_ns / now, lane->stopped_ns > now / 10);
}

/* As tun_xdp_xmit() does it: under the lock of the producers. */
static bool add_frame(void)
{
	bool fits;

	spin_lock(&ring.producer_lock);
	fits = tun_txq_produce_frame(&txq, &txq);
	spin_unlock(&ring.producer_lock);
	return fits;
}

/* A slot that is reserved is neither for frames nor for another sender. */
static bool run_promised(void)
{
	bool lost = false;
	int frames;

	begin();
	for (frames = 0; frames < SIZE - 3; frames++)
		add_frame();
	if (tun_txq_reserve(&txq, &queue) > 0 && tun_txq_reserve(&txq, &queue) > 0) {
		while (add_frame())
			frames++;
		lost |= tun_txq_reserve(&txq, &queue) > 0;
		lost |= tun_txq_produce(&txq, &queue, (void *)&txq, true) != 0;
		lost |= tun_txq_produce(&txq, &queue, (void *)&txq, true) != 0;
	}
	return told("of the ring is left to frames", 100.0 * frames / SIZE,
		    lost || frames != SIZE - 2);
}

static bool run_coarse(void)
{
	struct lane *lane = &lanes[0];

	begin();
	hrtimer_resolution = 4 * NSEC_PER_MSEC;
	lane_sends(lane);
	hrtimer_resolution = 1;
	return told("stopped with coarse timers", 100.0 * !!queue.state, queue.state);
}

int main(void)
{
	bool wrong = false;
	size_t i;

	for (i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
		reader = &readers[i];
		wrong |= run(false);
		wrong |= run(true);
	}
	reader = &readers[0];
	producer_lock_is_taken = false;
	wrong |= run_small(16, 128000, 99);
	wrong |= run_small(1, 1000000, 99);
	wrong |= run_attached(false);
	wrong |= run_attached(true);
	wrong |= run_promised();
	wrong |= run_coarse();
	if (!wrong)
		printf("fine: %zu readers\n", sizeof(readers) / sizeof(*readers));
	return wrong;
}
