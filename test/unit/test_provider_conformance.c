/*
 * test_provider_conformance.c - the contract of provider.h, against every provider: which bytes are
 * carried, in which order, and which requests are refused. test_provider_life.c has ends and
 * wake-ups. Arguments: see conformance.h.
 */
#include "conformance.h"

/* ---------- plain transfer ---------- */

static void
test_write(void)
{
	Pair		pair;
	RfDeviceCaps caps;

	pair_open(&pair, kind);
	pair.a.provider->device_caps(pair.a.device, &caps);
	check(caps.provider[0] && caps.max_message <= RF_MAX_MESSAGE && caps.max_sge <= RF_MAX_SGE,
		  "capabilities");

	fill(&pair.a, 100, 5000, 1);
	send_one(&pair.a, &pair.b, 100, 5000, false, 0, true, 77);
	check(pair_wait(&pair, &pair.a, 1) && completed(&pair.a, 77, RF_WC_SUCCESS) &&
		  pair.a.log[0].qp_context == &pair.a, "a write completes at the sender");
	pair_settle(&pair);
	check(same(&pair, 100, 5000), "its bytes are there");
	check(pair.b.logged == 0 && pair.b.memory[99] == 0 && pair.b.memory[5100] == 0,
		  "silently, and no byte beside them changed");

	fill(&pair.b, 10000, 70000, 3);
	send_one(&pair.b, &pair.a, 10000, 70000, true, 0xfedcba98, false, 5);
	check(pair_wait(&pair, &pair.a, 2) && pair.a.log[1].opcode == RF_WC_RECV_IMM &&
		  pair.a.log[1].imm == 0xfedcba98 && pair.a.log[1].byte_len == 70000 &&
		  same(&pair, 10000, 70000),
		  "an immediate comes after its data, the other way too");
	pair_settle(&pair);
	check(pair.b.logged == 0, "unsignaled work is silent");

	send_one(&pair.a, &pair.b, 0, 0, true, 9, true, 6);
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].imm == 9 && pair.b.log[0].byte_len == 0,
		  "an immediate without bytes");
	pair_close(&pair);
}

static void
test_order(void)
{
	enum
	{
		ROUNDS = 2000
	};
	Pair		pair;
	bool		in_order = true;
	bool		data_first = true;
	int			seen = 0;
	int			posted = 0;
	int			finished = 0;
	double		deadline = now_seconds() + PATIENCE;

	pair_open_as(&pair, kind, 16 << 20, 64, 64, false);
	while (seen < ROUNDS && now_seconds() < deadline)
	{
		/* Seen, too: a completion need not mean that it has arrived. */
		while (posted < ROUNDS && posted - finished < 32 && posted - seen < 32)
		{
			size_t		offset = (posted % 32) * 4096;

			/* two pieces: the immediate must cover the silent write before it as well */
			memset(pair.a.memory + offset, posted, 4096);
			send_one(&pair.a, &pair.b, offset, 2048, false, 0, false, 0);
			send_one(&pair.a, &pair.b, offset + 2048, 2048, true, posted, posted % 8 == 7, posted);
			posted++;
		}
		pair_pump(&pair);
		for (; seen < pair.b.logged; seen++)
		{
			RfWc	   *wc = &pair.b.log[seen];
			size_t		offset = (seen % 32) * 4096;

			in_order &= wc->opcode == RF_WC_RECV_IMM && wc->imm == seen;
			for (int i = 0; i < 4096; i += 512)
				data_first &= pair.b.memory[offset + i] == (char) seen;
		}
		for (int i = 0; i < pair.a.logged; i++)
			finished = pair.a.log[i].wr_id + 1;
	}
	check(seen == ROUNDS && in_order, "immediates keep their order");
	check(data_first, "and come after all data posted before them");
	pair_wait(&pair, &pair.a, ROUNDS / 8);
	in_order = true;
	for (int i = 0; i < pair.a.logged; i++)
		in_order &= pair.a.log[i].wr_id == i * 8 + 7 && pair.a.log[i].status == RF_WC_SUCCESS;
	check(pair.a.logged == ROUNDS / 8 && in_order, "only signaled work completes, in order");
	pair_close(&pair);
}

