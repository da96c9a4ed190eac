/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue through its whole life: senders, the reader, the timer, and an
 * operator who does to it what may be done. Steps between which kmod/queue.c
 * and kmod/hook.c may be interrupted are steps here.
 *
 * Where the ring begins does not matter: every index is counted from the
 * producer's, which is 0, and a packet moves all others one back.
 *
 * Left out: time (a timer may expire whenever it is armed; a reader that did
 * not move between two reviews and is dead is found dead), and the counter in
 * q->next_check (a sender's exchange fails once anybody else's succeeded).
 *
 * SENDERS, SIZE, BATCH: how many, how long the ring is, how many slots the
 * reader frees at a time. OPERATOR: what may be done, see there. DIES: the
 * reader may die. SLOW: it may read too little, and a stop ends before the ring is
 * low. DEPTH: the ring may be held to fewer packets. BUG_...: one guard less; each
 * must be found.
 *
 * Copy of: kmod/ring.c sluice_slots_between() af46201aa67708de
 * Copy of: kmod/ring.c sluice_count_ring() f0c0ea587af1e934
 * Copy of: kmod/depth.c headroom_for() cd203d6c887d84d2
 * Copy of: kmod/depth.c sluice_limit() c3d54c0b2bd74338
 * Copy of: kmod/depth.c sluice_low() 370144d0cb60e300
 * Copy of: kmod/queue.c __queue_stop() d05fe7faa0e4883a
 * Copy of: kmod/queue.c __queue_wake() 2245e8b7bf54788e
 * Copy of: kmod/queue.c __queue_stall() 411f8d250c083a6e
 * Copy of: kmod/queue.c __queue_review() 6c0c97024d4a3db0
 * Copy of: kmod/queue.c timer_expired() 19e1606e4608d498
 * Copy of: kmod/queue.c queue_filled() afe32fbdcb4e1f12
 * Copy of: kmod/queue.c stall_lasts() 686b04aaad2101ea
 * Copy of: kmod/queue.c queue_adopted() 6d845868d0987a1d
 * Copy of: kmod/queue.c set_next_check() 08b9d0aabeaa8cc8
 * Copy of: kmod/queue.c sluice_queue_check() dd6c3e53c340d2b9
 * Copy of: kmod/queue.c sluice_queue_opened() 68821a40b8cdd3d0
 * Copy of: kmod/queue.c sluice_queue_closed() e1dbece2b2554eea
 * Copy of: kmod/entry.h check_needed() 7feee816de47f0cf
 * Copy of: kmod/entry.h queue_to_check() c31fc0936c275239
 * Copy of: kmod/device.c device_vanished() 1398ef125d6b8751
 * Copy of: kmod/device.c sluice_devices_stop() 516989a9231be142
 */
#ifndef SENDERS
#define SENDERS	2
#endif
#ifndef SIZE
#define SIZE	16
#endif
#ifndef BATCH
#define BATCH	1
#endif
#ifndef OPERATOR
#define OPERATOR 0
#endif

/* headroom_for(), sluice_limit(), sluice_low() */
#ifdef BUG_HEADROOM
#define HEADROOM(s)	0
#else
#define HEADROOM(s)	((2 * SENDERS + BATCH) < (s) / 2 -> (2 * SENDERS + BATCH) : (s) / 2)
#endif
#define LIMIT(s)	((s) - HEADROOM(s))
#define LOW(s)		(LIMIT(s) / 2)
/* __queue_review(): a little early is early enough */
#define WAKE(s)		(LOW(s) + (LIMIT(s) - LOW(s)) / 4)

/* The ring. Slots: the packets; what was read and is not yet freed; what the
 * tail tells to be free and senders still see in use.
 */
byte size = SIZE;
byte packets, pending, unfreed;
bool dead;		/* the reader */
bool moved;		/* the reader's head, since the last sign of life */
#define TAIL	((2 * size - packets - pending) % size)
#define USED	(packets + pending + unfreed)

/* The driver and the core */
byte slot = 1;		/* the file behind the queue, 0 for none */
bool xoff, foreign;	/* the stopped bit; it is somebody else's */
bool has_queue = true;	/* the qdisc */
bool blind;		/* no sender checked since it has one again */
bool inside[SENDERS];	/* between the core's test and the ring */

/* struct sluice_queue */
bool hooked = true;	/* senders come by */
bool served = true;
bool open = true;
bool stopped, stalled;
#if OPERATOR
byte file, ring, qsize;	/* ring: that of the last file */
#else
byte file = 1, ring = 1, qsize = SIZE;
#endif
byte next_check;
bool locked;
bool armed, handling;
bool freed;		/* its memory */

