/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What netlink.c and rules.c share of the generic netlink family "sluice".
 */
#ifndef SLUICE_NETLINK_H
#define SLUICE_NETLINK_H

#include <net/genetlink.h>

#include "compat.h"
#include "sluice.h"

/* netlink.c */
extern struct genl_family sluice_family;

/* rules.c */
extern struct netlink_range_validation sluice_stall_ms_range;
extern struct netlink_range_validation sluice_target_us_range;
extern const struct nla_policy sluice_rules_policy[__SLUICE_A_RULES_END];

int sluice_rules_set(struct sk_buff *skb, struct genl_info *info);
int sluice_rules_dump(struct sk_buff *skb, struct netlink_callback *cb);

#endif
