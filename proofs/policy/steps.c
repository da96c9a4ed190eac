// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One interleaving per seed. Every thread of the world is a fiber on a CPU of
 * its own; before each access to memory another may be chosen. Time is virtual.
 * A timer's handler interrupts its CPU, as a hard irq does: the fiber there does
 * not go on before the handler is done. Anybody may run next. In every second seed
 * who comes to one of a few places in the source is held there: for a while, or until
 * others have come as well. The places are the accesses that the first seeds were
 * seen to make, each in its turn.
 *
 *	steps FIRST COUNT [SECONDS]	each seed in a process of its own
 *	steps SEED 1 0 PACKETS show	one, with its events
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "steps.h"

#define STACK		(64 * 1024)
#define STEP_NS		20
#define STEPS_MAX	6000000
#define NEVER		UINT64_MAX
#define SITES_MAX	4096
#define HOLDS_MAX	3
#define CHECK_STEPS	64	/* between looks at the invariants */
#define LEARNING_SEEDS	16
#define PACKETS		400	/* each sender's, at most */
#define SEED_SECONDS	60	/* of real time, for a seed */

struct fiber {
	void (*function)(void *);
	void *argument;
	int cpu;
	bool irq, began;
	u64 wake_at;		/* asleep or held until then */
	const spinlock_t *waits;
	unsigned int read_depth, read_sections;
};

/* A place in the source where fibers are held. */
struct hold {
	const void *site;
	unsigned int after;	/* so many come by first */
	unsigned int together;	/* until so many are there */
	unsigned int times;
	unsigned int held;
	struct fiber *fibers[CPUS];
};

/* What the first seeds learn for those that follow; shared between processes. */
struct learned {
	const void *sites[SITES_MAX];
	unsigned int site_count;
	struct totals totals;
};

static struct fiber fibers[2 * CPUS];	/* threads first, then handlers */
static u32 alive;	/* a bit for each */
static ucontext_t contexts[2 * CPUS];
static jmp_buf left_at[2 * CPUS];
static char stacks[2 * CPUS][STACK] __attribute__((aligned(64)));
static struct fiber *current;
static bool irqs_off[CPUS];
static jmp_buf scheduler;
static u64 now = 1, steps, next_event, random_state;
unsigned int seed;
bool verbose;
static struct hrtimer *timers;	/* known ones, armed or not */
static struct work_struct *works;
static unsigned int change_rate = 3;	/* another runs: in one step of so many */
static struct hold holds[HOLDS_MAX];
static unsigned int hold_count;
static struct learned *learned;
struct totals *totals;
static bool learning;

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("seed %u, step %lu: ", seed, steps);
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	fflush(stdout);
	_exit(1);
}

unsigned int chance(unsigned int below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % below;
}

bool on_stack(const volatile void *at)
{
	return (const char *)at >= stacks[0] && (const char *)at < stacks[2 * CPUS];
}

u64 ktime_get_ns(void)
{
	return now;
}

static bool is_alive(const struct fiber *fiber)
{
	return alive >> (fiber - fibers) & 1;
}

/* Fibers: a context to begin with, then jumps, which cost no system call. */
static void switch_away(void)
{
	if (current && !_setjmp(left_at[current - fibers]))
		_longjmp(scheduler, 1);
}

static void resume(struct fiber *fiber)
{
	current = fiber;
	fiber->wake_at = 0;
	if (!_setjmp(scheduler)) {
		if (fiber->began)
			_longjmp(left_at[fiber - fibers], 1);
		fiber->began = true;
		setcontext(&contexts[fiber - fibers]);
	}
	current = NULL;
}

static void learn_site(const void *site)
{
	unsigned int i = (unsigned long)site % SITES_MAX;

	while (learned->sites[i] && learned->sites[i] != site)
		i = (i + 1) % SITES_MAX;
	learned->sites[i] = site;
}

static void release(struct hold *hold)
{
	while (hold->held)
		hold->fibers[--hold->held]->wake_at = 0;
	next_event = now;
}

