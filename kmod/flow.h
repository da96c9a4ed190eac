/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy of one queue; see the DOC block of flow.c.
 */
#ifndef SLUICE_FLOW_H
#define SLUICE_FLOW_H

#include <linux/types.h>

/**
 * struct sluice_flow_settings - what the operator sets, for all queues of a device
 * @stall_ms: the longest stop, milliseconds, 1 or more
 * @low_percent: low watermark, per cent of where the queue stops, below 100
 * @user_limit: the most packets in the ring, 0 for no such limit
 * @target_us: how long the packets in the ring last, microseconds; 0: they may
 *	       fill the ring
 *
 * Written with WRITE_ONCE(), read without a lock.
 */
struct sluice_flow_settings {
	u32 stall_ms;
	u32 low_percent;
	u32 user_limit;
	u32 target_us;
};

/**
 * struct sluice_flow_ring - what a ring holds, as seen at one moment
 * @size: slots
 * @producer: index of the next packet, 0 to @size - 1
 * @used: slots that are not free: packets, and slots that were read and not yet
 *	  handed back
 * @fill: packets
 * @safe_limit: @used at which a queue stops, so that senders that are already on
 *		their way find a free slot; 1 to @size
 * @guessed: it is empty or full, and nobody could tell: @used and @fill say full
 */
struct sluice_flow_ring {
	int size;
	int producer;
	int used;
	int fill;
	int safe_limit;
	bool guessed;
};

/**
 * struct sluice_flow_device - what the queues of a device share
 * @stalls: changes whenever one of them stalls
 * @stopped_at: when one of them was last seen stopped
 *
 * Written under the lock of whichever queue it is, with WRITE_ONCE(); a write that
 * is lost to that of another queue does no harm.
 */
struct sluice_flow_device {
	u32 stalls;
	u64 stopped_at;
};

/**
 * struct sluice_flow - the policy's memory of one queue
 * @settings: of its device
 * @device: what it shares with the device's other queues
 * @depth: packets at which the queue stops, before the other limits
 * @stalled: senders pass, and a full ring drops
 * @resting: the last look of this stop saw nothing read
 * @producer: the ring's producer at the last look
 * @fill: packets in the ring at the last look
 * @least: the fewest packets in the ring since the queue stopped
 * @visit: packets read since the reader last rested
 * @stop_read: packets read in this stop
 * @unread: packets still to be read after a stall until each pays in full
 * @most: what @held may become if the reader rests in this stop: it may have found
 *	  the ring empty before; 0: it left packets
 * @held: packets, in 1/1024: a little more than the reader takes at one visit, or what
 *	  bridges the delay of timers; learned
 * @device_stalls: stalls of the device that this queue knows of
 * @pace_ns: the reader's nanoseconds for one packet: @sum_ns over @sum_packets
 * @sum_packets: packets it read in @sum_ns, in 1/1024
 * @sum_ns: time it was seen to work; both fade
 * @lost_ns: time for which the reader had no work because of this stop
 * @debt_ns: stopped time for which the reader has not paid
 * @looked_at: time of the last look; all times are nanoseconds of one clock that
 *	       does not go back
 * @stopped_at: start of the stop
 * @due: when the next review was asked for
 * @review_from: earliest next review
 * @passes_until: earliest end of the stall
 *
 * All belong to the holder of the queue's lock; @depth, @stalled, @producer and
 * @fill are read without it, too.
 */
struct sluice_flow {
	const struct sluice_flow_settings *settings;
	struct sluice_flow_device *device;
	int depth;
	bool stalled;
	bool resting;
	int producer;
	int fill;
	int least;
	int visit;
	int stop_read;
	int unread;
	u64 most;
	u64 held;
	u32 device_stalls;
	u32 pace_ns;
	u64 sum_packets;
	u64 sum_ns;
	u64 lost_ns;
	u64 debt_ns;
	u64 looked_at;
	u64 stopped_at;
	u64 due;
	u64 review_from;
	u64 passes_until;
};

enum sluice_flow_verdict {
	SLUICE_FLOW_WAIT,
	SLUICE_FLOW_WAKE,
	SLUICE_FLOW_STALL,
};

int sluice_slots_between(int from, int to, int size);
void sluice_flow_init(struct sluice_flow *f);
void sluice_flow_rebase(struct sluice_flow *f, const struct sluice_flow_ring *ring,
			bool same);
void sluice_flow_configure(struct sluice_flow *f);
int sluice_flow_depth(const struct sluice_flow *f, int safe_limit);
int sluice_flow_low(const struct sluice_flow *f, int depth);
int sluice_flow_room(const struct sluice_flow *f, const struct sluice_flow_ring *ring,
		     bool more);
bool sluice_flow_passes(struct sluice_flow *f, const struct sluice_flow_ring *ring,
			u64 now);
u64 sluice_flow_stop(struct sluice_flow *f, const struct sluice_flow_ring *ring, u64 now);
void sluice_flow_wake(struct sluice_flow *f, u64 now);
enum sluice_flow_verdict
sluice_flow_review(struct sluice_flow *f, const struct sluice_flow_ring *ring, u64 now,
		   u64 *next_ns);

#endif
