/*
 * test_lane_cases.c - one lane at a time under the microscope: the peer is the test itself, which
 * posts immediates by hand, right and wrong. Credits, probes, stops, ends from every state, reuse
 * of entries, sleeping. RF_TSAN: the lanes have threads.
 */
#include <string.h>
#include <unistd.h>

#include "lane_rig.h"

static RfFlow *
flow_of(int node, uint32_t index)
{
	return &rig_nodes[node].shared->flows[index];
}

/* Wait until a shared word has a value; aborts when that never comes. */
#define AWAIT(condition) \
	do { \
		double		deadline_ = rig_seconds() + RIG_PATIENCE; \
		while (!(condition)) \
		{ \
			usleep(200); \
			if (rig_seconds() > deadline_) \
			{ \
				fprintf(stderr, "%s:%d: never came: %s\n", __FILE__, __LINE__, #condition); \
				abort(); \
			} \
		} \
	} while (0)

static RfSlotCursor sent;
static RfSlotCursor got;

static void
open_pair(uint32_t slots, uint32_t *consumer, uint32_t *producer)
{
	memset(&sent, 0, sizeof(sent));
	memset(&got, 0, sizeof(got));
	AWAIT(rig_connected());
	*consumer = rig_listen(1, 1, slots, 4096, 77);
	*producer = rig_open(0, 0, *consumer, 77);
	CHECK(*producer != UINT32_MAX);
}

static void
send_one(uint32_t producer, uint32_t length)
{
	uint8_t    *slot = rig_acquire(0, 0, producer, &sent);

	CHECK(slot != NULL);
	memset(slot + 64, (int) sent.next, length);
	if (rf_slot_submit(flow_of(0, producer), &sent, length, RF_SLOT_FIRST | RF_SLOT_LAST, 1))
		rig_ring(0, producer);
}

static void
read_one(uint32_t consumer, bool expect_ring)
{
	RfSlotHeader header;
	uint8_t    *payload;
	bool		ring;

	CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
	ring = rf_slot_release(flow_of(1, consumer), &got);
	CHECK(!expect_ring || ring);
	if (ring)
		rig_ring(1, consumer);
}

/* One buffer: credit comes back at once, and nothing is sent before it. */
static void
test_single_buffer(void)
{
	uint32_t	consumer;
	uint32_t	producer;
	RfSlotHeader header;
	uint8_t    *payload;

	open_pair(1, &consumer, &producer);
	for (int i = 0; i < 500; i++)
	{
		send_one(producer, 100);
		read_one(consumer, true);
	}
	CHECK(atomic_load(&flow_of(1, consumer)->stats.credits_sent) >= 499);

	/* Its reader rests: the slot is free again, but the second send waits for credit and probes. */
	send_one(producer, 10);
	AWAIT(atomic_load(&flow_of(1, consumer)->completed) == 501);
	send_one(producer, 10);
	AWAIT(atomic_load(&flow_of(0, producer)->stats.probes) >= 2);
	CHECK(atomic_load(&flow_of(0, producer)->stats.credit_stalls) >= 1);
	CHECK(atomic_load(&flow_of(0, producer)->completed) == 501);
	read_one(consumer, true);
	read_one(consumer, true);

	/* The end: the acknowledgement is the credit for the END slot. */
	CHECK(rig_acquire(0, 0, producer, &sent) != NULL);
	if (rf_slot_submit(flow_of(0, producer), &sent, 0, RF_SLOT_END, 0))
		rig_ring(0, producer);
	CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_END);
	CHECK(header.rows == 502 && header.bytes == 500 * 100 + 20);
	AWAIT(rf_slot_acked(flow_of(0, producer)));
	rig_close(0, producer, false, false);
	AWAIT(atomic_load(&flow_of(1, consumer)->remote_end) == 1 + RF_END_CLEAN);
	CHECK(atomic_load(&flow_of(0, producer)->state) == RF_FLOW_CLOSING);
	rig_close(1, consumer, false, false);
	CHECK(rig_all_free());
}

