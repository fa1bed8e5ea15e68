/*
 * conformance.h - shared by the programs that hold every provider to the contract of provider.h:
 * which provider is under test, requests in one line, a look at polled completions.
 *
 * Arguments: names of providers (sim, shm, tcp, stream, tls, verbs; default all but verbs, which
 * also needs -DWITH_VERBS, src/provider/verbs*.c and a device), rounds=N for the wake-up race
 * (default 20000).
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include "pair.h"

static PairKind kind;
static uint64_t race_rounds = 20000;

/* ---------- work requests in one line ---------- */

typedef struct Request
{
	RfWr		wr;
	RfSge		sge[RF_MAX_SGE + 2];
} Request;

static inline Request *
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

static inline void
send_one(End *from, End *to, size_t offset, uint32_t length, bool imm, uint32_t value,
		 bool signaled, uint64_t wr_id)
{
	Request		r;

	request(&r, from, to, offset, offset, length);
	r.wr.opcode = imm ? RF_WR_WRITE_IMM : RF_WR_WRITE;
	r.wr.imm = value;
	r.wr.signaled = signaled;
	r.wr.wr_id = wr_id;
	from->provider->qp_post(from->qp, &r.wr);
}

static inline void
fill(End *end, size_t offset, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		end->memory[offset + i] = (char) (seed + i * 31 + (i >> 8));
}

static inline bool
same(Pair *pair, size_t offset, size_t length)
{
	return memcmp(pair->a.memory + offset, pair->b.memory + offset, length) == 0;
}

static inline int
count_of(End *end, RfWcOpcode opcode, RfWcStatus status)
{
	int			count = 0;

	for (int i = 0; i < end->logged; i++)
		count += end->log[i].opcode == opcode && end->log[i].status == status;
	return count;
}

static inline int
disconnects(End *end)
{
	int			count = 0;

	for (int i = 0; i < end->logged; i++)
		count += end->log[i].opcode == RF_WC_DISCONNECTED;
	return count;
}

/* Pump until the end is told that its peer is gone. */
static inline void
await_disconnect(Pair *pair, End *end)
{
	double		deadline = now_seconds() + PATIENCE;

	while (disconnects(end) == 0 && now_seconds() < deadline)
		pair_pump(pair);
}

static inline RfWc *
completion(End *end, uint64_t wr_id)
{
	for (int i = 0; i < end->logged; i++)
	{
		if (end->log[i].opcode == RF_WC_WRITE && end->log[i].wr_id == wr_id)
			return &end->log[i];
	}
	return NULL;
}

static inline bool
completed(End *end, uint64_t wr_id, RfWcStatus status)
{
	RfWc	   *wc = completion(end, wr_id);

	return wc != NULL && wc->status == status;
}

/* Entries that a work request may have. */
static inline int
most_entries(const Pair *pair)
{
	RfDeviceCaps caps;

	pair->a.provider->device_caps(pair->a.device, &caps);
	return caps.max_sge;
}

/*
 * Returns true if requests complete when the device has sent them (iWARP): what the peer refuses
 * ends the queue pair later.
 */
static inline bool
refused_later(const Pair *pair)
{
	RfDeviceCaps caps;

	pair->a.provider->device_caps(pair->a.device, &caps);
	return strcmp(caps.gid_type, "iWARP") == 0;
}

/* Pump until the first end's request number `count` was refused, or its queue pair ended. */
static inline bool
peer_refuses(Pair *pair, int count)
{
	double		deadline = now_seconds() + PATIENCE;

	if (!refused_later(pair))
		return pair_wait(pair, &pair->a, count) &&
			pair->a.log[count - 1].status == RF_WC_REMOTE_ACCESS;
	while (disconnects(&pair->a) == 0 && count_of(&pair->a, RF_WC_WRITE, RF_WC_FLUSHED) == 0 &&
		   count_of(&pair->a, RF_WC_WRITE, RF_WC_TRANSPORT) == 0 && now_seconds() < deadline)
		pair_pump(pair);
	return now_seconds() < deadline;
}

/* ---------- all of it ---------- */

static inline void
conformance_run(const char *name, PairKind which, void (*all) (void))
{
	check_prefix = name;
	kind = which;
	all();
}

/* Run all tests of a program with each provider that was asked for. */
static inline int
conformance_main(int argc, char **argv, void (*all) (void))
{
	static const struct
	{
		const char *name;
		PairKind	kind;
	}			known[] = {{"sim", PAIR_SIM}, {"shm", PAIR_SHM}, {"tcp", PAIR_TCP},
	{"stream", PAIR_STREAM}, {"tls", PAIR_TLS}, {"verbs", PAIR_VERBS}};
	bool		named = false;

	for (int i = 1; i < argc; i++)
	{
		if (sscanf(argv[i], "rounds=%lu", &race_rounds) != 1)
			named = true;
	}
	for (int k = 0; k < 6; k++)
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
			static const RfSimConfig rough = {
			.seed = 42, .delay_max = 30, .tear = true, .check_payload = false};

			rf_sim_reset(NULL);
			conformance_run("sim", PAIR_SIM, all);
			rf_sim_reset(&rough);
			conformance_run("sim with delays", PAIR_SIM, all);
		}
		else
			conformance_run(known[k].name, known[k].kind, all);
	}
	printf("1..%d\n", test_number);
	return failures > 0;
}

#endif
