// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does tun_txq.c do what the policy promises (policy/contract.h), whatever reads the
 * ring, and whoever holds the producer lock? Which readers there are beside these few
 * is asked of the module, policy/adversary.c.
 *
 * A line ends in TOO MUCH where a bound of the contract is passed, or where what it says
 * happens and never may.
 */
#include "tun_txq.h"
#undef spin_trylock
#include "single.h"
#include "contract.h"

bool producer_lock_is_taken;
unsigned int hrtimer_resolution = 1;
static struct tun_txq txqs[TENANTS][QUEUES_MAX];
static struct tun_tx_flow_device devices[TENANTS];
static unsigned long refused;	/* packets that found no slot to reserve */

static const struct known readers[] = {
	{ "reads nothing", "dead:" },
	{ "5 packets/s", "held: read 1 200ms" },
	{ "250 packets/s", "steady: read 1 4ms" },
	{ "5000 packets/s", "steady: read 1 200us" },
	{ "200 000 packets/s", "steady: read 1 5us" },
	{ "50 000, timers 2 ms late", "steady late=2ms: read 1 20us" },
	{ "500 000, batches of 64", "steady late=50us: batch 64 2us" },
	{ "200 000, lists of 44", "steady list=44 late=50us: read 1 5us" },
	{ "attaches again each 260 ms", "again: rest 260ms; attach" },
	{ "opens another file each 260 ms", "again: rest 260ms; anew" },
	{ "50 000 packets/s, timers", "reviews: read 1 20us" },
	{ "500 queues, nothing read, timers", "crowd queues=500 each=1:" },
};

/* Nobody but the only sender puts packets into these. */
static const struct known small_rings[] = {
	{ "ring of 16", "reads ring=16: read 1 128us" },
	{ "ring of one slot", "reads ring=1: read 1 1ms" },
};

static const struct known with_lock_taken[] = {
	{ "reads nothing, lock taken", "dead:" },
	{ "5 packets/s, lock taken", "held: read 1 200ms" },
	{ "250 packets/s, lock taken", "stop: read 1 4ms" },
	{ "200 000 packets/s, lock taken", "stop: read 1 5us" },
	{ "50 000 packets/s, timers, lock taken", "reviews: read 1 20us" },
	{ "500 queues, timers, lock taken", "crowd queues=500 each=1:" },
};

static struct tun_txq *txq_of(const struct tenant *tenant, unsigned int id)
{
	return &txqs[tenant - tenants][id];
}

void hrtimer_start(struct hrtimer *timer, ktime_t ns, enum hrtimer_mode mode)
{
	unsigned int at = container_of(timer, struct tun_txq, timer) - txqs[0];

	port_arms(&tenants[at / QUEUES_MAX].ports[at % QUEUES_MAX], ns);
}

void netif_tx_stop_queue(struct netdev_queue *of)
{
	of->state |= XOFF;
}

/* A file that is new to the device. */
static void open_file(struct tenant *tenant, unsigned int id)
{
	struct tun_txq *txq = txq_of(tenant, id);

	memset(txq, 0, sizeof(*txq));
	tun_txq_init(txq, &tenant->ports[id].ring);
	txq->flow.device = &devices[tenant - tenants];
}

static void ports_begin(struct tenant *tenant, u64 stall_ns)
{
	tenant->dev.running = true;
	memset(&devices[tenant - tenants], 0, sizeof(devices[0]));
	for (unsigned int id = 0; id < tenant->dev.num_tx_queues; id++)
		open_file(tenant, id);
}

/* As tun_net_xmit() does it. */
static enum sent port_sends(struct tenant *tenant, unsigned int id, void *packet)
{
	struct netdev_queue *queue = &tenant->txqs[id];
	struct tun_txq *txq = txq_of(tenant, id);
	int reserved = tun_txq_reserve(txq, queue);

	if (reserved < 0) {
		refused++;
		return REFUSED;
	}
	if (!tun_txq_produce(txq, queue, packet, reserved))
		return SENT;
	if (reserved)
		tun_txq_cancel(txq, queue);
	return LOST;
}

static void port_expires(struct tenant *tenant, unsigned int id)
{
	struct tun_txq *txq = txq_of(tenant, id);

	txq->timer.function(&txq->timer);
}

static void port_changes(struct tenant *tenant, unsigned int id, enum kind how)
{
	tun_txq_release(txq_of(tenant, id));
	if (how == ANEW)
		open_file(tenant, id);
}

static u64 port_ends(struct tenant *tenant, unsigned int id)
{
	return devices[tenant - tenants].stalls;
}

static bool tell_of(const char *what, bool wrong)
{
	printf("%s%s\n", what, wrong ? ": TOO MUCH" : ": never");
	return wrong;
}

/* As tun_xdp_xmit() does it: under the lock of the producers. */
static bool add_frame(struct tun_txq *txq)
{
	bool fits;

	spin_lock(&txq->ring->producer_lock);
	fits = tun_txq_produce_frame(txq, txq);
	spin_unlock(&txq->ring->producer_lock);
	return fits;
}

/* Two slots are reserved: they are neither for frames nor for another sender. */
static bool breaks_a_promise(void)
{
	struct netdev_queue *queue = &tenants[0].txqs[0];
	struct tun_txq *txq = txq_of(&tenants[0], 0);
	u64 slots = playing->set[RING], frames;

	for (frames = 0; frames < slots - 3; frames++)
		add_frame(txq);
	if (tun_txq_reserve(txq, queue) <= 0 || tun_txq_reserve(txq, queue) <= 0)
		return true;
	while (add_frame(txq))
		frames++;
	return frames != slots - 2 || tun_txq_reserve(txq, queue) > 0 ||
	       tun_txq_produce(txq, queue, (void *)txq, true) ||
	       tun_txq_produce(txq, queue, (void *)txq, true);
}

static bool stops_with_coarse_timers(void)
{
	hrtimer_resolution = 4 * NSEC_PER_MSEC;
	while (!is_stopped(&tenants[0], 0) && port_sends(&tenants[0], 0, txqs) == SENT)
		;
	hrtimer_resolution = 1;
	return is_stopped(&tenants[0], 0);
}

int main(void)
{
	struct sequence nobody_reads;
	bool wrong;

	wrong = play_known(readers, ARRAY_SIZE(readers), NULL);
	refused = 0;
	wrong |= play_known(small_rings, ARRAY_SIZE(small_rings), NULL);
	wrong |= tell_of("the only sender is refused a slot", refused);
	producer_lock_is_taken = true;
	wrong |= play_known(with_lock_taken, ARRAY_SIZE(with_lock_taken), NULL);
	producer_lock_is_taken = false;
	parse_sequence(&nobody_reads, "");
	begin_play(&nobody_reads, NSEC_PER_SEC, false);
	wrong |= tell_of("a slot is promised twice", breaks_a_promise());
	begin_play(&nobody_reads, NSEC_PER_SEC, false);
	wrong |= tell_of("a queue is stopped with coarse timers", stops_with_coarse_timers());
	if (!wrong)
		printf("fine: %zu readers\n", ARRAY_SIZE(readers));
	return wrong;
}
