/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the module's sources see of a kernel when they run in user space.
 * Included before everything else; the headers they name are empty files, but
 * for linux/ptr_ring.h, which is the kernel's own.
 *
 * Each marked access calls marked() first: in steps.c another CPU may run there
 * (memory.c), and the examples note the order (single.h).
 */
#ifndef POLICY_KERNEL_H
#define POLICY_KERNEL_H

#include <errno.h>
#include <limits.h>
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

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define WARN_ON_ONCE(wrong)	((wrong) ? fail("%s", #wrong) : (void)0)
#define local_bh_disable()	rcu_read_lock_bh()
#define local_bh_enable()	rcu_read_unlock_bh()
#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define notrace
#define noinline		__attribute__((noinline))
#define __used			__attribute__((used))
#define likely(x)		(x)
#define unlikely(x)		(x)
#define OPTIMIZER_HIDE_VAR(x)	((void)(x))
#define SMP_CACHE_BYTES		16	/* a ring's batch is then 4 packets */
#define ____cacheline_aligned_in_smp	__attribute__((aligned(64)))
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#define min(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a < __b ? __a : __b; })
#define max(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a > __b ? __a : __b; })
#define max3(a, b, c)		max(max(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
/* As in newer kernels, which ask for @high first and not for the smaller of two. */
#define clamp_t(type, v, low, high) \
	({ type __v = (v), __low = (low), __high = (high); \
	   __v >= __high ? __high : __v <= __low ? __low : __v; })
#define clamp(v, low, high)	clamp_t(__typeof__(v), v, low, high)
#define NSEC_PER_USEC		1000L
#define NSEC_PER_MSEC		1000000L
#define U32_MAX			((u32)~0U)
#define NSEC_PER_SEC		1000000000L
#define div64_u64(a, b)	((u64)(a) / (u64)(b))
#define div_u64(a, b)		((u64)(a) / (u32)(b))

/* steps.c or single.h: who runs when, locks, timers, grace periods */
void step(void);
u64 ktime_get_ns(void);
void sleep_ns(u64 ns);
unsigned int chance(unsigned int below);
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
int num_online_cpus(void);
void marked(const char *what, const volatile void *at, size_t size, const void *site);

#define unqualified(x)		__typeof__(((void)0, (x)))
typedef struct { s64 counter; } atomic64_t;

/* Not watched themselves, or they could be interrupted between a load and a store. */
#define ACCESS(type) \
	static type __attribute__((__noinline__, no_sanitize_thread, unused))
#define MARKED(what, at, size)	marked(what, at, size, __builtin_return_address(0))

ACCESS(void) load_marked(const char *what, const volatile void *at, void *to, size_t size)
{
	MARKED(what, at, size);
	memcpy(to, (const void *)at, size);
}

ACCESS(void) store_marked(const char *what, volatile void *at, const void *value,
			  size_t size)
{
	MARKED(what, at, size);
	memcpy((void *)at, value, size);
}

ACCESS(void) pass_barrier(void)
{
	MARKED("barrier", NULL, 0);
}

ACCESS(u64) change_marked(u64 *at, u64 and, u64 or, u64 add)
{
	u64 was;

	MARKED("change", at, sizeof(*at));
	was = *at;
	*at = ((was & and) | or) + add;
	return was;
}

ACCESS(s64) exchange_marked(s64 *at, s64 old, s64 new)
{
	s64 was;

	MARKED("change", at, sizeof(*at));
	was = *at;
	*at = was == old ? new : was;
	return was;
}

#define LOAD(what, x) ({						\
	unqualified(x) __value;						\
	load_marked(what, &(x), &__value, sizeof(__value));		\
	__value; })
