// SPDX-License-Identifier: GPL-2.0-or-later
/* queue.c and entry.h: what becomes of a queue's bit, timer, ring and counts. */
#include "examples.h"
#include "queue.c"
#include "entry.h"

static char order[400];

/* What of a queue and its ring is read and released, and the barriers between. */
static void note_order(const char *what, const volatile void *at)
{
	const struct { const volatile void *at; const char *name; } places[] = {
		{ NULL, "" }, { &q->next_check, "next_check" }, { &q->file, "file" },
		{ &q->size, "q->size" }, { &tun->slots[0], "slot" }, { &ring->size, "size" },
		{ &ring->producer, "producer" }, { &ring->consumer_tail, "tail" },
		{ &ring->queue[29], "newest" },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i].at == at) {
			strcat(strcat(strcat(order, what), " "), places[i].name);
			strcat(order, ";");
		}
}

static void enters(void) { check_needed(q); }
static void count_it(void) { sluice_count_ring(ring, SIZE, false); }
static void check_it(void) { sluice_queue_check(q); }
static void adopt_it(void) { queue_adopt(q, tun->slots[0], SIZE); }

/* The barriers that proofs/litmus asks for are where it says. */
static void barriers(void)
{
	static const struct { bool full; void (*function)(void); const char *order; } cases[] = {
		{ false, enters, "acquire file;read q->size;read slot;read size;"
				 "read next_check;read producer;" },
		{ false, count_it, "read tail;barrier ;read producer;" },
		{ true, count_it, "read tail;barrier ;read producer;"
				  "read tail;barrier ;read newest;" },
		{ false, check_it, "read next_check;barrier ;read slot;read size;read file;"
				   "read q->size;read tail;barrier ;read producer;"
				   "change next_check;" },
		{ false, adopt_it, "read tail;barrier ;read producer;change next_check;"
				   "change next_check;release q->size;release file;" },
	};

	fresh();
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].full)
			set_full_ring(SIZE, 30, 30);
		else
			set_ring(SIZE, 10, 12, 20);
		*order = '\0';
		when_ordered = note_order;
		cases[i].function();
		when_ordered = NULL;
		EXPECT_OF(i, strcmp(order, cases[i].order), 0);
	}
}

/* What happens to a queue, and what is done with it. */
static void is_opened(void) { sluice_queue_opened(q); }
static void is_closed(void) { sluice_queue_closed(q); }
static void is_held(void) { sluice_queue_hold(q, true); }
static void is_used_again(void) { sluice_queue_hold(q, false); }
static void is_reviewed(void) { timer_expired(&q->timer); }
static void rests_2_ms(void) { now += 2 * MS; }
static void is_read(void) { ring->consumer_head = ring->consumer_tail = 40; }
static void owes(void) { q->flow.debt_ns = 250 * MS; }
static void was_closed(void) { q->open = false; }
static void loses_its_ring(void) { q->ring = NULL; }
static void loses_its_reader(void) { tun->slots[0] = NULL; }
static void is_resized(void) { ring->size = SIZE - 1; }
static void loses_its_qdisc(void) { tun->dev.tx[0].qdisc = &noqueue; }
static void is_stopped_by_others(void) { tun->dev.tx[0].state = XOFF; }
static void is_woken_by_others(void) { tun->dev.tx[0].state = 0; }
static void stalled_and_was_read(void) { q->flow.stalled = true; }
static void stalls(void)
{
	q->flow.stalled = true;
	q->flow.unread = 300;
}
static void closes_meanwhile(void) { while_waiting = was_closed; }
static void stalls_meanwhile(void) { while_waiting = stalls; }
static void gets_another_ring_meanwhile(void) { while_waiting = loses_its_ring; }
static void is_stopped_again(void)
{
	struct sluice_flow_ring count = { SIZE, 60, 60, 60, 92 };

	LOCKED(q, __queue_stop(q, &count));
}
static void is_found_full(void) { queue_filled(q, ring, true); }
static void is_found_stalled(void) { queue_filled(q, ring, false); }
static void is_a_second_late(void) { now = q->timer.expires + NSEC_PER_SEC; }
static void is_later_than_that(void) { now = q->timer.expires + NSEC_PER_SEC + 1; }
static void is_looked_at_by_the_backstop(void)
{
	bool stopped = false, was = q->stopped;
	bool rescued = sluice_queue_rescue(q, &stopped);

	EXPECT(rescued, was && !q->stopped);
	EXPECT(stopped, was);
}

