// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family "sluice": see docs/sluice.yaml.
 *
 * A socket sees and sets the devices of its own network namespace, and hears
 * of their events. A request is refused whole if it holds an attribute that
 * its command has no use for. Context: process; the devices are walked under
 * RTNL.
 */
#include <linux/rtnetlink.h>
#include <net/sock.h>

#include "compat.h"
#include "netlink.h"
#include "policy.h"

enum { GROUP_EVENTS };

/* rule-get takes no attribute: without a policy any would be ignored. */
static const struct nla_policy no_policy[] = {
	[SLUICE_A_RULES_RULE] = { .type = NLA_REJECT },
};

static u64 read_tx_dropped(struct net_device *dev)
{
	struct rtnl_link_stats64 stats;

	return dev_get_stats(dev, &stats)->tx_dropped;
}

/* Where its settings come from; all others are the module's parameters. */
static int put_origins(struct sk_buff *msg, const struct sluice_device *d)
{
	const struct sluice_rule *rule = d->rule;
	u32 by_hand = d->by_hand.given;
	u32 by_rule = rule ? rule->settings.given & ~by_hand : 0;

	return nla_put_u32(msg, SLUICE_A_DEVICE_BY_RULE, by_rule) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_BY_HAND, by_hand) ||
	       (rule && nla_put_string(msg, SLUICE_A_DEVICE_RULE,
				       rule->origin)) ||
	       (rule && *rule->qdisc &&
		nla_put_string(msg, SLUICE_A_DEVICE_QDISC, rule->qdisc));
}

static int put_device_attrs(struct sk_buff *msg,
			    const struct sluice_device *d)
{
	return nla_put_u32(msg, SLUICE_A_DEVICE_IFINDEX, d->dev->ifindex) ||
	       nla_put_string(msg, SLUICE_A_DEVICE_IFNAME, d->dev->name) ||
	       nla_put_u8(msg, SLUICE_A_DEVICE_ON, d->on) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_STATE, d->state) ||
	       (d->state == SLUICE_DEVICE_REFUSED &&
		nla_put_string(msg, SLUICE_A_DEVICE_REASON, d->reason)) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_QUEUES,
			   d->dev->real_num_tx_queues) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_STALL_MS, d->flow.stall_ms) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_LOW_PERCENT, d->flow.low_percent) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_LIMIT, d->flow.user_limit) ||
	       nla_put_u32(msg, SLUICE_A_DEVICE_TARGET_US, d->flow.target_us) ||
	       put_origins(msg, d) ||
	       nla_put_u64_64bit(msg, SLUICE_A_DEVICE_TX_DROPPED,
				 read_tx_dropped(d->dev), SLUICE_A_DEVICE_PAD);
}

static int put_count(struct sk_buff *msg, int attr, u64 count)
{
	return nla_put_u64_64bit(msg, attr, count, SLUICE_A_QUEUE_PAD);
}

static int put_queue_attrs(struct sk_buff *msg, struct sluice_device *d,
			   unsigned int id)
{
	struct sluice_queue_view v;

	sluice_queue_read(&d->queue[id], &v);
	return nla_put_u32(msg, SLUICE_A_QUEUE_IFINDEX, d->dev->ifindex) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_ID, id) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_STATE, v.state) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_RING, v.size) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_FILL, v.fill) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_LIMIT, v.limit) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_LOW, v.low) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_READER_NS, v.reader_ns) ||
	       nla_put_u32(msg, SLUICE_A_QUEUE_CHECKS, v.checks) ||
	       put_count(msg, SLUICE_A_QUEUE_STOPS, v.stops) ||
	       put_count(msg, SLUICE_A_QUEUE_WAKES_TIMER,
			 v.wakes[SLUICE_WAKE_TIMER]) ||
	       put_count(msg, SLUICE_A_QUEUE_WAKES_OTHER,
			 v.wakes[SLUICE_WAKE_OTHER]) ||
	       put_count(msg, SLUICE_A_QUEUE_STALLS, v.stalls) ||
	       put_count(msg, SLUICE_A_QUEUE_LONGEST_STOP_NS,
			 v.longest_stop_ns) ||
	       put_count(msg, SLUICE_A_QUEUE_DROPS, v.drops) ||
	       put_count(msg, SLUICE_A_QUEUE_RESCUED, v.rescued);
}

