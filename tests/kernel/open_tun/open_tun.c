// SPDX-License-Identifier: GPL-2.0-only
/*
 * open_tun: opens /dev/net/tun with the credentials of the process that loads it, which
 * a security policy may deny. sluice opens it with the kernel's.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>

static int __init open_tun_start(void)
{
	struct file *file = filp_open("/dev/net/tun", O_RDWR, 0);

	if (IS_ERR(file)) {
		pr_info("open_tun: refused (%ld)\n", PTR_ERR(file));
		return 0;
	}
	pr_info("open_tun: opened\n");
	filp_close(file, NULL);
	return 0;
}

static void __exit open_tun_end(void)
{
}

module_init(open_tun_start);
module_exit(open_tun_end);
MODULE_DESCRIPTION("opens the tun driver as its loader, for tests");
MODULE_LICENSE("GPL");
