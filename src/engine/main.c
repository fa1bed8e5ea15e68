/*
 * main.c - the engine: a background worker that owns the device, the lanes, the registered memory
 * and all connections to other engines.
 *
 * Here: start, the loop of the main thread, its timers, and the end. The loop sleeps on the
 * process latch and on one epoll descriptor that has all other sources of events, so an idle
 * engine uses no processor time. listener.c, control_events.c, setup.c and open.c handle these
 * events. The main thread is the only thread that calls PostgreSQL; lanes report through events.
 */
#include "postgres.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "rdma_fdw/guc.h"

#include "engine_int.h"
#include "polling.h"
#include "regions.h"

#define RF_EVENTS_AT_ONCE	64
#define RF_QP_MAX_WR		512
#define RF_QP_MAX_RECV		1024
#define RF_CQ_DEPTH			8192
#define RF_LISTEN_FIRST_US	500000
#define RF_LISTEN_MAX_US	8000000

/*
 * How lanes work (RfLaneConfig). bench/engine measures what each of these is worth, and
 * docs/architecture.md names its row there.
 */
#define POLL_BATCH			32	/* completions */
#define PROBE_MS			1000	/* at most */
#define MERGE_LIMIT			(4 << 20)	/* bytes */
#define CHAIN_LIMIT			32	/* work requests */
#define LONGEST_ACK_TIMEOUT	18	/* of a device, see ack_timeout(): 1.07 s */

PGDLLEXPORT void rf_engine_main(Datum arg);

/* Engines of the same boot may use local sockets. Zero, so never, if the kernel has no boot id. */
static void
read_boot_id(uint8_t id[16])
{
	FILE	   *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	int			digits = 0;
	int			c;

	memset(id, 0, 16);
	if (file == NULL)
		return;
	while (digits < 32 && (c = fgetc(file)) != EOF)
	{
		int			value = c >= '0' && c <= '9' ? c - '0' :
			c >= 'a' && c <= 'f' ? c - 'a' + 10 :
			-1;

		if (value >= 0)
		{
			id[digits / 2] = (uint8_t) (id[digits / 2] << 4 | value);
			digits++;
		}
	}
	fclose(file);
}

/* ---------- start ---------- */

static void
lane_settings(RfLaneConfig *config)
{
	config->poll_batch = POLL_BATCH;
	config->polling_mode = rf_polling_mode;
	config->poll_us = rf_shared->calibration.poll_us;
	config->probe_ms = Min(rf_peer_timeout / 4, PROBE_MS);
	config->peer_timeout_ms = (uint32_t) rf_peer_timeout;
	config->merge_limit = MERGE_LIMIT;
	config->chain_limit = CHAIN_LIMIT;
	config->admission_window = (uint64_t) rf_admission_window * 1024;
	config->credit_limit = RF_CREDIT_AUTO;
}

/*
 * Publishes how long another engine may use an invitation, a token or a listening flow:
 * connect_timeout is the time of one attempt, and it may need several. The value is the
 * configuration's, which a role that asks for tokens or listens for flows cannot change.
 */
static void
publish_settings(void)
{
	atomic_store(&rf_shared->invited_ms, 6 * (uint32) rf_connect_timeout);
}

/*
 * How long a device waits for an acknowledgement, 4.096 us times 2 to the power of this. It sends a
 * packet eight times and may wait four times as long each time, so that these are half of
 * peer_timeout at most and the device tells the lane what was lost. A second is the most: the last
 * packet of a write that is lost costs this much.
 */
static int
ack_timeout(void)
{
	int			exponent = LONGEST_ACK_TIMEOUT;

	while ((INT64_C(4096) << exponent) * 8 * 4 > (int64) rf_peer_timeout * 1000000 / 2)
		exponent--;
	return exponent;
}

/*
 * Opens a device of this provider by the settings; returns false with *error if there is no usable
 * one.
 */
static bool
open_device(const RfProvider *provider, RfError *error)
{
	RfProviderConfig config;

	memset(&config, 0, sizeof(config));
	config.device = rf_device && rf_device[0] ? rf_device : NULL;
	config.gid_index = rf_gid_index;
	config.traffic_class = rf_traffic_class;
	config.service_level = rf_service_level;
	config.timeout = ack_timeout();
	config.memory_to_register = rf_engine_lockable();
	config.lanes = (int) rf_shared->lane_count;
	config.max_wr = RF_QP_MAX_WR;
	config.max_recv = RF_QP_MAX_RECV;
	config.soft_tcp_only = rf_provider == RF_PROVIDER_TCP;
	rf_engine->device = provider->device_open(&config, error);
	if (rf_engine->device == NULL)
		return false;
	rf_engine->provider = provider;
	provider->device_caps(rf_engine->device, &rf_engine->caps);
	return true;
}

