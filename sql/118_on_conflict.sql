-- INSERT ... ON CONFLICT with columns and DO UPDATE: each statement does to a table of the nodes what it does to a local one.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name onc
\i :two_nodes
CREATE SCHEMA onc_here;
\pset format unaligned
\t on
SET search_path = onc;
CREATE TYPE mood AS ENUM ('glad', 'sad');
SELECT count(*) FROM rdma.run_on('onc', 'CREATE SCHEMA onc');
SELECT count(*) FROM rdma.run_on('onc', 'CREATE TYPE onc.mood AS ENUM (''glad'', ''sad'')');
CREATE TABLE t (id int, part text, v numeric, n int DEFAULT 7, m mood, at timestamptz, "a $1 'b""" text, twice numeric GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (id, part));
CREATE TABLE onc_here.t (LIKE t INCLUDING ALL);
CREATE TABLE r (x int PRIMARY KEY, y int);
CREATE TABLE onc_here.r (LIKE r INCLUDING ALL);
SELECT rdma.distribute_table('t', 'onc', 'id'), rdma.distribute_table('r', 'onc', replicated => true);
CREATE TABLE news AS SELECT i AS id, 'p' || i % 2 AS part, i / 4.0 AS v, i AS n, CASE WHEN i % 5 > 0 THEN 'glad'::mood END AS m, '2026-01-01 00:00+00'::timestamptz + i * interval '1 h' AS at, E'x''\\' || i AS e FROM generate_series(1, 2000) i;
INSERT INTO t SELECT id, part, v, n, m, at, e FROM news WHERE id <= 1000;
INSERT INTO onc_here.t SELECT id, part, v, n, m, at, e FROM news WHERE id <= 1000;
INSERT INTO r SELECT i, i FROM generate_series(1, 10) i;
INSERT INTO onc_here.r SELECT i, i FROM generate_series(1, 10) i;
-- what it did, or its error, on both sides, if it is not the same; and which tables differ then
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows bigint; answer text := '';
BEGIN
  IF statement ~ '^INSERT.*RETURNING' THEN
    EXECUTE format('WITH w AS (%s) SELECT coalesce(string_agg(w::text, '' '' ORDER BY w::text), ''no row'') FROM w', statement) INTO answer;
    RETURN answer;
  END IF;
  EXECUTE statement;
  GET DIAGNOSTICS rows = ROW_COUNT;
  RETURN rows;
EXCEPTION WHEN OTHERS THEN
  RETURN concat_ws(': ', sqlstate, sqlerrm);
END $$;
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE here text; there text; differ bigint;
BEGIN
  SET LOCAL search_path = onc_here, onc;
  here := outcome(statement);
  SET LOCAL search_path = onc;
  there := outcome(statement);
  SELECT count(*) INTO differ FROM ((SELECT * FROM onc.t EXCEPT ALL SELECT * FROM onc_here.t) UNION ALL (SELECT * FROM onc_here.t EXCEPT ALL SELECT * FROM onc.t)) d;
  RETURN CASE WHEN here = there THEN here ELSE format('here: %s; there: %s', here, there) END || CASE WHEN differ > 0 THEN format(' (%s rows differ)', differ) ELSE '' END;
