/*
 * stat.c - the counters of engine, lanes, peers and flows as SQL functions; the views of the
 * install script are over these.
 *
 * Reads shared memory and nothing else: no lock, no request to the engine. So a row is a glance,
 * not a snapshot. Without the library in shared_preload_libraries there is nothing to show, and the
 * functions return no rows.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "base/result_row.h"
#include "shmem/layout.h"
#include "shmem/peer_table.h"


PG_FUNCTION_INFO_V1(rdma_stat_engine);
PG_FUNCTION_INFO_V1(rdma_stat_lanes);
PG_FUNCTION_INFO_V1(rdma_qps);
PG_FUNCTION_INFO_V1(rdma_stat_peers);
PG_FUNCTION_INFO_V1(rdma_stat_flows);

static void
put_counter(RfRow *row, const _Atomic uint64_t *counter)
{
	rf_put_number(row, atomic_load_explicit(counter, memory_order_relaxed));
}

/* Microseconds since 1970, 0 = never. */
static void
put_time(RfRow *row, int64 unix_us)
{
	rf_put_if(row, unix_us != 0,
			  TimestampTzGetDatum(unix_us - (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
								  USECS_PER_DAY));
}

static void
put_ms(RfRow *row, uint64 us)
{
	rf_put(row, Float8GetDatum(us / 1000.0));
}

/*
 * rdma.stat_engine: one row about the engine, its device, memory and measured costs. Columns that
 * only a running engine has are NULL without it.
 */
Datum
rdma_stat_engine(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	int32		pid;
	bool		slept;
	bool		copied;
	uint64		used = 0;
	uint32		lent = 0;
	uint32		i;

	InitMaterializedSRF(fcinfo, 0);
	if (rf_shared == NULL)
		return (Datum) 0;
	pid = atomic_load(&rf_shared->engine_pid);
	for (i = 0; i < rf_shared->segment_count; i++)
	{
		used += atomic_load_explicit(&rf_shared->segments[i].used_pages, memory_order_relaxed);
		lent += rf_shared->segments[i].peer != RF_NO_PEER;
	}

	slept = pid != 0 && rf_shared->calibration.sleep_ns != 0;
	copied = pid != 0 && rf_shared->calibration.copy_ns != 0;
	rf_put_if(&row, pid != 0, Int32GetDatum(pid));
	put_time(&row, pid != 0 ? rf_shared->engine_start_us : 0);
	rf_put_if(&row, pid != 0, Int32GetDatum(atomic_load(&rf_shared->engine_port)));
	rf_put_int(&row, atomic_load(&rf_shared->engine_epoch));
	rf_put_text(&row, rf_node_text(&rf_shared->node));
	rf_put_text(&row, rf_shared->device.provider);
	rf_put_text(&row, rf_shared->device.device);
	rf_put_text(&row, pid == 0 && rf_shared->start_error.kind != RF_ERROR_NONE ?
				rf_shared->start_error.message : rf_shared->device_error.message);
	rf_put_int(&row, rf_shared->lane_count);
	rf_put_number(&row, rf_segment_offset(rf_shared, rf_shared->segment_count));
	rf_put_number(&row, used * 4096);
	rf_put_int(&row, rf_shared->segment_count);
	rf_put_int(&row, lent);
	rf_put_int(&row, atomic_load(&rf_shared->segments_held));
	put_counter(&row, &rf_shared->counters.handshakes);
	put_counter(&row, &rf_shared->counters.handshakes_refused);
	put_counter(&row, &rf_shared->counters.garbage_connections);
	put_counter(&row, &rf_shared->counters.connections_lost);
	put_counter(&row, &rf_shared->counters.flows_refused);
	put_counter(&row, &rf_shared->buffer_waits);
	put_counter(&row, &rf_shared->admission.in_flight);
	put_counter(&row, &rf_shared->admission.high_water);
	rf_put_if(&row, slept, Float8GetDatum(rf_shared->calibration.sleep_ns / 1000.0));
	rf_put_if(&row, slept, Float8GetDatum(rf_shared->calibration.empty_poll_ns / 1000.0));
	rf_put_number(&row, rf_shared->value_size);
	put_counter(&row, &rf_shared->values.used);
	put_counter(&row, &rf_shared->values.registered);
	put_counter(&row, &rf_shared->values.registrations);
	put_counter(&row, &rf_shared->values.hits);
	put_counter(&row, &rf_shared->values.evictions);
	put_counter(&row, &rf_shared->values.refused);
	rf_put_if(&row, copied, Float8GetDatum(rf_shared->calibration.copy_ns / 1000.0));
	rf_put_if(&row, copied, Float8GetDatum(rf_shared->calibration.register_ns / 1000.0));
	rf_put_if(&row, copied, Float8GetDatum(rf_shared->calibration.register_mb_ns / 1000.0));
	rf_end_row(&row);
	return (Datum) 0;
}

static const char *
polling_mode(uint32 mode)
{
	switch ((RfPollingMode) mode)
	{
		case RF_POLLING_ADAPTIVE:
			return "adaptive";
		case RF_POLLING_BUSY:
			return "busy";
		case RF_POLLING_EVENT:
			return "event";
		case RF_POLLING_EVENT_BATCH:
			return "event_batch";
		case RF_POLLING_HYBRID:
			return "hybrid";
	}
	return "unknown";
}

/* 0 = no limit */
static void
put_limit(RfRow *row, uint32 c_max)
{
	rf_put_if(row, c_max != 0, Int32GetDatum(c_max));
}

/* An element per candidate, NULL for those not tried; NULL while nothing was decided. */
static void
put_rates(RfRow *row, const RfLaneThrottle *throttle)
{
	Datum		rates[RF_CREDIT_CANDIDATES];
	bool		nulls[RF_CREDIT_CANDIDATES];
	int			dimension = RF_CREDIT_CANDIDATES;
	int			lower = 1;
	int			i;

	if (atomic_load_explicit(&throttle->epoch, memory_order_relaxed) == 0)
	{
		rf_put_if(row, false, (Datum) 0);
		return;
	}
	for (i = 0; i < RF_CREDIT_CANDIDATES; i++)
	{
		uint64		rate = atomic_load_explicit(&throttle->rate[i], memory_order_relaxed);

		rates[i] = Int64GetDatum((int64) rate);
		nulls[i] = rate == 0;
	}
	rf_put(row, PointerGetDatum(construct_md_array(rates, nulls, 1, &dimension, &lower, INT8OID,
												   sizeof(int64), FLOAT8PASSBYVAL,
												   TYPALIGN_DOUBLE)));
}

/* What the lane's credit throttle does, or why it does nothing, in words. */
static const char *
throttling(const RfLaneThrottle *throttle)
{
	uint32		c_max = atomic_load_explicit(&throttle->c_max, memory_order_relaxed);
	uint32		peak = atomic_load_explicit(&throttle->peak, memory_order_relaxed);
	uint32		peak_all = atomic_load_explicit(&throttle->peak_all, memory_order_relaxed);
	bool		tried = false;

	for (int i = 1; i < RF_CREDIT_CANDIDATES; i++)
		tried |= atomic_load_explicit(&throttle->rate[i], memory_order_relaxed) > 0;
	if (c_max > 0)
		return psprintf("acts: at most %u requests are outstanding on a queue pair", c_max);
	if (peak_all <= RF_CREDIT_FEWEST || peak <= 1)
		return psprintf("nothing to limit: no more than %u requests were outstanding, %u on one "
						"queue pair", peak_all, peak);
	if (atomic_load_explicit(&throttle->epoch, memory_order_relaxed) == 0)
		return psprintf("not decided: up to %u requests were outstanding, %u on one queue pair, "
						"too shortly to compare limits", peak_all, peak);
	if (tried)
		return "no limit seen: no number of outstanding requests was 5 % faster than no limit";
	return "nothing to limit: when it was decided last, too few requests were outstanding";
}

/* rdma.stat_lanes: a row per lane with its counters and settings. */
Datum
rdma_stat_lanes(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	uint32		i;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; rf_shared != NULL && i < rf_shared->lane_count; i++)
	{
		RfLane	   *lane = &rf_shared->lanes[i];

		rf_put_int(&row, i);
		rf_put(&row, BoolGetDatum(atomic_load(&lane->asleep) != 0));
		put_counter(&row, &lane->requests);
		put_counter(&row, &lane->work_requests);
		put_counter(&row, &lane->merged);
		put_counter(&row, &lane->merged_while_throttled);
		put_counter(&row, &lane->chained);
		put_counter(&row, &lane->doorbells);
		put_counter(&row, &lane->signaled);
		put_counter(&row, &lane->turns);
		put_counter(&row, &lane->throttled);
		put_ms(&row, atomic_load_explicit(&lane->throttled_us, memory_order_relaxed));
		put_counter(&row, &lane->bytes_sent);
		put_counter(&row, &lane->in_place);
		put_counter(&row, &lane->in_place_bytes);
		put_counter(&row, &lane->from_pages);
		put_counter(&row, &lane->from_pages_bytes);
		put_counter(&row, &lane->immediates);
		put_counter(&row, &lane->protocol_errors);
		rf_put_text(&row,
					polling_mode(atomic_load_explicit(&lane->polling_mode, memory_order_relaxed)));
		rf_put_int(&row, atomic_load_explicit(&lane->poll_us, memory_order_relaxed));
		put_counter(&row, &lane->polls);
		put_counter(&row, &lane->empty_polls);
		put_counter(&row, &lane->completions);
		put_counter(&row, &lane->armed);
		put_counter(&row, &lane->sleeps);
		put_ms(&row, atomic_load_explicit(&lane->busy_us, memory_order_relaxed));
		put_limit(&row, atomic_load_explicit(&lane->throttle.c_max, memory_order_relaxed));
		put_counter(&row, &lane->throttle.waits);
		put_counter(&row, &lane->throttle.epoch);
		put_rates(&row, &lane->throttle);
		rf_put_text(&row, throttling(&lane->throttle));
		put_counter(&row, &lane->claims.won);
		put_counter(&row, &lane->claims.lost);
		put_counter(&row, &lane->claims.held_up);
		put_ms(&row, atomic_load_explicit(&lane->claims.backoff_us, memory_order_relaxed));
		rf_put_int(&row,
				   atomic_load_explicit(&lane->claims.backoff_limit_us, memory_order_relaxed));
		rf_put_int(&row, atomic_load_explicit(&lane->claims.at_once, memory_order_relaxed));
		put_counter(&row, &lane->claims.asked);
		put_counter(&row, &lane->claims.grants);
		rf_end_row(&row);
	}
	return (Datum) 0;
}