static void
test_chain(void)
{
	static Request r[200];
	Pair		pair;
	RfProviderStats stats;

	pair_open(&pair, kind);
	fill(&pair.a, 0, 200 * 1000, 5);
	for (int i = 0; i < 200; i++)
	{
		request(&r[i], &pair.a, &pair.b, i * 1000, i * 1000, 1000);
		r[i].wr.next = i < 199 ? &r[i + 1].wr : NULL;
		if (i == 199)
		{
			r[i].wr.opcode = RF_WR_WRITE_IMM;
			r[i].wr.signaled = true;
			r[i].wr.imm = 1234;
		}
	}
	pair.a.provider->qp_post(pair.a.qp, &r[0].wr);
	memset(r, 0xee, sizeof(r));
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].imm == 1234 && same(&pair, 0, 200 * 1000) &&
		  pair_wait(&pair, &pair.a, 1), "a chain of 200, its requests reused after post");
	pair.a.provider->cq_stats(pair.a.cq, &stats);
	check(stats.work_requests == 200 && stats.bytes == 200 * 1000 && stats.posts >= 1 &&
		  stats.posts <= 20,
		  "counters of a chain");
	pair_close(&pair);
}

static void
test_sizes(void)
{
	Pair		pair;
	Request		r;
	size_t		at = 0;
	int			entries;

	pair_open_as(&pair, kind, 20 << 20, 64, 64, false);
	fill(&pair.a, 8, RF_MAX_MESSAGE, 11);
	send_one(&pair.a, &pair.b, 8, RF_MAX_MESSAGE, true, 8, true, 1);
	check(pair_wait(&pair, &pair.b, 1) && same(&pair, 8, RF_MAX_MESSAGE) &&
		  pair_wait(&pair, &pair.a, 1) && pair.b.log[0].byte_len == RF_MAX_MESSAGE,
		  "a message of 8 MiB");

	entries = most_entries(&pair);
	request(&r, &pair.a, &pair.b, 0, 10 << 20, 1);
	r.wr.num_sge = entries;
	for (int i = 0; i < entries; i++)
	{
		r.sge[i].addr = pair.a.memory + i * 5000;
		r.sge[i].length = i == 3 ? 0 : i * 37 + 1;
		r.sge[i].lkey = pair.a.region->lkey;
	}
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.imm = 30;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.b, 2), "as many entries as allowed arrive");
	for (int i = 0; i < entries; i++)
	{
		if (memcmp(pair.b.memory + (10 << 20) + at, r.sge[i].addr, r.sge[i].length) != 0)
			break;
		at += r.sge[i].length;
	}
	check(at == pair.b.log[1].byte_len && at > 0, "and lie one behind the other");
	pair_close(&pair);

	pair_open_as(&pair, kind, 20 << 20, 64, 64, false);
	send_one(&pair.a, &pair.b, 0, RF_MAX_MESSAGE + 1, true, 1, true, 2);
	check(pair_wait(&pair, &pair.a, 1) && completed(&pair.a, 2, RF_WC_LOCAL),
		  "a message too long fails here");
	pair_close(&pair);

	pair_open(&pair, kind);
	request(&r, &pair.a, &pair.b, 0, 0, 1);
	r.wr.num_sge = entries + 1;
	for (int i = 0; i <= entries; i++)
		r.sge[i] = r.sge[0];
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].status == RF_WC_LOCAL,
		  "one more fails here");
	pair_close(&pair);
}

/* ---------- violations ---------- */

/*
 * Post good, bad, good, signaled or not, and see: the first succeeds, the bad one fails with that
 * status, the last is flushed, the target is told, its memory is untouched.
 */
