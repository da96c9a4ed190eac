// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replaces kmod/hook.c on the lab's kernel without ftrace: it uses the call that
 * the lab has built into the entry of tun_net_xmit(). What is done with a packet is
 * in entry.h for both.
 */
#include <linux/rtnetlink.h>
#include <native_hook.h>

#include "entry.h"
#include "sluice.h"

static netdev_tx_t (*hooked)(struct sk_buff *skb, struct net_device *dev);

static void transmit_entered(struct sk_buff *skb, struct net_device *dev)
{
	struct sluice_queue *q = queue_to_check(skb, dev);

	if (q)
		sluice_queue_check(q);
}

const char *sluice_hook_place(const struct net_device *dev)
{
	ASSERT_RTNL();
	if (hooked)
		return hooked == dev->netdev_ops->ndo_start_xmit ? NULL :
		       "another transmit function is hooked already";
	hooked = dev->netdev_ops->ndo_start_xmit;
	WRITE_ONCE(sluice_direct_call, false);
	WRITE_ONCE(native_transmit_entered, transmit_entered);
	return NULL;
}

void sluice_hook_remove(void)
{
	if (!hooked)
		return;
	WRITE_ONCE(native_transmit_entered, NULL);
	synchronize_rcu();	/* wait for senders that run it, with BH off */
	hooked = NULL;
}
