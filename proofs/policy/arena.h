/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plays a sequence against the real sources, or against the stock driver, which stops
 * nothing and drops what a full ring does not take. The clock jumps from event to
 * event. Whoever includes it says what a port_...() below does: policy/adversary.c for
 * the module, series/readers.c for the driver of the series.
 *
 * Tenants are devices. The first has the reader of the sequence; the queues of the
 * others are read by nobody. A queue's packets wait in its qdisc while it is
 * stopped. They count against their sender's socket: if it is full, the sender
 * blocks, or its packet is refused.
 */
#ifndef POLICY_ARENA_H
#define POLICY_ARENA_H

#include "sequence.h"

/* The contract. */
#define STALL_PACKETS	50	/* in stall_ms: a reader of more loses none */
#define DEAD_STOPS	1.5	/* of stall_ms, before a reader that reads nothing */
#define HELD_MOST	.15	/* of the time, by one of fewer than half */
#define HELD_BY_OTHERS	.2	/* of the time, while others fill the ring */
#define PEER_LEAST	.8	/* of stock, beside it */
#define READS_LEAST	.97	/* of stock */
#define REVIEW_NS	2000000	/* a stop may end so much later */
#define REVIEWS_PER_SEC	2000	/* of a queue, and one for each attach */
#define REVIEWS_BURST	50
#define REVIEWS_PER_STOP	1.5	/* and one for each REVIEW_NS */
#define REVIEW_PACKETS	64	/* read, for one review more */
#define CROWD		500	/* queues */
#define CROWD_REVIEWS	12000	/* of all: 3 % of a CPU, 2.5 us each */
#define CROWD_PER_READ	64	/* more, for each packet that is read */
#define FEWEST		4	/* packets that a ring may always hold */

#define TENANTS		3
#define READER_WAKES_NS	20000		/* a process that slept in read() */
#define CALL_NS		20000		/* a system call that changes the device */
#define SENDS_AGAIN_NS	200000		/* at least, after the ring was full */
#define SENDS_LATER_NS	2000000		/* at most, if nobody reads */
#define BACK_MOST	64
#define LIST_MOST	64		/* packets of a list that no stop divides */
#define WINDOW_NS	NSEC_PER_SEC	/* in which reviews are counted */
#define BUCKETS		1024		/* of waits: 16 for each power of 2 */
#define FILLED		(1UL << 63)	/* a packet of others */

/* A queue with its qdisc, its ring, its timer. */
struct port {
	struct ptr_ring ring;
	u64 sent, divided;		/* packets; lists of few that a stop divided */
	u64 waiting;			/* packets in the qdisc */
	u64 fires, runs;		/* its timer; its qdisc, once it is woken */
	u64 stops, stopped_from, stopped_ns, longest_stop;
	u64 reviews, idle_reviews;	/* of them: nothing was read */
	u64 reads, reads_reviewed, lost;
	u64 attaches;
	u64 window_from, window_reviews, window_reads, window_attaches;
	double review_share;
};

struct sender {
	unsigned int to;
	u64 sends_at, waiting;
	u64 owed;			/* in packets * NSEC_PER_SEC */
	bool blocked, to_peer;
	u64 blocked_from, blocked_ns, peer_got;
};

struct tenant {
	struct net_device dev;
	struct netdev_queue txqs[QUEUES_MAX];
	struct port ports[QUEUES_MAX];
	struct sender senders[QUEUES_MAX];
	unsigned int senders_count;
	bool stock;			/* else its queues are stopped */
	u64 next;			/* event */
};

/* What one play came to. Rates are per second. */
struct outcome {
	double held;			/* share of time, the most of a sender */
	double peer;			/* share of what a free sender gives it */
	double reads;			/* by whole cycles of the program */
	double net_reads;		/* less what was handed back */
	double reviews, idle_reviews;
	double review_share;		/* of those allowed, in the worst second */
	double slowest;			/* STALL_PACKETS took so many stall_ms */
	u64 lost, divided, stops, stalls, longest_stop, median_wait;
	u64 taken, dry;			/* packets; times that the ring was empty */
	u64 ns;				/* it lasted */
};

