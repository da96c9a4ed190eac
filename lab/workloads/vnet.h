/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets with a virtio-net header: the kernel delivers the segments of a stream as
 * one packet of up to 64 KB, which VPNs and virtual machines ask for.
 */
#ifndef VNET_H
#define VNET_H

#include <linux/virtio_net.h>
#include <stddef.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4	/* since 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define VNET_HEADER_BYTES 10	/* struct virtio_net_hdr */

/* The number of segments in a packet. */
static inline unsigned int vnet_segments(const unsigned char *packet,
					 size_t length)
{
	const struct virtio_net_hdr *header = (const void *)packet;
	size_t start = VNET_HEADER_BYTES + header->csum_start, payload;

	if (header->gso_type == VIRTIO_NET_HDR_GSO_NONE || !header->gso_size)
		return 1;
	if (header->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4)
		payload = length - start - 8;
	else	/* the length of TCP's header, in words of four bytes */
		payload = length - start - (packet[start + 12] >> 4) * 4;
	return (payload + header->gso_size - 1) / header->gso_size;
}

#endif
