// SPDX-License-Identifier: GPL-2.0-or-later
// file: include/linux/if_tun.h
// if: tun_wake_queue in include/linux/if_tun.h

@no_declaration@
@@
-void tun_wake_queue(struct file *file, int consumed);

@no_stub@
identifier f, consumed;
@@
-static inline void tun_wake_queue(struct file *f, int consumed) {}