static struct Qdisc fq = { .enqueue = &fq };
static const struct sequence *playing;
static struct tenant tenants[TENANTS];
static u64 waits[BUCKETS], wait_count;

static struct {
	unsigned int op, port;
	u64 at, left, cycle_from;
	bool waits, awaits;		/* a packet; a wake */
	u64 dry, reads, back;		/* of reads: handed back */
	u64 first_at, first_reads, last_at, last_reads, warm;
	void *taken[BACK_MOST];
	unsigned int taken_count;
	u64 paid_at[STALL_PACKETS];	/* stopped time at which it read */
	u64 paid, slowest;
} reader;

/* What comes of a packet that a sender gives to the driver. */
enum sent { SENT, LOST, REFUSED };	/* refused: it stays in the qdisc */

static void ports_begin(struct tenant *tenant, u64 stall_ns);
static enum sent port_sends(struct tenant *tenant, unsigned int id, void *packet);
static void port_expires(struct tenant *tenant, unsigned int id);
static void port_changes(struct tenant *tenant, unsigned int id, enum kind how);
static u64 port_ends(struct tenant *tenant, unsigned int id);	/* its stalls */

static struct tenant *tenant_of(const struct net_device *dev)
{
	return container_of(dev, struct tenant, dev);
}

/* Its timer is to fire in @ns. */
static void port_arms(struct port *port, u64 ns)
{
	u64 late = playing->set[LATE], least = playing->set[LEAST];

	port->fires = now + ns + least;
	if (late && (!playing->set[SELDOM] || !chance(playing->set[SELDOM])))
		port->fires += chance(late + 1);
}

static bool is_stopped(const struct tenant *tenant, unsigned int id)
{
	return tenant->txqs[id].state & XOFF;
}

/* Of the first queue: what it tells is used of readers of one queue. */
static u64 stopped_ns(void)
{
	const struct port *port = &tenants[0].ports[0];

	return port->stopped_ns +
	       (is_stopped(&tenants[0], 0) ? now - port->stopped_from : 0);
}

/* How much stopped time the last STALL_PACKETS packets took. */
static void note_pace(void)
{
	u64 since = reader.paid_at[reader.paid % STALL_PACKETS];

	reader.slowest = max(reader.slowest, stopped_ns() - since);
}

static void end_stop(struct tenant *tenant, unsigned int id)
{
	struct port *port = &tenant->ports[id];

	note_pace();
	port->stopped_ns += now - port->stopped_from;
	port->longest_stop = max(port->longest_stop, now - port->stopped_from);
}

void netif_tx_wake_queue(struct netdev_queue *txq)
{
	struct tenant *tenant = tenant_of(txq->dev);
	unsigned int id = txq - tenant->txqs;

	if (!(txq->state & XOFF))
		return;
	end_stop(tenant, id);
	txq->state &= ~XOFF;
	tenant->ports[id].runs = now;
	if (reader.awaits && tenant == tenants && id == tenant->senders[0].to) {
		reader.awaits = false;
		reader.at = now;
	}
}

/* A packet that is its time, so that its wait is known. */
static enum sent transmits(struct tenant *tenant, unsigned int id)
{
	struct port *port = &tenant->ports[id];
	u64 list = playing->set[LIST];
	void *packet = (void *)(now + 1);
	enum sent sent;

	more_follow = list && (port->sent + 1) % list;
	sent = !tenant->stock ? port_sends(tenant, id, packet) :
	       ptr_ring_produce(&port->ring, packet) ? LOST : SENT;
	if (is_stopped(tenant, id)) {
		port->stops++;
		port->stopped_from = now;
		port->divided += more_follow && list <= LIST_MOST;
	}
	port->sent += sent != REFUSED;
	port->lost += sent == LOST;
	if (sent != SENT)
		return sent;
	if (reader.waits && tenant == tenants && id == reader.port) {
		reader.waits = false;
		reader.at = now + READER_WAKES_NS;
	}
	return SENT;
}

