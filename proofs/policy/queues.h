/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The module's queues in the arena: the real queue.c with rings, and timers on a clock
 * that jumps.
 */
#ifndef POLICY_QUEUES_H
#define POLICY_QUEUES_H

#include <linux/ptr_ring.h>
#include "sluice.h"
#include "entry.h"
#include "single.h"
#include "arena.h"

/* The parameters' defaults are those of kmod/main.c. */
bool sluice_default_on = true;
bool sluice_locked_reset = true;
uint sluice_default_stall_ms = 250;
uint sluice_default_low_percent = 50;
uint sluice_default_target_us = 2000;

static struct sluice_device *devices[TENANTS];
static void *slots[TENANTS][QUEUES_MAX];

static struct port *port_of(const struct sluice_queue *q)
{
	return &tenant_of(q->device->dev)->ports[q - q->device->queue];
}

void sluice_events_schedule(struct sluice_queue *of) { }
void sluice_backstop_watch(void) { }
void show(const char *event, const struct sluice_queue *q, int fill, u64 ns) { }
const char *sluice_layout_check(void **at) { return NULL; }
struct ptr_ring *sluice_layout_ring(void *file) { return file; }

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	timer->expires = now + ns;
	port_arms(port_of(container_of(timer, struct sluice_queue, timer)), ns);
}

int hrtimer_cancel(struct hrtimer *timer)
{
	port_of(container_of(timer, struct sluice_queue, timer))->fires = NEVER;
	return 0;
}

void **sluice_layout_slot(const struct net_device *of, unsigned int id)
{
	return &slots[tenant_of(of) - tenants][id];
}

static struct sluice_queue *queue_of(const struct tenant *tenant, unsigned int id)
{
	return &devices[tenant - tenants]->queue[id];
}

static void ports_begin(struct tenant *tenant, u64 stall_ns)
{
	unsigned int queues = tenant->dev.num_tx_queues;
	struct sluice_device *device = zeroed(struct_size(device, queue, queues));

	free(devices[tenant - tenants]);
	devices[tenant - tenants] = device;
	device->dev = &tenant->dev;
	device->queues = queues;
	device->verified = true;
	device->flow = (struct sluice_flow_settings){
		.stall_ms = stall_ns / NSEC_PER_MSEC,
		.low_percent = sluice_default_low_percent,
		.target_us = playing->set[TARGET] / NSEC_PER_USEC,
		.user_limit = playing->set[LIMIT],
	};
	for (unsigned int id = 0; id < queues; id++) {
		slots[tenant - tenants][id] = &tenant->ports[id].ring;
		sluice_queue_init(&device->queue[id], device, id);
		sluice_queue_opened(&device->queue[id]);
	}
}

static enum sent port_sends(struct tenant *tenant, unsigned int id, void *packet)
{
	struct sluice_queue *q = queue_of(tenant, id);

	if (check_needed(q))
		sluice_queue_check(q);
	return ptr_ring_produce(&tenant->ports[id].ring, packet) ? LOST : SENT;
}

static void port_expires(struct tenant *tenant, unsigned int id)
{
	struct sluice_queue *q = queue_of(tenant, id);

	q->timer.function(&q->timer);
}

static void port_changes(struct tenant *tenant, unsigned int id, enum kind how)
{
	sluice_queue_opened(queue_of(tenant, id));
}

static u64 port_ends(struct tenant *tenant, unsigned int id)
{
	struct sluice_queue_view view;

	sluice_queue_read(queue_of(tenant, id), &view);
	slots[tenant - tenants][id] = NULL;
	sluice_queue_closed(queue_of(tenant, id));
	return view.stalls;
}

#endif
