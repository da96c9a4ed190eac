// SPDX-License-Identifier: GPL-2.0-only
/*
 * fake_tun: a device of kind "tun" whose private area is not that of the driver.
 * sluice must refuse it and not touch it.
 *
 *   layout=wild    the private area begins with an invalid pointer
 *   layout=other   it begins with a pointer to memory that is not a file
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <net/rtnetlink.h>

static char *layout = "wild";
module_param(layout, charp, 0444);
MODULE_PARM_DESC(layout, "wild or other");

static struct net_device *fake;
static void *other[PAGE_SIZE / sizeof(void *)];

static netdev_tx_t swallow(struct sk_buff *skb, struct net_device *dev)
{
	dev->stats.tx_packets++;
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops ops = {
	.ndo_start_xmit = swallow,
};

static struct rtnl_link_ops kind = {
	.kind = "tun",
};

static int __init fake_tun_start(void)
{
	void **first;
	int err, i;

	for (i = 0; i < ARRAY_SIZE(other); i++)
		other[i] = other;

	fake = alloc_netdev(PAGE_SIZE, "fake%d", NET_NAME_UNKNOWN, ether_setup);
	if (!fake)
		return -ENOMEM;
	first = netdev_priv(fake);
	*first = strcmp(layout, "wild") ? other : (void *)0x10;
	fake->netdev_ops = &ops;
	fake->rtnl_link_ops = &kind;
	eth_hw_addr_random(fake);
	err = register_netdev(fake);
	if (err)
		free_netdev(fake);
	return err;
}

static void __exit fake_tun_end(void)
{
	unregister_netdev(fake);
	free_netdev(fake);
}

module_init(fake_tun_start);
module_exit(fake_tun_end);
MODULE_DESCRIPTION("a tun device that is none, for tests");
MODULE_LICENSE("GPL");