static void run_qdisc(struct tenant *tenant, unsigned int id)
{
	struct sender *sender = &tenant->senders[tenant->senders_count > 1 ? id : 0];
	struct port *port = &tenant->ports[id];

	port->runs = NEVER;
	while (port->waiting && !is_stopped(tenant, id) &&
	       transmits(tenant, id) != REFUSED) {
		port->waiting--;
		sender->waiting--;
	}
	if (sender->blocked && sender->waiting < playing->set[SOCKET]) {
		sender->blocked = false;
		sender->blocked_ns += now - sender->blocked_from;
		sender->sends_at = now;
	}
}

/* Returns false if the ring lost it. */
static bool send_one(struct tenant *tenant, struct sender *sender)
{
	enum sent sent = REFUSED;

	if (playing->set[TURNS]) {
		sender->to_peer = !sender->to_peer;
		sender->peer_got += sender->to_peer;
		if (sender->to_peer)
			return true;
	}
	if (!is_stopped(tenant, sender->to) && !tenant->ports[sender->to].waiting)
		sent = transmits(tenant, sender->to);
	sender->waiting += sent == REFUSED;
	tenant->ports[sender->to].waiting += sent == REFUSED;
	return sent != LOST;
}

/* A full ring stays full until it is read. */
static u64 sends_again(u64 least)
{
	if (playing->set[EACH])	/* all at the same times, which is quicker */
		return now + SENDS_LATER_NS - now % SENDS_LATER_NS;
	return max(now + least, min(reader.at, now + SENDS_LATER_NS));
}

/* Until then so many packets are lost as this one was. */
static void skip_losses(struct tenant *tenant, struct sender *sender, u64 gap)
{
	u64 packets = (sends_again(0) - now) / gap;
	u64 lost = playing->set[TURNS] ? packets / 2 : packets;

	if (playing->set[TURNS])
		packets = 2 * lost;
	sender->peer_got += packets - lost;
	tenant->ports[sender->to].lost += lost;
	sender->sends_at += packets * gap;
}

static void send(struct tenant *tenant, struct sender *sender)
{
	u64 rate = playing->set[RATE], step = playing->set[STEP];
	u64 gap = rate ? NSEC_PER_SEC / rate : 0;

	sender->owed += step ? step * rate : NSEC_PER_SEC;
	sender->sends_at = now + (step ? step : gap);
	for (; sender->owed >= NSEC_PER_SEC; sender->owed -= NSEC_PER_SEC) {
		if (sender->waiting >= playing->set[SOCKET]) {
			if (playing->set[REFUSES])
				continue;
			sender->blocked = true;
			sender->blocked_from = now;
			sender->sends_at = NEVER;
			sender->owed = 0;
			return;
		}
		if (send_one(tenant, sender))
			continue;
		if (!rate)
			sender->sends_at = sends_again(SENDS_AGAIN_NS);
		else if (!step)
			skip_losses(tenant, sender, gap);
	}
}

/* In this second, so far. */
static double reviews_most(const struct port *port)
{
	return REVIEWS_PER_SEC + REVIEWS_BURST + port->attaches -
	       port->window_attaches +
	       (port->reads - port->window_reads) / REVIEW_PACKETS;
}

static void expire(struct tenant *tenant, unsigned int id)
{
	struct port *port = &tenant->ports[id];

	port->fires = NEVER;
	if (now - port->window_from >= WINDOW_NS) {
		port->window_from = now;
		port->window_reviews = 0;
		port->window_reads = port->reads;
		port->window_attaches = port->attaches;
	}
	port->reviews++;
	port->window_reviews++;
	port->idle_reviews += port->reads == port->reads_reviewed;
	port->reads_reviewed = port->reads;
	port->review_share = max(port->review_share,
				 port->window_reviews / reviews_most(port));
	port_expires(tenant, id);
	note_pace();
	if (is_stopped(tenant, id) && port->fires == NEVER)
		fail("a queue is stopped without a timer");
}

