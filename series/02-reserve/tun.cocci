// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c

@file_member@
@@
 struct tun_file {
 	...
 	struct ptr_ring tx_ring;
+	struct tun_txq txq;
 	...
 };

@file_opened@
identifier tfile;
@@
 tun_chr_open(...)
 {
 	...
 	mutex_init(&tfile->napi_mutex);
+	tun_txq_init(&tfile->txq, &tfile->tx_ring);
 	...
 }

@slot_declared@
@@
 tun_net_xmit(...)
 {
 	...
 	int len = skb->len;
+	int reserved = 0;
 	...
 }

@slot_given_back@
expression device;
@@
 tun_net_xmit(...)
 {
 	<...
+	if (reserved)
+		tun_txq_cancel(&tfile->txq, queue);
 	dev_core_stats_tx_dropped_inc(device);
 	...>
 }

@redirected_packets@
expression frame;
@@
 tun_xdp_xmit(...)
 {
 	<...
-	if (__ptr_ring_produce(&tfile->tx_ring, frame))
+	if (!tun_txq_produce_frame(&tfile->txq, frame))
 	{ ... }
 	...>
 }
