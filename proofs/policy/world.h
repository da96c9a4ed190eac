/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What world.c and operator.c share. */
#ifndef POLICY_WORLD_H
#define POLICY_WORLD_H

#include <stdio.h>

#include "machine.h"
#include "steps.h"

#define SLACK_NS	(60 * NSEC_PER_MSEC)	/* CPUs that are held, late timers */
#define FILES		3
#define SENDERS_MAX	6

struct plan {
	u64 packets;		/* each sender's */
	bool operates;		/* there is an operator */
	bool intrudes;		/* somebody else stops and wakes our queues */
	bool leaves;		/* the module is unloaded under traffic */
	bool dies;		/* readers pause for longer than the stall time */
	bool batches;		/* readers take several under one lock */
	bool loses_timers;	/* the kernel does: the backstop is for that */
	unsigned int reader_pace;
	int size, batch;
	unsigned int queues;
	u32 limit;		/* the operator's, from the start, by a rule */
};

/* Who has a tun file open and reads from it. */
struct process {
	struct tun_file *file;
	bool inside;		/* the driver, with this file */
	int index;		/* the file's queue, -1 while detached */
	unsigned int idle;	/* so often in a row there was no packet */
	/*
	 * No packet may be lost: since the last change of anything that
	 * excuses a loss the reader caught up once, and every sender has
	 * since begun anew. Both say how many excuses there had been, so that
	 * one that comes at the same time is not overwritten.
	 */
	unsigned int strict;
	unsigned int waits;	/* caught up, waits for the senders */
	unsigned int caught_up[SENDERS_MAX];	/* senders' rounds at that time */
};

extern struct plan plan;
extern struct process processes[FILES];
extern u64 sent[SENDERS_MAX], found;	/* packets sent, and those found again */
extern unsigned int excuses;		/* for lost packets, so far */
extern int senders_left;
extern bool acting;			/* the operator: all is excused */
extern bool over;			/* its time; nothing is strict any more */

struct sluice_device *served_device(void);
void count_purged(void *packet);

/* operator.c */
void operator(void *unused);		/* a thread; the next ends it */
void end_operator(void);
void open_file(unsigned int at);
void create_device(void);
void check_view(void);
u64 check_end(void);			/* all threads have ended; packets */

#endif
