// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which devices are served, from the moment they appear to their last.
 *
 * To a module that registers, the notifier chain reports each device there is
 * as registered and up; to one that leaves, as down and unregistered. So devices
 * that were there before us, module unload and namespace exit need no code of
 * their own. After each change of a device sluice_device_update() decides again
 * what we do for it.
 */
#include <linux/if_tun.h>
#include <linux/net.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#ifdef SLUICE_HAS_STOP_STATS
#include <net/netdev_queues.h>
#endif

#include "sluice.h"

#ifndef IFF_BACKPRESSURE
#define IFF_BACKPRESSURE 0x0080		/* tun: qdisc backpressure, 7.3 */
#endif

DEFINE_HASHTABLE(sluice_devices, SLUICE_DEVICES_BITS);
static bool leaving;

static bool is_tun(const struct net_device *dev)
{
	return dev->rtnl_link_ops && !strcmp(dev->rtnl_link_ops->kind, "tun");
}

/* The flags as the driver's own sysfs file tun_flags shows them, or -1. */
static long read_tun_flags(struct net_device *dev)
{
	const struct attribute_group *group = dev->sysfs_groups[0];
	struct attribute **attr;
	long flags = -1;
	char *text;

	if (!group || !group->attrs)
		return -1;
	for (attr = group->attrs; *attr; attr++)
		if (!strcmp((*attr)->name, "tun_flags"))
			break;
	text = *attr ? (char *)get_zeroed_page(GFP_KERNEL) : NULL;
	if (!text)
		return -1;
	if (dev->dev.kobj.ktype->sysfs_ops->show(&dev->dev.kobj, *attr, text) <= 0 ||
	    kstrtol(strim(text), 0, &flags))
		flags = -1;
	free_page((unsigned long)text);
	return flags;
}

/* A driver that counts its stops of a device has backpressure of its own: series/ */
static bool driver_counts_stops(struct net_device *dev)
{
#ifdef SLUICE_HAS_STOP_STATS
	struct netdev_queue_stats_tx tx;

	memset(&tx, 0xff, sizeof(tx));	/* it leaves what it does not count */
	if (dev->stat_ops && dev->stat_ops->get_queue_stats_tx)
		dev->stat_ops->get_queue_stats_tx(dev, 0, &tx);
	return tx.stop != U64_MAX;
#else
	return false;
#endif
}

/* The layout is verified once per device; each new ring again, by queue.c. */
static bool device_verify(struct sluice_device *device)
{
	unsigned int id;
	const char *why = "";

	if (device->verified)
		return true;
	for (id = 0; id < device->dev->real_num_tx_queues && why && !*why; id++)
		why = sluice_layout_check(device->queue[id].slot);
	if (!why)
		why = sluice_hook_place(device->dev);
	device->verified = !why;
	device->reason = why && *why ? why : NULL;
	return device->verified;
}

static enum sluice_device_state device_state(struct sluice_device *device)
{
	long flags;

	if (!device_verify(device))
		return device->reason ? SLUICE_DEVICE_REFUSED :
					SLUICE_DEVICE_UNREAD;
	flags = read_tun_flags(device->dev);
	device->reason = flags < 0 ? "its tun_flags cannot be read" : NULL;
	if (flags < 0)
		return SLUICE_DEVICE_REFUSED;
	if (flags & IFF_BACKPRESSURE || driver_counts_stops(device->dev))
		return SLUICE_DEVICE_UPSTREAM;
	if (!device->on)
		return SLUICE_DEVICE_OFF;
	return netif_running(device->dev) ? SLUICE_DEVICE_SERVED :
					    SLUICE_DEVICE_DOWN;
}

static void device_enter(struct sluice_device *device,
			 enum sluice_device_state state)
{
	bool served = state == SLUICE_DEVICE_SERVED;
	unsigned int id;

	if (state == SLUICE_DEVICE_REFUSED && device->state != state &&
	    net_ratelimit())
		netdev_warn(device->dev, "sluice: %s; stock behaviour remains\n",
			    device->reason);
	device->state = state;
	for (id = 0; id < device->queues; id++)
		if (served)
			sluice_queue_opened(&device->queue[id]);
		else
			sluice_queue_closed(&device->queue[id]);
}

/**
 * sluice_device_update() - decide again what is done for a device
 * @device: something about it changed
 *
 * Context: process, RTNL.
 */
void sluice_device_update(struct sluice_device *device)
{
	ASSERT_RTNL();
	device_enter(device, device_state(device));
}

static void settings_merge(struct sluice_settings *to,
			   const struct sluice_settings *from)
{
	if (from->given & SLUICE_SETTING_ON)
		to->on = from->on;
	if (from->given & SLUICE_SETTING_STALL_MS)
		to->stall_ms = from->stall_ms;
	if (from->given & SLUICE_SETTING_LOW_PERCENT)
		to->low_percent = from->low_percent;
	if (from->given & SLUICE_SETTING_LIMIT)
		to->limit = from->limit;
	if (from->given & SLUICE_SETTING_TARGET_US)
		to->target_us = from->target_us;
}

/**
 * sluice_device_configure() - find out the settings of a device and apply them
 * @device: it is new or renamed, or one of the following has changed
 *
 * What was set by hand overrides the rule, the rule overrides the parameters of
 * the module. What was set by hand in one namespace does not hold in another.
 *
 * Context: process, RTNL.
 */
