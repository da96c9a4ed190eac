/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Examples of a source: a function is called in a situation, and what it comes to is
 * compared with a result that was worked out by hand. Each NAME_examples.c includes its
 * source, so that its static functions can be called, and has a table for each question.
 */
#ifndef POLICY_EXAMPLES_H
#define POLICY_EXAMPLES_H

#include "machine.h"

#define MS		NSEC_PER_MSEC
#define US		NSEC_PER_USEC
#define SIZE		100

#define EXPECT(what, expected) \
	expect(__FILE__, __LINE__, -1, #what, (s64)(what), (s64)(expected))
/* The same of line @i of a table. */
#define EXPECT_OF(i, what, expected) \
	expect(__FILE__, __LINE__, i, #what, (s64)(what), (s64)(expected))
#define LOCKED(queue, statement) do {		\
	raw_spin_lock_irq(&(queue)->lock);	\
	statement;				\
	raw_spin_unlock_irq(&(queue)->lock);	\
} while (0)
#define UNDER_RTNL(statement) do {		\
	rtnl_lock();				\
	statement;				\
	rtnl_unlock();				\
} while (0)

void expect(const char *file, int line, int at, const char *what, s64 is, s64 expected);

/* A device with a reader on each of two queues: rings of 100, the first is @ring. */
extern struct tun_device *tun;
extern struct ptr_ring *ring;
extern struct sluice_device *device;
extern struct sluice_queue *q;		/* its first, open, known to its senders */
extern struct sluice_rule rule;
extern bool has_rule;
extern int refused_allocation;	/* counted from now; 0: none */
extern int complaints;			/* of the module, so far */
extern unsigned int waiting[QUEUES];	/* packets in the qdisc of each queue */
extern unsigned int runs[QUEUES];	/* of the qdisc */

/* A device that the module knows, in this list of its table. */
struct sluice_device *add_device(struct net_device *dev, unsigned int queues,
				 unsigned int list);
void fresh(void);			/* at 1 s; 2 CPUs; nothing else is known */
void fresh_stopped(void);		/* stopped now, by us, with 60 packets */
bool is_stopped(unsigned int id);
void set_ring(int size, int tail, int head, int producer);
void set_full_ring(int size, int head, int producer);
bool run_work(struct work_struct *work);
bool hook_is_removed(void);		/* else its removal does not return */
void hook_is_forgotten(void);

extern u64 now;
extern int cpus, locks_held, read_sides;
extern bool more_follow;
extern void (*while_waiting)(void), (*when_released)(void);
extern void (*when_ordered)(const char *what, const volatile void *at);

#endif
