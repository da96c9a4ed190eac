// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c

@device_member@
@@
 struct tun_struct {
 	...
 	atomic_long_t rx_frame_errors;
+	struct tun_tx_flow_device txq_shared;
 	...
 };

@file_attached@
identifier tun, tfile;
@@
 tun_attach(struct tun_struct *tun, ...)
 {
 	<...
+	tfile->txq.flow.device = &tun->txq_shared;
 	tfile->socket.sk->sk_shutdown &= ~RCV_SHUTDOWN;
 	...>
 }

@file_closed@
expression tfile, clean;
@@
 tun_detach(...)
 {
 	<...
-	if (clean)
+	if (clean) {
+		hrtimer_cancel(&tfile->txq.timer);
 		sock_put(&tfile->sk);
+	}
 	...>
 }

@device_vanished@
expression tfile;
@@
 tun_detach_all(...)
 {
 	<...
 	tun_napi_del(tfile);
+	tun_txq_release(&tfile->txq);
 	...>
 }
