/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queues of the real queue.c with rings and timers, on a clock that jumps: what pace.c
 * and adversary.c have in common. Whoever includes it says where a queue's slot is, and
 * what happens when its timer is set or it is woken.
 */
#ifndef POLICY_QUEUES_H
#define POLICY_QUEUES_H

#include <linux/ptr_ring.h>
#include "sluice.h"
#include "entry.h"
#include "single.h"

#define XOFF		(1UL << __QUEUE_STATE_DRV_XOFF)

/* The parameters' defaults are those of kmod/main.c. */
bool sluice_default_on = true;
bool sluice_locked_reset = true;
uint sluice_default_stall_ms = 250;
uint sluice_default_low_percent = 50;
uint sluice_default_target_us = 2000;

static struct Qdisc fq = { .enqueue = &fq };

static void timer_is_set(struct sluice_queue *q, u64 ns);
static void timer_is_cancelled(struct sluice_queue *q);

void sluice_events_schedule(struct sluice_queue *of) { }
void sluice_backstop_watch(void) { }
void show(const char *event, const struct sluice_queue *q, int fill, u64 ns) { }
const char *sluice_layout_check(void **at) { return NULL; }
struct ptr_ring *sluice_layout_ring(void *file) { return file; }

void hrtimer_setup_in_world(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *))
{
	timer->function = function;
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	timer->expires = now + ns;
	timer_is_set(container_of(timer, struct sluice_queue, timer), ns);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	timer_is_cancelled(container_of(timer, struct sluice_queue, timer));
	return 0;
}

/* A device that is served, of queues whose rings are empty. */
static struct sluice_device *serve(struct net_device *dev, unsigned int queues,
				   u32 stall_ms, u32 target_us, u32 limit)
{
	struct sluice_device *device = zeroed(struct_size(device, queue, queues));

	dev->num_tx_queues = queues;
	device->dev = dev;
	device->queues = queues;
	device->verified = true;
	device->flow = (struct sluice_flow_settings){
		.stall_ms = stall_ms, .low_percent = sluice_default_low_percent,
		.target_us = target_us, .user_limit = limit,
	};
	for (unsigned int id = 0; id < queues; id++) {
		sluice_queue_init(&device->queue[id], device, id);
		sluice_queue_opened(&device->queue[id]);
	}
	return device;
}

#endif