static void
violation(const char *name, RfWcStatus expected, void (*spoil) (Pair *pair, Request *bad))
{
	Pair		pair;
	Request		bad;
	char		text[128];
	bool		good;
	bool		later;

	pair_open(&pair, kind);
	memset(pair.a.memory, 7, 4096);
	send_one(&pair.a, &pair.b, 0, 16, true, 1, false, 1);
	send_one(&pair.a, &pair.b, 16, 16, true, 2, true, 2);
	request(&bad, &pair.a, &pair.b, 0, 8192, 64);
	bad.wr.wr_id = 3;
	spoil(&pair, &bad);
	pair.a.provider->qp_post(pair.a.qp, &bad.wr);
	send_one(&pair.a, &pair.b, 32, 16, false, 0, false, 4);
	send_one(&pair.a, &pair.b, 48, 16, true, 5, true, 5);
	later = expected == RF_WC_REMOTE_ACCESS && refused_later(&pair);
	good = later ? peer_refuses(&pair, 4) : pair_wait(&pair, &pair.a, 4);
	if (expected == RF_WC_REMOTE_ACCESS)
		await_disconnect(&pair, &pair.b);
	pair_settle(&pair);
	snprintf(text, sizeof(text), "%s: the one before succeeds, it fails, the others are flushed",
			 name);
	check(good && completed(&pair.a, 2, RF_WC_SUCCESS) && disconnects(&pair.a) <= 1 &&
		  (later ||
		   (completed(&pair.a, 3, expected) && completed(&pair.a, 4, RF_WC_FLUSHED) &&
			completed(&pair.a, 5, RF_WC_FLUSHED) && completion(&pair.a, 1) == NULL &&
			count_of(&pair.a, RF_WC_WRITE, expected) == 1)), text);
	if (expected == RF_WC_REMOTE_ACCESS)
	{
		snprintf(text, sizeof(text), "%s: the target got what came before, then fails", name);
		check(count_of(&pair.b, RF_WC_RECV_IMM, RF_WC_SUCCESS) == 2 && disconnects(&pair.b) == 1 &&
			  pair.b.memory[32] == 0 && pair.b.memory[48] == 0 && pair.b.memory[8192] == 0, text);
	}
	pair.a.logged = 0;
	send_one(&pair.a, &pair.b, 0, 16, true, 6, false, 6);
	pair_wait(&pair, &pair.a, 1);
	snprintf(text, sizeof(text), "%s: later posts are flushed, signaled or not", name);
	check(completed(&pair.a, 6, RF_WC_FLUSHED), text);
	pair_close(&pair);
}

static void
spoil_rkey(Pair *pair, Request *bad)
{
	bad->wr.rkey ^= 0x5a5a5a00;
}

static void
spoil_end(Pair *pair, Request *bad)
{
	bad->wr.remote_addr = (uint64_t) (uintptr_t) pair->b.memory + pair->b.size - 63;
}

static void
spoil_begin(Pair *pair, Request *bad)
{
	bad->wr.remote_addr = (uint64_t) (uintptr_t) pair->b.memory - 1;
}

static void
spoil_wrap(Pair *pair, Request *bad)
{
	bad->wr.remote_addr = UINT64_MAX - 10;
}

static void
spoil_lkey(Pair *pair, Request *bad)
{
	bad->sge[0].lkey ^= 0x5a5a5a00;
}

static void
spoil_local(Pair *pair, Request *bad)
{
	bad->sge[0].addr = pair->a.memory + pair->a.size - 63;
}

static void
test_violations(void)
{
	violation("unknown rkey", RF_WC_REMOTE_ACCESS, spoil_rkey);
	violation("one byte behind the region", RF_WC_REMOTE_ACCESS, spoil_end);
	violation("one byte before the region", RF_WC_REMOTE_ACCESS, spoil_begin);
	violation("address that wraps around", RF_WC_REMOTE_ACCESS, spoil_wrap);
	violation("unknown lkey", RF_WC_LOCAL, spoil_lkey);
	violation("local end of region", RF_WC_LOCAL, spoil_local);
}