static int put_event_attrs(struct sk_buff *msg, const struct sluice_queue *q,
			   const struct sluice_queue_view *view,
			   enum sluice_event_kind kind, u32 count)
{
	const struct net_device *dev = q->device->dev;

	return nla_put_u32(msg, SLUICE_A_EVENT_IFINDEX, dev->ifindex) ||
	       nla_put_string(msg, SLUICE_A_EVENT_IFNAME, dev->name) ||
	       nla_put_u32(msg, SLUICE_A_EVENT_QUEUE, q - q->device->queue) ||
	       nla_put_u32(msg, SLUICE_A_EVENT_KIND, kind) ||
	       nla_put_u32(msg, SLUICE_A_EVENT_COUNT, count) ||
	       nla_put_u32(msg, SLUICE_A_EVENT_FILL, view->fill) ||
	       nla_put_u32(msg, SLUICE_A_EVENT_RING, view->size);
}

/**
 * sluice_netlink_report() - send an event to the listeners of a device's namespace
 * @q: the queue it happened to
 * @view: the queue as it is now
 * @kind: what happened
 * @count: how often since the last report
 * @budget: messages that may still be sent; one fewer if there is a listener
 *
 * Context: process, RTNL, between sluice_netlink_start() and _stop().
 * Return: false if the budget or the memory is used up: report it later.
 */
bool sluice_netlink_report(const struct sluice_queue *q,
			   const struct sluice_queue_view *view,
			   enum sluice_event_kind kind, u32 count,
			   unsigned int *budget)
{
	struct net *net = dev_net(q->device->dev);
	struct sk_buff *msg;
	void *header;

	ASSERT_RTNL();
	if (!genl_has_listeners(&sluice_family, net, GROUP_EVENTS))
		return true;
	msg = *budget ? genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL) : NULL;
	if (!msg)
		return false;
	(*budget)--;
	header = genlmsg_put(msg, 0, 0, &sluice_family, 0, SLUICE_CMD_QUEUE_EVENT);
	if (WARN_ON_ONCE(!header ||
			 put_event_attrs(msg, q, view, kind, count))) {
		nlmsg_free(msg);
		return true;
	}
	genlmsg_end(msg, header);
	genlmsg_multicast_netns(&sluice_family, net, msg, 0, GROUP_EVENTS, GFP_KERNEL);
	return true;
}

/* One message of a dump (of @cb) or a reply; @id only for queues. */
static int fill_message(struct sk_buff *msg, u32 portid, u32 seq,
			struct netlink_callback *cb, u8 cmd,
			struct sluice_device *d, unsigned int id)
{
	void *header = genlmsg_put(msg, portid, seq, &sluice_family,
				   cb ? NLM_F_MULTI : 0, cmd);

	if (!header)
		return -EMSGSIZE;
	if (cb)
		genl_dump_check_consistent(cb, header);
	if (cmd == SLUICE_CMD_QUEUE_GET ? put_queue_attrs(msg, d, id) :
					  put_device_attrs(msg, d)) {
		genlmsg_cancel(msg, header);
		return -EMSGSIZE;
	}
	genlmsg_end(msg, header);
	return 0;
}

#define NO_DEVICE "no tun or tap device with this ifindex"

/* The device a request names, in the namespace of its socket. Under RTNL. */
static struct sluice_device *find_requested(struct genl_info *info)
{
	struct nlattr *attr = info->attrs[SLUICE_A_DEVICE_IFINDEX];
	struct sluice_device *d = NULL;
	struct net_device *dev;

