// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reader: consumes the ring of one or two tun/tap devices.
 *
 *   reader sink    --tap NAME[@NETNS]                     read and count
 *   reader forward --tap NAME[@NETNS] --tap NAME[@NETNS]  a VPN without crypto
 *
 *   --tun NAME[@NETNS]  the same with IP packets instead of Ethernet frames
 *   --vhost             let vhost-net read, and take the packets from it
 *   --in-kernel         let the lab's own module read: see kernel_reader.h
 *   --by WAY            read, readv, poll, epoll or io_uring: see reading.h
 *   --vnet              ask for packets of up to 64 KB: see vnet.h
 *   --napi              written packets pass through NAPI (IFF_NAPI)
 *   --napi-frags        the same, page by page (IFF_NAPI_FRAGS, tap only)
 *   --multi-queue       a device named again gets one more queue
 *   --backpressure      set IFF_BACKPRESSURE (the variant "upstream")
 *   --burn-us N         N microseconds of busy work for each packet read
 *   --link-us N         a link behind it, on which each packet takes N microseconds
 *   --paused            do not read before the first SIGUSR2
 *
 * A sink answers ICMP echo requests, so that ping can measure the ring it
 * reads. The devices vanish with the process unless they were made persistent.
 * SIGUSR1 pauses reading, SIGUSR2 resumes it or, if the reader is not paused, removes
 * the link. SIGHUP halves the link's rate, SIGTERM or SIGINT ends the process. Each
 * change of state is reported as one JSON line with the counts so far:
 * {"state": "reading|paused|slower|ended", "devices": [...]}, so that a parent waits
 * for a line, not for a time. A device with several queues has counts for each.
 * Exit: 0 ok, 1 error, 2 usage, 3 the kernel lacks IFF_BACKPRESSURE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <pthread.h>
#include <sched.h>
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

#ifndef IFF_BACKPRESSURE
#define IFF_BACKPRESSURE 0x0080
#endif

#define MAX_DEVICES 8
#define PACKET_BYTES (65536 + 64)	/* with the headers before IP */
#define ETHERNET_HEADER 14
#define LINK_BURST_NS 1000000
#define SLOW_LINK_NS 100000	/* SIGHUP's link where there was none */
#define SLOWEST_LINK_NS 10000000	/* no sender is slower */

struct device {
	char name[IFNAMSIZ];
	const char *netns;	/* NULL: where the reader was started */
	bool is_tun;
	int fd;
	struct device *to;	/* forward: the device that gets its packets */
	struct vhost vhost;
	struct reading reading;
	pthread_t thread;
	int64_t link_free;	/* when its link is free again */
	atomic_bool parked;	/* this thread has seen `paused` */
	atomic_ullong read, written, write_errors, echoed, bytes;
	atomic_ullong segments, largest;
};

static struct device devices[MAX_DEVICES];
static int device_count;
static long burn_ns;
static atomic_long link_ns;
static bool by_vhost, in_kernel;
static const char *way = "read";
static int extra_flags;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static atomic_bool paused;

static bool with_vnet(void)
{
	return extra_flags & IFF_VNET_HDR;
}

static void fail(int status, const char *object, const char *reason)
{
	fprintf(stderr, "reader: %s: %s\n", object, reason);
	exit(status);
}

static void usage(void)
{
	fail(2, "usage",
	     "reader sink|forward --tap|--tun NAME[@NETNS] [second device] "
	     "[--vhost] [--in-kernel] [--by WAY] [--vnet] [--napi] [--napi-frags] "
	     "[--multi-queue] [--backpressure] [--burn-us N] [--link-us N] "
	     "[--paused]");
}

static void add_device(char *spec, bool is_tun)
{
	struct device *device = &devices[device_count];
	char *at = strchr(spec, '@');

	if (device_count == MAX_DEVICES)
		usage();
	if (at) {
		*at = '\0';
		device->netns = at + 1;
	}
	if (!*spec || strlen(spec) >= IFNAMSIZ)
		fail(2, spec, "not a device name: use 1 to 15 characters");
	strcpy(device->name, spec);
	device->is_tun = is_tun;
	device_count++;
}

/* The device appears in the netns of the thread that opens /dev/net/tun. */
static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(1, path, strerror(errno));
	close(fd);
}

