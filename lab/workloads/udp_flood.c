// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * udp_flood: how much of a UDP flood arrives.
 *
 *   udp_flood send    ADDRESS PORT SECONDS [--nonblocking]
 *   udp_flood receive ADDRESS PORT
 *
 * send calls sendto() with 1400 bytes as fast as it can and prints one JSON
 * line {"sent", "errors", "seconds"}; with --nonblocking a full socket is an
 * error instead of a wait. receive prints {"state": "receiving"}, and on
 * SIGTERM or SIGINT {"received", "bytes", "seconds"}; seconds run from the
 * first packet to the last.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_BYTES 1400
#define RECEIVE_BYTES (16 << 20)

static volatile sig_atomic_t ended;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static void fail(int status, const char *object, const char *reason)
{
	fprintf(stderr, "udp_flood: %s: %s\n", object, reason);
	exit(status);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static struct sockaddr_in parse_address(const char *address, const char *port)
{
	struct sockaddr_in peer = { .sin_family = AF_INET,
				    .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, address, &peer.sin_addr) != 1)
		fail(2, address, "not an IPv4 address");
	return peer;
}

static void send_flood(struct sockaddr_in peer, double seconds, int flags)
{
	static const char payload[PAYLOAD_BYTES];
	unsigned long long sent = 0, errors = 0;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	double start = now(), stop = start + seconds;
	int on = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
		fail(1, "socket", strerror(errno));
	/* Else a packet refused before the qdisc would pass for sent. */
	setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	/* The clock costs a system call in some guests: ask it seldom. */
	while (!ended && ((sent + errors) % 16 || now() < stop)) {
		if (send(fd, payload, sizeof(payload), flags) > 0)
			sent++;
		else
			errors++;
	}
	printf("{\"sent\": %llu, \"errors\": %llu, \"seconds\": %.6f}\n", sent,
	       errors, now() - start);
}

static int open_receiver(struct sockaddr_in self)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = RECEIVE_BYTES;

	if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof(self)))
		fail(1, "socket", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		fail(1, "SO_RCVBUFFORCE", strerror(errno));
	return fd;
}

static void receive_flood(struct sockaddr_in self)
{
	unsigned long long received = 0, bytes = 0;
	int fd = open_receiver(self);
	double first = 0, last = 0;
	char payload[2048];
	ssize_t length;

	puts("{\"state\": \"receiving\"}");
	fflush(stdout);
	while (!ended) {
		length = recv(fd, payload, sizeof(payload), 0);
		if (length < 0)
			continue;
		last = now();
		if (!received++)
			first = last;
		bytes += length;
	}
	printf("{\"received\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n",
	       received, bytes, last - first);
}

int main(int argc, char **argv)
{
	/* No SA_RESTART: send() and recv() return when the time is up. */
	struct sigaction action = { .sa_handler = end };
	bool is_send = argc > 4 && !strcmp(argv[1], "send");
	bool is_nonblocking = argc > 5 && !strcmp(argv[5], "--nonblocking");

	/* A parent that was killed takes its flood along. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (is_send)
		send_flood(parse_address(argv[2], argv[3]), atof(argv[4]),
			   is_nonblocking ? MSG_DONTWAIT : 0);
	else if (argc == 4 && !strcmp(argv[1], "receive"))
		receive_flood(parse_address(argv[2], argv[3]));
	else
		fail(2, "usage",
		     "udp_flood send ADDRESS PORT SECONDS [--nonblocking] | "
		     "receive ADDRESS PORT");
	return 0;
}
