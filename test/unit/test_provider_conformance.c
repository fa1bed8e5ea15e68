/* needs: src/provider/error.c src/provider/soft.c src/provider/soft_shm.c src/provider/soft_stream.c test/unit/sim.c; libs: -lpthread; tsan: yes */
/*
 * test_provider_conformance.c - every rule of provider.h's contract, against every provider.
 *
 * Arguments: names of providers (sim, shm, tcp, stream, verbs; default all but verbs, which also needs -DWITH_VERBS,
 * src/provider/verbs*.c and a device), rounds=N for the wake-up race (default 20000).
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <dirent.h>

#include "pair.h"

static const char *kind_name;
static PairKind kind;
static int	test_number;
static int	failures;
static uint64_t race_rounds = 20000;

static void
check(bool good, const char *name)
{
	printf("%s %d - %s: %s\n", good ? "ok" : "not ok", ++test_number, kind_name, name);
	fflush(stdout);
	if (!good)
		failures++;
}

/* ---------- work requests in one line ---------- */

typedef struct Request
{
	RfWr		wr;
	RfSge		sge[RF_MAX_SGE + 2];
} Request;

static Request *
request(Request *request, End *from, End *to, size_t from_offset, size_t to_offset, uint32_t length)
{
	memset(request, 0, sizeof(*request));
	request->wr.opcode = RF_WR_WRITE;
	request->wr.sge = request->sge;
	request->wr.num_sge = length > 0 ? 1 : 0;
	request->sge[0] = (RfSge)
	{
		from->memory + from_offset, length, from->region->lkey
	};
	request->wr.remote_addr = (uint64_t) (uintptr_t) (to->memory + to_offset);
	request->wr.rkey = to->region->rkey;
	return request;
}

static void
send_one(End *from, End *to, size_t offset, uint32_t length, bool imm, uint32_t value, bool signaled, uint64_t wr_id)
{
	Request		r;

	request(&r, from, to, offset, offset, length);
	r.wr.opcode = imm ? RF_WR_WRITE_IMM : RF_WR_WRITE;
	r.wr.imm = value;
	r.wr.signaled = signaled;
	r.wr.wr_id = wr_id;
	from->provider->qp_post(from->qp, &r.wr);
}

static void
fill(End *end, size_t offset, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		end->memory[offset + i] = (char) (seed + i * 31 + (i >> 8));
}

static bool
same(Pair *pair, size_t offset, size_t length)
{
	return memcmp(pair->a.memory + offset, pair->b.memory + offset, length) == 0;
}

static int
count_of(End *end, RfWcOpcode opcode, RfWcStatus status)
{
	int			count = 0;

	for (int i = 0; i < end->logged; i++)
		count += end->log[i].opcode == opcode && end->log[i].status == status;
	return count;
}

static int
disconnects(End *end)
{
	int			count = 0;

	for (int i = 0; i < end->logged; i++)
		count += end->log[i].opcode == RF_WC_DISCONNECTED;
	return count;
}

/* Pump until the end is told that its peer is gone. */
static void
await_disconnect(Pair *pair, End *end)
{
	double		deadline = now_seconds() + PATIENCE;

	while (disconnects(end) == 0 && now_seconds() < deadline)
		pair_pump(pair);
}

static RfWc *
completion(End *end, uint64_t wr_id)
{
	for (int i = 0; i < end->logged; i++)
	{
		if (end->log[i].opcode == RF_WC_WRITE && end->log[i].wr_id == wr_id)
			return &end->log[i];
	}
	return NULL;
}

static bool
completed(End *end, uint64_t wr_id, RfWcStatus status)
{
	RfWc	   *wc = completion(end, wr_id);

	return wc != NULL && wc->status == status;
}

/* ---------- plain transfer ---------- */

