-- What the views over the engine show: their columns, and that a pull moves the counters. The server is this one, reached again over TCP.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA far70;
CREATE SCHEMA near70;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER views70 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)',
				   '127.0.0.1', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER views70 OPTIONS (user :'USER');
CREATE TABLE far70.big AS SELECT i AS id, repeat(chr(97 + i % 26), 100) AS filler FROM generate_series(1, 30000) i;
IMPORT FOREIGN SCHEMA far70 FROM SERVER views70 INTO near70;
-- random() keeps the sum here, so every row comes
SELECT count(*), sum(length(filler)) FROM near70.big WHERE random() >= 0;

-- queue pairs
SELECT a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum) IS NOT NULL AS described
FROM pg_attribute a WHERE a.attrelid = 'rdma.qps'::regclass AND a.attnum > 0 ORDER BY a.attnum;
SELECT bool_and(lane < (SELECT lanes FROM rdma.stat_engine)) AS lanes,
	bool_and(peer IN (SELECT peer FROM rdma.stat_peers WHERE state = 'connected')) AS peers,
	bool_and(qp > 0) AS numbers, bool_and(outstanding <= outstanding_max) AS outstanding,
	sum(work_requests) > 0 AS work_requests, sum(bytes_sent) > 3000000 AS bytes
FROM rdma.qps;
-- one thread domain per lane, or none at all
SELECT bool_and(q.thread_domain IS NOT DISTINCT FROM CASE WHEN d.thread_domains THEN q.lane END) AS thread_domains
FROM rdma.qps q, rdma.devices d WHERE d.in_use;

-- lanes
SELECT c.attname, format_type(c.atttypid, c.atttypmod), col_description(c.attrelid, c.attnum) IS NOT NULL AS described
FROM pg_attribute c
WHERE c.attrelid = 'rdma.stat_lanes'::regclass
	AND c.attname IN ('polling_mode', 'poll_time', 'polls', 'empty_polls', 'completions', 'armed', 'sleeps', 'busy_ms', 'cpu_us_per_completion',
					  'c_max', 'credit_waits', 'epoch', 'candidate_rates', 'throttling') ORDER BY c.attname;
SELECT polling_mode, poll_time BETWEEN 20 AND 100 AS poll_time, polls > 0 AS polls, sum(completions) OVER () > 0 AS completions,
	busy_ms >= 0 AS cpu, armed > 0 AS armed
FROM rdma.stat_lanes WHERE lane = 0;

-- why requests are not limited
SELECT throttling ~ '^(nothing to limit|not decided|no limit seen|acts): ' AS says, (c_max IS NOT NULL) = (throttling LIKE 'acts:%') AS right
FROM rdma.stat_lanes WHERE lane = 0;

-- what was measured when the engine started, and how long lanes poll for that; a crowded machine may let it measure nothing
SELECT (sleep_us > 0) IS NOT FALSE AS sleep, (empty_poll_us > 0) IS NOT FALSE AS empty_poll,
	poll_time = CASE WHEN sleep_us IS NULL THEN 30 ELSE greatest(20, least(100, ceil(round(sleep_us::numeric, 3)))) END AS break_even
FROM rdma.stat_engine, rdma.stat_lanes WHERE lane = 0;

-- devices
SELECT count(*) AS in_use, bool_and(atomics IS NOT NULL AND thread_domains IS NOT NULL AND max_strided = 0) AS known FROM rdma.devices WHERE in_use;
SELECT count(*) AS known FROM rdma.devices WHERE NOT in_use AND (atomics IS NOT NULL OR thread_domains IS NOT NULL OR max_strided IS NOT NULL);

-- not everybody may see who the peers are
CREATE ROLE views70;
SET ROLE views70;
SELECT count(*) FROM rdma.qps;
SELECT count(*) > 0 AS lanes FROM rdma.stat_lanes;
RESET ROLE;
GRANT pg_read_all_stats TO views70;
SET ROLE views70;
SELECT count(*) > 0 AS qps FROM rdma.qps;
RESET ROLE;
DROP ROLE views70;

-- settings
SET rdma_fdw.polling_mode = 'busy';
ALTER SYSTEM SET rdma_fdw.polling_mode = 'sometimes';
SELECT name, boot_val, enumvals, context FROM pg_settings WHERE name = 'rdma_fdw.polling_mode';

SET rdma_fdw.disable = 'lookahead, local_rows';
SHOW rdma_fdw.disable;
SET rdma_fdw.disable = value_costs, page_boxes;
SHOW rdma_fdw.disable;
SET rdma_fdw.disable = 'lookahead, nothing';
RESET rdma_fdw.disable;
SELECT c.attname, c.atttypid::regtype, col_description(c.attrelid, c.attnum) IS NOT NULL AS told
FROM pg_attribute c WHERE c.attrelid = 'rdma.stat_lanes'::regclass AND c.attname ~ 'claim|backoff|grants' ORDER BY c.attname;

SET client_min_messages = warning;
DROP SCHEMA near70, far70 CASCADE;
DROP SERVER views70 CASCADE;