static bool held_at(const void *site)
{
	struct hold *hold;

	for (hold = holds; hold < holds + hold_count; hold++) {
		if (hold->site != site || !hold->times)
			continue;
		if (hold->after) {
			hold->after--;
			continue;
		}
		if (current->irq && hold->together > 1)
			continue;
		if (hold->held + 1 >= hold->together && hold->together > 1) {
			hold->times--;
			release(hold);
			return false;
		}
		if (hold->together > 1)
			hold->fibers[hold->held++] = current;
		else
			hold->times--;
		current->wake_at = now + (1000UL << chance(8)) + chance(100000);
		next_event = min(next_event, current->wake_at);
		return true;
	}
	return false;
}

void step_at(const void *site)
{
	now += STEP_NS;
	if (!current)
		return;
	steps++;
	if (learning)
		learn_site(site);
	if (held_at(site) || now >= next_event || chance(change_rate) == 0)
		switch_away();
}

void step(void)
{
	step_at(__builtin_return_address(0));
}

void sleep_ns(u64 ns)
{
	current->wake_at = now + ns;
	next_event = min(next_event, current->wake_at);
	switch_away();
}

void *zeroed(size_t size)
{
	return memory_allocate(size);
}

void poison_free(void *object)
{
	size_t size = memory_free(object);
	struct hrtimer **at = &timers;

	while (*at)
		if ((char *)*at < (char *)object || (char *)*at >= (char *)object + size)
			at = &(*at)->next;
		else if ((*at)->queued || (*at)->running)
			fail("memory with an armed timer in it is freed");
		else
			*at = (*at)->next;
}

static void check_lock(const spinlock_t *lock)
{
	memory_check(lock, sizeof(*lock));
	if (lock->magic != LOCK_MAGIC)
		fail("a lock that was not initialized");
	if (current && lock->owner == current)
		fail("a lock is taken twice");
}

void spin_lock(spinlock_t *lock)
{
	step_at(__builtin_return_address(0));
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
	step_at(__builtin_return_address(0));
	check_lock(lock);
	if (lock->owner)
		return false;
	lock->owner = current;
	return true;
}

void spin_unlock(spinlock_t *lock)
{
	step_at(__builtin_return_address(0));
	lockdep_assert_held(lock);
	lock->owner = NULL;
	step_at(__builtin_return_address(0));
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
	next_event = now;
	step_at(__builtin_return_address(0));
}

void rcu_read_lock_bh(void)
{
	step_at(__builtin_return_address(0));
	current->read_depth++;
}

void rcu_read_unlock_bh(void)
{
	if (--current->read_depth == 0)
		current->read_sections++;
	step_at(__builtin_return_address(0));
}

static void require_sleepable(void)
{
	if (current && (current->read_depth || current->irq))
		fail("somebody may sleep inside a read side");
}

void cond_resched(void)
{
	require_sleepable();
	step();
}

void synchronize_rcu(void)
{
	unsigned int i, began[2 * CPUS];

	require_sleepable();
	if (!current)
		return;
	for (i = 0; i < 2 * CPUS; i++)
		began[i] = fibers[i].read_sections;
	for (i = 0; i < 2 * CPUS; i++)
		while (is_alive(&fibers[i]) && fibers[i].read_depth &&
		       &fibers[i] != current && fibers[i].read_sections == began[i])
			sleep_ns(NSEC_PER_USEC);
}

/* Its memory may be freed then. */
static void unlink_timer(struct hrtimer *timer)
{
	struct hrtimer **at = &timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->known = false;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	step_at(__builtin_return_address(0));
	memory_check(timer, sizeof(*timer));
	if (!timer->known) {
		timer->next = timers;
		timers = timer;
		timer->known = true;
	}
	if (!timer->running)	/* else it stays on the handler's CPU */
		timer->cpu = current ? current->cpu : SPARE_CPU;
	timer->expires = now + ns;
	timer->queued = !timer_is_lost();
	next_event = min(next_event, (u64)timer->expires);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	step_at(__builtin_return_address(0));
	memory_check(timer, sizeof(*timer));
	while (timer->queued || timer->running) {
		timer->queued = false;
		if (timer->running)
			sleep_ns(NSEC_PER_USEC);
	}
	unlink_timer(timer);
	return 0;
}

