// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: what device.c does with each event of a device. */

static struct rtnl_link_ops tun_ops = { .kind = "tun" }, other_ops = { .kind = "veth" };
static struct sluice_rule the_rule;
static bool has_rule, no_memory;
static const char *shown;	/* by the driver's file tun_flags */
static ssize_t show_error;

static struct attribute owner_file = { "owner" }, flags_file = { "tun_flags" };

static ssize_t show_file(struct kobject *of, struct attribute *attr, char *to)
{
	strcpy(to, attr == &flags_file ? shown : "1000\n");
	return show_error ?: (ssize_t)strlen(shown);
}

static const struct sysfs_ops file_ops = { show_file };
static const struct kobj_type device_type = { &file_ops };
static struct attribute *files[] = { &owner_file, &flags_file, NULL };
static struct attribute_group group = { files };
static struct net_device tun = { .tx = txqs, .netdev_ops = &transmit_ops };

const struct sluice_rule *sluice_rules_find(const struct net_device *of)
{
	return has_rule ? &the_rule : NULL;
}

void sluice_rules_free(void) { note("rules;"); }
void sluice_events_watch(void) { note("events;"); }
void rtnl_lock(void) { note("rtnl %d;", leaving); }
void rtnl_unlock(void) { note("unlock %d;", leaving); }

void *allocate_for_module(size_t size)
{
	return no_memory ? NULL : calloc(1, size);
}

void free_after_grace_period(void *memory)
{
	if (sluice_device_find(&tun))
		fail("a device is freed that senders still find");
	note("free;");
}

int register_netdevice_notifier(struct notifier_block *block)
{
	note("notifier %d;", block->notifier_call == device_changed);
	return -12;
}

int unregister_netdevice_notifier(struct notifier_block *block)
{
	note("no notifier;");
	return 0;
}

/* An event, and what is known of the device then: its state, -1 for nothing. */
static int state_after(unsigned long event)
{
	struct sluice_device *known;

	EXPECT(device_changed(NULL, event, &tun), NOTIFY_DONE);
	known = sluice_device_find(&tun);
	if (!known)
		return -1;
	EXPECT(known->queue[0].open, known->state == SLUICE_DEVICE_SERVED);
	EXPECT(known->queue[1].open, known->state == SLUICE_DEVICE_SERVED);
	return known->state;
}

static void fresh_tun(void)
{
	fresh();
	*text = '\0';
	sluice_devices[0].first = NULL;
	tun.num_tx_queues = tun.real_num_tx_queues = 2;
	tun.running = true;
	tun.reg_state = NETREG_REGISTERED;
	tun.rtnl_link_ops = &tun_ops;
	tun.sysfs_groups[0] = &group;
	tun.dev.kobj.ktype = &device_type;
	shown = "0x1003\n";
	show_error = 0;
	has_rule = no_memory = leaving = false;
	hooked = (unsigned long)transmit_ops.ndo_start_xmit;
}

static void flags_of_devices(void)
{
	static struct attribute *none[] = { NULL };

	fresh_tun();
	EXPECT(read_tun_flags(&tun), 0x1003);
	shown = "4099";
	EXPECT(read_tun_flags(&tun), 4099);
	show_error = -22;
	EXPECT(read_tun_flags(&tun), -1);
	shown = "";
	show_error = 0;
	EXPECT(read_tun_flags(&tun), -1);
	shown = "1";
	EXPECT(read_tun_flags(&tun), 1);
	no_memory = true;
	EXPECT(read_tun_flags(&tun), -1);
	no_memory = false;
	group.attrs = none;
	EXPECT(read_tun_flags(&tun), -1);
	group.attrs = NULL;
	EXPECT(read_tun_flags(&tun), -1);
	group.attrs = files;
	tun.sysfs_groups[0] = NULL;
	EXPECT(read_tun_flags(&tun), -1);
}

static void states_of_devices(void)
{
	struct sluice_device *known;

	fresh_tun();
	layout_wrong = "";	/* nobody has a file open */
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_UNREAD);
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_UNREAD);
	EXPECT_LOG("cancel;cancel;cancel;cancel;");
	wrong_queue = 0;	/* the second queue has a reader */
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_SERVED);
	sluice_device_find(&tun)->verified = false;
	wrong_queue = 1;	/* the first one has */
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_SERVED);
	wrong_queue = -1;
	known = sluice_device_find(&tun);
	EXPECT(known->queues, 2);
	EXPECT(known->reason == NULL, true);
	layout_wrong = "wrong";	/* it is not verified again */
	EXPECT(state_after(NETDEV_CHANGE_TX_QUEUE_LEN), SLUICE_DEVICE_SERVED);
	EXPECT(state_after(NETDEV_GOING_DOWN), SLUICE_DEVICE_DOWN);
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_SERVED);
	tun.running = false;
	EXPECT(state_after(NETDEV_CHANGE_TX_QUEUE_LEN), SLUICE_DEVICE_DOWN);
	shown = "";	/* whether the driver's own backpressure is on is not known */
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_REFUSED);
	shown = "0x1083";
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_UPSTREAM);
	EXPECT(known->reason == NULL, true);
	known->by_hand = (struct sluice_settings){ .given = SLUICE_SETTING_ON };
	EXPECT(state_after(NETDEV_CHANGENAME), SLUICE_DEVICE_UPSTREAM);
	shown = "0x1003";
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_OFF);
	tun.running = true;
	EXPECT(state_after(NETDEV_CHANGENAME), SLUICE_DEVICE_OFF);
	known->by_hand.on = true;
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_OFF);
	EXPECT(state_after(NETDEV_CHANGENAME), SLUICE_DEVICE_SERVED);
	known->by_hand.on = false;
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_SERVED);
	EXPECT(state_after(99), SLUICE_DEVICE_SERVED);
}