/* What the proof knows. No packet may be lost while calm. */
bool calm = true;
bool changing;		/* the operator is at it */
bool before[SENDERS];	/* inside since before the last change */
bool fresh[SENDERS];	/* nobody changed q->next_check since this one read it */

/* What the senders hold in hand. */
#define NO	255
byte at[SENDERS] = NO;		/* index of the producer, or of the next check */

#ifdef BUG_LOCK
#define LOCK	skip
#define UNLOCK	skip
#else
#define LOCK	atomic { !locked -> locked = true }
#define UNLOCK	locked = false
#endif

/* q->next_check changed: what anybody saw of it is of the past. */
/* Where there is no operator, what q->lock protects is one step. */
#if OPERATOR || defined(BUG_LOCK)
#define SECTION
#else
#define SECTION	atomic
#endif

inline changed()
{
	fresh[0] = false;
#if SENDERS > 1
	fresh[1] = false;
#endif
#if SENDERS > 2
	fresh[2] = false;
#endif
}

#if SENDERS == 1
#define NONE(array)	(!array[0])
#elif SENDERS == 2
#define NONE(array)	(!array[0] && !array[1])
#else
#define NONE(array)	(!array[0] && !array[1] && !array[2])
#endif

/* Something happened that may cost packets. */
inline excuse()
{
	calm = false;
	before[0] = inside[0];
#if SENDERS > 1
	before[1] = inside[1];
#endif
#if SENDERS > 2
	before[2] = inside[2];
#endif
}

inline calm_again()
{
	if
	:: !calm && !changing && NONE(before) && USED < LIMIT(size) && !stalled && !dead &&
	   served && open && has_queue && !blind -> calm = true
	:: else
	fi
}

/* __queue_wake() */
inline wake()
{
	stopped = false;
	assert(!foreign);	/* never somebody else's stop */
	xoff = false
}

/* set_next_check() */
inline set_next_check()
{
	atomic {
		if
#ifdef BUG_EXCHANGE
		:: true ->
#else
		:: fresh[me] && next_check != at[me] ->
#endif
			next_check = at[me];
			changed()
		:: else
		fi;
		fresh[me] = false;
		at[me] = NO
	}
}

/* How far on the next check may be, and so how far before it none is needed:
 * sluice_check_span()
 */
#ifdef BUG_SPAN
#define SPAN	(length / 2 - 1)
#define WINDOW	(qsize / 2)
#else
#define SPAN	(length / 4)
#define WINDOW	(qsize / 4)
#endif

/* check_needed(): of the producer index i. The source checks once more where the
 * ring begins anew, which the model does not know.
 */
#define ALL	254	/* of queue_adopted(): every sender checks */
#define CHECK_NEEDED(i)		(next_check == ALL || \
				 (next_check + 2 * qsize - (i) - 1) % qsize >= WINDOW)
#define FILL(to, from)	(((to) + length - (from)) % length)

inline back(index)
{
	if
	:: index != NO -> index = (index + size - 1) % size
	:: else
	fi
}

/* A packet is in the ring. */
inline produced()
{
	packets++;
	next_check = (next_check == ALL -> ALL : (next_check + size - 1) % size);
	back(at[0]);
#if SENDERS > 1
	back(at[1]);
#endif
#if SENDERS > 2
	back(at[2]);
#endif
}