/* A queue that is open, or was stopped by us, and what becomes of it. */
static void situations(void)
{
	enum { OPEN = 1, OURS = 2, XOFF_SET = 4, STALLED = 8, STOPPED = OPEN | OURS | XOFF_SET };
	static const struct {
		void (*begin)(void), (*then[4])(void);
		int is;
		u64 by_timer, by_other, stalls, rescued;
	} cases[] = {
		{ fresh_stopped, { rests_2_ms, is_reviewed }, STOPPED },
		{ fresh_stopped, { rests_2_ms, is_read, is_reviewed }, OPEN, 1 },
		{ fresh_stopped, { rests_2_ms, owes, is_reviewed }, OPEN | STALLED, 0, 1, 1 },
		{ fresh_stopped, { loses_its_reader, is_reviewed }, OPEN, 0, 1 },
		{ fresh_stopped, { loses_its_ring, is_reviewed }, OPEN, 0, 1 },
		{ fresh_stopped, { is_resized, is_reviewed }, OPEN, 0, 1 },
		{ fresh_stopped, { loses_its_qdisc, is_reviewed }, OPEN, 0, 1 },
		/* there is one bit for all who stop it */
		{ fresh, { is_stopped_by_others, is_stopped_again }, OPEN | XOFF_SET },
		{ fresh, { is_stopped_by_others, is_reviewed }, OPEN | XOFF_SET },
		{ fresh_stopped, { is_woken_by_others, is_stopped_again }, STOPPED },
		/* while a sender waited for the lock */
		{ fresh, { is_found_full }, STOPPED },
		{ fresh, { is_found_stalled }, OPEN },
		{ fresh, { closes_meanwhile, is_found_full }, 0 },
		{ fresh, { stalls_meanwhile, is_found_full }, OPEN | STALLED },
		{ fresh, { gets_another_ring_meanwhile, is_found_full }, OPEN },
		{ fresh, { stalled_and_was_read, is_found_full }, STOPPED },
		/* something about its reader changed: a stop goes on, unless it is gone */
		{ fresh_stopped, { is_opened }, STOPPED },
		{ fresh_stopped, { loses_its_reader, is_opened }, OPEN, 0, 1 },
		{ fresh_stopped, { is_closed }, 0, 0, 1 },
		{ fresh_stopped, { is_closed, is_closed }, 0, 0, 1 },
		/* where the core resets its qdisc unlocked it is stopped meanwhile */
		{ fresh, { is_held, is_held }, OPEN | XOFF_SET },
		{ fresh, { is_held, is_held, is_used_again }, OPEN },
		{ fresh_stopped, { is_held }, OPEN | XOFF_SET, 0, 1 },
		{ fresh_stopped, { is_woken_by_others, is_held }, OPEN | XOFF_SET, 0, 1 },
		{ fresh_stopped, { is_held, is_closed }, 0, 0, 1 },
		{ fresh, { is_stopped_by_others, is_held, is_used_again }, OPEN | XOFF_SET },
		/* its timer was lost: the longest stop is over */
		{ fresh_stopped, { is_a_second_late, is_looked_at_by_the_backstop }, STOPPED },
		{ fresh_stopped, { is_later_than_that, is_looked_at_by_the_backstop,
				   is_looked_at_by_the_backstop }, OPEN, 1, 0, 0, 1 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		bool ours = cases[i].begin == fresh_stopped;

		cases[i].begin();
		for (int n = 0; n < 4 && cases[i].then[n]; n++)
			cases[i].then[n]();
		EXPECT_OF(i, q->open * OPEN + q->stopped * OURS + is_stopped(0) * XOFF_SET +
			     q->flow.stalled * STALLED, cases[i].is);
		EXPECT_OF(i, q->stopped && !q->timer.queued, false);
		EXPECT_OF(i, q->stopped && ours ? q->flow.stopped_at : NSEC_PER_SEC, NSEC_PER_SEC);
		EXPECT_OF(i, q->stops, ours || q->stopped);
		EXPECT_OF(i, q->wakes[SLUICE_WAKE_TIMER], cases[i].by_timer);
		EXPECT_OF(i, q->wakes[SLUICE_WAKE_OTHER], cases[i].by_other);
		EXPECT_OF(i, q->longest_stop_ns, !ours || q->stopped ? 0 : now - NSEC_PER_SEC);
		EXPECT_OF(i, q->stalls, cases[i].stalls);
		EXPECT_OF(i, device->shared.stalls, cases[i].stalls);
		EXPECT_OF(i, q->rescued, cases[i].rescued);
		EXPECT_OF(i, q->events_pending, ours || q->stopped);
	}
	fresh_stopped();	/* when it is opened again what it owes is owed still */
	owes();
	is_closed();
	device->flow.target_us = 2000;
	q->flow.held = 99 * 1024;
	is_opened();
	EXPECT(q->flow.debt_ns, 250 * MS);
	EXPECT(q->flow.depth, 4);
	EXPECT(q->file == NULL, true);
}

static void adoptions(void)
{
	struct tun_file *other;

	fresh();
	q->flow.stalled = true;
	q->flow.debt_ns = 5;
	atomic64_set(&q->next_check, 5L << 32 | 40);
	other = tun->slots[0] = driver_open(0, 50, 4);
	other->ring.producer = 2;
	EXPECT(queue_adopt(q, other, 50), true);
	EXPECT(atomic64_read(&q->next_check), 6L << 32 | U32_MAX);
	EXPECT(q->ring == &other->ring && q->file == other, true);
	EXPECT(q->size, 50);
	EXPECT(q->flow.stalled, true);	/* and what it owes */
	EXPECT(q->flow.debt_ns, 5);
	when_released = is_opened;	/* at the same time */
	EXPECT(queue_adopt(q, other, 40), true);
	EXPECT(q->file == NULL, true);
	other->open->private_data = NULL;	/* no file of the driver's */
	EXPECT(queue_adopt(q, other, 30), false);
	EXPECT(q->size, 40);
}

/* Where the next check is due, @room packets after the one at @producer. */
static void next_checks(void)
{
	static const struct { int producer, room; u32 last; } cases[] = {
		{ 10, 5, 14 }, { 10, 0, 9 }, { 10, -3, 9 }, { 10, 50, 34 },
		{ 95, 20, 99 }, { 0, 0, U32_MAX },
	};
	struct sluice_flow_ring count = { .size = SIZE };

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		atomic64_set(&q->next_check, 5L << 32 | 77);
		count.producer = cases[i].producer;
		set_next_check(q, 5L << 32 | 77, &count, cases[i].room);
		EXPECT_OF(i, sluice_check_last(q->next_check.counter), cases[i].last);
		EXPECT_OF(i, sluice_check_count(q->next_check.counter), 6);
	}
	atomic64_set(&q->next_check, 3);	/* somebody else wrote it */
	set_next_check(q, 4, &count, 5);
	EXPECT(q->next_check.counter, 3);
}

