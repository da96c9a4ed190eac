// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the stock tun driver keeps the ring of a queue.
 *
 * Two facts are learned from exported functions, on a file of our own: the
 * distance from the driver's per-file struct to its socket and to its ring.
 * One fact is assumed and then checked on every queue before it is used: the
 * driver's private area begins with the array of per-file pointers, one per
 * queue (so since commit c8d68e6be1c3, 3.8). The check walks from such a
 * pointer to the socket, on to the open file, and back, with reads that
 * survive a wild pointer.
 *
 * From NETDEV_UNREGISTER on the pointers of a device may be stale: device.c
 * forgets the device at that event, before the driver frees what they lead to.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/net.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#include "sluice.h"

static struct {
	const struct file_operations *fops;
	ptrdiff_t socket;
	ptrdiff_t ring;
} layout;

/* With the kernel's credentials: the loading process may lack the right. */
static struct file *open_driver(void)
{
	struct cred *kernel = prepare_kernel_cred(&init_task);
	const struct cred *loader;
	struct file *file;

	if (!kernel)
		return ERR_PTR(-ENOMEM);
	loader = override_creds(kernel);
	file = filp_open("/dev/net/tun", O_RDWR, 0);
	revert_creds(loader);
	put_cred(kernel);
	return file;
}

/**
 * sluice_layout_learn() - measure the driver with a file of our own
 *
 * Context: process, at module load.
 * Return: 0, or a negative errno after saying what is missing.
 */
int sluice_layout_learn(void)
{
	struct socket *socket;
	struct ptr_ring *ring;
	struct file *file;
	int err = 0;

	file = open_driver();
	if (IS_ERR(file)) {
		pr_err("/dev/net/tun: cannot be opened (%ld); is /dev mounted? then load sluice again\n",
		       PTR_ERR(file));
		return PTR_ERR(file);
	}

	socket = tun_get_socket(file);
	ring = tun_get_tx_ring(file);
	if (IS_ERR(socket) || IS_ERR(ring) || socket->file != file) {
		pr_err("tun: not the driver sluice knows; stock behaviour remains\n");
		err = -ENODEV;
	} else {
		layout.fops = file->f_op;
		layout.socket = (void *)socket - file->private_data;
		layout.ring = (void *)ring - file->private_data;
	}
	filp_close(file, NULL);
	return err;
}

/**
 * sluice_layout_slot() - where the driver keeps a queue's per-file struct
 * @dev: a device of kind "tun"
 * @id: the queue, below dev->num_tx_queues
 *
 * Return: the address of the pointer, to be read only after
 *	   sluice_layout_check() said that it is one.
 */
void **sluice_layout_slot(const struct net_device *dev, unsigned int id)
{
	return (void **)netdev_priv(dev) + id;
}

/**
 * sluice_layout_check() - is a queue laid out as assumed?
 * @slot: from sluice_layout_slot()
 *
 * Context: any; RCU read side, or RTNL.
 * Return: NULL if it is, "" if it has no reader and cannot be checked, else
 *	   the reason why it is not.
 */
const char *sluice_layout_check(void **slot)
{
	const struct file_operations *fops;
	struct socket *socket;
	struct file *open;
	void *file, *back;

	if (get_kernel_nofault(file, slot))
		return "private area not readable";
	if (!file)
		return "";

	socket = file + layout.socket;
	if (get_kernel_nofault(open, &socket->file) ||
	    get_kernel_nofault(back, &open->private_data) ||
	    get_kernel_nofault(fops, &open->f_op))
		return "queue does not lead to a file";
	if (back != file || fops != layout.fops)
		return "queue leads to a file that is not its own";
	return NULL;
}

/**
 * sluice_layout_ring() - the ring in the driver's per-file struct
 * @file: read from a slot that passed sluice_layout_check()
 *
 * Context: any; RCU read side, which keeps the ring's struct (not its array
 *	    of slots) alive: the driver frees it a grace period after it took
 *	    it out of the slot.
 * Return: the ring, or NULL while the queue has no reader.
 */
struct ptr_ring *sluice_layout_ring(void *file)
{
	return file ? file + layout.ring : NULL;
}
