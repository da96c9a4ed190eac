// SPDX-License-Identifier: GPL-2.0-or-later
/* layout.c: what it learns of a driver, and which queues it believes. */
#include "examples.h"
#include "layout.c"

static void drivers(void)
{
	static struct socket of_nobody;
	static const struct {
		long open_error;
		void *socket, *ring;	/* what the driver says */
		int err, complaints;
	} cases[] = {
		{ -2, NULL, NULL, -2, 1 },
		{ 0, ERR_PTR(-22), NULL, -ENODEV, 1 },
		{ 0, NULL, ERR_PTR(-22), -ENODEV, 1 },
		{ 0, &of_nobody, NULL, -ENODEV, 1 },
		{ 0, NULL, NULL, 0, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		complaints = 0;
		open_error = cases[i].open_error;
		socket_instead = cases[i].socket;
		ring_instead = cases[i].ring;
		EXPECT_OF(i, sluice_layout_learn(), cases[i].err);
		EXPECT_OF(i, complaints, cases[i].complaints);
		EXPECT_OF(i, creds_held || creds_in_use, 0);
		EXPECT_OF(i, layout.ring != 0, !cases[i].err);
	}
	EXPECT(layout.socket, offsetof(struct tun_file, socket));
	EXPECT(layout.ring, offsetof(struct tun_file, ring));
	EXPECT(layout.fops == &tun_fops, true);
}

static void queues(void)
{
	static struct tun_file file, another;
	static struct file open;
	static const struct {
		void *file, *private_data;
		const void *fops, *open;
		const char *says;	/* NULL: as assumed; "": cannot be checked */
	} cases[] = {
		{ &file, &file, &tun_fops, &open, NULL },
		{ NULL, &file, &tun_fops, &open, "" },
		{ &file, &another, &tun_fops, &open, "wrong" },
		{ &file, (char *)&file - 1, &tun_fops, &open, "wrong" },
		{ &file, (char *)&file + 1, &tun_fops, &open, "wrong" },
		{ &file, &file, &open, &open, "wrong" },
		{ &file, &file, NULL, &open, "wrong" },
		{ &file, &file, &tun_fops, NULL, "wrong" },	/* not readable */
		{ (void *)8, &file, &tun_fops, &open, "wrong" },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		void *slot = cases[i].file;
		const char *says;

		file.socket.file = (void *)cases[i].open;
		open.private_data = cases[i].private_data;
		open.f_op = cases[i].fops;
		says = sluice_layout_check(&slot);
		EXPECT_OF(i, !says, !cases[i].says);
		EXPECT_OF(i, says && *says, cases[i].says && *cases[i].says);
	}
	EXPECT(!!sluice_layout_check(NULL), true);
	EXPECT(sluice_layout_ring(&file) == &file.ring, true);
	EXPECT(sluice_layout_ring(NULL) == NULL, true);
	fresh();
	EXPECT(sluice_layout_slot(&tun->dev, 1) == &tun->slots[1], true);
}

void layout_examples(void)
{
	drivers();
	queues();
}
