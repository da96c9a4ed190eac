/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The generic netlink family "sluice": the numbers of docs/sluice.yaml.
 */
#ifndef SLUICE_UAPI_H
#define SLUICE_UAPI_H

#define SLUICE_GENL_NAME	"sluice"
#define SLUICE_GENL_VERSION	1
#define SLUICE_MCGRP_EVENTS	"events"

enum sluice_cmd {
	SLUICE_CMD_DEVICE_GET = 1,
	SLUICE_CMD_DEVICE_SET,
	SLUICE_CMD_QUEUE_GET,
	SLUICE_CMD_QUEUE_EVENT,
	SLUICE_CMD_RULES_SET,
	SLUICE_CMD_RULE_GET,
	__SLUICE_CMD_END,
};

/* What sluice does for a device, and why. */
enum sluice_device_state {
	SLUICE_DEVICE_SERVED = 0,	/* its queues are stopped and woken */
	SLUICE_DEVICE_OFF,		/* switched off by the operator */
	SLUICE_DEVICE_DOWN,		/* on, but the link is down */
	SLUICE_DEVICE_UPSTREAM,		/* its application set IFF_BACKPRESSURE */
	SLUICE_DEVICE_UNREAD,		/* no queue has had a reader yet */
	SLUICE_DEVICE_REFUSED,		/* driver not recognised, see the reason */
};

enum sluice_queue_state {
	SLUICE_QUEUE_OPEN = 0,		/* packets flow into the ring */
	SLUICE_QUEUE_STOPPED,		/* stopped by sluice, timer armed */
	SLUICE_QUEUE_STALLED,		/* reader too slow: senders pass, tail drop */
	SLUICE_QUEUE_NOQUEUE,		/* no qdisc queue: stock tail drop */
	SLUICE_QUEUE_UNREAD,		/* no reader attached */
	SLUICE_QUEUE_IDLE,		/* the device is not served */
	SLUICE_QUEUE_LOCKLESS,		/* qdisc must not fill: stock tail drop */
};

enum sluice_event_kind {
	SLUICE_EVENT_STOP = 0,		/* the first of a queue */
	SLUICE_EVENT_STALL,		/* its reader is too slow */
	SLUICE_EVENT_NOQUEUE,		/* though its rule names a qdisc */
};

/* Where a rule applies. */
enum sluice_rule_netns {
	SLUICE_RULE_NETNS_ALL = 0,	/* in every network namespace */
	SLUICE_RULE_NETNS_HOST,		/* in the initial one only */
};

/* Bits: the settings of a device, or of a rule. */
enum sluice_setting {
	SLUICE_SETTING_ON = 1,
	SLUICE_SETTING_STALL_MS = 2,
	SLUICE_SETTING_LOW_PERCENT = 4,
	SLUICE_SETTING_LIMIT = 8,
	SLUICE_SETTING_TARGET_US = 16,
};

enum sluice_device_attr {
	SLUICE_A_DEVICE_IFINDEX = 1,	/* u32 */
	SLUICE_A_DEVICE_IFNAME,		/* string */
	SLUICE_A_DEVICE_ON,		/* u8, 0 or 1 */
	SLUICE_A_DEVICE_STATE,		/* u32, enum sluice_device_state */
	SLUICE_A_DEVICE_REASON,		/* string, only when refused */
	SLUICE_A_DEVICE_QUEUES,		/* u32 */
	SLUICE_A_DEVICE_STALL_MS,	/* u32, 1 ... 60000 */
	SLUICE_A_DEVICE_LOW_PERCENT,	/* u32, 0 ... 95, of the limit */
	SLUICE_A_DEVICE_LIMIT,		/* u32, packets, 0: ring - headroom */
	SLUICE_A_DEVICE_TX_DROPPED,	/* u64, the driver's own counter */
	SLUICE_A_DEVICE_PAD,
	SLUICE_A_DEVICE_TARGET_US,	/* u32, 0 ... 100000, 0: the whole ring */
	SLUICE_A_DEVICE_RULE,		/* string, origin of its rule */
	SLUICE_A_DEVICE_BY_RULE,	/* u32, enum sluice_setting */
	SLUICE_A_DEVICE_BY_HAND,	/* u32, enum sluice_setting */
	SLUICE_A_DEVICE_QDISC,		/* string, what its rule wants */
	__SLUICE_A_DEVICE_END,
};

enum sluice_queue_attr {
	SLUICE_A_QUEUE_IFINDEX = 1,	/* u32 */
	SLUICE_A_QUEUE_ID,		/* u32 */
	SLUICE_A_QUEUE_STATE,		/* u32, enum sluice_queue_state */
	SLUICE_A_QUEUE_RING,		/* u32, slots */
	SLUICE_A_QUEUE_FILL,		/* u32, packets */
	SLUICE_A_QUEUE_LIMIT,		/* u32, packets */
	SLUICE_A_QUEUE_LOW,		/* u32, packets */
	SLUICE_A_QUEUE_STOPS,		/* u64 */
	SLUICE_A_QUEUE_WAKES_TIMER,	/* u64 */
	SLUICE_A_QUEUE_WAKES_OTHER,	/* u64 */
	SLUICE_A_QUEUE_STALLS,		/* u64 */
	SLUICE_A_QUEUE_LONGEST_STOP_NS,	/* u64 */
	SLUICE_A_QUEUE_DROPS,		/* u64 */
	SLUICE_A_QUEUE_READER_NS,	/* u32, learned ns per packet */
	SLUICE_A_QUEUE_PAD,
	SLUICE_A_QUEUE_RESCUED,		/* u64, its timer was lost */
	SLUICE_A_QUEUE_CHECKS,		/* u32, of the ring by senders; wraps */
	__SLUICE_A_QUEUE_END,
};

enum sluice_rule_attr {
	SLUICE_A_RULE_PATTERN = 1,	/* string, a glob */
	SLUICE_A_RULE_NETNS,		/* u32, enum sluice_rule_netns */
	SLUICE_A_RULE_ON,		/* u8, 0 or 1 */
	SLUICE_A_RULE_STALL_MS,		/* u32, 1 ... 60000 */
	SLUICE_A_RULE_LOW_PERCENT,	/* u32, 0 ... 95, of the limit */
	SLUICE_A_RULE_LIMIT,		/* u32, packets, 0: ring - headroom */
	SLUICE_A_RULE_TARGET_US,	/* u32, 0 ... 100000, 0: whole ring */
	SLUICE_A_RULE_QDISC,		/* string, in place of noqueue */
	SLUICE_A_RULE_ORIGIN,		/* string, where the operator wrote it */
	__SLUICE_A_RULE_END,
};

enum sluice_rules_attr {
	SLUICE_A_RULES_RULE = 1,	/* nest, enum sluice_rule_attr */
	SLUICE_A_RULES_RESET,		/* string, a glob */
	__SLUICE_A_RULES_END,
};

enum sluice_event_attr {
	SLUICE_A_EVENT_IFINDEX = 1,	/* u32 */
	SLUICE_A_EVENT_IFNAME,		/* string */
	SLUICE_A_EVENT_QUEUE,		/* u32 */
	SLUICE_A_EVENT_KIND,		/* u32, enum sluice_event_kind */
	SLUICE_A_EVENT_COUNT,		/* u32, how many it stands for */
	SLUICE_A_EVENT_FILL,		/* u32, packets */
	SLUICE_A_EVENT_RING,		/* u32, slots */
	__SLUICE_A_EVENT_END,
};

#endif