#define STORE(what, x, value) do {					\
	unqualified(x) __value = (value);				\
	store_marked(what, &(x), &__value, sizeof(__value));		\
} while (0)
#define READ_ONCE(x)		LOAD("read", x)
#define WRITE_ONCE(x, value)	STORE("write", x, value)
#define smp_load_acquire(p)	LOAD("acquire", *(p))
#define smp_store_release(p, value)	STORE("release", *(p), value)
#define smp_rmb()		pass_barrier()
#define smp_wmb()		pass_barrier()
#define smp_mb()		pass_barrier()
#define atomic64_cmpxchg(v, old, new)	exchange_marked(&(v)->counter, old, new)
#define rcu_dereference(p)	READ_ONCE(p)
#define rcu_dereference_raw(p)	READ_ONCE(p)
#define rcu_assign_pointer(p, value)	smp_store_release(&(p), value)
#define atomic64_read(v)	READ_ONCE((v)->counter)
#define atomic64_set(v, n)	WRITE_ONCE((v)->counter, n)
#define atomic64_add(n, v)	((void)change_marked((u64 *)&(v)->counter, ~0UL, 0, n))
#define atomic64_or(bits, v)	((void)change_marked((u64 *)&(v)->counter, ~0UL, bits, 0))
#define atomic64_inc(v)		atomic64_add(1, v)
#define test_and_set_bit(nr, word) \
	(!!(change_marked(word, ~0UL, 1UL << (nr), 0) & (1UL << (nr))))
#define clear_bit(nr, word)	((void)change_marked(word, ~(1UL << (nr)), 0, 0))

typedef struct {
	unsigned int magic;
	void *owner;
} spinlock_t;

#define LOCK_MAGIC		0x10c4
#define spin_lock_init(lock)	(*(lock) = (spinlock_t){ .magic = LOCK_MAGIC })
void spin_lock(spinlock_t *lock);
bool spin_trylock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
bool irq_off(void);
void irq_restore(bool were_off);
void lockdep_assert_held(const spinlock_t *lock);
extern spinlock_t rtnl;
#define rtnl_lock()		spin_lock(&rtnl)
#define rtnl_unlock()		spin_unlock(&rtnl)
#define ASSERT_RTNL()		lockdep_assert_held(&rtnl)
#define spin_lock_irqsave(l, flags) \
	do { (flags) = irq_off(); spin_lock(l); } while (0)
#define spin_unlock_irqrestore(l, flags) \
	do { spin_unlock(l); irq_restore(flags); } while (0)
#define spin_lock_irq(l)	do { irq_off(); spin_lock(l); } while (0)
#define spin_unlock_irq(l)	do { spin_unlock(l); irq_restore(false); } while (0)
#define spin_lock_bh(l)		spin_lock(l)
#define spin_unlock_bh(l)	spin_unlock(l)
#define raw_spinlock_t		spinlock_t
#define raw_spin_lock_init	spin_lock_init
#define raw_spin_lock_irqsave	spin_lock_irqsave
#define raw_spin_unlock_irqrestore spin_unlock_irqrestore
#define raw_spin_lock_irq	spin_lock_irq
#define raw_spin_unlock_irq	spin_unlock_irq

void rcu_read_lock_bh(void);
void rcu_read_unlock_bh(void);
void synchronize_rcu(void);
void cond_resched(void);
void free_after_grace_period(void *memory);
struct rcu_head { char unused; };
#define rcu_read_lock()		rcu_read_lock_bh()
#define rcu_read_unlock()	rcu_read_unlock_bh()

void poison_free(void *memory);
void *zeroed(size_t size);
#define GFP_KERNEL			0
#define GFP_KERNEL_ACCOUNT		0
#define __GFP_ZERO			0
#define KMALLOC_MAX_SIZE		(1 << 20)
#define alloc_hooks(x)			x
#define kvmalloc_array_noprof(n, size, flags)	zeroed((n) * (size))
#define kmalloc_array_noprof(n, size, flags)	zeroed((n) * (size))
#define kvzalloc(size, flags)		allocate_for_module(size)
#define kzalloc(size, flags)		allocate_for_module(size)
void *allocate_for_module(size_t size);
#define kvfree(p)			poison_free(p)
#define kfree(p)			poison_free(p)
#define kvfree_rcu(p, head)		free_after_grace_period(p)
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
#define hrtimer_setup(timer, handler, clock, mode)	((timer)->function = (handler))
#define hrtimer_get_expires(timer)	((timer)->expires)
#define ns_to_ktime(ns)			((ktime_t)(ns))
#define ktime_to_ns(t)			((s64)(t))

/* Work: one worker, in process context. */
#define HZ				250
struct work_struct {
	void (*func)(struct work_struct *work);
	bool queued, running;
	u64 due;
	struct work_struct *next;
};
struct delayed_work { struct work_struct work; };
#define system_long_wq			NULL
#define DECLARE_WORK(name, function) \
	struct work_struct name = { .func = function }
