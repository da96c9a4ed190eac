// SPDX-License-Identifier: GPL-2.0-or-later
/* What machine.h says. In steps.c nothing of it is watched. */
#include "machine.h"

struct tracer tracer;
struct tun_device *the_device;
struct Qdisc fq = { .enqueue = &fq }, noqueue, noop_qdisc;
struct Qdisc lockless = { .enqueue = &fq, .flags = TCQ_F_NOLOCK };
const char *flags_shown = "0x1003\n";
struct socket *socket_instead;
struct ptr_ring *ring_instead;
long open_error;
int creds_held, creds_in_use;
spinlock_t rtnl = { .magic = LOCK_MAGIC };
static struct notifier_block *notifier;

/* Devices */
static void __attribute__((aligned(64))) driver_transmit(void) { }

static ssize_t show_file(struct kobject *kobj, struct attribute *attr, char *text)
{
	strcpy(text, strcmp(attr->name, "tun_flags") ? "1000\n" : flags_shown);
	return strlen(text);
}

struct tun_device *tun_create(unsigned int queues)
{
	static struct rtnl_link_ops tun_ops = { .kind = "tun" };
	static struct net_device_ops transmit_ops = { .ndo_start_xmit = driver_transmit };
	static const struct sysfs_ops files = { show_file };
	static const struct kobj_type devices = { &files };
	static struct attribute owner = { "owner" }, flags = { "tun_flags" };
	static struct attribute *attributes[] = { &owner, &flags, NULL };
	static struct attribute_group group = { attributes };
	struct tun_device *tun = zeroed(sizeof(*tun));

	tun->dev.num_tx_queues = queues;
	tun->dev.real_num_tx_queues = 1;
	tun->dev.rtnl_link_ops = &tun_ops;
	tun->dev.netdev_ops = &transmit_ops;
	tun->dev.sysfs_groups[0] = &group;
	tun->dev.dev.kobj.ktype = &devices;
	tun->dev.reg_state = NETREG_REGISTERED;
	tun->dev.tx = zeroed(queues * sizeof(*tun->dev.tx));
	for (unsigned int i = 0; i < queues; i++)
		tun->dev.tx[i] = (struct netdev_queue){ .qdisc = &fq, .dev = &tun->dev };
	return tun;
}

void netif_tx_wake_queue(struct netdev_queue *txq)
{
	struct tun_device *tun = container_of(txq->dev, struct tun_device, dev);

	if (tun->foreign[txq - tun->dev.tx])
		fail("queue %ld: woken, though somebody else stopped it",
		     (long)(txq - tun->dev.tx));
	clear_bit(__QUEUE_STATE_DRV_XOFF, &txq->state);
}

int __attribute__((aligned(64)))
netif_set_real_num_tx_queues(struct net_device *dev, unsigned int queues)
{
	return 0;
}

/* Files, as layout.c sees them */
struct file *filp_open(const char *path, int flags, int mode)
{
	if (creds_in_use != 1)	/* whoever loads may be confined */
		fail("a file is opened without the kernel's credentials");
	return open_error ? ERR_PTR(open_error) : driver_open(0, 8, 1)->open;
}

int filp_close(struct file *file, void *unused)
{
	driver_close(file->private_data);
	return 0;
}

struct socket *tun_get_socket(struct file *file)
{
	return socket_instead ?: &((struct tun_file *)file->private_data)->socket;
}

struct ptr_ring *tun_get_tx_ring(struct file *file)
{
	return ring_instead ?: &((struct tun_file *)file->private_data)->ring;
}

/* ftrace */
unsigned long transmit_ip(void)
{
	return (unsigned long)driver_transmit;
}

int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove,
			 int reset)
{
	bool is_resize = ip == (unsigned long)netif_set_real_num_tx_queues;
	int error = !ops->func ? tracer.direct_filter_error :
		    is_resize ? tracer.resize_filter_error : tracer.filter_error;

	if (remove || (ops->filter && !reset))
		fail("ftrace: the hook is to trace more than one function");
	if (ip >= transmit_ip() && ip <= transmit_ip() + 8 && !error &&
	    ip != transmit_ip() + tracer.patched_at)
		return -EINVAL;
	if (error)
		return error;
	ops->filter = ip;
	return 0;
}

int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *name, int length,
		      int reset)
{
	if (name || length || !reset)
		fail("ftrace: the filter is not emptied");
	if (ops == tracer.callback || ops == tracer.resize || ops == tracer.direct)
		fail("ftrace: without a filter it would trace every function");
	if (tracer.no_memory) {
		tracer.no_memory--;
		return -ENOMEM;
	}
	ops->filter = 0;
	return 0;
}

static struct ftrace_ops **placed_as(const struct ftrace_ops *ops)
{
	return ops->filter == (unsigned long)netif_set_real_num_tx_queues ?
	       &tracer.resize : &tracer.callback;
}

int register_ftrace_function(struct ftrace_ops *ops)
{
	struct ftrace_ops **placed = placed_as(ops);
	int error = placed == &tracer.resize ? tracer.resize_error : tracer.register_error;

	if (!ops->filter)
		fail("ftrace: the hook is to trace every function");
	if (*placed)
		fail("ftrace: the hook is placed twice");
	if (!(ops->flags & FTRACE_OPS_FL_PERMANENT))
		fail("ftrace: the hook can be switched off");
	if (error)
		return error;
	*placed = ops;
	return 0;
}

int unregister_ftrace_function(struct ftrace_ops *ops)
{
	struct ftrace_ops **placed = placed_as(ops);
	int error = placed == &tracer.resize ? tracer.resize_error : tracer.unregister_error;

	if (*placed != ops)
		fail("ftrace: a hook is removed that is not placed");
	if (error)
		return error;
	*placed = NULL;
	synchronize_rcu();
	return 0;
}

int register_ftrace_direct(struct ftrace_ops *ops, unsigned long function)
{
	if (ops->filter != transmit_ip() + tracer.patched_at)
		fail("ftrace: the direct call is in another function");
	if (tracer.direct)
		fail("ftrace: two direct calls");
	if (!ops->ops_func || ops->ops_func(ops, transmit_ip(), 0))
		fail("ftrace: the direct call keeps live patches out");
	if (tracer.direct_error)
		return tracer.direct_error;
	step();
	tracer.direct = ops;
	tracer.direct_function = function;
	return 0;
}

int unregister_ftrace_direct(struct ftrace_ops *ops, unsigned long function,
			     bool free_filters)
{
	if (tracer.direct != ops || tracer.direct_function != function)
		fail("ftrace: a direct call is removed that is not placed");
	if (tracer.undirect_error)
		return tracer.undirect_error;
	tracer.direct = NULL;
	tracer.direct_function = 0;
	return 0;
}

/* RTNL and its notifiers */
void notify(struct tun_device *tun, unsigned long event)
{
	if (notifier)
		notifier->notifier_call(notifier, event, &tun->dev);
}

int register_netdevice_notifier(struct notifier_block *block)
{
	rtnl_lock();
	notifier = block;
	if (the_device) {
		notify(the_device, NETDEV_REGISTER);
		if (the_device->dev.running)
			notify(the_device, NETDEV_UP);
	}
	rtnl_unlock();
	return 0;
}

int unregister_netdevice_notifier(struct notifier_block *block)
{
	if (notifier != block)
		fail("a notifier is removed that is not ours");
	rtnl_lock();
	if (the_device) {
		if (the_device->dev.running)
			notify(the_device, NETDEV_GOING_DOWN);
		notify(the_device, NETDEV_UNREGISTER);
	}
	notifier = NULL;
	rtnl_unlock();
	return 0;
}