static void open_device(struct device *device)
{
	struct ifreq request = { 0 };
	unsigned int features = 0;
	char path[256];

	if (device->netns) {
		snprintf(path, sizeof(path), "/run/netns/%s", device->netns);
		enter_netns(path);
	}
	device->fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (device->fd < 0)
		fail(1, "/dev/net/tun", strerror(errno));
	if (extra_flags & IFF_BACKPRESSURE) {
		if (ioctl(device->fd, TUNGETFEATURES, &features))
			fail(1, "TUNGETFEATURES", strerror(errno));
		if (!(features & IFF_BACKPRESSURE))
			fail(3, "--backpressure",
			     "this kernel has no IFF_BACKPRESSURE; use 7.3 or later");
	}
	strcpy(request.ifr_name, device->name);
	request.ifr_flags = (device->is_tun ? IFF_TUN : IFF_TAP) | IFF_NO_PI |
			    extra_flags;
	if (ioctl(device->fd, TUNSETIFF, &request))
		fail(1, device->name, strerror(errno));
	if (with_vnet() && vnet_offload(device->fd))
		fail(1, "TUNSETOFFLOAD", strerror(errno));
	if (by_vhost && vhost_open(&device->vhost, device->fd))
		fail(1, "/dev/vhost-net", strerror(errno));
	if (!by_vhost && reading_open(&device->reading, device->fd, way))
		fail(1, way, strerror(errno));
}

/* A device without @NETNS is made where the reader was started. */
static void open_devices(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int i;

	for (i = 0; i < device_count; i++) {
		open_device(&devices[i]);
		if (devices[i].netns && setns(home, CLONE_NEWNET))
			fail(1, "/proc/self/ns/net", strerror(errno));
	}
	close(home);
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

/* Each packet takes link_ns on the link, which accepts a burst in advance. */
static void wait_for_link(struct device *device)
{
	int64_t now = now_ns();
	struct timespec free_at;

	if (device->link_free < now)
		device->link_free = now;
	device->link_free += link_ns;
	if (device->link_free - now < LINK_BURST_NS)
		return;
	free_at.tv_sec = device->link_free / 1000000000LL;
	free_at.tv_nsec = device->link_free % 1000000000LL;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &free_at, NULL);
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t length)
{
	unsigned char kept[16];

	memcpy(kept, a, length);
	memcpy(a, b, length);
	memcpy(b, kept, length);
}

/* Turns an ICMP echo request into its reply, in place. */
static bool make_echo_reply(unsigned char *frame, ssize_t length, bool is_tun)
{
	size_t start = is_tun ? 0 : ETHERNET_HEADER;
	unsigned char *ip = frame + start, *icmp = ip + 20;
	unsigned int sum;

	if (length < (ssize_t)start + 28 || ip[0] != 0x45 || ip[9] != 1 ||
	    icmp[0] != 8)
		return false;
	if (!is_tun)
		swap_bytes(frame, frame + 6, 6);
	swap_bytes(ip + 12, ip + 16, 4);
	icmp[0] = 0;
	/* RFC 1624: the type went from 8 to 0. */
	sum = (icmp[2] << 8 | icmp[3]) + 0x0800;
	sum = (sum & 0xffff) + (sum >> 16);
	icmp[2] = sum >> 8;
	icmp[3] = sum;
	return true;
}

static void handle(struct device *from, unsigned char *packet, ssize_t length)
{
	int to = from->to ? from->to->fd : from->fd;

	if (burn_ns)
		burn();
	if (link_ns)
		wait_for_link(from);
	if (!from->to) {
		size_t skipped = with_vnet() ? VNET_HEADER_BYTES : 0;

		if (!make_echo_reply(packet + skipped, length - skipped,
				     from->is_tun))
			return;
		from->echoed++;
	}
	if (write(to, packet, length) == length)
		from->written++;
	else
		from->write_errors++;
}

static void count(struct device *device, const unsigned char *packet,
		  size_t length)
{
	unsigned int segments = with_vnet() ? vnet_segments(packet, length) : 1;

	atomic_fetch_add_explicit(&device->read, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&device->segments, segments,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&device->bytes, length,
				  memory_order_relaxed);
	if (length > device->largest)
		device->largest = length;
}

