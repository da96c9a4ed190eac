// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * udp_burst: measures what it costs to send packets from a socket.
 *
 *   udp_burst ADDRESS PACKETS
 *
 * Sends PACKETS small UDP packets to the discard port of ADDRESS, and prints how
 * many nanoseconds that took. The socket's buffer holds all of them. Exit: 0 ok,
 * 1 error, 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_BYTES 18	/* the smallest Ethernet frame, 60 bytes */

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
	};
	char payload[PAYLOAD_BYTES] = { 0 };
	int out, room = 1 << 28;
	long i, packets;
	long long start;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 ||
	    (packets = atol(argv[2])) < 1) {
		fprintf(stderr, "usage: udp_burst ADDRESS PACKETS\n");
		return 2;
	}
	out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (out < 0 ||
	    setsockopt(out, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
	    connect(out, (struct sockaddr *)&to, sizeof(to))) {
		perror("udp_burst: socket");
		return 1;
	}
	start = now_ns();
	for (i = 0; i < packets; i++) {
		if (send(out, payload, sizeof(payload), 0) < 0) {
			perror("udp_burst: send");
			return 1;
		}
	}
	printf("%lld\n", now_ns() - start);
	return 0;
}