static void note_wait(u64 ns)
{
	int power = 63 - __builtin_clzll(ns | 16);

	waits[16 * (power - 4) + ((ns >> (power - 4)) & 15)]++;
	wait_count++;
}

/* The least of the bucket that holds the median. */
static u64 median_wait(void)
{
	u64 below = 0;

	for (int i = 0; i < BUCKETS; i++) {
		below += waits[i];
		if (2 * below >= wait_count && below)
			return i < 16 ? i : (16 + i % 16ULL) << (i / 16);
	}
	return 0;
}

static bool takes(void)
{
	struct port *port = &tenants[0].ports[reader.port];
	void *packet = __ptr_ring_consume(&port->ring);

	if (!packet)
		return false;
	note_pace();
	reader.paid_at[reader.paid++ % STALL_PACKETS] = stopped_ns();
	if (!((u64)packet & FILLED) && now >= reader.warm)
		note_wait(now + 1 - (u64)packet);
	reader.taken[reader.taken_count++ % BACK_MOST] = packet;
	reader.reads++;
	port->reads++;
	return true;
}

/* For what is handed back there is no room: it was read, and is lost. */
static void lose(void *packet)
{
	reader.back--;
}

/* What was taken last and is not yet back, the oldest of it first. */
static void hand_back(u64 count)
{
	struct ptr_ring *ring = &tenants[0].ports[reader.port].ring;
	unsigned int packets = min_t(u64, count, reader.taken_count);
	void *batch[BACK_MOST];

	packets = min(packets, BACK_MOST);
	reader.back += packets;
	for (unsigned int i = packets; i--;)
		batch[i] = reader.taken[--reader.taken_count % BACK_MOST];
	reader.taken_count = min(reader.taken_count, BACK_MOST - packets);
	ptr_ring_unconsume(ring, batch, packets, lose);
}

static u64 find_next(const struct tenant *tenant)
{
	u64 next = NEVER;

	for (unsigned int id = 0; id < tenant->dev.num_tx_queues; id++)
		next = min(next, min(tenant->ports[id].fires,
				     tenant->ports[id].runs));
	for (unsigned int id = 0; id < tenant->senders_count; id++)
		next = min(next, tenant->senders[id].sends_at);
	return next;
}

/* A file that is taken off loses what is in its ring: room, as reads make it. */
static void attach(enum kind how)
{
	struct port *port = &tenants[0].ports[reader.port];
	struct ptr_ring *ring = &port->ring;

	port->attaches++;
	while (how != TOUCH && takes())
		;
	if (how == ANEW) {	/* slots that were read may not be cleared yet */
		ring->producer = ring->consumer_head = ring->consumer_tail = 0;
		memset(ring->queue, 0, ring->size * sizeof(*ring->queue));
	}
	if (how != TOUCH)
		reader.taken_count = 0;
	if (!tenants[0].stock)
		port_changes(&tenants[0], reader.port, how);
	tenants[0].next = find_next(&tenants[0]);
}

static void fill(u64 level)
{
	struct ptr_ring *ring = &tenants[0].ports[reader.port].ring;
	int there = ring->producer - ring->consumer_head;

	if (there < 0 || (!there && !__ptr_ring_empty(ring)))
		there += ring->size;
	while (there++ < (int)level &&
	       !ptr_ring_produce(ring, (void *)(FILLED | (now + 1))))
		;
}

