// SPDX-License-Identifier: GPL-2.0-or-later
/* hook.c: whether a device is served, and the hook removed, whatever ftrace answers. */
#include <setjmp.h>

#include "examples.h"

#undef schedule_timeout_idle
#define schedule_timeout_idle(ticks)	sleep_for_ever(ticks)
#define MAX_SCHEDULE_TIMEOUT		LONG_MAX
static void sleep_for_ever(long ticks);
#include "hook.c"

static jmp_buf before_sleep;
static int sleeps;

static void sleep_for_ever(long ticks)
{
	if (ticks != MAX_SCHEDULE_TIMEOUT || ++sleeps == 2)
		longjmp(before_sleep, 1);
}

/* Whether it returns: where the hook cannot be removed it sleeps, again and again. */
bool hook_is_removed(void)
{
	sleeps = 0;
	if (setjmp(before_sleep))
		return false;
	sluice_hook_remove();
	return true;
}

void hook_is_forgotten(void)
{
	hooked = 0;
	sluice_holds_closed = false;
	transmit_hook.filter = resize_hook.filter = 0;
	memset(&tracer, 0, sizeof(tracer));
}

static void places(void)
{
	static const struct {
		struct tracer places, removes;	/* what ftrace answers */
		bool unlocked_reset, served, holds_closed, removed;
	} cases[] = {
		{ { }, { }, false, true, false, true },
		{ { .filter_error = -12 } },
		{ { .filter_error = -22 } },
		{ { .register_error = -16 } },
		/* the first instruction is not the one that is patched (arm64 before 5.18) */
		{ { .patched_at = 4 }, { }, false, true, false, true },
		{ { .patched_at = 8 }, { }, false, true, false, true },
		{ { .patched_at = 12 } },
		{ { .patched_at = 8, .register_error = -16 } },
		/* ftrace has shut down */
		{ { }, { .unregister_error = -19 }, false, true },
		/* it asks for memory to empty the filter, but not for ever */
		{ { }, { .no_memory = 2 }, false, true, false, true },
		{ { .register_error = -16, .no_memory = 2 } },
		/* closed queues are reset unlocked: if that cannot be seen the device is served */
		{ { }, { }, true, true, true, true },
		{ { .resize_filter_error = -19 }, { }, true, true, false, true },
		{ { .resize_error = -16 }, { }, true, true, false, true },
		{ { }, { .resize_error = -19 }, true, true, true },
	};
	const char *reason;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		fresh();
		sluice_locked_reset = !cases[i].unlocked_reset;
		tracer = cases[i].places;
		UNDER_RTNL(reason = sluice_hook_place(&tun->dev));
		EXPECT_OF(i, reason && *reason, !cases[i].served);
		EXPECT_OF(i, !!tracer.callback, cases[i].served);
		EXPECT_OF(i, complaints, !cases[i].served);
		EXPECT_OF(i, sluice_holds_closed, cases[i].holds_closed);
		EXPECT_OF(i, !!tracer.resize, cases[i].holds_closed);
		EXPECT_OF(i, transmit_hook.filter != 0, cases[i].served);
		EXPECT_OF(i, resize_hook.filter != 0, cases[i].holds_closed);
		if (!cases[i].served) {
			EXPECT_OF(i, hook_is_removed(), true);
			continue;
		}
		tracer.unregister_error = cases[i].removes.unregister_error;
		tracer.resize_error = cases[i].removes.resize_error;
		tracer.no_memory = cases[i].removes.no_memory;
		EXPECT_OF(i, hook_is_removed(), cases[i].removed);
		EXPECT_OF(i, tracer.callback || tracer.resize, !cases[i].removed);
		EXPECT_OF(i, transmit_hook.filter || resize_hook.filter, !cases[i].removed);
	}
	sluice_locked_reset = true;
}

/* One hook for all devices of a driver. */
static void devices_of_a_driver(void)
{
	struct net_device_ops others = { .ndo_start_xmit = fresh };
	const char *reason;

	fresh();
	for (int i = 0; i < 3; i++) {
		UNDER_RTNL(reason = sluice_hook_place(&tun->dev));
		EXPECT_OF(i, !reason, i < 2);
		if (i == 1)
			tun->dev.netdev_ops = &others;
	}
	EXPECT(hook_is_removed(), true);
	UNDER_RTNL(reason = sluice_hook_place(&tun->dev));	/* now there is none */
	EXPECT(!reason, true);
	tracer.no_memory = CLEAR_TRIES + 1;
	EXPECT(hook_is_removed(), true);
	EXPECT(tracer.no_memory, 1);
}

/* The callback, for a packet of a ring beyond its limit, and for another. */
static void callbacks(void)
{
	static const struct { int producer; u16 queue; bool stops; } cases[] = {
		{ 30, 0, false }, { 95, 0, true }, { 95, 1, false },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sk_buff skb = { .queue_mapping = cases[i].queue };
		struct ftrace_regs regs;

		fresh();
		set_ring(SIZE, 0, 0, cases[i].producer);
		regs = (struct ftrace_regs){ .argument = { &skb, &tun->dev } };
		transmit_hook.func(1, 2, &transmit_hook, &regs);
		EXPECT_OF(i, is_stopped(0), cases[i].stops);
		regs = (struct ftrace_regs){ .argument = { &tun->dev, (void *)1 } };
		resize_hook.func(1, 2, &resize_hook, &regs);
		EXPECT_OF(i, is_stopped(1), true);
	}
	EXPECT(transmit_hook.flags, SLUICE_FTRACE_FLAGS);
	EXPECT(resize_hook.flags, SLUICE_FTRACE_FLAGS);
}

void hook_examples(void)
{
	places();
	devices_of_a_driver();
	callbacks();
}