proctype sender(byte me)
{
	byte length, found;
	short room;

	do
	::	atomic { !xoff && !freed -> inside[me] = true };

		/* transmit_entered(), check_needed() */
		if
		:: !hooked -> goto transmit
		:: hooked && (file == 0 || file != slot || size != qsize) -> goto check
		:: hooked && file && file == slot && size == qsize
		fi;
		at[me] = 0;
		atomic {
			if
			:: CHECK_NEEDED(at[me]) -> at[me] = NO
			:: else -> goto transmit
			fi
		};

check:		/* sluice_queue_check() */
		assert(!freed);
#ifndef BUG_READ
		fresh[me] = true;	/* q->next_check is read */
#endif
#if OPERATOR
		atomic { found = slot; length = size };
		if
		:: found == 0 || !served -> goto transmit
		:: else
		fi;
		if
		:: file != found || qsize != length ->	/* queue_adopted() */
			LOCK;
			if
			:: ring != found || qsize != length -> stalled = false
			:: else
			fi;
			atomic { next_check = ALL; changed() };
			qsize = length;
			atomic { ring = found; file = found };
			UNLOCK
		:: else
		fi;
#else
		length = size;
#endif
#if OPERATOR
		if
		:: !has_queue ->	/* stock's; a full ring looks empty */
			atomic {
				room = LIMIT(length) - 1 - (USED < size -> USED : 0);
				at[me] = (room > SPAN -> SPAN : (room > 0 -> room : 0))
			};
			set_next_check();
			goto transmit
		:: atomic { has_queue -> blind = false }
		fi;
		if
		:: stalled && !moved ->	/* stall_lasts() */
			at[me] = 0;
			set_next_check();
			goto transmit
		:: else
		fi;
#endif
		atomic {	/* sluice_count_ring(): a tail of the past errs high */
			if
			:: TAIL != 0 -> room = LIMIT(length) - 1 - FILL(0, TAIL)
			:: TAIL == 0 && USED < size -> room = LIMIT(length) - 1
			:: TAIL == 0 && (USED >= size || unfreed) -> room = -1
			fi;
#ifdef DEPTH	/* the ring is held to a time: to any number of packets */
			if
			:: room > 0 -> room = 0
			:: room > 1 -> room = 1
			:: true
			fi;
#endif
			at[me] = (room > SPAN -> SPAN : (room > 0 -> room : 0))
		};
#ifdef BUG_READ
		fresh[me] = true;	/* after what will replace it */
#endif
#ifdef SLOW
		if
		:: stalled && room <= 0 ->	/* stall_lasts(), while it does */
			at[me] = 0;
			set_next_check();
			goto transmit
		:: true
		fi;
#endif
		set_next_check();
		if
		:: room > 0 && !stalled -> goto transmit
		:: else
		fi;

		/* queue_filled(), __queue_stop() */
		SECTION {
		LOCK;
		if
		:: room <= 0 && stalled && !moved -> goto unlock	/* stall_lasts() */
#if OPERATOR
		:: found != ring -> goto unlock
#endif
		:: else
		fi;
		stalled = false;
		if
		:: room > 0 -> goto unlock
		:: else
		fi;
		if
#ifdef BUG_OPEN
		:: true ->
#else
		:: open ->
#endif
			if
#ifdef BUG_FOREIGN
			:: true -> xoff = true; goto stop
#else
			:: atomic { !xoff -> xoff = true }; goto stop
			:: xoff
#endif
			fi
		:: !open
		fi;
		goto unlock;
stop:		if
		:: !stopped ->
			stopped = true;
			moved = false;
			armed = true
		:: stopped
		fi;
unlock:		UNLOCK
		};

transmit:	atomic {
			if
			:: slot != 0 && USED < size ->
				produced()
			:: slot != 0 && USED >= size ->
				assert(!calm)	/* the ring never overflows */
			:: slot == 0
			fi;
			at[me] = NO; length = 0; found = 0; room = 0;
			inside[me] = false;
			before[me] = false;
			calm_again()
		}
	od
}

/* The stock driver's: it frees its slots late and in batches. */
active proctype reader()
{
end:	do
	:: atomic { packets && !dead && (!unfreed || pending + 1 < BATCH) ->
		packets--;
		pending++;
		moved = true;
		if
		:: pending >= BATCH -> unfreed = pending; pending = 0
		:: else
		fi
	   }
	:: atomic { unfreed && !dead -> unfreed = 0; calm_again() }
#ifdef DIES
	:: atomic { !dead && !freed -> dead = true; excuse() }
	:: atomic { dead ->		/* resumed: it reads at least one */
		dead = false;
		unfreed = 0;
		if
		:: packets -> packets--; pending = 0; moved = true
		:: else
		fi;
		calm_again()
	   }
#endif
	od
}

/* timer_expired(), __queue_review() */
active proctype timer()
{
	byte length, fill;
	bool idle;		/* reviewed once without a sign of life */

	do
	::	atomic { armed -> armed = false; handling = true };
		SECTION {
		LOCK;
		if
		:: !stopped -> goto done
		:: stopped
		fi;
		if
		:: file != slot || slot == 0 || size != qsize || !has_queue ->
			wake();
			goto done
		:: else
		fi;
		length = qsize;
		atomic {	/* sluice_count_ring(): a stopped ring hardly fills */
			fill = FILL(0, TAIL);
			if
			:: fill == 0 && USED >= size -> fill = length
			:: fill == 0 && unfreed -> fill = length
			:: fill != 0 || USED < size
			fi
		};
		if
		:: fill <= WAKE(length) -> idle = false; wake()
#if defined(DEPTH) || defined(SLOW)	/* the longest stop is over */
		:: fill > WAKE(length) ->
			idle = false;
			if	/* the machine was paused */
			:: fill >= LIMIT(length) -> excuse()
			:: else
			fi;
			wake()
#endif
#ifdef SLOW	/* the reader lives, and reads too little */
		:: fill > WAKE(length) ->
			idle = false;
			atomic { stalled = true; excuse() };
			wake()
#endif
		:: else ->
			if
			:: !moved && dead && idle ->
				idle = false;
				atomic { stalled = true; excuse() };
				wake()
			:: !moved && dead && !idle -> idle = true; goto again
			:: moved || !dead -> idle = false; moved = false; goto again
			fi
		fi;
		goto done;
again:
#ifndef BUG_REARM
		armed = true;
#endif
done:		UNLOCK
		};
		atomic { length = 0; fill = 0; handling = false }
	od
}