#define DECLARE_DELAYED_WORK(name, function) \
	struct delayed_work name = { .work = { .func = function } }
bool start_work(struct work_struct *work, u64 after_ns);
bool cancel_work_sync(struct work_struct *work);
#define queue_work(queue, work)		start_work(work, 0)
#define schedule_delayed_work(delayed, jiffies) \
	start_work(&(delayed)->work, (u64)(jiffies) * (NSEC_PER_SEC / HZ))
#define cancel_delayed_work_sync(delayed) cancel_work_sync(&(delayed)->work)

#define IS_ENABLED(option)		1	/* CONFIG_SMP */

/* Devices */
#define IFNAMSIZ			16
#define PAGE_SIZE			4096
enum { __QUEUE_STATE_DRV_XOFF };
#define XOFF				(1UL << __QUEUE_STATE_DRV_XOFF)
enum { NETREG_UNINITIALIZED, NETREG_REGISTERED, NETREG_UNREGISTERING };
enum { NOTIFY_DONE };
enum { NETDEV_REGISTER = 1, NETDEV_UNREGISTER, NETDEV_GOING_DOWN, NETDEV_UP,
       NETDEV_CHANGE, NETDEV_CHANGENAME, NETDEV_CHANGE_TX_QUEUE_LEN };
struct attribute { const char *name; };
struct attribute_group { struct attribute **attrs; };
struct kobject { const struct kobj_type *ktype; };
struct sysfs_ops {
	ssize_t (*show)(struct kobject *kobj, struct attribute *attr, char *text);
};
struct kobj_type { const struct sysfs_ops *sysfs_ops; };
struct device { struct kobject kobj; };
struct Qdisc { void *enqueue; u32 flags; };
extern struct Qdisc noop_qdisc;
#define TCQ_F_ONETXQUEUE	0x10
#define TCQ_F_NOLOCK		0x100
struct netdev_queue {
	unsigned long state;
	struct Qdisc *qdisc;
	struct net_device *dev;
};
struct rtnl_link_ops { const char *kind; };
struct net_device_ops { void *ndo_start_xmit; };
struct net_device {
	char name[IFNAMSIZ];
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
int netif_set_real_num_tx_queues(struct net_device *dev, unsigned int queues);
#define netdev_priv(device)		((void *)((device) + 1))
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define netdev_warn(device, ...)	complain(__VA_ARGS__)
#define pr_err(...)			complain(__VA_ARGS__)
#define pr_err_ratelimited(...)		complain(__VA_ARGS__)
#define net_ratelimit()			true
#define pr_info(...)			do { } while (0)
#define pr_notice(...)			do { } while (0)
#define pr_crit(...)			complain(__VA_ARGS__)
#define schedule_timeout_idle(ticks)	fail("unload waits for ever")
#define pr_warn_once(...)		complain(__VA_ARGS__)
#define get_zeroed_page(flags) \
	((unsigned long)allocate_for_module(PAGE_SIZE))
#define free_page(page)			poison_free((void *)(page))
#define kstrtol(text, base, to) \
	(*(text) ? (*(to) = strtol(text, NULL, base), 0) : -EINVAL)
#define strim(text)			(text)
void netif_tx_wake_queue(struct netdev_queue *txq);
void netif_schedule_queue(struct netdev_queue *txq);
bool netdev_xmit_more(void);
unsigned int qdisc_qlen_sum(const struct Qdisc *qdisc);
#define netdev_get_tx_queue(device, id)	(&(device)->tx[id])

struct notifier_block {
	int (*notifier_call)(struct notifier_block *block, unsigned long event,
			     void *info);
};
#define netdev_notifier_info_to_dev(info)	((struct net_device *)(info))
int register_netdevice_notifier(struct notifier_block *block);
int unregister_netdevice_notifier(struct notifier_block *block);

/* Files, for layout.c */
struct file_operations { char unused; };
struct file {
	const struct file_operations *f_op;
	void *private_data;
};
struct socket { struct file *file; };
#define MAX_ERRNO			4095
#define IS_ERR(p)			((unsigned long)(p) >= -(unsigned long)MAX_ERRNO)
#define PTR_ERR(p)			((long)(p))
#define ERR_PTR(error)			((void *)(long)(error))
#define O_RDWR				2
struct cred { char unused; };
#define init_task			(*(char *)0)
extern int creds_held, creds_in_use;
#define prepare_kernel_cred(task)	(creds_held++, (struct cred *)&creds_held)
#define override_creds(new)		(creds_in_use++, (new))
#define revert_creds(old)		((void)(old), creds_in_use--)
#define put_cred(cred)			((void)(cred), creds_held--)
struct file *filp_open(const char *path, int flags, int mode);
int filp_close(struct file *file, void *unused);
struct socket *tun_get_socket(struct file *file);
struct ptr_ring *tun_get_tx_ring(struct file *file);
int read_carefully(void *to, const void *from, size_t size);
#define get_kernel_nofault(value, from) \
	read_carefully(&(value), from, sizeof(value))

/* The table of devices: two lists, and that of a device is the first. */
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
#define HASH_SIZE(name)			2
#define DECLARE_HASHTABLE(name, bits)	struct hlist_head name[HASH_SIZE(name)]
#define DEFINE_HASHTABLE(name, bits)	struct hlist_head name[HASH_SIZE(name)]
#define hash_list(table, key)		(&(table)[(key) % HASH_SIZE(table)])
#define hash_add_rcu(table, node, key) do {				\
	(node)->next = hash_list(table, key)->first;			\
	smp_store_release(&hash_list(table, key)->first, node);		\
} while (0)
#define hash_del_rcu(node) do {						\
	struct hlist_node **__at = &sluice_devices[0].first;		\
	while (*__at != (node))						\
		__at = *__at ? &(*__at)->next : &sluice_devices[1].first; \
	smp_store_release(__at, (node)->next);				\
} while (0)
#define hash_for_each_possible_rcu_notrace(table, object, member, key)	\
	hlist_for_each_entry_rcu(object, hash_list(table, key), member)