	if (!attr) {
		GENL_SET_ERR_MSG(info, "ifindex is missing");
		return ERR_PTR(-EINVAL);
	}
	dev = __dev_get_by_index(genl_info_net(info), nla_get_u32(attr));
	if (dev)
		d = sluice_device_find(dev);
	if (!d) {
		GENL_SET_ERR_MSG(info, NO_DEVICE);
		return ERR_PTR(-ENODEV);
	}
	return d;
}

static int device_get(struct sk_buff *skb, struct genl_info *info)
{
	struct sluice_device *d;
	struct sk_buff *msg;
	int err;

	msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	rtnl_lock();
	d = find_requested(info);
	err = IS_ERR(d) ? PTR_ERR(d) :
	      fill_message(msg, info->snd_portid, info->snd_seq, NULL,
			   SLUICE_CMD_DEVICE_GET, d, 0);
	rtnl_unlock();
	if (err) {
		nlmsg_free(msg);
		return err;
	}
	return genlmsg_reply(msg, info);
}

static void set_u32(struct sluice_settings *s, u32 setting, u32 *value,
		    const struct nlattr *attr)
{
	if (!attr)
		return;
	s->given |= setting;
	*value = nla_get_u32(attr);
}

static void set_by_hand(struct sluice_settings *s, struct nlattr **attrs)
{
	if (attrs[SLUICE_A_DEVICE_ON]) {
		s->given |= SLUICE_SETTING_ON;
		s->on = nla_get_u8(attrs[SLUICE_A_DEVICE_ON]);
	}
	set_u32(s, SLUICE_SETTING_STALL_MS, &s->stall_ms,
		attrs[SLUICE_A_DEVICE_STALL_MS]);
	set_u32(s, SLUICE_SETTING_LOW_PERCENT, &s->low_percent,
		attrs[SLUICE_A_DEVICE_LOW_PERCENT]);
	set_u32(s, SLUICE_SETTING_LIMIT, &s->limit,
		attrs[SLUICE_A_DEVICE_LIMIT]);
	set_u32(s, SLUICE_SETTING_TARGET_US, &s->target_us,
		attrs[SLUICE_A_DEVICE_TARGET_US]);
}

/* The check of GENL_UNS_ADMIN_PERM, but with a message. */
static int device_set(struct sk_buff *skb, struct genl_info *info)
{
	struct net *net = genl_info_net(info);
	struct sluice_device *d;

	if (!netlink_ns_capable(skb, net->user_ns, CAP_NET_ADMIN)) {
		GENL_SET_ERR_MSG(info, "CAP_NET_ADMIN is missing");
		return -EPERM;
	}
	rtnl_lock();
	d = find_requested(info);
	if (!IS_ERR(d)) {
		set_by_hand(&d->by_hand, info->attrs);
		sluice_device_configure(d);
	}
	rtnl_unlock();
	return PTR_ERR_OR_ZERO(d);
}

/* The device a dump is asked for, 0 for all; the policy has checked it. */
static u32 read_dumped(const struct netlink_callback *cb)
{
	const struct nlattr *attr = nlmsg_find_attr(cb->nlh, GENL_HDRLEN,
						    SLUICE_A_DEVICE_IFINDEX);

	BUILD_BUG_ON((int)SLUICE_A_DEVICE_IFINDEX !=
		     (int)SLUICE_A_QUEUE_IFINDEX);
	return attr ? nla_get_u32(attr) : 0;
}

/*
 * args[0]: the last device in the dump; args[1]: its queues done; args[2]: how
 * often that device was gone. Devices are listed in the order of registration,
 * so none is missed if others come or go. If the last device itself is gone the
 * dump begins again and sets NLM_F_DUMP_INTR.
 *
 * Returns 0 at the end: what fits into one message holds no reference of the
 * module until it is read.
 */