/* rdma_internal.qps(): a row per queue pair of each lane that is connected now. */
Datum
rdma_qps(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	uint32		i;
	int			peer;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; rf_shared != NULL && i < rf_shared->lane_count; i++)
	{
		RfLane	   *lane = &rf_shared->lanes[i];

		for (peer = 0; peer < RF_MAX_PEERS; peer++)
		{
			RfLaneQp   *qp = &lane->qps[peer];
			uint32		number = atomic_load(&qp->number);
			char		host[sizeof(rf_shared->peers[0].host)];

			if (number == 0 || atomic_load(&rf_shared->engine_pid) == 0)
				continue;
			strlcpy(host, rf_shared->peers[peer].host, sizeof(host));
			rf_put_int(&row, i);
			rf_put_int(&row, peer);
			rf_put_text(&row, host);
			rf_put_number(&row, number);

			/* A lane has one, so its number is the lane's. */
			rf_put_if(&row, atomic_load(&qp->thread_domain) != 0, Int32GetDatum(i));
			rf_put_int(&row, atomic_load_explicit(&qp->outstanding, memory_order_relaxed));
			rf_put_int(&row, atomic_load_explicit(&qp->outstanding_max, memory_order_relaxed));
			put_limit(&row, atomic_load_explicit(&lane->throttle.c_max, memory_order_relaxed));
			put_counter(&row, &qp->waits);
			put_counter(&row, &qp->work_requests);
			put_counter(&row, &qp->bytes);
			rf_end_row(&row);
		}
	}
	return (Datum) 0;
}

