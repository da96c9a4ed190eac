/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The direct call: the driver's transmit function calls entry_....S, which
 * saves what the function needs and calls sluice_entered().
 */
#ifndef SLUICE_DIRECT_H
#define SLUICE_DIRECT_H

#include <linux/ftrace.h>
#include <linux/sched.h>

#include "compat.h"
#include "sluice.h"

#define CLEAR_TRIES	100

/*
 * A filter keeps its memory until it is empty, and ftrace asks for memory to
 * empty it. ftrace_free_filter() does not, but modules may call it since 6.2 only.
 */
static inline void sluice_clear_filter(struct ftrace_ops *ops)
{
	unsigned int tries = CLEAR_TRIES;

	while (ftrace_set_filter(ops, NULL, 0, 1) == -ENOMEM && --tries)
		cond_resched();
}

#ifdef SLUICE_CALLS_DIRECTLY
void sluice_direct_start(struct ftrace_ops *callback, unsigned long transmit);
bool sluice_direct_stop(void);

/* entry_....S. The second calls the first with @registers, and stores there
 * what it left in them.
 */
void sluice_entry(void);
void sluice_entry_try(unsigned long *registers);

/* called by sluice_entry() */
void sluice_entered(const struct sk_buff *skb, const struct net_device *dev);
#else
static inline void sluice_direct_start(struct ftrace_ops *callback,
				       unsigned long transmit)
{
	sluice_direct_call = false;
}

static inline bool sluice_direct_stop(void)
{
	return true;
}
#endif

#endif
