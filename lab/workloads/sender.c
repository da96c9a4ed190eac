// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sender: sends packets over the socket that is its standard input.
 *
 *   sender BYTES PACKETS SECONDS [ADDRESS...]
 *
 * Sends BYTES of zeros to the discard port of each IPv4 ADDRESS in turn, or to where
 * the socket is connected or bound; PACKETS times, or for SECONDS, if that is not 0.
 * Prints {"ns", "sent", "refused", "hung"}: the time it took, how many packets each
 * address got, how many the kernel refused with ENOBUFS, and whether a call was stuck
 * when the time was over. Exit: 0 ok, 1 error, 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX 1500
#define PEERS_MAX 8
#define GRACE_US 500000		/* a call that is only slow may end */

static struct sockaddr_in peers[PEERS_MAX];
static int count;
static unsigned long long sent[PEERS_MAX], refused;
static struct timespec start;
static volatile sig_atomic_t over;

static void report(bool hung)
{
	struct timespec now;
	int i;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("{\"ns\": %lld, \"refused\": %llu, \"hung\": %s, \"sent\": [%llu",
	       (now.tv_sec - start.tv_sec) * 1000000000LL + now.tv_nsec -
	       start.tv_nsec, refused, hung ? "true" : "false", sent[0]);
	for (i = 1; i < count; i++)
		printf(", %llu", sent[i]);
	printf("]}\n");
	fflush(stdout);
	_exit(0);
}

/* The timer: the time is over; and then: the loop has not seen that. */
static void end(int number)
{
	(void)number;
	if (over)
		report(true);
	over = 1;
}

static void send_one(size_t bytes, int to)
{
	static const char payload[BYTES_MAX];
	bool named = peers[to].sin_family;

	if (sendto(0, payload, bytes, 0,
		   named ? (struct sockaddr *)&peers[to] : NULL,
		   named ? sizeof(peers[to]) : 0) >= 0)
		sent[to]++;
	else if (errno == ENOBUFS)
		refused++;
	else
		err(1, "standard input");
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = end, .sa_flags = SA_RESTART };
	struct itimerval timer = { .it_interval.tv_usec = GRACE_US };
	long i, packets, bytes = argc > 1 ? atol(argv[1]) : 0;
	int to;

	if (argc < 4 || argc > 4 + PEERS_MAX || bytes < 1 || bytes > BYTES_MAX)
		errx(2, "usage: sender BYTES PACKETS SECONDS [ADDRESS...]");
	packets = atol(argv[2]);
	timer.it_value.tv_sec = atol(argv[3]);
	for (to = 0; to < argc - 4; to++) {
		peers[to].sin_family = AF_INET;
		peers[to].sin_port = htons(9);
		if (inet_pton(AF_INET, argv[4 + to], &peers[to].sin_addr) != 1)
			errx(2, "%s: not an IPv4 address", argv[4 + to]);
	}
	count = to ? to : 1;
	sigaction(SIGALRM, &action, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (i = 0; !over && (!packets || i < packets); i++)
		for (to = 0; to < count; to++)
			send_one(bytes, to);
	signal(SIGALRM, SIG_IGN);
	report(false);
}