static void
test_regions(void)
{
	Pair		pair;
	Request		r;
	int			fd;
	char	   *memory;
	RfRegion   *region;
	RfError		error = {0};

	pair_open(&pair, kind);
	memory = shared_memory(1 << 20, &fd);
	region = pair.b.provider->region_register(pair.b.domain, memory, 1 << 20, fd, &error);
	close(fd);
	check(region != NULL && region->rkey != 0, "register after connect");
	fill(&pair.a, 0, 1000, 9);
	request(&r, &pair.a, &pair.b, 0, 0, 1000);
	r.wr.remote_addr = (uint64_t) (uintptr_t) memory + (1 << 20) - 1000;
	r.wr.rkey = region->rkey;
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.signaled = true;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].opcode == RF_WC_RECV_IMM &&
		  memcmp(memory + (1 << 20) - 1000, pair.a.memory, 1000) == 0, "its rkey works at once");
	pair_wait(&pair, &pair.a, 1);
	memset(memory, 0, 1 << 20);
	pair.b.provider->region_deregister(pair.b.domain, region);
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(peer_refuses(&pair, 2) && memory[(1 << 20) - 1] == 0,
		  "and is refused after deregistration");
	munmap(memory, 1 << 20);
	pair_close(&pair);

	/* many regions that come and go between polls */
	pair_open(&pair, kind);
	memory = shared_memory(4096, &fd);
	for (int i = 0; i < 300; i++)
	{
		region = pair.b.provider->region_register(pair.b.domain, memory, 4096, fd, &error);
		if (region == NULL)
			die("region_register", error.message);
		if (i < 299)
			pair.b.provider->region_deregister(pair.b.domain, region);
	}
	r.wr.remote_addr = (uint64_t) (uintptr_t) memory;
	r.wr.rkey = region->rkey;
	r.sge[0].addr = pair.a.memory;
	r.sge[0].lkey = pair.a.region->lkey;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].opcode == RF_WC_RECV_IMM,
		  "the last of 300 regions works");
	pair.b.provider->region_deregister(pair.b.domain, region);
	munmap(memory, 4096);
	close(fd);
	pair_close(&pair);
}

/* Memory that is only ever sent from: gathered with other memory, and out of the peer's reach. */
static void
test_sources(void)
{
	Pair		pair;
	Request		r;
	RfSge		sge[2];
	RfError		error = {0};
	char	   *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
							  0);
	RfRegion   *here;
	RfRegion   *there;

	pair_open(&pair, kind);
	here = pair.a.provider->source_register(pair.a.domain, memory, 4096, &error);
	there = pair.b.provider->source_register(pair.b.domain, memory + 4096, 4096, &error);
	check(here != NULL && here->rkey == 0 && there != NULL && there->rkey == 0,
		  "a source has no remote key");
	memset(memory, 's', 4096);
	memset(memory + 4096, 't', 4096);
	fill(&pair.a, 0, 64, 5);
	request(&r, &pair.a, &pair.b, 0, 0, 64);
	sge[0] = r.sge[0];
	sge[1] = (RfSge) {.addr = memory + 96, .length = 4000, .lkey = here->lkey};
	r.wr.sge = sge;
	r.wr.num_sge = 2;
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.signaled = true;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].byte_len == 4064 &&
		  memcmp(pair.b.memory, pair.a.memory, 64) == 0 &&
		  memcmp(pair.b.memory + 64, memory + 96, 4000) == 0,
		  "a request gathers from a region and a source");
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].status == RF_WC_SUCCESS, "and completes");

	r.wr.num_sge = 1;
	r.wr.remote_addr = (uint64_t) (uintptr_t) there->addr;
	r.wr.rkey = there->lkey;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(peer_refuses(&pair, 2) && memory[4096] == 't',
		  "a peer cannot write to a source, whatever key it names");
	pair.a.provider->region_deregister(pair.a.domain, here);
	pair.b.provider->region_deregister(pair.b.domain, there);
	pair_close(&pair);

	pair_open(&pair, kind);
	here = pair.a.provider->source_register(pair.a.domain, memory, 4096, &error);
	sge[0] = (RfSge) {.addr = memory, .length = 100, .lkey = here->lkey};
	pair.a.provider->region_deregister(pair.a.domain, here);
	request(&r, &pair.a, &pair.b, 0, 0, 64);
	r.wr.sge = sge;
	r.wr.signaled = true;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].status == RF_WC_LOCAL,
		  "nor is a deregistered one sent from");
	munmap(memory, 8192);
	pair_close(&pair);
}

/* ---------- limits ---------- */