#define hash_for_each_rcu(table, bucket, object, member)		\
	for ((bucket) = 0; (bucket) < HASH_SIZE(table); (bucket)++)	\
		hlist_for_each_entry_rcu(object, &(table)[bucket], member)
#define hlist_for_each_entry_rcu(object, head, member)			\
	for (struct hlist_node *__n = smp_load_acquire(&(head)->first);	\
	     __n && (object = container_of(__n, __typeof__(*object), member)); \
	     __n = smp_load_acquire(&__n->next))

/* The hook: a callback, and a function that is called directly */
struct ftrace_regs { const void *argument[2]; };
enum ftrace_ops_cmd { FTRACE_OPS_CMD_UNUSED };
struct ftrace_ops {
	void (*func)(unsigned long ip, unsigned long parent,
		     struct ftrace_ops *ops, struct ftrace_regs *regs);
	unsigned long flags;
	int (*ops_func)(struct ftrace_ops *ops, unsigned long ip,
			enum ftrace_ops_cmd cmd);
	unsigned long filter;	/* the function */
};
#define SLUICE_HAS_FTRACE_REGS
#define SLUICE_HAS_FTRACE_ARGS
#define CONFIG_FUNCTION_TRACER
#define CONFIG_HAVE_DYNAMIC_FTRACE_WITH_ARGS
#define FTRACE_OPS_FL_PERMANENT		1
#define ftrace_regs_get_argument(regs, n)	((regs)->argument[n])
int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove,
			 int reset);
int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *name, int length,
		      int reset);
int register_ftrace_function(struct ftrace_ops *ops);
int unregister_ftrace_function(struct ftrace_ops *ops);

/* sluice_entry() of world.c and direct_examples.c is a call like any: registers are the compiler's. */
#define CONFIG_X86_64
#define CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
#define SLUICE_HAS_DIRECT_OPS
#define SLUICE_HAS_OPS_FUNC
#define SLUICE_HAS_OPS_FUNC_IP
int register_ftrace_direct(struct ftrace_ops *ops, unsigned long function);
int unregister_ftrace_direct(struct ftrace_ops *ops, unsigned long function,
			     bool free_filters);

/* Tracepoints */
struct sluice_queue;
void show(const char *event, const struct sluice_queue *q, int fill, u64 stopped_ns);
#define DECLARE_EVENT_CLASS(...)
#define TP_PROTO(...)		__VA_ARGS__
#define DEFINE_EVENT(class, name, proto, args) \
	static inline void trace_##name(proto) { show(#name, q, fill, stopped_ns); }
#define TP_ARGS(...)

#endif
