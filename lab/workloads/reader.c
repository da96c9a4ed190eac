// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reader: consumes the rings of tun or tap devices.
 *
 *   reader sink [OPTIONS] QUEUE...         read and count
 *   reader relay [OPTIONS] FROM TO         read FROM, write to TO: one direction of a
 *                                          VPN without crypto
 *
 *   --vhost        let vhost-net read, and take the packets from it
 *   --in-kernel    let the lab's own module read: see kernel_reader.h
 *   --io-uring     read by io_uring
 *   --burn-us N    N microseconds of busy work for each packet read
 *   --link-us N    a link behind it, on which each packet takes N microseconds
 *   --steady       that link goes on for 20 ms when this process is late, as a network
 *                  card does: its rate does not depend on the host; not in the kernel
 *   --tick-us N    read at most 500 packets each N microseconds
 *   --pause-us N   read nothing for N microseconds of each second
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
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
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
#include "uring.h"
#include "vhost.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4	/* since 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define MAX_QUEUES 8
#define SLOW_LINK_NS 100000	/* SIGHUP's link where there was none */
#define SLOWEST_LINK_NS 10000000	/* no sender is slower */
#define STEADY_NS 20000000	/* what a steady link makes up for */

struct queue {
	char name[IFNAMSIZ];
	bool with_vnet;
	struct kernel_reader work;	/* also of a reader in this process */
	struct vhost vhost;
	struct uring uring;
	pthread_t thread;
	atomic_bool parked;		/* this thread has seen `paused` */
	unsigned long long segments, largest;
};

static struct queue queues[MAX_QUEUES];
static int queue_count;		/* that are read */
static long burn_ns, period_ns, pause_ns;
static atomic_long link_ns;
static bool by_vhost, by_uring, in_kernel, steady;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static atomic_bool paused;

static void usage(void)
{
	errx(2, "usage: reader sink|relay [--vhost] [--io-uring] [--in-kernel] "
	     "[--burn-us N] [--link-us N [--steady]] [--tick-us N] [--pause-us N] "
	     "[--paused] QUEUE...");
}