static void has_no_file(void) { q->file = NULL; }
static void has_another_file(void) { q->file = (void *)-1L; }
static void had_another_size(void) { q->size = SIZE + 1; }
static void has_no_slots(void) { ring->size = 0; }
static void has_fewer_slots(void) { ring->size = -1; }
static void has_a_limit(void) { device->flow.user_limit = 20; }
static void is_in_a_list(void) { more_follow = true, device->flow.user_limit = 20; }
static void is_not_laid_out_so(void)
{
	q->file = NULL;
	((struct tun_file *)tun->slots[0])->open->private_data = NULL;
}

/* A check at these indices of a ring; when the next one is due, and what was done. */
static void checks(void)
{
	static const struct {
		void (*before)(void);
		int tail, head, producer;
		bool full;
		u32 last;
		bool stopped;
		u64 drops;
	} cases[] = {
		{ NULL, 0, 0, 10, false, 34 },		/* a quarter of the ring later */
		{ NULL, 0, 0, 75, false, 90 },
		{ NULL, 0, 20, 90, false, 90 },
		{ NULL, 0, 0, 91, false, 90, true },
		{ NULL, 30, 30, 30, true, 29, true, 1 },
		{ NULL, 30, 33, 30, true, 29, true, 1 },	/* read, and not handed back */
		{ has_a_limit, 0, 10, 29, false, 28, true },
		/* a list is not divided, but at the limit */
		{ is_in_a_list, 0, 10, 29, false, 28 },
		{ is_in_a_list, 0, 10, 91, false, 90, true },
		/* nothing is open, read, known */
		{ was_closed, 0, 0, 95, false, 7777 },
		{ loses_its_reader, 0, 0, 95, false, 7777 },
		{ has_no_slots, 0, 0, 0, false, 7777 },
		{ has_fewer_slots, 0, 0, 0, false, 7777 },
		{ is_not_laid_out_so, 0, 0, 95, false, 7777 },
		/* adopted */
		{ has_another_file, 0, 0, 10, false, U32_MAX },
		{ had_another_size, 0, 0, 10, false, U32_MAX },
		/* as without us */
		{ loses_its_qdisc, 0, 0, 80, false, 90 },
		{ loses_its_qdisc, 0, 0, 99, false, 98 },
		{ loses_its_qdisc, 30, 30, 30, true, 29 },
		/* each packet that a full ring drops is counted; else each eighth is checked */
		{ stalls, 30, 30, 30, true, 29, false, 1 },
		{ stalls, 0, 0, 50, false, 57 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		set_ring(SIZE, cases[i].tail, cases[i].head, cases[i].producer);
		if (cases[i].full)
			set_full_ring(SIZE, cases[i].head, cases[i].producer);
		atomic64_set(&q->next_check, 7777);
		if (cases[i].before)
			cases[i].before();
		sluice_queue_check(q);
		EXPECT_OF(i, sluice_check_last(atomic64_read(&q->next_check)), cases[i].last);
		EXPECT_OF(i, q->stopped, cases[i].stopped);
		EXPECT_OF(i, is_stopped(0), cases[i].stopped);
		EXPECT_OF(i, is_stopped(1), false);
		EXPECT_OF(i, q->drops.counter, cases[i].drops);
	}
	fresh();	/* of one slot: one packet fits, but no second */
	set_ring(1, 0, 0, 0);
	sluice_queue_check(q);
	EXPECT(q->size, 1);
	EXPECT(q->stopped, true);
}

static struct sluice_queue_view seen(void)
{
	struct sluice_queue_view view;

	memset(&view, 0xff, sizeof(view));
	sluice_queue_read(q, &view);
	return view;
}

/* A stalled queue with 80 packets, as the operator sees it. */
static void states(void)
{
	static const struct {
		struct Qdisc *qdisc;
		bool locked_reset, holds_closed;
		unsigned int queues, flags;
		enum sluice_queue_state state;
	} cases[] = {
		{ &fq, true, false, 2, 0, SLUICE_QUEUE_STALLED },
		{ &noqueue, true, false, 2, 0, SLUICE_QUEUE_NOQUEUE },
		{ &lockless, true, false, 2, 0, SLUICE_QUEUE_STALLED },
		/* packets in it may be freed twice, on a device of several queues */
		{ &lockless, false, false, 2, 0, SLUICE_QUEUE_LOCKLESS },
		{ &lockless, false, false, 1, 0, SLUICE_QUEUE_STALLED },
		{ &fq, false, false, 2, 0, SLUICE_QUEUE_STALLED },
		/* but those of each queue are stopped then */
		{ &lockless, false, false, 2, TCQ_F_ONETXQUEUE, SLUICE_QUEUE_LOCKLESS },
		{ &lockless, false, true, 2, TCQ_F_ONETXQUEUE, SLUICE_QUEUE_STALLED },
		{ &lockless, false, true, 2, 0, SLUICE_QUEUE_LOCKLESS },
	};

	fresh();
	set_ring(SIZE, 0, 2, 80);
	stalls();
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		tun->dev.tx[0].qdisc = cases[i].qdisc;
		tun->dev.num_tx_queues = cases[i].queues;
		lockless.flags = TCQ_F_NOLOCK | cases[i].flags;
		sluice_locked_reset = cases[i].locked_reset;
		sluice_holds_closed = cases[i].holds_closed;
		EXPECT_OF(i, seen().state, cases[i].state);
	}
	lockless.flags = TCQ_F_NOLOCK;
	sluice_locked_reset = true;
	sluice_holds_closed = false;
}

