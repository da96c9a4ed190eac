/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What series/'s tun_txq.c sees of a kernel beside policy/kernel.h: a producer lock that
 * a trylock may find taken for as long as the test likes.
 */
#ifndef SERIES_KERNEL_H
#define SERIES_KERNEL_H

#define EXPORT_SYMBOL_GPL(name)
#define EXPORT_SYMBOL_IF_KUNIT(name)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define fallthrough		__attribute__((__fallthrough__))
#define data_race(x)		(x)
#define HRTIMER_MODE_REL_PINNED_SOFT	HRTIMER_MODE_REL_PINNED_HARD
#define qdisc_txq_has_no_queue(queue)	((void)(queue), false)

extern unsigned int hrtimer_resolution;
extern bool producer_lock_is_taken;
#define spin_trylock(lock)	(!producer_lock_is_taken && spin_trylock(lock))
void netif_tx_stop_queue(struct netdev_queue *queue);

#include <linux/ptr_ring.h>
#include "helpers.h"

#endif
