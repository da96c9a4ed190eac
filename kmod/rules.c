// SPDX-License-Identifier: GPL-2.0-only
/*
 * The operator's rules: which settings a device gets by its name.
 *
 * The rules are one table for the whole machine. A request replaces the table
 * as a whole or changes nothing. The last rule whose pattern matches a device
 * applies; it is looked up whenever a device is registered, is renamed or moves
 * to another network namespace, and for every device when the table changes.
 *
 * The table is protected by RTNL.
 */
#include <linux/glob.h>
#include <linux/mm.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "compat.h"
#include "netlink.h"

struct sluice_rules {
	unsigned int count;
	struct sluice_rule rule[];
};

static struct sluice_rules *rules;
static unsigned int generation;

/**
 * sluice_rules_find() - the rule for a device
 * @dev: a tun or tap device
 *
 * Context: process, RTNL.
 * Return: valid until the table is replaced or RTNL is released; NULL if none.
 */
const struct sluice_rule *sluice_rules_find(const struct net_device *dev)
{
	bool host = net_eq(dev_net(dev), &init_net);
	const struct sluice_rule *rule;
	unsigned int left;

	ASSERT_RTNL();
	for (left = rules ? rules->count : 0; left; left--) {
		rule = &rules->rule[left - 1];
		if ((host || rule->netns == SLUICE_RULE_NETNS_ALL) &&
		    glob_match(rule->pattern, dev->name))
			return rule;
	}
	return NULL;
}

/**
 * sluice_rules_free() - forget all rules
 *
 * Context: process, module unload, when no device uses a rule any more.
 */
void sluice_rules_free(void)
{
	kvfree(rules);
	rules = NULL;
}

static u32 read_u32(struct sluice_settings *s, u32 setting,
		    const struct nlattr *attr)
{
	if (!attr)
		return 0;
	s->given |= setting;
	return nla_get_u32(attr);
}

static void read_string(char *to, size_t size, const struct nlattr *attr)
{
	if (attr)
		strscpy(to, nla_data(attr), size);
}

static int read_rule(struct sluice_rule *rule, const struct nlattr *nest,
		     struct netlink_ext_ack *extack)
{
	struct nlattr *a[SLUICE_A_RULE_MAX + 1];
	struct sluice_settings *s = &rule->settings;
	int err;

	err = nla_parse_nested(a, SLUICE_A_RULE_MAX, nest,
			       sluice_rule_entry_nl_policy, extack);
	if (err)
		return err;
	if (!a[SLUICE_A_RULE_PATTERN] || !a[SLUICE_A_RULE_ON]) {
		NL_SET_ERR_MSG_ATTR(extack, nest,
				    "rule: pattern or on is missing");
		return -EINVAL;
	}
	read_string(rule->pattern, sizeof(rule->pattern),
		    a[SLUICE_A_RULE_PATTERN]);
	read_string(rule->qdisc, sizeof(rule->qdisc), a[SLUICE_A_RULE_QDISC]);
	read_string(rule->origin, sizeof(rule->origin),
		    a[SLUICE_A_RULE_ORIGIN]);
	if (a[SLUICE_A_RULE_NETNS])
		rule->netns = nla_get_u32(a[SLUICE_A_RULE_NETNS]);
	s->given = SLUICE_SETTING_ON;
	s->on = nla_get_u8(a[SLUICE_A_RULE_ON]);
	s->stall_ms = read_u32(s, SLUICE_SETTING_STALL_MS,
			       a[SLUICE_A_RULE_STALL_MS]);
	s->low_percent = read_u32(s, SLUICE_SETTING_LOW_PERCENT,
				  a[SLUICE_A_RULE_LOW_PERCENT]);
	s->limit = read_u32(s, SLUICE_SETTING_LIMIT, a[SLUICE_A_RULE_LIMIT]);
	s->target_us = read_u32(s, SLUICE_SETTING_TARGET_US,
				a[SLUICE_A_RULE_TARGET_US]);
	return 0;
}

#define for_each_request_attr(attr, info, left) \
	nlmsg_for_each_attr(attr, (info)->nlhdr, GENL_HDRLEN, left)

/* The table a request describes, not in use yet. */
static struct sluice_rules *read_rules(struct genl_info *info)
{
	struct sluice_rules *table;
	unsigned int count = 0;
	struct nlattr *attr;
	int err, left;

	for_each_request_attr(attr, info, left)
		count += nla_type(attr) == SLUICE_A_RULES_RULE;
	if (count > SLUICE_RULES_MAX) {
		GENL_SET_ERR_MSG(info, "more rules than the module can hold (256)");
		return ERR_PTR(-E2BIG);
	}
	table = kvzalloc(struct_size(table, rule, count), GFP_KERNEL_ACCOUNT);
	if (!table)
		return ERR_PTR(-ENOMEM);
	for_each_request_attr(attr, info, left) {
		if (nla_type(attr) != SLUICE_A_RULES_RULE)
			continue;
		err = read_rule(&table->rule[table->count++], attr,
				info->extack);
		if (err) {
			kvfree(table);
			return ERR_PTR(err);
		}
	}
	return table;
}