static void start_fiber(struct fiber *fiber)
{
	fiber->function(fiber->argument);
	alive &= ~(1U << (fiber - fibers));
	next_event = now;	/* a timer may wait for the CPU */
	if (fiber->irq) {
		fiber->read_depth = 0;
		fiber->read_sections++;
	}
	_longjmp(scheduler, 1);
}

static void prepare(struct fiber *fiber, void (*function)(void *), void *argument)
{
	ucontext_t *context = &contexts[fiber - fibers];

	getcontext(context);
	context->uc_stack.ss_sp = stacks[fiber - fibers];
	context->uc_stack.ss_size = STACK;
	fiber->function = function;
	fiber->argument = argument;
	alive |= 1U << (fiber - fibers);
	fiber->began = false;
	fiber->wake_at = 0;
	fiber->waits = NULL;
	makecontext(context, (void (*)(void))start_fiber, 1, fiber);
}

void spawn(void (*function)(void *), void *argument, int cpu)
{
	fibers[cpu].cpu = cpu;
	prepare(&fibers[cpu], function, argument);
}

int num_online_cpus(void)
{
	return senders;
}

static void handle(void *argument)
{
	struct hrtimer *timer = argument;

	if (timer->function(timer) != HRTIMER_NORESTART)
		fail("a timer's handler wants it restarted");
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
		    is_alive(irq) || irqs_off[timer->cpu])
			continue;
		timer->queued = false;
		timer->running = true;
		irq->cpu = timer->cpu;
		irq->irq = true;
		irq->read_depth = 1;
		prepare(irq, handle, timer);
	}
}

/* Work: done by one fiber, in the order of its time. */
static void unlink_work(struct work_struct *work)
{
	struct work_struct **at = &works;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	work->queued = false;
}

bool start_work(struct work_struct *work, u64 after_ns)
{
	step_at(__builtin_return_address(0));
	if (work->queued)
		return false;
	work->queued = true;
	work->due = now + after_ns;
	work->next = works;
	works = work;
	if (fibers[SPARE_CPU].wake_at == NEVER)
		fibers[SPARE_CPU].wake_at = 0;
	next_event = min(next_event, work->due);
	return true;
}

bool cancel_work_sync(struct work_struct *work)
{
	bool was = work->queued;

	step_at(__builtin_return_address(0));
	do {
		if (work->queued)
			unlink_work(work);
		if (work->running)
			sleep_ns(NSEC_PER_USEC);
	} while (work->queued || work->running);
	return was;
}

/* Memory that is freed after a grace period. */
struct callback {
	struct work_struct work;
	void *memory;
};

static void free_now(struct work_struct *work)
{
	struct callback *callback = container_of(work, struct callback, work);

	synchronize_rcu();
	poison_free(callback->memory);
	free(callback);
}

void free_after_grace_period(void *object)
{
	struct callback *callback = calloc(1, sizeof(*callback));

	callback->work.func = free_now;
	callback->memory = object;
	start_work(&callback->work, 0);
}

static void worker(void *unused)
{
	struct work_struct *work, *first;
	bool stays;

	for (;;) {
		for (work = first = works; work; work = work->next)
			if (work->due < first->due)
				first = work;
		if (!first) {	/* start_work() wakes it */
			current->wake_at = NEVER;
			switch_away();
			continue;
		}
		if (first->due > now) {
			sleep_ns(min(first->due - now, 100UL * NSEC_PER_USEC));
			continue;
		}
		unlink_work(first);
		first->running = true;
		stays = first->func != free_now;	/* else it frees itself */
		first->func(first);
		if (stays)
			first->running = false;
	}
}

static bool can_run(const struct fiber *fiber)
{
	return fiber->wake_at <= now &&
	       !(fiber->waits && fiber->waits->owner) &&
	       (fiber->irq || !(alive >> (CPUS + fiber->cpu) & 1));
}

/* When somebody who cannot run now can, if nobody else does anything. */
static u64 soonest_event(void)
{
	u64 soonest = NEVER;
	struct hrtimer *timer;
	u32 left;

	for (left = alive; left; left &= left - 1) {
		const struct fiber *fiber = &fibers[__builtin_ctz(left)];

		if (fiber->wake_at > now)
			soonest = min(soonest, fiber->wake_at);
	}
	for (timer = timers; timer; timer = timer->next)
		if (timer->queued && timer->expires > (s64)now)
			soonest = min(soonest, (u64)timer->expires);
	return soonest;
}

