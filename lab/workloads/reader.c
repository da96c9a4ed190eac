// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reader: consumes the rings of tun or tap devices.
 *
 *   reader sink QUEUE...         read and count
 *   reader forward QUEUE QUEUE   a VPN without crypto between two devices
 *
 *   --vhost        let vhost-net read, and take the packets from it
 *   --in-kernel    let the lab's own module read: see kernel_reader.h
 *   --by WAY       read, readv, poll, epoll or io_uring: see reading.h
 *   --burn-us N    N microseconds of busy work for each packet read
 *   --link-us N    a link behind it, on which each packet takes N microseconds
 *   --paused       do not read before the first SIGUSR2
 *
 * A QUEUE is the number of a file that the parent has opened. The devices vanish with
 * the process unless they were made persistent. A sink answers ICMP echo requests, so
 * that ping can measure the ring it reads.
 * SIGUSR1 pauses reading, SIGUSR2 resumes it or, if the reader is not paused, removes
 * the link. SIGHUP halves the link's rate, SIGTERM or SIGINT ends the process. Each
 * change of state is reported as one JSON line with each queue's counts so far:
 * {"state": "reading|paused|slower|ended", "devices": [...]}, so that a parent waits
 * for a line, not for a time. Exit: 0 ok, 1 error, 2 usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "kernel_reader.h"
#include "reading.h"
#include "vhost.h"
#include "vnet.h"

#define MAX_QUEUES 8
#define SLOW_LINK_NS 100000	/* SIGHUP's link where there was none */
#define SLOWEST_LINK_NS 10000000	/* no sender is slower */

struct queue {
	char name[IFNAMSIZ];
	bool is_tun, with_vnet;
	int fd, to;		/* where its packets are written */
	struct vhost vhost;
	struct reading reading;
	pthread_t thread;
	__s64 link_free;	/* when its link is free again */
	atomic_bool parked;	/* this thread has seen `paused` */
	atomic_ullong read, written, write_errors, segments, largest;
};

static struct queue queues[MAX_QUEUES];
static int queue_count;
static long burn_ns;
static atomic_long link_ns;
static bool by_vhost, in_kernel;
static const char *way = "read";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static atomic_bool paused;

static void fail(int status, const char *object, const char *reason)
{
	fprintf(stderr, "reader: %s: %s\n", object, reason);
	exit(status);
}

static void usage(void)
{
	fail(2, "usage",
	     "reader sink|forward QUEUE... [--vhost] [--in-kernel] [--by WAY] "
	     "[--burn-us N] [--link-us N] [--paused]");
}

static void add_queue(const char *number)
{
	struct queue *queue = &queues[queue_count++];
	struct ifreq told;

	if (queue_count > MAX_QUEUES)
		usage();
	queue->fd = queue->to = atoi(number);
	if (ioctl(queue->fd, TUNGETIFF, &told))
		fail(1, number, strerror(errno));
	strcpy(queue->name, told.ifr_name);
	queue->is_tun = told.ifr_flags & IFF_TUN;
	queue->with_vnet = told.ifr_flags & IFF_VNET_HDR;
}

static void prepare(struct queue *queue)
{
	if (by_vhost && vhost_open(&queue->vhost, queue->fd))
		fail(1, "/dev/vhost-net", strerror(errno));
	if (!by_vhost && reading_open(&queue->reading, queue->fd, way))
		fail(1, way, strerror(errno));
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void burn(void)
{
	int64_t end = now_ns() + burn_ns;

	while (now_ns() < end)
		;
}

static void wait_for_link(struct queue *queue)
{
	struct timespec free_at;

	if (!is_link_busy(&queue->link_free, now_ns(), link_ns))
		return;
	free_at.tv_sec = queue->link_free / 1000000000LL;
	free_at.tv_nsec = queue->link_free % 1000000000LL;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &free_at, NULL);
}

static void handle(struct queue *from, unsigned char *packet, ssize_t length)
{
	size_t skipped = from->with_vnet ? VNET_HEADER_BYTES : 0;

	if (burn_ns)
		burn();
	if (link_ns)
		wait_for_link(from);
	if (from->to == from->fd &&
	    !make_echo_reply(packet + skipped, length - skipped, from->is_tun))
		return;
	if (write(from->to, packet, length) == length)
		from->written++;
	else
		from->write_errors++;
}

static void count(struct queue *queue, const unsigned char *packet,
		  size_t length)
{
	unsigned int segments = 1;

	if (queue->with_vnet)
		segments = vnet_segments(packet, length);
	atomic_fetch_add_explicit(&queue->read, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&queue->segments, segments,
				  memory_order_relaxed);
	if (length > queue->largest)
		queue->largest = length;
}

static void park(struct queue *queue)
{
	pthread_mutex_lock(&lock);
	queue->parked = true;
	while (paused)
		pthread_cond_wait(&resumed, &lock);
	queue->parked = false;
	pthread_mutex_unlock(&lock);
}

