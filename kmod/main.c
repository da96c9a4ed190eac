// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice - backpressure for TUN/TAP and vhost-net on top of the stock drivers.
 *
 * Load and unload. Unload runs in the reverse order: when it returns no
 * queue is stopped by us and the stock driver is alone again.
 */
#include <linux/module.h>

#include "sluice.h"

/* At load and for a write to sysfs alike: what is not accepted fails both. */
static int set_within(const char *text, const struct kernel_param *param,
		      uint min, uint max)
{
	uint value;
	int err;

	err = kstrtouint(text, 0, &value);
	if (err)
		return err;
	if (value < min || value > max) {
		pr_err("%s=%u: not accepted, the range is %u to %u\n",
		       param->name, value, min, max);
		return -EINVAL;
	}
	WRITE_ONCE(*(uint *)param->arg, value);
	return 0;
}

#define OPS_WITHIN(name, min, max)					\
	static int set_##name(const char *text,				\
			      const struct kernel_param *param)		\
	{								\
		return set_within(text, param, min, max);		\
	}								\
	static const struct kernel_param_ops name##_ops = {		\
		.set = set_##name,					\
		.get = param_get_uint,					\
	}

bool sluice_default_on = true;
module_param_named(default_on, sluice_default_on, bool, 0644);
MODULE_PARM_DESC(default_on, "serve devices that appear from now on (1)");

uint sluice_default_stall_ms = 250;
OPS_WITHIN(stall_ms, 1, SLUICE_STALL_MS_MAX);
module_param_cb(stall_ms, &stall_ms_ops, &sluice_default_stall_ms, 0644);
__MODULE_PARM_TYPE(stall_ms, "uint");
MODULE_PARM_DESC(stall_ms, "longest stop in ms; a reader of fewer than 50 packets in that time is stalled (250)");

uint sluice_default_low_percent = 50;
OPS_WITHIN(low_percent, 0, SLUICE_LOW_PERCENT_MAX);
module_param_cb(low_percent, &low_percent_ops, &sluice_default_low_percent,
		0644);
__MODULE_PARM_TYPE(low_percent, "uint");
MODULE_PARM_DESC(low_percent, "low watermark in % of where the queue stops (50)");

uint sluice_default_target_us = 2000;
OPS_WITHIN(target_us, 0, SLUICE_TARGET_US_MAX);
module_param_cb(target_us, &target_us_ops, &sluice_default_target_us, 0644);
__MODULE_PARM_TYPE(target_us, "uint");
MODULE_PARM_DESC(target_us, "us of packets a ring holds, 0: the whole ring (2000)");

bool sluice_direct_call = true;
module_param_named(direct_call, sluice_direct_call, bool, 0444);
MODULE_PARM_DESC(direct_call, "the driver calls us itself, at less cost, if it can (1)");

static void say_loaded(void)
{
	pr_info("version %s, hook: %s, default_on=%d stall_ms=%u low_percent=%u target_us=%u\n",
		THIS_MODULE->version,
		sluice_direct_call ? "direct call if possible" :
				     "ftrace callback",
		sluice_default_on, sluice_default_stall_ms,
		sluice_default_low_percent, sluice_default_target_us);
}

static int __init sluice_start(void)
{
	int err;

	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		pr_notice("PREEMPT_RT: the headroom cannot be bounded, so sluice serves no device of this kernel; stock behaviour remains\n");
		return -ENODEV;
	}
	if (hrtimer_resolution > SLUICE_TIMER_RESOLUTION_MAX_NS) {
		pr_err("timers have a resolution of %u ns (highres=off?), coarser than the %u ns that sluice needs; stock behaviour remains\n",
		       hrtimer_resolution, SLUICE_TIMER_RESOLUTION_MAX_NS);
		return -ENODEV;
	}
	err = sluice_selftest_ring();
	if (err)
		return err;
	err = sluice_selftest_reset();
	if (err)
		return err;
	err = sluice_layout_learn();
	if (err)
		return err;
	err = sluice_devices_start();
	if (err) {
		sluice_backstop_stop();
		return err;
	}
	err = sluice_netlink_start();
	if (err) {
		sluice_devices_stop();
		sluice_backstop_stop();
		return err;
	}
	sluice_events_start();
	say_loaded();
	return 0;
}

static void __exit sluice_end(void)
{
	sluice_events_stop();
	sluice_netlink_stop();
	sluice_devices_stop();
	sluice_backstop_stop();
}

module_init(sluice_start);
module_exit(sluice_end);
MODULE_DESCRIPTION("backpressure for TUN/TAP and vhost-net on the stock drivers");
MODULE_AUTHOR("The sluice developers");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("GPL");
MODULE_INFO(features, SLUICE_FEATURES);	/* of the kernel, see features.sh */