static void
test_limits(void)
{
	Pair		pair;
	int			got;
	double		deadline = now_seconds() + 2 * PATIENCE;

	/* the receiver does not poll: completions beyond max_recv wait, nothing is lost */
	pair_open_as(&pair, kind, 1 << 20, 256, 32, false);
	for (int i = 0; i < 200; i++)
		send_one(&pair.a, &pair.b, 0, 8, true, i, i % 16 == 15, i);
	for (int i = 0; i < 50; i++)
	{
		RfWc		wc[8];

		if (kind == PAIR_SIM)
			rf_sim_run(100);
		got = pair.a.provider->cq_poll(pair.a.cq, wc, 8);
		for (int k = 0; k < got; k++)
			pair.a.log[pair.a.logged++] = wc[k];
	}
	check(pair_wait(&pair, &pair.b, 200) && pair.b.log[199].imm == 199 && disconnects(&pair.b) == 0,
		  "a receiver that is late loses nothing");
	check(pair_wait(&pair, &pair.a, 200 / 16), "and the sender completes");
	pair_close(&pair);

	pair_open_as(&pair, kind, 16 << 20, 16, 16, false);
	if (kind == PAIR_SHM)
	{
		/* memory copies complete at once, so the queue only fills behind a full ring */
		for (int i = 0; i < 16; i++)
			send_one(&pair.a, &pair.b, 0, 8, true, i, false, 1000);
	}
	for (int i = 0; i < 40; i++)
		send_one(&pair.a, &pair.b, 0, 65536, true, i, true, i);
	do
	{
		pair_pump(&pair);
		got = 0;
		for (int i = 0; i < 40; i++)
			got += completion(&pair.a, i) != NULL;
	} while (got < 40 && now_seconds() < deadline);
	check(got == 40 && (kind == PAIR_VERBS || count_of(&pair.a, RF_WC_WRITE, RF_WC_LOCAL) == 1),
		  "posting beyond max_wr fails by completions");
	pair_close(&pair);
}

/* ---------- both ends in one place ---------- */

static void
test_loopback(void)
{
	Pair		pair;
	int			number = kind == PAIR_VERBS ? 30 : 200; /* an emulated device is slow */
	int			posted[2] = {0, 0};
	int			left[2] = {0, 0};
	int			scanned[2] = {0, 0};
	double		deadline = now_seconds() + PATIENCE;

	pair_open_as(&pair, kind, 16 << 20, 64, 64, true);
	while ((pair.a.logged < 2 * number || pair.b.logged < 2 * number) && now_seconds() < deadline)
	{
		for (int side = 0; side < 2; side++)
		{
			End		   *from = side ? &pair.b : &pair.a;
			End		   *to = side ? &pair.a : &pair.b;

			while (posted[side] < number && left[side] < 4)
			{
				send_one(from, to, (size_t) (4 + side * 4) << 20, 1 << 20, true, posted[side], true,
						 posted[side]);
				posted[side]++;
				left[side]++;
			}
			for (; scanned[side] < from->logged; scanned[side]++)
				left[side] -= from->log[scanned[side]].opcode == RF_WC_WRITE;
		}
		pair_pump(&pair);
	}
	check(pair.a.logged == 2 * number && pair.b.logged == 2 * number &&
		  count_of(&pair.a, RF_WC_RECV_IMM, RF_WC_SUCCESS) == number &&
		  count_of(&pair.b, RF_WC_WRITE, RF_WC_SUCCESS) == number,
		  "1 MiB messages both ways on one completion queue in one thread");
	pair_close(&pair);
}

/*
 * Two lanes: two queue pairs between the same two domains. The second one fits into no completion
 * queue of a device (32,767 entries, soft-RoCE) together with the first, nor into that of 4,096
 * without making it larger, which soft-iWARP does not.
 */
