// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: whom main.c refuses, and in which order it starts and ends. */
static bool preempt_rt;
static unsigned int hrtimer_resolution;
static const char *start_fails;

/* What a step of the start answers: it fails once it is named. */
static int start_step(const char *name)
{
	note("%s;", name);
	return start_fails && !strcmp(name, start_fails) ? -EIO : 0;
}

static int ring_tested(void) { return start_step("ring"); }
static int reset_tested(void) { return start_step("reset"); }
static int layout_learned(void) { return start_step("layout"); }
static int devices_started(void) { return start_step("devices"); }
static int netlink_started(void) { return start_step("netlink"); }
static void events_started(void) { note("events;"); }
static void devices_stopped(void) { note("no devices;"); }
static void netlink_stopped(void) { note("no netlink;"); }
static void backstop_stopped(void) { note("no backstop;"); }
static void events_stopped(void) { note("no events;"); }

struct kernel_param {
	const char *name;
	void *arg;
};

struct kernel_param_ops {
	int (*set)(const char *text, const struct kernel_param *param);
	int (*get)(char *text, const struct kernel_param *param);
};

static int param_get_uint(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%u\n", *(uint *)param->arg);
}

static int kstrtouint(const char *text, unsigned int base, uint *to)
{
	char *end;
	long value = strtol(text, &end, base);

	if (end == text || *end || value < 0)
		return -EINVAL;
	*to = value;
	return 0;
}

#define sluice_selftest_ring	ring_tested
#define sluice_selftest_reset	reset_tested
#define sluice_layout_learn	layout_learned
#define sluice_devices_start	devices_started
#define sluice_netlink_start	netlink_started
#define sluice_events_start	events_started
#define sluice_devices_stop	devices_stopped
#define sluice_netlink_stop	netlink_stopped
#define sluice_backstop_stop	backstop_stopped
#define sluice_events_stop	events_stopped
#undef IS_ENABLED
#define IS_ENABLED(option)	preempt_rt
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
#undef sluice_selftest_ring
#undef sluice_selftest_reset
#undef sluice_layout_learn
#undef sluice_devices_start
#undef sluice_netlink_start
#undef sluice_events_start
#undef sluice_devices_stop
#undef sluice_netlink_stop
#undef sluice_backstop_stop
#undef sluice_events_stop

static void parameters_within_their_ranges(void)
{
	static const struct {
		const char *text;
		int err;
		uint holds;
	} writes[] = {
		{ "1", 0, 1 }, { "0", -EINVAL, 1 }, { "60001", -EINVAL, 1 },
		{ "60000", 0, 60000 }, { "0x10", 0, 16 }, { "1s", -EINVAL, 16 },
		{ "", -EINVAL, 16 }, { "-1", -EINVAL, 16 }, { "250", 0, 250 },
	};
	const struct kernel_param param = { "stall_ms", &sluice_default_stall_ms };

	for (size_t i = 0; i < sizeof(writes) / sizeof(*writes); i++) {
		EXPECT(stall_ms_ops.set(writes[i].text, &param), writes[i].err);
		EXPECT(sluice_default_stall_ms, writes[i].holds);
	}
	EXPECT_LOG("complain;complain;");
}

static void starts(void)
{
	hrtimer_resolution = 1;
	EXPECT(sluice_start(), 0);
	EXPECT_LOG("ring;reset;layout;devices;netlink;events;");
	sluice_end();
	EXPECT_LOG("no events;no netlink;no devices;no backstop;");

	/* with highres=off a timer is as coarse as a tick */
	hrtimer_resolution = 4 * MS;
	EXPECT(sluice_start(), -ENODEV);
	EXPECT_LOG("complain;");
	hrtimer_resolution = 100 * US + 1;
	EXPECT(sluice_start(), -ENODEV);
	EXPECT_LOG("complain;");
	hrtimer_resolution = 100 * US;
	EXPECT(sluice_start(), 0);
	EXPECT_LOG("ring;reset;layout;devices;netlink;events;");

	preempt_rt = true;
	EXPECT(sluice_start(), -ENODEV);
	EXPECT_LOG("");
	preempt_rt = false;
}

static void starts_that_fail(void)
{
	static const struct {
		const char *step, *log;
	} failures[] = {
		{ "ring", "ring;" },
		{ "reset", "ring;reset;" },
		{ "layout", "ring;reset;layout;" },
		{ "devices", "ring;reset;layout;devices;no backstop;" },
		{ "netlink", "ring;reset;layout;devices;netlink;no devices;no backstop;" },
	};

	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		start_fails = failures[i].step;
		EXPECT(sluice_start(), -EIO);
		EXPECT_LOG(failures[i].log);
	}
	start_fails = NULL;
}
