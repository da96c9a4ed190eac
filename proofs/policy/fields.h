/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the world reads of struct sluice_queue, and nothing else of it. */
#ifndef POLICY_FIELDS_H
#define POLICY_FIELDS_H

#include "sluice.h"

#define load(x)		__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define store(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#define add(x, n)	__atomic_fetch_add(&(x), n, __ATOMIC_ACQ_REL)

static inline bool queue_open(const struct sluice_queue *q) { return load(q->open); }
static inline bool queue_stopped(const struct sluice_queue *q) { return q->stopped; }
static inline bool queue_stalled(const struct sluice_queue *q) { return load(q->flow.stalled); }
static inline u64 queue_drops(const struct sluice_queue *q) { return load(q->drops.counter); }
static inline s64 queue_next_check(const struct sluice_queue *q) { return load(q->next_check.counter); }
static inline const struct ptr_ring *queue_ring_seen(const struct sluice_queue *q) { return q->ring; }
static inline int queue_size_seen(const struct sluice_queue *q) { return q->size; }
static inline spinlock_t *queue_lock(struct sluice_queue *q) { return &q->lock; }
static inline bool queue_locked(const struct sluice_queue *q) { return q->lock.owner; }
static inline bool queue_timer_armed(const struct sluice_queue *q)
{
	return q->timer.queued || q->timer.running;
}

#endif
