/*
 * test_queue.c - the merge queue and admission control in a lane: waiting slots merge, the window
 * is never passed, weights decide when flows compete, and each technique's counter stays at zero
 * when its setting is off.
 *
 * Nothing depends on time: the fabric is held until everything waits, and the order in which the
 * lane posts is compared. RF_TSAN: the lanes have threads.
 */
#include <string.h>
#include <unistd.h>

#include "../../src/engine/lane.h"
#include "lane_rig.h"

#define SLOTS		RF_MAX_SLOTS
#define SIZE		RIG_SLOT_MAX
#define FULL		(SIZE - 64)
#define FLOWS		4			/* the first is the plug that fills the window or the send queue */
#define LOG_SIZE	4096

static RfProvider provider;
static RfSlotCursor sent[FLOWS];
static RfSlotCursor got[FLOWS];
static uint32_t producers[FLOWS];
static uint32_t consumers[FLOWS];

/* The requests that node 0 posted. Written by its lane, read when all have arrived. */
static struct
{
	uint32_t	flow;			/* the consumer's index */
	uint32_t	bytes;
}			posted[LOG_SIZE];
static _Atomic uint32_t posted_count;

#define AWAIT(condition) \
	do { \
		int			tries_ = 0; \
		while (!(condition)) \
		{ \
			usleep(200); \
			if (tries_++ > 300000) \
			{ \
				fprintf(stderr, "%s:%d: never came: %s\n", __FILE__, __LINE__, #condition); \
				abort(); \
			} \
		} \
	} while (0)

static RfFlow *
flow_of(int node, uint32_t index)
{
	return &rig_nodes[node].shared->flows[index];
}

static uint64_t
counter(size_t offset)
{
	return rig_lane_sum(0, offset);
}

#define COUNTER(name) counter(offsetof(RfLane, name))

static void
post(RfQp *qp, RfWr *chain)
{
	for (RfWr *wr = chain; wr != NULL && qp == rig_nodes[0].qps[0]; wr = wr->next)
	{
		if (RF_IMM_KIND(wr->imm) == RF_IMM_DATA)
		{
			uint32_t	place = atomic_load(&posted_count);

			CHECK(place < LOG_SIZE);
			posted[place].flow = RF_IMM_FLOW(wr->imm);
			posted[place].bytes = wr->sge[0].length;
			atomic_store(&posted_count, place + 1);
		}
	}
	rf_provider_sim.qp_post(qp, chain);
}

static void
start(void)
{
	RfSimConfig sim = {.seed = 5, .delay_max = 3};

	provider = rf_provider_sim;
	provider.qp_post = post;
	rig_provider = &provider;
	rig_start(&sim);
	AWAIT(rig_connected());
	memset(sent, 0, sizeof(sent));
	memset(got, 0, sizeof(got));
	for (int i = 0; i < FLOWS; i++)
	{
		consumers[i] = rig_listen(1, i, SLOTS, SIZE, 100 + i);
		producers[i] = rig_open(0, FLOWS + i, consumers[i], 100 + i);
		CHECK(producers[i] != UINT32_MAX);
	}
}

static void
stop(void)
{
	for (int i = 0; i < FLOWS; i++)
	{
		rig_close(1, consumers[i], true, false);
		rig_close(0, producers[i], false, true);
	}
	CHECK(rig_all_free());
	CHECK(atomic_load(&rig_nodes[0].shared->admission.in_flight) == 0);
	rig_stop();
}

static void
hand_over(int i, int slots)
{
	for (int k = 0; k < slots; k++)
	{
		CHECK(rf_slot_fill(flow_of(0, producers[i]), &sent[i]) != NULL);
		(void) rf_slot_submit(flow_of(0, producers[i]), &sent[i], FULL,
							  RF_SLOT_FIRST | RF_SLOT_LAST, 1);
	}
	rig_ring(0, producers[i]);
}

/*
 * The plug's slots are out and nothing comes back; then the other flows hand over all they can. Let
 * go, and wait until all has arrived.
 */
static void
one_phase(int plug)
{
	uint64_t	plug_bytes = (uint64_t) plug * SIZE;
	uint64_t	before = COUNTER(bytes_sent);
	uint64_t	sleeps;

	atomic_store(&posted_count, 0);
	rig_hold(0, true);
	hand_over(0, plug);
	AWAIT(COUNTER(bytes_sent) == before + plug_bytes);
	for (int i = 1; i < FLOWS; i++)
		hand_over(i, SLOTS);

	/* The lane has taken all doorbells once it sleeps again after the last. */
	for (int i = 1; i < FLOWS; i++)
		AWAIT(atomic_load(&flow_of(0, producers[i])->queued) == 0);
	sleeps = COUNTER(sleeps);
	for (int i = 1; i < FLOWS; i++)
		rig_ring(0, producers[i]);
	AWAIT(COUNTER(sleeps) > sleeps && atomic_load(&rig_nodes[0].shared->lanes[0].asleep) == 1);
	rig_hold(0, false);

	for (int i = 0; i < FLOWS; i++)
	{
		RfFlow	   *consumer = flow_of(1, consumers[i]);
		uint64_t	all = sent[i].next;

		AWAIT(atomic_load(&consumer->completed) == all);
		while (got[i].next < all)
		{
			RfSlotHeader header;
			uint8_t    *payload;
			RfError		error;

			CHECK(rf_slot_read(consumer, &got[i], &header, &payload, &error) == RF_READ_DATA);
			CHECK(header.length == FULL && header.sequence == got[i].next - 1);
			(void) rf_slot_release(consumer, &got[i]);
		}
		rig_ring(1, consumers[i]);
		AWAIT(atomic_load(&flow_of(0, producers[i])->credit) == all);
		AWAIT(atomic_load(&flow_of(0, producers[i])->completed) == all);
	}
}

/*
 * Bytes of flows 1 to 3 in the whole cycles of turns, of which each ends with flow 3's. Not in the
 * first, in which everybody may send ahead, and no more when one of them has sent all it had.
 */
static void
add_shares(uint64_t shares[FLOWS])
{
	uint64_t	bytes[FLOWS] = {0};
	uint64_t	first[FLOWS] = {0};
	uint64_t	last[FLOWS] = {0};

	for (uint32_t k = 0; k < atomic_load(&posted_count); k++)
	{
		if (k > 0 && posted[k].flow == consumers[1] && posted[k - 1].flow == consumers[FLOWS - 1])
		{
			memcpy(last, bytes, sizeof(last));
			if (first[1] == 0)
				memcpy(first, bytes, sizeof(first));
		}
		for (int i = 1; i < FLOWS; i++)
		{
			if (posted[k].flow == consumers[i])
				bytes[i] += posted[k].bytes;
		}
		if (bytes[1] >= SLOTS * FULL || bytes[2] >= SLOTS * FULL || bytes[3] >= SLOTS * FULL)
			break;
	}
	for (int i = 1; i < FLOWS; i++)
		shares[i] += last[i] - first[i];
}

static void
test_weights(const char *what, const uint32_t weights[FLOWS], int phases, int plug)
{
	uint64_t	shares[FLOWS] = {0};
	uint64_t	total;
	uint32_t	sum = weights[1] + weights[2] + weights[3];

	for (int i = 1; i < FLOWS; i++)
		atomic_store(&flow_of(0, producers[i])->weight, weights[i]);
	for (int phase = 0; phase < phases; phase++)
	{
		one_phase(plug);
		add_shares(shares);
	}
	total = shares[1] + shares[2] + shares[3];
	for (int i = 1; i < FLOWS; i++)
	{
		double		share = (double) shares[i] / (double) total;
		double		due = (double) weights[i] / sum;

		printf("# %s: weight %u of %u, share %.3f, due %.3f\n", what, weights[i], sum, share, due);
		CHECK(share > 0.9 * due && share < 1.1 * due);
	}
	CHECK(COUNTER(turns) > 0);
}

static void
test_off(void)
{
	/*
	 * Nothing on: each slot is a work request with a doorbell and a completion of its own, and
	 * nothing waits.
	 */
	rig_config.merge_limit = 0;
	rig_config.chain_limit = 1;
	rig_config.signal_all = true;
	rig_config.admission_window = 0;
	rig_config.max_wr = 128;
	start();
	one_phase(2);
	CHECK(COUNTER(merged) == 0 && COUNTER(merged_while_throttled) == 0);
	CHECK(COUNTER(chained) == 0 && COUNTER(doorbells) == COUNTER(work_requests));
	CHECK(COUNTER(signaled) == COUNTER(work_requests));
	CHECK(COUNTER(throttled) == 0 && COUNTER(throttled_us) == 0 && COUNTER(turns) == 0);
	CHECK(atomic_load(&rig_nodes[0].shared->admission.high_water) == 0);
	CHECK(COUNTER(requests) == COUNTER(work_requests));
	stop();

	/* A window of zero bytes would mean off; this one lets one request at a time out. */
	rig_config.merge_limit = 1 << 20;
	rig_config.chain_limit = 16;
	rig_config.signal_all = false;
}

static void
test_window(uint64_t window)
{
	rig_config.admission_window = window;
	start();
	for (int i = 0; i < 5; i++)
		one_phase(2);
	CHECK(atomic_load(&rig_nodes[0].shared->admission.high_water) <= window);
	CHECK(atomic_load(&rig_nodes[0].shared->admission.high_water) >= window / 2);
	CHECK(COUNTER(throttled) > 0);
	CHECK(COUNTER(requests) == COUNTER(work_requests) + COUNTER(merged));
	CHECK(COUNTER(merged_while_throttled) > 0 &&
		  COUNTER(merged_while_throttled) <= COUNTER(merged));
	CHECK(COUNTER(signaled) <= COUNTER(work_requests));
	stop();
	rig_config.admission_window = 0;
}

/* Slots that the longest request of flow 2 had, which is never the only one left. */
static uint32_t
longest_turn(void)
{
	uint32_t	longest = 0;

	for (uint32_t k = 0; k < atomic_load(&posted_count); k++)
	{
		uint32_t	slots = (posted[k].bytes + 64) / SIZE;

		if (posted[k].flow == consumers[2] && slots > longest)
			longest = slots;
	}
	return longest;
}

/*
 * Flows that compete for a window merge within their turns. Turns of weight 3 are 48 kB, three
 * slots; 24 kB, one or two slots, beside the largest weight, whose turn would not fit into the
 * buffers of a flow otherwise. How the window opens again may cut a turn into pieces, so it is
 * tried until one is whole.
 */
static void
test_turns_merge(void)
{
	static const uint32_t weights[2] = {3, RF_MAX_WEIGHT};

	rig_config.admission_window = 9 * SIZE;
	start();
	for (int phase = 0; phase < 2; phase++)
	{
		uint32_t	whole = phase == 0 ? 3 : 2;
		uint32_t	longest;

		for (int i = 1; i < FLOWS; i++)
			atomic_store(&flow_of(0, producers[i])->weight, i == 1 ? weights[phase] : 3);
		for (int tries = 0;; tries++)
		{
			one_phase(9);
			longest = longest_turn();
			CHECK(longest <= whole && tries < 1000);
			if (longest == whole)
				break;
		}
	}
	stop();
	rig_config.admission_window = 0;
}

/* Many requests behind one: chained and signaled now and then. */
static void
test_chain(void)
{
	rig_config.merge_limit = 0;
	rig_config.max_wr = 8;
	start();
	one_phase(8);
	CHECK(COUNTER(merged) == 0);
	CHECK(COUNTER(chained) > 0 && COUNTER(chained) == COUNTER(work_requests) - COUNTER(doorbells));
	CHECK(COUNTER(signaled) < COUNTER(work_requests));
	stop();
	rig_config.merge_limit = 1 << 20;
	rig_config.max_wr = 128;
}

int
main(void)
{
	static const uint32_t unequal[FLOWS] = {10, 4, 2, 1};
	static const uint32_t turned[FLOWS] = {10, 1, 2, 4};
	static const uint32_t equal[FLOWS] = {10, 1, 1, 1};

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(sizeof(RfFlow) + sizeof(LaneFlow) < 1024);
	printf("ok - an idle flow takes %zu + %zu bytes on each side\n", sizeof(RfFlow),
		   sizeof(LaneFlow));

	rig_config.poll_us = 0;
	test_off();
	printf("ok - counters of what is switched off stay at zero\n");
	test_window(8 * SIZE);
	printf("ok - the window is kept, and what waits merges\n");
	test_turns_merge();
	printf("ok - a turn leaves merged\n");
	test_chain();
	printf("ok - a full send queue chains\n");

	/* Weights, at the window and at the send queue; followed at once when they change. */
	rig_config.admission_window = 2 * SIZE;
	start();
	test_weights("window", unequal, 5, 2);
	test_weights("window, changed", turned, 5, 2);
	test_weights("window, equal", equal, 5, 2);
	stop();
	rig_config.admission_window = 0;
	rig_config.merge_limit = 0;
	rig_config.max_wr = 2;
	start();
	test_weights("send queue", unequal, 5, 2);
	test_weights("send queue, equal", equal, 5, 2);
	stop();
	printf("ok - weights\n");
	return 0;
}
