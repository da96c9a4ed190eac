// SPDX-License-Identifier: GPL-2.0-only
/*
 * patch_tun: a live patch of the driver's transmit function, which sluice hooks.
 * While it is applied every packet is dropped.
 */
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/netdevice.h>

#ifdef CONFIG_LIVEPATCH
static netdev_tx_t swallow(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static struct klp_func functions[] = {
	{ .old_name = "tun_net_xmit", .new_func = swallow },
	{ }
};

static struct klp_object objects[] = {
	{ .name = IS_BUILTIN(CONFIG_TUN) ? NULL : "tun", .funcs = functions },
	{ }
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objects,
};

static int __init patch_tun_start(void)
{
	return klp_enable_patch(&patch);
}
#else
static int __init patch_tun_start(void)
{
	return -EOPNOTSUPP;
}
#endif

static void __exit patch_tun_end(void)
{
}

module_init(patch_tun_start);
module_exit(patch_tun_end);
MODULE_DESCRIPTION("a live patch of what sluice hooks, for tests");
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
