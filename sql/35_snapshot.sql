-- One snapshot of several nodes: settings, the counters of the gate, and statements that take it.
-- Both servers are this database; test/t/094_snapshot.pl has what others commit meanwhile.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA snapshot;
SET search_path = snapshot;
DO $$ BEGIN
	FOR i IN 1..2 LOOP
		EXECUTE format('CREATE SERVER snapshot_%s FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', i, current_setting('port'), current_database());
		EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER snapshot_%s OPTIONS (user %L)', i, current_user);
		EXECUTE format('CREATE TABLE t%s (k int PRIMARY KEY, v int)', i);
		EXECUTE format('CREATE FOREIGN TABLE f%s (k int, v int) SERVER snapshot_%1$s OPTIONS (table_name ''t%1$s'')', i);
	END LOOP;
END $$;
INSERT INTO t1 SELECT g, 0 FROM generate_series(1, 5) g;
INSERT INTO t2 SELECT g, 0 FROM generate_series(1, 5) g;

SHOW rdma_fdw.snapshot;
SET rdma_fdw.snapshot = 'none';

-- What the last statement added; others may run beside this.
CREATE TEMP TABLE seen AS SELECT * FROM rdma.stat_gate;
CREATE FUNCTION counted(OUT commits boolean, OUT snapshots boolean) LANGUAGE plpgsql AS $$
DECLARE now record;
BEGIN
	SELECT * INTO now FROM rdma.stat_gate;
	SELECT now.commits > s.commits, now.snapshots > s.snapshots
		INTO commits, snapshots FROM seen s;
	UPDATE seen s SET commits = now.commits, snapshots = now.snapshots;
END $$;
SELECT sum(f1.v + f2.v) FROM f1 JOIN f2 USING (k);
SELECT snapshots FROM counted();
UPDATE f1 SET v = 1 WHERE k = 1;
SELECT commits FROM counted();

-- One node twice, and another node below a savepoint
SELECT a.k, b.v FROM f1 a JOIN f1 b USING (k) ORDER BY 1 LIMIT 2;
BEGIN;
SELECT count(*) FROM f1;
SAVEPOINT a;
SELECT (SELECT sum(v) FROM f1), (SELECT sum(v) FROM f2);
ROLLBACK TO a;
SELECT (SELECT sum(v) FROM f1), (SELECT sum(v) FROM f2);
COMMIT;

-- A subselect for each row, on another node
SELECT k, (SELECT v FROM f2 WHERE f2.k = f1.k) FROM f1 ORDER BY k LIMIT 3;

-- Each node by itself
SET rdma_fdw.snapshot = 'each_node';
SELECT sum(f1.v + f2.v) FROM f1 JOIN f2 USING (k);
RESET rdma_fdw.snapshot;

-- Nodes that commit for themselves
SET rdma_fdw.commit = 'best_effort';
BEGIN;
UPDATE f1 SET v = 2 WHERE k = 1;
UPDATE f2 SET v = 2 WHERE k = 1;
COMMIT;
SELECT f1.v, f2.v FROM f1 JOIN f2 USING (k) WHERE k = 1;
RESET rdma_fdw.commit;

-- Who may read the counters
CREATE ROLE snapshot_nobody;
SET ROLE snapshot_nobody;
SELECT * FROM rdma.stat_gate;
SELECT * FROM rdma_internal.stat_gate();
RESET ROLE;
GRANT pg_read_all_stats TO snapshot_nobody;
GRANT USAGE ON SCHEMA rdma TO snapshot_nobody;
SET ROLE snapshot_nobody;
SELECT commits > 0 AS commits FROM rdma.stat_gate;
RESET ROLE;
DROP SCHEMA snapshot CASCADE;
DROP SERVER snapshot_1, snapshot_2 CASCADE;
REVOKE USAGE ON SCHEMA rdma FROM snapshot_nobody;
DROP ROLE snapshot_nobody;
