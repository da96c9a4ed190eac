/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The entry of tun_net_xmit() in a User-Mode Linux kernel of the lab, which has
 * no ftrace: whoever is set here sees each packet before the driver does.
 */
#ifndef NATIVE_HOOK_H
#define NATIVE_HOOK_H

#include <linux/compiler.h>

struct net_device;
struct sk_buff;

extern void (*native_transmit_entered)(struct sk_buff *, struct net_device *);

static inline void native_enter_transmit(struct sk_buff *packet,
					 struct net_device *device)
{
	void (*entered)(struct sk_buff *, struct net_device *) =
		READ_ONCE(native_transmit_entered);

	if (unlikely(entered))
		entered(packet, device);
}

#endif
