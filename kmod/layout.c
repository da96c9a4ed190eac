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
 */
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/net.h>
#include <linux/uaccess.h>

#include "sluice.h"

static struct {
	const struct file_operations *fops;
	ptrdiff_t socket;
	ptrdiff_t ring;
} layout;

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

	file = filp_open("/dev/net/tun", O_RDWR, 0);
	if (IS_ERR(file)) {
		pr_err("/dev/net/tun: cannot be opened (%ld); run: modprobe tun\n",
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

/* The driver's per-file struct of queue @id, NULL without a reader. */
static void *queue_file(const struct net_device *dev, unsigned int id)
{
	void **files = netdev_priv(dev);

	return READ_ONCE(files[id]);
}

/**
 * sluice_layout_check() - is queue @id laid out as we believe?
 * @dev: a device of kind "tun"
 * @id: the queue, below dev->num_tx_queues
 *
 * Context: any; RCU read side, or RTNL.
 * Return: NULL if it is, "" if it has no reader and cannot be told, else the
 *	   reason why it is not.
 */
const char *sluice_layout_check(const struct net_device *dev, unsigned int id)
{
	struct file *file, *back;
	const struct file_operations *fops;
	struct socket *socket;
	void **files = netdev_priv(dev);
	void *tfile;

	if (get_kernel_nofault(tfile, &files[id]))
		return "private area not readable";
	if (!tfile)
		return "";

	socket = tfile + layout.socket;
	if (get_kernel_nofault(file, &socket->file) ||
	    get_kernel_nofault(back, (struct file **)&file->private_data) ||
	    get_kernel_nofault(fops, &file->f_op))
		return "queue does not lead to a file";
	if ((void *)back != tfile || fops != layout.fops)
		return "queue leads to a file that is not its own";
	return NULL;
}

/**
 * sluice_layout_ring() - the ring behind a queue
 * @dev: a device that passed sluice_layout_check()
 * @id: the queue, below dev->num_tx_queues
 *
 * Context: any; RCU read side, which keeps the ring's struct (not its array
 *	    of slots) alive: the driver frees it a grace period after it took
 *	    it out of the array.
 * Return: the ring, or NULL while the queue has no reader.
 */
struct ptr_ring *sluice_layout_ring(const struct net_device *dev,
				    unsigned int id)
{
	void *tfile = queue_file(dev, id);

	return tfile ? tfile + layout.ring : NULL;
}
