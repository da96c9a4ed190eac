/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What series/'s tun_txq.c and the policy see of a kernel when they run in user space:
 * one thread, one queue, a clock that the test sets, a producer lock that a trylock may
 * find taken for as long as the test likes. Included before everything else; the headers
 * that they name are empty files.
 */
#ifndef SERIES_KERNEL_H
#define SERIES_KERNEL_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef int64_t s64;
typedef int64_t ktime_t;
typedef char spinlock_t;
typedef char raw_spinlock_t;

#define EXPORT_SYMBOL_GPL(name)
#define EXPORT_SYMBOL_IF_KUNIT(name)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define IS_ENABLED(option)	0
#define fallthrough		__attribute__((__fallthrough__))
#define likely(x)		(x)
#define unlikely(x)		(x)
#define data_race(x)		(x)
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, value)	((x) = (value))
#define smp_rmb()		((void)0)
#define NSEC_PER_USEC		1000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_SEC		1000000000L
#define min(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a < __b ? __a : __b; })
#define max(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a > __b ? __a : __b; })
#define max3(a, b, c)		max(max(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(v, low, high)	min(max(v, low), high)
#define DIV_ROUND_UP(a, b)	(((a) + (b) - 1) / (b))
#define div_u64(a, b)		((u64)(a) / (u32)(b))
#define div64_u64(a, b)		((u64)(a) / (u64)(b))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* One thread: nobody waits for anybody, but a trylock may fail. */
extern bool producer_lock_is_taken;
#define spin_lock(lock)			((void)(lock))
#define spin_trylock(lock)		((void)(lock), !producer_lock_is_taken)
#define spin_unlock(lock)		((void)(lock))
#define raw_spin_lock_init(lock)	((void)(lock))
#define raw_spin_lock_irq(lock)		((void)(lock))
#define raw_spin_unlock_irq(lock)	((void)(lock))
#define raw_spin_lock_irqsave(lock, flags)	((void)(lock), (flags) = 0)
#define raw_spin_unlock_irqrestore(lock, flags)	((void)(lock), (void)(flags))
#define lockdep_assert_held(lock)	((void)(lock))

u64 ktime_get_ns(void);
void start_timer(ktime_t ns);
#define ns_to_ktime(ns)		((ktime_t)(ns))

enum hrtimer_restart { HRTIMER_NORESTART };
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
};
extern unsigned int hrtimer_resolution;
#define HRTIMER_MODE_REL_PINNED_SOFT	0
#define HRTIMER_MODE_REL_PINNED_HARD	0
#define hrtimer_setup(timer, handler, clock, mode) \
	((timer)->function = (handler))
#define hrtimer_start(timer, ns, mode)	((void)(timer), start_timer(ns))

struct sk_buff;
struct net_device;
struct netdev_queue {
	struct net_device *dev;
	bool stopped;
};
#define netif_running(dev)		true
#define qdisc_txq_has_no_queue(queue)	((void)(queue), false)
void netif_tx_stop_queue(struct netdev_queue *queue);
void netif_tx_wake_queue(struct netdev_queue *queue);
bool netdev_xmit_more(void);

/* The kernel's ring, as far as its producers see it. */
struct ptr_ring {
	int producer, consumer_head, consumer_tail, size, batch;
	spinlock_t producer_lock;
	void **queue;
};
int __ptr_ring_produce(struct ptr_ring *ring, void *entry);
#include "helpers.h"

#endif
