/*
 * test_path.c - the data path of a connection: two ends prove it to each other over lanes
 * (src/engine/path.c, lane_path.c), over a fabric that loses messages of one of them or of both;
 * they fail in time, or begin again over the transport beside the device (src/provider/fallback.c).
 * And a path that dies later loses its connection, and no other.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "../../src/engine/path.h"
#include "../../src/provider/fallback.h"
#include "lane_rig.h"

#define LANES		2
#define MESSAGES	64
#define CONNECT_US	750000		/* connect_timeout where a path is dead */

static void
report(const char *what)
{
	printf("ok - %s\n", what);
}

/* ---------- the agreement of both ends, in any order of events ---------- */

typedef struct Machine
{
	RfPath		path;
	RfPathEvent queue[MESSAGES];	/* messages on their way to it */
	int			first;
	int			last;
	bool		must_connect;
	bool		must_prove;
	bool		must_let_go;
	bool		up;
	bool		failed;
	bool		fell_back;
} Machine;

static void
say(Machine *to, RfPathEvent event)
{
	CHECK(to->last < MESSAGES);
	to->queue[to->last++] = event;
}

static void
act(Machine *here, Machine *there, uint32_t actions)
{
	CHECK((actions & RF_PATH_WRONG) == 0);
	if (actions & RF_PATH_SEND_LINKED)
		say(there, RF_PATH_LINKED);
	if (actions & RF_PATH_PROVE)
		here->must_prove = true;
	if (actions & RF_PATH_UP)
	{
		CHECK(!here->up && !here->failed);
		here->up = true;
		here->fell_back = here->path.fell_back;
	}
	if (actions & RF_PATH_SEND_READY)
		say(there, RF_PATH_READY);
	if (actions & RF_PATH_SEND_BROKEN)
		say(there, RF_PATH_BROKEN);
	if (actions & RF_PATH_LET_GO)
	{
		here->must_prove = here->must_connect = false;
		here->must_let_go = true;
	}
	if (actions & RF_PATH_AGAIN)
		here->must_connect = true;
	if (actions & RF_PATH_FAIL)
		here->failed = true;
}

/*
 * One random course. Proofs of the second attempt succeed; proofs of the first may not, at either
 * end, at any time. One end that fails closes the connection, which ends the other.
 */
static void
course(uint64_t seed, bool may_fall_back, uint32_t death_percent, int *fallbacks, int *failures)
{
	Machine		ends[2];
	uint64_t	state = seed;

	memset(ends, 0, sizeof(ends));
	for (int i = 0; i < 2; i++)
	{
		rf_path_init(&ends[i].path, i == 0, may_fall_back);
		ends[i].must_connect = true;
	}
	for (int steps = 0; !ends[0].failed && !ends[1].failed && !(ends[0].up && ends[1].up); steps++)
	{
		Machine    *here = &ends[rig_random(&state) % 2];
		Machine    *there = &ends[here == &ends[0]];
		bool		mortal = !here->path.fell_back && rig_random(&state) % 100 < death_percent;

		CHECK(steps < 10000);
		switch (rig_random(&state) % 3)
		{
			case 0:
				if (here->first < here->last)
					act(here, there, rf_path_event(&here->path, here->queue[here->first++]));
				break;
			case 1:
				if (here->must_connect)
				{
					here->must_connect = false;
					act(here, there, rf_path_event(&here->path, RF_PATH_CONNECTED));
				}
				else if (here->must_prove)
				{
					here->must_prove = false;
					act(here, there,
						rf_path_event(&here->path, mortal ? RF_PATH_DEAD : RF_PATH_PROVEN));
				}
				break;
			case 2:
				if (here->must_let_go)
				{
					here->must_let_go = false;
					act(here, there, rf_path_event(&here->path, RF_PATH_GONE));
				}
				else if (mortal && !here->up && rig_random(&state) % 8 == 0)
					act(here, there, rf_path_event(&here->path, RF_PATH_DEAD)); /* a lane lost it */
				break;
		}
	}
	if (ends[0].failed || ends[1].failed)
	{
		/* An acceptor that is up while the initiator fails loses the connection like any other. */
		CHECK(!ends[0].up);
		++*failures;
		return;
	}
	CHECK(ends[0].fell_back == ends[1].fell_back);
	*fallbacks += ends[0].fell_back;
}

