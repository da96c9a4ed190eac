// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c

@for_every_device@
expression tun, tfile, queue;
@@
 tun_net_xmit(...)
 {
 	<...
-	if (tun->flags & IFF_BACKPRESSURE)
-		reserved = tun_txq_reserve(&tfile->txq, queue);
+	reserved = tun_txq_reserve(&tfile->txq, queue);
 	...>
 }

@counted_for_every_device@
expression tun;
@@
 tun_get_queue_stats_tx(...)
 {
 	...
-	if (!(tun->flags & IFF_BACKPRESSURE))
-		return;
 	...
 }

@base_counted_for_every_device@
expression tun;
@@
 tun_get_base_stats(...)
 {
 	...
-	if (!(tun->flags & IFF_BACKPRESSURE))
-		return;
 	...
 }
