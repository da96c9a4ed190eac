/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interface between reader.c and kernel_reader.c. */
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
	__u32 unused;
	__s64 link_free;	/* when that link is free again */
	__u64 read, bytes, written, write_errors, echoed;	/* increased by the module */
};

/* Reads until a signal; a wrong file is the only other error. */
#define KERNEL_READER_RUN _IOWR('s', 1, struct kernel_reader)

#endif
