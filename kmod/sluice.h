/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sluice: the whole module at a glance.
 *
 *   layout.c   where the stock driver keeps a queue's ring, verified
 *   hook.c     how the module is called for each packet before the driver
 *   direct.c   the same by a direct call, through entry_....S
 *   selftest_ring.c, selftest_reset.c   what no compiler can check, at load
 *   entry.h    whether a packet leads to a check of the ring
 *   ring.c     what a ring holds, and how much is safe
 *   flow.c     the policy: when a queue stops, wakes, stalls, as arithmetic
 *   queue.c    the mechanism: the queue's bit, lock and timer
 *   device.c   which devices are served, through their whole life
 *   rules.c    which settings a device gets by its name
 *   backstop.c reviews a queue whose timer was lost
 *   netlink.c  what the operator sees and sets
 *   events.c   when events are sent to those who listen
 *
 * The contract is the DOC blocks of flow.c and queue.c, and docs/design.md.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/ptr_ring.h>
#include <linux/spinlock.h>

#include "flow.h"
#include "uapi.h"

#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#define SLUICE_STALL_MS_MAX	60000
#define SLUICE_LOW_PERCENT_MAX	95
#define SLUICE_TARGET_US_MAX	100000
#define SLUICE_RULES_MAX	256
#define SLUICE_PATTERN_MAX	63	/* characters, as the following */
#define SLUICE_QDISC_MAX	15
#define SLUICE_ORIGIN_MAX	127
/* A ring of 500 packets at 1 M packets/s lasts 500 us. */
#define SLUICE_TIMER_RESOLUTION_MAX_NS	100000u
#define SLUICE_DEVICES_BITS	12	/* 10 000 devices: 2 or 3 to a bucket */

enum sluice_wake_cause {
	SLUICE_WAKE_TIMER,	/* a review saw room, or the longest stop was over */
	SLUICE_WAKE_OTHER,	/* stalled, off, down, moved, no qdisc, no reader */
	SLUICE_WAKE_CAUSES,
};

/**
 * struct sluice_queue - one TX queue of a served device
 * @slot: where the driver keeps its per-file struct for this queue
 * @file: what a sender last found there; NULL makes the next one check
 * @ring: the ring in @file
 * @size: slots of @ring at the last check
 * @next_check: low half: the last producer index for which a sender need not
 *		check @ring; high half: how often that was changed
 * @device: the device it belongs to
 * @txq: the queue the qdisc feeds
 * @lock: protects all below but @drops, which is atomic, and @stop_reported and
 *	  what follows it; senders read some without it; taken with interrupts
 *	  off, in hard irq as well and so raw; nests outside the timer base's
 *	  lock, the workqueue's and the softirq machinery, inside nothing of ours
 * @open: the device is up and served
 * @held: @txq is closed, and its stopped bit ours until it is in use again
 * @stopped: we stopped @txq. Invariant: @stopped implies that @timer is armed,
 *	     or that its handler waits for @lock
 * @flow: the policy's memory; senders read its depth and stalled without @lock
 * @timer: reviews a stopped queue, on the CPU that armed it: that of the sender
 *	   that stopped it, unless this went offline
 * @rescued: reviews by the backstop because @timer was lost
 * @events_pending: it may have an event to send, see events.c; set under @lock
 * @stop_reported: the event of the first stop was sent; this and the following
 *		   are used by events.c alone, under RTNL
 * @stalls_reported: how many stalls were sent as events
 * @stalls_reported_at: when the last of them was sent
 * @noqueue_reported_at: when the event that the qdisc of this first queue is missing
 *			 was last sent
 */
struct sluice_queue {
	void **slot;
	void *file;
	struct ptr_ring *ring;
	int size;
	atomic64_t next_check;
	struct sluice_device *device;
	struct netdev_queue *txq;

	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	bool open;
	bool held;
	bool stopped;
	struct sluice_flow flow;
	struct hrtimer timer;

	u64 stops;
	u64 wakes[SLUICE_WAKE_CAUSES];
	u64 stalls;
	u64 rescued;
	u64 longest_stop_ns;
	atomic64_t drops;

	bool events_pending;
	bool stop_reported;
	u64 stalls_reported;
	u64 stalls_reported_at;
	u64 noqueue_reported_at;
};

/**
 * struct sluice_settings - what the operator can set of a device
 * @given: which of the following are set, enum sluice_setting
 * @on: the operator's switch
 * @stall_ms: see struct sluice_device, as for the following
 * @low_percent: low watermark
 * @limit: upper bound of the fill, packets
 * @target_us: upper bound of the queueing delay in the ring
 */
struct sluice_settings {
	u32 given;
	bool on;
	u32 stall_ms;
	u32 low_percent;
	u32 limit;
	u32 target_us;
};

/**
 * struct sluice_rule - the settings of the devices whose name matches
 * @pattern: a glob
 * @netns: where it applies
 * @qdisc: what user space shall attach to a device with noqueue, or empty
 * @origin: where the operator wrote it, for the operator
 * @settings: what it sets
 */
