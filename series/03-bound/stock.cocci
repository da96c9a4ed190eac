// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c
// unless: __tun_wake_queue in drivers/net/tun.c

@queue_detached@
expression tfile, ntfile;
@@
 __tun_detach(...)
 {
 	<...
 	ntfile = rtnl_dereference(...);
 	...
 	synchronize_net();
+	tun_txq_release(&tfile->txq);
 	...
 	tun_queue_purge(tfile);
+	tun_txq_release(&ntfile->txq);
 	...>
 }

@device_closed@
identifier dev;
@@
 tun_net_close(struct net_device *dev)
 {
+	struct tun_struct *tun = netdev_priv(dev);
+	struct tun_file *tfile;
+	int i;
+
+	/* netif_running() is already false: no queue is woken any more */
+	for (i = 0; i < tun->numqueues; i++) {
+		tfile = rtnl_dereference(tun->tfiles[i]);
+		tun_txq_release(&tfile->txq);
+	}
 	netif_tx_stop_all_queues(dev);
 	...
 }

@slot_reserved@
expression tfile, queue, device, index, packet;
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
-	if (ptr_ring_produce(&tfile->tx_ring, packet))
+	if (tun_txq_produce(&tfile->txq, queue, packet, reserved))
 	{ ... }
-	queue = netdev_get_tx_queue(device, index);
 	...
 }
