// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Part of examples.c: how direct.c tests the entry, and how it uses ftrace.
 * sluice_entry_try() is a function of C here: which registers entry_....S really
 * preserves is seen in the kernel alone.
 */
#define REGISTERS	((int)ARRAY_SIZE(preserved))

/* In the order in which entry_x86.S stores them. */
static const char * const names[] = {
	"rdi", "rsi", "rbx", "rbp", "r12", "r13", "r14", "r15",
};

static int clobbered, clobbered_at, tries;
static int direct_register_error, direct_unregister_error;
static bool *refuses_allocation;
static struct work_struct *started;
struct Qdisc noop_qdisc;

/* The backstop looks at each queue of the table. */
static void visit_device(const struct net_device *of)
{
	struct sluice_device *known = sluice_device_find(of);
	bool stopped = false;

	if (!known || of == &dev)
		return;
	EXPECT(known->queues, 1);
	sluice_queue_rescue(&known->queue[0], &stopped);
	EXPECT(stopped, false);
	EXPECT(known->queue[0].txq->qdisc == &noop_qdisc, true);
}

/* The entry: it calls what the real one calls, and may change a register. */
void sluice_entry_try(unsigned long *registers)
{
	const struct sk_buff *skb = (void *)registers[0];
	const struct net_device *of = (void *)registers[1];
	int i;

	note("try %d %d;", read_sides, !!queue_to_check(skb, of));
	for (i = 2; i < REGISTERS; i++)
		if (registers[i] != 0x0123456789abcdef * (i + 1))
			fail("register %d holds no pattern of its own", i);
	visit_device(of);
	sluice_entered(skb, of);
	if (tries++ == clobbered_at)
		registers[clobbered] ^= 1;
}

void sluice_entry(void) { }

bool start_work(struct work_struct *work, u64 after_ns)
{
	note("work %lu;", after_ns);
	if (work == &direct_call_work)	/* it may run from here on */
		EXPECT(wanted_from, 4711);
	started = work;
	return true;
}

bool cancel_work_sync(struct work_struct *work)
{
	note("no work %d;", work == &direct_call_work);
	return true;
}

int register_ftrace_direct(struct ftrace_ops *ops, unsigned long function)
{
	note("direct %d;", function == (unsigned long)sluice_entry);
	return ops == &direct_call ? direct_register_error : -1;
}

int unregister_ftrace_direct(struct ftrace_ops *ops, unsigned long function,
			     bool free_filters)
{
	note("no direct %d;", function == (unsigned long)sluice_entry);
	return ops == &direct_call ? direct_unregister_error : -1;
}

void wait_for_readers(void)
{
	note("grace;");
}

void release(void *memory)
{
	if (memory)
		note("free;");
	free(memory);
}

void *allocate_for_direct(size_t size)
{
	static bool second;

	EXPECT(size, second ? struct_size(device, queue, 1) : sizeof(struct trial));
	second = !second;
	return refuses_allocation && *refuses_allocation++ ? NULL : calloc(1, size);
}

#define FOUND	"rtnl 0;try 1 1;"
#define FREED	"unlock 0;grace;free;free;"
#define TRIED	FOUND "try 1 0;" FREED

static void entries_that_preserve(void)
{
	bool second[] = { false, true }, first[] = { true, false };
	struct sk_buff skb = { .queue_mapping = 0 };
	int i;

	sluice_devices[0].first = NULL;
	leaving = false;
	clobbered_at = -1;
	*text = '\0';
	EXPECT(REGISTERS, ARRAY_SIZE(names));
	EXPECT(entry_preserves(), true);
	EXPECT_LOG(TRIED);
	EXPECT(sluice_devices[0].first == NULL, true);
	for (i = 0; i < REGISTERS; i++) {
		clobbered = i;
		tries = clobbered_at = 0;
		EXPECT(entry_preserves(), false);
		EXPECT_LOG(FOUND FREED);
		clobbered_at = 1;
		tries = 0;
		EXPECT(entry_preserves(), false);
		EXPECT_LOG(TRIED);
		clobbered_at = tries = 0;
		EXPECT(strcmp(find_changed(&skb, &dev), names[i]), 0);
		*text = '\0';
	}
	EXPECT(sluice_devices[0].first == NULL, true);
	clobbered_at = -1;
	EXPECT(find_changed(&skb, &dev) == NULL, true);
	EXPECT_LOG("try 1 0;");

	refuses_allocation = first;
	EXPECT(entry_preserves(), false);
	refuses_allocation = second;
	EXPECT(entry_preserves(), false);
	refuses_allocation = NULL;
	EXPECT_LOG("free;free;");
}

/* What the entry calls, for a packet of a ring beyond its limit, and for another. */
static void direct_calls(void)
{
	struct sk_buff skb = { .queue_mapping = 0 };

	fresh();
	hash_add_rcu(sluice_devices, &device->node, 0);
	set_ring(100, 0, 0, 30);
	sluice_entered(&skb, &dev);
	*text = '\0';
	sluice_entered(&skb, &dev);
	EXPECT_LOG("");
	EXPECT(txqs[0].state, 0);
	set_ring(100, 0, 0, 95);
	sluice_entered(&skb, &dev);
	EXPECT(txqs[0].state, XOFF);
	sluice_devices[0].first = NULL;
	*text = '\0';
}

static void direct_calls_that_are_refused(void)
{
	sluice_direct_call = false;
	start_directly(&transmit_hook, 4711);
	EXPECT_LOG("");
	EXPECT(sluice_direct_call, false);
	EXPECT(stopped_directly(), true);
	EXPECT_LOG("no work 1;");

	sluice_direct_call = true;
	start_directly(&transmit_hook, 4711);
	EXPECT_LOG("work 0;");
	EXPECT(started == &direct_call_work, true);
	clobbered = REGISTERS - 1;
	clobbered_at = tries = 0;
	started->func(started);
	EXPECT_LOG(FOUND FREED "direct filter 0 0 1;");
	EXPECT(sluice_direct_call, false);

	clobbered_at = -1;
	direct_filter_error = -22;
	sluice_direct_call = true;
	started->func(started);
	EXPECT_LOG(TRIED "direct filter_ip 4711 0 0;direct filter 0 0 1;");
	EXPECT(sluice_direct_call, false);

	direct_filter_error = 0;
	direct_register_error = -16;	/* somebody else has it */
	sluice_direct_call = true;
	started->func(started);
	EXPECT_LOG(TRIED "direct filter_ip 4711 0 0;direct 1;direct filter 0 0 1;");
	EXPECT(sluice_direct_call, false);
	direct_register_error = 0;
	EXPECT(stopped_directly(), true);
	EXPECT_LOG("no work 1;");
}

static void direct_calls_that_are_placed(void)
{
	sluice_direct_call = true;
	start_directly(&transmit_hook, 4711);
	*text = '\0';
	started->func(started);
	EXPECT_LOG(TRIED "direct filter_ip 4711 0 0;direct 1;filter_ip 1 0 1;");
	EXPECT(sluice_direct_call, true);
	EXPECT(direct_call.ops_func(&direct_call, 4711, 0), 0);
	EXPECT(stopped_directly(), true);
	EXPECT_LOG("no work 1;no direct 1;direct filter 0 0 1;grace;");
	direct_unregister_error = -19;
	EXPECT(stopped_directly(), false);
	EXPECT_LOG("no work 1;no direct 1;grace;");
}

static void directs(void)
{
	entries_that_preserve();
	direct_calls();
	direct_calls_that_are_refused();
	direct_calls_that_are_placed();
}
