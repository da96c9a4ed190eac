/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A minimal other end of vhost-net: one receive queue whose buffers are returned at
 * once. The process that uses it stands for the virtual machine.
 *
 * Guest and process share one address space, so a guest physical address is
 * the address itself. Layout of the queue: the virtio specification, 2.7
 * (split virtqueues), as <linux/virtio_ring.h> declares it.
 */
#ifndef VHOST_H
#define VHOST_H

#include <errno.h>
#include <fcntl.h>
#include <linux/vhost.h>
#include <linux/virtio_ring.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define VHOST_SLOTS 256
#define VHOST_BUFFER_BYTES 2048
#define VHOST_HEADER_BYTES 10	/* struct virtio_net_hdr */
#define VHOST_QUEUE_BYTES 16384	/* more than descriptors and both rings take */

struct vhost {
	struct vring ring;
	unsigned char *buffers;
	int fd, kick, call;
	uint16_t seen;	/* used entries taken so far */
};

static inline void vhost_offer(struct vhost *v, uint16_t slot)
{
	uint16_t next = v->ring.avail->idx;

	v->ring.avail->ring[next % VHOST_SLOTS] = slot;
	__atomic_store_n(&v->ring.avail->idx, next + 1, __ATOMIC_SEQ_CST);
}

static inline void vhost_kick(struct vhost *v)
{
	eventfd_t one = 1;

	if (!(__atomic_load_n(&v->ring.used->flags, __ATOMIC_SEQ_CST) &
	      VRING_USED_F_NO_NOTIFY))
		(void)!write(v->kick, &one, sizeof(one));
}

/* Tell the kernel all it needs; the memory holds the rings and the buffers. */
static inline int vhost_set_up(struct vhost *v, int tap, void *memory,
			       size_t bytes)
{
	uint64_t features = 1ULL << VHOST_NET_F_VIRTIO_NET_HDR;
	struct {
		struct vhost_memory head;
		struct vhost_memory_region region;
	} table = {
		.head.nregions = 1,
		.region.guest_phys_addr = (uintptr_t)memory,
		.region.userspace_addr = (uintptr_t)memory,
		.region.memory_size = bytes,
	};
	struct vhost_vring_state slots = { .num = VHOST_SLOTS };
	struct vhost_vring_file kick = { .fd = v->kick };
	struct vhost_vring_file call = { .fd = v->call };
	struct vhost_vring_file backend = { .fd = tap };
	struct vhost_vring_addr places = {
		.desc_user_addr = (uintptr_t)v->ring.desc,
		.avail_user_addr = (uintptr_t)v->ring.avail,
		.used_user_addr = (uintptr_t)v->ring.used,
	};

	return ioctl(v->fd, VHOST_SET_OWNER, NULL) ||
	       ioctl(v->fd, VHOST_SET_FEATURES, &features) ||
	       ioctl(v->fd, VHOST_SET_MEM_TABLE, &table) ||
	       ioctl(v->fd, VHOST_SET_VRING_NUM, &slots) ||
	       ioctl(v->fd, VHOST_SET_VRING_ADDR, &places) ||
	       ioctl(v->fd, VHOST_SET_VRING_KICK, &kick) ||
	       ioctl(v->fd, VHOST_SET_VRING_CALL, &call) ||
	       ioctl(v->fd, VHOST_NET_SET_BACKEND, &backend);
}

/* Let vhost-net read the tap; 0, or -1 with errno. */
static inline int vhost_open(struct vhost *v, int tap)
{
	size_t bytes = VHOST_QUEUE_BYTES + VHOST_SLOTS * VHOST_BUFFER_BYTES;
	unsigned char *memory;
	int slot;

	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	vring_init(&v->ring, VHOST_SLOTS, memory, 4096);
	v->buffers = memory + VHOST_QUEUE_BYTES;
	for (slot = 0; slot < VHOST_SLOTS; slot++) {
		v->ring.desc[slot].addr =
			(uintptr_t)v->buffers + slot * VHOST_BUFFER_BYTES;
		v->ring.desc[slot].len = VHOST_BUFFER_BYTES;
		v->ring.desc[slot].flags = VRING_DESC_F_WRITE;
		vhost_offer(v, slot);
	}
	v->kick = eventfd(0, EFD_CLOEXEC);
	v->call = eventfd(0, EFD_CLOEXEC);
	v->fd = open("/dev/vhost-net", O_RDWR | O_CLOEXEC);
	if (v->kick < 0 || v->call < 0 || v->fd < 0 ||
	    vhost_set_up(v, tap, memory, bytes))
		return -1;
	vhost_kick(v);
	return 0;
}

/* Blocks for a packet, as read() does; its bytes, or -1 with errno. */
static inline ssize_t vhost_read(struct vhost *v, unsigned char *packet,
				 size_t room)
{
	struct vring_used_elem *done;
	eventfd_t calls;
	ssize_t length;

	while (__atomic_load_n(&v->ring.used->idx, __ATOMIC_SEQ_CST) == v->seen)
		if (read(v->call, &calls, sizeof(calls)) < 0)
			return -1;
	done = &v->ring.used->ring[v->seen++ % VHOST_SLOTS];
	length = (ssize_t)done->len - VHOST_HEADER_BYTES;
	if (length < 0 || (size_t)length > room) {
		errno = EMSGSIZE;
		return -1;
	}
	memcpy(packet, v->buffers + done->id * VHOST_BUFFER_BYTES +
	       VHOST_HEADER_BYTES, length);
	vhost_offer(v, done->id);
	vhost_kick(v);
	return length;
}

#endif
