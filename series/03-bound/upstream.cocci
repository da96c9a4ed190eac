// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c
// if: __tun_wake_queue in drivers/net/tun.c

@queue_detached@
expression tfile, ntfile;
@@
 __tun_detach(...)
 {
 	<...
 	synchronize_net();
+	tun_txq_release(&tfile->txq);
 	...
 	tun_queue_purge(tfile);
+	tun_txq_release(&ntfile->txq);
-	spin_lock_bh(&ntfile->tx_ring.consumer_lock);
-	spin_lock(&ntfile->tx_ring.producer_lock);
-	ntfile->cons_cnt = 0;
-	if (...) netif_wake_subqueue(...);
-	spin_unlock(&ntfile->tx_ring.producer_lock);
-	spin_unlock_bh(&ntfile->tx_ring.consumer_lock);
 	...>
 }

@device_closed@
expression tun, tfile, i;
@@
 tun_net_close(...)
 {
 	...
 	for (i = 0; i < tun->numqueues; i++) {
 		tfile = rtnl_dereference(tun->tfiles[i]);
+		tun_txq_release(&tfile->txq);
 		...
 	}
 	...
 }

@no_forced_wake@
@@
-static void tun_force_wake_queue(...) { ... }

@released_instead@
expression tun, tfile;
@@
-tun_force_wake_queue(tun, tfile);
+tun_txq_release(&tfile->txq);
