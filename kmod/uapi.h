/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Made from docs/sluice.yaml by the kernel's ynl-gen: edit that, run make generate.
 */

#ifndef _UAPI_LINUX_SLUICE_H
#define _UAPI_LINUX_SLUICE_H

#define SLUICE_FAMILY_NAME	"sluice"
#define SLUICE_FAMILY_VERSION	1

/**
 * enum sluice_device_state - What sluice does for a device, and why.
 * @SLUICE_DEVICE_SERVED: Its queues are stopped before the ring is full, and
 *   woken.
 * @SLUICE_DEVICE_OFF: Switched off; stock behaviour.
 * @SLUICE_DEVICE_DOWN: On, but the link is down.
 * @SLUICE_DEVICE_UPSTREAM: Its application set IFF_BACKPRESSURE; the driver
 *   does it itself.
 * @SLUICE_DEVICE_UNREAD: No queue has had a reader yet, so nothing could be
 *   verified.
 * @SLUICE_DEVICE_REFUSED: Not the driver sluice knows; reason says more. Stock
 *   behaviour.
 */
enum sluice_device_state {
	SLUICE_DEVICE_SERVED,
	SLUICE_DEVICE_OFF,
	SLUICE_DEVICE_DOWN,
	SLUICE_DEVICE_UPSTREAM,
	SLUICE_DEVICE_UNREAD,
	SLUICE_DEVICE_REFUSED,
};

/**
 * enum sluice_queue_state - What happens to packets for a queue now.
 * @SLUICE_QUEUE_OPEN: They flow into the ring.
 * @SLUICE_QUEUE_STOPPED: They wait in the qdisc; a timer is armed.
 * @SLUICE_QUEUE_STALLED: The reader is too slow to wait for; they pass, and a
 *   full ring drops them.
 * @SLUICE_QUEUE_NOQUEUE: The qdisc has no queue; a full ring drops them.
 * @SLUICE_QUEUE_UNREAD: No reader is attached.
 * @SLUICE_QUEUE_IDLE: The device is not served.
 * @SLUICE_QUEUE_LOCKLESS: The qdisc is lockless (pfifo_fast), the device has
 *   several queues, and this kernel could free its packets twice; a full ring
 *   drops them.
 */
enum sluice_queue_state {
	SLUICE_QUEUE_OPEN,
	SLUICE_QUEUE_STOPPED,
	SLUICE_QUEUE_STALLED,
	SLUICE_QUEUE_NOQUEUE,
	SLUICE_QUEUE_UNREAD,
	SLUICE_QUEUE_IDLE,
	SLUICE_QUEUE_LOCKLESS,
};

/**
 * enum sluice_event_kind - What a message of the group events tells.
 * @SLUICE_EVENT_STOP: The queue was stopped for the first time since the
 *   module knows it.
 * @SLUICE_EVENT_STALL: Its reader was too slow while it was stopped, so that
 *   the stop was cut short; at most one message per queue and second.
 * @SLUICE_EVENT_NOQUEUE: The device has noqueue, though its rule names a
 *   qdisc: sent within two seconds, and every ten seconds while it lasts.
 */
enum sluice_event_kind {
	SLUICE_EVENT_STOP,
	SLUICE_EVENT_STALL,
	SLUICE_EVENT_NOQUEUE,
};

/**
 * enum sluice_rule_netns - Where a rule applies.
 * @SLUICE_RULE_NETNS_ALL: In every network namespace of the machine.
 * @SLUICE_RULE_NETNS_HOST: In the initial network namespace only.
 */
enum sluice_rule_netns {
	SLUICE_RULE_NETNS_ALL,
	SLUICE_RULE_NETNS_HOST,
};

/**
 * enum sluice_setting - The settings of a device, or of a rule.
 */
enum sluice_setting {
	SLUICE_SETTING_ON = 1,
	SLUICE_SETTING_STALL_MS = 2,
	SLUICE_SETTING_LOW_PERCENT = 4,
	SLUICE_SETTING_LIMIT = 8,
	SLUICE_SETTING_TARGET_US = 16,
};

