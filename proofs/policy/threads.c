// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Real threads and real time, for ThreadSanitizer and AddressSanitizer. It is
 * compiled without them, as world.c is: only the module's own accesses are judged,
 * and for AddressSanitizer the driver's. Timers have a
 * thread of their own, so a handler runs beside the CPU it would interrupt.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agenda.h"

#define THREADS_MAX	16
#define LOCK_MAGIC	0x10c4
#define PACKETS		20000	/* each sender's, at most */
#define SEED_SECONDS	600	/* of real time, for a seed */

static struct {
	pthread_t thread;
	void (*function)(void *);
	void *argument;
	bool used;
} threads[THREADS_MAX];

static pthread_mutex_t base = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t grace;
static bool offline[THREADS_MAX];
static bool learning;	/* as steps.c does */
static int running = 1;
static __thread unsigned int random_state;
static unsigned int the_seed;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("seed %u: ", the_seed);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	fflush(stdout);
	_exit(1);
}

unsigned int chance(unsigned int below)
{
	random_state = random_state * 1103515245 + 12345;
	return (random_state >> 8) % below;
}

/* CPUs stay, and time does not jump; nothing waits for anybody. */
int num_online_cpus(void)
{
	extern int policy_senders;

	return policy_senders;
}

void set_cpu(unsigned int cpu, bool on)
{
	(void)cpu, (void)on;
}

bool cpu_is_online(unsigned int cpu)
{
	(void)cpu;
	return true;
}

void jump_time(u64 ns)
{
	(void)ns;
}

bool may_batch(void)
{
	return true;
}

static bool memory_is_in_order(void)
{
	return false;
}

/* It may be: on this machine's CPU. */
static bool memory_is_weak(void)
{
	return true;
}

static bool one_at_a_time(void)
{
	return false;
}

static unsigned int this_cpu(void)
{
	return 0;
}

static bool learn_places(u64 packets)
{
	(void)packets;
	return true;
}

static void memory_check(const volatile void *at, size_t size)
{
	(void)at, (void)size;
}

bool allocation_fails(void);

void *allocate_for_module(size_t size)
{
	size = (size + 127) / 64 * 64;
	return allocation_fails() ? NULL : memset(aligned_alloc(64, size), 0, size);
}

int read_carefully(void *to, const void *from, size_t size)
{
	unseen_read(from, to, size);
	return 0;
}

u64 ktime_get_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

void step(void)
{
	if (chance(64) == 0)
		sched_yield();
}

void sleep_ns(u64 ns)
{
	struct timespec time = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	nanosleep(&time, NULL);
}

void unseen_read(const volatile void *from, void *to, size_t size)
{
	size_t i;

	if (size == sizeof(u64))
		*(u64 *)to = *(const volatile u64 *)from;
	else if (size == sizeof(u32))
		*(u32 *)to = *(const volatile u32 *)from;
	else
		for (i = 0; i < size; i++)
			((char *)to)[i] = ((const volatile char *)from)[i];
}

void unseen_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void unseen_release(const volatile void *at)
{
	(void)at;
}

#ifdef ADDRESSES
void *zeroed(size_t size)
{
	size = (size + 63) / 64 * 64;
	return memset(aligned_alloc(64, size), 0, size);
}

void poison_free(void *memory)
{
	free(memory);
}
#else
/*
 * The driver's memory comes from a pool that ThreadSanitizer knows nothing of, as
 * it knows nothing of how the driver publishes it, and is not used again. The
 * module's it watches.
 */
static char pool[1 << 30] __attribute__((aligned(64)));
static size_t pool_used;

void *zeroed(size_t size)
{
	size_t at = __atomic_fetch_add(&pool_used, (size + 127) / 64 * 64,
				       __ATOMIC_RELAXED);

	if (at + size > sizeof(pool))
		fail("the world's memory is used up");
	return pool + at;
}

void poison_free(void *memory)
{
	if ((char *)memory < pool || (char *)memory >= pool + sizeof(pool))
		free(memory);
}
#endif

void spin_lock_init(spinlock_t *lock)
{
	lock->magic = LOCK_MAGIC;
	lock->owner = NULL;	/* and its mutex is zeroed memory */
}

static void *me(void)
{
	return &random_state;
}

void spin_lock(spinlock_t *lock)
{
	if (lock->magic != LOCK_MAGIC)
		fail("a lock in memory that is not, or no longer, ours");
	pthread_mutex_lock(&lock->mutex);
	lock->owner = me();
}

bool spin_trylock(spinlock_t *lock)
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	lock->owner = me();
	return true;
}

void spin_unlock(spinlock_t *lock)
{
	lock->owner = NULL;
	pthread_mutex_unlock(&lock->mutex);
	step();
}

