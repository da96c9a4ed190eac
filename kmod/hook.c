// SPDX-License-Identifier: GPL-2.0-only
/*
 * How sluice gets to see a packet before the driver does: through ftrace, at
 * the entry of the driver's transmit function, and nowhere else. That only
 * reports the event; queue.c decides.
 */
#include <linux/ftrace.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>

#include "compat.h"
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

static const char *place_callback(unsigned long transmit)
{
	int err = ftrace_set_filter_ip(&transmit_hook, transmit, 0, 0);

	if (err) {
		pr_err("tun: %ps cannot be traced (%d)\n", (void *)transmit, err);
		return "transmit function cannot be traced";
	}
	err = register_ftrace_function(&transmit_hook);
	if (err) {
		ftrace_set_filter(&transmit_hook, NULL, 0, 1);
		pr_err("ftrace refuses the hook (%d); is kernel.ftrace_enabled 0?\n",
		       err);
		return "ftrace refuses the hook";
	}
	return NULL;
}

static void remove_callback(void)
{
	unregister_ftrace_function(&transmit_hook);
	/* The filter keeps its memory until it is empty. */
	ftrace_set_filter(&transmit_hook, NULL, 0, 1);
}

#ifdef SLUICE_FTRACE_CALLS_DIRECTLY
/*
 * What the driver's first instruction calls must leave each register as it
 * was. Whoever calls a common function has to save all of them, and so has
 * this, once in many packets.
 */
static noinline __no_caller_saved_registers void notrace
check_called(struct sluice_queue *q)
{
	sluice_queue_check(q);
}

static __no_caller_saved_registers void notrace
transmit_called(const struct sk_buff *skb, const struct net_device *dev)
{
	struct sluice_queue *q = queue_to_check(skb, dev);

	if (unlikely(q))
		check_called(q);
}

#ifdef SLUICE_DIRECT_SHARES
/* We return to a live patch as well as to the function it patches. */
static int share_with_live_patch(struct ftrace_ops *ops, SLUICE_OPS_FUNC_IP
				 enum ftrace_ops_cmd cmd)
{
	return 0;
}

static struct ftrace_ops direct_call = { .ops_func = share_with_live_patch };
#else
static struct ftrace_ops direct_call;
#endif

/*
 * Nobody calls this. The callback waits here while the driver calls us: it is
 * registered as permanent, so that ftrace cannot be switched off, and a direct
 * call with it.
 */
static noinline __used void keeps_ftrace_on(void)
{
}

static bool called_directly;

/*
 * The callback is in place, and moves out of the way. It stays if the function
 * calls somebody else already, as BPF's fentry programs have it.
 *
 * Context: process, without RTNL: it may wait until each task has slept once.
 */
static void call_directly(struct work_struct *unused)
{
	called_directly =
		!ftrace_set_filter_ip(&direct_call, hooked, 0, 0) &&
		!sluice_direct_register(&direct_call, hooked,
					(unsigned long)transmit_called);
	if (called_directly)
		ftrace_set_filter_ip(&transmit_hook,
				     (unsigned long)keeps_ftrace_on, 0, 1);
	else
		ftrace_set_filter(&direct_call, NULL, 0, 1);
	WRITE_ONCE(sluice_direct_call, called_directly);
}

static DECLARE_WORK(direct_call_work, call_directly);

static void start_direct_call(void)
{
	if (sluice_direct_call)
		queue_work(system_long_wq, &direct_call_work);
}

static void stop_direct_call(void)
{
	cancel_work_sync(&direct_call_work);
	if (!called_directly)
		return;
	sluice_direct_unregister(&direct_call, hooked,
				 (unsigned long)transmit_called);
	ftrace_set_filter(&direct_call, NULL, 0, 1);
	synchronize_rcu();	/* for senders that are in there, with BH off */
}
#else
static void start_direct_call(void)
{
	sluice_direct_call = false;
}

static void stop_direct_call(void)
{
}
#endif

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
	start_direct_call();
	return NULL;
}

/**
 * sluice_hook_remove() - no sender is in our code once this returns
 *
 * Context: process, module unload only, without RTNL.
 */
void sluice_hook_remove(void)
{
	if (!hooked)
		return;
	stop_direct_call();
	remove_callback();
	hooked = 0;
}
