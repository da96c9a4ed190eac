// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One interleaving per seed. Every thread of the world is a fiber on a CPU of
 * its own; at each step() the seed decides who goes on. Time is virtual. A
 * timer's handler interrupts its CPU, as a hard irq does: the fiber there does
 * not go on before the handler is done. Now and then a CPU is taken away for a
 * while, as a hypervisor does.
 */
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

#define CPUS		16
#define STACK		(64 * 1024)
#define STEP_NS		60
#define LOCK_MAGIC	0x10c4
#define STEPS_MAX	30000000

struct fiber {
	ucontext_t context;
	void (*function)(void *);
	void *argument;
	int cpu;
	bool alive, irq;
	u64 wake_at;		/* asleep until then */
	u64 taken_until;	/* its CPU is taken away until this step */
	const spinlock_t *waits;
	unsigned int read_depth, read_sections;
};

static struct fiber fibers[2 * CPUS];	/* threads first, then handlers */
static struct fiber *current;
static bool irqs_off[CPUS];
static ucontext_t scheduler;
static struct hrtimer *timers;
static u64 now = 1, steps, random_state, the_seed;
static struct { void *memory; size_t size; } freed[16384];
static unsigned int freed_count;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("seed %lu, step %lu: ", the_seed, steps);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	fflush(stdout);
	_exit(1);
}

static u64 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

unsigned int chance(unsigned int below)
{
	return (next_random() >> 16) % below;
}

int num_online_cpus(void)
{
	extern int policy_senders;

	return policy_senders;
}

u64 ktime_get_ns(void)
{
	return now;
}

static void switch_away(void)
{
	if (current)
		swapcontext(&current->context, &scheduler);
}

void step(void)
{
	now += STEP_NS;
	if (!current)
		return;
	if (chance(4000) == 0)
		current->taken_until = steps + chance(chance(8) ? 300 : 20000);
	if (chance(3) == 0 || current->taken_until > steps)
		switch_away();
}

void sleep_ns(u64 ns)
{
	current->wake_at = now + ns;
	switch_away();
}

void unseen_read(const volatile void *from, void *to, size_t size)
{
	memcpy(to, (const void *)from, size);
}

void unseen_fence(void)
{
	step();
}

/* Memory that was freed is poisoned, kept, and looked at in the end. */
void *zeroed(size_t size)
{
	void *memory = aligned_alloc(64, (size + 127) / 64 * 64);

	return memset(memory, 0, (size + 127) / 64 * 64);
}

void poison_free(void *memory)
{
	size_t size = malloc_usable_size(memory);
	struct hrtimer **at = &timers;

	while (*at)
		if ((char *)*at < (char *)memory || (char *)*at >= (char *)memory + size)
			at = &(*at)->next;
		else if ((*at)->queued || (*at)->running)
			fail("memory with an armed timer in it is freed");
		else
			*at = (*at)->next;
	memset(memory, 0xdb, size);
	if (freed_count < 16384) {
		freed[freed_count].memory = memory;
		freed[freed_count++].size = size;
	}
}

static void check_freed(void)
{
	unsigned int i;
	size_t at;

	for (i = 0; i < freed_count; i++)
		for (at = 0; at < freed[i].size; at++)
			if (((unsigned char *)freed[i].memory)[at] != 0xdb)
				fail("memory was written after it was freed");
}

void spin_lock_init(spinlock_t *lock)
{
	lock->magic = LOCK_MAGIC;
	lock->owner = NULL;
}

static void check_lock(const spinlock_t *lock)
{
	if (lock->magic != LOCK_MAGIC)
		fail("a lock in memory that is not, or no longer, ours");
	if (current && lock->owner == current)
		fail("a lock is taken twice");
}

void spin_lock(spinlock_t *lock)
{
	step();
	check_lock(lock);
	while (lock->owner) {
		current->waits = lock;
		switch_away();
		check_lock(lock);
	}
	if (current)
		current->waits = NULL;
	lock->owner = current ? current : (void *)&scheduler;
}

bool spin_trylock(spinlock_t *lock)
{
	step();
	check_lock(lock);
	if (lock->owner)
		return false;
	lock->owner = current;
	return true;
}

void spin_unlock(spinlock_t *lock)
{
	lockdep_assert_held(lock);
	lock->owner = NULL;
	step();
}

void lockdep_assert_held(const spinlock_t *lock)
{
	if (lock->owner != (current ? (void *)current : (void *)&scheduler))
		fail("a lock that must be held is not");
}

bool irq_off(void)
{
	bool were_off = !current || irqs_off[current->cpu];

	if (current)
		irqs_off[current->cpu] = true;
	return were_off;
}

void irq_restore(bool were_off)
{
	if (current)
		irqs_off[current->cpu] = were_off;
	step();
}

void rcu_read_lock_bh(void)
{
	step();
	current->read_depth++;
}

