// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reader: consumes the ring of a tun or tap device.
 *
 *   reader [OPTIONS] QUEUE                 a sink: read and count
 *   reader [OPTIONS] QUEUE TO              read QUEUE, write to TO: one direction of a
 *                                          VPN without crypto
 *
 *   --vhost        let vhost-net read, and take the packets from it
 *   --in-kernel    let the lab's own module read: see kernel_reader.h
 *   --burn-us N    N microseconds of busy work for each packet read
 *   --link-us N    a link behind it, on which each packet takes N microseconds
 *   --steady       that link goes on for 20 ms when this process is late, as a network
 *                  card does: its rate does not depend on the host; not in the kernel
 *   --tick-us N    read at most 500 packets each N microseconds
 *   --pause-us N   read nothing for N microseconds of each second
 *   --paused       do not read before the first SIGUSR2
 *
 * QUEUE and TO are numbers of files that the parent has opened. The devices vanish with
 * the process unless they were made persistent. A sink answers ICMP echo requests, so
 * that ping can measure the ring it reads.
 * SIGUSR1 pauses reading, SIGUSR2 resumes it or, if the reader is not paused, removes
 * the link. SIGHUP halves the link's rate, SIGTERM or SIGINT ends the process. Each
 * change of state is reported as one JSON line with the counts so far: {"state":
 * "reading|paused|slower|ended", "read", "segments", "largest"}, so that a parent waits
 * for a line, not for a time. Exit: 0 ok, 1 error, 2 usage.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
#include "vhost.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4	/* since 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define SECOND_NS 1000000000LL
#define SLOW_LINK_NS 100000	/* SIGHUP's link where there was none */
#define SLOWEST_LINK_NS 10000000	/* no sender is slower */
#define STEADY_NS 20000000	/* what a steady link makes up for */

static int by_vhost, in_kernel, steady, begin_paused;
static struct kernel_reader work;	/* also of a reader in this process */
static atomic_long link_ns;
static bool with_vnet;
static struct vhost vhost;
static unsigned long long segments, largest;

static pthread_t thread;	/* it reads; the first one takes the signals */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static atomic_bool paused, parked;	/* parked: the thread has seen `paused` */

static void usage(void)
{
	errx(2, "usage: reader [--vhost | --in-kernel] "
	     "[--burn-us N] [--link-us N [--steady]] [--tick-us N] [--pause-us N] "
	     "[--paused] QUEUE [TO]");
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void burn(void)
{
	int64_t end = now_ns() + work.burn_ns;

	while (now_ns() < end)
		;
}

static void sleep_until(int64_t ns)
{
	struct timespec then = { ns / SECOND_NS, ns % SECOND_NS };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static void rest(bool empty)
{
	int64_t now = now_ns();

	if (work.period_ns && is_visit_over(&work, now, empty))
		sleep_until(next_period(&work, now));
}

static ssize_t take(unsigned char *packet, size_t room)
{
	return by_vhost ? vhost_read(&vhost, packet, room) :
			  read(work.from, packet, room);
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

static void handle(unsigned char *packet, ssize_t length)
{
	size_t skipped = with_vnet ? sizeof(struct virtio_net_hdr) : 0;

	work.read++;
	segments += with_vnet ? count_segments(packet, length) : 1;
	if ((size_t)length > largest)
		largest = length;
	if (work.burn_ns)
		burn();
	if (link_ns && is_link_busy(&work.link_free, now_ns(), link_ns,
				    steady ? STEADY_NS : 0))
		sleep_until(work.link_free);
	if (work.to == work.from &&
	    !make_echo_reply(packet + skipped, length - skipped, work.is_tun))
		return;
	(void)!write(work.to, packet, length);
}

static void park(void)
{
	pthread_mutex_lock(&lock);
	parked = true;
	while (paused)
		pthread_cond_wait(&resumed, &lock);
	parked = false;
	pthread_mutex_unlock(&lock);
}

static void *read_loop(void *unused)
{
	unsigned char packet[PACKET_BYTES];
	ssize_t length;

	(void)unused;
	for (;;) {
		if (paused)
			park();
		length = take(packet, sizeof(packet));
		if (length >= 0) {
			handle(packet, length);
			work.visit++;
			rest(false);
		} else if (errno == EAGAIN) {
			rest(true);
		} else if (errno == EIO || errno == EBADFD) {
			usleep(1000);	/* down or detached: try again soon */
		} else if (errno != EINTR) {
			err(1, "cannot read");
		}
	}
	return NULL;
}

/* The module reads the queue's packets, and counts them, until a signal. */
static void *kernel_loop(void *unused)
{
	int reader = open(KERNEL_READER, O_RDWR | O_CLOEXEC);

	(void)unused;
	if (reader < 0)
		err(1, KERNEL_READER);
	for (;;) {
		if (paused)
			park();
		work.link_ns = link_ns;
		if (ioctl(reader, KERNEL_READER_RUN, &work))
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
	paused = true;
	while (!parked) {
		pthread_kill(thread, SIGURG);
		usleep(200);
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
	printf("{\"state\": \"%s\", \"read\": %llu, \"segments\": %llu, "
	       "\"largest\": %llu}\n", state, work.read, segments, largest);
	fflush(stdout);
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

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "vhost", no_argument, &by_vhost, true },
		{ "in-kernel", no_argument, &in_kernel, true },
		{ "steady", no_argument, &steady, true },
		{ "paused", no_argument, &begin_paused, true },
		{ "burn-us", required_argument, NULL, 'b' },
		{ "link-us", required_argument, NULL, 'l' },
		{ "tick-us", required_argument, NULL, 't' },
		{ "pause-us", required_argument, NULL, 'p' },
		{ }
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		long ns = optarg ? atol(optarg) * 1000 : 0;

		if (option == '?')
			usage();
		else if (option == 'b')
			work.burn_ns = ns;
		else if (option == 'l')
			link_ns = ns;
		else if (option == 't')
			work.period_ns = ns;
		else if (option == 'p')
			work.period_ns = SECOND_NS, work.pause_ns = ns;
	}
}

static void open_queue(void)
{
	struct ifreq told;

	if (ioctl(work.from, TUNGETIFF, &told))
		err(1, "file %d", work.from);
	work.is_tun = told.ifr_flags & IFF_TUN;
	with_vnet = told.ifr_flags & IFF_VNET_HDR;
	/* a reader on a tick leaves when the ring is empty */
	if (work.period_ns && !work.pause_ns &&
	    fcntl(work.from, F_SETFL, O_RDWR | O_NONBLOCK))
		err(1, "file %d", work.from);
	if (by_vhost && vhost_open(&vhost, work.from))
		err(1, "/dev/vhost-net");
}

int main(int argc, char **argv)
{
	const int served[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction action = { .sa_handler = interrupt_read };
	sigset_t signals;
	int i;

	/* If the parent is killed, the devices vanish, too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	parse_options(argc, argv);
	if (argc - optind != 1 && argc - optind != 2)
		usage();
	work.from = atoi(argv[optind]);
	work.to = atoi(argv[argc - 1]);
	open_queue();
	paused = begin_paused;
	sigemptyset(&signals);
	for (i = 0; i < (int)(sizeof(served) / sizeof(*served)); i++)
		sigaddset(&signals, served[i]);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	sigaction(SIGURG, &action, NULL);
	if (pthread_create(&thread, NULL, in_kernel ? kernel_loop : read_loop, NULL))
		errx(1, "cannot start a thread");
	report(paused ? "paused" : "reading");
	serve_signals(&signals);
}