enum sluice_device_attr {
	SLUICE_A_DEVICE_IFINDEX = 1,
	SLUICE_A_DEVICE_IFNAME,
	SLUICE_A_DEVICE_ON,
	SLUICE_A_DEVICE_STATE,
	SLUICE_A_DEVICE_REASON,
	SLUICE_A_DEVICE_QUEUES,
	SLUICE_A_DEVICE_STALL_MS,
	SLUICE_A_DEVICE_LOW_PERCENT,
	SLUICE_A_DEVICE_LIMIT,
	SLUICE_A_DEVICE_TX_DROPPED,
	SLUICE_A_DEVICE_PAD,
	SLUICE_A_DEVICE_TARGET_US,
	SLUICE_A_DEVICE_RULE,
	SLUICE_A_DEVICE_BY_RULE,
	SLUICE_A_DEVICE_BY_HAND,
	SLUICE_A_DEVICE_QDISC,

	__SLUICE_A_DEVICE_MAX,
	SLUICE_A_DEVICE_MAX = (__SLUICE_A_DEVICE_MAX - 1)
};

enum sluice_queue_attr {
	SLUICE_A_QUEUE_IFINDEX = 1,
	SLUICE_A_QUEUE_ID,
	SLUICE_A_QUEUE_STATE,
	SLUICE_A_QUEUE_RING,
	SLUICE_A_QUEUE_FILL,
	SLUICE_A_QUEUE_LIMIT,
	SLUICE_A_QUEUE_LOW,
	SLUICE_A_QUEUE_STOPS,
	SLUICE_A_QUEUE_WAKES_TIMER,
	SLUICE_A_QUEUE_WAKES_OTHER,
	SLUICE_A_QUEUE_STALLS,
	SLUICE_A_QUEUE_LONGEST_STOP_NS,
	SLUICE_A_QUEUE_DROPS,
	SLUICE_A_QUEUE_READER_NS,
	SLUICE_A_QUEUE_PAD,
	SLUICE_A_QUEUE_RESCUED,
	SLUICE_A_QUEUE_CHECKS,

	__SLUICE_A_QUEUE_MAX,
	SLUICE_A_QUEUE_MAX = (__SLUICE_A_QUEUE_MAX - 1)
};

enum sluice_rule_attr {
	SLUICE_A_RULE_PATTERN = 1,
	SLUICE_A_RULE_NETNS,
	SLUICE_A_RULE_ON,
	SLUICE_A_RULE_STALL_MS,
	SLUICE_A_RULE_LOW_PERCENT,
	SLUICE_A_RULE_LIMIT,
	SLUICE_A_RULE_TARGET_US,
	SLUICE_A_RULE_QDISC,
	SLUICE_A_RULE_ORIGIN,

	__SLUICE_A_RULE_MAX,
	SLUICE_A_RULE_MAX = (__SLUICE_A_RULE_MAX - 1)
};

enum sluice_rules_attr {
	SLUICE_A_RULES_RULE = 1,
	SLUICE_A_RULES_RESET,

	__SLUICE_A_RULES_MAX,
	SLUICE_A_RULES_MAX = (__SLUICE_A_RULES_MAX - 1)
};

enum sluice_event_attr {
	SLUICE_A_EVENT_IFINDEX = 1,
	SLUICE_A_EVENT_IFNAME,
	SLUICE_A_EVENT_QUEUE,
	SLUICE_A_EVENT_KIND,
	SLUICE_A_EVENT_COUNT,
	SLUICE_A_EVENT_FILL,
	SLUICE_A_EVENT_RING,

	__SLUICE_A_EVENT_MAX,
	SLUICE_A_EVENT_MAX = (__SLUICE_A_EVENT_MAX - 1)
};

enum sluice_cmd {
	SLUICE_CMD_DEVICE_GET = 1,
	SLUICE_CMD_DEVICE_SET,
	SLUICE_CMD_QUEUE_GET,
	SLUICE_CMD_QUEUE_EVENT,
	SLUICE_CMD_RULES_SET,
	SLUICE_CMD_RULE_GET,

	__SLUICE_CMD_MAX,
	SLUICE_CMD_MAX = (__SLUICE_CMD_MAX - 1)
};

#define SLUICE_MCGRP_EVENTS	"events"

#endif /* _UAPI_LINUX_SLUICE_H */
