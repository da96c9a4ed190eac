// SPDX-License-Identifier: GPL-2.0-or-later
/* In steps.c compiled as the module is, so that its accesses are seen as well. */
#include "machine.h"

const struct file_operations tun_fops;

struct tun_file *driver_open(unsigned int process, int size, int batch)
{
	struct tun_file *file = zeroed(sizeof(*file));

	file->open = zeroed(sizeof(*file->open));
	file->open->f_op = &tun_fops;
	file->open->private_data = file;
	file->socket.file = file->open;
	file->process = process;
	ptr_ring_init_noprof(&file->ring, size, GFP_KERNEL);
	if (batch < size)
		file->ring.batch = batch;
	smp_mb();
	return file;
}

void driver_close(struct tun_file *file)
{
	poison_free(file->ring.queue);
	poison_free(file->open);
	poison_free(file);
}

int driver_produce(struct tun_file *file, void *packet)
{
	return ptr_ring_produce(&file->ring, packet);
}

/* Several under one lock: as vhost-net reads. */
int driver_consume_batch(struct tun_file *file, void **packets, int count)
{
	return ptr_ring_consume_batched(&file->ring, packets, count);
}

void driver_unconsume(struct tun_file *file, void **packets, int count,
		      void (*destroy)(void *))
{
	ptr_ring_unconsume(&file->ring, packets, count, destroy);
}

int driver_resize(struct tun_file *file, int size, void (*destroy)(void *))
{
	return ptr_ring_resize_noprof(&file->ring, size, GFP_KERNEL, destroy);
}

bool driver_stopped(struct netdev_queue *txq)
{
	return READ_ONCE(txq->state) & XOFF;
}

struct tun_file *driver_file(void **slot)
{
	return rcu_dereference(*slot);
}

void driver_publish(void **slot, struct tun_file *file)
{
	rcu_assign_pointer(*slot, (void *)file);
}

void driver_set_qdisc(struct netdev_queue *txq, struct Qdisc *qdisc)
{
	rcu_assign_pointer(txq->qdisc, qdisc);
}
