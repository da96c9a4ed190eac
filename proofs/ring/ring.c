/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The self-test of the module's load, in user space, on the kernel's own
 * ptr_ring.h or on one in which a field means something else.
 */
#include "single.h"

int sluice_selftest_ring(void);

void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
}

int main(void)
{
	return sluice_selftest_ring() ? 1 : puts("fine: as the policy reads it") < 0;
}
