// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * packet_bypass: a sender that bypasses the qdisc.
 *
 *   packet_bypass DEVICE PACKETS [THREADS [PER_SECOND]]
 *
 * Each thread sends PACKETS frames of 60 bytes through an AF_PACKET socket
 * with PACKET_QDISC_BYPASS, as fast as it can or PER_SECOND. The kernel returns
 * ENOBUFS when the driver dropped the packet, and also when the queue was stopped
 * and the driver got none; the device's tx_dropped distinguishes them. Prints one
 * JSON line {"sent", "enobufs", "errors", "seconds"}.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64
#define FRAME_BYTES 60

#ifndef PACKET_QDISC_BYPASS
#define PACKET_QDISC_BYPASS 20
#endif

struct sender {
	pthread_t thread;
	int fd;
	long packets, per_second;	/* 0: as fast as it can */
	unsigned long long sent, enobufs, errors;
};

static void fail(int status, const char *object, const char *reason)
{
	fprintf(stderr, "packet_bypass: %s: %s\n", object, reason);
	exit(status);
}

static int open_socket(const char *device)
{
	struct sockaddr_ll self = { .sll_family = AF_PACKET,
				    .sll_ifindex = if_nametoindex(device) };
	int fd, on = 1;

	if (!self.sll_ifindex)
		fail(1, device, strerror(errno));
	/* Protocol 0: this socket sends only. */
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (fd < 0)
		fail(1, "AF_PACKET", strerror(errno));
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)))
		fail(1, "PACKET_QDISC_BYPASS", strerror(errno));
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		fail(1, device, strerror(errno));
	return fd;
}

/* When a sender of that many packets per second sends its next packet. */
static struct timespec due(struct timespec start, long sent, long per_second)
{
	long long ns = start.tv_nsec + sent * 1000000000LL / per_second;

	return (struct timespec){ .tv_sec = start.tv_sec + ns / 1000000000,
				  .tv_nsec = ns % 1000000000 };
}

static void *send_packets(void *argument)
{
	/* Broadcast, from a local address, protocol "local experimental". */
	unsigned char frame[FRAME_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0x02, 0, 0, 0, 0, 1, 0x88, 0xb5 };
	struct sender *sender = argument;
	struct timespec start, next;
	long i;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < sender->packets; i++) {
		if (sender->per_second) {
			next = due(start, i, sender->per_second);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next,
					NULL);
		}
		if (send(sender->fd, frame, sizeof(frame), 0) > 0)
			sender->sent++;
		else if (errno == ENOBUFS)
			sender->enobufs++;
		else
			sender->errors++;
	}
	return NULL;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static struct sender senders[MAX_THREADS];
	struct sender all = { 0 };
	int threads, i;
	double start;

	if (argc < 3 || argc > 5)
		fail(2, "usage",
		     "packet_bypass DEVICE PACKETS [THREADS [PER_SECOND]]");
	threads = argc > 3 ? atoi(argv[3]) : 1;
	if (threads < 1 || threads > MAX_THREADS)
		fail(2, "THREADS", "use 1 to 64");
	start = now();
	for (i = 0; i < threads; i++) {
		senders[i].fd = open_socket(argv[1]);
		senders[i].packets = atol(argv[2]);
		senders[i].per_second = argc > 4 ? atol(argv[4]) : 0;
		if (pthread_create(&senders[i].thread, NULL, send_packets,
				   &senders[i]))
			fail(1, "pthread_create", "cannot start a thread");
	}
	for (i = 0; i < threads; i++) {
		pthread_join(senders[i].thread, NULL);
		all.sent += senders[i].sent;
		all.enobufs += senders[i].enobufs;
		all.errors += senders[i].errors;
	}
	printf("{\"sent\": %llu, \"enobufs\": %llu, \"errors\": %llu, "
	       "\"seconds\": %.6f}\n", all.sent, all.enobufs, all.errors,
	       now() - start);
	return 0;
}