/* A release that the reader kept to itself is told when the producer probes. */
static void
test_probe_finds_credit(void)
{
	uint32_t	consumer;
	uint32_t	producer;
	RfSlotHeader header;
	uint8_t    *payload;

	open_pair(4, &consumer, &producer);
	for (int i = 0; i < 4; i++)
		send_one(producer, 4032);
	AWAIT(atomic_load(&flow_of(1, consumer)->completed) == 4);
	AWAIT(atomic_load(&flow_of(0, producer)->completed) == 4);
	CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
	CHECK(!rf_slot_release(flow_of(1, consumer), &got));	/* one of four: not told yet */
	usleep(20000);
	CHECK(atomic_load(&flow_of(0, producer)->credit) == 0);
	send_one(producer, 4032);
	AWAIT(atomic_load(&flow_of(0, producer)->credit) == 1);
	AWAIT(atomic_load(&flow_of(1, consumer)->completed) == 5);
	CHECK(atomic_load(&flow_of(0, producer)->stats.probes) >= 1);
	rig_close(1, consumer, true, false);
	AWAIT(atomic_load(&flow_of(0, producer)->stop) == 1);
	rig_close(0, producer, false, true);
	CHECK(rig_all_free());
}

/* The reader goes before the producer's engine even knows that the flow is open. */
static void
close_at_once(uint32_t consumer)
{
	rig_close(1, consumer, true, false);
	usleep(5000);
}

static void
test_stop_before_open(void)
{
	uint32_t	consumer;
	uint32_t	producer;

	rig_half_open = close_at_once;
	for (int i = 0; i < 20; i++)
	{
		open_pair(4, &consumer, &producer);
		if (i % 2 == 0)
		{
			send_one(producer, 10);
			AWAIT(atomic_load(&flow_of(0, producer)->stop) == 1);
		}
		rig_close(0, producer, false, true);
	}
	rig_half_open = NULL;
	CHECK(rig_all_free());
}

/* Full neighbours leave as one request, and a request's limit and the ring's end are kept. */
static bool
merge_once(void)
{
	uint32_t	consumer;
	uint32_t	producer;
	uint64_t	requests;
	uint64_t	merged;

	/* Two alone, so that the lane knows the flow; the next eight go round the end: six and two. */
	open_pair(8, &consumer, &producer);
	for (uint64_t i = 1; i <= 2; i++)
	{
		send_one(producer, 4032);
		AWAIT(atomic_load(&flow_of(1, consumer)->completed) == i);
		read_one(consumer, i == 2);
	}
	AWAIT(atomic_load(&flow_of(0, producer)->credit) == 2);

	/*
	 * Slots that are not rung for must not wait for the lane: it would not wake their producer
	 * before half are free.
	 */
	AWAIT(atomic_load(&flow_of(0, producer)->status[1]) == RF_SLOT_FREE);
	for (int i = 0; i < 8; i++)
	{
		CHECK(rig_acquire(0, 0, producer, &sent) != NULL);
		(void) rf_slot_submit(flow_of(0, producer), &sent, 4032, RF_SLOT_FIRST | RF_SLOT_LAST, 1);
	}
	rig_ring(0, producer);
	AWAIT(atomic_load(&flow_of(1, consumer)->completed) == 10);
	requests = atomic_load(&flow_of(0, producer)->stats.work_requests);
	merged = atomic_load(&flow_of(0, producer)->stats.merged);
	CHECK(requests >= 4 && requests + merged == 10);
	for (int i = 0; i < 8; i++)
		read_one(consumer, false);
	rig_close(1, consumer, true, false);
	rig_close(0, producer, false, true);
	CHECK(rig_all_free());
	return requests == 4;
}

/*
 * The lane may still be at the credit when the eight are handed over one by one, and then sends the
 * first of them alone.
 */
