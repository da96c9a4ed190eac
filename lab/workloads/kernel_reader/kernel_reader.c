// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A reader inside the kernel: it takes packets out of a ring as vhost-net does, at
 * full speed, with busy work for each, at the rate of a link, or on a tick. It runs in
 * the process that asks for it, as vhost-net runs in its worker.
 */
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/if_tun.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/ptr_ring.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "kernel_reader.h"

#define BATCH		64	/* vhost-net takes as many at once */
#define COST_RUN_NS	(40 * NSEC_PER_MSEC)
#define COST_GAP_NS	(100 * NSEC_PER_USEC)

struct running {
	struct kernel_reader told;
	struct file *from;
	struct socket *from_socket, *to_socket;
	struct ptr_ring *ring;
	void *batch[BATCH];
	u8 packet[PACKET_BYTES];
};

static void burn(u32 ns)
{
	u64 end = ktime_get_ns() + ns;

	while (ktime_get_ns() < end)
		cpu_relax();
}

static void sleep_until(ktime_t time)
{
	set_current_state(TASK_INTERRUPTIBLE);
	schedule_hrtimeout(&time, HRTIMER_MODE_ABS);
}

static void pass_on(struct running *r, int length)
{
	struct kvec place = { .iov_base = r->packet, .iov_len = length };
	struct msghdr message = { .msg_flags = 0 };

	if (r->told.from == r->told.to &&
	    !make_echo_reply(r->packet, length, r->told.is_tun))
		return;
	iov_iter_kvec(&message.msg_iter, ITER_SOURCE, &place, 1, length);
	r->to_socket->ops->sendmsg(r->to_socket, &message, length);
}

static void handle(struct running *r, void *packet)
{
	struct kvec place = { .iov_base = r->packet, .iov_len = PACKET_BYTES };
	struct msghdr message = { .msg_control = packet };
	int length;

	iov_iter_kvec(&message.msg_iter, ITER_DEST, &place, 1, PACKET_BYTES);
	length = r->from_socket->ops->recvmsg(r->from_socket, &message,
					      PACKET_BYTES, MSG_DONTWAIT);
	if (length <= 0)
		return;
	r->told.read++;
	if (r->told.burn_ns)
		burn(r->told.burn_ns);
	if (r->told.link_ns && is_link_busy(&r->told.link_free, ktime_get_ns(),
					    r->told.link_ns, 0))
		sleep_until(r->told.link_free);
	pass_on(r, length);
}

/* Packets that wait for the link wait in the ring: take none of them yet. */
static int take(struct running *r)
{
	int taken, most = r->told.link_ns ? 1 : BATCH;

	spin_lock(&r->ring->consumer_lock);
	taken = __ptr_ring_consume_batched(r->ring, r->batch, most);
	if (taken)
		tun_wake_queue(r->from, taken);
	spin_unlock(&r->ring->consumer_lock);
	return taken;
}

static void sleep_while_empty(struct running *r)
{
	wait_queue_head_t *head = sk_sleep(r->from_socket->sk);
	DEFINE_WAIT(wait);

	prepare_to_wait(head, &wait, TASK_INTERRUPTIBLE);
	if (ptr_ring_empty(r->ring) && !signal_pending(current))
		schedule();
	finish_wait(head, &wait);
}

/* Return: false if the reader has no rhythm, or goes on reading. */
static bool rest(struct running *r, int taken)
{
	s64 now = ktime_get_ns();

	r->told.visit += taken;
	if (!r->told.period_ns || !is_visit_over(&r->told, now, !taken))
		return false;
	sleep_until(next_period(&r->told, now));
	return true;
}

static void read_on(struct running *r)
{
	int i, taken;

	while (!signal_pending(current)) {
		taken = take(r);
		for (i = 0; i < taken; i++)
			handle(r, r->batch[i]);
		if (!rest(r, taken) && !taken)
			sleep_while_empty(r);
		cond_resched();
	}
}

static long reader_ioctl(struct file *file, unsigned int command,
			 unsigned long argument)
{
	struct running *r __free(kvfree) = kvzalloc(sizeof(*r), GFP_KERNEL);
	void __user *place = (void __user *)argument;

	if (command != KERNEL_READER_RUN)
		return -ENOTTY;
	if (!r)
		return -ENOMEM;
	if (copy_from_user(&r->told, place, sizeof(r->told)))
		return -EFAULT;

	CLASS(fd, from)(r->told.from);
	CLASS(fd, to)(r->told.to);
	if (fd_empty(from) || fd_empty(to))
		return -EBADF;
	r->from = fd_file(from);
	r->from_socket = tun_get_socket(r->from);
	r->to_socket = tun_get_socket(fd_file(to));
	r->ring = tun_get_tx_ring(r->from);
	if (IS_ERR(r->from_socket) || IS_ERR(r->to_socket) || IS_ERR(r->ring))
		return -EINVAL;
	read_on(r);
	return copy_to_user(place, &r->told, sizeof(r->told)) ? -EFAULT : 0;
}

/* What a timer's interrupt takes of a CPU that is busy. */
static unsigned int timer_ns;
module_param(timer_ns, uint, 0444);
MODULE_PARM_DESC(timer_ns, "measured: what a timer takes, in nanoseconds");

static struct hrtimer cost;
static unsigned int cost_fired;

static enum hrtimer_restart cost_fires(struct hrtimer *timer)
{
	cost_fired++;
	hrtimer_forward_now(timer, ns_to_ktime(COST_GAP_NS));
	return HRTIMER_RESTART;
}

/* How often a CPU reads its clock in COST_RUN_NS. */
static u64 count_work(void)
{
	u64 end = ktime_get_ns() + COST_RUN_NS, count = 0;

	while (ktime_get_ns() < end)
		count++;
	return count;
}

/* The work that is not done while a timer fires every COST_GAP_NS. */
static void measure_timer(void)
{
	u64 plain = count_work(), disturbed;

	hrtimer_setup(&cost, cost_fires, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	hrtimer_start(&cost, ns_to_ktime(COST_GAP_NS), HRTIMER_MODE_REL_PINNED);
	disturbed = count_work();
	hrtimer_cancel(&cost);
	if (cost_fired && disturbed < plain)
		timer_ns = div64_u64(COST_RUN_NS * (plain - disturbed),
				     plain * cost_fired);
}

static const struct file_operations reader_files = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = reader_ioctl,
};

static struct miscdevice reader_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kernel_reader",
	.fops = &reader_files,
	.mode = 0600,
};

static int __init start(void)
{
	measure_timer();
	return misc_register(&reader_device);
}

static void __exit end(void)
{
	misc_deregister(&reader_device);
}

module_init(start);
module_exit(end);
MODULE_DESCRIPTION("consumes the ring of a tun or tap device inside the kernel");
MODULE_LICENSE("GPL");
