/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The transmit queue of a TUN/TAP file; see tun_txq.c.
 */
#ifndef _TUN_TXQ_H
#define _TUN_TXQ_H

#if PATCH >= 3
#include <linux/hrtimer.h>
#endif
#include <linux/netdevice.h>
#include <linux/ptr_ring.h>

#if PATCH >= 3
#include "tun_tx_flow.h"

#endif
#if PATCH >= 6
struct tun_txq_stats {
	u64 stops;
	u64 wakes;
};

#endif
struct tun_txq {
	struct ptr_ring *ring;		/* of the same file */
	/* protected by the ring's producer lock */
	int reserved;			/* slots promised to senders in the driver */
#if PATCH >= 3
	int room;			/* packets until a sender looks at the ring */

	/* protects what follows; taken inside of the producer lock, or alone */
	raw_spinlock_t lock;
	struct netdev_queue *stopped;	/* by us, or NULL */
	bool released;			/* since a sender last looked at the ring */
	int size;			/* slots of the ring that @flow knows */
	struct tun_tx_flow flow;
#endif
#if PATCH >= 6
	struct tun_txq_stats stats;
#endif
#if PATCH >= 3
	struct hrtimer timer;		/* reviews a stopped queue */
#endif
};

void tun_txq_init(struct tun_txq *txq, struct ptr_ring *ring);
int tun_txq_reserve(struct tun_txq *txq, struct netdev_queue *queue);
void tun_txq_cancel(struct tun_txq *txq, struct netdev_queue *queue);
int tun_txq_produce(struct tun_txq *txq, struct netdev_queue *queue,
		    struct sk_buff *skb, bool reserved);
bool tun_txq_produce_frame(struct tun_txq *txq, void *frame);
#if PATCH >= 3
void tun_txq_release(struct tun_txq *txq);
#endif
#if PATCH >= 6
void tun_txq_read_stats(struct tun_txq *txq, struct tun_txq_stats *sum, bool take);
#endif

#endif /* _TUN_TXQ_H */