static void
test_two_queue_pairs(void)
{
	Pair		pair;
	End			a2;
	End			b2;
	int			socks[2];
	int			many = kind == PAIR_VERBS ? 16300 : 64;
	RfQpConfig	config = {.max_wr = many, .max_recv = many};
	RfError		error = {0};
	uint8_t		blob_a[RF_QP_BLOB_SIZE];
	uint8_t		blob_b[RF_QP_BLOB_SIZE];

	pair_open(&pair, kind);
	a2 = pair.a;
	b2 = pair.b;
	a2.log = calloc(LOG_MAX, sizeof(RfWc));
	b2.log = calloc(LOG_MAX, sizeof(RfWc));
	a2.logged = b2.logged = 0;
	config.context = &a2;
	a2.qp = pair.a.provider->qp_create(pair.a.domain, pair.a.cq, &config, &error);
	config.context = &b2;
	b2.qp = pair.a.provider->qp_create(pair.b.domain, pair.b.cq, &config, &error);
	if (a2.qp == NULL || b2.qp == NULL)
		die("qp_create", error.message);
	pair_sockets(kind, socks);
	pair.a.provider->qp_local(a2.qp, blob_a);
	pair.a.provider->qp_local(b2.qp, blob_b);
	check(pair.a.provider->qp_connect(a2.qp, blob_b, socks[0], pair_key(kind, true), &error) &&
		  pair.a.provider->qp_connect(b2.qp, blob_a, socks[1], pair_key(kind, false), &error),
		  "a second queue pair between two domains");
	fill(&pair.a, 0, 300000, 3);
	send_one(&pair.a, &pair.b, 0, 100000, true, 1, true, 1);
	send_one(&a2, &b2, 100000, 100000, true, 2, true, 2);
	check(pair_wait(&pair, &pair.b, 1) && pair_wait(&pair, &b2, 1) && b2.log[0].imm == 2 &&
		  same(&pair, 0, 200000),
		  "both carry data");
	pair_wait(&pair, &a2, 1);
	pair.a.provider->qp_destroy(a2.qp);
	check(pair_wait(&pair, &b2, 2) && b2.log[1].opcode == RF_WC_DISCONNECTED, "one of them ends");
	send_one(&pair.a, &pair.b, 200000, 100000, true, 3, true, 3);
	check(pair_wait(&pair, &pair.b, 2) && pair.b.log[1].imm == 3 && same(&pair, 0, 300000),
		  "the other goes on");
	pair.a.provider->qp_destroy(b2.qp);
	free(a2.log);
	free(b2.log);
	pair_close(&pair);
}

/* ---------- compare and swap ---------- */

static void
post_swap(End *from, End *to, size_t offset, uint64_t compare, uint64_t swap, size_t result,
		  bool signaled, uint64_t wr_id)
{
	Request		r;

	request(&r, from, to, result, offset, sizeof(uint64_t));
	r.wr.opcode = RF_WR_COMPARE_SWAP;
	r.wr.compare = compare;
	r.wr.swap = swap;
	r.wr.signaled = signaled;
	r.wr.wr_id = wr_id;
	from->provider->qp_post(from->qp, &r.wr);
}

static uint64_t *
word(End *end, size_t offset)
{
	return (uint64_t *) (end->memory + offset);
}

static void
spoil_swap_rkey(Pair *pair, Request *bad)
{
	bad->wr.opcode = RF_WR_COMPARE_SWAP;
	bad->sge[0].length = sizeof(uint64_t);
	bad->wr.rkey ^= 0x5a5a5a00;
}

static void
spoil_swap_end(Pair *pair, Request *bad)
{
	bad->wr.opcode = RF_WR_COMPARE_SWAP;
	bad->sge[0].length = sizeof(uint64_t);
	bad->wr.remote_addr = (uint64_t) (uintptr_t) pair->b.memory + pair->b.size;
}

static void
spoil_swap_alignment(Pair *pair, Request *bad)
{
	bad->wr.opcode = RF_WR_COMPARE_SWAP;
	bad->sge[0].length = sizeof(uint64_t);
	bad->wr.remote_addr += 4;
}

static void
spoil_swap_length(Pair *pair, Request *bad)
{
	bad->wr.opcode = RF_WR_COMPARE_SWAP;
	bad->sge[0].length = 4;
}

static void
spoil_swap_entries(Pair *pair, Request *bad)
{
	bad->wr.opcode = RF_WR_COMPARE_SWAP;
	bad->wr.num_sge = 2;
	bad->sge[0].length = 4;
	bad->sge[1] = bad->sge[0];
}