static void park(struct device *device)
{
	pthread_mutex_lock(&lock);
	device->parked = true;
	while (paused)
		pthread_cond_wait(&resumed, &lock);
	device->parked = false;
	pthread_mutex_unlock(&lock);
}

static void *read_loop(void *argument)
{
	struct device *device = argument;
	unsigned char packet[PACKET_BYTES];
	ssize_t length;

	for (;;) {
		if (paused)
			park(device);
		length = by_vhost ?
			 vhost_read(&device->vhost, packet, sizeof(packet)) :
			 device->reading.take(&device->reading, packet,
					      sizeof(packet));
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0 && errno != EIO && errno != EBADFD)
			fail(1, device->name, strerror(errno));
		if (length < 0) {	/* down or detached: try again soon */
			usleep(1000);
			continue;
		}
		count(device, packet, length);
		handle(device, packet, length);
	}
	return NULL;
}

/* The module reads the device's packets until a signal; then they are counted. */
static void run_in_kernel(struct device *device, int reader)
{
	struct kernel_reader run = {
		.from = device->fd,
		.to = device->to ? device->to->fd : device->fd,
		.is_tun = device->is_tun,
		.burn_ns = burn_ns,
		.link_ns = link_ns,
		.link_free = device->link_free,
	};

	if (ioctl(reader, KERNEL_READER_RUN, &run))
		fail(1, KERNEL_READER, strerror(errno));
	device->link_free = run.link_free;
	device->read += run.read;
	device->segments += run.read;
	device->bytes += run.bytes;
	device->written += run.written;
	device->write_errors += run.write_errors;
	device->echoed += run.echoed;
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
	for (i = 0; i < device_count; i++) {
		while (!devices[i].parked) {
			pthread_kill(devices[i].thread, SIGURG);
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
	for (i = 0; i < device_count; i++)
		printf("%s{\"name\": \"%s\", \"read\": %llu, \"bytes\": %llu, "
		       "\"written\": %llu, \"write_errors\": %llu, "
		       "\"echoed\": %llu, \"segments\": %llu, "
		       "\"largest\": %llu}", i ? ", " : "", devices[i].name,
		       devices[i].read, devices[i].bytes, devices[i].written,
		       devices[i].write_errors, devices[i].echoed,
		       devices[i].segments, devices[i].largest);
	printf("]}\n");
	fflush(stdout);
}

static void start_threads(void)
{
	struct sigaction action = { .sa_handler = interrupt_read };
	int i;

	sigaction(SIGURG, &action, NULL);
	for (i = 0; i < device_count; i++)
		if (pthread_create(&devices[i].thread, NULL,
				   in_kernel ? kernel_loop : read_loop,
				   &devices[i]))
			fail(1, devices[i].name, "cannot start a thread");
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
		if (!strcmp(argv[i], "--tap") && i + 1 < argc)
			add_device(argv[++i], false);
		else if (!strcmp(argv[i], "--tun") && i + 1 < argc)
			add_device(argv[++i], true);
		else if (!strcmp(argv[i], "--burn-us") && i + 1 < argc)
			burn_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--link-us") && i + 1 < argc)
			link_ns = atol(argv[++i]) * 1000;
		else if (!strcmp(argv[i], "--backpressure"))
			extra_flags |= IFF_BACKPRESSURE;
		else if (!strcmp(argv[i], "--by") && i + 1 < argc)
			way = argv[++i];
		else if (!strcmp(argv[i], "--napi"))
			extra_flags |= IFF_NAPI;
		else if (!strcmp(argv[i], "--napi-frags"))
			extra_flags |= IFF_NAPI | IFF_NAPI_FRAGS;
		else if (!strcmp(argv[i], "--multi-queue"))
			extra_flags |= IFF_MULTI_QUEUE;
		else if (!strcmp(argv[i], "--vnet"))
			extra_flags |= IFF_VNET_HDR;
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
	sigset_t signals;

	if (argc < 3)
		usage();
	/* If the parent is killed, the devices vanish, too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	parse_arguments(argc, argv);
	if (!strcmp(argv[1], "forward") && device_count == 2) {
		devices[0].to = &devices[1];
		devices[1].to = &devices[0];
	} else if (strcmp(argv[1], "sink") || !device_count) {
		usage();
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	open_devices();
	start_threads();
	report(paused ? "paused" : "reading");
	serve_signals(&signals);
}
