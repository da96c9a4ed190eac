// SPDX-License-Identifier: GPL-2.0-only
/*
 * kill_ftrace: shuts ftrace down until the next boot, as ftrace does itself when
 * it meets code that it does not understand.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static struct kprobe finder = { .symbol_name = "ftrace_kill" };

static int __init kill_ftrace_start(void)
{
	void (*kill)(void);
	int err = register_kprobe(&finder);

	if (err)
		return err;
	kill = (void (*)(void))finder.addr;
	unregister_kprobe(&finder);
	kill();
	return 0;
}

static void __exit kill_ftrace_end(void)
{
}

module_init(kill_ftrace_start);
module_exit(kill_ftrace_end);
MODULE_DESCRIPTION("shuts ftrace down, for tests");
MODULE_LICENSE("GPL");
