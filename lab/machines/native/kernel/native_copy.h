/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A number of 2, 4 or 8 bytes is copied whole to and from user memory, as x86's own
 * kernel does. vhost-net reads the 16 bits of an index while the guest writes them.
 */
#ifndef NATIVE_COPY_H
#define NATIVE_COPY_H

#define NATIVE_COPY(type, to, from) \
	(*(volatile type *)(to) = *(const volatile type *)(from))

static inline void native_copy(void *to, const void *from, unsigned long bytes)
{
	switch (bytes) {
	case 2:
		NATIVE_COPY(u16, to, from);
		break;
	case 4:
		NATIVE_COPY(u32, to, from);
		break;
	case 8:
		NATIVE_COPY(u64, to, from);
		break;
	default:
		memcpy(to, from, bytes);
	}
}

#endif
