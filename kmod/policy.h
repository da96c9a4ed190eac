/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Made from docs/sluice.yaml by the kernel's ynl-gen: edit that, run make generate.
 */
#ifndef SLUICE_POLICY_H
#define SLUICE_POLICY_H

/* Integer value ranges */
static struct netlink_range_validation sluice_a_device_stall_ms_range = {
	.min	= 1ULL,
	.max	= 60000ULL,
};

static struct netlink_range_validation sluice_a_device_target_us_range = {
	.max	= 100000ULL,
};

static struct netlink_range_validation sluice_a_rule_stall_ms_range = {
	.min	= 1ULL,
	.max	= 60000ULL,
};

static struct netlink_range_validation sluice_a_rule_target_us_range = {
	.max	= 100000ULL,
};

/* Common nested types */
const struct nla_policy sluice_rule_entry_nl_policy[SLUICE_A_RULE_ORIGIN + 1] = {
	[SLUICE_A_RULE_PATTERN] = { .type = NLA_NUL_STRING, .len = 63, },
	[SLUICE_A_RULE_NETNS] = NLA_POLICY_MAX(NLA_U32, 1),
	[SLUICE_A_RULE_ON] = NLA_POLICY_MAX(NLA_U8, 1),
	[SLUICE_A_RULE_STALL_MS] = NLA_POLICY_FULL_RANGE(NLA_U32, &sluice_a_rule_stall_ms_range),
	[SLUICE_A_RULE_LOW_PERCENT] = NLA_POLICY_MAX(NLA_U32, 95),
	[SLUICE_A_RULE_LIMIT] = { .type = NLA_U32, },
	[SLUICE_A_RULE_TARGET_US] = NLA_POLICY_FULL_RANGE(NLA_U32, &sluice_a_rule_target_us_range),
	[SLUICE_A_RULE_QDISC] = { .type = NLA_NUL_STRING, .len = 15, },
	[SLUICE_A_RULE_ORIGIN] = { .type = NLA_NUL_STRING, .len = 127, },
};

/* SLUICE_CMD_DEVICE_GET - do */
static const struct nla_policy sluice_device_get_do_nl_policy[SLUICE_A_DEVICE_IFINDEX + 1] = {
	[SLUICE_A_DEVICE_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* SLUICE_CMD_DEVICE_GET - dump */
static const struct nla_policy sluice_device_get_dump_nl_policy[SLUICE_A_DEVICE_IFINDEX + 1] = {
	[SLUICE_A_DEVICE_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* SLUICE_CMD_DEVICE_SET - do */
static const struct nla_policy sluice_device_set_nl_policy[SLUICE_A_DEVICE_TARGET_US + 1] = {
	[SLUICE_A_DEVICE_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[SLUICE_A_DEVICE_ON] = NLA_POLICY_MAX(NLA_U8, 1),
	[SLUICE_A_DEVICE_STALL_MS] = NLA_POLICY_FULL_RANGE(NLA_U32, &sluice_a_device_stall_ms_range),
	[SLUICE_A_DEVICE_LOW_PERCENT] = NLA_POLICY_MAX(NLA_U32, 95),
	[SLUICE_A_DEVICE_LIMIT] = { .type = NLA_U32, },
	[SLUICE_A_DEVICE_TARGET_US] = NLA_POLICY_FULL_RANGE(NLA_U32, &sluice_a_device_target_us_range),
};

/* SLUICE_CMD_QUEUE_GET - dump */
static const struct nla_policy sluice_queue_get_nl_policy[SLUICE_A_QUEUE_IFINDEX + 1] = {
	[SLUICE_A_QUEUE_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* SLUICE_CMD_RULES_SET - do */
static const struct nla_policy sluice_rules_set_nl_policy[SLUICE_A_RULES_RESET + 1] = {
	[SLUICE_A_RULES_RULE] = NLA_POLICY_NESTED(sluice_rule_entry_nl_policy),
	[SLUICE_A_RULES_RESET] = { .type = NLA_NUL_STRING, .len = 63, },
};

#endif