static void
test_write(void)
{
	Pair		pair;
	RfDeviceCaps caps;

	pair_open(&pair, kind);
	pair.a.provider->device_caps(pair.a.device, &caps);
	check(caps.provider[0] && caps.max_message <= RF_MAX_MESSAGE && caps.max_sge <= RF_MAX_SGE, "capabilities");

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
		  pair.a.log[1].imm == 0xfedcba98 && pair.a.log[1].byte_len == 70000 && same(&pair, 10000, 70000),
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
		while (posted < ROUNDS && posted - finished < 32)
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
	check(stats.work_requests == 200 && stats.bytes == 200 * 1000 && stats.posts >= 1 && stats.posts <= 20,
		  "counters of a chain");
	pair_close(&pair);
}

static void
test_sizes(void)
{
	Pair		pair;
	Request		r;
	size_t		at = 0;

	pair_open_as(&pair, kind, 20 << 20, 64, 64, false);
	fill(&pair.a, 8, RF_MAX_MESSAGE, 11);
	send_one(&pair.a, &pair.b, 8, RF_MAX_MESSAGE, true, 8, true, 1);
	check(pair_wait(&pair, &pair.b, 1) && same(&pair, 8, RF_MAX_MESSAGE) && pair_wait(&pair, &pair.a, 1) &&
		  pair.b.log[0].byte_len == RF_MAX_MESSAGE, "a message of 8 MiB");

	request(&r, &pair.a, &pair.b, 0, 10 << 20, 1);
	r.wr.num_sge = RF_MAX_SGE;
	for (int i = 0; i < RF_MAX_SGE; i++)
	{
		r.sge[i].addr = pair.a.memory + i * 5000;
		r.sge[i].length = i == 3 ? 0 : i * 37 + 1;
		r.sge[i].lkey = pair.a.region->lkey;
	}
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.imm = 30;
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.b, 2), "30 entries arrive");
	for (int i = 0; i < RF_MAX_SGE; i++)
	{
		if (memcmp(pair.b.memory + (10 << 20) + at, r.sge[i].addr, r.sge[i].length) != 0)
			break;
		at += r.sge[i].length;
	}
	check(at == pair.b.log[1].byte_len && at > 0, "and lie one behind the other");
	pair_close(&pair);

	pair_open_as(&pair, kind, 20 << 20, 64, 64, false);
	send_one(&pair.a, &pair.b, 0, RF_MAX_MESSAGE + 1, true, 1, true, 2);
	check(pair_wait(&pair, &pair.a, 1) && completed(&pair.a, 2, RF_WC_LOCAL), "a message too long fails here");
	pair_close(&pair);

	pair_open(&pair, kind);
	request(&r, &pair.a, &pair.b, 0, 0, 1);
	r.wr.num_sge = RF_MAX_SGE + 1;
	for (int i = 0; i <= RF_MAX_SGE; i++)
		r.sge[i] = r.sge[0];
	pair.a.provider->qp_post(pair.a.qp, &r.wr);
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].status == RF_WC_LOCAL, "31 entries fail here");
	pair_close(&pair);
}

/* ---------- violations ---------- */

/*
 * Post good, bad, good, signaled or not, and see: the first succeeds, the bad one fails with that status, the last is
 * flushed, the target is told, its memory is untouched.
 */
