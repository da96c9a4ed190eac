// SPDX-License-Identifier: GPL-2.0-or-later
/* device.c: what becomes of a device with each event. */
#include "examples.h"
#include "device.c"

/* Nothing is known of it, and it is up, with a reader on each queue. */
static void fresh_unknown(void)
{
	fresh();
	sluice_devices[0].first = NULL;
	leaving = false;
}

/* What is known of the device after an event: its state, -1 for nothing. */
static int state_after(unsigned long event)
{
	struct sluice_device *known;

	UNDER_RTNL(device_changed(NULL, event, &tun->dev));
	known = sluice_device_find(&tun->dev);
	for (unsigned int id = 0; known && id < QUEUES; id++)
		EXPECT(known->queue[id].open, known->state == SLUICE_DEVICE_SERVED);
	return known ? (int)known->state : -1;
}

static struct sluice_device *known(void) { return sluice_device_find(&tun->dev); }
static void nobody_reads(void) { tun->slots[0] = tun->slots[1] = NULL; }
static void second_reads(void) { tun->slots[1] = driver_open(1, SIZE, 4); }
static void first_reads(void)
{
	nobody_reads();
	tun->slots[0] = driver_open(0, SIZE, 4);
	known()->verified = false;
}
static void is_laid_out_wrong(void)
{
	second_reads();
	((struct tun_file *)tun->slots[1])->open->private_data = NULL;
}
static void goes_down(void) { tun->dev.running = false; }
static void comes_up(void) { tun->dev.running = true; }
static void has_unreadable_flags(void) { flags_shown = ""; }
static void has_flag(void) { flags_shown = "0x1083"; }
static void has_no_flag(void) { flags_shown = "0x1003"; }
static void is_switched_off(void)
{
	known()->by_hand = (struct sluice_settings){ .given = SLUICE_SETTING_ON };
}
static void is_switched_on(void) { known()->by_hand.on = true; }
static void is_removed(void) { tun->dev.reg_state = NETREG_UNREGISTERING; }
static void is_not_yet(void) { tun->dev.reg_state = NETREG_UNINITIALIZED; }
static void is_there(void) { tun->dev.reg_state = NETREG_REGISTERED; }
static void lacks_memory(void) { refused_allocation = 1; }
static void leaves(void) { leaving = true; }
static void is_hooked_elsewhere(void)
{
	fresh_unknown();
	tracer.register_error = -16;
}
static void is_of_another_kind(void)
{
	static struct rtnl_link_ops veth = { "veth" };

	fresh_unknown();
	tun->dev.rtnl_link_ops = &veth;
}
static void is_of_no_kind(void) { tun->dev.rtnl_link_ops = NULL; }

static void states(void)
{
	static const struct {
		void (*before)(void);
		unsigned long event;
		int state;
	} cases[] = {	/* one after the other */
		{ nobody_reads, NETDEV_REGISTER, SLUICE_DEVICE_UNREAD },
		{ NULL, NETDEV_UP, SLUICE_DEVICE_UNREAD },
		{ is_laid_out_wrong, NETDEV_CHANGE, SLUICE_DEVICE_REFUSED },
		{ NULL, NETDEV_CHANGE, SLUICE_DEVICE_REFUSED },
		{ second_reads, NETDEV_CHANGE, SLUICE_DEVICE_SERVED },
		{ first_reads, NETDEV_CHANGE, SLUICE_DEVICE_SERVED },
		{ is_laid_out_wrong, NETDEV_CHANGE_TX_QUEUE_LEN, SLUICE_DEVICE_SERVED },
		{ NULL, NETDEV_GOING_DOWN, SLUICE_DEVICE_DOWN },
		{ NULL, NETDEV_UP, SLUICE_DEVICE_SERVED },
		{ goes_down, NETDEV_CHANGE_TX_QUEUE_LEN, SLUICE_DEVICE_DOWN },
		{ has_unreadable_flags, NETDEV_CHANGE, SLUICE_DEVICE_REFUSED },
		{ has_flag, NETDEV_CHANGE, SLUICE_DEVICE_UPSTREAM },
		{ is_switched_off, NETDEV_CHANGENAME, SLUICE_DEVICE_UPSTREAM },
		{ has_no_flag, NETDEV_UP, SLUICE_DEVICE_OFF },
		{ comes_up, NETDEV_CHANGENAME, SLUICE_DEVICE_OFF },
		{ is_switched_on, NETDEV_UP, SLUICE_DEVICE_OFF },
		{ NULL, NETDEV_CHANGENAME, SLUICE_DEVICE_SERVED },
		{ NULL, 99, SLUICE_DEVICE_SERVED },
		/* moves to another namespace, where nothing was set by hand */
		{ is_switched_off, NETDEV_UNREGISTER, SLUICE_DEVICE_SERVED },
		{ NULL, NETDEV_REGISTER, SLUICE_DEVICE_SERVED },
		/* goes; comes; its registration fails */
		{ is_removed, NETDEV_UNREGISTER, -1 },
		{ NULL, NETDEV_UNREGISTER, -1 },
		{ is_there, NETDEV_UP, SLUICE_DEVICE_SERVED },
		{ is_not_yet, NETDEV_UNREGISTER, -1 },
		{ NULL, NETDEV_GOING_DOWN, -1 },
		{ NULL, NETDEV_CHANGENAME, -1 },
		{ NULL, NETDEV_UP, -1 },
		/* no memory, until there is some */
		{ lacks_memory, NETDEV_REGISTER, -1 },
		{ NULL, NETDEV_CHANGE, -1 },
		{ is_there, NETDEV_CHANGE, SLUICE_DEVICE_SERVED },
		{ is_hooked_elsewhere, NETDEV_REGISTER, SLUICE_DEVICE_REFUSED },
		/* none of ours */
		{ is_of_another_kind, NETDEV_REGISTER, -1 },
		{ is_of_no_kind, NETDEV_REGISTER, -1 },
		/* the module is unloaded */
		{ fresh_unknown, NETDEV_REGISTER, SLUICE_DEVICE_SERVED },
		{ leaves, NETDEV_GOING_DOWN, SLUICE_DEVICE_DOWN },
		{ NULL, NETDEV_UP, SLUICE_DEVICE_DOWN },
		{ NULL, NETDEV_CHANGENAME, SLUICE_DEVICE_DOWN },
		{ NULL, NETDEV_REGISTER, SLUICE_DEVICE_DOWN },
		{ NULL, NETDEV_UNREGISTER, -1 },
		{ NULL, NETDEV_REGISTER, -1 },
		{ NULL, NETDEV_CHANGE, -1 },
	};

	fresh_unknown();
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].before)
			cases[i].before();
		EXPECT_OF(i, state_after(cases[i].event), cases[i].state);
		if (known() && cases[i].before == is_laid_out_wrong)
			EXPECT_OF(i, complaints, 1);	/* each refusal is told once */
		if (known())
			EXPECT_OF(i, !!known()->reason,
				  cases[i].state == SLUICE_DEVICE_REFUSED);
	}
}

