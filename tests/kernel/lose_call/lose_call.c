// SPDX-License-Identifier: GPL-2.0-only
/*
 * lose_call: while it is loaded, calls of one function of sluice have no effect.
 * timer_expired: as if the kernel or a hypervisor lost the timers.
 * sluice_queue_check: as if the hook were replaced.
 */
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static char *function = "timer_expired";
module_param(function, charp, 0444);

/* Runs instead; a caller of a void function ignores the return value. */
static noinline __used enum hrtimer_restart lost(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static int function_called(struct kprobe *probe, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)lost);
	return 1;	/* the instruction pointer was changed */
}

NOKPROBE_SYMBOL(function_called);

static char symbol[64];
static struct kprobe probe = {
	.symbol_name = symbol,
	.pre_handler = function_called,
};

static int __init lose_call_start(void)
{
	snprintf(symbol, sizeof(symbol), "sluice:%s", function);
	return register_kprobe(&probe);
}

static void __exit lose_call_end(void)
{
	unregister_kprobe(&probe);
}

module_init(lose_call_start);
module_exit(lose_call_end);
MODULE_DESCRIPTION("loses calls of one function of sluice, for tests");
MODULE_LICENSE("GPL");
