// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c
// if: __tun_wake_queue in drivers/net/tun.c

@read_without_wake@
expression tun, tfile, pointer;
@@
 tun_ring_recv(...)
 {
 	<...
-	pointer = tun_ring_consume(tun, tfile);
+	pointer = ptr_ring_consume(&tfile->tx_ring);
 	...>
 }

@no_device_to_read@
identifier tun, tfile, noblock, err;
@@
-static void *tun_ring_recv(struct tun_struct *tun, struct tun_file *tfile,
-			   int noblock, int *err)
+static void *tun_ring_recv(struct tun_file *tfile, int noblock, int *err)
 { ... }

@caller@
expression tun, tfile, noblock, err;
@@
-tun_ring_recv(tun, tfile, noblock, err)
+tun_ring_recv(tfile, noblock, err)

@no_consume@
@@
-static void *tun_ring_consume(...) { ... }

@no_wake@
@@
-static void __tun_wake_queue(...) { ... }

@no_export@
declarer name EXPORT_SYMBOL_GPL;
@@
-EXPORT_SYMBOL_GPL(tun_wake_queue);

@no_wake_by_others@
@@
-void tun_wake_queue(...) { ... }

@index_without_lock@
expression ntfile, i;
@@
 __tun_detach(...)
 {
 	<...
-	spin_lock(&ntfile->tx_ring.consumer_lock);
 	ntfile->queue_index = i;
 	ntfile->xdp_rxq.queue_index = i;
-	ntfile->cons_cnt = 0;
-	spin_unlock(&ntfile->tx_ring.consumer_lock);
 	...>
 }

@slot_without_lock@
expression tun, tfile, i, last;
@@
 __tun_detach(...)
 {
 	<...
-	spin_lock(&tfile->tx_ring.consumer_lock);
-	rcu_assign_pointer(tun->tfiles[i], last);
-	spin_unlock(&tfile->tx_ring.consumer_lock);
+	rcu_assign_pointer(tun->tfiles[i], last);
 	...>
 }

@attach_without_lock@
expression tun, tfile;
@@
 tun_attach(...)
 {
 	<...
-	spin_lock(&tfile->tx_ring.consumer_lock);
-	tfile->queue_index = tun->numqueues;
-	spin_unlock(&tfile->tx_ring.consumer_lock);
+	tfile->queue_index = tun->numqueues;
 	...>
 }

@close_without_reader@
expression tun, tfile;
identifier i;
@@
 tun_net_close(...)
 {
 	...
-	int i;
-	for (i = 0; i < tun->numqueues; i++) {
-		tfile = rtnl_dereference(tun->tfiles[i]);
-		tun_txq_release(&tfile->txq);
-		spin_lock_bh(&tfile->tx_ring.consumer_lock);
-		spin_lock(&tfile->tx_ring.producer_lock);
-		tfile->cons_cnt = 0;
-		spin_unlock(&tfile->tx_ring.producer_lock);
-		spin_unlock_bh(&tfile->tx_ring.consumer_lock);
-	}
+	int i;
+
+	/* netif_running() is already false: no queue is woken any more */
+	for (i = 0; i < tun->numqueues; i++) {
+		tfile = rtnl_dereference(tun->tfiles[i]);
+		tun_txq_release(&tfile->txq);
+	}
 	...
 }

@no_count@
@@
 struct tun_file {
 	...
-	int cons_cnt;
 	...
 };
