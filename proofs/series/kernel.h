/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What series/'s tun_txq.h sees of a kernel when it runs in user space: one
 * thread, one queue, a clock that the test sets. Included before everything
 * else; the headers tun_txq.h names are empty files.
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
typedef int32_t s32;
typedef int64_t ktime_t;
typedef char spinlock_t;

#define ____cacheline_aligned_in_smp
#define likely(x)		(x)
#define unlikely(x)		(x)
#define data_race(x)		(x)
#define READ_ONCE(x)		(x)
#define HZ			250
extern unsigned int hrtimer_resolution;
#define NSEC_PER_USEC		1000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_SEC		1000000000L
#define min(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a < __b ? __a : __b; })
#define max(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a > __b ? __a : __b; })
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define clamp_t(type, v, low, high) \
	min_t(type, max((type)(v), (type)(low)), high)
#define clamp(v, low, high)	clamp_t(__typeof__(v), v, low, high)
#define div_u64(a, b)		((u64)(a) / (u32)(b))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* One thread: nobody waits for anybody. */
#define spin_lock(lock)		((void)(lock))
#define spin_trylock(lock)	((void)(lock), true)
#define spin_unlock(lock)	((void)(lock))
#define spin_lock_bh(lock)	((void)(lock))
#define spin_unlock_bh(lock)	((void)(lock))

u64 ktime_get_ns(void);
void start_timer(ktime_t ns);
#define ns_to_ktime(ns)		((ktime_t)(ns))
#define ktime_to_ns(kt)		((s64)(kt))
#define jiffies			((unsigned long)(ktime_get_ns() / (NSEC_PER_SEC / HZ)))
#define time_before(a, b)	((long)((a) - (b)) < 0)

enum hrtimer_restart { HRTIMER_NORESTART };
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	ktime_t expires;
};
#define IS_ENABLED(option)		0
#define HRTIMER_MODE_REL_PINNED_SOFT	0
#define HRTIMER_MODE_REL_PINNED_HARD	0
#define hrtimer_setup(timer, handler, clock, mode) \
	((timer)->function = (handler))
#define hrtimer_start(timer, ns, mode) \
	((timer)->expires = ktime_get_ns() + (ns), start_timer(ns))
#define hrtimer_cb_get_time(timer)	ktime_get_ns()
#define hrtimer_get_expires(timer)	((timer)->expires)
#define hrtimer_cancel(timer)		((void)(timer))

struct sk_buff;
struct net_device;
struct netdev_queue {
	struct net_device *dev;
	bool stopped;
};
#define netif_running(dev)		true
#define qdisc_txq_has_no_queue(queue)	false
void netif_tx_stop_queue(struct netdev_queue *queue);
void netif_tx_wake_queue(struct netdev_queue *queue);
bool netdev_xmit_more(void);

/* The kernel's ring, as far as the producer's helpers see it. */
struct ptr_ring {
	int producer, consumer_head, consumer_tail, size, batch;
	spinlock_t producer_lock;
	void **queue;
};
int __ptr_ring_produce(struct ptr_ring *ring, void *entry);

#endif