/* sluice_queue_opened(), sluice_queue_closed() */
inline opened()
{
	LOCK;
	open = true;
	file = 0;
	if
	:: stopped && slot == 0 -> wake()
	:: else
	fi;
	UNLOCK
}

inline closed()
{
	LOCK;
	open = false;
	stalled = false;
	if
	:: stopped -> wake()
	:: else
	fi;
	UNLOCK;
#ifndef BUG_CANCEL
	atomic { !handling -> armed = false }	/* hrtimer_cancel() */
#endif
}

/* synchronize_rcu(): all that are inside leave once. */
inline grace_period()
{
	atomic { excuse() };
	NONE(before)
}

#if OPERATOR
/* Another ring, or another size: what was an index may now be anywhere. */
inline elsewhere(index)
{
	if
	:: index != NO -> index = index % size
	:: else
	fi
}

inline anywhere()
{
	if
	:: next_check = 0
	:: next_check = 1
	:: next_check = size / 2
	:: next_check = size - 1
	fi;
	elsewhere(at[0]);
#if SENDERS > 1
	elsewhere(at[1]);
#endif
}


active proctype operator()
{
	do
#if OPERATOR == 1
	:: served ->			/* off */
		atomic { served = false; changing = true; excuse() };
		closed()
	:: !served ->			/* on */
		served = true;
		opened();
		atomic { changing = false; excuse(); calm_again() }
	:: true ->			/* link down, then up */
		atomic { served = false; changing = true; excuse() };
		closed();
		atomic { foreign = true; xoff = true };
		atomic { foreign = false; xoff = false };
		served = true;
		opened();
		atomic { changing = false; excuse(); calm_again() }
	:: atomic { has_queue = false; blind = true; excuse() };	/* another qdisc */
		NONE(before)
	:: !has_queue ->
		has_queue = true;
		grace_period()
	:: atomic { !xoff && !stopped -> foreign = true; xoff = true; excuse() };
		atomic { foreign = false; xoff = false; excuse() }
#endif
#if OPERATOR == 2
	:: atomic {			/* the ring is resized */
		excuse();
		changing = true;
		size = (size == SIZE -> SIZE - 2 : SIZE);
		pending = 0;
		unfreed = 0;
		packets = (packets > size -> size : packets);
		anywhere()
	   };
		opened();
		atomic { changing = false; excuse(); calm_again() }
	:: atomic { slot ->		/* detached, and perhaps another moves in */
		excuse();
		pending = 0;
		unfreed = 0;
		if
		:: slot = 0; packets = 0
		:: file != 3 - slot ->	/* not the one last seen here */
			slot = 3 - slot;
			if
			:: packets = size
			:: packets = 1
			fi;
			anywhere()
		fi
	   };
		grace_period()
	:: atomic { !slot ->		/* attached: empty, wherever it was */
		excuse();
		if
		:: slot = 1
		:: slot = 2
		fi;
		anywhere()
	   };
		grace_period()
#endif
	:: atomic {			/* unload */
		hooked = false;
		served = false;
		changing = true;
		excuse()
	   };
		NONE(before);
		closed();
		freed = true;
		assert(!armed && !handling);
		assert(!xoff);
		break
	od
}
#endif

init {
	atomic {
		run sender(0);
#if SENDERS > 1
		run sender(1);
#endif
#if SENDERS > 2
		run sender(2);
#endif
	}
}

/* A queue we stopped has an armed timer, or a handler that will see to it. */
#define WATCHED		(!stopped || armed || handling || locked)
ltl watched { [] WATCHED }
/* Nobody waits for ever for a queue that is not somebody else's to wake. */
ltl progress { [] <> (!xoff || foreign) }