/* Returns whether the operation goes on at reader.at. */
static bool goes_on(const struct op *op)
{
	u64 taken = 0;

	if (!reader.left)
		return false;
	while (taken < (op->kind == BATCH ? op->count : 1) && takes())
		taken++;
	if (taken) {
		reader.left -= op->kind == BATCH ? reader.left : 1;
		reader.at = now + taken * op->ns;
		return true;
	}
	reader.dry += now >= reader.warm;
	if (op->kind == DRAIN)
		return false;
	reader.waits = true;
	reader.at = NEVER;
	return true;
}

/* An operation that is done at once; the next one may wait. */
static void operate(const struct op *op)
{
	struct tenant *tenant = &tenants[0];

	reader.at = now + CALL_NS;
	switch (op->kind) {
	case TICK:
		reader.at = now + op->ns - now % op->ns;
		break;
	case IDLE:
		reader.at = now;
		if (__ptr_ring_empty(&tenant->ports[reader.port].ring))
			reader.at = now + op->ns;
		break;
	case REST:
		reader.at = now + op->ns;
		break;
	case AWAIT:
		reader.at = now + op->ns;
		reader.awaits = true;
		break;
	case BACK:
		hand_back(op->count);
		break;
	case STEER:
		if (tenant->senders_count == 1)
			tenant->senders[0].to =
				(tenant->senders[0].to + op->count) %
				playing->set[QUEUES];
		reader.port = tenant->senders[0].to;
		reader.taken_count = 0;
		break;
	case TURN:
		reader.port = (reader.port + op->count) % playing->set[QUEUES];
		reader.taken_count = 0;
		reader.at = now;
		break;
	case FILL:
		fill(op->count);
		break;
	default:
		attach(op->kind);
	}
}

static void note_cycle(void)
{
	if (now == reader.cycle_from)
		reader.at = now + READER_WAKES_NS;	/* it did nothing */
	reader.cycle_from = now;
	if (now < reader.warm)
		return;
	if (!reader.first_at) {
		reader.first_at = now;
		reader.first_reads = reader.reads;
	}
	reader.last_at = now;
	reader.last_reads = reader.reads;
}

static void reader_happens(void)
{
	while (reader.at <= now) {
		const struct op *op = &playing->ops[reader.op];

		reader.awaits = false;
		if (op->kind <= BATCH) {
			if (goes_on(op))
				continue;
		} else {
			operate(op);
		}
		if (++reader.op == playing->count) {
			reader.op = 0;
			note_cycle();
		}
		reader.left = playing->ops[reader.op].count;
	}
}

/* The timers before the senders. */
static void tenant_happens(struct tenant *tenant)
{
	for (unsigned int id = 0; id < tenant->dev.num_tx_queues; id++) {
		if (tenant->ports[id].fires <= now)
			expire(tenant, id);
		if (tenant->ports[id].runs <= now)
			run_qdisc(tenant, id);
	}
	for (unsigned int id = 0; id < tenant->senders_count; id++)
		while (tenant->senders[id].sends_at <= now)
			send(tenant, &tenant->senders[id]);
	tenant->next = find_next(tenant);
}

static void begin_tenant(struct tenant *tenant, unsigned int queues,
			 unsigned int senders, u64 stall_ns)
{
	tenant->dev.num_tx_queues = queues;
	tenant->dev.tx = tenant->txqs;
	tenant->senders_count = senders;
	tenant->stock = !stall_ns;
	tenant->next = 0;
	for (unsigned int id = 0; id < queues; id++) {
		struct port *port = &tenant->ports[id];

		memset(port, 0, sizeof(*port));
		ptr_ring_init(&port->ring, playing->set[RING], 0);
		port->fires = port->runs = NEVER;
		tenant->txqs[id] = (struct netdev_queue){
			.qdisc = &fq, .dev = &tenant->dev };
		tenant->senders[id] = (struct sender){ .to = id };
	}
	if (stall_ns && queues)
		ports_begin(tenant, stall_ns);
}

