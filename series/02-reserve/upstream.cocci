// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c
// if: __tun_wake_queue in drivers/net/tun.c

@include@
@@
 #include "tun_vnet.h"
+#include "tun_txq.h"

@slot_reserved@
expression tfile, queue, device, index, packet, reason, full;
identifier tun, program;
@@
 tun_net_xmit(...)
 {
 	...
 	if (!tfile) { ... }
+
+	/* Before the skb is changed: if the ring is full it stays queued. */
+	queue = netdev_get_tx_queue(device, index);
+	if (tun->flags & IFF_BACKPRESSURE)
+		reserved = tun_txq_reserve(&tfile->txq, queue);
+	if (reserved < 0) {
+		rcu_read_unlock();
+		return NETDEV_TX_BUSY;
+	}
 	if (!rcu_dereference(tun->program))
 		tun_automq_xmit(...);
 	...
-	queue = netdev_get_tx_queue(device, index);
-	spin_lock(&tfile->tx_ring.producer_lock);
-	ret = __ptr_ring_produce(&tfile->tx_ring, packet);
-	if (...) { ... }
-	spin_unlock(&tfile->tx_ring.producer_lock);
-	if (ret) {
-		reason = full;
-		goto drop;
-	}
+	if (tun_txq_produce(&tfile->txq, queue, packet, reserved)) {
+		reason = full;
+		goto drop;
+	}
 	...
 }

@no_result@
identifier ret;
@@
 tun_net_xmit(...)
 {
 	...
-	int ret;
 	...
 }
