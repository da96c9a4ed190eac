// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * direct.c: when the direct call is used, and that a register which the entry does not
 * preserve is found. sluice_entry_try() is a function of C here: which registers
 * entry_....S really preserves is seen in the kernel alone.
 */
#include "examples.h"
#include "direct.c"

/* In the order in which entry_x86.S stores them. */
static const char * const names[] = {
	"rdi", "rsi", "rbx", "rbp", "r12", "r13", "r14", "r15",
};
static int clobbered, clobbered_at, tries;

/* The backstop looks at each queue of the table. */
static void visit_device(const struct net_device *of)
{
	struct sluice_device *known = sluice_device_find(of);
	bool stopped = false;

	if (!known || known == device)
		return;
	sluice_queue_rescue(&known->queue[0], &stopped);
	if (stopped || known->queues != 1 || known->queue[0].txq->qdisc != &noop_qdisc)
		fail("the device of the trial is no device");
}

/* The entry: it calls what the real one calls, and may change a register. */
void sluice_entry_try(unsigned long *registers)
{
	const struct sk_buff *skb = (void *)registers[0];
	const struct net_device *of = (void *)registers[1];

	if (!read_sides)
		fail("the entry is tried where senders never call it");
	for (int i = 2; i < (int)ARRAY_SIZE(names); i++)
		if (registers[i] != 0x0123456789abcdef * (i + 1))
			fail("register %d holds no pattern of its own", i);
	visit_device(of);
	/* once on the path with a check of the ring, once on that without */
	if (sluice_device_find(of) != device && !!queue_to_check(skb, of) != !tries)
		fail("the entry is not tried on both paths");
	sluice_entered(skb, of);
	if (tries++ == clobbered_at)
		registers[clobbered] ^= 1;
}

void sluice_entry(void) { }

/* The hook is placed, and the direct call tried. */
static void try_direct_call(void)
{
	fresh();
	direct_call.filter = 0;
	called_from = 0;
	tries = 0;
	direct_call_work.queued = false;
	sluice_direct_call = true;
}

static void registers(void)
{
	struct sk_buff skb = { .queue_mapping = 0 };

	fresh();
	EXPECT(ARRAY_SIZE(preserved), ARRAY_SIZE(names));
	for (clobbered = 0; clobbered < (int)ARRAY_SIZE(names); clobbered++) {
		for (clobbered_at = 0; clobbered_at < 3; clobbered_at++) {
			tries = 0;
			EXPECT_OF(clobbered, entry_preserves(), clobbered_at == 2);
		}
		clobbered_at = tries = 0;
		EXPECT_OF(clobbered, strcmp(find_changed(&skb, &tun->dev), names[clobbered]), 0);
	}
	clobbered_at = -1;
	EXPECT(find_changed(&skb, &tun->dev) == NULL, true);
	EXPECT(sluice_devices[0].first == &device->node && !device->node.next &&
	       !sluice_devices[1].first, true);
}

static void direct_calls(void)
{
	static const struct {
		struct tracer answers;
		int refused_allocation, clobbered_at;
		bool asked, used, removed;
	} cases[] = {
		{ { }, 0, -1, true, true, true },
		{ { }, 0, -1, false, false, true },
		{ { }, 0, 1, true, false, true },
		{ { }, 1, -1, true, false, true },	/* no memory */
		{ { }, 2, -1, true, false, true },
		{ { .direct_filter_error = -22 }, 0, -1, true, false, true },
		{ { .direct_error = -16 }, 0, -1, true, false, true },	/* somebody else has it */
		{ { .undirect_error = -19 }, 0, -1, true, true, false },
		{ { .unregister_error = -19 }, 0, -1, true, true, false },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		try_direct_call();
		sluice_direct_call = cases[i].asked;
		tracer = cases[i].answers;
		refused_allocation = cases[i].refused_allocation;
		clobbered = ARRAY_SIZE(names) - 1;
		clobbered_at = cases[i].clobbered_at;
		UNDER_RTNL(sluice_hook_place(&tun->dev));
		EXPECT_OF(i, tracer.callback->filter, transmit_ip());
		EXPECT_OF(i, run_work(&direct_call_work), cases[i].asked);
		EXPECT_OF(i, sluice_direct_call, cases[i].used);
		EXPECT_OF(i, !!tracer.direct, cases[i].used);
		EXPECT_OF(i, direct_call.filter != 0, cases[i].used);
		/* the callback stays registered, but is called no more */
		EXPECT_OF(i, tracer.callback->filter == transmit_ip(), !cases[i].used);
		EXPECT_OF(i, hook_is_removed(), cases[i].removed);
		EXPECT_OF(i, tracer.direct || tracer.callback, !cases[i].removed);
		EXPECT_OF(i, direct_call.filter != 0, !!tracer.direct);
	}
	try_direct_call();	/* unloaded before it was tried */
	UNDER_RTNL(sluice_hook_place(&tun->dev));
	EXPECT(hook_is_removed(), true);
	EXPECT(run_work(&direct_call_work), false);
}

void direct_examples(void)
{
	registers();
	direct_calls();
}
