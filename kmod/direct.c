// SPDX-License-Identifier: GPL-2.0-only
/*
 * The direct call: the driver's transmit function calls us itself, at less
 * cost than through ftrace's callback.
 *
 * It calls entry_....S, the same with every compiler. At its first instruction
 * a function relies on its arguments, on the callee-saved registers and on the
 * stack; the entry must preserve these. It is tested on a packet and a device
 * of our own before the driver may call it.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/sch_generic.h>

#include "entry.h"
#include "direct.h"

#ifdef SLUICE_CALLS_DIRECTLY

/* In the order of sluice_entry_try(); the packet and the device come first. */
static const char * const preserved[] = {
#ifdef CONFIG_X86_64
	"rdi", "rsi", "rbx", "rbp", "r12", "r13", "r14", "r15",
#else
	"x0", "x1", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
	"x27", "x28", "x29", "x30",
#endif
};

/* Called for each packet: keep it short. */
void notrace sluice_entered(const struct sk_buff *skb,
			    const struct net_device *dev)
{
	struct sluice_queue *q = queue_to_check(skb, dev);

	if (unlikely(q))
		sluice_queue_check(q);
}

/* The first register that the entry did not preserve, or NULL. */
static const char *find_changed(const struct sk_buff *skb,
				const struct net_device *dev)
{
	unsigned long before[ARRAY_SIZE(preserved)];
	unsigned long after[ARRAY_SIZE(preserved)];
	unsigned int i;

	for (i = 2; i < ARRAY_SIZE(preserved); i++)
		before[i] = 0x0123456789abcdef * (i + 1);
	before[0] = (unsigned long)skb;
	before[1] = (unsigned long)dev;
	memcpy(after, before, sizeof(after));

	local_bh_disable();	/* as whoever transmits */
	sluice_entry_try(after);
	local_bh_enable();

	for (i = 0; i < ARRAY_SIZE(preserved); i++)
		if (after[i] != before[i])
			return preserved[i];
	return NULL;
}

/* A packet, and a device with one queue, that are never registered. */
struct trial {
	struct sk_buff skb;
	struct net_device dev;
	struct netdev_queue txq;
	struct ptr_ring ring;
	void *slot;
};

/*
 * Does the entry preserve what it must, on the path with a check of the ring
 * and on the path without? The device is not served, so the check returns at
 * once. The backstop may see the device in the table.
 */
static const char *try_device(struct trial *trial, struct sluice_device *device)
{
	struct sluice_queue *q = &device->queue[0];
	const char *changed;

	device->dev = &trial->dev;
	device->queues = 1;
	q->device = device;
	raw_spin_lock_init(&q->lock);
	q->txq = &trial->txq;
	rcu_assign_pointer(trial->txq.qdisc, &noop_qdisc);
	q->slot = &trial->slot;
	q->ring = &trial->ring;
	trial->slot = trial;
	trial->ring.size = 64;
	q->size = 64;
	hash_add_rcu(sluice_devices, &device->node, (unsigned long)&trial->dev);

	changed = find_changed(&trial->skb, &trial->dev);
	if (!changed) {
		q->file = trial;
		WARN_ON_ONCE(queue_to_check(&trial->skb, &trial->dev));
		changed = find_changed(&trial->skb, &trial->dev);
	}
	hash_del_rcu(&device->node);
	return changed;
}

/* Context: process, without RTNL. */
static bool entry_preserves(void)
{
	struct sluice_device *device;
	struct trial *trial;
	const char *changed = "registers (no memory to try it)";

	trial = kzalloc(sizeof(*trial), GFP_KERNEL);
	device = kzalloc(struct_size(device, queue, 1), GFP_KERNEL);
	if (trial && device) {
		rtnl_lock();
		changed = try_device(trial, device);
		rtnl_unlock();
		synchronize_rcu();	/* for readers of the table */
	}
	kfree(device);
	kfree(trial);
	if (changed)
		pr_notice("direct call: not used, as the entry is not known to preserve %s; ftrace calls back instead\n",
			  changed);
	return !changed;
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
 * Nobody calls this. While the direct call is in use the callback is attached
 * here: it is registered as permanent, so ftrace cannot be switched off, which
 * would remove the direct call as well.
 */
static noinline __used void ftrace_pin_target(void)
{
}

static struct ftrace_ops *callback_hook;
static unsigned long called_from;	/* the transmit function, if it calls us */
static unsigned long wanted_from;

/*
 * Replace the callback, which is in place, by the direct call. The callback
 * stays if the function has a direct call already, such as BPF's fentry.
 *
 * Context: process, without RTNL: it may wait until each task has slept once.
 */
static void call_directly(struct work_struct *unused)
{
	int err = -EINVAL;

	if (entry_preserves()) {
		err = ftrace_set_filter_ip(&direct_call, wanted_from, 0, 0) ?:
		      sluice_direct_register(&direct_call, wanted_from,
					     (unsigned long)sluice_entry);
		if (err)
			pr_info("direct call: refused by ftrace (%d), who else traces %ps? ftrace calls back instead\n",
				err, (void *)wanted_from);
	}
	if (!err) {
		pr_info("hook: direct call\n");
		called_from = wanted_from;
		ftrace_set_filter_ip(callback_hook,
				     (unsigned long)ftrace_pin_target, 0, 1);
	} else {
		sluice_clear_filter(&direct_call);
	}
	WRITE_ONCE(sluice_direct_call, !err);
}

static DECLARE_WORK(direct_call_work, call_directly);

/**
 * sluice_direct_start() - let the transmit function call us, from a work item
 * @callback: the ops that is called back until then, and if it cannot be
 * @transmit: the transmit function
 *
 * Context: process, RTNL.
 */
void sluice_direct_start(struct ftrace_ops *callback, unsigned long transmit)
{
	if (!sluice_direct_call)
		return;
	callback_hook = callback;
	wanted_from = transmit;
	queue_work(system_long_wq, &direct_call_work);
}

/**
 * sluice_direct_stop() - remove the direct call
 *
 * Context: process, module unload only, without RTNL.
 * Return: false if ftrace could not take the call out.
 */
bool sluice_direct_stop(void)
{
	int err;

	cancel_work_sync(&direct_call_work);
	if (!called_from)
		return true;
	err = sluice_direct_unregister(&direct_call, called_from,
				       (unsigned long)sluice_entry);
	if (!err)	/* see remove_callback() */
		sluice_clear_filter(&direct_call);
	synchronize_rcu();	/* for senders that are in there, with BH off */
	return !err;
}

#endif