static void
test_courses(void)
{
	int			fallbacks = 0;
	int			failures = 0;

	for (uint64_t seed = 1; seed <= 200000; seed++)
		course(seed, true, (uint32_t) (seed % 4) * 20, &fallbacks, &failures);
	CHECK(fallbacks > 10000 && failures < fallbacks);
	fallbacks = failures = 0;
	for (uint64_t seed = 1; seed <= 50000; seed++)
		course(seed, false, (uint32_t) (seed % 4) * 20, &fallbacks, &failures);
	CHECK(fallbacks == 0 && failures > 1000);
	report("both ends end alike in every order of events");
}

/* ---------- time ---------- */

#define TENTH		100			/* of connect_timeout, in steps of a clock of our own */

/* The work under way at one end of a connection, and when it is done; 0 = nothing. */
typedef struct Timed
{
	RfPath		path;
	int			deadline;
	int			arrivals[MESSAGES]; /* of messages, in order */
	RfPathEvent queue[MESSAGES];
	int			first;
	int			last;
	int			connected_at;
	int			proven_at;
	int			gone_at;
	int			takes_to_let_go;
	bool		dead;			/* nothing gets through in the first attempt */
	bool		up;
	bool		failed;
} Timed;

static void
act_in_time(Timed *here, Timed *there, uint32_t actions, int now)
{
	static const struct
	{
		uint32_t	action;
		RfPathEvent message;
	}			messages[] = {{RF_PATH_SEND_LINKED, RF_PATH_LINKED},
	{RF_PATH_SEND_READY, RF_PATH_READY},
	{RF_PATH_SEND_BROKEN, RF_PATH_BROKEN}};

	CHECK((actions & RF_PATH_WRONG) == 0);
	if (actions & RF_PATH_WAIT)
		here->deadline = now + here->path.tenths * TENTH;
	for (int i = 0; i < 3; i++)
	{
		if ((actions & messages[i].action) == 0)
			continue;
		CHECK(there->last < MESSAGES);
		there->arrivals[there->last] = now + 1;
		there->queue[there->last++] = messages[i].message;
	}
	if (actions & RF_PATH_PROVE)
		here->proven_at = here->dead && !here->path.fell_back ? 0 : now + 1;
	if (actions & RF_PATH_LET_GO)
	{
		here->connected_at = here->proven_at = 0;
		here->gone_at = now + here->takes_to_let_go;
	}
	if (actions & RF_PATH_AGAIN)
		here->connected_at = now + 1;
	here->up = here->up || (actions & RF_PATH_UP) != 0;
	here->failed = here->failed || (actions & RF_PATH_FAIL) != 0;
}

static bool
is_due(int *at, int now)
{
	bool		due = *at != 0 && now >= *at;

	if (due)
		*at = 0;
	return due;
}

/* The work of setup.c and the engine's timers at one end. */
static void
run_in_time(Timed *here, Timed *there, int now)
{
	if (here->failed)
		return;
	while (here->first < here->last && here->arrivals[here->first] <= now)
		act_in_time(here, there, rf_path_event(&here->path, here->queue[here->first++]), now);
	if (is_due(&here->gone_at, now))
		act_in_time(here, there, rf_path_event(&here->path, RF_PATH_GONE), now);

	/* The second attempt connects with the queue pairs that the other end has made for it. */
	if ((!here->path.fell_back || (there->path.fell_back && there->gone_at == 0)) &&
		is_due(&here->connected_at, now))
		act_in_time(here, there, rf_path_event(&here->path, RF_PATH_CONNECTED), now);
	if (is_due(&here->proven_at, now))
		act_in_time(here, there, rf_path_event(&here->path, RF_PATH_PROVEN), now);
	if (here->up || now < here->deadline)
		return;
	if (rf_path_unproven(&here->path))
		act_in_time(here, there, rf_path_event(&here->path, RF_PATH_DEAD), now);
	else
		here->failed = true;
}

