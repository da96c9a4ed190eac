/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What reader.c and kernel_reader.c tell each other. */
#ifndef KERNEL_READER_H
#define KERNEL_READER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KERNEL_READER "/dev/kernel_reader"

struct kernel_reader {
	__s32 from, to;		/* files of tun devices; the same for a sink */
	__u32 is_tun;		/* IP packets, not Ethernet frames */
	__u32 burn_ns;		/* of work for each packet */
	__u32 link_ns;		/* that each packet keeps a link busy */
	__u32 unused;
	__s64 link_free;	/* when that link is free again */
	__u64 read, bytes, written, write_errors, echoed;	/* added to */
};

/* Reads until a signal comes, which is the only error but for a wrong file. */
#define KERNEL_READER_RUN _IOWR('s', 1, struct kernel_reader)

#endif