/* Returns how often its queues stalled. */
static u64 end_tenant(struct tenant *tenant)
{
	u64 stalls = 0;

	for (unsigned int id = 0; id < tenant->dev.num_tx_queues; id++) {
		if (is_stopped(tenant, id))
			end_stop(tenant, id);
		tenant->txqs[id].state = 0;	/* the end is no wake */
		if (!tenant->stock)
			stalls += port_ends(tenant, id);
		ptr_ring_cleanup(&tenant->ports[id].ring, NULL);
	}
	return stalls;
}

static void begin_play(const struct sequence *of, u64 end, bool stock)
{
	u64 stall_ns = stock ? 0 : of->set[STALL];
	u64 queues = of->set[QUEUES];

	playing = of;
	now = 0;
	random_state = 88172645463325252ULL;
	memset(waits, 0, sizeof(waits));
	wait_count = 0;
	memset(&reader, 0, sizeof(reader));
	reader.warm = end / 4;
	reader.at = of->count ? 0 : NEVER;
	reader.left = of->ops[0].count;
	begin_tenant(&tenants[0], queues, of->set[EACH] ? queues : 1, stall_ns);
	/* of somebody who may set the most, and stays stopped; and who may not */
	begin_tenant(&tenants[1], of->set[BESIDE], of->set[BESIDE],
		     stall_ns ? settings[STALL].most : 0);
	begin_tenant(&tenants[2], of->set[OTHERS], of->set[OTHERS],
		     stall_ns ? settings[STALL].initial : 0);
}

static void end_play(struct outcome *to)
{
	struct tenant *tenant = &tenants[0];
	u64 cycles_ns = reader.last_at - reader.first_at;

	memset(to, 0, sizeof(*to));
	to->peer = 2.0 * tenant->senders[0].peer_got * NSEC_PER_SEC /
		   ((double)now * (playing->set[RATE] + !playing->set[RATE]));
	to->reads = cycles_ns ? (reader.last_reads - reader.first_reads) /
			(double)cycles_ns * NSEC_PER_SEC :
			reader.reads / (double)now * NSEC_PER_SEC;
	to->net_reads = (reader.reads - reader.back) / (double)now * NSEC_PER_SEC;
	to->median_wait = median_wait();
	to->taken = reader.reads;
	to->dry = reader.dry;
	for (unsigned int id = 0; id < tenant->senders_count; id++) {
		struct sender *sender = &tenant->senders[id];

		if (sender->blocked)
			sender->blocked_ns += now - sender->blocked_from;
		to->held = max(to->held, sender->blocked_ns / (double)now);
	}
	to->ns = now;
	to->stalls = end_tenant(tenant);
	for (unsigned int id = 0; id < tenant->dev.num_tx_queues; id++) {
		const struct port *port = &tenant->ports[id];

		to->lost += port->lost;
		to->divided += port->divided;
		to->stops += port->stops;
		to->reviews += port->reviews / (double)now * NSEC_PER_SEC;
		to->idle_reviews += port->idle_reviews / (double)now * NSEC_PER_SEC;
		to->longest_stop = max(to->longest_stop, port->longest_stop);
		to->review_share = max(to->review_share, port->review_share);
	}
	to->slowest = reader.slowest / (double)playing->set[STALL];
	end_tenant(&tenants[1]);
	end_tenant(&tenants[2]);
}

/*
 * Until @end, nanoseconds; @stock: against the driver alone. Returns false if it
 * took more than @events, and ended there.
 */
static bool play(const struct sequence *of, u64 end, bool stock, u64 events,
		 struct outcome *to)
{
	begin_play(of, end, stock);
	while (events--) {
		u64 next = reader.at;

		for (int i = 0; i < TENANTS; i++)
			next = min(next, tenants[i].next);
		if (next >= end) {
			now = end;
			end_play(to);
			return true;
		}
		now = max(now, next);
		for (int i = 0; i < TENANTS; i++)
			if (tenants[i].next <= now)
				tenant_happens(&tenants[i]);
		if (reader.at <= now)
			reader_happens();
	}
	end_play(to);
	return false;
}

#endif