/* The state of a connection as rdma.stat_peers shows it. */
static const char *
peer_state(uint32 state)
{
	switch ((RfPeerState) state)
	{
		case RF_PEER_FREE:
			return "free";
		case RF_PEER_CLAIMED:
		case RF_PEER_REQUESTED:
		case RF_PEER_CONNECTING:
			return "connecting";
		case RF_PEER_CONNECTED:
			return "connected";
		case RF_PEER_FAILED:
			return "failed";
		case RF_PEER_CLOSING:
			return "closing";
	}
	return "unknown";
}

/* rdma.stat_peers: a row per used entry of the peer table, from a copy of the entry. */
Datum
rdma_stat_peers(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	int			i;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; rf_shared != NULL && i < RF_MAX_PEERS; i++)
	{
		/* A copy, so that strings end however the entry changes meanwhile. */
		RfPeer		peer = rf_shared->peers[i];
		uint32		state = atomic_load(&rf_shared->peers[i].state);
		uint32		pages = atomic_load(&peer.pages);

		if (state == RF_PEER_FREE || state == RF_PEER_CLAIMED)
			continue;
		explicit_bzero(peer.token, sizeof(peer.token));
		peer.host[sizeof(peer.host) - 1] = '\0';
		peer.transport[sizeof(peer.transport) - 1] = '\0';
		peer.encryption[sizeof(peer.encryption) - 1] = '\0';
		peer.error.message[sizeof(peer.error.message) - 1] = '\0';
		rf_put_int(&row, i);
		rf_put_text(&row, rf_node_text(&peer.node));
		rf_put_text(&row, peer.host);
		rf_put_if(&row, !peer.accepted, Int32GetDatum(peer.port));
		rf_put_text(&row, peer.accepted ? "accepted" : "connected to it");
		rf_put_text(&row, peer_state(state));
		rf_put_text(&row, peer.transport);
		put_time(&row, peer.since_us);
		rf_put_int(&row, peer.connections);
		put_ms(&row, peer.handshake_us);
		rf_put_int(&row, peer.round_trip_us);
		rf_put_if(&row, atomic_load(&peer.usual_round_trip_us) > 0,
				  Int32GetDatum(atomic_load(&peer.usual_round_trip_us)));
		rf_put_if(&row, atomic_load(&peer.bandwidth) > 0,
				  Int64GetDatum((int64) atomic_load(&peer.bandwidth)));
		put_counter(&row, &peer.bytes_sent);
		put_counter(&row, &peer.bytes_received);
		put_counter(&row, &peer.flows_opened);
		rf_put_int(&row, atomic_load(&peer.segments));
		peer.pages_error[sizeof(peer.pages_error) - 1] = '\0';
		rf_put_text(&row, pages == RF_PAGES_NOT_ASKED ? "not asked for" :
					pages == RF_PAGES_REGISTERED ? "registered" :
					peer.pages_error);
		rf_put_text(&row, peer.error.message);
		rf_put_text(&row, peer.encryption);
		rf_end_row(&row);
	}
	return (Datum) 0;
}

