// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sender: sends packets over the socket that is its standard input.
 *
 *   sender BYTES PACKETS
 *
 * Sends BYTES of zeros so often to where the socket is connected or bound. Prints
 * {"ns", "sent", "refused"}: the time it took, how many packets were sent, and how many
 * the kernel refused with ENOBUFS. Exit: 0 ok, 1 error, 2 usage.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define BYTES_MAX 1500

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	static const char payload[BYTES_MAX];
	long bytes = argc > 1 ? atol(argv[1]) : 0, sent = 0, refused = 0;
	long packets = argc > 2 ? atol(argv[2]) : 0;
	long long start;

	if (argc != 3 || bytes < 1 || bytes > BYTES_MAX)
		errx(2, "usage: sender BYTES PACKETS");
	start = now_ns();
	while (sent + refused < packets) {
		if (send(0, payload, bytes, 0) >= 0)
			sent++;
		else if (errno == ENOBUFS)
			refused++;
		else
			err(1, "standard input");
	}
	printf("{\"ns\": %lld, \"sent\": %ld, \"refused\": %ld}\n",
	       now_ns() - start, sent, refused);
}