static void
violation(const char *name, RfWcStatus expected, void (*spoil) (Pair *pair, Request *bad))
{
	Pair		pair;
	Request		bad;
	char		text[128];
	bool		good;

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
	good = pair_wait(&pair, &pair.a, 4);
	if (expected == RF_WC_REMOTE_ACCESS)
		await_disconnect(&pair, &pair.b);
	pair_settle(&pair);
	snprintf(text, sizeof(text), "%s: the one before succeeds, it fails, the others are flushed", name);
	check(good && completed(&pair.a, 2, RF_WC_SUCCESS) && completed(&pair.a, 3, expected) &&
		  completed(&pair.a, 4, RF_WC_FLUSHED) && completed(&pair.a, 5, RF_WC_FLUSHED) &&
		  completion(&pair.a, 1) == NULL && count_of(&pair.a, RF_WC_WRITE, expected) == 1 &&
		  disconnects(&pair.a) <= 1, text);
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
	check(pair_wait(&pair, &pair.a, 2) && pair.a.log[1].status == RF_WC_REMOTE_ACCESS && memory[(1 << 20) - 1] == 0,
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
	check(pair_wait(&pair, &pair.b, 1) && pair.b.log[0].opcode == RF_WC_RECV_IMM, "the last of 300 regions works");
	pair.b.provider->region_deregister(pair.b.domain, region);
	munmap(memory, 4096);
	close(fd);
	pair_close(&pair);
}

/* ---------- limits ---------- */

static void
test_limits(void)
{
	Pair		pair;
	int			got;
	double		deadline = now_seconds() + 2 * PATIENCE;

	/* the receiver does not poll: what is beyond max_recv waits, nothing is lost */
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
	int			number = kind == PAIR_VERBS ? 30 : 200;	/* an emulated device is slow */
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
				send_one(from, to, (size_t) (4 + side * 4) << 20, 1 << 20, true, posted[side], true, posted[side]);
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

/* Two lanes: two queue pairs between the same two domains. */
static void
test_two_queue_pairs(void)
{
	Pair		pair;
	End			a2;
	End			b2;
	int			socks[2];
	RfQpConfig	config = {.max_wr = 64, .max_recv = 64};
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
	pair_sockets(kind, socks);
	pair.a.provider->qp_local(a2.qp, blob_a);
	pair.a.provider->qp_local(b2.qp, blob_b);
	check(pair.a.provider->qp_connect(a2.qp, blob_b, socks[0], &error) &&
		  pair.a.provider->qp_connect(b2.qp, blob_a, socks[1], &error), "a second queue pair between two domains");
	fill(&pair.a, 0, 300000, 3);
	send_one(&pair.a, &pair.b, 0, 100000, true, 1, true, 1);
	send_one(&a2, &b2, 100000, 100000, true, 2, true, 2);
	check(pair_wait(&pair, &pair.b, 1) && pair_wait(&pair, &b2, 1) && b2.log[0].imm == 2 && same(&pair, 0, 200000),
		  "both carry data");
	pair_wait(&pair, &a2, 1);
	pair.a.provider->qp_destroy(a2.qp);
	check(pair_wait(&pair, &b2, 2) && b2.log[1].opcode == RF_WC_DISCONNECTED, "one of them ends");
	send_one(&pair.a, &pair.b, 200000, 100000, true, 3, true, 3);
	check(pair_wait(&pair, &pair.b, 2) && pair.b.log[1].imm == 3 && same(&pair, 0, 300000), "the other goes on");
	pair.a.provider->qp_destroy(b2.qp);
	free(a2.log);
	free(b2.log);
	pair_close(&pair);
}

/* ---------- the end of things ---------- */

static int
open_fds(void)
{
	DIR		   *directory = opendir("/proc/self/fd");
	int			count = 0;

	while (readdir(directory) != NULL)
		count++;
	closedir(directory);
	return count;
}

static int
shared_mappings(void)
{
	FILE	   *maps = fopen("/proc/self/maps", "r");
	char		line[512];
	int			count = 0;

	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "memfd:") != NULL;
	fclose(maps);
	return count;
}

static void
test_destroy(void)
{
	Pair		pair;
	int			fds = open_fds();
	int			mappings = shared_mappings();

	for (int round = 0; round < 20; round++)
	{
		pair_open(&pair, kind);
		for (int i = 0; i < 50; i++)
		{
			send_one(&pair.a, &pair.b, 0, 100000, true, i, true, i);
			send_one(&pair.b, &pair.a, 0, 100000, true, i, true, i);
		}
		for (int i = 0; i < round; i++)
			pair_pump(&pair);
		pair.a.provider->qp_destroy(pair.a.qp);
		pair.a.qp = NULL;
		pair.a.logged = 0;
		pair_settle(&pair);
		if (pair.a.logged > 0)
			break;
		pair_close(&pair);
	}
	check(pair.a.logged == 0, "nothing of a destroyed queue pair is polled");
	check(open_fds() == fds, "no descriptor is left");
	check(shared_mappings() == mappings, "no mapping is left");
}

static void
test_peer_destroyed(void)
{
	Pair		pair;
	int			order = 0;
	double		deadline;

	pair_open(&pair, kind);
	for (int i = 0; i < 10; i++)
		send_one(&pair.b, &pair.a, 0, 1000, true, i, true, i);
	if (kind == PAIR_SIM)
		rf_sim_run(1000);
	else
		pair_wait(&pair, &pair.b, 10);
	pair.b.provider->qp_destroy(pair.b.qp);
	pair.b.qp = NULL;
	if (kind != PAIR_VERBS)
		await_disconnect(&pair, &pair.a);
	pair_settle(&pair);
	for (int i = 0; i < pair.a.logged; i++)
	{
		if (pair.a.log[i].opcode == RF_WC_RECV_IMM && pair.a.log[i].imm == order)
			order++;
	}
	if (kind != PAIR_VERBS)
		check(order == 10 && pair.a.logged == 11 && pair.a.log[10].opcode == RF_WC_DISCONNECTED,
			  "what the peer sent before it left is delivered, then one DISCONNECTED");
	pair.a.logged = 0;
	for (int i = 0; i < 5; i++)
		send_one(&pair.a, &pair.b, 0, 1000, true, i, i == 4, i);
	check(pair_wait(&pair, &pair.a, 5), "work posted to a peer that left completes");
	pair_settle(&pair);
	check(pair.a.logged <= 6 && count_of(&pair.a, RF_WC_WRITE, RF_WC_SUCCESS) == 0 && disconnects(&pair.a) <= 1,
		  "and fails");
	deadline = now_seconds() + PATIENCE;
	while (!pair.b.provider->domain_quiet(pair.b.domain) && now_seconds() < deadline)
		pair_pump(&pair);
	check(pair.b.provider->domain_quiet(pair.b.domain), "the memory of who left is quiet when its peer has noticed");
	pair_close(&pair);
}

/* ---------- another process ---------- */

/* One end in a child; the blobs and the region cross by a socket of ours. */
typedef struct Introduction
{
	uint8_t		blob[RF_QP_BLOB_SIZE];
	uint64_t	addr;
	uint32_t	rkey;
	uint32_t	size;
} Introduction;

static void
introduce(End *end, int talk, Introduction *other)
{
	Introduction mine = {.addr = (uint64_t) (uintptr_t) end->memory, .rkey = end->region->rkey, .size = end->size};

	end->provider->qp_local(end->qp, mine.blob);
	if (send(talk, &mine, sizeof(mine), 0) != sizeof(mine) ||
		recv(talk, other, sizeof(*other), MSG_WAITALL) != sizeof(*other))
		die("introduce", strerror(errno));
}

static void
child_end(int talk, int sock)
{
	RfQpConfig	config = {.max_wr = 64, .max_recv = 64};
	End			end;
	Introduction other;
	RfError		error;
	RfWc		wc;
	Request		r;

	end_open(&end, kind, NULL, 4 << 20, &config);
	introduce(&end, talk, &other);
	if (!end.provider->qp_connect(end.qp, other.blob, sock, &error))
		die("child connect", error.message);
	memset(end.memory, 0x5c, 1 << 20);
	request(&r, &end, &end, 0, 0, 1 << 20);
	r.wr.remote_addr = other.addr;
	r.wr.rkey = other.rkey;
	r.wr.opcode = RF_WR_WRITE_IMM;
	r.wr.imm = 42;
	end.provider->qp_post(end.qp, &r.wr);
	for (;;)
		end.provider->cq_poll(end.cq, &wc, 1);
}

static void
test_peer_killed(void)
{
	Pair		pair = {.kind = kind};
	RfQpConfig	config = {.max_wr = 64, .max_recv = 16, .context = &pair.a};
	Introduction other;
	RfError		error = {0};
	int			talk[2];
	int			socks[2];
	pid_t		child;
	Request		r;
	bool		good;

	if (kind == PAIR_SIM)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0)
		die("socketpair", strerror(errno));
	pair_sockets(kind, socks);
	child = fork();
	if (child == 0)
	{
		close(talk[0]);
		if (socks[0] >= 0)
			close(socks[0]);
		child_end(talk[1], socks[1]);
	}
	close(talk[1]);
	if (socks[1] >= 0)
		close(socks[1]);
	end_open(&pair.a, kind, NULL, 4 << 20, &config);
	introduce(&pair.a, talk[0], &other);
	if (!pair.a.provider->qp_connect(pair.a.qp, other.blob, socks[0], &error))
		die("connect", error.message);
	check(pair_wait(&pair, &pair.a, 1) && pair.a.log[0].imm == 42 && pair.a.memory[(1 << 20) - 1] == 0x5c,
		  "another process writes here");
	pair.a.logged = 0;
	kill(child, SIGSTOP);
	for (int i = 0; i < 60; i++)
	{
		request(&r, &pair.a, &pair.a, 0, 0, 1 << 20);
		r.wr.remote_addr = other.addr;
		r.wr.rkey = other.rkey;
		r.wr.opcode = RF_WR_WRITE_IMM;
		r.wr.wr_id = i;
		r.wr.signaled = true;
		pair.a.provider->qp_post(pair.a.qp, &r.wr);
	}
	pair_settle(&pair);
	check(disconnects(&pair.a) == 0, "a stopped peer is no failure");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	good = pair_wait(&pair, &pair.a, kind == PAIR_VERBS ? 60 : 61);
	pair_settle(&pair);
	check(good && disconnects(&pair.a) <= 1, "a killed peer: every work request ends");
	if (kind != PAIR_VERBS)
		check(disconnects(&pair.a) == 1 && pair.a.logged == 61, "and one DISCONNECTED");
	close(talk[0]);
	end_close(&pair.a);
}

