// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dead_reader: does a reader that never reads block the traffic to others?
 *
 *   dead_reader DEAD_ADDRESS LIVING_ADDRESS PORT SECONDS
 *
 * A child sends in turn to the dead and to the living peer from one blocking
 * UDP socket. Its counts are in shared memory: the parent, which is also the
 * living peer if LIVING_ADDRESS is local, reports them at the deadline even if
 * the child never returns from sendto(). It then kills the child and prints
 * {"living", "dead", "received", "hung"}: packets sent to each peer, packets that
 * the living one received, and whether the child was stuck.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_BYTES 200
#define BUFFER_BYTES (16 << 20)	/* of the living peer: for many pauses */
#define PAUSE_NS 5000000
#define GRACE_SECONDS 0.5	/* a child that is only slow may finish */

struct counts {
	atomic_ullong living, dead;
};

static void fail(int status, const char *object, const char *reason)
{
	fprintf(stderr, "dead_reader: %s: %s\n", object, reason);
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

/*
 * The sender and the living peer have a CPU each: if they shared one, that would
 * change the rate more than what is measured.
 */
static void pin_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail(1, "CPU", strerror(errno));
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0)
		fail(1, "socket", strerror(errno));
	return fd;
}

static void send_to(int fd, const struct sockaddr_in *peer,
		    atomic_ullong *count)
{
	static const char payload[PAYLOAD_BYTES];

	if (sendto(fd, payload, sizeof(payload), 0, (struct sockaddr *)peer,
		   sizeof(*peer)) > 0)
		(*count)++;
}

static void send_in_turn(struct counts *counts, struct sockaddr_in dead,
			 struct sockaddr_in living, double seconds)
{
	double stop = now() + seconds;
	int fd = open_socket();

	pin_to(1);
	while (now() < stop) {
		send_to(fd, &dead, &counts->dead);
		send_to(fd, &living, &counts->living);
	}
	_exit(0);
}

static int open_living_peer(struct sockaddr_in self)
{
	int fd = open_socket(), bytes = BUFFER_BYTES;

	if (bind(fd, (struct sockaddr *)&self, sizeof(self)))
		fail(1, "living peer", strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		fail(1, "SO_RCVBUFFORCE", strerror(errno));
	return fd;
}

static unsigned long long receive_all(int fd)
{
	unsigned long long received = 0;
	char payload[2048];

	while (recv(fd, payload, sizeof(payload), MSG_DONTWAIT) > 0)
		received++;
	return received;
}

/*
 * Polls, and never sleeps until a packet comes: to wake a sleeping peer costs the
 * sender time. Whether the peer sleeps depends on which of both is slightly faster,
 * and would not change during a whole run.
 */
static bool receive_until(int fd, pid_t child, double deadline,
			  unsigned long long *received)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	bool ended = false;

	while (!ended && now() < deadline) {
		nanosleep(&pause, NULL);
		ended = waitpid(child, NULL, WNOHANG) == child;
		*received += receive_all(fd);
	}
	return ended;
}

int main(int argc, char **argv)
{
	struct sockaddr_in dead, living;
	unsigned long long received = 0;
	struct counts *counts;
	double seconds;
	bool hung;
	pid_t child;
	int fd;

	if (argc != 5)
		fail(2, "usage",
		     "dead_reader DEAD_ADDRESS LIVING_ADDRESS PORT SECONDS");
	dead = parse_address(argv[1], argv[3]);
	living = parse_address(argv[2], argv[3]);
	seconds = atof(argv[4]);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail(1, "mmap", strerror(errno));
	pin_to(2);
	fd = open_living_peer(living);
	child = fork();
	if (child < 0)
		fail(1, "fork", strerror(errno));
	if (!child)
		send_in_turn(counts, dead, living, seconds);
	hung = !receive_until(fd, child, now() + seconds + GRACE_SECONDS,
			      &received);
	if (hung) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	printf("{\"living\": %llu, \"dead\": %llu, \"received\": %llu, "
	       "\"hung\": %s}\n", counts->living, counts->dead, received,
	       hung ? "true" : "false");
	return 0;
}