static void
choose_device(void)
{
	RfError		error;

	memset(&error, 0, sizeof(error));
	memset(&rf_shared->device_error, 0, sizeof(rf_shared->device_error));
	memset(&rf_shared->device, 0, sizeof(rf_shared->device));
	if ((rf_provider == RF_PROVIDER_AUTO || rf_provider == RF_PROVIDER_VERBS) &&
		!open_device(rf_provider == RF_PROVIDER_AUTO ? &rf_provider_fallback : &rf_provider_verbs,
					 &error))
	{
		rf_shared->device_error = error;
		if (rf_provider == RF_PROVIDER_VERBS)
		{
			/*
			 * The engine keeps running, so that rdma.check can report the problem, and every use
			 * gets this error.
			 */
			rf_log_error(LOG, "no usable RDMA device", &error);
			return;
		}
		/* Nothing is wrong, so one line without the advice; rdma.check has that. */
		ereport(LOG,
				(errmsg("rdma_fdw engine: using shared memory and TCP: %s", error.message)));
	}
	if (rf_engine->provider == NULL && !open_device(&rf_provider_soft, &error))
	{
		rf_shared->device_error = error;
		rf_log_error(LOG, "the software transport cannot be used", &error);
		return;
	}
	rf_shared->device = rf_engine->caps;
}

/*
 * The device told something about itself. A dead one is given up with all connections: the engine
 * starts again, and takes what there is then.
 */
static void
device_events(void)
{
	const RfProvider *provider = rf_engine->provider;
	RfDeviceCaps *caps = &rf_engine->caps;
	RfDeviceEvent event;
	char		text[256];

	while ((event = provider->device_event(rf_engine->device, text, sizeof(text))) !=
		   RF_DEVICE_QUIET)
	{
		ereport(event == RF_DEVICE_DEAD ? WARNING : LOG,
				(errmsg("rdma_fdw engine: %s", text)));
		snprintf(rf_shared->device_event.text, sizeof(rf_shared->device_event.text), "%s", text);
		rf_shared->device_event.time = rf_wall_us() / 1000000;
		if (event == RF_DEVICE_DEAD)
			ShutdownRequestPending = true;
		provider->device_caps(rf_engine->device, caps);
		memcpy(rf_shared->device.gid, caps->gid, sizeof(caps->gid));
		memcpy(rf_shared->device.port_state, caps->port_state, sizeof(caps->port_state));
		memcpy(rf_shared->device.partitions, caps->partitions, sizeof(caps->partitions));
		rf_shared->device.limited_member = caps->limited_member;
		rf_shared->device.gid_index = caps->gid_index;
	}
}

/* A device that tells nothing has no descriptor. */
static void
watch_device(void)
{
	const RfProvider *provider = rf_engine->provider;

	rf_engine->device_events.kind = RF_SOURCE_DEVICE;
	rf_engine->device_events.fd = provider != NULL && provider->device_fd != NULL ?
		provider->device_fd(rf_engine->device) : -1;
	if (rf_engine->device_events.fd >= 0 && !rf_watch(&rf_engine->device_events, EPOLLIN))
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("rdma_fdw engine: could not watch the RDMA device: %m")));
}

/* Measure the costs of moving regions over each transport that peers may have. */
static void
calibrate_regions(void)
{
	RfRegionCosts *costs = rf_shared->calibration.regions;
	RfError		error;
	int			socks[2];

	memset(costs, 0, sizeof(rf_shared->calibration.regions));
	for (int over = 0; over < RF_OVER_KINDS; over++)
	{
		if (rf_engine->caps.needs_socket == (over == RF_OVER_VERBS) ||
			(over == RF_OVER_SHM && rf_provider == RF_PROVIDER_TCP))
			continue;
		memset(&error, 0, sizeof(error));
		socks[0] = socks[1] = -1;
		if (!rf_region_measure(&costs[over]))
			rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
		else if (over != RF_OVER_VERBS && !rf_regions_sockets(over == RF_OVER_TCP, socks))
			rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL,
					 "could not connect sockets to each other: %s", strerror(errno));
		else if (rf_regions_measure(rf_engine->provider, rf_engine->device, socks, &costs[over],
									&error))
			continue;
		costs[over].request = 0;
		rf_log_error(LOG, "could not measure the cost of sending regions of memory", &error);
	}
}