/* ---------- waking up ---------- */

typedef struct Racer
{
	End		   *me;
	End		   *other;
	uint64_t	rounds;
	unsigned	seed;
	bool		first;
	bool		lost;
} Racer;

/* Wait for one immediate the way a lane does: poll, arm, poll once more, sleep. False when nothing wakes it. */
static bool
sleep_for_imm(End *me, uint32_t *imm)
{
	const RfProvider *provider = me->provider;
	RfWc		wc;

	for (;;)
	{
		struct pollfd waiting = {.fd = provider->cq_fd(me->cq), .events = POLLIN};

		while (provider->cq_poll(me->cq, &wc, 1) == 1)
		{
			if (wc.opcode == RF_WC_RECV_IMM)
			{
				*imm = wc.imm;
				return true;
			}
			if (wc.status != RF_WC_SUCCESS)
				return false;
		}
		provider->cq_arm(me->cq);
		if (provider->cq_poll(me->cq, &wc, 1) == 1)
		{
			if (wc.opcode == RF_WC_RECV_IMM)
			{
				*imm = wc.imm;
				return true;
			}
			continue;
		}
		if (poll(&waiting, 1, PATIENCE * 1000) == 0)
			return false;
	}
}

static void *
race_main(void *argument)
{
	Racer	   *racer = argument;
	uint32_t	imm;

	for (uint64_t i = 0; i < racer->rounds && !racer->lost; i++)
	{
		if (racer->first || i > 0)
		{
			for (volatile int gap = rand_r(&racer->seed) % 400; gap > 0; gap--)
				;
			send_one(racer->me, racer->other, 64, 64, true, (uint32_t) i, i % 32 == 0, i);
		}
		if (!sleep_for_imm(racer->me, &imm))
			racer->lost = true;
	}
	if (!racer->first)
		send_one(racer->me, racer->other, 64, 64, true, 0, true, 0);
	return NULL;
}

