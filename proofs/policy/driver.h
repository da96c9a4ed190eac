/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stock driver's part that runs beside ours: its rings and pointers. */
#ifndef POLICY_DRIVER_H
#define POLICY_DRIVER_H

#include <linux/ptr_ring.h>

#define SENDERS_MAX	6

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
