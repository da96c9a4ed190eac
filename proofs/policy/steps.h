/* SPDX-License-Identifier: GPL-2.0-or-later */
/* steps.c runs the threads of a world, memory.c watches their accesses. */
#ifndef POLICY_STEPS_H
#define POLICY_STEPS_H

#define CPUS		12
#define SPARE_CPU	(CPUS - 1)	/* no sender's: work */

/* What steps.c gives. */
extern unsigned int seed;
extern bool verbose;			/* the seed's events are shown */
struct totals {				/* of all seeds, each a process of its own */
	u64 seeds, packets, strict, stops, stalls;
};
extern struct totals *totals;
void spawn(void (*function)(void *), void *argument, int cpu);
void run_threads(void);			/* until all have ended */
void step_at(const void *site);
bool on_stack(const volatile void *at);

/* What memory.c gives steps.c. */
extern bool memory_reused;		/* an object may be where a freed one was */
void memory_check(const volatile void *at, size_t size);
void *memory_allocate(size_t size);
size_t memory_free(void *object);	/* its size */
void check_leaks(void);

/* What steps.c and memory.c ask of world.c. */
extern int senders;			/* on as many CPUs, the first */
void run_seed(u64 packets);		/* each sender's, at most */
bool timer_is_lost(void);
void check_invariants(void);		/* whenever nobody is at work on a queue */

#endif
