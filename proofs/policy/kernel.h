/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the module's sources see of a kernel when they run in user space.
 * Included before everything else; the headers they name are empty files, but
 * for linux/ptr_ring.h, which is the kernel's own.
 *
 * Every access that is marked in the source is a step(): there another thread
 * of the world may go on. steps.c and threads.c say how.
 */
#ifndef POLICY_KERNEL_H
#define POLICY_KERNEL_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
typedef s64 ktime_t;
typedef unsigned int uint;
typedef unsigned int gfp_t;

#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define notrace
#define likely(x)		(x)
#define unlikely(x)		(x)
#define OPTIMIZER_HIDE_VAR(x)	((void)(x))
#define SMP_CACHE_BYTES		16	/* a ring's batch is then 4 packets */
#define ____cacheline_aligned_in_smp	__attribute__((aligned(64)))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp_t(type, v, low, high) \
	min_t(type, max((type)(v), (type)(low)), high)
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define NSEC_PER_USEC		1000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_SEC		1000000000L
#define div64_u64(a, b)	((u64)(a) / (u64)(b))
#define div_u64(a, b)		((u64)(a) / (u32)(b))

/* steps.c, threads.c: who runs when, locks, timers, grace periods */
void step(void);
u64 ktime_get_ns(void);
void sleep_ns(u64 ns);
unsigned int chance(unsigned int below);
void spawn(void (*function)(void *), void *argument, int cpu);
void run_world(unsigned int seed);
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
int num_online_cpus(void);
void unseen_read(const volatile void *from, void *to, size_t size);
void unseen_fence(void);

/*
 * A plain aligned store of a word counts as atomic, as it does for KCSAN: what
 * is read with READ_ONCE() races with nobody, what is read without it races
 * with every store.
 */
#define unqualified(x)		__typeof__(((void)0, (x)))
#define READ_ONCE(x) ({						\
	unqualified(x) __value;					\
	step();							\
	unseen_read(&(x), &__value, sizeof(__value));		\
	__value; })
#define WRITE_ONCE(x, value) do {				\
	step();							\
	__atomic_store_n(&(x), (value), __ATOMIC_RELAXED);	\
} while (0)
#define smp_load_acquire(p) \
	({ step(); __atomic_load_n(p, __ATOMIC_ACQUIRE); })
#define smp_store_release(p, value) \
	do { step(); __atomic_store_n(p, value, __ATOMIC_RELEASE); } while (0)
#define smp_rmb()		unseen_fence()
#define smp_wmb()		unseen_fence()
#define rcu_access_pointer(p)	READ_ONCE(p)

typedef struct { s64 counter; } atomic64_t;
#define atomic64_read(v) \
	({ step(); __atomic_load_n(&(v)->counter, __ATOMIC_RELAXED); })
#define atomic64_inc(v) \
	do { step(); __atomic_fetch_add(&(v)->counter, 1, __ATOMIC_RELAXED); } while (0)
#define atomic64_cmpxchg(v, old, new) ({			\
	s64 __old = (old);					\
	step();							\
	__atomic_compare_exchange_n(&(v)->counter, &__old, (s64)(new), false, \
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	__old; })
typedef struct { int counter; } atomic_t;
#define ATOMIC_INIT(value)	{ value }
#define atomic_read(v) \
	({ step(); __atomic_load_n(&(v)->counter, __ATOMIC_RELAXED); })
#define atomic_inc(v) \
	do { step(); __atomic_fetch_add(&(v)->counter, 1, __ATOMIC_RELAXED); } while (0)
#define atomic_dec(v) \
	do { step(); __atomic_fetch_sub(&(v)->counter, 1, __ATOMIC_RELAXED); } while (0)
#define test_and_set_bit(nr, word) \
	({ step(); !!(__atomic_fetch_or(word, 1UL << (nr), __ATOMIC_SEQ_CST) & \
		      (1UL << (nr))); })

typedef struct {
	unsigned int magic;
	void *owner;
	pthread_mutex_t mutex;
} spinlock_t;

void spin_lock_init(spinlock_t *lock);
void spin_lock(spinlock_t *lock);
bool spin_trylock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
bool irq_off(void);
void irq_restore(bool were_off);
void lockdep_assert_held(const spinlock_t *lock);
void rtnl_lock(void);
void rtnl_unlock(void);
void ASSERT_RTNL(void);
#define spin_lock_irqsave(l, flags) \
	do { (flags) = irq_off(); spin_lock(l); } while (0)
#define spin_unlock_irqrestore(l, flags) \
	do { spin_unlock(l); irq_restore(flags); } while (0)
#define spin_lock_irq(l)	do { irq_off(); spin_lock(l); } while (0)
#define spin_unlock_irq(l)	do { spin_unlock(l); irq_restore(false); } while (0)
#define spin_lock_bh(l)		spin_lock(l)
#define spin_unlock_bh(l)	spin_unlock(l)
#define spin_lock_nested(l, n)	spin_lock(l)
#define raw_spinlock_t		spinlock_t
#define raw_spin_lock_init	spin_lock_init
#define raw_spin_lock_irqsave	spin_lock_irqsave
#define raw_spin_unlock_irqrestore spin_unlock_irqrestore
#define raw_spin_lock_irq	spin_lock_irq
#define raw_spin_unlock_irq	spin_unlock_irq

void rcu_read_lock_bh(void);
void rcu_read_unlock_bh(void);
void synchronize_rcu(void);
struct rcu_head { char unused; };