void sluice_device_configure(struct sluice_device *device)
{
	struct sluice_settings s = {
		.on = READ_ONCE(sluice_default_on),
		.stall_ms = clamp_t(u32, READ_ONCE(sluice_default_stall_ms), 1,
				    SLUICE_STALL_MS_MAX),
		.low_percent = min_t(u32, READ_ONCE(sluice_default_low_percent),
				     SLUICE_LOW_PERCENT_MAX),
		.target_us = min_t(u32, READ_ONCE(sluice_default_target_us),
				   SLUICE_TARGET_US_MAX),
	};

	device->rule = sluice_rules_find(device->dev);
	if (device->rule)
		settings_merge(&s, &device->rule->settings);
	if (device->rule && *device->rule->qdisc)
		sluice_events_watch();
	settings_merge(&s, &device->by_hand);
	device->on = s.on;
	WRITE_ONCE(device->flow.stall_ms, s.stall_ms);
	WRITE_ONCE(device->flow.low_percent, s.low_percent);
	WRITE_ONCE(device->flow.user_limit, s.limit);
	WRITE_ONCE(device->flow.target_us, s.target_us);
	sluice_device_update(device);
}

/**
 * sluice_device_resize() - the core is about to change a device's queues
 * @dev: any device
 * @count: how many it will have
 *
 * Called where the core resets the qdisc of a queue that is closed, without the
 * lock that a lockless qdisc is run under: see sluice_locked_reset. Whoever runs
 * it would free packets that the reset frees, too. The core waits for a grace
 * period before that reset. So each run that began before this call is over by
 * then, and those that begin later find the queue stopped and take nothing from
 * a qdisc that has no other queue (TCQ_F_ONETXQUEUE). Senders have not chosen
 * that queue since the grace period either.
 *
 * Context: process, RTNL, or @dev is not registered.
 */
void sluice_device_resize(const struct net_device *dev, unsigned int count)
{
	struct sluice_device *device;
	unsigned int id;

	rcu_read_lock();	/* many devices come here, some without RTNL */
	device = sluice_device_find(dev);
	if (device && device->verified && count && count <= device->queues)
		for (id = 0; id < device->queues; id++)
			sluice_queue_hold(&device->queue[id], id >= count);
	rcu_read_unlock();
}

static void device_appeared(struct net_device *dev)
{
	unsigned int queues = dev->num_tx_queues;
	struct sluice_device *device;
	unsigned int id;

	/* charged to the cgroup that the device itself is charged to */
	device = kvzalloc(struct_size(device, queue, queues),
			  GFP_KERNEL_ACCOUNT);
	if (!device)	/* the allocator has warned; not served for now */
		return;
	device->dev = dev;
	device->queues = queues;
	device->state = SLUICE_DEVICE_DOWN;
	for (id = 0; id < queues; id++)
		sluice_queue_init(&device->queue[id], device, id);
	hash_add_rcu(sluice_devices, &device->node, (unsigned long)dev);
	sluice_device_configure(device);
}

/* proofs/litmus: unload_against_sender */
static void device_vanished(struct sluice_device *device)
{
	device_enter(device, SLUICE_DEVICE_DOWN);
	hash_del_rcu(&device->node);
	kvfree_rcu(device, rcu);
}

static int device_changed(struct notifier_block *block, unsigned long event,
			  void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct sluice_device *device;

	if (!is_tun(dev))
		return NOTIFY_DONE;

	device = sluice_device_find(dev);
	switch (event) {
	case NETDEV_REGISTER:		/* also: arrived in another netns */
		if (leaving)
			break;
		if (!device) {
			device_appeared(dev);
			break;
		}
		device->by_hand.given = 0;
		sluice_device_configure(device);
		break;
	case NETDEV_CHANGENAME:
		if (device && !leaving)
			sluice_device_configure(device);
		break;
	case NETDEV_GOING_DOWN:
		if (device && device->state == SLUICE_DEVICE_SERVED)
			device_enter(device, SLUICE_DEVICE_DOWN);
		break;
	case NETDEV_UNREGISTER:		/* also: leaves for another netns */
		if (device && (leaving || dev->reg_state != NETREG_REGISTERED))
			device_vanished(device);
		break;
	case NETDEV_UP:
	case NETDEV_CHANGE:		/* a reader came or went */
	case NETDEV_CHANGE_TX_QUEUE_LEN:
		if (leaving)
			break;
		if (device)
			sluice_device_update(device);
		else if (dev->reg_state == NETREG_REGISTERED)
			device_appeared(dev);	/* found no memory before */
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = {
	.notifier_call = device_changed,
};

/**
 * sluice_devices_start() - serve the devices there are and those to come
 *
 * Context: process, module load.
 * Return: 0 or a negative errno.
 */
int sluice_devices_start(void)
{
	return register_netdevice_notifier(&notifier);
}

/**
 * sluice_devices_stop() - the stock driver is alone again when this returns
 *
 * Context: process, module unload, or a failed load.
 */
void sluice_devices_stop(void)
{
	rtnl_lock();	/* from here on nobody places the hook again */
	leaving = true;
	rtnl_unlock();
	unregister_netdevice_notifier(&notifier);
	sluice_rules_free();
	sluice_hook_remove();
}