static void add_queue(const char *number)
{
	struct queue *queue = &queues[queue_count++];
	struct ifreq told;

	if (queue_count > MAX_QUEUES)
		usage();
	queue->work.from = queue->work.to = atoi(number);
	if (ioctl(queue->work.from, TUNGETIFF, &told))
		err(1, "%s", number);
	strcpy(queue->name, told.ifr_name);
	queue->work.is_tun = told.ifr_flags & IFF_TUN;
	queue->with_vnet = told.ifr_flags & IFF_VNET_HDR;
	queue->work.period_ns = period_ns;
	queue->work.pause_ns = pause_ns;
	/* a reader on a tick leaves when the ring is empty */
	if (period_ns && !pause_ns &&
	    fcntl(queue->work.from, F_SETFL, O_RDWR | O_NONBLOCK))
		err(1, "%s", number);
	if (by_vhost && vhost_open(&queue->vhost, queue->work.from))
		err(1, "/dev/vhost-net");
	if (by_uring && uring_open(&queue->uring, queue->work.from))
		err(1, "io_uring");
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

/* The packet ends a time after the last, which is not longer ago than STEADY_NS. */
static bool is_steady_link_busy(__s64 *ends, __s64 now, __s64 ns)
{
	if (*ends < now - STEADY_NS)
		*ends = now - STEADY_NS;
	*ends += ns;
	return *ends > now;
}

static void sleep_until(int64_t ns)
{
	struct timespec then = { ns / 1000000000LL, ns % 1000000000LL };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static void wait_for_link(struct kernel_reader *work)
{
	bool busy;

	if (steady)
		busy = is_steady_link_busy(&work->link_free, now_ns(), link_ns);
	else
		busy = is_link_busy(&work->link_free, now_ns(), link_ns);
	if (busy)
		sleep_until(work->link_free);
}

static void rest(struct kernel_reader *work, bool empty)
{
	int64_t now = now_ns();

	if (work->period_ns && is_visit_over(work, now, empty))
		sleep_until(next_period(work, now));
}

static ssize_t take(struct queue *queue, unsigned char *packet, size_t room)
{
	if (by_vhost)
		return vhost_read(&queue->vhost, packet, room);
	if (by_uring)
		return uring_read(&queue->uring, packet, room);
	return read(queue->work.from, packet, room);
}

/* Of a packet with a virtio-net header: up to 64 KB of a stream's segments. */
static unsigned int count_segments(const unsigned char *packet, size_t length)
{
	const struct virtio_net_hdr *header = (const void *)packet;
	size_t start = sizeof(*header) + header->csum_start, payload;

	if (header->gso_type == VIRTIO_NET_HDR_GSO_NONE || !header->gso_size)
		return 1;
	if (header->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4)
		payload = length - start - 8;
	else	/* the length of TCP's header, in words of four bytes */
		payload = length - start - (packet[start + 12] >> 4) * 4;
	return (payload + header->gso_size - 1) / header->gso_size;
}

static void count(struct queue *queue, const unsigned char *packet,
		  size_t length)
{
	queue->work.read++;
	queue->segments += queue->with_vnet ? count_segments(packet, length) : 1;
	if (length > queue->largest)
		queue->largest = length;
}

static void handle(struct queue *queue, unsigned char *packet, ssize_t length)
{
	size_t skipped = queue->with_vnet ? sizeof(struct virtio_net_hdr) : 0;
	struct kernel_reader *work = &queue->work;

	if (burn_ns)
		burn();
	if (link_ns)
		wait_for_link(work);
	if (work->to == work->from &&
	    !make_echo_reply(packet + skipped, length - skipped, work->is_tun))
		return;
	if (write(work->to, packet, length) != length)
		work->write_errors++;
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
		length = take(queue, packet, sizeof(packet));
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0 && errno == EAGAIN) {
			rest(&queue->work, true);
			continue;
		}
		if (length < 0 && errno != EIO && errno != EBADFD)
			err(1, "%s", queue->name);
		if (length < 0) {	/* down or detached: try again soon */
			usleep(1000);
			continue;
		}
		count(queue, packet, length);
		handle(queue, packet, length);
		queue->work.visit++;
		rest(&queue->work, false);
	}
	return NULL;
}

/* The module reads the queue's packets, and counts them, until a signal. */
static void *kernel_loop(void *argument)
{
	int reader = open(KERNEL_READER, O_RDWR | O_CLOEXEC);
	struct queue *queue = argument;

	if (reader < 0)
		err(1, KERNEL_READER);
	for (;;) {
		if (paused)
			park(queue);
		queue->work.burn_ns = burn_ns;
		queue->work.link_ns = link_ns;
		if (ioctl(reader, KERNEL_READER_RUN, &queue->work))
			err(1, KERNEL_READER);
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
		printf("%s{\"read\": %llu, \"write_errors\": %llu, "
		       "\"segments\": %llu, \"largest\": %llu}",
		       i ? ", " : "", queues[i].work.read,
		       queues[i].work.write_errors, queues[i].segments,
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
			errx(1, "%s: cannot start a thread", queues[i].name);
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
		else if (!strcmp(argv[i], "--burn-us") && i + 1 < argc)
			burn_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--link-us") && i + 1 < argc)
			link_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--tick-us") && i + 1 < argc)
			period_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--pause-us") && i + 1 < argc)
			period_ns = 1000000000, pause_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--steady"))
			steady = true;
		else if (!strcmp(argv[i], "--vhost"))
			by_vhost = true;
		else if (!strcmp(argv[i], "--io-uring"))
			by_uring = true;
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
	if (!strcmp(argv[1], "relay") && queue_count == 2) {
		queues[0].work.to = queues[1].work.from;
		queue_count = 1;
	} else if (strcmp(argv[1], "sink") || !queue_count) {
		usage();
	}
	sigemptyset(&signals);
	for (i = 0; i < (int)(sizeof(served) / sizeof(*served)); i++)
		sigaddset(&signals, served[i]);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	start_threads();
	report(paused ? "paused" : "reading");
	serve_signals(&signals);
}