END $$;
-- columns alone
SELECT same($$INSERT INTO t (id, part, v) VALUES (1, 'p1', 0), (3000, 'q', 0), (3000, 'q', 1) ON CONFLICT (id, part) DO NOTHING$$);
SELECT same($$INSERT INTO t (id, part, v) VALUES (1, 'p1', 0), (3001, 'q', 0) ON CONFLICT (part, id) DO NOTHING RETURNING id, part, v, n, twice$$);
SELECT same($$INSERT INTO t SELECT id, part, v, n, m, at, e FROM onc.news ON CONFLICT (id, part) DO NOTHING$$);
-- new values: of the row that came, the row that is there, from here, and of types that the nodes know by their columns only
SELECT same($$INSERT INTO t SELECT id, part, v + 1, n, m, at, e FROM onc.news ON CONFLICT (id, part) DO UPDATE SET v = EXCLUDED.v, m = EXCLUDED.m, "a $1 'b""" = EXCLUDED."a $1 'b""" || t."a $1 'b"""$$);
SELECT same($$INSERT INTO t AS x (id, part, v, n) SELECT id, part, v, n FROM onc.news WHERE id % 3 = 0 ON CONFLICT (id, part) DO UPDATE SET (v, n) = (x.v + EXCLUDED.v, coalesce(x.n, 0) * 2 + EXCLUDED.n) WHERE x.n < EXCLUDED.n + 10$$);
SELECT same($$INSERT INTO t (id, part) VALUES (2, 'p0'), (3, 'p1'), (4000, 'new') ON CONFLICT (id, part) DO UPDATE SET m = 'sad', at = '2026-02-03', "a $1 'b""" = E'$9 ''\\', v = NULL, n = DEFAULT RETURNING *$$);
SELECT same($$INSERT INTO t (id, part) VALUES (2, 'p0') ON CONFLICT (id, part) DO UPDATE SET at = now(), v = CASE WHEN t.v IS NULL THEN 1 ELSE t.v END WHERE t.n = 7$$);
SELECT same($$INSERT INTO t (id, part) VALUES (2, 'p0') ON CONFLICT (id, part) DO UPDATE SET v = 5 WHERE t.n > 7 RETURNING v$$);
-- the key may be assigned if that leaves it as it is
SELECT same($$INSERT INTO t (id, part, n) VALUES (5, 'p1', 5) ON CONFLICT (id, part) DO UPDATE SET id = EXCLUDED.id, part = EXCLUDED.part, n = EXCLUDED.n$$);
SELECT same($$INSERT INTO t (id, part, n) VALUES (5, 'p1', 5) ON CONFLICT (id, part) DO UPDATE SET part = 'moved'$$);
-- a row is not updated twice by one statement
SELECT same($$INSERT INTO t (id, part, n) VALUES (6, 'p0', 1), (7, 'p1', 1), (6, 'p0', 2) ON CONFLICT (id, part) DO UPDATE SET n = EXCLUDED.n$$);
SELECT same($$INSERT INTO t (id, part, n) VALUES (5000, 'p0', 1), (5000, 'p0', 2) ON CONFLICT (id, part) DO UPDATE SET n = EXCLUDED.n RETURNING n$$);
-- RETURNING says nothing of rows that were not written, even if it names no column
SELECT same($$INSERT INTO t (id, part) VALUES (2, 'p0'), (3002, 'q') ON CONFLICT (id, part) DO NOTHING RETURNING 'constant'$$);
SELECT same($$INSERT INTO t (id, part) VALUES (2, 'p0'), (3003, 'q') ON CONFLICT (id, part) DO UPDATE SET n = 8 WHERE t.n = -1 RETURNING 'constant'$$);
-- WITH, views, what an INSERT of WITH writes
-- OLD (PostgreSQL 18) of a row that the node updates does not come; of one that is new it is NULL
CREATE FUNCTION old_of(statement text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
  IF current_setting('server_version_num')::int >= 180000 THEN RETURN outcome(statement); END IF;
  RETURN '0A000: ON CONFLICT cannot be executed for foreign table "t"'; END $$;
SELECT old_of($$INSERT INTO t (id, part) VALUES (2, 'p0') ON CONFLICT (id, part) DO UPDATE SET v = 5 RETURNING v, (SELECT old.n)$$);
SELECT same($$WITH w AS (INSERT INTO t (id, part, n) VALUES (8, 'p0', 80), (6000, 'w', 60) ON CONFLICT (id, part) DO UPDATE SET n = EXCLUDED.n RETURNING id, n) SELECT sum(n) FROM w$$);
CREATE VIEW onc.w AS SELECT id, part, n FROM onc.t WHERE n < 100 WITH CHECK OPTION;
CREATE VIEW onc_here.w AS SELECT id, part, n FROM onc_here.t WHERE n < 100 WITH CHECK OPTION;
SELECT same($$INSERT INTO w VALUES (8, 'p0', 81) ON CONFLICT (id, part) DO UPDATE SET n = EXCLUDED.n + w.n - 100$$);
SELECT same($$INSERT INTO w VALUES (8, 'p0', 81) ON CONFLICT (id, part) DO UPDATE SET n = 200$$);
-- rows that the nodes have
SELECT same($$INSERT INTO t (id, part, n) SELECT id, part, 1 FROM t WHERE id % 7 = 0 ON CONFLICT (id, part) DO UPDATE SET n = t.n + EXCLUDED.n$$);
SELECT same($$INSERT INTO t (id, part, n) SELECT id, part, (SELECT max(u.n) FROM t u WHERE u.id = t.id) FROM t WHERE id < 30 ON CONFLICT (id, part) DO UPDATE SET n = t.n + EXCLUDED.n$$);
CREATE TABLE d (id int PRIMARY KEY, n int);
SELECT rdma.distribute_table('d', 'onc', 'id');
INSERT INTO d SELECT i, i FROM generate_series(1, 100) i;
EXPLAIN (VERBOSE, COSTS off) INSERT INTO d SELECT id, 1 FROM d WHERE id % 7 = 0 ON CONFLICT (id) DO UPDATE SET n = d.n * 10 + EXCLUDED.n WHERE d.id > 10;
INSERT INTO d SELECT id, 1 FROM d WHERE id % 7 = 0 ON CONFLICT (id) DO UPDATE SET n = d.n * 10 + EXCLUDED.n WHERE d.id > 10;
SELECT sum(n), sum(n) FILTER (WHERE id % 7 = 0) FROM d;
EXPLAIN (VERBOSE, COSTS off) INSERT INTO t (id, part, n) VALUES (1, 'p1', 3) ON CONFLICT (id, part) DO UPDATE SET n = t.n + EXCLUDED.n RETURNING n;
-- parameters, in plans of any kind
PREPARE up(int, int, text) AS INSERT INTO t (id, part, n) VALUES ($1, 'p1', 3) ON CONFLICT (id, part) DO UPDATE SET n = t.n + $2, "a $1 'b""" = $3 WHERE t.id < $2 + 100000;
SET plan_cache_mode = force_custom_plan;
EXECUTE up(11, 5, 'custom $4');
SET plan_cache_mode = force_generic_plan;
EXECUTE up(11, 50, E'generic ''$4\\');
EXECUTE up(11, 500, NULL);
EXECUTE up(13, 1, 'a''b');
EXPLAIN (VERBOSE, COSTS off) EXECUTE up(13, 1, 'a''b');
RESET plan_cache_mode;
SELECT id, n, "a $1 'b""" FROM t WHERE id IN (11, 13) ORDER BY id;
DO $$DECLARE i int; BEGIN FOR i IN 1..8 LOOP INSERT INTO onc.t (id, part, n) VALUES (15, 'p1', i) ON CONFLICT (id, part) DO UPDATE SET n = onc.t.n + i; END LOOP; END$$;
SELECT n FROM t WHERE id = 15;
-- copies
INSERT INTO r VALUES (1, 100), (11, 11) ON CONFLICT (x) DO UPDATE SET y = r.y + EXCLUDED.y;
INSERT INTO r VALUES (1, 100), (12, 12) ON CONFLICT (x) DO UPDATE SET y = r.y + EXCLUDED.y WHERE r.y < 50 RETURNING *;
SELECT node, sum(answer::int) FROM rdma.run_on('onc', 'SELECT sum(y) FROM onc.r') GROUP BY node ORDER BY node;
-- nothing is evaluated by the nodes otherwise, but there is no other way here
SET rdma_fdw.push_down = 'none';
INSERT INTO r VALUES (1, 100) ON CONFLICT (x) DO UPDATE SET y = r.y + EXCLUDED.y RETURNING y;
RESET rdma_fdw.push_down;
-- what cannot be
\set VERBOSITY default
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (part) DO NOTHING;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (part) DO UPDATE SET n = 1;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id) DO NOTHING;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) DO UPDATE SET id = 5;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) DO UPDATE SET n = random();
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) DO UPDATE SET n = (SELECT max(n) FROM news);
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) DO UPDATE SET n = (SELECT max(n) FROM news WHERE id = t.id);
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, (lower(part))) DO UPDATE SET n = 1;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) WHERE n > 0 DO UPDATE SET n = 1;
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part COLLATE "C") DO NOTHING;
CREATE TRIGGER after_update AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger();
INSERT INTO t (id, part) VALUES (1, 'p1') ON CONFLICT (id, part) DO UPDATE SET n = 1;
DROP TRIGGER after_update ON t;
-- a partition here
CREATE TABLE parts (id int, n int) PARTITION BY LIST (n);
ALTER TABLE parts ATTACH PARTITION d FOR VALUES IN (1, 2);
INSERT INTO d VALUES (200, 1);
INSERT INTO d VALUES (200, 1) ON CONFLICT (id) DO UPDATE SET n = 3;
-- rights: those of the clause, too
CREATE ROLE regress_rdma_conflict;
GRANT USAGE ON SCHEMA onc TO regress_rdma_conflict;
GRANT USAGE ON FOREIGN SERVER onc, onc1, onc2 TO regress_rdma_conflict;
GRANT INSERT, SELECT ON r TO regress_rdma_conflict;
SET ROLE regress_rdma_conflict;
INSERT INTO r VALUES (1, 1) ON CONFLICT (x) DO UPDATE SET y = 1;
RESET ROLE;
SET client_min_messages = warning;
DROP OWNED BY regress_rdma_conflict;
DROP ROLE regress_rdma_conflict;
DROP SERVER onc1, onc2, onc CASCADE;
DROP SCHEMA onc, onc_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA onc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA onc CASCADE;
