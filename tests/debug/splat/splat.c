// SPDX-License-Identifier: GPL-2.0-only
/*
 * splat: makes one error when it is loaded. A debug kernel must report each.
 *
 *   does=locks     takes two locks in both orders
 *   does=context   sleeps in atomic context
 *   does=timer     frees an armed timer
 *   does=memory    reads freed memory
 *   does=leak      leaks memory
 *   does=race      changes a counter on two CPUs without a lock
 */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timer.h>

#define BYTES 128
#define LEAKS 256
#define RACE_SECONDS 10

static char *does = "";
module_param(does, charp, 0444);
MODULE_PARM_DESC(does, "locks, context, timer, memory, leak or race");

static DEFINE_MUTEX(one);
static DEFINE_MUTEX(other);

static void take_locks_in_either_order(void)
{
	mutex_lock(&one);
	mutex_lock(&other);
	mutex_unlock(&other);
	mutex_unlock(&one);

	mutex_lock(&other);
	mutex_lock(&one);
	mutex_unlock(&one);
	mutex_unlock(&other);
}

static void sleep_where_it_must_not(void)
{
	preempt_disable();
	might_sleep();
	preempt_enable();
}

static void expired(struct timer_list *timer)
{
}

static int free_armed_timer(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return -ENOMEM;
	timer_setup(timer, expired, 0);
	mod_timer(timer, jiffies + HZ * 600);
	kfree(timer);
	return 0;
}

static int read_freed_memory(void)
{
	char *bytes = kmalloc(BYTES, GFP_KERNEL);

	if (!bytes)
		return -ENOMEM;
	kfree(bytes);
	READ_ONCE(*bytes);
	return 0;
}

static int forget_memory(void)
{
	int i;

	/*
	 * Stale pointers hide some of these leaks: on a stack, and since 6.18
	 * in each CPU's array of free objects.
	 */
	for (i = 0; i < LEAKS; i++)
		if (!kmalloc(BYTES, GFP_KERNEL))
			return -ENOMEM;
	return 0;
}

static unsigned long counted;

static int count(void *unused)
{
	unsigned long end = jiffies + RACE_SECONDS * HZ;

	while (time_before(jiffies, end)) {
		counted++;
		barrier();	/* each time, not once at the end */
		cond_resched();
	}
	return 0;
}

static int count_on_two_cpus(void)
{
	struct task_struct *other = kthread_create(count, NULL, "splat");

	if (IS_ERR(other))
		return PTR_ERR(other);
	get_task_struct(other);
	wake_up_process(other);
	count(NULL);
	kthread_stop(other);	/* wait for it: its code is in this module */
	put_task_struct(other);
	return 0;
}

static int __init splat_start(void)
{
	if (!strcmp(does, "locks"))
		take_locks_in_either_order();
	else if (!strcmp(does, "context"))
		sleep_where_it_must_not();
	else if (!strcmp(does, "timer"))
		return free_armed_timer();
	else if (!strcmp(does, "memory"))
		return read_freed_memory();
	else if (!strcmp(does, "leak"))
		return forget_memory();
	else if (!strcmp(does, "race"))
		return count_on_two_cpus();
	else
		return -EINVAL;
	return 0;
}

static void __exit splat_end(void)
{
}

module_init(splat_start);
module_exit(splat_end);
MODULE_DESCRIPTION("what a debug kernel must notice, for tests");
MODULE_LICENSE("GPL");
