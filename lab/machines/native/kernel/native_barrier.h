/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The barriers between CPUs, as the processor needs them and as x86's own kernel
 * has them. User-Mode Linux has the strongest for all: an acquiring load pays for
 * an mfence, which takes longer than all else that is done with a packet here.
 *
 * x86 keeps loads in order, stores in order, and no store before an older load;
 * only a load may pass an older store, and a locked instruction forbids that
 * (AMD64 Architecture Programmer's Manual, volume 2, section 7.2).
 */
#ifndef NATIVE_BARRIER_H
#define NATIVE_BARRIER_H

#define __smp_mb()	asm volatile("lock; addl $0,-4(%%rsp)" ::: "memory", "cc")
#define __smp_rmb()	barrier()
#define __smp_wmb()	barrier()

#define __smp_load_acquire(from)					\
({									\
	__unqual_scalar_typeof(*(from)) loaded = READ_ONCE(*(from));	\
									\
	barrier();							\
	(typeof(*(from)))loaded;					\
})

#define __smp_store_release(to, value)					\
do {									\
	barrier();							\
	WRITE_ONCE(*(to), value);					\
} while (0)

/* A locked read-modify-write orders everything. */
#define __smp_mb__before_atomic()	barrier()
#define __smp_mb__after_atomic()	barrier()

#endif
