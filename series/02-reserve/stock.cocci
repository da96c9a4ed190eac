// SPDX-License-Identifier: GPL-2.0-or-later
// file: drivers/net/tun.c
// unless: __tun_wake_queue in drivers/net/tun.c

@include@
@@
 #include <linux/proc_fs.h>
+#include "tun_txq.h"