/*
 * Measures the costs that settings may leave to the engine, and starts the lanes' threads with the
 * configuration of this start.
 */
static bool
start_lanes(void)
{
	uint32_t	i;
	RfError		error;
	RfLaneConfig config;

	memset(&config, 0, sizeof(config));
	config.shared = rf_shared;
	config.provider = rf_engine->provider;
	config.device = rf_engine->device;
	config.cq_depth = RF_CQ_DEPTH;
	config.max_wr = RF_QP_MAX_WR;
	if (rf_engine->caps.max_qp_wr > 0 && config.max_wr > (uint32_t) rf_engine->caps.max_qp_wr)
		config.max_wr = rf_engine->caps.max_qp_wr;
	rf_engine->qp_config.max_wr = config.max_wr;
	rf_engine->qp_config.max_recv = RF_QP_MAX_RECV;
	if (rf_engine->caps.max_qp_wr > 0 && rf_engine->qp_config.max_recv > rf_engine->caps.max_qp_wr)
		rf_engine->qp_config.max_recv = rf_engine->caps.max_qp_wr;
	if (!rf_polling_calibrate(config.provider, config.device, &rf_shared->calibration))
		ereport(LOG,
				(errmsg("rdma_fdw engine: could not measure the cost of sleeping, polling for %u "
						"microseconds",
						rf_shared->calibration.poll_us)));
	rf_values_calibrate(rf_shared, config.provider, config.device);
	calibrate_regions();
	lane_settings(&config);
	memset(&rf_shared->admission, 0, sizeof(rf_shared->admission));
	config.main_wake_fd = rf_engine->lane_events.fd;
	config.wake_owner = rf_flow_wake_owner;

	for (i = 0; i < rf_shared->lane_count; i++)
	{
		config.lane = i;
		memset(&error, 0, sizeof(error));
		rf_engine->lanes[i] = rf_lane_start(&config, &error);
		if (rf_engine->lanes[i] == NULL)
		{
			rf_log_error(LOG, "could not start a lane", &error);
			return false;
		}
		rf_engine->lane_count = i + 1;
	}
	rf_engine->lane_config = config;
	return true;
}

/*
 * Stop the lanes before shared memory goes away, and tell all backends: flows fail, waiters look
 * again. The sockets close with the process, which tells the peers.
 */
static void
engine_exit(int code, Datum arg)
{
	RfError		error;
	uint32_t	i;

	atomic_store(&rf_shared->engine_pid, 0);
	for (i = 0; i < rf_engine->lane_count; i++)
		rf_lane_stop(rf_engine->lanes[i]);
	rf_engine->lane_count = 0;

	memset(&error, 0, sizeof(error));
	rf_error(&error, RF_ERROR_CONNECTION, NULL,
			 "The engine starts again by itself; repeat the query.",
			 "the rdma_fdw engine of this node was stopped");
	rf_flows_fail_all(&error);
	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		RfPeer	   *peer = &rf_shared->peers[i];
		uint32_t	state = atomic_load(&peer->state);

		/* A claimed entry stays with its backend; the next engine serves it. */
		if (state != RF_PEER_CLAIMED && state != RF_PEER_FREE && state != RF_PEER_FAILED)
			explicit_bzero(peer->token, sizeof(peer->token));
		if (state != RF_PEER_CLAIMED)
			(void) atomic_compare_exchange_strong(&peer->state, &state, RF_PEER_FREE);
		atomic_store(&peer->segments, 0);
		rf_peers_wake(i);
	}
}

/* Sleep before the next attempt to start. False: the settings have changed. */
static bool
pause_start(int64_t pause_us)
{
	int64_t		until = rf_now_us() + pause_us;
	int64_t		left;

	while ((left = until - rf_now_us()) > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left / 1000 + 1,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			return false;
		}
	}
	return true;
}

/*
 * The port may be taken. It may come free, so try again, after pauses that grow, and write a line
 * for each new reason.
 */
