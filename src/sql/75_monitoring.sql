/* src/sql/75_monitoring.sql: Views of what the engine and the extension do, checks and benchmarks. */

-- What the engine does. The functions read counters in shared memory; the views give names to what they return.
CREATE FUNCTION rdma_internal.stat_engine(
  OUT pid integer, OUT started timestamptz, OUT port integer, OUT starts integer, OUT node text,
  OUT provider text, OUT device text, OUT device_problem text, OUT lanes integer,
  OUT buffer_memory bigint, OUT buffer_used bigint, OUT segments integer, OUT segments_lent integer,
      OUT segments_held integer,
  OUT handshakes bigint, OUT handshakes_refused bigint, OUT garbage_connections bigint, OUT connections_lost bigint,
  OUT flows_refused bigint, OUT buffer_waits bigint, OUT bytes_in_flight bigint, OUT bytes_in_flight_max bigint,
  OUT sleep_us double precision, OUT empty_poll_us double precision,
  OUT value_memory bigint, OUT value_used bigint, OUT value_registered bigint,
  OUT registrations bigint, OUT registration_hits bigint, OUT registration_evictions bigint,
      OUT registrations_refused bigint,
  OUT copy_us_per_mb double precision, OUT register_us double precision, OUT register_us_per_mb double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_engine' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

CREATE VIEW rdma.stat_engine AS SELECT * FROM rdma_internal.stat_engine();
COMMENT ON VIEW rdma.stat_engine IS
    'this node''s engine: process, port, device, buffer memory, handshakes; pid is NULL while it does not run';
COMMENT ON COLUMN rdma.stat_engine.segments_held IS
    'segments that an engine of this host may still write into although its connection is over (it was stopped, say); '
    'they are lent again when it has noticed or has ended';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight IS 'bytes that are in flight under rdma_fdw.admission_window';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight_max IS 'most that were since the engine started';
COMMENT ON COLUMN rdma.stat_engine.sleep_us IS
    'what it costs a lane to sleep and be woken, in microseconds, measured when the engine started; lanes poll for '
    'about that long before they sleep';
COMMENT ON COLUMN rdma.stat_engine.empty_poll_us IS
    'what one look at an empty completion queue costs, in microseconds, measured when the engine started';
COMMENT ON COLUMN rdma.stat_engine.value_memory IS
    'bytes of memory in which rows that do not fit a buffer are laid out and sent from';
COMMENT ON COLUMN rdma.stat_engine.value_used IS 'bytes of it that streams have now';
COMMENT ON COLUMN rdma.stat_engine.value_registered IS
    'bytes of it that are registered; what is registered for two peers counts twice';
COMMENT ON COLUMN rdma.stat_engine.registrations IS 'registrations of pieces of it';
COMMENT ON COLUMN rdma.stat_engine.registration_hits IS 'pieces that were registered already when a stream wanted them';
COMMENT ON COLUMN rdma.stat_engine.registration_evictions IS 'registrations of value memory given up for others';
COMMENT ON COLUMN rdma.stat_engine.registrations_refused IS 'times a stream got no piece, and copied';
COMMENT ON COLUMN rdma.stat_engine.copy_us_per_mb IS
    'what it costs to copy a MB into buffers, in microseconds, measured when the engine started; whether a row is '
    'copied is decided by this and the next two';
COMMENT ON COLUMN rdma.stat_engine.register_us IS
    'what it costs to register and deregister memory, in microseconds, whatever its size';
COMMENT ON COLUMN rdma.stat_engine.register_us_per_mb IS 'and for each MB of it';
COMMENT ON FUNCTION rdma_internal.stat_engine() IS 'state and counters of this node''s engine';

CREATE FUNCTION rdma_internal.stat_lanes(
  OUT lane integer, OUT asleep boolean, OUT requests bigint, OUT work_requests bigint, OUT merged bigint,
      OUT merged_while_throttled bigint,
  OUT chained bigint, OUT doorbells bigint, OUT signaled bigint, OUT turns bigint, OUT throttled bigint,
      OUT throttled_ms double precision,
  OUT bytes_sent bigint, OUT in_place bigint, OUT in_place_bytes bigint, OUT from_pages bigint,
      OUT from_pages_bytes bigint,
  OUT immediates bigint, OUT protocol_errors bigint,
  OUT polling_mode text, OUT poll_time integer, OUT polls bigint, OUT empty_polls bigint, OUT completions bigint,
  OUT armed bigint, OUT sleeps bigint, OUT busy_ms double precision,
  OUT c_max integer, OUT credit_waits bigint, OUT epoch bigint, OUT candidate_rates bigint[], OUT throttling text,
  OUT claims bigint, OUT claims_lost bigint, OUT claims_held_up bigint, OUT backoff_ms double precision,
      OUT backoff_limit integer,
  OUT claims_at_once integer, OUT claims_asked bigint, OUT grants bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_lanes' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;

CREATE VIEW rdma.stat_lanes AS
  SELECT *, round((busy_ms * 1000 / nullif(completions, 0))::numeric, 2) AS cpu_us_per_completion
      FROM rdma_internal.stat_lanes();
COMMENT ON VIEW rdma.stat_lanes IS 'the engine''s lanes: one row per thread that moves data';
COMMENT ON COLUMN rdma.stat_lanes.requests IS 'buffers and messages that were to be sent';
COMMENT ON COLUMN rdma.stat_lanes.work_requests IS 'work requests that carried them';
COMMENT ON COLUMN rdma.stat_lanes.merged IS 'requests that left within the work request of another one';
COMMENT ON COLUMN rdma.stat_lanes.merged_while_throttled IS
    'those of them that had to wait for the admission window or for room in the send queue';
COMMENT ON COLUMN rdma.stat_lanes.chained IS 'work requests that shared a doorbell with an earlier one';
COMMENT ON COLUMN rdma.stat_lanes.doorbells IS 'times work requests were handed to the device';
COMMENT ON COLUMN rdma.stat_lanes.signaled IS 'work requests that asked for a completion';
COMMENT ON COLUMN rdma.stat_lanes.turns IS 'turns that ended because it was the next stream''s';
COMMENT ON COLUMN rdma.stat_lanes.throttled IS 'times the admission policy made the lane wait';
COMMENT ON COLUMN rdma.stat_lanes.throttled_ms IS 'how long it waited in all, in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.in_place IS
    'buffers whose payload was sent from value memory, where it had been laid out, without a copy';
COMMENT ON COLUMN rdma.stat_lanes.in_place_bytes IS 'bytes of such payload';
COMMENT ON COLUMN rdma.stat_lanes.from_pages IS
    'buffers of which parts were sent from pages in shared buffers, without a copy (rdma_fdw.register_shared_buffers)';
COMMENT ON COLUMN rdma.stat_lanes.from_pages_bytes IS 'bytes of such parts';
COMMENT ON COLUMN rdma.stat_lanes.polling_mode IS 'rdma_fdw.polling_mode in force';
COMMENT ON COLUMN rdma.stat_lanes.poll_time IS
    'microseconds that polling goes on after a success before it sleeps, in mode adaptive';
COMMENT ON COLUMN rdma.stat_lanes.polls IS 'looks at the completion queue';
COMMENT ON COLUMN rdma.stat_lanes.empty_polls IS 'those that found nothing';
COMMENT ON COLUMN rdma.stat_lanes.completions IS
    'what the others found: immediates from peers and completions of own work requests';
COMMENT ON COLUMN rdma.stat_lanes.armed IS 'times the completion queue was asked for an event';
COMMENT ON COLUMN rdma.stat_lanes.sleeps IS 'times the lane went to sleep';
COMMENT ON COLUMN rdma.stat_lanes.busy_ms IS 'CPU time of the thread in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.cpu_us_per_completion IS 'that time in microseconds, divided by completions';
COMMENT ON COLUMN rdma.stat_lanes.c_max IS
    'work requests that may be outstanding on one queue pair; NULL: no limit. The engine finds the best one by trying';
COMMENT ON COLUMN rdma.stat_lanes.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.stat_lanes.epoch IS
    'automatic decisions about c_max so far; none while no queue pair has more than 4 outstanding';
COMMENT ON COLUMN rdma.stat_lanes.claims IS 'receive buffers of shared pools that were won by remote compare-and-swap';
COMMENT ON COLUMN rdma.stat_lanes.claims_lost IS 'attempts that found the buffer taken';
COMMENT ON COLUMN rdma.stat_lanes.claims_held_up IS
    'times that a claim could not begin because the stream had claims_at_once of them';
COMMENT ON COLUMN rdma.stat_lanes.backoff_ms IS 'milliseconds between lost attempts and the next ones, in all';
COMMENT ON COLUMN rdma.stat_lanes.backoff_limit IS
    'microseconds that a lost claim waits at most, of the stream that claimed last; it follows the share of lost '
    'attempts';
COMMENT ON COLUMN rdma.stat_lanes.claims_at_once IS
    'claims that may be under way at once, of the stream that claimed last; they are made fewer before backoff_limit '
    'rises; 0: none claimed yet';
COMMENT ON COLUMN rdma.stat_lanes.claims_asked IS
    'receive buffers of shared pools that were asked for, because there are no atomics or too many attempts were lost';
COMMENT ON COLUMN rdma.stat_lanes.grants IS
    'receive buffers of this node''s shared pools that were granted to those that asked';
COMMENT ON COLUMN rdma.stat_lanes.candidate_rates IS
    'bytes per second that the last decision compared, with no limit, 1, 2, 4, 6, 8, 10, 12; NULL: not tried, because '
    'the load does not reach it or it would leave the lane fewer than 4 requests in all';
COMMENT ON COLUMN rdma.stat_lanes.throttling IS
    'whether requests on a queue pair are limited (c_max), or why they are not';
COMMENT ON FUNCTION rdma_internal.stat_lanes() IS 'counters of the engine''s threads that move data';

CREATE FUNCTION rdma_internal.qps(
  OUT lane integer, OUT peer integer, OUT host text, OUT qp bigint, OUT thread_domain integer,
  OUT outstanding integer, OUT outstanding_max integer, OUT c_max integer, OUT credit_waits bigint,
  OUT work_requests bigint, OUT bytes_sent bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_qps' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 8;

CREATE VIEW rdma.qps AS SELECT * FROM rdma_internal.qps();
COMMENT ON VIEW rdma.qps IS 'one row per queue pair: each lane has one to each peer';
COMMENT ON COLUMN rdma.qps.lane IS 'thread that owns it, as in rdma.stat_lanes';
COMMENT ON COLUMN rdma.qps.peer IS 'as in rdma.stat_peers';
COMMENT ON COLUMN rdma.qps.host IS 'the peer as rdma.stat_peers names it';
COMMENT ON COLUMN rdma.qps.qp IS
    'the device''s queue pair number; for shared memory and TCP a number of the lane''s own';
COMMENT ON COLUMN rdma.qps.thread_domain IS
    'thread domain that it is on, so that its doorbell is shared with no other lane; NULL where the device has none '
    '(shared memory, TCP, soft-RoCE)';
COMMENT ON COLUMN rdma.qps.outstanding IS 'work requests posted and not completed';
COMMENT ON COLUMN rdma.qps.outstanding_max IS 'most that ever were';
COMMENT ON COLUMN rdma.qps.c_max IS 'most that may be, as in rdma.stat_lanes; NULL: no limit';
COMMENT ON COLUMN rdma.qps.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.qps.work_requests IS 'work requests posted since it was connected';
COMMENT ON COLUMN rdma.qps.bytes_sent IS 'bytes of payload in them';
COMMENT ON FUNCTION rdma_internal.qps() IS 'queue pairs of this node''s engine';

CREATE FUNCTION rdma_internal.stat_flows(
  OUT flow integer, OUT pid integer, OUT datid oid, OUT usesysid oid, OUT role text, OUT state text, OUT peer integer,
      OUT host text,
  OUT transport text, OUT lane integer, OUT weight integer, OUT started timestamptz, OUT rows bigint, OUT bytes bigint,
  OUT estimated_rows bigint, OUT percent double precision, OUT buffers integer, OUT buffer_size integer,
      OUT buffer_states text,
  OUT slots bigint, OUT waits bigint, OUT wait_ms double precision, OUT work_requests bigint, OUT merged bigint,
      OUT chained bigint,
  OUT credit_stalls bigint, OUT credits_sent bigint, OUT probes bigint, OUT pool_buffers integer, OUT claims bigint,
  OUT claims_lost bigint, OUT region_copies bigint, OUT region_boxes bigint, OUT useful_bytes bigint,
  OUT gap_bytes bigint, OUT region_gathers bigint, OUT region_strided bigint, OUT uncopied_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_flows' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10;

CREATE VIEW rdma.stat_flows AS
  SELECT f.flow, f.pid, d.datname, r.rolname AS usename, f.role, f.state, f.host, f.transport, f.started,
    f.rows, f.bytes, f.estimated_rows, round(f.percent::numeric, 1) AS percent,
    f.buffers, f.buffer_size, f.buffer_states, f.slots, f.waits, f.wait_ms,
    f.work_requests, f.merged, f.chained, f.credit_stalls, f.credits_sent, f.probes, f.lane, f.weight, f.peer,
    f.pool_buffers, f.claims, f.claims_lost, f.region_copies, f.region_gathers, f.region_strided, f.region_boxes,
        f.useful_bytes, f.gap_bytes, f.uncopied_bytes
  FROM rdma_internal.stat_flows() f
    LEFT JOIN pg_catalog.pg_database d ON d.oid = f.datid
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = f.usesysid;
COMMENT ON COLUMN rdma.stat_flows.pool_buffers IS
    'receive buffers that the reader''s streams share; NULL: the stream has its own';
COMMENT ON COLUMN rdma.stat_flows.claims IS 'of a sender: those that it got, each for one buffer full';
COMMENT ON COLUMN rdma.stat_flows.claims_lost IS 'of a sender: attempts to claim one that found it taken';
COMMENT ON COLUMN rdma.stat_flows.region_copies IS
    'of a sender of heap pages (rdma_fdw.allow_page_shipping): pages of which the rows alone were sent';
COMMENT ON COLUMN rdma.stat_flows.region_gathers IS
    'of a sender of heap pages: pages of which work requests gathered the rows from where they lay';
COMMENT ON COLUMN rdma.stat_flows.region_strided IS
    'of a sender of heap pages: pages of equally long rows at equal distances, which the device took apart '
    '(rdma.devices.max_strided)';
COMMENT ON COLUMN rdma.stat_flows.region_boxes IS
    'of a sender of heap pages: pages sent with what lies between the rows';
COMMENT ON COLUMN rdma.stat_flows.useful_bytes IS 'of a sender: bytes of rows in them';
COMMENT ON COLUMN rdma.stat_flows.gap_bytes IS 'of a sender: bytes that lay between';
COMMENT ON COLUMN rdma.stat_flows.uncopied_bytes IS
    'of a sender: bytes of both that left from shared buffers (rdma_fdw.register_shared_buffers)';
COMMENT ON VIEW rdma.stat_flows IS
    'one row per running stream: progress against the planner''s estimate, waits, and how the bytes left; '
    'buffer_states has a letter per buffer: - free, f being filled, r ready, i in flight, p arrived, u being read';
COMMENT ON FUNCTION rdma_internal.stat_flows() IS
    'streams of this node, incoming and outgoing; details of other roles'' streams are NULL';

CREATE FUNCTION rdma_internal.devices(
  OUT provider text, OUT device text, OUT port integer, OUT state text, OUT link_layer text, OUT rate text,
      OUT netdev text,
  OUT mtu integer, OUT gid text, OUT gid_type text, OUT in_use boolean,
  OUT atomics boolean, OUT thread_domains boolean, OUT max_strided integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_devices' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;

CREATE VIEW rdma.devices AS SELECT * FROM rdma_internal.devices();
COMMENT ON VIEW rdma.devices IS
    'what this machine can move data with: one row per port of an RDMA device, and the software transport; in_use is '
    'what the engine took';
COMMENT ON COLUMN rdma.devices.atomics IS
    'remote compare-and-swap is available; NULL for what the engine has not opened';
COMMENT ON COLUMN rdma.devices.max_strided IS
    'strided entries (interleaved memory keys of mlx5 devices) that one queue pair may have out; 0: it has none; NULL '
    'for what the engine has not opened';
COMMENT ON COLUMN rdma.devices.thread_domains IS
    'each lane has a doorbell of its own, see rdma.qps; NULL for what the engine has not opened';
COMMENT ON FUNCTION rdma_internal.devices() IS 'RDMA devices of this machine and the software transport';

CREATE FUNCTION rdma."check"(server name, OUT item text, OUT status text, OUT value text, OUT fix text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 15;
COMMENT ON FUNCTION rdma."check"(name) IS
    'looks at everything that can be wrong between this node and a server: one row each, with what to do about it';
GRANT SELECT ON rdma.stat_engine, rdma.stat_lanes, rdma.stat_flows, rdma.devices TO PUBLIC;

CREATE FUNCTION rdma.set_flow_weight(flow integer, weight integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_set_flow_weight' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.set_flow_weight(integer, integer) IS
    'another weight, 1 to 100, for a stream that this node is sending; false when there is no such stream';
REVOKE ALL ON FUNCTION rdma.set_flow_weight(integer, integer) FROM PUBLIC;

CREATE FUNCTION rdma.zero_pages(bytes bigint, page_size integer)
RETURNS SETOF bytea
AS 'MODULE_PATHNAME', 'rdma_zero_pages' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.zero_pages(bigint, integer) IS 'pages of zeros, bytes in sum: what rdma.bench reads';

CREATE FUNCTION rdma.bench(server name, bytes bigint, buffer_size integer DEFAULT NULL, buffers integer DEFAULT NULL,
    copy boolean DEFAULT true,
  OUT throughput_mb_s double precision, OUT consume_mb_s double precision, OUT batches bigint, OUT waits bigint,
      OUT sender_waits bigint,
  OUT work_requests bigint, OUT merged bigint, OUT chained bigint, OUT credit_stalls bigint, OUT provider text,
      OUT transport text)
RETURNS record
AS 'MODULE_PATHNAME', 'rdma_bench' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.bench(name, bigint, integer, integer, boolean) IS
    'moves bytes of zeros from a server through both engines: throughput test (buffers are released at once) and, with '
    'copy, consume test (they are copied first); buffer_size in kB and buffers are by default the settings '
    'rdma_fdw.receive_buffer_size and rdma_fdw.receive_buffers; the counters are of both tests together';

CREATE FUNCTION rdma_internal.stat_peers(
  OUT peer integer, OUT node text, OUT host text, OUT port integer, OUT direction text, OUT state text,
      OUT transport text,
  OUT connected timestamptz, OUT connections integer, OUT handshake_ms double precision, OUT round_trip_us integer,
  OUT usual_round_trip_us integer, OUT bandwidth bigint, OUT bytes_sent bigint, OUT bytes_received bigint,
      OUT flows_opened bigint, OUT segments integer, OUT shared_buffers text, OUT error text,
  OUT encryption text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_peers' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;

CREATE VIEW rdma.stat_peers AS SELECT * FROM rdma_internal.stat_peers();
COMMENT ON COLUMN rdma.stat_peers.encryption IS
    'how rows are encrypted on the network (rdma_fdw.encryption); none: who reads the network reads the rows; trusted '
    'network: the same, but rdma_fdw.trusted_networks lists it; NULL: they cross no network';
COMMENT ON COLUMN rdma.stat_peers.usual_round_trip_us IS
    'the shortest of the last eight round trips, changed when it differs by a quarter; what the planner counts on with '
    'rdma_fdw.measured_costs';
COMMENT ON COLUMN rdma.stat_peers.bandwidth IS
    'bytes per second that pulls from this peer got while both ends waited for the network, smoothed; NULL: none did; '
    'the planner counts on the next power of two with rdma_fdw.measured_costs';
COMMENT ON COLUMN rdma.stat_peers.error IS
    'why it failed; of one that is connected: why it goes over TCP instead of RDMA (rdma_fdw.provider = auto); NULL: '
    'nothing is wrong';
GRANT EXECUTE ON FUNCTION rdma.bench, rdma."check" TO pg_monitor;
COMMENT ON VIEW rdma.stat_peers IS
    'one row per connection of this node''s engine to another: transport, round trip, bytes, and why it failed';
COMMENT ON COLUMN rdma.stat_peers.shared_buffers IS
    'registered: heap pages are sent to this peer from where they are; not asked for: no stream of pages went there '
    'yet; else why they are copied first (rdma_fdw.register_shared_buffers)';
COMMENT ON COLUMN rdma.stat_peers.round_trip_us IS 'the last round trip between the engines, their own delays included';

-- Counters of everybody's work are for everybody to see, as in pg_stat_activity; what names other machines is not.
REVOKE ALL ON rdma.stat_peers, rdma.qps FROM PUBLIC;
REVOKE ALL ON FUNCTION rdma_internal.stat_peers(), rdma_internal.qps() FROM PUBLIC;
GRANT SELECT ON rdma.stat_peers, rdma.qps TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION rdma_internal.stat_peers(), rdma_internal.qps() TO pg_read_all_stats;
REVOKE ALL ON FUNCTION rdma_internal.stat_peers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma_internal.stat_peers() TO pg_read_all_stats;
COMMENT ON FUNCTION rdma_internal.stat_peers() IS 'connections of this node''s engine to others';

-- Tables of servers with nodes, as a whole.
CREATE VIEW rdma.tables AS
  SELECT c.oid::regclass AS relation, s.srvname AS server,
      CASE WHEN o.distributed_by IS NOT NULL THEN 'distributed' WHEN o.replicated THEN 'replicated'
          ELSE 'anywhere' END AS placement,
      o.distributed_by, format('%I.%I', coalesce(o.schema_name, n.nspname), coalesce(o.table_name,
          c.relname)) AS remote_relation, p.nodes,
      CASE WHEN o.distributed_by IS NOT NULL THEN ARRAY(SELECT count(*) FILTER (WHERE b.node = node.number)
        FROM generate_series(0, cardinality(p.nodes) - 1) node(number), unnest(p.buckets) b(node) GROUP BY node.number
            ORDER BY node.number) END AS buckets,
      CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END AS rows, coalesce(o.propagate_ddl, false) AS propagate_ddl
    FROM pg_catalog.pg_foreign_table f JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
          JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
      JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
      LEFT JOIN rdma.placement p ON p.server = s.srvname
      CROSS JOIN LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'distributed_by') AS distributed_by,
          max(option_value) FILTER (WHERE option_name = 'replicated')::boolean AS replicated,
          max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name,
          max(option_value) FILTER (WHERE option_name = 'table_name') AS table_name,
          max(option_value) FILTER (WHERE option_name = 'propagate_ddl')::boolean AS propagate_ddl
        FROM pg_catalog.pg_options_to_table(f.ftoptions)) o
    WHERE EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) WHERE option_name = 'nodes');
COMMENT ON VIEW rdma.tables IS
    'one row per foreign table of a server with nodes, from what is known here: no node is asked; rdma.table_sizes '
    'asks them';
COMMENT ON COLUMN rdma.tables.relation IS 'the foreign table';
COMMENT ON COLUMN rdma.tables.server IS 'the server with nodes';
COMMENT ON COLUMN rdma.tables.placement IS
    'distributed: each row on one node, by its key; replicated: each row on every node; anywhere: neither option says';
COMMENT ON COLUMN rdma.tables.distributed_by IS 'the option distributed_by: columns of the key';
COMMENT ON COLUMN rdma.tables.remote_relation IS 'the table on the nodes';
COMMENT ON COLUMN rdma.tables.nodes IS
    'servers of the nodes on record, in the order of their numbers; NULL: they are not on record';
COMMENT ON COLUMN rdma.tables.buckets IS 'how many buckets lie on each of them; NULL unless the table is distributed';
COMMENT ON COLUMN rdma.tables.rows IS 'about how many rows the last ANALYZE found; NULL: there was none';
COMMENT ON COLUMN rdma.tables.propagate_ddl IS 'the option of that name: DROP and ALTER reach the tables of the nodes';
GRANT SELECT ON rdma.tables TO PUBLIC;

CREATE FUNCTION rdma.table_sizes(tab regclass, OUT node name, OUT buckets integer, OUT rows bigint, OUT bytes bigint,
    OUT skew double precision)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  map smallint[];
  answer bigint[];
  nodes name[];
  counts bigint[];
  sizes bigint[];
  shares integer[];
  average numeric;
BEGIN
  SELECT rdma.buckets(s.srvname) INTO map FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE f.ftrelid = tab;
  FOR part IN SELECT * FROM rdma_internal.placement_conditions(tab) c ORDER BY c.place LOOP
    -- a partitioned table there has no rows and no size of its own
    answer := rdma_internal.ask_node(part.node, format($$SELECT ARRAY[sum(nullif(reltuples, -1))::bigint,
        sum(pg_total_relation_size(oid))::bigint] FROM pg_catalog.pg_class
        WHERE relkind NOT IN ('p', 'I') AND oid IN (SELECT %1$L::regclass UNION SELECT relid FROM pg_catalog.pg_partition_tree(%1$L::regclass))$$, part.relation), NULL::bigint[]);
    nodes := nodes || part.node;
    counts := counts || answer[1];
    sizes := sizes || answer[2];
    shares := shares || CASE WHEN part.condition IS NOT NULL THEN (SELECT count(*)::integer FROM unnest(map) b
        WHERE b = part.place) END;
  END LOOP;
  SELECT avg(c) INTO average FROM unnest(counts) c;
  RETURN QUERY SELECT u.node, u.share, u.count, u.size, CASE WHEN average > 0 THEN round(u.count / average,
      2)::double precision END
    FROM unnest(nodes, shares, counts, sizes) WITH ORDINALITY u(node, share, count, size, place) ORDER BY u.place;
END $function$;
COMMENT ON FUNCTION rdma.table_sizes(regclass) IS
    'asks each node for the size of its table: buckets, rows as of the last ANALYZE or VACUUM there, bytes with '
    'indexes, and rows by the average of all nodes';

-- All counters in one view, by the names and units that Prometheus expects. The word after rdma_fdw_ says
-- which labels a metric has. What asks nodes (rdma.locks), or has a row per queue pair (rdma.qps), is not in it.
CREATE VIEW rdma.metrics AS
  SELECT m.name, '{}'::jsonb AS labels, m.value, m.type, m.help
    FROM (VALUES ('rdma_fdw_engine_up', (SELECT count(e.pid)::double precision FROM rdma_internal.stat_engine() e),
        'gauge',
        'The engine runs.'),
      ('rdma_fdw_engine_max_flows', current_setting('rdma_fdw.max_flows', true)::double precision, 'gauge',
          'Streams that may be open at once (rdma_fdw.max_flows).')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_device_info', jsonb_build_object('provider', coalesce(e.provider, ''), 'device',
      coalesce(e.device, '')), 1, 'gauge', 'What the engine moves data with.'
    FROM rdma_internal.stat_engine() e
  UNION ALL
  SELECT m.name, '{}', m.value, m.type, m.help FROM rdma_internal.stat_engine() e, LATERAL (VALUES
      ('rdma_fdw_engine_start_time_seconds', extract(epoch FROM e.started)::double precision, 'gauge',
          'When the engine started, in seconds since 1970.'),
      ('rdma_fdw_engine_starts_total', e.starts, 'counter', 'Starts of the engine since the server started.'),
      ('rdma_fdw_engine_lanes', e.lanes, 'gauge', 'Threads that move data.'),
      ('rdma_fdw_engine_buffer_bytes', e.buffer_memory, 'gauge', 'Memory for the buffers of streams.'),
      ('rdma_fdw_engine_buffer_used_bytes', e.buffer_used, 'gauge', 'Buffer memory that streams have.'),
      ('rdma_fdw_engine_segments', e.segments, 'gauge', 'Segments of buffer memory.'),
      ('rdma_fdw_engine_segments_lent', e.segments_lent, 'gauge', 'Segments that are lent to peers.'),
      ('rdma_fdw_engine_segments_held', e.segments_held, 'gauge', 'Segments that a stopped engine of this host may '
          'still write into.'),
      ('rdma_fdw_engine_handshakes_total', e.handshakes, 'counter', 'Connections of engines that were agreed on.'),
      ('rdma_fdw_engine_handshakes_refused_total', e.handshakes_refused, 'counter',
          'Connections of engines that were refused.'),
      ('rdma_fdw_engine_garbage_connections_total', e.garbage_connections, 'counter',
          'TCP connections that did not speak the protocol.'),
      ('rdma_fdw_engine_connections_lost_total', e.connections_lost, 'counter',
          'Connections of engines that were lost.'),
      ('rdma_fdw_engine_flows_refused_total', e.flows_refused, 'counter', 'Streams that could not be opened.'),
      ('rdma_fdw_engine_buffer_waits_total', e.buffer_waits, 'counter', 'Streams that waited for buffer memory.'),
      ('rdma_fdw_engine_in_flight_bytes', e.bytes_in_flight, 'gauge',
          'Bytes in flight under rdma_fdw.admission_window.'),
      ('rdma_fdw_engine_in_flight_max_bytes', e.bytes_in_flight_max, 'gauge', 'Most bytes that were in flight since '
          'the engine started.'),
      ('rdma_fdw_engine_value_bytes', e.value_memory, 'gauge', 'Value memory.'),
      ('rdma_fdw_engine_value_used_bytes', e.value_used, 'gauge', 'Value memory that streams have.'),
      ('rdma_fdw_engine_value_registered_bytes', e.value_registered, 'gauge', 'Value memory that is registered, once '
          'for each peer.'),
      ('rdma_fdw_engine_registrations_total', e.registrations, 'counter', 'Registrations of pieces of value memory.'),
      ('rdma_fdw_engine_registration_hits_total', e.registration_hits, 'counter',
          'Pieces of value memory that were registered when a stream wanted them.'),
      ('rdma_fdw_engine_registration_evictions_total', e.registration_evictions, 'counter',
          'Registrations of value memory given up for others.'),
      ('rdma_fdw_engine_registrations_refused_total', e.registrations_refused, 'counter',
          'Times that a stream got no piece of value memory, and copied.')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_connection_info', jsonb_build_object('peer', p.peer::text, 'host', coalesce(p.host, ''), 'direction',
      p.direction, 'state', p.state,
      'transport', coalesce(p.transport, ''), 'encryption', coalesce(p.encryption, '')), 1, 'gauge',
          'Another engine that this one is connected with.'
    FROM rdma_internal.stat_peers() p
  UNION ALL
  SELECT m.name, jsonb_build_object('peer', p.peer::text, 'host', coalesce(p.host, '')), m.value, m.type, m.help
      FROM rdma_internal.stat_peers() p, LATERAL (VALUES
      ('rdma_fdw_peer_connected', (p.state = 'connected')::integer::double precision, 'gauge',
          'The engines are connected.'),
      ('rdma_fdw_peer_degraded', (p.error IS NOT NULL)::integer, 'gauge', 'The connection failed, or uses TCP instead '
          'of RDMA.'),
      ('rdma_fdw_peer_unencrypted', (p.encryption IS NOT DISTINCT FROM 'none')::integer, 'gauge',
          'Rows cross a network that is not trusted in clear.'),
      ('rdma_fdw_peer_connections_total', p.connections, 'counter', 'Connections made, reconnects included.'),
      ('rdma_fdw_peer_handshake_seconds', p.handshake_ms / 1000, 'gauge', 'How long connecting took.'),
      ('rdma_fdw_peer_round_trip_seconds', p.round_trip_us / 1e6, 'gauge', 'The last round trip between the engines.'),
      ('rdma_fdw_peer_usual_round_trip_seconds', p.usual_round_trip_us / 1e6, 'gauge',
          'The shortest of the last round trips.'),
      ('rdma_fdw_peer_bandwidth_bytes_per_second', p.bandwidth, 'gauge', 'What pulls from the peer got while both ends '
          'waited for the network.'),
      ('rdma_fdw_peer_sent_bytes_total', p.bytes_sent, 'counter', 'Payload sent.'),
      ('rdma_fdw_peer_received_bytes_total', p.bytes_received, 'counter', 'Payload received.'),
      ('rdma_fdw_peer_flows_opened_total', p.flows_opened, 'counter', 'Streams opened.'),
      ('rdma_fdw_peer_segments', p.segments, 'gauge', 'Segments of buffer memory that are lent to the peer.')) m(name,
          value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT m.name, jsonb_build_object('lane', l.lane::text), m.value, m.type, m.help FROM rdma_internal.stat_lanes() l,
      LATERAL (VALUES
      ('rdma_fdw_lane_busy_seconds_total', l.busy_ms / 1000, 'counter', 'CPU time of the thread.'),
      ('rdma_fdw_lane_sent_bytes_total', l.bytes_sent, 'counter', 'Bytes sent.'),
      ('rdma_fdw_lane_in_place_bytes_total', l.in_place_bytes, 'counter',
          'Bytes sent from value memory without a copy.'),
      ('rdma_fdw_lane_from_pages_bytes_total', l.from_pages_bytes, 'counter', 'Bytes sent from shared buffers without '
          'a copy.'),
      ('rdma_fdw_lane_requests_total', l.requests, 'counter', 'Buffers and messages that were to be sent.'),
      ('rdma_fdw_lane_work_requests_total', l.work_requests, 'counter', 'Work requests that carried them.'),
      ('rdma_fdw_lane_merged_total', l.merged, 'counter', 'Requests that left within the work request of another one.'),
      ('rdma_fdw_lane_chained_total', l.chained, 'counter',
          'Work requests that shared a doorbell with an earlier one.'),
      ('rdma_fdw_lane_doorbells_total', l.doorbells, 'counter', 'Times that work requests were handed to the device.'),
      ('rdma_fdw_lane_immediates_total', l.immediates, 'counter', 'Immediates received.'),
      ('rdma_fdw_lane_turns_total', l.turns, 'counter', 'Turns that ended because it was the next stream''s.'),
      ('rdma_fdw_lane_throttled_total', l.throttled, 'counter', 'Times that the admission window made the lane wait.'),
      ('rdma_fdw_lane_throttled_seconds_total', l.throttled_ms / 1000, 'counter', 'How long it made it wait.'),
      ('rdma_fdw_lane_protocol_errors_total', l.protocol_errors, 'counter', 'Messages that broke the protocol.'),
      ('rdma_fdw_lane_polls_total', l.polls, 'counter', 'Looks at the completion queue.'),
      ('rdma_fdw_lane_empty_polls_total', l.empty_polls, 'counter', 'Looks that found nothing.'),
      ('rdma_fdw_lane_completions_total', l.completions, 'counter', 'Completions and immediates found.'),
      ('rdma_fdw_lane_sleeps_total', l.sleeps, 'counter', 'Times that the lane went to sleep.'),
      ('rdma_fdw_lane_credit_waits_total', l.credit_waits, 'counter', 'Waits of streams for credit of a queue pair.'),
      ('rdma_fdw_lane_claims_total', l.claims, 'counter', 'Receive buffers of shared pools won by remote '
          'compare-and-swap.'),
      ('rdma_fdw_lane_claims_lost_total', l.claims_lost, 'counter', 'Attempts that found the buffer taken.'),
      ('rdma_fdw_lane_claims_asked_total', l.claims_asked, 'counter', 'Receive buffers of shared pools that were asked '
          'for.'),
      ('rdma_fdw_lane_claims_held_up_total', l.claims_held_up, 'counter', 'Claims that had to wait for earlier ones of '
          'the stream.'),
      ('rdma_fdw_lane_grants_total', l.grants, 'counter', 'Receive buffers of own pools granted to nodes that asked.'),
      ('rdma_fdw_lane_backoff_seconds_total', l.backoff_ms / 1000, 'counter', 'Time between lost attempts and the next '
          'ones.')) m(name, value, type, help)
  UNION ALL
  SELECT m.name, jsonb_build_object('role', f.role), m.value, m.type, m.help
    FROM (SELECT r.role, count(s.flow) AS streams, max(extract(epoch FROM clock_timestamp() - s.started)) AS oldest
        FROM (VALUES ('reader'), ('sender')) r(role) LEFT JOIN rdma_internal.stat_flows() s ON s.role = r.role
        WHERE EXISTS (SELECT FROM rdma_internal.stat_engine()) GROUP BY r.role) f,
      LATERAL (VALUES ('rdma_fdw_flow_streams', f.streams::double precision, 'gauge',
          'Streams that are open, or about to be.'),
        ('rdma_fdw_flow_oldest_seconds', coalesce(f.oldest, 0), 'gauge', 'Age of the oldest of them.')) m(name, value,
            type, help)
  UNION ALL
  SELECT m.name, '{}', m.value, m.type, m.help FROM rdma_internal.stat_gate() g, LATERAL (VALUES
      ('rdma_fdw_gate_commits_total', g.commits::double precision, 'counter', 'Transactions that wrote on nodes and '
          'began to commit.'),
      ('rdma_fdw_gate_commit_waits_total', g.commit_waits, 'counter', 'Commits that waited for others to take '
          'snapshots.'),
      ('rdma_fdw_gate_commit_wait_seconds_total', g.commit_wait_us / 1e6, 'counter', 'How long they waited.'),
      ('rdma_fdw_gate_snapshots_total', g.snapshots, 'counter', 'Snapshots of several nodes that were taken as one.'),
      ('rdma_fdw_gate_snapshot_waits_total', g.snapshot_waits, 'counter', 'Snapshots that waited for commits.'),
      ('rdma_fdw_gate_snapshot_wait_seconds_total', g.snapshot_wait_us / 1e6, 'counter', 'How long they waited.'),
      ('rdma_fdw_gate_snapshots_renewed_total', g.snapshots_renewed, 'counter',
          'Snapshots taken in place of others of the same transaction.')) m(name, value, type, help)
  UNION ALL
  SELECT m.name, jsonb_build_object('datname', current_database(), 'foreign_server', t.server), m.value, m.type, m.help
    FROM (SELECT coalesce(s.srvname::text, x.server_name) AS server, count(x.gid) AS unfinished, count(*)
        FILTER (WHERE x.server_name IS NOT NULL AND x.gid IS NULL) AS unknown,
          max(extract(epoch FROM clock_timestamp() - x.since)) AS oldest
        FROM (SELECT s.srvname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
            JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
          WHERE NOT EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) WHERE option_name = 'nodes')) s
        FULL JOIN rdma_internal.transactions() x ON x.server_name = s.srvname GROUP BY 1) t,
      LATERAL (VALUES ('rdma_fdw_transaction_unfinished', t.unfinished::double precision, 'gauge',
          'Transactions that are decided and not finished on the node.'),
        ('rdma_fdw_transaction_unknown', t.unknown, 'gauge', 'User mappings with which the node could not be asked '
            'whether it has such transactions.'),
        ('rdma_fdw_transaction_oldest_seconds', coalesce(t.oldest, 0), 'gauge',
            'For how long the oldest of either is so.')) m(name, value, type, help)
    WHERE t.server IS NOT NULL
  UNION ALL
  SELECT m.name, jsonb_build_object('datname', current_database(), 'foreign_server', s.server, 'command', s.command),
      m.value, m.type, m.help
    FROM (SELECT server, command, count(*) AS running, sum(total_rows) AS rows, sum(total_bytes) AS bytes,
        sum(buckets_left) AS buckets_left,
          max(extract(epoch FROM clock_timestamp() - move_started)) AS oldest FROM rdma_internal.stat_moves()
              WHERE server IS NOT NULL GROUP BY server, command) s,
      LATERAL (VALUES ('rdma_fdw_move_running', s.running::double precision, 'gauge',
          'Sessions that move rows from node to node.'),
        ('rdma_fdw_move_rows', s.rows, 'gauge', 'Rows that they have moved since their commands began.'),
        ('rdma_fdw_move_bytes', s.bytes, 'gauge', 'Bytes of these rows, as they travel.'),
        ('rdma_fdw_move_buckets_left', s.buckets_left, 'gauge', 'Buckets that they still have to move.'),
        ('rdma_fdw_move_age_seconds', s.oldest, 'gauge', 'Age of the move that runs; clients wait meanwhile.')) m(name,
            value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_node_buckets', jsonb_build_object('datname', current_database(), 'foreign_server', p.server, 'node',
      n.node), count(b.place), 'gauge', 'Buckets of distributed tables that lie on the node.'
    FROM rdma.placement p CROSS JOIN unnest(p.nodes) WITH ORDINALITY n(node, number) LEFT
        JOIN LATERAL unnest(p.buckets) b(place) ON b.place = n.number - 1
    GROUP BY p.server, n.node;
COMMENT ON VIEW rdma.metrics IS
    'one row per sample for a monitoring system: counters of this server''s engine, and of this database''s servers; '
    'asks no node';
COMMENT ON COLUMN rdma.metrics.name IS 'name of the metric, with its unit; ends with _total if it only rises';
COMMENT ON COLUMN rdma.metrics.labels IS 'which one: an object of strings; with the name it is unique';
COMMENT ON COLUMN rdma.metrics.value IS 'never NULL: what is not known has no row';
COMMENT ON COLUMN rdma.metrics.type IS 'counter or gauge';
COMMENT ON COLUMN rdma.metrics.help IS 'what it is; the same for all rows of a name';
REVOKE ALL ON rdma.metrics FROM PUBLIC;
GRANT SELECT ON rdma.metrics TO pg_read_all_stats;
