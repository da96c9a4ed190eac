// drivers/net/tun.c
// At the entry of tun_net_xmit(): stands in for ftrace, which UML has not.
@ called @
identifier packet, device;
@@
 tun_net_xmit(struct sk_buff *packet, struct net_device *device)
 {
	... when != rcu_read_lock();
+	native_enter_transmit(packet, device);
	rcu_read_lock();
	...
 }

@ depends on called @
@@
 #include <linux/skb_array.h>
+#include <native_hook.h>
