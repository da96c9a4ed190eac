/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel of one thread, for adversary.c, examples.c, ring/ and series/: nobody waits
 * for anybody, and time passes when the program says so. It fails where a lock is taken
 * twice or is not held when it must be.
 */
#ifndef POLICY_SINGLE_H
#define POLICY_SINGLE_H

#include <stdarg.h>
#include <stdio.h>

int cpus = 4;
u64 now;
static u64 random_state = 88172645463325252ULL;
int locks_held, read_sides;
bool more_follow;		/* behind a sender's packet, in its list */
void (*while_waiting)(void);	/* once, while a lock is waited for */
void (*when_released)(void);	/* once, after one was released */
void (*when_ordered)(const char *what, const volatile void *at);

void fail(const char *format, ...)
{
	va_list arguments;

	printf("found: ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

unsigned int chance(unsigned int below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % below;
}

bool netdev_xmit_more(void) { return more_follow; }
void step(void) { }
bool irq_off(void) { return false; }
void irq_restore(bool were_off) { (void)were_off; }
void rcu_read_lock_bh(void) { read_sides++; }
void rcu_read_unlock_bh(void) { read_sides--; }
/* The one lock that is a mutex: RTNL. */
static const spinlock_t *mutex;
void cond_resched(void)
{
	if (locks_held > (mutex && mutex->owner) || read_sides)
		fail("it may sleep with a lock held");
}
void synchronize_rcu(void) { cond_resched(); }
void poison_free(void *memory) { free(memory); }
void *zeroed(size_t size) { return calloc(1, size); }
int num_online_cpus(void) { return cpus; }
u64 ktime_get_ns(void) { return now; }

void marked(const char *what, const volatile void *at, size_t size, const void *site)
{
	if (when_ordered)
		when_ordered(what, at);
}

static void occur(void (**event)(void))
{
	void (*function)(void) = *event;

	*event = NULL;
	if (function)
		function();
}

void spin_lock(spinlock_t *lock)
{
	occur(&while_waiting);
	if (lock->owner)
		fail("a lock is taken twice");
	lock->owner = lock;
	locks_held++;
}

void spin_unlock(spinlock_t *lock)
{
	lockdep_assert_held(lock);
	lock->owner = NULL;
	locks_held--;
	occur(&when_released);
}

bool spin_trylock(spinlock_t *lock)
{
	if (lock->owner)
		return false;
	spin_lock(lock);
	return true;
}

void lockdep_assert_held(const spinlock_t *lock)
{
	if (!lock->owner)
		fail("a lock that must be held is not");
}

#endif