/* Returns when the connection was up at both ends; 0: it failed. */
static int
connect_in_time(bool may_fall_back, int dead, int lag, const int let_go[2])
{
	Timed		ends[2];

	memset(ends, 0, sizeof(ends));
	for (int i = 0; i < 2; i++)
	{
		rf_path_init(&ends[i].path, i == 0, may_fall_back);
		ends[i].dead = (dead >> i & 1) != 0;
		ends[i].takes_to_let_go = let_go[i];
		ends[i].connected_at = 1 + (i == 0 ? lag : 0);
		ends[i].deadline = 10 * TENTH;
	}
	for (int now = 1;; now++)
	{
		for (int i = 0; i < 2; i++)
			run_in_time(&ends[i], &ends[1 - i], now);
		if (ends[0].failed || ends[1].failed)
			return 0;
		CHECK(now < 100 * TENTH);
		if (ends[0].up && ends[1].up)
		{
			CHECK(ends[0].path.fell_back == ends[1].path.fell_back &&
				  ends[0].path.fell_back == (dead != 0));
			return now;
		}
	}
}

/*
 * One end or both find the first attempt dead; the second is up within connect_timeout, of which
 * slow lanes and an end that lags behind take their part only.
 */
static void
test_deadlines(void)
{
	static const int slow[] = {1, 2 * TENTH, 9 * TENTH};
	static const int lags[] = {0, TENTH, 3 * TENTH};

	for (int dead = 1; dead < 4; dead++)
	{
		for (int lag = 0; lag < 3; lag++)
		{
			for (int i = 0; i < 9; i++)
			{
				int			let_go[2] = {slow[i / 3], slow[i % 3]};
				int			longest = let_go[0] > let_go[1] ? let_go[0] : let_go[1];
				int			at = connect_in_time(true, dead, lags[lag], let_go);

				CHECK(at > 0 && at <= 4 * TENTH + lags[lag] + longest + 20);
			}
			CHECK(connect_in_time(false, dead, lags[lag], slow) == 0);
		}
	}
	CHECK(connect_in_time(true, 0, 0, slow) < 20);
	report("the second attempt has time of its own, and connect_timeout is enough for both");
}

/* ---------- two ends with lanes ---------- */

typedef struct Message
{
	RfPathEvent event;			/* 0: descriptions of queue pairs */
	uint8_t		blobs[LANES][RF_QP_BLOB_SIZE];
	uint64_t	remote_addr;
	uint64_t	number;
	uint32_t	rkey;
} Message;

typedef struct End
{
	RfShared   *shared;
	RfLaneThread *lanes[LANES];
	RfDevice   *device;
	RfDomain   *domain;
	RfRegion   *region;
	uint8_t    *memory;
	RfQp	   *qps[LANES];
	RfLaneProof proofs[LANES];
	RfPath		path;
	Message		queue[MESSAGES];
	int			first;
	int			last;
	bool		with_lanes;
	int			proven;
	int			dropping;
	bool		second;
	bool		up;
	bool		failed;
	RfError		error;
	int64_t		deadline;
} End;

static End	ends[2];
static int	event_fd;
static int	creating;			/* whose queue pairs are being made */
static bool lossy[2];			/* messages that end sends over the device are lost */
static int	sockets[LANES][2];
static uint64_t lie;			/* added to the requests to the other end */

/* The simulated device, of whose queue pairs some are deaf or dumb. */
static RfQp *
lossy_qp_create(RfDomain *domain, RfCq *cq, const RfQpConfig *config, RfError *error)
{
	RfQp	   *qp = rf_provider_sim.qp_create(domain, cq, config, error);

	rf_sim_drop(qp, lossy[creating]);
	return qp;
}

static RfProvider lossy_provider;

static void
nobody_to_wake(RfFlow *flow)
{
	CHECK(!"there is no flow");
}

static void
start_end(End *end)
{
	RfProviderConfig settings = {0};
	RfLaneConfig config = rig_config;
	RfError		error;

	memset(end, 0, sizeof(*end));
	end->shared = aligned_alloc(RF_CACHE_LINE, RF_SHARED_SIZE(RIG_FLOWS));
	memset(end->shared, 0, RF_SHARED_SIZE(RIG_FLOWS));
	end->shared->max_flows = RIG_FLOWS;
	end->shared->lane_count = LANES;
	end->device = rf_fallback_device(&lossy_provider, lossy_provider.device_open(&settings, &error),
									 &rf_provider_soft,
									 rf_provider_soft.device_open(&settings, &error), &error);
	rf_provider_fallback.device_caps(end->device, &end->shared->device);
	config.shared = end->shared;
	config.provider = &rf_provider_fallback;
	config.device = end->device;
	config.cq_depth = 256;
	config.main_wake_fd = event_fd;
	config.wake_owner = nobody_to_wake;
	for (int i = 0; i < LANES; i++)
	{
		end->shared->lanes[i].wake_fd = eventfd(0, 0);
		config.lane = i;
		end->lanes[i] = rf_lane_start(&config, &error);
		CHECK(end->lanes[i] != NULL);
	}
}

