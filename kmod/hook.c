// SPDX-License-Identifier: GPL-2.0-only
/*
 * How sluice gets to see a packet before the driver does: through ftrace, at
 * the entry of the driver's transmit function. The hook only reports that a
 * check is due; queue.c decides. direct.c does the same at less cost where the
 * kernel can. A second function is hooked where queues cannot be closed safely
 * otherwise, see resize_hook.
 */
#include <linux/ftrace.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/skbuff.h>

#include "compat.h"
#include "direct.h"
#include "entry.h"
#include "sluice.h"

static void notrace transmit_entered(unsigned long ip, unsigned long parent,
				     struct ftrace_ops *ops,
				     struct sluice_regs *regs)
{
	struct sluice_queue *q = queue_to_check(sluice_traced_arg(regs, 0),
						  sluice_traced_arg(regs, 1));

	if (q)
		sluice_queue_check(q);
}

static struct ftrace_ops transmit_hook = {
	.func = transmit_entered,
	.flags = SLUICE_FTRACE_FLAGS,
};

static unsigned long hooked;	/* the transmit function */

/*
 * Before aebfd12521d9 (5.18) ftrace accepts only the address of the instruction
 * that it patches. On arm64 that is the function's second instruction, or its
 * third if the first is BTI's.
 */
static int filter_function(struct ftrace_ops *ops, unsigned long function)
{
	unsigned long ip = function;
	int err;

	do {
		err = ftrace_set_filter_ip(ops, ip, 0, 0);
		ip += 4;
	} while (err == -EINVAL && ip <= function + 8);
	return err;
}

static const char *place_callback(unsigned long transmit)
{
	int err = filter_function(&transmit_hook, transmit);

	if (err) {
		pr_err_ratelimited("tun: %ps cannot be traced (%d)\n",
				   (void *)transmit, err);
		return "transmit function cannot be traced";
	}
	err = register_ftrace_function(&transmit_hook);
	if (err) {
		sluice_clear_filter(&transmit_hook);
		pr_err_ratelimited("ftrace refuses the hook (%d); is kernel.ftrace_enabled 0?\n",
				   err);
		return "ftrace refuses the hook";
	}
	return NULL;
}

static bool remove_callback(struct ftrace_ops *ops)
{
	int err = unregister_ftrace_function(ops);

	/* It keeps its memory until it is empty. In use it must not be: without
	 * a filter every function is traced.
	 */
	if (!err)
		sluice_clear_filter(ops);
	return !err;
}

/* The core changes how many queues a device has, any device. */
static void notrace queues_change(unsigned long ip, unsigned long parent,
				  struct ftrace_ops *ops,
				  struct sluice_regs *regs)
{
	sluice_device_resize(sluice_traced_arg(regs, 0),
			     (unsigned long)sluice_traced_arg(regs, 1));
}

static struct ftrace_ops resize_hook = {
	.func = queues_change,
	.flags = SLUICE_FTRACE_FLAGS,
};

/* Where a closed queue's qdisc is reset unlocked: see sluice_device_resize(). */
static void place_resize_hook(void)
{
	if (sluice_locked_reset ||
	    filter_function(&resize_hook,
			    (unsigned long)netif_set_real_num_tx_queues))
		return;
	if (register_ftrace_function(&resize_hook))
		sluice_clear_filter(&resize_hook);
	else
		WRITE_ONCE(sluice_holds_closed, true);
}

/**
 * sluice_hook_place() - hook the transmit function of a device
 * @dev: a device whose layout is verified
 *
 * The first device places the hook; all others share its driver, and so its
 * transmit function.
 *
 * Context: process, RTNL.
 * Return: NULL, or the reason why @dev cannot be served.
 */
const char *sluice_hook_place(const struct net_device *dev)
{
	unsigned long transmit = (unsigned long)dev->netdev_ops->ndo_start_xmit;
	const char *reason;

	ASSERT_RTNL();
	if (hooked)
		return hooked == transmit ? NULL :
		       "another transmit function is hooked already";

	reason = place_callback(transmit);
	if (reason)
		return reason;
	hooked = transmit;
	place_resize_hook();
	sluice_direct_start(&transmit_hook, transmit);
	if (!READ_ONCE(sluice_direct_call))
		pr_info("hook: ftrace callback\n");
	return NULL;
}

/*
 * After an internal error ftrace shuts itself down and patches no function any
 * more: the driver goes on calling us.
 */
static void stay_loaded(void)
{
	pr_crit("ftrace has shut down and cannot remove the hook; unloading waits until the next boot, so that the driver calls no freed memory\n");
	for (;;)
		schedule_timeout_idle(MAX_SCHEDULE_TIMEOUT);
}

/**
 * sluice_hook_remove() - no sender is in our code once this returns
 *
 * Does not return where the hook cannot be removed. The last thing done at
 * unload: nothing is served any more.
 *
 * Context: process, module unload only, without RTNL.
 */
void sluice_hook_remove(void)
{
	bool removed;

	if (!hooked)
		return;
	removed = sluice_direct_stop();
	removed &= remove_callback(&transmit_hook);
	if (sluice_holds_closed)
		removed &= remove_callback(&resize_hook);
	if (!removed)
		stay_loaded();
	hooked = 0;
}
