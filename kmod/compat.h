/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between kernels, in one place. Each entry names
 * the change that caused it; features.sh finds out which side this kernel is
 * on. Assembly uses nothing of it but SLUICE_CALLS_DIRECTLY.
 */
#ifndef SLUICE_COMPAT_H
#define SLUICE_COMPAT_H

/*
 * d19ad0775dcd ("ftrace: Have the callbacks receive a struct ftrace_regs
 * instead of pt_regs", 5.11) changed the callback's last argument. Since then
 * an architecture can save the arguments of the traced function alone
 * (02a474ca266a), which is cheaper than all registers: a pktgen sender was 16
 * to 20 % slower with those. Until 94d095ffa0e1 (6.2) gave them a function, the
 * arguments are where pt_regs has them, and its other fields are not valid.
 */
#ifdef SLUICE_HAS_FTRACE_REGS
#define sluice_regs ftrace_regs
#else
#define sluice_regs pt_regs
#endif

#if defined(SLUICE_HAS_FTRACE_REGS) && \
	defined(CONFIG_HAVE_DYNAMIC_FTRACE_WITH_ARGS)
#define SLUICE_FTRACE_SAVES_ARGS
#define SLUICE_FTRACE_REGS_FLAG		0
#else
#define SLUICE_FTRACE_REGS_FLAG		FTRACE_OPS_FL_SAVE_REGS
#endif

/*
 * a25d045ad75e ("ftrace: Reverse what the RECURSION flag means in the
 * ftrace_ops", 5.11). Our callbacks never reach the function they hook.
 */
#ifdef SLUICE_HAS_RECURSION_SAFE
#define SLUICE_FTRACE_RECURSION_FLAG	FTRACE_OPS_FL_RECURSION_SAFE
#else
#define SLUICE_FTRACE_RECURSION_FLAG	0
#endif

#define SLUICE_FTRACE_FLAGS \
	(SLUICE_FTRACE_REGS_FLAG | SLUICE_FTRACE_RECURSION_FLAG | \
	 FTRACE_OPS_FL_PERMANENT)

/*
 * A traced function can call us itself, which spares what ftrace does around a
 * callback (763e34e74bb7 ("ftrace: Add register_ftrace_direct()", 5.5); on
 * arm64 2aa6ac03516d, 6.4). The function was named by its address, then by the
 * filter of an ops (f64dd4627ec6 ("ftrace: Add multi direct
 * register/unregister interface", 5.16), renamed by da8bdfbd4223, 6.4).
 *
 * An ops can let live patches into that function since 53cd885bc5c3 ("ftrace:
 * Allow IPMODIFY and DIRECT ops on the same function", 6.0), with one argument
 * more since 7.0. Before, a direct call keeps them out: there we have it only
 * where a callback costs all registers.
 */
#ifdef SLUICE_HAS_OPS_FUNC_IP
#define SLUICE_OPS_FUNC_IP	unsigned long ip,
#else
#define SLUICE_OPS_FUNC_IP
#endif

#if (defined(SLUICE_HAS_OPS_FUNC) || defined(SLUICE_HAS_OPS_FUNC_IP)) && \
	(defined(SLUICE_HAS_DIRECT_OPS) || defined(SLUICE_HAS_DIRECT_MULTI))
#define SLUICE_DIRECT_SHARES
#endif

/* Where there is an entry_....S to be called. */
#if (defined(CONFIG_X86_64) || defined(CONFIG_ARM64)) && \
	defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS) && \
	(defined(SLUICE_DIRECT_SHARES) || \
	 (defined(SLUICE_HAS_DIRECT_IP) && !defined(SLUICE_FTRACE_SAVES_ARGS)))
#define SLUICE_CALLS_DIRECTLY
#endif

#ifndef __ASSEMBLER__
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/ptrace.h>

/*
 * Not every architecture can name a function's arguments: the 32-bit ARM never
 * could, PowerPC since 6.3, and s390 since 5.11, but up to 6.12 with a function
 * that it does not export. There they are in the registers that the calling
 * convention says, and only the first two are asked for.
 */
#if defined(CONFIG_S390)
#define sluice_argument(regs, n)	((regs)->gprs[2 + (n)])
#elif defined(SLUICE_HAS_KERNEL_ARGUMENT)
#define sluice_argument(regs, n)	regs_get_kernel_argument(regs, n)
#elif defined(CONFIG_ARM)
#define sluice_argument(regs, n)	((regs)->uregs[n])
#elif defined(CONFIG_PPC)
#define sluice_argument(regs, n)	((regs)->gpr[3 + (n)])
#endif

#ifdef CONFIG_FUNCTION_TRACER	/* hook.c's; the lab can do without */
static __always_inline void *sluice_traced_arg(struct sluice_regs *regs,
					       unsigned int n)
{
#if defined(SLUICE_FTRACE_SAVES_ARGS) && defined(SLUICE_HAS_FTRACE_ARGS) && \
	!defined(CONFIG_S390)
	return (void *)ftrace_regs_get_argument(regs, n);
#elif defined(SLUICE_FTRACE_SAVES_ARGS) && defined(SLUICE_HAS_ARCH_REGS)
	return (void *)sluice_argument(&arch_ftrace_regs(regs)->regs, n);
#elif defined(SLUICE_FTRACE_SAVES_ARGS)
	return (void *)sluice_argument(&regs->regs, n);
#elif defined(SLUICE_HAS_FTRACE_REGS)
	return (void *)sluice_argument(ftrace_get_regs(regs), n);
#else
	return (void *)sluice_argument(regs, n);
#endif
}
#endif

#ifdef SLUICE_CALLS_DIRECTLY
static inline int sluice_direct_register(struct ftrace_ops *ops,
					 unsigned long ip, unsigned long addr)
{
#if defined(SLUICE_HAS_DIRECT_OPS)
	return register_ftrace_direct(ops, addr);
#elif defined(SLUICE_HAS_DIRECT_MULTI)
	return register_ftrace_direct_multi(ops, addr);
#else
	return register_ftrace_direct(ip, addr);
#endif
}

static inline int sluice_direct_unregister(struct ftrace_ops *ops,
					   unsigned long ip, unsigned long addr)
{
#if defined(SLUICE_HAS_DIRECT_OPS)
	return unregister_ftrace_direct(ops, addr, false);
#elif defined(SLUICE_HAS_DIRECT_MULTI)
	return unregister_ftrace_direct_multi(ops, addr);
#else
	return unregister_ftrace_direct(ip, addr);
#endif
}
#endif

/* 908a1d775422 ("hrtimers: Introduce hrtimer_setup()", 6.13). */
#ifndef SLUICE_HAS_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/*
 * 7f083faf59d1 ("net: sched: avoid qdisc_reset_all_tx_gt() vs dequeue race for
 * lockless qdiscs", 7.0, and in stable releases of 2026). Without it the qdisc
 * of a queue that is closed is reset while another CPU may dequeue from it, if
 * it is lockless (pfifo_fast): packets are freed twice. Without sluice it is
 * almost empty then; that of a stopped queue is not. No symbol shows which
 * kernel has it, so selftest_reset.c tries. Without SMP it cannot happen: both
 * have BH off.
 */
extern bool sluice_locked_reset;

#endif /* __ASSEMBLER__ */
#endif