static void
test_race(void)
{
	Pair		pair;
	Racer		a = {.rounds = race_rounds, .seed = 1, .first = true};
	Racer		b = {.rounds = race_rounds, .seed = 2};
	pthread_t	thread;
	RfProviderStats stats;

	pair_open(&pair, kind);
	a.me = b.other = &pair.a;
	b.me = a.other = &pair.b;
	if (kind == PAIR_SIM)
		rf_sim_start();
	pthread_create(&thread, NULL, race_main, &b);
	race_main(&a);
	pthread_join(thread, NULL);
	if (kind == PAIR_SIM)
		rf_sim_stop();
	pair.a.provider->cq_stats(pair.a.cq, &stats);
	check(!a.lost && !b.lost, "arming and polling lose no wake-up");
	check(stats.events > 0, "and sleeping did happen");
	pair_close(&pair);
}

static void
test_idle(void)
{
	Pair		pair;
	struct rusage before;
	struct rusage after;
	struct pollfd waiting;
	RfWc		wc;
	double		used;
	bool		quiet = true;

	pair_open(&pair, kind);
	send_one(&pair.a, &pair.b, 0, 64, true, 1, true, 1);
	pair_wait(&pair, &pair.b, 1);
	pair_settle(&pair);
	waiting = (struct pollfd)
	{
		.fd = pair.b.provider->cq_fd(pair.b.cq),.events = POLLIN
	};
	getrusage(RUSAGE_SELF, &before);
	/* a wake-up left over from before is allowed once */
	for (int i = 0; i < 3; i++)
	{
		pair.b.provider->cq_arm(pair.b.cq);
		if (pair.b.provider->cq_poll(pair.b.cq, &wc, 1) != 0)
			quiet = false;
		if (poll(&waiting, 1, 100) != 0 && i > 0)
			quiet = false;
	}
	getrusage(RUSAGE_SELF, &after);
	used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) + (after.ru_utime.tv_usec - before.ru_utime.tv_usec) * 1e-6 +
		(after.ru_stime.tv_sec - before.ru_stime.tv_sec) + (after.ru_stime.tv_usec - before.ru_stime.tv_usec) * 1e-6;
	check(quiet && used < 0.15, "nothing happens, nothing wakes");

	pair.b.provider->cq_arm(pair.b.cq);
	pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
	send_one(&pair.a, &pair.b, 0, 64, true, 2, true, 2);
	if (kind == PAIR_SIM)
		rf_sim_run(100);
	check(poll(&waiting, 1, PATIENCE * 1000) == 1, "an immediate wakes a sleeper");
	while (pair.b.provider->cq_poll(pair.b.cq, &wc, 1) != 1)
		if (kind == PAIR_SIM)
			rf_sim_step();
	pair.a.logged = 0;
	pair.b.provider->cq_arm(pair.b.cq);
	pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
	pair.a.provider->qp_destroy(pair.a.qp);
	pair.a.qp = NULL;
	if (kind != PAIR_VERBS)
	{
		check(poll(&waiting, 1, PATIENCE * 1000) == 1, "so does the peer's end");
		await_disconnect(&pair, &pair.b);
		pair_settle(&pair);
		check(disconnects(&pair.b) == 1, "which is told once");
		pair.b.provider->cq_arm(pair.b.cq);
		pair_settle(&pair);
		pair.b.provider->cq_arm(pair.b.cq);
		check(poll(&waiting, 1, 50) == 0, "and does not wake again");
	}
	pair_close(&pair);

	/* one's own completion wakes as well when it comes after the arming */
	pair_open(&pair, kind);
	pair_settle(&pair);
	waiting.fd = pair.a.provider->cq_fd(pair.a.cq);
	pair.a.provider->cq_arm(pair.a.cq);
	pair.a.provider->cq_poll(pair.a.cq, &wc, 1);
	send_one(&pair.a, &pair.b, 0, 64, false, 0, true, 5);
	for (double deadline = now_seconds() + PATIENCE; poll(&waiting, 1, 0) == 0 && now_seconds() < deadline;)
	{
		struct pollfd pause = {.fd = -1};

		if (kind == PAIR_SIM)
			rf_sim_step();
		pair.b.provider->cq_poll(pair.b.cq, &wc, 1);
		poll(&pause, 1, 5);
	}
	check(poll(&waiting, 1, 0) == 1, "a completion of one's own wakes");
	pair_close(&pair);
}

