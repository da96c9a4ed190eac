/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a queue go on? One queue, its senders, its reader, its timer, and somebody
 * who switches the device off and on, each in steps between which the others run.
 * When a queue stops, and when a review wakes it, is the policy's (kmod/flow.c): here
 * a review of a ring that was not read down may wake the queue (a stop ends after
 * stall_ms) or arm the timer again.
 *
 * Asked: a queue that we stopped has an armed timer, or its handler at work (watched);
 * with weak fairness no queue stays stopped (progress); after it was closed it is not
 * stopped and no timer is armed. SENDERS, SIZE; DIES: the reader may die. ALONE:
 * nobody switches. BUG_...: one
 * guard less, which must be found.
 */
#ifndef SENDERS
#define SENDERS	2
#endif
#ifndef SIZE
#define SIZE	4
#endif

byte packets;		/* in the ring */
bool dead;		/* the reader */
bool xoff;		/* the bit that senders test */
bool open = true, stopped, armed, handling;
bool locked;		/* q->lock */

#ifdef BUG_LOCK
#define LOCK	skip
#define UNLOCK	skip
#else
#define LOCK	atomic { !locked -> locked = true }
#define UNLOCK	locked = false
#endif

inline stop()
{
	xoff = true;
	stopped = true;
	armed = true
}

inline wake()
{
	stopped = false;
	xoff = false
}

active [SENDERS] proctype sender()
{
	do
	:: !xoff ->
		if
		:: packets >= SIZE / 2 ->	/* a check finds the limit */
			LOCK;
			if
#ifndef BUG_OPEN
			:: open && !stopped -> stop()
			:: else
#else
			:: !stopped -> stop()
			:: else
#endif
			fi;
			UNLOCK
		:: else
		fi;
		atomic {
			if
			:: packets < SIZE -> packets++
			:: else		/* the driver drops it */
			fi
		}
	od
}

active proctype reader()
{
	do
	:: atomic { packets && !dead -> packets-- }
#ifdef DIES
	:: dead = true; break
#endif
	od
}

active proctype timer()
{
	do
	:: atomic { armed -> armed = false; handling = true };
		LOCK;
		if
		:: !stopped
		:: stopped && packets < SIZE / 2 -> wake()
		:: stopped && packets >= SIZE / 2 ->
			if
			:: wake()	/* the longest stop is over, or it stalls */
#ifndef BUG_REARM
			:: !dead -> armed = true
#else
			:: !dead
#endif
			fi
		fi;
		UNLOCK;
		handling = false
	od
}

#ifndef ALONE
/* Off: sluice_queue_closed(). On: sluice_queue_opened(). */
active proctype operator()
{
	do
	:: open ->
#ifdef BUG_CANCEL
		atomic { armed = false };
#endif
		LOCK;
		open = false;
		if
		:: stopped -> wake()
		:: else
		fi;
		UNLOCK;
#ifndef BUG_CANCEL
		atomic { !handling -> armed = false };	/* hrtimer_cancel() */
#endif
		assert(!stopped && !armed && !handling)
	:: !open -> open = true
	od
}
#endif

ltl watched { [] (stopped && !locked -> armed || handling) }
ltl progress { [] (<> !xoff) }