static void *read_loop(void *argument)
{
	struct queue *queue = argument;
	unsigned char packet[PACKET_BYTES];
	ssize_t length;

	for (;;) {
		if (paused)
			park(queue);
		length = by_vhost ?
			 vhost_read(&queue->vhost, packet, sizeof(packet)) :
			 queue->reading.take(&queue->reading, packet,
					     sizeof(packet));
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0 && errno != EIO && errno != EBADFD)
			fail(1, queue->name, strerror(errno));
		if (length < 0) {	/* down or detached: try again soon */
			usleep(1000);
			continue;
		}
		count(queue, packet, length);
		handle(queue, packet, length);
	}
	return NULL;
}

/* The module reads the device's packets until a signal; then they are counted. */
static void run_in_kernel(struct queue *queue, int reader)
{
	struct kernel_reader run = {
		.from = queue->fd,
		.to = queue->to,
		.is_tun = queue->is_tun,
		.burn_ns = burn_ns,
		.link_ns = link_ns,
		.link_free = queue->link_free,
	};

	if (ioctl(reader, KERNEL_READER_RUN, &run))
		fail(1, KERNEL_READER, strerror(errno));
	queue->link_free = run.link_free;
	queue->read += run.read;
	queue->segments += run.read;
	queue->written += run.written;
	queue->write_errors += run.write_errors;
}

static void *kernel_loop(void *argument)
{
	int reader = open(KERNEL_READER, O_RDWR | O_CLOEXEC);

	if (reader < 0)
		fail(1, KERNEL_READER, strerror(errno));
	for (;;) {
		if (paused)
			park(argument);
		run_in_kernel(argument, reader);
	}
	return NULL;
}

/* Does nothing; without SA_RESTART it makes read() return EINTR. */
static void interrupt_read(int number)
{
	(void)number;
}

static void pause_reading(void)
{
	int i;

	paused = true;
	for (i = 0; i < queue_count; i++) {
		while (!queues[i].parked) {
			pthread_kill(queues[i].thread, SIGURG);
			usleep(200);
		}
	}
}

static void resume_reading(void)
{
	if (!paused)
		link_ns = 0;
	pthread_mutex_lock(&lock);
	paused = false;
	pthread_cond_broadcast(&resumed);
	pthread_mutex_unlock(&lock);
}

static void slow_down(void)
{
	long ns = link_ns ? 2 * link_ns : SLOW_LINK_NS;

	if (ns < SLOWEST_LINK_NS)
		link_ns = ns;
}

static void report(const char *state)
{
	int i;

	printf("{\"state\": \"%s\", \"devices\": [", state);
	for (i = 0; i < queue_count; i++)
		printf("%s{\"read\": %llu, \"written\": %llu, "
		       "\"write_errors\": %llu, \"segments\": %llu, "
		       "\"largest\": %llu}", i ? ", " : "",
		       queues[i].read, queues[i].written,
		       queues[i].write_errors, queues[i].segments,
		       queues[i].largest);
	printf("]}\n");
	fflush(stdout);
}

static void start_threads(void)
{
	struct sigaction action = { .sa_handler = interrupt_read };
	int i;

	sigaction(SIGURG, &action, NULL);
	for (i = 0; i < queue_count; i++)
		if (pthread_create(&queues[i].thread, NULL,
				   in_kernel ? kernel_loop : read_loop,
				   &queues[i]))
			fail(1, queues[i].name, "cannot start a thread");
}

static void serve_signals(const sigset_t *signals)
{
	int number;

	for (;;) {
		if (sigwait(signals, &number))
			continue;
		if (number == SIGUSR1) {
			pause_reading();
			report("paused");
		} else if (number == SIGUSR2) {
			resume_reading();
			report("reading");
		} else if (number == SIGHUP) {
			slow_down();
			report("slower");
		} else {
			pause_reading();
			report("ended");
			_exit(0);
		}
	}
}

static void parse_arguments(int argc, char **argv)
{
	int i;

	for (i = 2; i < argc; i++) {
		if (argv[i][0] != '-')
			add_queue(argv[i]);
		else if (!strcmp(argv[i], "--by") && i + 1 < argc)
			way = argv[++i];
		else if (!strcmp(argv[i], "--burn-us") && i + 1 < argc)
			burn_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--link-us") && i + 1 < argc)
			link_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--vhost"))
			by_vhost = true;
		else if (!strcmp(argv[i], "--in-kernel"))
			in_kernel = true;
		else if (!strcmp(argv[i], "--paused"))
			paused = true;
		else
			usage();
	}
}

int main(int argc, char **argv)
{
	const int served[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
	sigset_t signals;
	int i;

	if (argc < 3)
		usage();
	/* If the parent is killed, the devices vanish, too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	parse_arguments(argc, argv);
	if (!strcmp(argv[1], "forward") && queue_count == 2) {
		queues[0].to = queues[1].fd;
		queues[1].to = queues[0].fd;
	} else if (strcmp(argv[1], "sink") || !queue_count) {
		usage();
	}
	for (i = 0; i < queue_count; i++)
		prepare(&queues[i]);
	sigemptyset(&signals);
	for (i = 0; i < (int)(sizeof(served) / sizeof(*served)); i++)
		sigaddset(&signals, served[i]);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	start_threads();
	report(paused ? "paused" : "reading");
	serve_signals(&signals);
}