static void devices_that_vanish(void)
{
	struct sluice_device *known;

	fresh_tun();
	state_after(NETDEV_REGISTER);
	known = sluice_device_find(&tun);
	*text = '\0';
	EXPECT(state_after(NETDEV_UNREGISTER), SLUICE_DEVICE_SERVED);
	EXPECT_LOG("");
	tun.reg_state = NETREG_UNREGISTERING;
	EXPECT(state_after(NETDEV_UNREGISTER), -1);
	EXPECT_LOG("cancel;cancel;free;");
	EXPECT(known->queue[0].open, false);
	EXPECT(state_after(NETDEV_UNREGISTER), -1);
	tun.reg_state = NETREG_REGISTERED;
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_SERVED);
	tun.reg_state = NETREG_UNINITIALIZED;	/* its registration fails */
	EXPECT(state_after(NETDEV_UNREGISTER), -1);
	*text = '\0';
	EXPECT(state_after(NETDEV_GOING_DOWN), -1);
	EXPECT(state_after(NETDEV_CHANGENAME), -1);
	EXPECT(state_after(NETDEV_UP), -1);
	EXPECT_LOG("");
}

static void devices_that_are_refused(void)
{
	fresh_tun();
	layout_wrong = "";
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_UNREAD);
	EXPECT_LOG("cancel;cancel;");
	layout_wrong = "wrong";
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_REFUSED);
	EXPECT_LOG("complain;cancel;cancel;");
	EXPECT(strcmp(sluice_device_find(&tun)->reason, "wrong"), 0);
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_REFUSED);
	EXPECT_LOG("cancel;cancel;");
	layout_wrong = NULL;
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_SERVED);
	EXPECT(sluice_device_find(&tun)->reason == NULL, true);

	fresh_tun();	/* the hook is elsewhere */
	hooked = 1;
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_REFUSED);
	EXPECT(sluice_device_find(&tun)->verified, false);

	fresh_tun();	/* no memory, until there is some */
	no_memory = true;
	EXPECT(state_after(NETDEV_REGISTER), -1);
	no_memory = false;
	tun.reg_state = NETREG_UNINITIALIZED;
	EXPECT(state_after(NETDEV_CHANGE), -1);
	tun.reg_state = NETREG_REGISTERED;
	EXPECT(state_after(NETDEV_CHANGE), SLUICE_DEVICE_SERVED);

	fresh_tun();	/* none of ours */
	tun.rtnl_link_ops = &other_ops;
	EXPECT(state_after(NETDEV_REGISTER), -1);
	tun.rtnl_link_ops = NULL;
	EXPECT(state_after(NETDEV_REGISTER), -1);
	EXPECT_LOG("");
}

static void expect_settings(int line, int on, u32 stall_ms, u32 low_percent, u32 limit,
			    u32 target_us)
{
	const struct sluice_device *known = sluice_device_find(&tun);

	expect(line, "on", known->on, on);
	expect(line, "stall_ms", known->flow.stall_ms, stall_ms);
	expect(line, "low_percent", known->flow.low_percent, low_percent);
	expect(line, "limit", known->flow.user_limit, limit);
	expect(line, "target_us", known->flow.target_us, target_us);
}

#define EXPECT_SETTINGS(...)	expect_settings(__LINE__, __VA_ARGS__)

