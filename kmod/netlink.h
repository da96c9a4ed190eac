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

extern const struct nla_policy sluice_rule_entry_nl_policy[SLUICE_A_RULE_MAX + 1];

/* rules.c */
int sluice_rules_set(struct sk_buff *skb, struct genl_info *info);
int sluice_rules_dump(struct sk_buff *skb, struct netlink_callback *cb);

#endif
