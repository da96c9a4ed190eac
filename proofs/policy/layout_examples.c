// SPDX-License-Identifier: GPL-2.0-or-later
/* Part of examples.c: what layout.c learns of a driver, and whom it believes. */
#define sluice_layout_learn	learn
#define sluice_layout_slot	slot_of
#define sluice_layout_check	check
#define sluice_layout_ring	ring_of
#include "layout.c"
#undef sluice_layout_learn
#undef sluice_layout_slot
#undef sluice_layout_check
#undef sluice_layout_ring

static struct {
	char before[24];
	struct socket socket;
	char between[40];
	struct ptr_ring ring;
} driver_file, another_file;

static const struct file_operations driver_fops;
static struct file opened = { &driver_fops, &driver_file };
static struct file another = { &driver_fops, &another_file };
static struct file *open_result;
static void *socket_result, *ring_result, *unreadable;

struct file *filp_open(const char *path, int how, int mode)
{
	note("open %s;", path);
	EXPECT(creds_in_use, 1);	/* the kernel's: whoever loads may be confined */
	return open_result;
}

int filp_close(struct file *of, void *unused)
{
	note("close %d;", of == &opened);
	return 0;
}

struct socket *tun_get_socket(struct file *of) { return socket_result; }
struct ptr_ring *tun_get_tx_ring(struct file *of) { return ring_result; }

int read_carefully(void *to, const void *from, size_t size)
{
	if (from == unreadable || from < (void *)4096)
		return -14;
	memcpy(to, from, size);
	return 0;
}

static void fresh_driver(void)
{
	memset(&layout, 0, sizeof(layout));
	driver_file.socket.file = open_result = &opened;
	another_file.socket.file = &another;
	opened.f_op = another.f_op = &driver_fops;
	opened.private_data = &driver_file;
	socket_result = &driver_file.socket;
	ring_result = &driver_file.ring;
	unreadable = NULL;
	*text = '\0';
}

static void drivers_that_are_not_known(void)
{
	int i;

	fresh_driver();
	open_result = ERR_PTR(-2);
	EXPECT(learn(), -2);
	EXPECT_LOG("open /dev/net/tun;complain;");
	EXPECT(creds_held, 0);
	EXPECT(creds_in_use, 0);
	for (i = 0; i < 4; i++) {
		fresh_driver();
		if (i == 0)
			socket_result = ERR_PTR(-22);
		else if (i == 1)
			ring_result = ERR_PTR(-22);
		else
			driver_file.socket.file = i == 2 ? &opened + 1 : &opened - 1;
		EXPECT(learn(), -ENODEV);
		EXPECT_LOG("open /dev/net/tun;complain;close 1;");
		EXPECT(layout.fops == NULL && !layout.ring, true);
	}
}

static void expect_wrong(int line, void **slot)
{
	const char *why = check(slot);

	expect(line, "a reason", why && *why, true);
}

static void queues_that_are_not_laid_out_so(void)
{
	void *parts[] = { &driver_file.socket.file, &opened.private_data, &opened.f_op };
	void *slot = &driver_file;
	unsigned int i;

	fresh_driver();
	EXPECT(learn(), 0);
	EXPECT_LOG("open /dev/net/tun;close 1;");
	EXPECT(creds_held, 0);
	EXPECT(creds_in_use, 0);
	EXPECT(layout.socket, 24);
	EXPECT(ring_of(&driver_file) == &driver_file.ring, true);
	EXPECT(ring_of(NULL) == NULL, true);
	EXPECT(slot_of(&dev, 2) == (void **)(&dev + 1) + 2, true);
	EXPECT(check(&slot) == NULL, true);
	slot = &another_file;
	EXPECT(check(&slot) == NULL, true);
	another.f_op = &driver_fops - 1;
	expect_wrong(__LINE__, &slot);
	another.f_op = &driver_fops + 1;
	expect_wrong(__LINE__, &slot);
	another.f_op = &driver_fops;
	another.private_data = (char *)&another_file - 1;
	expect_wrong(__LINE__, &slot);
	another.private_data = (char *)&another_file + 1;
	expect_wrong(__LINE__, &slot);
	slot = NULL;
	EXPECT(check(&slot) && !*check(&slot), true);
	expect_wrong(__LINE__, NULL);
	slot = &driver_file;
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		unreadable = parts[i];
		expect_wrong(__LINE__, &slot);
	}
	unreadable = &slot;
	expect_wrong(__LINE__, &slot);
	EXPECT_LOG("");
}

static void layouts(void)
{
	drivers_that_are_not_known();
	queues_that_are_not_laid_out_so();
}
