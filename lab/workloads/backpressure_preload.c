// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A library that is preloaded into a program: it adds IFF_BACKPRESSURE to the
 * flags of the tun device that the program opens. So the lab runs the variant
 * "upstream" with programs that do not know the flag.
 */
#define _GNU_SOURCE
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BACKPRESSURE 0x0080

int ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *wanted;
	void *argument;
	va_list list;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request == TUNSETIFF) {
		wanted = argument;
		wanted->ifr_flags |= BACKPRESSURE;
	}
	return syscall(SYS_ioctl, fd, request, argument);
}