static void another_sender_looks(void)
{
	q->flow.producer = ring->producer = 81;
	q->flow.fill = 79;
}

/* While a sender waits for the lock another looks: the policy never sees the past. */
static void counts_in_order(void)
{
	fresh();
	set_ring(SIZE, 0, 2, 80);
	stalls();
	q->flow.producer = 79;
	q->flow.fill = 77;
	while_waiting = another_sender_looks;
	sluice_queue_check(q);
	EXPECT(q->flow.producer, 81);
	EXPECT(q->flow.unread, 300);
}

/* The same where the ring, or what is known of it, differs. */
static void views(void)
{
	struct sluice_queue_view view;

	fresh_stopped();
	device->flow.user_limit = 0;
	set_ring(SIZE, 0, 2, 30);
	view = seen();
	EXPECT(view.state, SLUICE_QUEUE_STOPPED);
	EXPECT(view.size == 100 && view.fill == 28 && view.limit == 92 && view.low == 46, true);
	LOCKED(q, __queue_wake(q, 0, SLUICE_WAKE_TIMER));
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);
	/* of 46 packets or fewer it ends; else when two were read */
	q->flow.stalled = true;
	q->flow.unread = 2;
	q->flow.producer = 30;
	q->flow.fill = 28;
	q->flow.least = 47;
	set_ring(SIZE, 0, 2, 49);
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	set_ring(SIZE, 0, 3, 49);
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);
	q->flow.stalled = true;
	q->flow.unread = 2;
	q->flow.least = 46;
	set_ring(SIZE, 0, 4, 50);
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	set_ring(SIZE, 0, 5, 51);
	EXPECT(seen().state, SLUICE_QUEUE_OPEN);
	q->flow.stalled = true;		/* another ring tells nothing */
	q->ring = NULL;
	EXPECT(seen().state, SLUICE_QUEUE_STALLED);
	device->verified = false;
	EXPECT(seen().state, SLUICE_QUEUE_UNREAD);
	EXPECT(seen().size || seen().fill, false);
	device->verified = true;
	has_fewer_slots();
	EXPECT(seen().size || seen().limit, false);
	was_closed();
	EXPECT(seen().state, SLUICE_QUEUE_IDLE);
}

