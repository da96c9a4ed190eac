/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What kmod/selftest_ring.c and the kernel's ptr_ring.h see of a kernel when
 * they run in user space, in one thread. The headers they name are empty files.
 */
#ifndef RING_KERNEL_H
#define RING_KERNEL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int gfp_t;
typedef struct { char unused; } spinlock_t;

#define SMP_CACHE_BYTES			64
#define ____cacheline_aligned_in_smp	__attribute__((aligned(SMP_CACHE_BYTES)))
#define likely(x)			(x)
#define unlikely(x)			(x)
#define max(a, b)			((a) > (b) ? (a) : (b))
#define READ_ONCE(x)			(x)
#define WRITE_ONCE(x, value)		((x) = (value))
#define data_race(x)			(x)
#define smp_wmb()			((void)0)

#define spin_lock_init(lock)		((void)(lock))
#define spin_lock(lock)			((void)(lock))
#define spin_unlock(lock)		((void)(lock))
#define spin_lock_irq(lock)		((void)(lock))
#define spin_unlock_irq(lock)		((void)(lock))
#define spin_lock_bh(lock)		((void)(lock))
#define spin_unlock_bh(lock)		((void)(lock))
#define spin_lock_irqsave(lock, flags)	((void)(lock), (void)((flags) = 0))
#define spin_unlock_irqrestore(lock, flags)	((void)(lock), (void)(flags))

#define GFP_KERNEL			0
#define __GFP_ZERO			0
#define KMALLOC_MAX_SIZE		(1 << 20)
#define alloc_hooks(x)			x
#define kvmalloc_array_noprof(n, size, flags)	calloc(n, size)
#define kmalloc_array_noprof(n, size, flags)	calloc(n, size)
#define kvmalloc_array(n, size, flags)	calloc(n, size)
#define kmalloc_array(n, size, flags)	calloc(n, size)
#define kvfree(p)			free(p)
#define kfree(p)			free(p)

#define pr_err(...)			printf(__VA_ARGS__)

#endif