/* The state of a flow as rdma.stat_flows shows it. */
static const char *
flow_state(uint32 state)
{
	switch ((RfFlowState) state)
	{
		case RF_FLOW_FREE:
		case RF_FLOW_CLAIMED:
			break;
		case RF_FLOW_LISTENING:
			return "waiting for sender";
		case RF_FLOW_OPENING:
			return "opening";
		case RF_FLOW_OPEN:
			return "open";
		case RF_FLOW_FAILED:
			return "failed";
		case RF_FLOW_CLOSING:
			return "closing";
	}
	return "unknown";
}

/* The buffer-info array as one letter per buffer. */
static const char *
buffer_letters(const RfFlow *flow, char letters[RF_MAX_SLOTS + 1])
{
	static const char names[] = "-fripurr"; /* free, filling, ready, in flight, full ("packed"), in
											 * use, placed, gathered: ready, too */
	uint32		count = Min(flow->slot_count, RF_MAX_SLOTS);
	uint32		i;

	for (i = 0; i < count; i++)
	{
		uint32		status = atomic_load_explicit(&flow->status[i], memory_order_relaxed);

		letters[i] = status < sizeof(names) - 1 ? names[status] : '?';
	}
	letters[count] = '\0';
	return letters;
}

/*
 * rdma.stat_flows: a row per used entry of the flow table, read without locks. Without the rights
 * of a flow's role its columns after the role are NULL.
 */