struct sluice_rule {
	char pattern[SLUICE_PATTERN_MAX + 1];
	enum sluice_rule_netns netns;
	char qdisc[SLUICE_QDISC_MAX + 1];
	char origin[SLUICE_ORIGIN_MAX + 1];
	struct sluice_settings settings;
};

/**
 * struct sluice_device - one tun or tap device
 * @node: in the table of devices, keyed by @dev
 * @rcu: delays the free until no sender uses it
 * @dev: the device; valid while we are in the table
 * @verified: a queue of it was seen with the layout we know
 * @events_pending: it may have an event to send, see events.c; senders set it
 * @on: the operator's switch
 * @next_queue: the queue whose events are sent first in the next run of events.c
 * @state: what we do for it, and why
 * @reason: why it is refused
 * @queues: how many of @queue there are
 * @flow: the settings of its queues
 * @shared: what the policy knows of all of them
 * @rule: the rule that matches its name, or NULL
 * @by_hand: what was set for this device alone
 * @queue: one per TX queue
 *
 * Everything but @events_pending, @shared and @queue is written under RTNL.
 */
struct sluice_device {
	struct hlist_node node;
	struct rcu_head rcu;
	struct net_device *dev;
	u32 queues;
	bool verified;
	bool events_pending;
	bool on;
	u32 next_queue;
	enum sluice_device_state state;
	const char *reason;
	struct sluice_flow_settings flow;
	struct sluice_flow_device shared;
	const struct sluice_rule *rule;
	struct sluice_settings by_hand;
	struct sluice_queue queue[];
};

/* selftest_ring.c, selftest_reset.c */
int sluice_selftest_ring(void);
int sluice_selftest_reset(void);

/* layout.c */
int sluice_layout_learn(void);
void **sluice_layout_slot(const struct net_device *dev, unsigned int id);
const char *sluice_layout_check(void **slot);
struct ptr_ring *sluice_layout_ring(void *file);

/* hook.c, which sets the variable of queue.c */
extern bool sluice_holds_closed;
const char *sluice_hook_place(const struct net_device *dev);
void sluice_hook_remove(void);

/* ring.c */
struct sluice_flow_ring sluice_count_ring(struct ptr_ring *ring, int size,
					  bool in_irq);

/* queue.c */
struct sluice_queue_view {
	enum sluice_queue_state state;
	u32 size, fill, limit, low, reader_ns, checks;
	u64 stops, wakes[SLUICE_WAKE_CAUSES], stalls, rescued, longest_stop_ns, drops;
};

void sluice_queue_init(struct sluice_queue *q, struct sluice_device *device,
		       unsigned int id);
void sluice_queue_check(struct sluice_queue *q);
void sluice_queue_opened(struct sluice_queue *q);
void sluice_queue_closed(struct sluice_queue *q);
void sluice_queue_hold(struct sluice_queue *q, bool closes);
bool sluice_queue_rescue(struct sluice_queue *q, bool *stopped);
void sluice_queue_read(struct sluice_queue *q, struct sluice_queue_view *view);

static __always_inline u32 sluice_check_last(s64 next_check)
{
	return (u32)next_check;
}

static __always_inline u32 sluice_check_count(s64 next_check)
{
	return (u64)next_check >> 32;
}

/* At most so many packets pass without a check of a ring of @size. */
static __always_inline u32 sluice_check_span(u32 size)
{
	return size / 4;
}

/* device.c */
int sluice_devices_start(void);
void sluice_devices_stop(void);
void sluice_device_update(struct sluice_device *device);
void sluice_device_configure(struct sluice_device *device);
void sluice_device_resize(const struct net_device *dev, unsigned int count);

extern DECLARE_HASHTABLE(sluice_devices, SLUICE_DEVICES_BITS);

/**
 * sluice_device_find() - our side of a device
 * @dev: any device
 *
 * Context: RCU read side (BH off suffices) or RTNL.
 * Return: our struct, or NULL.
 */
static __always_inline struct sluice_device *
sluice_device_find(const struct net_device *dev)
{
	struct sluice_device *device;

	hash_for_each_possible_rcu_notrace(sluice_devices, device, node,
					   (unsigned long)dev)
		if (device->dev == dev)
			return device;
	return NULL;
}

/* rules.c */
const struct sluice_rule *sluice_rules_find(const struct net_device *dev);
void sluice_rules_free(void);

/* netlink.c */
int sluice_netlink_start(void);
void sluice_netlink_stop(void);
bool sluice_netlink_report(const struct sluice_queue *q,
			   const struct sluice_queue_view *view,
			   enum sluice_event_kind kind, u32 count,
			   unsigned int *budget);

/* backstop.c */
void sluice_backstop_watch(void);
void sluice_backstop_stop(void);

/* events.c */
void sluice_events_schedule(struct sluice_queue *q);
void sluice_events_watch(void);
void sluice_events_start(void);
void sluice_events_stop(void);

/* main.c: parameters. The first is a request at load and then shows whether
 * the direct call is in use; the others are read when a device appears, is
 * renamed, moves, or is set.
 */
extern bool sluice_direct_call;
extern bool sluice_default_on;
extern uint sluice_default_stall_ms;
extern uint sluice_default_low_percent;
extern uint sluice_default_target_us;

#endif