static void
test_swap(void)
{
	enum
	{
		CHAIN = 100				/* more than a device or a stream has under way at once */
	};
	Pair		pair;
	RfDeviceCaps caps;
	bool		in_order = true;
	uint64_t	won[2] = {0, 0};
	double		deadline = now_seconds() + PATIENCE;

	pair_open(&pair, kind);
	pair.a.provider->device_caps(pair.a.device, &caps);
	if (!caps.atomics)
	{
		post_swap(&pair.a, &pair.b, 0, 0, 1, 64, true, 1);
		check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].status == RF_WC_LOCAL,
			  "compare-and-swap fails where there is none");
		pair_close(&pair);
		return;
	}
	*word(&pair.b, 0) = 5;
	post_swap(&pair.a, &pair.b, 0, 5, UINT64_MAX - 8, 64, true, 1);
	check(pair_wait(&pair, &pair.a, 1) && completed(&pair.a, 1, RF_WC_SUCCESS) &&
		  *word(&pair.a, 64) == 5 && *word(&pair.b, 0) == UINT64_MAX - 8,
		  "compare-and-swap of what is there");
	post_swap(&pair.a, &pair.b, 0, 5, 7, 72, true, 2);
	check(pair_wait(&pair, &pair.a, 2) && completed(&pair.a, 2, RF_WC_SUCCESS) &&
		  *word(&pair.a, 72) == UINT64_MAX - 8 && *word(&pair.b, 0) == UINT64_MAX - 8,
		  "and of something else, which stays");

	/*
	 * behind a write of the word and before an immediate, each finding the result of its
	 * predecessor
	 */
	*word(&pair.a, 4096) = 1;
	send_one(&pair.a, &pair.b, 4096, sizeof(uint64_t), false, 0, false, 0);
	for (uint64_t i = 0; i < CHAIN; i++)
		post_swap(&pair.a, &pair.b, 4096, i + 1, i + 2, 8192 + i * 8, false, 0);
	send_one(&pair.a, &pair.b, 0, 0, true, 77, true, 3);
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].imm == 77 &&
		  *word(&pair.b, 4096) == CHAIN + 1,
		  "a chain of them is executed before the immediate behind it");
	pair_wait(&pair, &pair.a, 3);
	for (uint64_t i = 0; i < CHAIN; i++)
		in_order &= *word(&pair.a, 8192 + i * 8) == i + 1;
	check(in_order && completed(&pair.a, 3, RF_WC_SUCCESS) && pair.a.logged == 3,
		  "in order, silently, and covered by the completion after them");
	pair_close(&pair);

	/* both ends count the same word up, and both ways at once */
	pair_open_as(&pair, kind, 1 << 20, 64, 64, false);
	for (int side = 0; side < 2; side++)
	{
		End		   *from = side ? &pair.b : &pair.a;

		for (int i = 0; i < 32; i++)
			post_swap(from, side ? &pair.a : &pair.b, 0, i, i + 1, 64, i % 8 == 7, i);
	}
	check(pair_wait(&pair, &pair.a, 4) && pair_wait(&pair, &pair.b, 4) && *word(&pair.a, 0) == 32 &&
		  *word(&pair.b, 0) == 32,
		  "both ways at once");
	*word(&pair.b, 0) = 0;
	for (uint64_t round = 0; won[0] < 100 && now_seconds() < deadline; round++)
	{
		uint64_t	seen = __atomic_load_n(word(&pair.b, 0), __ATOMIC_SEQ_CST);
		uint64_t	other = seen;

		post_swap(&pair.a, &pair.b, 0, seen, seen + 1, 64, true, round);
		/* the owner of the word, where that is atomic towards it */
		if (kind != PAIR_VERBS && round % 3 == 0)
			won[1] += __atomic_compare_exchange_n(word(&pair.b, 0), &other, seen + 1, false,
												  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		if (!pair_wait(&pair, &pair.a, 5 + round))
			break;
		won[0] += *word(&pair.a, 64) == seen;
	}
	check(won[0] == 100 && won[0] + won[1] == *word(&pair.b, 0),
		  "who counts with it loses no step");
	pair_close(&pair);

	violation("compare-and-swap, unknown rkey", RF_WC_REMOTE_ACCESS, spoil_swap_rkey);
	violation("compare-and-swap behind the region", RF_WC_REMOTE_ACCESS, spoil_swap_end);
	violation("compare-and-swap across a boundary", RF_WC_LOCAL, spoil_swap_alignment);
	violation("compare-and-swap of 4 bytes", RF_WC_LOCAL, spoil_swap_length);
	violation("compare-and-swap with two entries", RF_WC_LOCAL, spoil_swap_entries);
}

/* ---------- all of it ---------- */

static void
all(void)
{
	test_write();
	test_order();
	test_chain();
	test_sizes();
	test_violations();
	test_regions();
	test_sources();
	test_limits();
	test_loopback();
	test_two_queue_pairs();
	test_swap();
}

int
main(int argc, char **argv)
{
	return conformance_main(argc, argv, all);
}