static void
listen_when_possible(void)
{
	int64_t		pause_us = RF_LISTEN_FIRST_US;
	RfError		error;

	memset(&error, 0, sizeof(error));
	while (!rf_listen(&error))
	{
		if (rf_shared->start_error.kind == RF_ERROR_NONE ||
			strcmp(rf_shared->start_error.message, error.message) != 0)
			rf_log_error(LOG, "could not listen for other engines", &error);
		rf_shared->start_error = error;
		pause_us = pause_start(pause_us) ? Min(pause_us * 2, RF_LISTEN_MAX_US) : RF_LISTEN_FIRST_US;
		memset(&error, 0, sizeof(error));
	}
}

/*
 * Opens all that the engine needs before it serves requests: event descriptors, the state in shared
 * memory, the device, the listeners and the lanes. A failure that cannot be lived with is FATAL;
 * the postmaster starts the engine again.
 */
static void
start_engine(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	uint32_t	i;

	rf_shared->start_error.kind = RF_ERROR_NONE;
	rf_engine = palloc0(sizeof(RfEngine));
	rf_engine->flows = palloc0(sizeof(RfFlowWork) * rf_shared->max_flows);
	MemoryContextSwitchTo(old);
	rf_engine->listen_tcp.fd = rf_engine->listen_local.fd = -1;
	rf_engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rf_engine->lane_events.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rf_engine->epoll_fd < 0 || rf_engine->lane_events.fd < 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("rdma_fdw engine: could not create an event descriptor: %m")));
	rf_engine->wake.kind = RF_SOURCE_WAKE;
	rf_engine->wake.fd = rf_shared->engine_wake_fd;
	rf_engine->lane_events.kind = RF_SOURCE_LANES;
	if (!rf_watch(&rf_engine->wake, EPOLLIN) || !rf_watch(&rf_engine->lane_events, EPOLLIN))
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("rdma_fdw engine: could not watch an event descriptor: %m")));

	publish_settings();
	read_boot_id(rf_engine->boot_id);
	atomic_fetch_add(&rf_shared->engine_epoch, 1);
	snprintf(rf_shared->engine_local_name, sizeof(rf_shared->engine_local_name),
			 "rdma_fdw.%016llx%016llx.%u", (unsigned long long) rf_shared->node.words[0],
			 (unsigned long long) rf_shared->node.words[1], atomic_load(&rf_shared->engine_epoch));
	for (i = 0; i < RF_MAX_PEERS; i++)
	{
		uint32_t	state = atomic_load(&rf_shared->peers[i].state);

		/*
		 * Requests that came while no engine was running are served; all earlier connections are
		 * gone.
		 */
		if (state != RF_PEER_CLAIMED && state != RF_PEER_REQUESTED)
			(void) atomic_compare_exchange_strong(&rf_shared->peers[i].state, &state, RF_PEER_FREE);
		rf_peers_wake(i);
	}

	before_shmem_exit(engine_exit, (Datum) 0);

	/*
	 * Backends open our descriptors of segments (segment.h). A program that was given capabilities
	 * (say, to lock memory) would be hidden from processes of its own user otherwise.
	 */
	(void) prctl(PR_SET_DUMPABLE, 1);
	choose_device();
	watch_device();
	rf_engine->pool = rf_pool_create(rf_shared, rf_engine->provider);
	rf_engine->values = rf_values_create(rf_shared, rf_engine->provider, rf_shared->value_size);
	if (rf_engine->pool == NULL || rf_engine->values == NULL || !rf_flows_start())
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("rdma_fdw engine: out of memory")));
	if (rf_engine->provider != NULL && !start_lanes())
		proc_exit(1);
	listen_when_possible();

	rf_shared->engine_start_us = rf_wall_us();
	rf_shared->start_error.kind = RF_ERROR_NONE;
	atomic_store(&rf_shared->engine_pid, MyProcPid);
	ereport(LOG,
			(errmsg("rdma_fdw engine: ready on port %u, provider %s, %u lanes, "
					"%llu MB in %u segments",
					atomic_load(&rf_shared->engine_port),
					rf_engine->provider ? rf_engine->caps.provider : "none", rf_engine->lane_count,
					(unsigned long long) (rf_segment_offset(rf_shared, rf_shared->segment_count) >>
										  20),
					rf_shared->segment_count)));
}