/* Whether a sender checks the ring, of which the next check is due behind slot 40. */
static void entries(void)
{
	static const struct {
		void (*before)(void);
		int producer;
		bool checks;
	} cases[] = {
		{ NULL, 40, false }, { NULL, 41, true }, { NULL, 16, false }, { NULL, 15, true },
		{ loses_its_reader, 30, true }, { has_another_file, 30, true },
		{ has_no_file, 30, true }, { had_another_size, 30, true },
		{ is_resized, 30, true },
	};
	struct net_device stranger = { };
	struct sk_buff skb = { .queue_mapping = 0 };

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		atomic64_set(&q->next_check, 9L << 32 | 40);
		ring->producer = cases[i].producer;
		if (cases[i].before)
			cases[i].before();
		EXPECT_OF(i, queue_to_check(&skb, &tun->dev) == (cases[i].checks ? q : NULL),
			  true);
	}
	EXPECT(queue_to_check(&skb, &stranger) == NULL, true);
	for (skb.queue_mapping = 1; skb.queue_mapping < 4; skb.queue_mapping++)
		EXPECT(queue_to_check(&skb, &tun->dev) ==
		       (skb.queue_mapping == 1 ? &device->queue[1] : NULL), true);
}

void queue_examples(void)
{
	barriers();
	situations();
	adoptions();
	next_checks();
	checks();
	states();
	counts_in_order();
	views();
	entries();
}
