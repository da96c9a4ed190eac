// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: how hook.c uses ftrace, call by call. */

static unsigned long patched_at;	/* ftrace takes this address at any rate */
static int resize_filter_error, resize_error;
static int filter_error, register_error, unregister_error, direct_filter_error;
static int filter_fails;	/* so often: no memory */
static bool direct_stops = true;
static jmp_buf waits_for_ever;

void complain(const char *format, ...)
{
	note("complain;");
}

void ASSERT_RTNL(void) { }

/* Stand for the addresses of ftrace_pin_target() and netif_set_real_num_tx_queues(). */
#define PIN	1
#define RESIZE	2

static const char *whose(const struct ftrace_ops *ops)
{
	return ops == &transmit_hook ? "" : ops == &direct_call ? "direct " :
	       ops == &resize_hook ? "resize " : "unknown ";
}

int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove,
			 int reset)
{
	if (ip == (unsigned long)ftrace_pin_target)
		ip = PIN;
	if (ip == (unsigned long)netif_set_real_num_tx_queues)
		ip = RESIZE;
	note("%sfilter_ip %lu %d %d;", whose(ops), ip, remove, reset);
	if (ops == &transmit_hook && ip == patched_at)
		return 0;
	return ops == &direct_call ? direct_filter_error :
	       ops == &transmit_hook ? filter_error : resize_filter_error;
}

int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *name, int length,
		      int reset)
{
	note("%sfilter %d %d %d;", whose(ops), !!name, length, !!reset);
	if (!filter_fails)
		return 0;
	filter_fails--;
	return -ENOMEM;
}

int register_ftrace_function(struct ftrace_ops *ops)
{
	note("%sregister;", whose(ops));
	return ops == &transmit_hook ? register_error : resize_error;
}

int unregister_ftrace_function(struct ftrace_ops *ops)
{
	note("%sunregister;", whose(ops));
	return ops == &transmit_hook ? unregister_error : resize_error;
}

void sluice_direct_start(struct ftrace_ops *ops, unsigned long transmit)
{
	note("start %d %lu;", ops == &transmit_hook, transmit);
}

bool sluice_direct_stop(void)
{
	note("stop;");
	return direct_stops;
}

/* Does not return where the hook cannot be removed: it sleeps, twice here. */
void wait_for_ever(long ticks)
{
	static int times;

	note("sleep %d;", ticks == MAX_SCHEDULE_TIMEOUT);
	if (++times % 2 == 0)
		longjmp(waits_for_ever, 1);
}

static bool removed(void)
{
	if (setjmp(waits_for_ever))
		return false;
	sluice_hook_remove();
	return true;
}

static bool is_reason(const char *reason)
{
	return reason && *reason;
}

#define FILTERS "filter_ip 4711 0 0;filter_ip 4715 0 0;filter_ip 4719 0 0;"

static void hooks(void)
{
	dev.netdev_ops = &transmit_ops;
	transmit_ops.ndo_start_xmit = (void *)4711;
	EXPECT(removed(), true);
	EXPECT_LOG("");
	filter_error = -22;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG(FILTERS "complain;");
	filter_error = -12;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG("filter_ip 4711 0 0;complain;");
	filter_error = -28;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG("filter_ip 4711 0 0;complain;");
	filter_error = -22;
	/* arm64 before 5.18 with BTI */
	patched_at = 4719;
	register_error = -16;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG(FILTERS "register;filter 0 0 1;complain;");
	patched_at = 0;
	filter_error = 0;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG("filter_ip 4711 0 0;register;filter 0 0 1;complain;");
	EXPECT(removed(), true);
	EXPECT_LOG("");
	register_error = 0;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	EXPECT_LOG("filter_ip 4711 0 0;register;start 1 4711;");
	/* the next device; one of another driver */
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	transmit_ops.ndo_start_xmit = (void *)4712;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	transmit_ops.ndo_start_xmit = (void *)4710;
	EXPECT(is_reason(sluice_hook_place(&dev)), true);
	EXPECT_LOG("");
	/* ftrace has shut down: both parts are tried, and either keeps us here */
	unregister_error = -19;
	EXPECT(removed(), false);
	EXPECT_LOG("stop;unregister;complain;sleep 1;sleep 1;");
	unregister_error = 0;
	direct_stops = false;
	EXPECT(removed(), false);
	EXPECT_LOG("stop;unregister;filter 0 0 1;complain;sleep 1;sleep 1;");
	direct_stops = true;
	EXPECT(removed(), true);
	EXPECT_LOG("stop;unregister;filter 0 0 1;");
	EXPECT(removed(), true);
	EXPECT_LOG("");
	/* ftrace asks for memory to empty the filter */
	transmit_ops.ndo_start_xmit = (void *)4711;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	*text = '\0';
	filter_fails = 2;
	EXPECT(removed(), true);
	EXPECT_LOG("stop;unregister;filter 0 0 1;filter 0 0 1;filter 0 0 1;");
	/* where closed queues are reset unlocked: if it fails the device is served */
	sluice_locked_reset = false;
	resize_filter_error = -19;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	EXPECT_LOG("filter_ip 4711 0 0;register;resize filter_ip 2 0 0;start 1 4711;");
	EXPECT(removed(), true);
	EXPECT_LOG("stop;unregister;filter 0 0 1;");
	resize_filter_error = 0;
	resize_error = -16;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	EXPECT_LOG("filter_ip 4711 0 0;register;resize filter_ip 2 0 0;resize register;"
		   "resize filter 0 0 1;start 1 4711;");
	EXPECT(sluice_holds_closed, false);
	EXPECT(removed(), true);
	resize_error = 0;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	EXPECT(sluice_holds_closed, true);
	*text = '\0';
	EXPECT(removed(), true);
	EXPECT_LOG("stop;unregister;filter 0 0 1;resize unregister;resize filter 0 0 1;");
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	*text = '\0';
	resize_error = -19;
	EXPECT(removed(), false);
	EXPECT_LOG("stop;unregister;filter 0 0 1;resize unregister;complain;"
		   "sleep 1;sleep 1;");
	resize_error = 0;
	EXPECT(removed(), true);
	sluice_holds_closed = false;
	sluice_locked_reset = true;
	EXPECT(sluice_hook_place(&dev) == NULL, true);
	filter_fails = CLEAR_TRIES + 1;
	EXPECT(removed(), true);
	EXPECT(filter_fails, 1);
	filter_fails = 0;
	*text = '\0';
}
