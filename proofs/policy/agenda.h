/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers and work that wait for their time: for steps.c.
 * The caller keeps others away.
 */
#ifndef POLICY_AGENDA_H
#define POLICY_AGENDA_H

static struct hrtimer *timers;	/* known ones, armed or not */
static struct work_struct *works;

static void link_timer(struct hrtimer *timer)
{
	if (timer->known)
		return;
	timer->next = timers;
	timers = timer;
	timer->known = true;
}

/* Its memory may be freed then. */
static void unlink_timer(struct hrtimer *timer)
{
	struct hrtimer **at = &timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->known = false;
}

/* Returns false if it waits already. */
static bool link_work(struct work_struct *work, u64 due)
{
	if (work->queued)
		return false;
	work->queued = true;
	work->due = due;
	work->next = works;
	works = work;
	return true;
}

static void unlink_work(struct work_struct *work)
{
	struct work_struct **at = &works;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	work->queued = false;
}

/* Memory that is freed after a grace period. */
struct callback {
	struct work_struct work;
	void *memory;
};

static void free_now(struct work_struct *work)
{
	struct callback *callback = container_of(work, struct callback, work);

	synchronize_rcu();
	poison_free(callback->memory);
	free(callback);
}

void free_after_grace_period(void *object)
{
	struct callback *callback = calloc(1, sizeof(*callback));

	callback->work.func = free_now;
	callback->memory = object;
	start_work(&callback->work, 0);
}

/* Returns whether the work is still there, and may be queued again. */
static bool run_work(struct work_struct *work)
{
	bool stays = work->func != free_now;

	work->func(work);
	return stays;
}

#endif
