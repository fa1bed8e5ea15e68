/* rdma_fdw--1.0.sql - install script. Every object carries a comment, so \dx+ and \df+ explain themselves. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION rdma_fdw" to load this file. \quit

-- Made here, not named in the control file, so that DROP EXTENSION takes it along.
CREATE SCHEMA rdma;
COMMENT ON SCHEMA rdma IS 'functions and views of the extension rdma_fdw';
GRANT USAGE ON SCHEMA rdma TO PUBLIC;

CREATE FUNCTION rdma.rdma_fdw_handler()
RETURNS fdw_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma.rdma_fdw_handler() IS 'foreign data wrapper routines of rdma_fdw';

CREATE FUNCTION rdma.rdma_fdw_validator(text[], oid)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma.rdma_fdw_validator(text[], oid) IS 'checks the options of rdma_fdw servers, user mappings, tables and columns';

CREATE FOREIGN DATA WRAPPER rdma_fdw
  HANDLER rdma.rdma_fdw_handler
  VALIDATOR rdma.rdma_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER rdma_fdw IS 'tables of other PostgreSQL servers, pulled as columns over RDMA';

CREATE FUNCTION rdma.hello(request bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_hello' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.hello(bytea) IS 'internal: a reading node introduces itself and learns address, identity and one-time token of this node''s engine';

CREATE FUNCTION rdma.stream(request bytea, query text, parameter_types text[], parameter_values text[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_stream' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.stream(bytea, text, text[], text[]) IS 'internal: run a query with the caller''s rights and send its rows as column batches';

CREATE FUNCTION rdma.store(request bytea, relation text, columns text[], batch bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_store' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.store(bytea, text, text[], bytea) IS 'internal: insert rows that another node sends as column batches, with the caller''s rights';

CREATE FUNCTION rdma.receive()
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_receive' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION rdma.receive() IS 'internal: stands for the rows that arrive in the INSERT that rdma.store runs';

-- What the engine does. The functions read counters in shared memory; the views give names to what they return.

CREATE FUNCTION rdma.stat_engine(
  OUT pid integer, OUT started timestamptz, OUT port integer, OUT starts integer, OUT node text,
  OUT provider text, OUT device text, OUT device_problem text, OUT lanes integer,
  OUT buffer_memory bigint, OUT buffer_used bigint, OUT segments integer, OUT segments_lent integer, OUT segments_held integer,
  OUT handshakes bigint, OUT handshakes_refused bigint, OUT garbage_connections bigint, OUT connections_lost bigint,
  OUT flows_refused bigint, OUT buffer_waits bigint, OUT bytes_in_flight bigint, OUT bytes_in_flight_max bigint,
  OUT sleep_us double precision, OUT empty_poll_us double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_engine' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.stat_engine() IS 'state and counters of this node''s engine';
CREATE VIEW rdma.stat_engine AS SELECT * FROM rdma.stat_engine();
COMMENT ON VIEW rdma.stat_engine IS 'this node''s engine: process, port, device, buffer memory, handshakes; pid is NULL while it does not run';
COMMENT ON COLUMN rdma.stat_engine.segments_held IS 'segments that an engine of this host may still write into although its connection is over (it was stopped, say); they are lent again when it has noticed or has ended';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight IS 'bytes that are in flight under rdma_fdw.admission_policy';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight_max IS 'most that were since the engine started';
COMMENT ON COLUMN rdma.stat_engine.sleep_us IS 'what it costs a lane to sleep and be woken, in microseconds, measured when the engine started; rdma_fdw.poll_time = -1 polls for that long';
COMMENT ON COLUMN rdma.stat_engine.empty_poll_us IS 'what one look at an empty completion queue costs, in microseconds, measured when the engine started';

CREATE FUNCTION rdma.stat_lanes(
  OUT lane integer, OUT asleep boolean, OUT requests bigint, OUT work_requests bigint, OUT merged bigint, OUT merged_while_throttled bigint,
  OUT chained bigint, OUT doorbells bigint, OUT signaled bigint, OUT turns bigint, OUT throttled bigint, OUT throttled_ms double precision,
  OUT bytes_sent bigint,
  OUT immediates bigint, OUT protocol_errors bigint,
  OUT polling_mode text, OUT poll_time integer, OUT polls bigint, OUT empty_polls bigint, OUT completions bigint,
  OUT armed bigint, OUT sleeps bigint, OUT busy_ms double precision,
  OUT c_max integer, OUT credit_waits bigint, OUT epoch bigint, OUT candidate_rates bigint[])
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_lanes' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.stat_lanes() IS 'counters of the engine''s threads that move data';
CREATE VIEW rdma.stat_lanes AS
  SELECT *, round((busy_ms * 1000 / nullif(completions, 0))::numeric, 2) AS cpu_us_per_completion FROM rdma.stat_lanes();
COMMENT ON VIEW rdma.stat_lanes IS 'the engine''s lanes: one row per thread that moves data';
COMMENT ON COLUMN rdma.stat_lanes.requests IS 'buffers and messages that were to be sent';
COMMENT ON COLUMN rdma.stat_lanes.work_requests IS 'work requests that carried them';
COMMENT ON COLUMN rdma.stat_lanes.merged IS 'requests that left within the work request of a neighbour';
COMMENT ON COLUMN rdma.stat_lanes.merged_while_throttled IS 'those of them that had to wait for the admission window or for room in the send queue';
COMMENT ON COLUMN rdma.stat_lanes.chained IS 'work requests that shared a doorbell with an earlier one';
COMMENT ON COLUMN rdma.stat_lanes.doorbells IS 'times work requests were handed to the device';
COMMENT ON COLUMN rdma.stat_lanes.signaled IS 'work requests that asked for a completion';
COMMENT ON COLUMN rdma.stat_lanes.turns IS 'turns that ended because it was the next stream''s';
COMMENT ON COLUMN rdma.stat_lanes.throttled IS 'times the admission policy made the lane wait';
COMMENT ON COLUMN rdma.stat_lanes.throttled_ms IS 'how long it waited in all, in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.polling_mode IS 'rdma_fdw.polling_mode in force';
COMMENT ON COLUMN rdma.stat_lanes.poll_time IS 'microseconds that polling goes on after a success before it sleeps, in mode adaptive';
COMMENT ON COLUMN rdma.stat_lanes.polls IS 'looks at the completion queue';
COMMENT ON COLUMN rdma.stat_lanes.empty_polls IS 'those that found nothing';
COMMENT ON COLUMN rdma.stat_lanes.completions IS 'what the others found: immediates from peers and completions of own work requests';
COMMENT ON COLUMN rdma.stat_lanes.armed IS 'times the completion queue was asked for an event';
COMMENT ON COLUMN rdma.stat_lanes.sleeps IS 'times the lane went to sleep';
COMMENT ON COLUMN rdma.stat_lanes.busy_ms IS 'CPU time of the thread in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.cpu_us_per_completion IS 'that time in microseconds, divided by completions';
COMMENT ON COLUMN rdma.stat_lanes.c_max IS 'work requests that may be outstanding on one queue pair; NULL: no limit. rdma_fdw.credit_limit sets it or has it found';
COMMENT ON COLUMN rdma.stat_lanes.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.stat_lanes.epoch IS 'automatic decisions about c_max so far; none while no queue pair has more than 4 outstanding';
COMMENT ON COLUMN rdma.stat_lanes.candidate_rates IS 'bytes per second that the last decision measured with no limit, 4, 6, 8, 10, 12; NULL: not tried, because the load does not reach it';

CREATE FUNCTION rdma.qps(
  OUT lane integer, OUT peer integer, OUT host text, OUT qp bigint, OUT thread_domain integer,
  OUT outstanding integer, OUT outstanding_max integer, OUT c_max integer, OUT credit_waits bigint,
  OUT work_requests bigint, OUT bytes_sent bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_qps' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 8;
COMMENT ON FUNCTION rdma.qps() IS 'queue pairs of this node''s engine';
CREATE VIEW rdma.qps AS SELECT * FROM rdma.qps();
COMMENT ON VIEW rdma.qps IS 'one row per queue pair: each lane has one to each peer';
COMMENT ON COLUMN rdma.qps.lane IS 'thread that owns it, as in rdma.stat_lanes';
COMMENT ON COLUMN rdma.qps.peer IS 'as in rdma.stat_peers';
COMMENT ON COLUMN rdma.qps.host IS 'the peer as rdma.stat_peers names it';
COMMENT ON COLUMN rdma.qps.qp IS 'the device''s queue pair number; for shared memory and TCP a number of the lane''s own';
COMMENT ON COLUMN rdma.qps.thread_domain IS 'thread domain that it is on, so that its doorbell is shared with no other lane; NULL where the device has none (shared memory, TCP, soft-RoCE)';
COMMENT ON COLUMN rdma.qps.outstanding IS 'work requests posted and not completed';
COMMENT ON COLUMN rdma.qps.outstanding_max IS 'most that ever were';
COMMENT ON COLUMN rdma.qps.c_max IS 'most that may be, as in rdma.stat_lanes; NULL: no limit';
COMMENT ON COLUMN rdma.qps.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.qps.work_requests IS 'work requests posted since it was connected';
COMMENT ON COLUMN rdma.qps.bytes_sent IS 'bytes of payload in them';

CREATE FUNCTION rdma.stat_peers(
  OUT peer integer, OUT node text, OUT host text, OUT port integer, OUT direction text, OUT state text, OUT transport text,
  OUT connected timestamptz, OUT connections integer, OUT handshake_ms double precision, OUT round_trip_us integer,
  OUT bytes_sent bigint, OUT bytes_received bigint, OUT flows_opened bigint, OUT segments integer, OUT error text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_peers' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.stat_peers() IS 'connections of this node''s engine to others';
CREATE VIEW rdma.stat_peers AS SELECT * FROM rdma.stat_peers();
COMMENT ON VIEW rdma.stat_peers IS 'one row per connection of this node''s engine to another: transport, round trip, bytes, and why it failed';

CREATE FUNCTION rdma.stat_flows(
  OUT flow integer, OUT pid integer, OUT datid oid, OUT usesysid oid, OUT role text, OUT state text, OUT peer integer, OUT host text,
  OUT transport text, OUT lane integer, OUT weight integer, OUT started timestamptz, OUT rows bigint, OUT bytes bigint,
  OUT estimated_rows bigint, OUT percent double precision, OUT buffers integer, OUT buffer_size integer, OUT buffer_states text,
  OUT slots bigint, OUT waits bigint, OUT wait_ms double precision, OUT work_requests bigint, OUT merged bigint, OUT chained bigint,
  OUT credit_stalls bigint, OUT credits_sent bigint, OUT probes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_flows' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION rdma.stat_flows() IS 'streams of this node, incoming and outgoing; details of other roles'' streams are NULL';
CREATE VIEW rdma.stat_flows AS
  SELECT f.flow, f.pid, d.datname, r.rolname AS usename, f.role, f.state, f.host, f.transport, f.started,
    f.rows, f.bytes, f.estimated_rows, round(f.percent::numeric, 1) AS percent,
    f.buffers, f.buffer_size, f.buffer_states, f.slots, f.waits, f.wait_ms,
    f.work_requests, f.merged, f.chained, f.credit_stalls, f.credits_sent, f.probes, f.lane, f.weight, f.peer
  FROM rdma.stat_flows() f
    LEFT JOIN pg_catalog.pg_database d ON d.oid = f.datid
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = f.usesysid;
COMMENT ON VIEW rdma.stat_flows IS 'one row per running stream: progress against the planner''s estimate, waits, and how the bytes left; buffer_states has a letter per buffer: - free, f being filled, r ready, i in flight, p arrived, u being read';

CREATE FUNCTION rdma.devices(
  OUT provider text, OUT device text, OUT port integer, OUT state text, OUT link_layer text, OUT rate text, OUT netdev text,
  OUT mtu integer, OUT gid text, OUT gid_type text, OUT in_use boolean,
  OUT atomics boolean, OUT thread_domains boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_devices' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.devices() IS 'RDMA devices of this machine and the software transport';
CREATE VIEW rdma.devices AS SELECT * FROM rdma.devices();
COMMENT ON VIEW rdma.devices IS 'what this machine can move data with: one row per port of an RDMA device, and the software transport; in_use is what the engine took';
COMMENT ON COLUMN rdma.devices.atomics IS 'remote compare-and-swap is available; NULL for what the engine has not opened';
COMMENT ON COLUMN rdma.devices.thread_domains IS 'each lane has a doorbell of its own, see rdma.qps; NULL for what the engine has not opened';

CREATE FUNCTION rdma."check"(server name, OUT item text, OUT status text, OUT value text, OUT fix text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 15;
COMMENT ON FUNCTION rdma."check"(name) IS 'looks at everything that can be wrong between this node and a server: one row each, with what to do about it';

-- Counters of everybody's work are for everybody to see, as in pg_stat_activity; what names other machines is not.
REVOKE ALL ON rdma.stat_peers, rdma.qps FROM PUBLIC;
REVOKE ALL ON FUNCTION rdma.stat_peers(), rdma.qps() FROM PUBLIC;
GRANT SELECT ON rdma.stat_peers, rdma.qps TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION rdma.stat_peers(), rdma.qps() TO pg_read_all_stats;
GRANT SELECT ON rdma.stat_engine, rdma.stat_lanes, rdma.stat_flows, rdma.devices TO PUBLIC;

CREATE FUNCTION rdma.set_flow_weight(flow integer, weight integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_set_flow_weight' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.set_flow_weight(integer, integer) IS 'another weight, 1 to 100, for a stream that this node is sending; false when there is no such stream';
REVOKE ALL ON FUNCTION rdma.set_flow_weight(integer, integer) FROM PUBLIC;

CREATE FUNCTION rdma.zero_pages(bytes bigint, page_size integer)
RETURNS SETOF bytea
AS 'MODULE_PATHNAME', 'rdma_zero_pages' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.zero_pages(bigint, integer) IS 'pages of zeros, bytes in sum: what rdma.bench reads';

CREATE FUNCTION rdma.bench(server name, bytes bigint, buffer_size integer DEFAULT NULL, buffers integer DEFAULT NULL, copy boolean DEFAULT true,
  OUT throughput_mb_s double precision, OUT consume_mb_s double precision, OUT batches bigint, OUT waits bigint, OUT sender_waits bigint,
  OUT work_requests bigint, OUT merged bigint, OUT chained bigint, OUT credit_stalls bigint, OUT provider text, OUT transport text)
RETURNS record
AS 'MODULE_PATHNAME', 'rdma_bench' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.bench(name, bigint, integer, integer, boolean) IS 'moves bytes of zeros from a server through both engines: throughput test (buffers are released at once) and, with copy, consume test (they are copied first); buffer_size in kB and buffers are by default the settings rdma_fdw.receive_buffer_size and rdma_fdw.receive_buffers; the counters are of both tests together';
