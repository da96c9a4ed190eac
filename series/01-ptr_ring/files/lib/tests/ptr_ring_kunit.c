// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the producer's view of a ptr_ring.
 */
#include <kunit/test.h>
#include <linux/ptr_ring.h>

static void *entry(unsigned long n)
{
	return (void *)(n + 1);
}

static void init_ring(struct kunit *test, struct ptr_ring *ring, int size)
{
	KUNIT_ASSERT_EQ(test, ptr_ring_init(ring, size, GFP_KERNEL), 0);
}

static void produce(struct kunit *test, struct ptr_ring *ring, int n)
{
	while (n--)
		KUNIT_ASSERT_EQ(test, __ptr_ring_produce(ring, entry(n)), 0);
}

static void consume(struct kunit *test, struct ptr_ring *ring, int n)
{
	while (n--)
		KUNIT_ASSERT_NOT_NULL(test, __ptr_ring_consume(ring));
}

/* How many entries __ptr_ring_has_room() promises, and how many fit. */
static void expect_room(struct kunit *test, struct ptr_ring *ring, int room)
{
	int n = 0;

	while (__ptr_ring_has_room(ring, n))
		n++;
	KUNIT_EXPECT_EQ(test, n, room);
	KUNIT_EXPECT_FALSE(test, __ptr_ring_has_room(ring, n + 1));
	KUNIT_EXPECT_FALSE(test, __ptr_ring_has_room(ring, INT_MAX));
}

static void empty_and_full(struct kunit *test)
{
	struct ptr_ring ring;

	init_ring(test, &ring, 8);
	expect_room(test, &ring, 8);

	produce(test, &ring, 3);
	expect_room(test, &ring, 5);

	produce(test, &ring, 5);
	expect_room(test, &ring, 0);
	KUNIT_EXPECT_NE(test, __ptr_ring_produce(&ring, entry(0)), 0);

	consume(test, &ring, 8);
	expect_room(test, &ring, 8);
	ptr_ring_cleanup(&ring, NULL);
}

static void one_entry(struct kunit *test)
{
	struct ptr_ring ring;

	init_ring(test, &ring, 1);
	expect_room(test, &ring, 1);
	produce(test, &ring, 1);
	expect_room(test, &ring, 0);
	consume(test, &ring, 1);
	expect_room(test, &ring, 1);
	ptr_ring_cleanup(&ring, NULL);
}

static void no_entry(struct kunit *test)
{
	struct ptr_ring ring;

	init_ring(test, &ring, 0);
	expect_room(test, &ring, 0);
	ptr_ring_cleanup(&ring, NULL);
}

/* Consumed entries take room until their batch is complete. */
static void batch_takes_room(struct kunit *test)
{
	struct ptr_ring ring;
	int batch;

	init_ring(test, &ring, 128);
	batch = ring.batch;
	KUNIT_ASSERT_GT(test, batch, 1);
	produce(test, &ring, 128);

	consume(test, &ring, batch - 1);
	expect_room(test, &ring, 0);

	consume(test, &ring, 1);
	expect_room(test, &ring, batch);
	ptr_ring_cleanup(&ring, NULL);
}

/* An empty ring has room wherever the indices are, a full one has none. */
static void indices_wrap(struct kunit *test)
{
	struct ptr_ring ring;
	int start;

	for (start = 0; start <= 64; start++) {
		init_ring(test, &ring, 64);
		produce(test, &ring, start);
		consume(test, &ring, start);
		KUNIT_EXPECT_TRUE(test, __ptr_ring_has_room(&ring, 0));

		while (__ptr_ring_has_room(&ring, 0))
			produce(test, &ring, 1);
		KUNIT_EXPECT_NE(test, __ptr_ring_produce(&ring, entry(0)), 0);
		ptr_ring_cleanup(&ring, NULL);
	}
}

/* What is promised to several producers holds in whatever order they come. */
static void promises_hold(struct kunit *test)
{
	int promised = 0, round, n;
	struct ptr_ring ring;

	init_ring(test, &ring, 48);
	for (round = 0; round < 1000; round++) {
		for (n = round % 7; n; n--)
			promised += __ptr_ring_has_room(&ring, promised);
		for (n = round % 5; n && promised; n--, promised--)
			produce(test, &ring, 1);
		for (n = round % 6; n; n--)
			__ptr_ring_consume(&ring);
	}
	produce(test, &ring, promised);
	ptr_ring_cleanup(&ring, NULL);
}

static void unconsumed_and_resized(struct kunit *test)
{
	struct ptr_ring ring;
	void *back[3];

	init_ring(test, &ring, 64);
	produce(test, &ring, 10);
	KUNIT_ASSERT_EQ(test, __ptr_ring_consume_batched(&ring, back, 3), 3);
	ptr_ring_unconsume(&ring, back, 3, NULL);

	KUNIT_ASSERT_EQ(test,
			ptr_ring_resize(&ring, 10, GFP_KERNEL, NULL), 0);
	expect_room(test, &ring, 0);
	ptr_ring_cleanup(&ring, NULL);
}

static struct kunit_case ptr_ring_cases[] = {
	KUNIT_CASE(empty_and_full),
	KUNIT_CASE(one_entry),
	KUNIT_CASE(no_entry),
	KUNIT_CASE(batch_takes_room),
	KUNIT_CASE(indices_wrap),
	KUNIT_CASE(promises_hold),
	KUNIT_CASE(unconsumed_and_resized),
	{}
};

static struct kunit_suite ptr_ring_suite = {
	.name = "ptr_ring",
	.test_cases = ptr_ring_cases,
};

kunit_test_suite(ptr_ring_suite);

MODULE_DESCRIPTION("KUnit tests of ptr_ring");
MODULE_LICENSE("GPL");