/* Whether a request resets what was set by hand on a device. */
static bool resets(struct genl_info *info, const struct net_device *dev)
{
	struct nlattr *attr;
	int left;

	for_each_request_attr(attr, info, left)
		if (nla_type(attr) == SLUICE_A_RULES_RESET &&
		    glob_match(nla_data(attr), dev->name))
			return true;
	return false;
}

/* The rules hold in all namespaces: only the owner of the machine sets them. */
static bool may_set_rules(struct sk_buff *skb, struct genl_info *info)
{
	if (!net_eq(genl_info_net(info), &init_net)) {
		GENL_SET_ERR_MSG(info,
				 "rules can only be set from the host's network namespace");
		return false;
	}
	if (!netlink_capable(skb, CAP_NET_ADMIN)) {
		GENL_SET_ERR_MSG(info, "CAP_NET_ADMIN is missing");
		return false;
	}
	return true;
}

/**
 * sluice_rules_set() - replace all rules and apply them to all devices
 * @skb: the request
 * @info: its attributes, enum sluice_rules_attr
 *
 * Context: process, a netlink request.
 * Return: 0, or a negative errno when nothing was changed.
 */
int sluice_rules_set(struct sk_buff *skb, struct genl_info *info)
{
	struct sluice_rules *table, *old;
	struct sluice_device *device;
	int bucket;

	if (!may_set_rules(skb, info))
		return -EPERM;
	table = read_rules(info);
	if (IS_ERR(table))
		return PTR_ERR(table);
	rtnl_lock();
	old = rules;
	rules = table;
	generation++;
	hash_for_each(sluice_devices, bucket, device, node) {
		if (resets(info, device->dev))
			device->by_hand.given = 0;
		sluice_device_configure(device);
		cond_resched();
	}
	rtnl_unlock();
	kvfree(old);
	return 0;
}

static int put_u32(struct sk_buff *msg, const struct sluice_settings *s,
		   u32 setting, int attr, u32 value)
{
	return s->given & setting ? nla_put_u32(msg, attr, value) : 0;
}

static int put_rule(struct sk_buff *msg, const struct sluice_rule *rule)
{
	const struct sluice_settings *s = &rule->settings;

	return nla_put_string(msg, SLUICE_A_RULE_PATTERN, rule->pattern) ||
	       nla_put_u32(msg, SLUICE_A_RULE_NETNS, rule->netns) ||
	       nla_put_u8(msg, SLUICE_A_RULE_ON, s->on) ||
	       put_u32(msg, s, SLUICE_SETTING_STALL_MS,
		       SLUICE_A_RULE_STALL_MS, s->stall_ms) ||
	       put_u32(msg, s, SLUICE_SETTING_LOW_PERCENT,
		       SLUICE_A_RULE_LOW_PERCENT, s->low_percent) ||
	       put_u32(msg, s, SLUICE_SETTING_LIMIT, SLUICE_A_RULE_LIMIT,
		       s->limit) ||
	       put_u32(msg, s, SLUICE_SETTING_TARGET_US,
		       SLUICE_A_RULE_TARGET_US, s->target_us) ||
	       nla_put_string(msg, SLUICE_A_RULE_QDISC, rule->qdisc) ||
	       nla_put_string(msg, SLUICE_A_RULE_ORIGIN, rule->origin);
}

/**
 * sluice_rules_dump() - list the rules, first to last
 * @skb: the answer
 * @cb: args[0] is how many were listed
 *
 * Context: process, a netlink dump.
 * Return: as of a dump.
 */
int sluice_rules_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	void *header;
	bool whole;

	if (!net_eq(sock_net(skb->sk), &init_net)) {
		NL_SET_ERR_MSG(cb->extack,
			       "rules are only shown in the host's network namespace");
		return -EPERM;
	}
	rtnl_lock();
	cb->seq = generation + 1;
	while (rules && cb->args[0] < rules->count) {
		header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
				     cb->nlh->nlmsg_seq, &sluice_family,
				     NLM_F_MULTI, SLUICE_CMD_RULE_GET);
		if (!header)
			break;
		genl_dump_check_consistent(cb, header);
		if (put_rule(skb, &rules->rule[cb->args[0]])) {
			genlmsg_cancel(skb, header);
			break;
		}
		genlmsg_end(skb, header);
		cb->args[0]++;
	}
	whole = !rules || cb->args[0] >= rules->count;
	rtnl_unlock();
	return whole ? 0 : skb->len;
}
