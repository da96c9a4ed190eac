/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machine.c: what device.c, hook.c, direct.c and layout.c call of a kernel: ftrace, the
 * driver's files and devices, RTNL and its notifiers. It fails where it is used in a wrong
 * way. driver.c: the stock driver's part that runs beside ours, its rings and pointers.
 * For examples.c and world.c.
 */
#ifndef POLICY_MACHINE_H
#define POLICY_MACHINE_H

#include <linux/ptr_ring.h>

#include "sluice.h"

#define QUEUES		2

/* A device, with what its private area begins with. */
struct tun_device {
	struct net_device dev;
	void *slots[QUEUES];
	unsigned int attached;
	bool foreign[QUEUES];		/* stopped by somebody else */
};

/* What ftrace answers if it refuses, and what is placed. */
struct tracer {
	int filter_error, register_error, unregister_error;
	int direct_filter_error, direct_error, undirect_error;
	int resize_filter_error, resize_error;
	int no_memory;			/* so often, to empty a filter */
	unsigned long patched_at;	/* behind the function's beginning */
	struct ftrace_ops *callback, *direct, *resize;
	unsigned long direct_function;
};

extern struct tracer tracer;
extern struct tun_device *the_device;	/* published to senders */
extern struct Qdisc fq, noqueue, lockless;
extern const char *flags_shown;		/* in the file tun_flags of each device */
extern struct socket *socket_instead;	/* what the driver says of a file, if not NULL */
extern struct ptr_ring *ring_instead;
extern long open_error;

unsigned long transmit_ip(void);
struct tun_device *tun_create(unsigned int queues);
void notify(struct tun_device *tun, unsigned long event);

/* A tun file: a process or vhost-net has it open. */
struct tun_file {
	struct socket socket;
	struct ptr_ring ring;
	struct file *open;
	unsigned int process;	/* whose file it is */
};

extern const struct file_operations tun_fops;
struct tun_file *driver_open(unsigned int process, int size, int batch);
void driver_close(struct tun_file *file);
int driver_produce(struct tun_file *file, void *packet);
int driver_consume_batch(struct tun_file *file, void **packets, int count);
void driver_unconsume(struct tun_file *file, void **packets, int count,
		      void (*destroy)(void *));
int driver_resize(struct tun_file *file, int size, void (*destroy)(void *));
bool driver_stopped(struct netdev_queue *txq);
struct tun_file *driver_file(void **slot);
void driver_publish(void **slot, struct tun_file *file);
void driver_set_qdisc(struct netdev_queue *txq, struct Qdisc *qdisc);

#endif