/* By hand overrides the rule, the rule the parameters; those are held to their ranges. */
static void settings(void)
{
	static const struct {
		u32 rule, hand;		/* which are given: 11 to 14, 21 to 24 */
		uint stall_ms, low_percent, target_us;	/* parameters */
		u32 is[4];		/* stall_ms, low_percent, limit, target_us */
	} cases[] = {
		{ 0, 0, 250, 50, 2000, { 250, 50, 0, 2000 } },
		{ ~SLUICE_SETTING_ON, 0, 250, 50, 2000, { 11, 12, 13, 14 } },
		{ ~0, SLUICE_SETTING_LIMIT | SLUICE_SETTING_ON, 250, 50, 2000,
		  { 11, 12, 23, 14 } },
		{ 0, 0, 0, UINT_MAX, UINT_MAX,
		  { 1, SLUICE_LOW_PERCENT_MAX, 0, SLUICE_TARGET_US_MAX } },
		{ 0, 0, UINT_MAX, 50, 2000, { SLUICE_STALL_MS_MAX, 50, 0, 2000 } },
	};

	fresh_unknown();
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		state_after(NETDEV_REGISTER);
		has_rule = cases[i].rule;
		rule.settings = (struct sluice_settings){ cases[i].rule, false, 11, 12, 13, 14 };
		known()->by_hand =
			(struct sluice_settings){ cases[i].hand, true, 21, 22, 23, 24 };
		sluice_default_stall_ms = cases[i].stall_ms;
		sluice_default_low_percent = cases[i].low_percent;
		sluice_default_target_us = cases[i].target_us;
		state_after(NETDEV_CHANGENAME);
		EXPECT_OF(i, known()->on, true);
		EXPECT_OF(i, !memcmp(&known()->flow, &(struct sluice_flow_settings){
			cases[i].is[0], cases[i].is[1], cases[i].is[2], cases[i].is[3]
		}, sizeof(known()->flow)), true);
	}
	sluice_default_stall_ms = 250;
}

static void resizes(void)
{
	static const struct { unsigned int count; bool first, second; } cases[] = {
		{ 0, false, false }, { 3, false, false },	/* refused */
		{ 1, false, true }, { 1, false, true }, { 2, false, false },
	};

	fresh_unknown();
	sluice_device_resize(&tun->dev, 1);	/* it is not known */
	EXPECT(is_stopped(1), false);
	state_after(NETDEV_REGISTER);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		sluice_device_resize(&tun->dev, cases[i].count);
		EXPECT_OF(i, is_stopped(0), cases[i].first);
		EXPECT_OF(i, is_stopped(1), cases[i].second);
	}
}

void device_examples(void)
{
	states();
	settings();
	resizes();
}