/* ---------- main thread and lanes at once ---------- */

typedef struct Worker
{
	Pair	   *pair;
	atomic_bool stop;
	bool		good;
	_Atomic uint64_t sent;
} Worker;

static void *
lane_main(void *argument)
{
	Worker	   *worker = argument;
	Pair	   *pair = worker->pair;
	uint64_t	done = 0;
	uint64_t	received = 0;

	worker->good = true;
	while (!atomic_load(&worker->stop) || received < worker->sent)
	{
		RfWc		wc[16];
		int			count;

		if (!atomic_load(&worker->stop) && worker->sent - done < 16)
		{
			worker->sent++;
			send_one(&pair->a, &pair->b, 4096 * (worker->sent % 16), 4096, true, worker->sent, true, worker->sent);
		}
		count = pair->a.provider->cq_poll(pair->a.cq, wc, 16);
		for (int i = 0; i < count; i++)
		{
			worker->good &= wc[i].status == RF_WC_SUCCESS;
			done++;
		}
		count = pair->b.provider->cq_poll(pair->b.cq, wc, 16);
		for (int i = 0; i < count; i++)
		{
			worker->good &= wc[i].opcode == RF_WC_RECV_IMM && wc[i].imm == (uint32_t) ++received;
		}
		if (!worker->good)
			break;
	}
	return NULL;
}

