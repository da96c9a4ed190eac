// SPDX-License-Identifier: GPL-2.0-only
/*
 * sluice - lossless TUN/TAP and vhost-net on top of the stock drivers.
 *
 * Load and unload. Unload runs in the reverse order: when it returns no
 * queue is stopped by us and the stock driver is alone again.
 */
#include <linux/module.h>

#include "sluice.h"

bool sluice_default_on = true;
module_param_named(default_on, sluice_default_on, bool, 0644);
MODULE_PARM_DESC(default_on, "serve devices that appear from now on (1)");

uint sluice_default_stall_ms = 250;
module_param_named(stall_ms, sluice_default_stall_ms, uint, 0644);
MODULE_PARM_DESC(stall_ms, "longest stop in ms; a reader of fewer than 50 packets in that time is stalled (250)");

uint sluice_default_low_percent = 50;
module_param_named(low_percent, sluice_default_low_percent, uint, 0644);
MODULE_PARM_DESC(low_percent, "low watermark in % of where the queue stops (50)");

uint sluice_default_target_us = 2000;
module_param_named(target_us, sluice_default_target_us, uint, 0644);
MODULE_PARM_DESC(target_us, "us of packets a ring holds, 0: the whole ring (2000)");

bool sluice_direct_call = true;
module_param_named(direct_call, sluice_direct_call, bool, 0444);
MODULE_PARM_DESC(direct_call, "the driver calls us itself, at less cost, if it can (1)");

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
MODULE_DESCRIPTION("lossless TUN/TAP and vhost-net on the stock drivers");
MODULE_AUTHOR("The sluice developers");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("GPL");
MODULE_INFO(features, SLUICE_FEATURES);	/* of the kernel, see features.sh */