static Message *
message_to(End *end, RfPathEvent event)
{
	CHECK(end->last < MESSAGES);
	end->queue[end->last].event = event;
	return &end->queue[end->last++];
}

static void
make_queue_pairs(End *end)
{
	RfQpConfig	config = {
	.max_wr = (int) rig_config.max_wr, .max_recv = 256, .context = (void *) (intptr_t) 1};
	size_t		size = (LANES + 1) * RF_PROOF_SIZE;
	int			fd = memfd_create("proof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	Message    *message = message_to(&ends[end == &ends[0]], 0);
	RfError		error;

	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	end->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	end->domain = end->second ? rf_provider_fallback.domain_fallback(end->device, &error) :
		rf_provider_fallback.domain_create(end->device, &error);
	end->region = rf_provider_fallback.region_register(end->domain, end->memory, size, fd, &error);
	close(fd);
	CHECK(end->region != NULL);
	creating = (int) (end - ends);
	for (int i = 0; i < LANES; i++)
	{
		end->qps[i] = rf_provider_fallback.qp_create(end->domain, rf_lane_cq(end->lanes[i]),
													 &config, &error);
		CHECK(end->qps[i] != NULL);
		rf_provider_fallback.qp_local(end->qps[i], message->blobs[i]);
		end->proofs[i] = (RfLaneProof)
		{
			.landing = (uint64_t *) (end->memory + i * RF_PROOF_SIZE),
				.number = 4711 + creating
		};
	}
}

static void
free_memory(End *end)
{
	rf_provider_fallback.region_deregister(end->domain, end->region);
	while (!rf_provider_fallback.domain_quiet(end->domain))
		usleep(100);
	rf_provider_fallback.domain_destroy(end->domain);
	munmap(end->memory, (LANES + 1) * RF_PROOF_SIZE);
}

static void
let_go(End *end)
{
	RfError		error;

	(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL, "given up");
	for (int i = 0; i < LANES; i++)
	{
		if (!end->with_lanes)
			rf_lane_add_connection(end->lanes[i], 1, end->qps[i], NULL);
		rf_lane_drop_connection(end->lanes[i], 1, &error);
	}
	end->with_lanes = false;
	end->dropping = LANES;
}

static void act_for_real(End *end, RfPathEvent event);

static void
connect_queue_pairs(End *end, const Message *message)
{
	RfError		error;

	for (int i = 0; i < LANES; i++)
	{
		int			sock = -1;

		if (end->second)
		{
			if (sockets[i][0] < 0)
				CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
								 sockets[i]) == 0);
			sock = sockets[i][end - ends];
		}
		CHECK(rf_provider_fallback.qp_connect(end->qps[i], message->blobs[i], sock, NULL, &error));
		rf_lane_add_connection(end->lanes[i], 1, end->qps[i], &end->proofs[i]);
	}
	end->with_lanes = true;
	act_for_real(end, RF_PATH_CONNECTED);
}

static void
prepare_proofs(End *end, const Message *message)
{
	uint64_t   *source = (uint64_t *) (end->memory + LANES * RF_PROOF_SIZE);

	for (size_t i = 0; i < RF_PROOF_SIZE / sizeof(uint64_t); i++)
		source[i] = message->number;
	for (int i = 0; i < LANES; i++)
	{
		end->proofs[i].source = (RfSge) {source, RF_PROOF_SIZE, end->region->lkey};
		end->proofs[i].remote_addr = message->remote_addr + (uint64_t) i * RF_PROOF_SIZE;
		end->proofs[i].rkey = message->rkey;
	}
}