static void
test_threads(void)
{
	Pair		pair;
	Worker		worker = {.pair = &pair};
	pthread_t	thread;
	RfError		error = {0};
	bool		good = true;
	int			fd;
	char	   *memory = shared_memory(1 << 20, &fd);

	pair_open(&pair, kind);
	if (kind == PAIR_SIM)
		rf_sim_start();
	pthread_create(&thread, NULL, lane_main, &worker);
	for (int i = 0; (i < 500 || atomic_load(&worker.sent) == 0) && good; i++)
	{
		RfRegion   *here = pair.a.provider->region_register(pair.a.domain, memory, 1 << 20, fd, &error);
		RfRegion   *there = pair.b.provider->region_register(pair.b.domain, memory, 1 << 20, fd, &error);

		good = here != NULL && there != NULL;
		if (here)
			pair.a.provider->region_deregister(pair.a.domain, here);
		if (there)
			pair.b.provider->region_deregister(pair.b.domain, there);
		if (i % 16 == 0)
			usleep(200);
	}
	atomic_store(&worker.stop, true);
	pthread_join(thread, NULL);
	if (kind == PAIR_SIM)
		rf_sim_stop();
	check(good && worker.good && worker.sent > 0, "regions come and go while a lane sends");
	pair_close(&pair);
	munmap(memory, 1 << 20);
	close(fd);
}

/* ---------- all of it ---------- */

static void
run(const char *name, PairKind which)
{
	kind_name = name;
	kind = which;
	test_write();
	test_order();
	test_chain();
	test_sizes();
	test_violations();
	test_regions();
	test_limits();
	test_loopback();
	test_two_queue_pairs();
	test_destroy();
	test_peer_destroyed();
	test_peer_killed();
	test_idle();
	test_race();
	test_threads();
}

int
main(int argc, char **argv)
{
	static const struct
	{
		const char *name;
		PairKind	kind;
	}			known[] = {{"sim", PAIR_SIM}, {"shm", PAIR_SHM}, {"tcp", PAIR_TCP}, {"stream", PAIR_STREAM},
	{"verbs", PAIR_VERBS}};
	bool		named = false;

	for (int i = 1; i < argc; i++)
	{
		if (sscanf(argv[i], "rounds=%lu", &race_rounds) != 1)
			named = true;
	}
	for (int k = 0; k < 5; k++)
	{
		bool		wanted = !named && known[k].kind != PAIR_VERBS;

		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], known[k].name) == 0;
#ifndef WITH_VERBS
		if (known[k].kind == PAIR_VERBS)
			wanted = false;
#endif
		if (!wanted)
			continue;
		if (known[k].kind == PAIR_SIM)
		{
			static const RfSimConfig rough = {.seed = 42, .delay_max = 30, .tear = true, .check_payload = false};

			rf_sim_reset(NULL);
			run("sim", PAIR_SIM);
			rf_sim_reset(&rough);
			run("sim with delays", PAIR_SIM);
		}
		else
			run(known[k].name, known[k].kind);
	}
	printf("1..%d\n", test_number);
	return failures > 0;
}
