// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether this kernel locks a lockless qdisc that it resets, tried at load on a
 * device, a queue and a qdisc of our own; see sluice_locked_reset. The function
 * is inline, so our copy does what the core's does.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/sch_generic.h>

#include "compat.h"
#include "sluice.h"

bool sluice_locked_reset = !IS_ENABLED(CONFIG_SMP);

/* The reset of a lockless qdisc: is its lock held? */
static void note_lock(typeof(noop_qdisc) *qdisc)
{
	if (spin_trylock(&qdisc->seqlock))
		spin_unlock(&qdisc->seqlock);
	else
		sluice_locked_reset = true;
}

static const typeof(*noop_qdisc.ops) trial_ops = {
	.reset = note_lock,
};

/**
 * sluice_selftest_reset() - learn how this kernel resets a closed queue's qdisc
 *
 * Context: process, at module load.
 * Return: 0, or a negative errno.
 */
int sluice_selftest_reset(void)
{
	struct trial {
		struct net_device dev;
		struct netdev_queue txq;
		typeof(noop_qdisc) qdisc;
	} *trial = kzalloc(sizeof(*trial), GFP_KERNEL);

	if (!trial)
		return -ENOMEM;
	trial->qdisc.ops = &trial_ops;
	trial->qdisc.flags = TCQ_F_NOLOCK;
	trial->qdisc.dev_queue = &trial->txq;
	spin_lock_init(&trial->qdisc.q.lock);
	spin_lock_init(&trial->qdisc.seqlock);
	__skb_queue_head_init(&trial->qdisc.gso_skb);
	__skb_queue_head_init(&trial->qdisc.skb_bad_txq);
	trial->txq.dev = &trial->dev;
	RCU_INIT_POINTER(trial->txq.qdisc, &trial->qdisc);
	trial->dev._tx = &trial->txq;
	trial->dev.num_tx_queues = 1;

	rtnl_lock();
	qdisc_reset_all_tx_gt(&trial->dev, 0);
	rtnl_unlock();
	kfree(trial);
	return 0;
}