void poison_free(void *memory);
void *zeroed(size_t size);
#define GFP_KERNEL			0
#define __GFP_ZERO			0
#define KMALLOC_MAX_SIZE		(1 << 20)
#define alloc_hooks(x)			x
#define kvmalloc_array_noprof(n, size, flags)	zeroed((n) * (size))
#define kmalloc_array_noprof(n, size, flags)	zeroed((n) * (size))
#define kvmalloc_array(n, size, flags)	zeroed((n) * (size))
#define kvzalloc(size, flags)		zeroed(size)
#define kvfree(p)			poison_free(p)
#define kfree(p)			poison_free(p)
#define kvfree_rcu(p, head) \
	do { synchronize_rcu(); poison_free(p); } while (0)
#define struct_size(p, member, n) \
	(sizeof(*(p)) + (n) * sizeof((p)->member[0]))

/* Timers */
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_REL_PINNED_HARD };
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	s64 expires;
	bool queued, running, known;
	int cpu;
	struct hrtimer *next;
};
void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode);
int hrtimer_cancel(struct hrtimer *timer);
#define SLUICE_HAS_HRTIMER_SETUP
#define hrtimer_setup(timer, handler, clock, mode) \
	((timer)->function = (handler))
#define hrtimer_cb_get_time(timer)	((ktime_t)ktime_get_ns())
#define hrtimer_get_expires(timer)	((timer)->expires)
#define ns_to_ktime(ns)			((ktime_t)(ns))
#define ktime_to_ns(t)			((s64)(t))

/* Devices */
#define IFNAMSIZ			16
#define PAGE_SIZE			4096
enum { __QUEUE_STATE_DRV_XOFF };
enum { NETREG_REGISTERED, NETREG_UNREGISTERING };
enum { NOTIFY_DONE };
enum { NETDEV_REGISTER = 1, NETDEV_UNREGISTER, NETDEV_GOING_DOWN, NETDEV_UP,
       NETDEV_CHANGE, NETDEV_CHANGENAME, NETDEV_CHANGE_TX_QUEUE_LEN };
struct attribute { const char *name; };
struct attribute_group { struct attribute **attrs; };
struct device { char unused; };
struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr,
			char *text);
};
struct Qdisc { void *enqueue; u32 flags; };
#define TCQ_F_NOLOCK		0x100
#define SLUICE_HAS_LOCKED_RESET
struct netdev_queue {
	unsigned long state;
	struct Qdisc *qdisc;
	struct net_device *dev;
};
struct rtnl_link_ops { const char *kind; };
struct net_device_ops { void *ndo_start_xmit; };
struct net_device {
	unsigned int num_tx_queues, real_num_tx_queues;
	int reg_state, ifindex;
	bool running;
	const struct rtnl_link_ops *rtnl_link_ops;
	const struct net_device_ops *netdev_ops;
	const struct attribute_group *sysfs_groups[1];
	struct device dev;
	struct netdev_queue *tx;
};
struct sk_buff { u16 queue_mapping; };
#define skb_get_queue_mapping(skb)	((skb)->queue_mapping)
#define netif_running(device)		((device)->running)
#define netdev_warn(device, ...)	do { } while (0)
#define pr_err(...)			do { } while (0)
#define get_zeroed_page(flags)		((unsigned long)zeroed(PAGE_SIZE))
#define free_page(page)			free((void *)(page))
#define kstrtoul(text, base, to)	(*(to) = strtoul(text, NULL, base), 0)
#define strim(text)			(text)
void netif_tx_wake_queue(struct netdev_queue *txq);
static inline struct netdev_queue *
netdev_get_tx_queue(const struct net_device *dev, unsigned int id)
{
	return &dev->tx[id];
}

struct notifier_block {
	int (*notifier_call)(struct notifier_block *block, unsigned long event,
			     void *info);
};
#define netdev_notifier_info_to_dev(info)	((struct net_device *)(info))
int register_netdevice_notifier(struct notifier_block *block);
int unregister_netdevice_notifier(struct notifier_block *block);

/* The table of devices: all in one list, there is one device. */
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
#define DECLARE_HASHTABLE(name, bits)	struct hlist_head name[1]
#define DEFINE_HASHTABLE(name, bits)	struct hlist_head name[1]
#define hash_add_rcu(table, node, key) do {				\
	(node)->next = (table)[0].first;				\
	smp_store_release(&(table)[0].first, node);			\
} while (0)
#define hash_del_rcu(node) \
	smp_store_release(&sluice_devices[0].first, (node)->next)
#define hash_for_each_possible_rcu_notrace(table, object, member, key)	\
	for (struct hlist_node *__n = smp_load_acquire(&(table)[0].first); \
	     __n && (object = container_of(__n, __typeof__(*object), member)); \
	     __n = __n->next)

/* The hook */
struct ftrace_regs { const void *argument[2]; };
struct ftrace_ops {
	void (*func)(unsigned long ip, unsigned long parent,
		     struct ftrace_ops *ops, struct ftrace_regs *regs);
	unsigned long flags;
};
#define SLUICE_HAS_FTRACE_REGS
#define SLUICE_HAS_FTRACE_ARGS
#define CONFIG_HAVE_DYNAMIC_FTRACE_WITH_ARGS
#define FTRACE_OPS_FL_PERMANENT		1
#define ftrace_regs_get_argument(regs, n)	((regs)->argument[n])
static inline int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip,
				       int remove, int reset)
{
	return 0;
}
static inline int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *name,
				    int length, int reset)
{
	return 0;
}
int register_ftrace_function(struct ftrace_ops *ops);
int unregister_ftrace_function(struct ftrace_ops *ops);

/* Tracepoints */
struct sluice_queue;
void show(const char *event, const struct sluice_queue *q, int fill, u64 stopped_ns);
#define DECLARE_EVENT_CLASS(...)
#define TP_PROTO(...)		__VA_ARGS__
#define DEFINE_EVENT(class, name, proto, args) \
	static inline void trace_##name(proto) { show(#name, q, fill, stopped_ns); }
#define TP_ARGS(...)

#endif
