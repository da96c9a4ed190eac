// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the policy of one queue: a sender that always has a packet, a
 * reader, and a clock that goes in steps.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/time64.h>

#include "tun_tx_flow.h"

#define SLOTS		500
#define STEP_NS		(20 * NSEC_PER_USEC)
#define PLAY_NS		(10ULL * NSEC_PER_SEC)

static const struct tun_tx_flow_settings settings = {
	.stall_ms = 250,
	.low_percent = 50,
	.target_us = 2000,
};

/**
 * struct reader - what reads the queue, and what is promised for it
 * @what: its name
 * @pace_ns: reads a packet so often; 0: reads nothing
 * @tick_ns: comes so often, and reads @visit packets
 * @visit: see @tick_ns
 * @rest_ns: rests so long at the end of each second
 * @attach_ns: closes its file so often, and opens it again
 * @hand_back: reads so many packets in each step, and hands them back
 * @read_percent: what it reads at least, of what it could
 * @held_percent: how long its sender is stopped at most
 */
struct reader {
	const char *what;
	u64 pace_ns;
	u64 tick_ns;
	int visit;
	u64 rest_ns;
	u64 attach_ns;
	int hand_back;
	int read_percent;
	int held_percent;
};

static const struct reader readers[] = {
	{ "1000 packets/s", .pace_ns = NSEC_PER_MSEC,
	  .read_percent = 97, .held_percent = 100 },
	{ "50 000 packets/s", .pace_ns = 20 * NSEC_PER_USEC,
	  .read_percent = 97, .held_percent = 100 },
	{ "200 packets each 10 ms", .tick_ns = 10 * NSEC_PER_MSEC, .visit = 200,
	  .read_percent = 97, .held_percent = 100 },
	{ "400 packets each 50 ms", .tick_ns = 50 * NSEC_PER_MSEC, .visit = 400,
	  .read_percent = 97, .held_percent = 100 },
	{ "10 000 packets/s, rests 300 ms each second",
	  .pace_ns = 100 * NSEC_PER_USEC, .rest_ns = 300 * NSEC_PER_MSEC,
	  .read_percent = 97, .held_percent = 100 },
	{ "25 packets/s", .pace_ns = 40 * NSEC_PER_MSEC, .held_percent = 15 },
	{ "reads nothing", .held_percent = 3 },
	{ "reads nothing, attaches each 260 ms",
	  .attach_ns = 260 * NSEC_PER_MSEC, .held_percent = 15 },
	{ "hands back what it reads", .hand_back = 16, .held_percent = 15 },
};

struct play {
	struct tun_tx_flow flow;
	struct tun_tx_flow_ring ring;
	struct tun_tx_flow_device device;
	u64 now;
	bool stopped;
	u64 stopped_at;
	u64 review_at;
	u64 held_ns;
	u64 longest_ns;
	u64 could;	/* packets */
	u64 read;
};

static void attach(struct play *p)
{
	memset(&p->flow, 0, sizeof(p->flow));
	p->ring.used = 0;
	p->ring.fill = 0;
	p->flow.settings = &settings;
	p->flow.device = &p->device;
	tun_tx_flow_init(&p->flow);
	tun_tx_flow_configure(&p->flow);
	tun_tx_flow_rebase(&p->flow, &p->ring, false);
}

static void wake(struct play *p)
{
	if (!p->stopped)
		return;
	p->stopped = false;
	p->held_ns += p->now - p->stopped_at;
	p->longest_ns = max(p->longest_ns, p->now - p->stopped_at);
}

static void review(struct play *p)
{
	u64 ns = 0;

	if (tun_tx_flow_review(&p->flow, &p->ring, p->now, &ns) == TUN_TX_FLOW_WAIT)
		p->review_at = p->now + ns;
	else
		wake(p);
}