void rcu_read_unlock_bh(void)
{
	if (--current->read_depth == 0)
		current->read_sections++;
	step();
}

void synchronize_rcu(void)
{
	unsigned int i, began[2 * CPUS];

	for (i = 0; i < 2 * CPUS; i++)
		began[i] = fibers[i].read_sections;
	for (i = 0; i < 2 * CPUS; i++)
		while (fibers[i].alive && fibers[i].read_depth &&
		       &fibers[i] != current && fibers[i].read_sections == began[i])
			sleep_ns(NSEC_PER_USEC);
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	(void)mode;
	step();
	if (!timer->known) {
		timer->next = timers;
		timers = timer;
		timer->known = true;
	}
	if (!timer->running)	/* else it stays on the handler's CPU */
		timer->cpu = current ? current->cpu : 0;
	timer->expires = now + ns;
	timer->queued = true;
	step();
}

int hrtimer_cancel(struct hrtimer *timer)
{
	step();
	while (timer->queued || timer->running) {
		timer->queued = false;
		if (timer->running)
			sleep_ns(NSEC_PER_USEC);
	}
	return 0;
}

static void start_fiber(struct fiber *fiber)
{
	fiber->function(fiber->argument);
	fiber->alive = false;
	if (fiber->irq) {
		fiber->read_depth = 0;
		fiber->read_sections++;
	}
	swapcontext(&fiber->context, &scheduler);
}

static void prepare(struct fiber *fiber, void (*function)(void *), void *argument)
{
	if (!fiber->context.uc_stack.ss_sp)
		fiber->context.uc_stack.ss_sp = malloc(STACK);
	void *stack = fiber->context.uc_stack.ss_sp;

	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = stack;
	fiber->context.uc_stack.ss_size = STACK;
	fiber->function = function;
	fiber->argument = argument;
	fiber->alive = true;
	fiber->wake_at = 0;
	fiber->waits = NULL;
	makecontext(&fiber->context, (void (*)(void))start_fiber, 1, fiber);
}

void spawn(void (*function)(void *), void *argument, int cpu)
{
	fibers[cpu].cpu = cpu;
	prepare(&fibers[cpu], function, argument);
}

static void handle(void *argument)
{
	struct hrtimer *timer = argument;

	timer->function(timer);
	timer->running = false;
}

/* Interrupts the CPUs whose timers are due. */
static void expire_timers(void)
{
	struct hrtimer *timer;
	struct fiber *irq;

	for (timer = timers; timer; timer = timer->next) {
		irq = &fibers[CPUS + timer->cpu];
		if (!timer->queued || timer->running || timer->expires > (s64)now ||
		    irq->alive || irqs_off[timer->cpu])
			continue;
		timer->queued = false;
		timer->running = true;
		irq->cpu = timer->cpu;
		irq->irq = true;
		irq->read_depth = 1;
		prepare(irq, handle, timer);
	}
}

static bool can_run(const struct fiber *fiber)
{
	return fiber->alive && fiber->wake_at <= now &&
	       fiber->taken_until <= steps &&
	       !(fiber->waits && fiber->waits->owner) &&
	       (fiber->irq || !fibers[CPUS + fiber->cpu].alive);
}

/* Nobody can go on now: on to the next moment at which somebody can. */
static void pass_time(void)
{
	u64 soonest = UINT64_MAX;
	struct hrtimer *timer;
	bool taken = false;
	unsigned int i;

	for (i = 0; i < 2 * CPUS; i++) {
		if (fibers[i].alive && fibers[i].wake_at > now)
			soonest = min(soonest, fibers[i].wake_at);
		taken |= fibers[i].alive && fibers[i].taken_until > steps;
	}
	for (timer = timers; timer; timer = timer->next)
		if (timer->queued && timer->expires > (s64)now)
			soonest = min(soonest, (u64)timer->expires);
	if (taken)
		soonest = min(soonest, now + STEP_NS);
	if (soonest == UINT64_MAX)
		fail("deadlock: everybody waits for somebody");
	now = soonest;
}

void run_world(unsigned int seed)
{
	unsigned int i, count;
	struct fiber *ready[2 * CPUS];

	(void)seed;
	for (;;) {
		bool alive = false;

		if (steps++ > STEPS_MAX)
			fail("no end in sight");
		expire_timers();
		for (i = count = 0; i < 2 * CPUS; i++) {
			alive |= i < CPUS && fibers[i].alive;
			if (can_run(&fibers[i]))
				ready[count++] = &fibers[i];
		}
		if (!alive)
			break;
		if (!count) {
			pass_time();
			continue;
		}
		current = ready[chance(count)];
		swapcontext(&scheduler, &current->context);
		current = NULL;
	}
	check_freed();
}

void seed_world(unsigned int seed)
{
	the_seed = seed;
	random_state = 0x9e3779b97f4a7c15ULL * (seed + 1) | 1;
	for (int i = 0; i < 8; i++)
		next_random();
}