static int dump(struct sk_buff *skb, struct netlink_callback *cb, u8 cmd)
{
	struct net *net = sock_net(skb->sk);
	u32 only = read_dumped(cb);
	bool begun, told = false, whole = false;
	struct sluice_device *d;
	struct net_device *dev;
	unsigned int last;

	rtnl_lock();
	begun = cb->args[0];
	if (begun && !__dev_get_by_index(net, cb->args[0])) {
		begun = false;
		cb->args[2]++;
	}
	cb->seq = 1 + cb->args[2];
	for_each_netdev(net, dev) {
		if (begun && dev->ifindex != cb->args[0])
			continue;
		begun = false;
		d = sluice_device_find(dev);
		if (!d || (only && only != dev->ifindex))
			continue;
		told = true;
		if (dev->ifindex != cb->args[0]) {
			cb->args[0] = dev->ifindex;
			cb->args[1] = 0;
		}
		last = cmd == SLUICE_CMD_QUEUE_GET ? dev->real_num_tx_queues : 1;
		for (; cb->args[1] < last; cb->args[1]++)
			if (fill_message(skb, NETLINK_CB(cb->skb).portid,
					 cb->nlh->nlmsg_seq, cb, cmd, d,
					 cb->args[1]))
				goto full;
	}
	whole = true;
full:
	rtnl_unlock();
	if (only && !told) {
		NL_SET_ERR_MSG(cb->extack, NO_DEVICE);
		return -ENODEV;
	}
	return whole ? 0 : skb->len;
}

static int device_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, SLUICE_CMD_DEVICE_GET);
}

static int queue_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, SLUICE_CMD_QUEUE_GET);
}

static const struct genl_ops ops[] = {
	{
		.cmd = SLUICE_CMD_DEVICE_GET,
		/* That of the dump is the same. */
		.policy = sluice_device_get_do_nl_policy,
		.maxattr = ARRAY_SIZE(sluice_device_get_dump_nl_policy) - 1,
		.doit = device_get,
		.dumpit = device_dump,
	},
	{
		.cmd = SLUICE_CMD_DEVICE_SET,
		.policy = sluice_device_set_nl_policy,
		.maxattr = ARRAY_SIZE(sluice_device_set_nl_policy) - 1,
		.doit = device_set,
	},
	{
		.cmd = SLUICE_CMD_QUEUE_GET,
		.policy = sluice_queue_get_nl_policy,
		.maxattr = ARRAY_SIZE(sluice_queue_get_nl_policy) - 1,
		.dumpit = queue_dump,
	},
	{
		.cmd = SLUICE_CMD_RULES_SET,
		.policy = sluice_rules_set_nl_policy,
		.maxattr = ARRAY_SIZE(sluice_rules_set_nl_policy) - 1,
		.doit = sluice_rules_set,
	},
	{
		.cmd = SLUICE_CMD_RULE_GET,
		.policy = no_policy,
		.maxattr = ARRAY_SIZE(no_policy) - 1,
		.dumpit = sluice_rules_dump,
	},
};

static const struct genl_multicast_group groups[] = {
	[GROUP_EVENTS] = { .name = SLUICE_MCGRP_EVENTS },
};

struct genl_family sluice_family __ro_after_init = {
	.name = SLUICE_FAMILY_NAME,
	.version = SLUICE_FAMILY_VERSION,
	.netnsok = true,
	.module = THIS_MODULE,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

/**
 * sluice_netlink_start() - the operator can see and set
 *
 * Context: process, module load.
 * Return: 0 or a negative errno.
 */
int __init sluice_netlink_start(void)
{
	return genl_register_family(&sluice_family);
}

/**
 * sluice_netlink_stop() - no request is under way once this returns
 *
 * Context: process, module unload.
 */
void sluice_netlink_stop(void)
{
	genl_unregister_family(&sluice_family);
}
