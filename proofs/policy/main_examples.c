// SPDX-License-Identifier: GPL-2.0-or-later
/* main.c: what it refuses, and what it leaves behind when a step of the start fails. */
#include <stdio.h>

#include "examples.h"

enum step { NO_STEP, RING, RESET, LAYOUT, DEVICES, NETLINK, EVENTS, BACKSTOP, STEPS };

static bool preempt_rt, begun[STEPS];
static unsigned int hrtimer_resolution;
static enum step fails;

static int begin(enum step step)
{
	begun[step] = step != fails;
	return step == fails ? -EIO : 0;
}

/* The start of @needs ends before it. */
static void end(enum step step, enum step needs)
{
	if (begun[needs])
		fail("step %d of the start is undone before step %d", step, needs);
	begun[step] = false;
}

struct kernel_param { const char *name; void *arg; };
struct kernel_param_ops {
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *text, const struct kernel_param *param);
};

static int kstrtouint(const char *text, unsigned int base, uint *to)
{
	char *end;
	long value = strtol(text, &end, base);

	if (end == text || *end || value < 0)
		return -EINVAL;
	*to = value;
	return 0;
}

#define param_get_uint			NULL
#define sluice_selftest_ring()		begin(RING)
#define sluice_selftest_reset()		begin(RESET)
#define sluice_layout_learn()		begin(LAYOUT)
#define sluice_devices_start()		begin(DEVICES)
#define sluice_netlink_start()		begin(NETLINK)
#define sluice_events_start()		begin(EVENTS)
#define sluice_events_stop()		end(EVENTS, NO_STEP)
#define sluice_netlink_stop()		end(NETLINK, EVENTS)
#define sluice_devices_stop()		end(DEVICES, NETLINK)
#define sluice_backstop_stop()		end(BACKSTOP, DEVICES)
#undef IS_ENABLED
#define IS_ENABLED(option)		preempt_rt
#define sluice_direct_call		is_called_directly
#define module_param_named(...)
#define module_param_cb(...)
#define __MODULE_PARM_TYPE(...)
#define module_init(function)
#define module_exit(function)
#define MODULE_PARM_DESC(...)
#define MODULE_DESCRIPTION(text)
#define MODULE_AUTHOR(text)
#define MODULE_VERSION(text)
#define MODULE_LICENSE(text)
#define MODULE_INFO(...)
#define __init
#define __exit
#include "main.c"

static void parameters(void)
{
	static const struct { const char *text; int err; uint holds; int complaints; } cases[] = {
		{ "1", 0, 1, 0 }, { "0", -EINVAL, 1, 1 }, { "60001", -EINVAL, 1, 2 },
		{ "60000", 0, 60000, 2 }, { "0x10", 0, 16, 2 }, { "1s", -EINVAL, 16, 2 },
		{ "", -EINVAL, 16, 2 }, { "-1", -EINVAL, 16, 2 }, { "250", 0, 250, 2 },
	};
	const struct kernel_param param = { "stall_ms", &sluice_default_stall_ms };

	complaints = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_OF(i, stall_ms_ops.set(cases[i].text, &param), cases[i].err);
		EXPECT_OF(i, sluice_default_stall_ms, cases[i].holds);
		EXPECT_OF(i, complaints, cases[i].complaints);
	}
}

static void starts(void)
{
	static const struct {
		unsigned int resolution;
		bool preempt_rt;
		enum step fails;
		int err;
	} cases[] = {
		{ 1, false, NO_STEP, 0 },
		{ 100 * US, false, NO_STEP, 0 },
		{ 100 * US + 1, false, NO_STEP, -ENODEV },
		{ 4 * MS, false, NO_STEP, -ENODEV },	/* a tick: highres=off */
		{ 1, true, NO_STEP, -ENODEV },
		{ 1, false, RING, -EIO }, { 1, false, RESET, -EIO }, { 1, false, LAYOUT, -EIO },
		{ 1, false, DEVICES, -EIO }, { 1, false, NETLINK, -EIO },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(begun, 0, sizeof(begun));
		begun[BACKSTOP] = true;	/* any device may start it */
		hrtimer_resolution = cases[i].resolution;
		preempt_rt = cases[i].preempt_rt;
		fails = cases[i].fails;
		EXPECT_OF(i, sluice_start(), cases[i].err);
		if (cases[i].fails < DEVICES)
			begun[BACKSTOP] = false;	/* none was there */
		for (enum step step = DEVICES; step < STEPS; step++)
			EXPECT_OF(i, begun[step], !cases[i].err && step != BACKSTOP);
		if (!cases[i].err)
			sluice_end();
		for (enum step step = DEVICES; step < STEPS; step++)
			EXPECT_OF(i, begun[step], false);
	}
}

void main_examples(void)
{
	parameters();
	starts();
}