static void settings_of_devices(void)
{
	static const u32 all[] = {
		SLUICE_SETTING_ON, SLUICE_SETTING_STALL_MS, SLUICE_SETTING_LOW_PERCENT,
		SLUICE_SETTING_LIMIT, SLUICE_SETTING_TARGET_US,
	};
	unsigned int i;

	fresh_tun();
	state_after(NETDEV_REGISTER);
	EXPECT_SETTINGS(1, 250, 50, 0, 2000);
	the_rule.settings.on = false;
	the_rule.settings.stall_ms = 11;
	the_rule.settings.low_percent = 12;
	the_rule.settings.limit = 13;
	the_rule.settings.target_us = 14;
	has_rule = true;
	*text = '\0';
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		the_rule.settings.given = all[i];
		state_after(NETDEV_CHANGENAME);
		EXPECT_SETTINGS(i != 0, i == 1 ? 11 : 250, i == 2 ? 12 : 50,
				i == 3 ? 13 : 0, i == 4 ? 14 : 2000);
	}
	EXPECT(sluice_device_find(&tun)->rule == &the_rule, true);
	EXPECT_LOG("cancel;cancel;");	/* off once, and no qdisc is wanted */
	strcpy(the_rule.qdisc, "fq");
	sluice_device_find(&tun)->by_hand.given = SLUICE_SETTING_TARGET_US;
	sluice_device_find(&tun)->by_hand.target_us = 99000;
	state_after(NETDEV_CHANGENAME);
	EXPECT_SETTINGS(1, 250, 50, 0, 99000);
	EXPECT(sluice_device_find(&tun)->queue[0].flow.depth, 98);
	EXPECT_LOG("events;");
	has_rule = false;	/* and in another namespace nothing is set by hand */
	sluice_default_stall_ms = 0;
	sluice_default_low_percent = sluice_default_target_us = UINT_MAX;
	sluice_default_on = false;
	state_after(NETDEV_REGISTER);
	EXPECT_SETTINGS(0, 1, SLUICE_LOW_PERCENT_MAX, 0, SLUICE_TARGET_US_MAX);
	EXPECT(sluice_device_find(&tun)->rule == NULL, true);
	sluice_default_stall_ms = UINT_MAX;
	state_after(NETDEV_REGISTER);
	EXPECT_SETTINGS(0, SLUICE_STALL_MS_MAX, SLUICE_LOW_PERCENT_MAX, 0,
			SLUICE_TARGET_US_MAX);
	sluice_default_stall_ms = 250;
	sluice_default_on = true;
}

static void unload_of_devices(void)
{
	fresh_tun();
	EXPECT(sluice_devices_start(), -12);
	EXPECT_LOG("notifier 1;");
	state_after(NETDEV_REGISTER);
	*text = '\0';
	sluice_devices_stop();
	EXPECT_LOG("rtnl 0;unlock 1;no notifier;rules;stop;unregister;filter 0 0 1;");
	EXPECT(state_after(NETDEV_GOING_DOWN), SLUICE_DEVICE_DOWN);
	EXPECT(state_after(NETDEV_UP), SLUICE_DEVICE_DOWN);
	sluice_default_stall_ms = 3;
	EXPECT(state_after(NETDEV_CHANGENAME), SLUICE_DEVICE_DOWN);
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_DOWN);
	EXPECT(sluice_device_find(&tun)->flow.stall_ms, 250);
	*text = '\0';
	EXPECT(state_after(NETDEV_UNREGISTER), -1);
	EXPECT_LOG("cancel;cancel;free;");
	EXPECT(state_after(NETDEV_REGISTER), -1);
	EXPECT(state_after(NETDEV_CHANGE), -1);
	EXPECT_LOG("");
}

/* Where the core resets their qdiscs unlocked they are stopped meanwhile. */
static void queues_that_close(void)
{
	struct sluice_queue *second;

	fresh_tun();
	sluice_device_resize(&tun, 1);	/* it is not known */
	EXPECT(state_after(NETDEV_REGISTER), SLUICE_DEVICE_SERVED);
	second = &sluice_device_find(&tun)->queue[1];
	sluice_device_resize(&tun, 0);	/* refused, as the next */
	sluice_device_resize(&tun, 3);
	EXPECT_LOG("");
	EXPECT(txqs[1].state, 0);

	sluice_device_resize(&tun, 1);
	EXPECT(txqs[0].state, 0);
	EXPECT(txqs[1].state, XOFF);
	sluice_device_resize(&tun, 1);
	EXPECT_LOG("");
	sluice_device_resize(&tun, 2);
	EXPECT_LOG("wake;");
	sluice_device_resize(&tun, 2);
	EXPECT_LOG("");

	/* our stop ends, the bit stays; also where somebody else cleared it */
	raw_spin_lock_irq(&second->lock);
	__queue_stop(second, &(struct sluice_flow_ring){ 100, 60, 60, 60, 92 });
	raw_spin_unlock_irq(&second->lock);
	txqs[1].state = 0;
	*text = '\0';
	sluice_device_resize(&tun, 1);
	EXPECT_LOG("queue_wake 0 0;");
	EXPECT(txqs[1].state, XOFF);
	EXPECT(second->stopped, false);
	EXPECT(state_after(NETDEV_GOING_DOWN), SLUICE_DEVICE_DOWN);
	EXPECT_LOG("cancel;wake;cancel;");

	txqs[1].state = XOFF;	/* somebody else's */
	sluice_device_resize(&tun, 1);
	sluice_device_resize(&tun, 2);
	EXPECT_LOG("");
	EXPECT(txqs[1].state, XOFF);
}

static void devices(void)
{
	queues_that_close();
	flags_of_devices();
	states_of_devices();
	devices_that_vanish();
	devices_that_are_refused();
	settings_of_devices();
	unload_of_devices();
}
