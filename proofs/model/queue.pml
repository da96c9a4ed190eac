/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a queue go on? One queue, its sender, its reader and its timer, each in steps
 * between which the others run. When a queue stops, and when a review wakes it, is the
 * policy's (kmod/flow.c): here a review of a ring that was not read down may wake the
 * queue (a stop ends after stall_ms) or arm the timer again.
 *
 * Asked: with weak fairness no queue stays stopped (progress). DIES: the reader may
 * die. BUG_REARM: the timer is not armed again, which must be found. What becomes of a
 * queue that is closed, and of a timer without the lock, is asked by litmus tests.
 */
#define SIZE	4

byte packets;		/* in the ring */
bool dead;		/* the reader */
bool xoff;		/* the bit that senders test */
bool stopped, armed;
bool locked;		/* q->lock */

#define LOCK	atomic { !locked -> locked = true }
#define UNLOCK	locked = false

inline wake()
{
	stopped = false;
	xoff = false
}

active proctype sender()
{
	do
	:: !xoff ->
		if
		:: packets >= SIZE / 2 ->	/* a check finds the limit */
			LOCK;
			if
			:: !stopped ->
				xoff = true;
				stopped = true;
				armed = true
			:: else
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
	:: armed ->
		armed = false;
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
		UNLOCK
	od
}

ltl progress { [] (<> !xoff) }