Datum
rdma_stat_flows(PG_FUNCTION_ARGS)
{
	bool		sees_all = is_member_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	RfRow		row = RF_ROW(fcinfo);
	uint32		i;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; rf_shared != NULL && i < rf_shared->max_flows; i++)
	{
		RfFlow	   *flow = &rf_shared->flows[i];
		uint32		state = atomic_load(&flow->state);
		char		letters[RF_MAX_SLOTS + 1];
		char		host[sizeof(rf_shared->peers[0].host)] = "";
		char		transport[sizeof(rf_shared->peers[0].transport)] = "";
		uint32		pooled;
		uint64		rows;
		uint64		estimated;

		if (state == RF_FLOW_FREE || state == RF_FLOW_CLAIMED)
			continue;

		/*
		 * As in pg_stat_activity: other roles see that there is something, and whose, but no
		 * details.
		 */
		rf_put_int(&row, i);
		rf_put_int(&row, flow->owner_pid);
		rf_put(&row, ObjectIdGetDatum(flow->database_oid));
		rf_put(&row, ObjectIdGetDatum(flow->role_oid));
		if (!sees_all && !has_privs_of_role(GetUserId(), flow->role_oid))
		{
			rf_end_row(&row);
			continue;
		}

		if (flow->peer >= 0 && flow->peer < RF_MAX_PEERS)
		{
			strlcpy(host, rf_shared->peers[flow->peer].host, sizeof(host));
			strlcpy(transport, rf_shared->peers[flow->peer].transport, sizeof(transport));
		}
		rows = atomic_load_explicit(&flow->stats.rows, memory_order_relaxed);
		rf_put_text(&row, flow->role == RF_FLOW_CONSUMER ? "reader" : "sender");
		rf_put_text(&row, flow_state(state));
		rf_put_int(&row, flow->peer);
		rf_put_text(&row, host);
		rf_put_text(&row, transport);
		rf_put_int(&row, flow->memory.lane);
		rf_put_int(&row, atomic_load(&flow->weight));
		put_time(&row, flow->start_us);
		rf_put_number(&row, rows);
		put_counter(&row, &flow->stats.bytes);
		estimated = flow->role == RF_FLOW_CONSUMER ? flow->estimated_rows : 0;
		rf_put_if(&row, estimated > 0, Int64GetDatum((int64) estimated));
		/* An estimate is only one: a pull that passes it is not done. */
		rf_put_if(&row, estimated > 0, Float8GetDatum(Min(100.0 * rows / Max(estimated, 1), 99.9)));
		rf_put_int(&row, flow->slot_count);
		rf_put_int(&row, flow->slot_size);
		rf_put_text(&row, buffer_letters(flow, letters));
		put_counter(&row, &flow->stats.slots);
		put_counter(&row, &flow->stats.waits);
		put_ms(&row, atomic_load_explicit(&flow->stats.wait_us, memory_order_relaxed));
		put_counter(&row, &flow->stats.work_requests);
		put_counter(&row, &flow->stats.merged);
		put_counter(&row, &flow->stats.chained);
		put_counter(&row, &flow->stats.credit_stalls);
		put_counter(&row, &flow->stats.credits_sent);
		put_counter(&row, &flow->stats.probes);
		pooled = flow->role != RF_FLOW_CONSUMER ? flow->memory.pool_buffers :
			flow->pool != NULL ? flow->pool->count : 0;
		rf_put_if(&row, pooled > 0, Int32GetDatum(pooled));
		put_counter(&row, &flow->stats.claims);
		put_counter(&row, &flow->stats.claims_lost);
		put_counter(&row, &flow->stats.region_copies);
		put_counter(&row, &flow->stats.region_boxes);
		put_counter(&row, &flow->stats.useful_bytes);
		put_counter(&row, &flow->stats.gap_bytes);
		put_counter(&row, &flow->stats.region_gathers);
		put_counter(&row, &flow->stats.region_strided);
		put_counter(&row, &flow->stats.uncopied_bytes);
		rf_end_row(&row);
	}
	return (Datum) 0;
}