/* Packets until the queue stops, or until the ring is full and they are lost. */
static void send(struct play *p)
{
	bool passes;
	u64 ns;

	while (!p->stopped && p->ring.fill < SLOTS) {
		passes = p->flow.stalled &&
			 tun_tx_flow_passes(&p->flow, &p->ring, p->now);
		if (!passes && tun_tx_flow_room(&p->flow, &p->ring, false) <= 0) {
			ns = tun_tx_flow_stop(&p->flow, &p->ring, p->now);
			p->stopped = true;
			p->stopped_at = p->now;
			p->review_at = p->now + ns;
		}
		p->ring.producer = (p->ring.producer + 1) % SLOTS;
		p->ring.fill++;
		p->ring.used++;
	}
}

/* Whether something that comes each @every_ns comes in this step. */
static bool comes(const struct play *p, u64 every_ns)
{
	u64 left;

	if (!every_ns)
		return false;
	div64_u64_rem(p->now, every_ns, &left);
	return left < STEP_NS;
}

static void read(struct play *p, const struct reader *r)
{
	u64 left, could = 0;
	int packets;

	div64_u64_rem(p->now, NSEC_PER_SEC, &left);
	if (left >= NSEC_PER_SEC - r->rest_ns)
		return;
	if (comes(p, r->pace_ns))
		could = 1;
	if (comes(p, r->tick_ns))
		could = r->visit;
	packets = min_t(u64, could, p->ring.fill);
	p->could += could;
	p->read += packets;
	p->ring.fill -= packets;
	p->ring.used -= packets;
}

static void play_readers(struct kunit *test)
{
	const struct reader *r = test->param_value;
	struct play *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->ring.size = SLOTS;
	p->ring.safe_limit = SLOTS;
	attach(p);
	for (p->now = STEP_NS; p->now < PLAY_NS; p->now += STEP_NS) {
		if (comes(p, r->attach_ns)) {
			wake(p);
			attach(p);
		}
		read(p, r);
		p->ring.fill -= min(r->hand_back, p->ring.fill);
		if (p->stopped && p->now >= p->review_at)
			review(p);
		p->ring.fill = p->ring.used;	/* it hands them back */
		send(p);
	}
	wake(p);
	KUNIT_EXPECT_GE(test, 100 * p->read, r->read_percent * p->could);
	KUNIT_EXPECT_LE(test, 100 * p->held_ns, r->held_percent * PLAY_NS);
	/* stall_ms and a review */
	KUNIT_EXPECT_LE(test, p->longest_ns, 350 * NSEC_PER_MSEC);
}

/* A queue stops behind the packet that takes the last slot. */
static void stops_at_the_last_slot(struct kunit *test)
{
	const struct tun_tx_flow_settings whole = { .stall_ms = 250, .low_percent = 50 };
	struct tun_tx_flow_ring ring = { .size = 8, .safe_limit = 8 };
	struct tun_tx_flow flow = { .settings = &whole };

	tun_tx_flow_init(&flow);
	tun_tx_flow_configure(&flow);
	KUNIT_EXPECT_EQ(test, tun_tx_flow_room(&flow, &ring, false), 7);
	ring.fill = 7;
	ring.used = 7;
	KUNIT_EXPECT_EQ(test, tun_tx_flow_room(&flow, &ring, false), 0);
	/* also where the slots of packets that were read are not free yet */
	ring.fill = 0;
	KUNIT_EXPECT_EQ(test, tun_tx_flow_room(&flow, &ring, true), 0);
}

KUNIT_ARRAY_PARAM_DESC(readers, readers, what);

static struct kunit_case tun_tx_flow_cases[] = {
	KUNIT_CASE_PARAM(play_readers, readers_gen_params),
	KUNIT_CASE(stops_at_the_last_slot),
	{}
};

static struct kunit_suite tun_tx_flow_suite = {
	.name = "tun_tx_flow",
	.test_cases = tun_tx_flow_cases,
};

kunit_test_suite(tun_tx_flow_suite);

MODULE_DESCRIPTION("KUnit tests of TUN/TAP backpressure");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