/* ---------- the loop ---------- */

static void
drain(int fd)
{
	uint64_t	count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

static void
lane_events(void)
{
	uint32_t	i;

	for (i = 0; i < rf_engine->lane_count; i++)
	{
		RfLaneEvent event;

		while (rf_lane_event(rf_engine->lanes[i], &event))
		{
			RfConnection *connection = event.peer >= 0 && event.peer < RF_MAX_PEERS ?
				rf_engine->by_peer[event.peer] :
				NULL;

			switch (event.kind)
			{
				case RF_LANE_CONNECTION_LOST:
					if (connection && connection->phase != RF_PHASE_DROPPING)
						rf_connection_lost(connection, &event.error);
					break;
				case RF_LANE_CONNECTION_PROVEN:
					if (connection && connection->phase == RF_PHASE_SETUP)
						rf_setup_lane_proven(connection);
					break;
				case RF_LANE_CONNECTION_DROPPED:
					rf_peer_lane_dropped(event.peer);
					break;
				case RF_LANE_FLOW_DETACHED:
					rf_flow_detached(event.flow);
					break;
			}
		}
	}
}

static long
next_timeout(int64_t now)
{
	int64_t		due = rf_connections_deadline();
	int64_t		other = rf_flows_deadline();

	if (other < due)
		due = other;
	other = rf_listener_deadline();
	if (other < due)
		due = other;
	if (due == INT64_MAX)
		return -1;
	if (due <= now)
		return 0;
	return Min((due - now) / 1000 + 1, 3600 * 1000);
}

/*
 * Processes the events that are there now, each source once, and then frees connections that ended
 * in this round.
 */
static void
one_round(void)
{
	struct epoll_event events[RF_EVENTS_AT_ONCE];
	int			count = epoll_wait(rf_engine->epoll_fd, events, RF_EVENTS_AT_ONCE, 0);
	int			i;
	int64_t		now;

	for (i = 0; i < count; i++)
	{
		RfSource   *source = events[i].data.ptr;

		/*
		 * An earlier event of this round may have closed it; its memory is there until the round
		 * is over.
		 */
		if (source->events == 0)
			continue;
		switch (source->kind)
		{
			case RF_SOURCE_DEVICE:
				device_events();
				break;
			case RF_SOURCE_WAKE:
				drain(source->fd);
				rf_peers_requested();
				rf_flows_requested();
				break;
			case RF_SOURCE_LANES:
				drain(source->fd);
				lane_events();
				break;
			case RF_SOURCE_LISTEN:
				rf_listener_event(source);
				break;
			case RF_SOURCE_CONTROL:
				rf_connection_event((RfConnection *) source, events[i].events);
				break;
			case RF_SOURCE_DATA:
				rf_setup_socket_event((RfDataSocket *) source, events[i].events);
				break;
		}
	}

	now = rf_now_us();
	rf_connections_timers(now);
	rf_flows_timers(now);
	rf_listener_timers(now);
	rf_connections_reap();
}

/*
 * The engine's background worker: starts everything, then serves requests of backends, messages of
 * peers and events of lanes until it is told to end.
 */
void
rf_engine_main(Datum arg)
{
	WaitEventSet *set;
	WaitEvent	event;
	uint32		wait_event;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	if (rf_shared == NULL)
		proc_exit(1);
	start_engine();

	wait_event = rf_wait_event_new("RdmaEngineMain");
	MemoryContextSwitchTo(TopMemoryContext);
	set = rf_create_wait_event_set(3);
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(set, WL_SOCKET_READABLE, rf_engine->epoll_fd, NULL, NULL);

	/* Requests made before this engine started. */
	rf_peers_requested();
	rf_flows_requested();

	while (!ShutdownRequestPending)
	{
		(void) WaitEventSetWait(set, next_timeout(rf_now_us()), &event, 1, wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			uint32_t	i;

			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			publish_settings();
			lane_settings(&rf_engine->lane_config);
			rf_connections_reloaded();
			for (i = 0; i < rf_engine->lane_count; i++)
				rf_lane_tune(rf_engine->lanes[i], &rf_engine->lane_config);
		}
		one_round();
	}

	rf_connections_bye();

	/* With exit code 1 the postmaster starts the engine again, unless it is shutting down. */
	ereport(LOG,
			(errmsg("rdma_fdw engine: stopping")));
	proc_exit(1);
}