static void
test_merge(void)
{
	double		deadline = rig_seconds() + RIG_PATIENCE;

	while (!merge_once())
		CHECK(rig_seconds() < deadline);
}

/* Both sides give up in every order and state; entries come back and are used again. */
static void
test_ends(void)
{
	uint64_t	random = 5;

	for (int i = 0; i < 600; i++)
	{
		uint32_t	consumer;
		uint32_t	producer;
		int			slots = (int) (rig_random(&random) % 5);
		int			reads = (int) (rig_random(&random) % 5);
		bool		consumer_first = rig_random(&random) % 2;

		open_pair(4, &consumer, &producer);
		for (int k = 0; k < slots; k++)
			send_one(producer, 64);
		for (int k = 0; k < reads && k < slots; k++)
			read_one(consumer, false);
		if (rig_random(&random) % 2)
			usleep((useconds_t) (rig_random(&random) % 300));
		if (consumer_first)
			rig_close(1, consumer, true, false);
		if (rig_random(&random) % 2)
			usleep((useconds_t) (rig_random(&random) % 300));
		rig_close(0, producer, false, true);
		if (rig_random(&random) % 2)
			usleep((useconds_t) (rig_random(&random) % 300));
		if (!consumer_first)
			rig_close(1, consumer, rig_random(&random) % 2, false);
	}
	CHECK(rig_all_free());
}

/* Thousands of lives of an entry, without data: opening and closing must not leak. */
static void
test_reuse(void)
{
	for (int i = 0; i < 4000; i++)
	{
		uint32_t	consumer;
		uint32_t	producer;

		open_pair(1, &consumer, &producer);
		rig_close(1, consumer, true, false);
		rig_close(0, producer, false, true);
	}
	CHECK(rig_all_free());
}

/* An idle lane sleeps: no polls, no CPU. */
static void
test_idle(void)
{
	RfLane	   *lane = &rig_nodes[0].shared->lanes[0];
	double		deadline = rig_seconds() + RIG_PATIENCE;
	uint64_t	polls;

	AWAIT(rig_connected());
	do
	{
		AWAIT(atomic_load(&lane->asleep) == 1);
		CHECK(rig_seconds() < deadline);
		polls = atomic_load(&lane->polls);
		usleep(300000);
	} while (atomic_load(&lane->polls) - polls > 2 || atomic_load(&lane->asleep) != 1);
}

/*
 * Gaps of all lengths around the time the lane falls asleep: every doorbell and every immediate is
 * seen.
 */
static void
test_gaps(int rounds)
{
	uint64_t	random = 11;
	uint32_t	consumer;
	uint32_t	producer;

	open_pair(2, &consumer, &producer);
	for (int i = 0; i < rounds; i++)
	{
		uint64_t	spin = rig_random(&random) % 4000;

		send_one(producer, 8);
		for (volatile uint64_t k = 0; k < spin; k++);
		if (rig_random(&random) % 64 == 0)
			usleep((useconds_t) (rig_random(&random) % 100));
		read_one(consumer, false);
	}
	rig_close(1, consumer, true, false);
	rig_close(0, producer, false, true);
	CHECK(rig_all_free());
}

/*
 * Four full slots into a pool: those whose buffers are adjacent leave as one request, and the bytes
 * of each are in the buffer that the reader is told. Buffers are granted one by one, so it depends
 * on the threads how many leave together.
 */
