// SPDX-License-Identifier: GPL-2.0-only
/*
 * lose_timer: while it is loaded, sluice's timers expire without any effect, as
 * if the kernel or a hypervisor had lost them.
 */
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>

/* Runs instead of the handler. */
static noinline __used enum hrtimer_restart lost(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static int timer_expires(struct kprobe *probe, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)lost);
	return 1;	/* the instruction pointer was changed */
}

NOKPROBE_SYMBOL(timer_expires);

static struct kprobe probe = {
	.symbol_name = "sluice:timer_expired",
	.pre_handler = timer_expires,
};

static int __init lose_timer_start(void)
{
	return register_kprobe(&probe);
}

static void __exit lose_timer_end(void)
{
	unregister_kprobe(&probe);
}

module_init(lose_timer_start);
module_exit(lose_timer_end);
MODULE_DESCRIPTION("loses sluice's timers, for tests");
MODULE_LICENSE("GPL");
