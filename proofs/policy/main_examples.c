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