static uint64_t
fill_pool(void)
{
	RfReceivePool *pool = rig_pool(1, 0, 8, 4096, false);
	uint32_t	consumer = rig_listen_pooled(1, 1, pool, 4, 77);
	uint32_t	producer = rig_open(0, 0, consumer, 77);
	uint64_t	merged;

	CHECK(producer != UINT32_MAX);
	memset(&sent, 0, sizeof(sent));
	memset(&got, 0, sizeof(got));
	for (int i = 0; i < 4; i++)
	{
		uint8_t    *slot = rig_acquire(0, 0, producer, &sent);

		memset(slot + 64, 'a' + i, 4032);
		(void) rf_slot_submit(flow_of(0, producer), &sent, 4032, RF_SLOT_FIRST | RF_SLOT_LAST, 1);
	}
	rig_ring(0, producer);
	for (int i = 0; i < 4; i++)
	{
		RfSlotHeader header;
		uint8_t    *payload;

		CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
		CHECK(header.length == 4032 && payload[0] == 'a' + i && payload[4031] == 'a' + i);
		if (rf_slot_release(flow_of(1, consumer), &got))
			rig_ring(1, consumer);
	}
	merged = atomic_load(&flow_of(0, producer)->stats.merged);
	CHECK(atomic_load(&flow_of(0, producer)->stats.work_requests) >= 4 - merged);
	rig_close(0, producer, false, true);
	rig_close(1, consumer, true, false);
	CHECK(rig_all_free());
	return merged;
}

static void
test_pool_merge(void)
{
	AWAIT(rig_connected());
	for (int tries = 0; fill_pool() == 0; tries++)
		CHECK(tries < 100000);
}

/* ---------- a peer that breaks the rules ---------- */

/*
 * Node 0's queue pair is used by the test, which its lane does not notice: a stray completion is an
 * error there too, so both sides lose the connection, and both must come back.
 */
static void
post_by_hand(RfWr *wr)
{
	rf_provider_sim.qp_post(rig_nodes[0].qps[0], wr);
}

static RfWr
immediate(uint32_t imm)
{
	return (RfWr)
	{
		.opcode = RF_WR_WRITE_IMM, .imm = imm
	};
}

/* `mail`: NULL, or what the request writes, of which the flow 0x1fff stands for the open one. */
static void
expect_error_of(RfWr wr, RfMail *mail)
{
	uint32_t	consumer;
	uint32_t	producer;
	uint64_t	errors = atomic_load(&rig_nodes[1].shared->lanes[0].protocol_errors);

	open_pair(4, &consumer, &producer);
	send_one(producer, 8);
	AWAIT(atomic_load(&flow_of(1, consumer)->completed) == 1);
	if (mail != NULL)
		mail->words[0] = (mail->words[0] & ~(0x1fffu << 16)) | (consumer << 16);
	else if (RF_IMM_FLOW(wr.imm) == 0x1fff && RF_IMM_KIND(wr.imm) != RF_IMM_PATH)
		wr.imm = (wr.imm & ~(0x1fffu << 16)) | (consumer << 16);
	post_by_hand(&wr);
	AWAIT(atomic_load(&rig_nodes[1].shared->lanes[0].protocol_errors) == errors + 1);
	AWAIT(atomic_load(&flow_of(1, consumer)->state) == RF_FLOW_FAILED);
	AWAIT(atomic_load(&flow_of(0, producer)->state) == RF_FLOW_FAILED);
	CHECK(rf_flow_error(rig_nodes[1].shared, flow_of(1, consumer))->kind == RF_ERROR_PROTOCOL);

	/* Data that had arrived can still be read. */
	read_one(consumer, false);
	rig_close(0, producer, false, true);
	rig_close(1, consumer, true, false);
	CHECK(rig_all_free());
}

static void
expect_protocol_error(uint32_t imm)
{
	expect_error_of(immediate(imm), NULL);
}

/* A mail of so many words, of which the first is given and the second asks for credit. */
static void
expect_bad_mail(uint32_t place, uint32_t count, uint32_t bytes, uint32_t read, uint32_t word)
{
	const RfLaneProof *proof = &rig_nodes[0].proofs[0];
	RfMail	   *mail = (RfMail *) proof->source.addr + 8;
	RfSge		sge = {(const uint8_t *) mail, bytes, proof->source.lkey};
	RfWr		wr = immediate(RF_IMM(RF_IMM_PATH, RF_PATH_MAIL + place, count));

	AWAIT(rig_connected());
	mail->read = read;
	mail->words[0] = word;
	mail->words[1] = RF_IMM(RF_IMM_PROBE, 0, 0);
	wr.sge = &sge;
	wr.num_sge = 1;
	wr.remote_addr = proof->remote_addr + place * sizeof(RfMail);
	wr.rkey = proof->rkey;
	expect_error_of(wr, mail);
}