void lockdep_assert_held(const spinlock_t *lock)
{
	if (lock->owner != me())
		fail("a lock that must be held is not");
}

bool irq_off(void)
{
	return false;
}

void irq_restore(bool were_off)
{
	(void)were_off;
}

void rcu_read_lock_bh(void)
{
	pthread_rwlock_rdlock(&grace);
}

void rcu_read_unlock_bh(void)
{
	pthread_rwlock_unlock(&grace);
}

void cond_resched(void)
{
	step();
}

void synchronize_rcu(void)
{
	pthread_rwlock_wrlock(&grace);
	pthread_rwlock_unlock(&grace);
}

bool start_work(struct work_struct *work, u64 after_ns)
{
	bool linked;

	pthread_mutex_lock(&base);
	linked = link_work(work, ktime_get_ns() + after_ns);
	pthread_mutex_unlock(&base);
	return linked;
}

bool cancel_work_sync(struct work_struct *work)
{
	bool was;

	pthread_mutex_lock(&base);
	was = work->queued;
	while (work->queued || work->running) {
		if (work->queued)
			unlink_work(work);
		pthread_mutex_unlock(&base);
		sched_yield();
		pthread_mutex_lock(&base);
	}
	pthread_mutex_unlock(&base);
	return was;
}

static void do_work(struct work_struct *work)
{
	if (!run_work(work))
		return;
	pthread_mutex_lock(&base);
	work->running = false;
	pthread_mutex_unlock(&base);
}

static void *worker(void *unused)
{
	struct work_struct *work;

	random_state = the_seed + 978;
	for (;;) {
		pthread_mutex_lock(&base);
		for (work = works; work && work->due > ktime_get_ns();)
			work = work->next;
		if (work) {
			unlink_work(work);
			work->running = true;
		}
		pthread_mutex_unlock(&base);
		if (work)
			do_work(work);
		else if (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
			return unused;
		else
			sleep_ns(20 * NSEC_PER_USEC);
	}
}

void hrtimer_setup_in_world(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *))
{
	timer->function = function;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	(void)mode;
	pthread_mutex_lock(&base);
	link_timer(timer);
	__atomic_store_n(&timer->expires, (s64)ktime_get_ns() + ns, __ATOMIC_RELAXED);
	timer->queued = true;
	pthread_mutex_unlock(&base);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	pthread_mutex_lock(&base);
	while (timer->queued || timer->running) {
		timer->queued = false;
		pthread_mutex_unlock(&base);
		sched_yield();
		pthread_mutex_lock(&base);
	}
	unlink_timer(timer);
	pthread_mutex_unlock(&base);
	return 0;
}

/* With base held: a timer that is due, taken off. */
static struct hrtimer *take_due(void)
{
	struct hrtimer *timer;
	s64 now = ktime_get_ns();

	for (timer = timers; timer; timer = timer->next)
		if (timer->queued && timer->expires <= now) {
			timer->queued = false;
			timer->running = true;
			break;
		}
	return timer;
}

static void *expire_timers(void *unused)
{
	struct hrtimer *timer;

	random_state = the_seed + 977;
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&base);
		timer = take_due();
		pthread_mutex_unlock(&base);
		if (!timer) {
			sleep_ns(10 * NSEC_PER_USEC);
			continue;
		}
		rcu_read_lock_bh();
		timer->function(timer);
		rcu_read_unlock_bh();
		pthread_mutex_lock(&base);
		timer->running = false;
		pthread_mutex_unlock(&base);
	}
	return unused;
}

static void *start(void *argument)
{
	long at = (long)argument;

	random_state = the_seed + 31 * at;
	threads[at].function(threads[at].argument);
	return NULL;
}

void spawn(void (*function)(void *), void *argument, int cpu)
{
	threads[cpu].function = function;
	threads[cpu].argument = argument;
	threads[cpu].used = true;
}

void seed_world(unsigned int seed)
{
	pthread_rwlockattr_t kind;

	the_seed = random_state = seed;
	pthread_rwlockattr_init(&kind);
	pthread_rwlockattr_setkind_np(&kind,
				      PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&grace, &kind);
}

void run_world(unsigned int seed)
{
	pthread_t timer_thread, work_thread;
	long i;

	(void)seed;
	pthread_create(&timer_thread, NULL, expire_timers, NULL);
	pthread_create(&work_thread, NULL, worker, NULL);
	for (i = 0; i < THREADS_MAX; i++)
		if (threads[i].used)
			pthread_create(&threads[i].thread, NULL, start, (void *)i);
	for (i = 0; i < THREADS_MAX; i++)
		if (threads[i].used)
			pthread_join(threads[i].thread, NULL);
	__atomic_store_n(&running, 0, __ATOMIC_RELEASE);
	pthread_join(timer_thread, NULL);
	pthread_join(work_thread, NULL);
}