static struct fiber *choose_fiber(void)
{
	struct fiber *ready[2 * CPUS], *fiber;
	unsigned int count = 0;
	u32 left;

	for (left = alive; left; left &= left - 1) {
		fiber = &fibers[__builtin_ctz(left)];
		if (can_run(fiber))
			ready[count++] = fiber;
	}
	return count ? ready[chance(count)] : NULL;
}

static void choose_holds(void)
{
	unsigned int i;

	if (learning || seed % 2 == 0)
		return;
	change_rate = 2 + chance(30);
	hold_count = 1 + chance(HOLDS_MAX);
	for (i = 0; i < hold_count; i++)
		holds[i] = (struct hold){
			.site = learned->sites[i ? chance(learned->site_count) :
					       seed / 2 % learned->site_count],
			.after = chance(4) ? chance(300) : chance(3),
			.together = chance(2) ? 1 : 2 + chance(5),
			.times = 1 << chance(6),
		};
}

void run_threads(void)
{
	u64 check_at = 0;

	spawn(worker, NULL, SPARE_CPU);
	for (;;) {
		if (steps > STEPS_MAX)
			fail("no end in sight");
		if (next_event <= now) {
			expire_timers();
			next_event = soonest_event();
		}
		struct fiber *next = choose_fiber();

		if (!next || steps >= check_at) {
			check_invariants();
			check_at = steps + CHECK_STEPS;
		}
		if (!next) {
			if (!(alive & ~(1U << SPARE_CPU)))
				break;
			now = next_event = soonest_event();
			if (now == NEVER)
				fail("deadlock: everybody waits for somebody");
			continue;
		}
		resume(next);
	}
	while (works) {	/* memory that waits for a grace period, and nothing else */
		if (works->func != free_now)
			fail("work is left after the module");
		memory_free(container_of(works, struct callback, work)->memory);
		works = works->next;
	}
	check_leaks();
}

static void begin_seed(void)
{
	random_state = 0x9e3779b97f4a7c15ULL * (seed + 1) | 1;
	for (int i = 0; i < 8; i++)
		chance(1);
	choose_holds();
	memory_reused = chance(2);
}

/* One seed in a process of its own, so that it begins with nothing. */
static bool try_seed(u64 packets)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = verbose && !learning ? 0 : fork();
	if (!child) {
		alarm(SEED_SECONDS);
		begin_seed();
		run_seed(packets);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("seed %u: ended by signal %d\n", seed, WTERMSIG(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/*
 * The first seeds tell which places in the source there are: seeds that follow are
 * always the same.
 */
static bool learn_places(u64 packets)
{
	learned = mmap(NULL, sizeof(*learned), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	totals = &learned->totals;
	learning = true;
	for (seed = 0; seed < LEARNING_SEEDS; seed++)
		if (!try_seed(packets))
			return false;
	learning = false;
	for (unsigned int i = 0; i < SITES_MAX; i++)
		if (learned->sites[i])
			learned->sites[learned->site_count++] = learned->sites[i];
	return true;
}

int main(int count, char **arguments)
{
	unsigned int first = count > 1 ? atoi(arguments[1]) : 0;
	unsigned int end = first + (count > 2 ? atoi(arguments[2]) : 1);
	unsigned int seconds = count > 3 ? atoi(arguments[3]) : 0;
	u64 packets = count > 4 ? atoi(arguments[4]) : PACKETS;
	time_t until = time(NULL) + seconds;

	verbose = count > 5;
	if (!learn_places(packets))
		return 1;
	*totals = (struct totals){ };
	for (seed = first; seed != end; seed++) {
		if (!try_seed(packets))
			return 1;
		if (seconds && time(NULL) >= until)
			break;
	}
	printf("fine: %lu seeds, %lu packets, %lu of them strict, %lu stops, %lu stalls\n",
	       totals->seeds, totals->packets, totals->strict, totals->stops,
	       totals->stalls);
	return 0;
}