static void
test_bad_mails(void)
{
	const uint32_t probe = RF_IMM(RF_IMM_PROBE, 0x1fff, 0);

	expect_bad_mail(1, 2, 12, 0, probe);	/* not the next place */
	expect_bad_mail(0, 1, 8, 0, probe); /* one word */
	expect_bad_mail(0, RF_MAIL_WORDS + 1, 256, 0, probe);
	expect_bad_mail(0, 2, 16, 0, probe);	/* more bytes than words */
	expect_bad_mail(0, 3, 12, 0, probe);
	expect_bad_mail(0, 2, 12, 1, probe);	/* reads what was not sent */
	expect_bad_mail(0, 2, 12, 0, RF_IMM(RF_IMM_DATA, 0x1fff, 2));
	expect_bad_mail(0, 2, 12, 0, RF_IMM(RF_IMM_PATH, 0x1fff, 0));
	expect_bad_mail(0, 2, 12, 0, RF_IMM(RF_IMM_CREDIT, 0x1fff, 1)); /* to a reader */
	expect_protocol_error(RF_IMM(RF_IMM_PATH, RF_PATH_READ, 1));
	expect_protocol_error(RF_IMM(RF_IMM_PATH, RF_PATH_MAIL + RF_MAILS, 2));
}

/*
 * Flows that end together: their immediates leave in mails, more of them than there are places, and
 * each is counted once.
 */
static void
test_mails(void)
{
	enum
	{
		FLOWS = 24
	};
	uint32_t	consumers[FLOWS];
	uint32_t	producers[FLOWS];
	const RfLane *lanes[2] = {&rig_nodes[0].shared->lanes[0], &rig_nodes[1].shared->lanes[0]};

	AWAIT(rig_connected());
	for (int round = 0; round < 3 * RF_MAILS ||
		 atomic_load(&lanes[0]->merged) == 0 || atomic_load(&lanes[1]->merged) == 0; round++)
	{
		CHECK(round < 100000);
		for (int i = 0; i < FLOWS; i++)
		{
			consumers[i] = rig_listen(1, 1, 2, 4096, 77);
			producers[i] = rig_open(0, 0, consumers[i], 77);
			CHECK(producers[i] != UINT32_MAX);
		}
		for (int i = 0; i < FLOWS; i++)
			rig_close(0, producers[i], false, true);
		for (int i = 0; i < FLOWS; i++)
			rig_close(1, consumers[i], true, false);
		AWAIT(rig_all_free());
	}
	for (int n = 0; n < 2; n++)
	{
		CHECK(atomic_load(&lanes[n]->requests) ==
			  atomic_load(&lanes[n]->work_requests) + atomic_load(&lanes[n]->merged));
		CHECK(atomic_load(&lanes[n]->protocol_errors) == 0);
	}
}

static void
test_illegal(void)
{
	/* Flow 0x1fff stands for the open consumer flow. */
	expect_protocol_error(RF_IMM(RF_IMM_DATA, 0x1fff, 6));	/* five more, four buffers */
	expect_protocol_error(RF_IMM(RF_IMM_DATA, 0x1fff, 1));	/* nothing new */
	expect_protocol_error(RF_IMM(RF_IMM_DATA, 0x1fff, 0));	/* backwards */
	expect_protocol_error(RF_IMM(RF_IMM_CREDIT, 0x1fff, 1));	/* to a reader */
	expect_protocol_error(RF_IMM(RF_IMM_STOP, 0x1fff, 0));
	expect_protocol_error(RF_IMM(RF_IMM_END, 0x1fff, 3));	/* unknown way to end */
	expect_protocol_error(RF_IMM(5, 0x1fff, 0));	/* unknown kind */
	expect_protocol_error(RF_IMM(RF_IMM_DATA, RIG_FLOWS - 1, 1));	/* not attached */
	expect_protocol_error(RF_IMM(RF_IMM_DATA, RIG_FLOWS, 1));	/* outside of the table */
	expect_protocol_error(RF_IMM(RF_IMM_END, 0x1ffe, 0));
}

