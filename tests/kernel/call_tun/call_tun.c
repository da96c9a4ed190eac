// SPDX-License-Identifier: GPL-2.0-only
/*
 * call_tun: attaches a direct call of an empty function to the driver's transmit
 * function, which sluice hooks, as a BPF fentry program does. ftrace allows one.
 */
#include <linux/ftrace.h>
#include <linux/module.h>

#if defined(HAS_DIRECT_OPS) && defined(CONFIG_X86_64) && \
	defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
/* It uses no register, so it saves none. */
static noinline __used notrace void call_tun(void)
{
}

static struct ftrace_ops ops;

static int __init call_tun_start(void)
{
	char transmit[] = "tun_net_xmit";
	int err = ftrace_set_filter(&ops, transmit, strlen(transmit), 1);

	err = err ?: register_ftrace_direct(&ops, (unsigned long)call_tun);
	if (err)
		ftrace_free_filter(&ops);
	return err;
}

static void __exit call_tun_end(void)
{
	unregister_ftrace_direct(&ops, (unsigned long)call_tun, true);
	synchronize_rcu();
}
#else
static int __init call_tun_start(void)
{
	return -EOPNOTSUPP;
}

static void __exit call_tun_end(void)
{
}
#endif

module_init(call_tun_start);
module_exit(call_tun_end);
MODULE_DESCRIPTION("a direct call from what sluice hooks, for tests");
MODULE_LICENSE("GPL");