static void
act_for_real(End *end, RfPathEvent event)
{
	End		   *other = &ends[end == &ends[0]];
	uint32_t	actions = rf_path_event(&end->path, event);

	CHECK((actions & RF_PATH_WRONG) == 0);
	if (actions & RF_PATH_SEND_LINKED)
	{
		Message    *message = message_to(other, RF_PATH_LINKED);

		message->remote_addr = (uint64_t) (uintptr_t) end->memory;
		message->rkey = end->region->rkey;
		message->number = end->proofs[0].number + lie;
	}
	if (actions & RF_PATH_WAIT)
		end->deadline = rf_now_us() + (int64_t) (end->path.fell_back || !(lossy[0] || lossy[1]) ?
												 RIG_PATIENCE * 1000000 :
												 CONNECT_US) *
			end->path.tenths / 10;
	for (int i = 0; i < LANES && (actions & RF_PATH_PROVE); i++)
		rf_lane_prove(end->lanes[i], 1);
	if (actions & RF_PATH_UP)
		end->up = true;
	if (actions & RF_PATH_SEND_READY)
		message_to(other, RF_PATH_READY);
	if (actions & RF_PATH_SEND_BROKEN)
		message_to(other, RF_PATH_BROKEN);
	if (actions & RF_PATH_LET_GO)
		let_go(end);
	if (actions & RF_PATH_AGAIN)
	{
		free_memory(end);
		end->second = true;
		end->proven = 0;
		make_queue_pairs(end);
	}
	if (actions & RF_PATH_FAIL)
		end->failed = true;
}

static void
read_lane(End *end, int lane)
{
	RfLaneEvent event;

	while (rf_lane_event(end->lanes[lane], &event))
	{
		switch (event.kind)
		{
			case RF_LANE_CONNECTION_PROVEN:
				if (end->path.state == RF_PATH_SETTING_UP && ++end->proven == LANES)
					act_for_real(end, RF_PATH_PROVEN);
				break;
			case RF_LANE_CONNECTION_LOST:
				end->error = event.error;
				act_for_real(end, RF_PATH_DEAD);
				break;
			case RF_LANE_CONNECTION_DROPPED:
				if (--end->dropping == 0 && !end->failed && !end->up)
					act_for_real(end, RF_PATH_GONE);
				break;
			default:
				CHECK(!"no flow was attached");
		}
	}
}

static void
run_end(End *end)
{
	for (int i = 0; i < LANES; i++)
		read_lane(end, i);

	/* Descriptions for the second attempt wait until this end is that far. */
	while (end->first < end->last && !end->failed && !end->up &&
		   end->path.state == RF_PATH_SETTING_UP)
	{
		const Message *message = &end->queue[end->first++];

		if (message->event == RF_PATH_LINKED && !rf_path_void(&end->path))
			prepare_proofs(end, message);
		if (message->event != 0)
			act_for_real(end, message->event);
		else if (!rf_path_void(&end->path))
			connect_queue_pairs(end, message);
	}
	if (!end->failed && rf_path_unproven(&end->path) && rf_now_us() > end->deadline)
		act_for_real(end, RF_PATH_DEAD);
}

static void
stop_end(End *end)
{
	for (int i = 0; i < LANES; i++)
		rf_lane_stop(end->lanes[i]);
	free_memory(end);
	rf_provider_fallback.device_close(end->device);
	for (int i = 0; i < LANES; i++)
		close(end->shared->lanes[i].wake_fd);
	free(end->shared);
}

/* Set a connection up; true: it is up at both ends. */
static bool
set_up(bool loses_0, bool loses_1, bool may_fall_back, bool *second)
{
	RfSimConfig sim = {.seed = 5, .delay_max = 3};
	int64_t		began = rf_now_us();
	bool		up;

	lossy[0] = loses_0;
	lossy[1] = loses_1;
	for (int i = 0; i < LANES; i++)
		sockets[i][0] = sockets[i][1] = -1;
	lossy_provider = rf_provider_sim;
	lossy_provider.qp_create = lossy_qp_create;
	rf_sim_reset(&sim);
	event_fd = eventfd(0, EFD_NONBLOCK);
	start_end(&ends[0]);
	start_end(&ends[1]);
	CHECK(rf_sim_start());
	for (int i = 0; i < 2; i++)
		rf_path_init(&ends[i].path, i == 0, may_fall_back);
	for (int i = 0; i < 2; i++)
		make_queue_pairs(&ends[i]);
	while (!(ends[0].up && ends[1].up) && !ends[0].failed && !ends[1].failed)
	{
		CHECK(rf_now_us() - began < (int64_t) RIG_PATIENCE * 1000000);
		run_end(&ends[0]);
		run_end(&ends[1]);
		usleep(100);
	}
	up = !ends[0].failed && !ends[1].failed;
	CHECK(!up || ends[0].second == ends[1].second);
	*second = ends[0].second;
	stop_end(&ends[0]);
	stop_end(&ends[1]);
	rf_sim_stop();
	close(event_fd);
	return up;
}