/* Slot headers that a backend must not believe. */
static void
test_bad_slots(void)
{
	for (int kind = 0; kind < 10; kind++)
	{
		RfFlow	   *flow = calloc(1, sizeof(RfFlow));
		uint8_t    *buffer = calloc(1, 8192);
		RfSlotHeader *header = (RfSlotHeader *) buffer;
		RfSlotHeader seen;
		RfSlotCursor cursor = {0};
		uint8_t    *payload;
		RfError		error = {0};

		flow->memory.buffers = buffer;
		flow->slot_count = 2;
		flow->slot_size = 4096;
		flow->key = 9;
		*header = (RfSlotHeader)
		{
			.magic = RF_SLOT_MAGIC, .flags = RF_SLOT_FIRST, .key = 9, .length = 4032
		};
		switch (kind)
		{
			case 0:
				header->magic++;
				break;
			case 1:
				header->key++;
				break;
			case 2:
				header->sequence = 1;
				break;
			case 3:
				header->length = 4033;
				break;
			case 4:
				header->flags = 8;
				break;
			case 5:
				header->flags = RF_SLOT_LAST;
				break;
			case 6:
				header->flags = RF_SLOT_END;
				break;
			case 7:
				header->flags = RF_SLOT_END;
				header->length = 0;
				header->rows = 1;
				break;
			case 8:
				header->offset = 4032;	/* the first piece has nothing before it */
				break;
			case 9:
				/* the second one has */
				cursor.in_batch = true;
				cursor.offset = 4032;
				header->flags = RF_SLOT_LAST;
				header->offset = 4096;
				break;
		}
		atomic_store(&flow->status[0], RF_SLOT_FULL);
		CHECK(rf_slot_read(flow, &cursor, &seen, &payload, &error) == RF_READ_BAD);
		CHECK(error.kind == RF_ERROR_PROTOCOL && error.message[0] != 0);
		free(buffer);
		free(flow);
	}
}

#define RUN(what, call) (call, printf("ok - %s\n", what))

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 20000;
	RfSimConfig sim = {.seed = 3, .delay_max = 3};

	setvbuf(stdout, NULL, _IOLBF, 0);
	RUN("slot headers that are not believed", test_bad_slots());

	rig_start(&sim);
	RUN("one buffer", test_single_buffer());
	RUN("a probe finds credit", test_probe_finds_credit());
	RUN("full neighbours merge", test_merge());
	RUN("ends in every order", test_ends());
	RUN("a STOP does not overtake the opening", test_stop_before_open());
	RUN("entries used again", test_reuse());
	RUN("an idle lane sleeps", test_idle());
	RUN("gaps, with polling", test_gaps(rounds));
	RUN("immediates of many flows in mails", test_mails());
	RUN("slots merge into adjacent buffers of a pool", test_pool_merge());
	CHECK(atomic_load(&rig_nodes[0].shared->lanes[0].protocol_errors) == 0);
	CHECK(atomic_load(&rig_nodes[1].shared->lanes[0].protocol_errors) == 0);
	RUN("illegal immediates", test_illegal());
	RUN("illegal mails", test_bad_mails());
	rig_stop();

	/* Without any spinning every gap puts the lanes to sleep. */
	rig_config.poll_us = 0;
	rig_start(&sim);
	RUN("gaps, without polling", test_gaps(rounds));
	rig_stop();
	return 0;
}
