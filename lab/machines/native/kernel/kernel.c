// SPDX-License-Identifier: GPL-2.0-or-later
/* Compiled into User-Mode Linux, on the kernel's side. */
#include <linux/export.h>
#include <linux/sched/clock.h>
#include <native_hook.h>
#include <os.h>

void (*native_transmit_entered)(struct sk_buff *, struct net_device *);
EXPORT_SYMBOL_GPL(native_transmit_entered);

/* The scheduler's clock: nanoseconds, where it would have ticks. */
unsigned long long notrace sched_clock(void)
{
	return os_nsecs();
}