static void
test_set_up(void)
{
	bool		second;

	CHECK(set_up(false, false, true, &second) && !second);
	report("a good path is proven and taken");
	for (int lost = 1; lost < 4; lost++)
	{
		CHECK(!set_up(lost & 1, lost & 2, false, &second));
		CHECK(set_up(lost & 1, lost & 2, true, &second) && second);
	}
	report("a path that is dead in one direction or both fails in time");
	report("and both ends go over to the transport beside it where there is one");

	lie = 1;
	CHECK(!set_up(false, false, false, &second));
	CHECK(ends[0].error.kind == RF_ERROR_PROTOCOL || ends[1].error.kind == RF_ERROR_PROTOCOL);
	lie = 0;
	report("a proof of other bytes is none");
}

/* ---------- a path that dies later ---------- */

/*
 * Send a slot on each flow; flows that lose their connection find out within peer_timeout and a
 * second.
 */
static void
test_later(int loser)
{
	RfSimConfig sim = {.seed = 9, .delay_max = 3};
	RfSlotCursor sent = {0};
	RfSlotCursor got = {0};
	RfSlotHeader header;
	uint8_t    *payload;
	uint32_t	consumer;
	uint32_t	producer;
	uint64_t	lost;
	double		began;

	rig_config.peer_timeout_ms = 200;
	rig_lanes = 2;
	rig_reconnect = true;
	rig_start(&sim);
	lost = atomic_load(&rig_lost);
	consumer = rig_listen(1, 1, 4, 4096, 77);
	producer = rig_open(0, 0, consumer, 77);
	CHECK(producer != UINT32_MAX);

	/* Nothing is out for longer than the timeout: that is no reason. */
	for (int i = 0; i < 3; i++)
	{
		CHECK(rig_acquire(0, 0, producer, &sent) != NULL);
		if (rf_slot_submit(&rig_nodes[0].shared->flows[producer], &sent, 100,
						   RF_SLOT_FIRST | RF_SLOT_LAST, 1))
			rig_ring(0, producer);
		CHECK(rig_read(1, 1, consumer, &got, &header, &payload) == RF_READ_DATA);
		if (rf_slot_release(&rig_nodes[1].shared->flows[consumer], &got))
			rig_ring(1, consumer);
		usleep(300000);
	}
	CHECK(atomic_load(&rig_lost) == lost);

	began = rig_seconds();
	rig_drop(loser, (int) rig_nodes[0].shared->flows[producer].memory.lane, true);
	CHECK(rig_acquire(0, 0, producer, &sent) != NULL);
	if (rf_slot_submit(&rig_nodes[0].shared->flows[producer], &sent, 100,
					   RF_SLOT_FIRST | RF_SLOT_LAST, 1))
		rig_ring(0, producer);
	while (atomic_load(&rig_nodes[0].shared->flows[producer].state) != RF_FLOW_FAILED ||
		   atomic_load(&rig_nodes[1].shared->flows[consumer].state) != RF_FLOW_FAILED)
	{
		CHECK(rig_seconds() - began < RIG_PATIENCE);
		usleep(1000);
	}
	CHECK(rig_seconds() - began > 0.2);
	CHECK(strstr(rf_flow_error(rig_nodes[0].shared, &rig_nodes[0].shared->flows[producer])->message,
				 "no data got through") != NULL ||
		  strstr(rf_flow_error(rig_nodes[1].shared, &rig_nodes[1].shared->flows[consumer])->message,
				 "no data got through") != NULL);
	rig_close(0, producer, false, true);
	rig_close(1, consumer, false, true);
	CHECK(rig_all_free());
	rig_stop();
}

int
main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	test_courses();
	test_deadlines();
	test_set_up();
	test_later(0);
	report("a path that dies later loses its connection: what is sent does not arrive");
	test_later(1);
	report("a path that dies later loses its connection: what arrived is not acknowledged");
	return 0;
}
