// SPDX-License-Identifier: GPL-2.0-or-later
/* ring.c: what is counted of a ring of 100, with batches of 4. */
#include "examples.h"
#include "ring.c"

static void packet_comes(void)
{
	ring->queue[ring->producer++] = ring;
}

static void batch_is_freed(void)
{
	ring->consumer_head = ring->consumer_tail = 38;
	ring->producer = 40;
}

static void lock_is_released(void)
{
	spin_unlock(&ring->producer_lock);
}

static void lock_is_taken(void)
{
	spin_lock(&ring->producer_lock);
}

static void counts(void)
{
	static const struct {
		int tail, head, producer;	/* packets from head, read slots from tail */
		bool in_irq;
		int in_use[4];			/* other slots that are; 100: all */
		void (*before)(void), (*meanwhile)(void);
		int used, fill;
		bool guessed;
	} cases[] = {
		{ 0, 0, 0, .used = 0, .fill = 0 },
		{ 10, 12, 20, .used = 10, .fill = 8 },
		{ 95, 98, 10, .used = 15, .fill = 12 },
		{ 10, 20, 20, .used = 10, .fill = 0 },
		/* the tail is moved, the head not yet */
		{ 15, 12, 20, .used = 5, .fill = 5 },
		/* full */
		{ 0, 0, 0, false, { 100 }, .used = 100, .fill = 100 },
		{ 30, 33, 30, true, { 100 }, .used = 100, .fill = 97 },
		/* somebody holds the lock that would tell full from empty */
		{ 30, 33, 30, true, { 100 }, lock_is_taken, .used = 100, .fill = 100, true },
		{ 30, 30, 30, false, { }, lock_is_taken, lock_is_released },
		/* where the indices tell, the lock is not asked */
		{ 10, 12, 20, true, { }, lock_is_taken, .used = 10, .fill = 8 },
		/* the newest packet's slot tells, and no other */
		{ 30, 30, 30, false, { 29 }, .used = 100, .fill = 100 },
		{ 0, 0, 0, false, { 99 }, .used = 100, .fill = 100 },
		{ 30, 30, 30, true, { 28, 30, 31 }, .used = 0, .fill = 0 },
		/* whoever held the lock changed the ring */
		{ 30, 30, 30, false, { }, NULL, packet_comes, 1, 1 },
		{ 30, 30, 30, true, { 100 }, NULL, batch_is_freed, 2, 2 },
	};
	struct sluice_flow_ring count;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		set_ring(SIZE, cases[i].tail, cases[i].head, cases[i].producer);
		for (int n = 0; n < 4 && cases[i].in_use[n]; n++)
			if (cases[i].in_use[n] == SIZE)
				set_full_ring(SIZE, cases[i].head, cases[i].producer);
			else
				ring->queue[cases[i].in_use[n]] = ring;
		if (cases[i].before)
			cases[i].before();
		while_waiting = cases[i].meanwhile;
		count = sluice_count_ring(ring, SIZE, cases[i].in_irq);
		if (locks_held)
			lock_is_released();
		EXPECT_OF(i, count.used, cases[i].used);
		EXPECT_OF(i, count.fill, cases[i].fill);
		EXPECT_OF(i, count.guessed, cases[i].guessed);
	}
}

/* Two slots for each CPU and a batch stay free; half a ring at most. */
static void limits(void)
{
	static const struct { int size, cpus, limit; } cases[] = {
		{ 100, 2, 92 }, { 8, 2, 4 }, { 1, 2, 1 }, { 100, 64, 50 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		cpus = cases[i].cpus;
		EXPECT_OF(i, sluice_count_ring(ring, cases[i].size, false).safe_limit,
			  cases[i].limit);
	}
}

void ring_examples(void)
{
	counts();
	fresh();	/* it is resized meanwhile: not full, whatever its slots hold */
	set_full_ring(SIZE, 0, 0);
	ring->size = SIZE + 1;
	EXPECT(sluice_count_ring(ring, SIZE, false).used, 0);
	ring->size = SIZE - 1;
	EXPECT(sluice_count_ring(ring, SIZE, false).used, 0);
	set_ring(SIZE, 10, 12, 20);
	limits();
}
