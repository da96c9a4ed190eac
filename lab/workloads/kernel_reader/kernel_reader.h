/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What reader.c and kernel_reader.c share: the interface between them, and their work. */
#ifndef KERNEL_READER_H
#define KERNEL_READER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KERNEL_READER "/dev/kernel_reader"

struct kernel_reader {
	__s32 from, to;		/* files of tun devices; a sink has the same in both */
	__u32 is_tun;		/* IP packets, not Ethernet frames */
	__u32 burn_ns;		/* busy work for each packet */
	__u32 link_ns;		/* time that each packet takes on a link */
	__u32 period_ns;	/* it comes once in so long; 0: whenever there are packets */
	__u32 pause_ns;		/* and reads nothing at the end of a period; 0: see below */
	__u32 visit;		/* packets read in this period */
	__s64 period_from;	/* when this period began */
	__s64 link_free;	/* when that link is free again */
	__u64 read;		/* increased by the module */
};

/* Reads until a signal; a wrong file is the only other error. */
#define KERNEL_READER_RUN _IOWR('s', 1, struct kernel_reader)

#define PACKET_BYTES (65536 + 64)	/* with the headers before IP */
#define VISIT_PACKETS 500	/* of a reader on a tick, at most */
#define LINK_BURST_NS 1000000		/* a link accepts a burst in advance */

/*
 * Each packet takes ns on the link, which makes up for late_ns: whether to wait until
 * *link_free.
 */
static inline int is_link_busy(__s64 *link_free, __s64 now, __s64 ns, __s64 late_ns)
{
	if (*link_free < now - late_ns)
		*link_free = now - late_ns;
	*link_free += ns;
	return *link_free - now >= LINK_BURST_NS;
}

/*
 * A reader on a tick reads until the ring is empty, or VISIT_PACKETS; one that pauses
 * reads until its pause begins.
 */
static inline int is_visit_over(const struct kernel_reader *reader, __s64 now, int empty)
{
	if (reader->pause_ns)
		return now - reader->period_from >= reader->period_ns - reader->pause_ns;
	return empty || reader->visit >= VISIT_PACKETS;
}

/* When it may read again: a reader that is late has its next period at once. */
static inline __s64 next_period(struct kernel_reader *reader, __s64 now)
{
	reader->visit = 0;
	reader->period_from += reader->period_ns;
	if (reader->period_from < now)
		reader->period_from = now;
	return reader->period_from;
}

static inline void swap_bytes(unsigned char *a, unsigned char *b, int length)
{
	unsigned char kept;

	while (length--) {
		kept = a[length];
		a[length] = b[length];
		b[length] = kept;
	}
}

/* Turns an ICMP echo request into its reply, in place; whether it was one. */
static inline int make_echo_reply(unsigned char *frame, int length, int is_tun)
{
	int start = is_tun ? 0 : 14;	/* the Ethernet header */
	unsigned char *ip = frame + start, *icmp = ip + 20;
	unsigned int sum;

	if (length < start + 28 || ip[0] != 0x45 || ip[9] != 1 || icmp[0] != 8)
		return 0;
	if (!is_tun)
		swap_bytes(frame, frame + 6, 6);
	swap_bytes(ip + 12, ip + 16, 4);
	icmp[0] = 0;
	/* RFC 1624: the type went from 8 to 0. */
	sum = (icmp[2] << 8 | icmp[3]) + 0x0800;
	sum = (sum & 0xffff) + (sum >> 16);
	icmp[2] = sum >> 8;
	icmp[3] = sum;
	return 1;
}

#endif
