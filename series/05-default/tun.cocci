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

@flag_shown@
expression tun, mask;
@@
 tun_flags(...)
 {
-	return tun->flags & (mask);
+	/* every device has it, whether the application asked for it or not */
+	unsigned int flags = tun->flags | IFF_BACKPRESSURE;
+
+	return flags & (mask);
 }
