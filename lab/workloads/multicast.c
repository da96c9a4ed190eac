// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * multicast: sends data to several IPv6 groups until all of it has arrived.
 *
 *   multicast receive DEVICE GROUPS PACKETS
 *   multicast send DEVICE GROUPS PACKETS
 *
 * The sender has a thread for each group. It sends PACKETS packets to the group as
 * fast as its socket accepts them, asks which are missing, and sends those again.
 * The receiver prints "ready" and answers until it is killed. The sender prints
 *
 *   {"seconds": 1.5, "sent": 2400, "asked": 5}
 *
 * Exit: 0 ok, 1 error (also: not all arrived in time), 2 usage.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT		9200	/* of the first group; each further group has the next */
#define GROUPS_MAX	16
#define PACKETS_MAX	4096
#define PAYLOAD_BYTES	1000
#define MISSING_MAX	200	/* serials in an answer */
#define ANSWER_MS	1000	/* after that it asks again */
#define DEADLINE_MS	60000
#define QUESTION	UINT32_MAX

/* The packets of both sides, in network order. */
struct packet {
	uint32_t number;	/* from 0, or QUESTION */
	uint32_t serial;	/* the same in a question and in its answer */
	union {
		char payload[PAYLOAD_BYTES];
		struct {
			uint32_t count;	/* number of all that are missing */
			uint32_t missing[MISSING_MAX];
		};
	};
};

static unsigned int device;
static int groups, packets;

static void die(const char *what)
{
	fprintf(stderr, "multicast: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

static struct sockaddr_in6 group_address(int group)
{
	struct sockaddr_in6 address = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(PORT + group),
		.sin6_scope_id = device,
	};

	inet_pton(AF_INET6, "ff15::9200:0", &address.sin6_addr);
	address.sin6_addr.s6_addr[15] = group;
	return address;
}

static int open_socket(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

static int join(int group)
{
	struct sockaddr_in6 address = group_address(group);
	struct ipv6_mreq membership = {
		.ipv6mr_multiaddr = address.sin6_addr,
		.ipv6mr_interface = device,
	};
	int room = 1 << 24, fd = open_socket();

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &membership,
		       sizeof(membership)))
		die("join");
	return fd;
}

/* Receives one packet of a group: records data, answers a question. */
static void receive_one(int fd, unsigned char *have)
{
	struct sockaddr_in6 from;
	socklen_t length = sizeof(from);
	struct packet packet;
	uint32_t number, count = 0;

	if (recvfrom(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&from,
		     &length) < (ssize_t)offsetof(struct packet, payload))
		return;
	number = ntohl(packet.number);
	if (number != QUESTION) {
		if (number < (uint32_t)packets)
			have[number] = 1;
		return;
	}
	for (int i = 0; i < packets; i++) {
		if (have[i])
			continue;
		if (count < MISSING_MAX)
			packet.missing[count] = htonl(i);
		count++;
	}
	packet.count = htonl(count);
	/* If this answer is lost, the sender asks again. */
	sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&from, length);
}

static int receive_all(void)
{
	static unsigned char have[GROUPS_MAX][PACKETS_MAX];
	struct pollfd ready[GROUPS_MAX];

	for (int i = 0; i < groups; i++)
		ready[i] = (struct pollfd){ .fd = join(i), .events = POLLIN };
	puts("ready");
	fflush(stdout);
	while (poll(ready, groups, -1) > 0)
		for (int i = 0; i < groups; i++)
			if (ready[i].revents)
				receive_one(ready[i].fd, have[i]);
	die("poll");
	return 1;
}

struct sender {
	pthread_t thread;
	int group, fd;
	long sent, asked;
	bool done;
};

static void send_one(struct sender *own, uint32_t number, uint32_t serial)
{
	struct sockaddr_in6 to = group_address(own->group);
	struct packet packet = {
		.number = htonl(number),
		.serial = htonl(serial),
	};

	while (sendto(own->fd, &packet, sizeof(packet), 0,
		      (struct sockaddr *)&to, sizeof(to)) < 0)
		if (errno != ENOBUFS && errno != EINTR)	/* the qdisc dropped it */
			die("send");
	own->sent++;
}

/* Whether an answer to this question came, which is then in *answer. */
static bool is_answered(struct sender *own, uint32_t serial, struct packet *answer)
{
	long until = now_ms() + ANSWER_MS;
	struct pollfd ready = { .fd = own->fd, .events = POLLIN };

	for (long left = ANSWER_MS; left > 0; left = until - now_ms()) {
		if (poll(&ready, 1, left) <= 0)
			continue;
		if (recv(own->fd, answer, sizeof(*answer), 0) == sizeof(*answer) &&
		    ntohl(answer->serial) == serial)
			return true;
	}
	return false;
}

static void *send_group(void *argument)
{
	struct sender *own = argument;
	long deadline = now_ms() + DEADLINE_MS;
	struct packet answer;
	uint32_t count;

	for (int i = 0; i < packets; i++)
		send_one(own, i, 0);
	while (now_ms() < deadline) {
		own->asked++;
		send_one(own, QUESTION, own->asked);
		if (!is_answered(own, own->asked, &answer))
			continue;
		count = ntohl(answer.count);
		own->done = !count;
		if (own->done)
			break;
		for (uint32_t i = 0; i < count && i < MISSING_MAX; i++)
			send_one(own, ntohl(answer.missing[i]), 0);
	}
	return NULL;
}

static int send_all(void)
{
	struct sender senders[GROUPS_MAX] = { 0 };
	long began = now_ms(), sent = 0, asked = 0;
	bool done = true;

	for (int i = 0; i < groups; i++) {
		senders[i].group = i;
		senders[i].fd = open_socket();
		if (setsockopt(senders[i].fd, IPPROTO_IPV6, IPV6_MULTICAST_IF,
			       &device, sizeof(device)))
			die("multicast interface");
		if (pthread_create(&senders[i].thread, NULL, send_group, &senders[i]))
			die("thread");
	}
	for (int i = 0; i < groups; i++) {
		pthread_join(senders[i].thread, NULL);
		sent += senders[i].sent;
		asked += senders[i].asked;
		done &= senders[i].done;
	}
	if (!done) {
		fprintf(stderr, "multicast: not all is there after %d s\n",
			DEADLINE_MS / 1000);
		return 1;
	}
	printf("{\"seconds\": %.3f, \"sent\": %ld, \"asked\": %ld}\n",
	       (now_ms() - began) / 1000.0, sent, asked);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5) {
		device = if_nametoindex(argv[2]);
		groups = atoi(argv[3]);
		packets = atoi(argv[4]);
	}
	if (argc != 5 || !device || groups < 1 || groups > GROUPS_MAX ||
	    packets < 1 || packets > PACKETS_MAX) {
		fprintf(stderr,
			"usage: multicast receive|send DEVICE GROUPS PACKETS\n");
		return 2;
	}
	if (!strcmp(argv[1], "receive"))
		return receive_all();
	return send_all();
}
