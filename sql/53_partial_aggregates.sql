-- Aggregates of which data nodes compute the states, and this node the rest.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER part_one FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); EXECUTE format(
  'CREATE SERVER part_two FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER part_one OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER part_two OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TABLE here.t (id int, k int, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, iv interval, s text COLLATE "C", bp char(9) COLLATE "C",
    d date, ti time, tz timetz, ts timestamp, tsz timestamptz, o oid, ip inet, bits bit(8), td tid, lsn pg_lsn, x8 xid8, ints int4[], rng int4range,
    mrng int4multirange, cash money, by bytea, m here.mood);
INSERT INTO here.t SELECT i, nullif(i % 7, 3), i % 3 > 0, i % 100, i * 3, i::int8 * 4000000000000, i / 4.0, i / 8.0, i * 1.25, i * interval '1 day 3 seconds',
    's' || i % 11, 'p' || i % 17, date '2020-01-01' + i % 40, time '00:00' + i * interval '7 min', timetz '00:00+0' + i * interval '9 min',
    timestamp '2001-01-01' + i * interval '1 min', timestamptz '2001-01-01 00:00 UTC' + i * interval '1 min', i, inet '10.0.0.0' + i, (i % 256)::bit(8),
    format('(%s,%s)', i % 9, i % 5 + 1)::tid, pg_lsn '0/0' + i, i::text::xid8, ARRAY[i % 5, i], int4range(i % 3, 20 + i), int4multirange(int4range(i % 3, 20 + i)),
    i::money, decode(lpad(to_hex(i % 50), 4, '0'), 'hex'), 'ok' FROM generate_series(1, 400) i;
-- NULLs, a group of NULLs only, and NaN
INSERT INTO here.t (id, k) SELECT i, nullif(i % 9, 2) FROM generate_series(401, 440) i;
INSERT INTO here.t (id, k, n, f8, i4) VALUES (441, 20, 'NaN', 'NaN', 1), (442, 21, 'Infinity', 'Infinity', 2), (443, 22, '-Infinity', '-Infinity', 3), (444, 22, 'Infinity', 'Infinity', 4),
    (445, 23, 1e400, 1e100, 5), (446, 23, -1e400, 1e100, 6), (447, 23, 1e-400, 1e-100, 7);
CREATE VIEW here.one AS SELECT * FROM here.t WHERE id % 2 = 0;
CREATE VIEW here.two AS SELECT * FROM here.t WHERE id % 2 = 1;
ANALYZE here.t;

CREATE SCHEMA away;
CREATE TABLE away.t (LIKE here.t) PARTITION BY LIST ((id % 2));
CREATE FOREIGN TABLE away.one PARTITION OF away.t FOR VALUES IN (0) SERVER part_one OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.two PARTITION OF away.t FOR VALUES IN (1) SERVER part_two OPTIONS (schema_name 'here');
ANALYZE away.one, away.two;

-- Rows of a query over both schemas; NULL if they are the same. Floating point depends on the order of its operands.
CREATE FUNCTION differs(query text) RETURNS text LANGUAGE plpgsql SET extra_float_digits = -4 AS $$
DECLARE diff text;
BEGIN
  SET LOCAL search_path = away, public;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT q::text AS r FROM (%s) q', query);
  SET LOCAL search_path = here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT q::text AS r FROM (%s) q', query);
  SELECT string_agg(w || r, ' ' ORDER BY w, r) INTO diff FROM ((SELECT 'got ' AS w, r FROM (TABLE got EXCEPT ALL TABLE expected) g)
    UNION ALL (SELECT 'expected ', r FROM (TABLE expected EXCEPT ALL TABLE got) e)) d;
  IF NOT EXISTS (TABLE expected) THEN
    diff := 'no rows';
  END IF;
  DROP TABLE got, expected;
  RETURN diff;
END $$;

-- What crosses for it: states, results of parts, whole groups, or rows.
CREATE FUNCTION crosses(query text) RETURNS text LANGUAGE plpgsql SET search_path = away, public AS $$
DECLARE line text; plan text := '';
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    plan := plan || line || E'\n';
  END LOOP;
  RETURN CASE WHEN plan ~ 'Remote SQL: SELECT [^\n]*rdma_internal.partialize' THEN 'state' WHEN plan ~ 'Finalize.*Foreign Scan.*Partial Aggregate on' THEN 'result'
    WHEN plan ~ 'Aggregate on' THEN 'groups' ELSE 'rows' END;
END $$;

CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql SET search_path = away, public AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Query Identifier):?' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

SELECT plan('SELECT k, avg(n), count(*), stddev(i4) + 1 FROM t GROUP BY k HAVING avg(f8) > 3 AND max(i4) < 10000');
SELECT plan('SELECT avg(i8) FROM t');

-- Every built-in aggregate that can be computed in parts: grouped, over everything, of nothing, and with FILTER.
CREATE TABLE here.tried AS
SELECT p.oid::regprocedure::text AS name, q.call, crosses(format('SELECT k, %s FROM t GROUP BY k', call)) AS crosses,
    coalesce(differs(format('SELECT k, %s AS a FROM t WHERE k < 20 GROUP BY k', call)), differs(format('SELECT %s AS a FROM t WHERE k < 20', call)),
             differs(format('SELECT %s AS a FROM t WHERE id < 0', call)), differs(format('SELECT k, %s FILTER (WHERE id %% 3 = 0 AND k <> 4) AS a FROM t WHERE k < 20 GROUP BY k', call))) AS diff
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid,
  LATERAL (SELECT p.proname || '(' || CASE WHEN p.pronargs = 0 THEN '*' ELSE (SELECT string_agg(c, ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY x(y, n),
    LATERAL (SELECT CASE y::regtype::text WHEN 'anyarray' THEN 'ints' WHEN 'anyenum' THEN 'm' WHEN 'anyrange' THEN 'rng' WHEN 'anymultirange' THEN 'mrng' WHEN '"any"' THEN 's'
      WHEN 'anyelement' THEN 'i4' WHEN 'anynonarray' THEN 'i4' ELSE (SELECT min(attname) FROM pg_attribute WHERE attrelid = 'here.t'::regclass AND atttypid = y AND attnum > 0 AND attname NOT IN ('id', 'k')) END) z(c)) END || ')') q(call)
WHERE a.aggcombinefn <> 0 AND a.aggkind = 'n' AND p.oid < 10000 AND call IS NOT NULL AND p.proname !~ '^(array_agg|string_agg|any_value)';
SELECT name, call, diff FROM here.tried WHERE diff IS NOT NULL ORDER BY name;
SELECT crosses, count(*), string_agg(name, ' ' ORDER BY name) FROM here.tried
WHERE split_part(name, '(', 1) = ANY ('{avg,sum,count,min,max,stddev,stddev_pop,stddev_samp,variance,var_pop,var_samp,corr,covar_pop,covar_samp,regr_avgx,regr_avgy,regr_count,regr_intercept,regr_r2,regr_slope,regr_sxx,regr_sxy,regr_syy,bit_and,bit_or,bit_xor,bool_and,bool_or,every,range_intersect_agg}')
  AND name !~ '(xid8|bytea|record)' AND name <> 'sum(interval)' GROUP BY 1 ORDER BY 1;

-- special values
SELECT differs('SELECT k, avg(n) AS a, sum(n) AS b, stddev(n) AS c, var_pop(n) AS d, avg(f8) AS e, sum(f8) AS f, var_samp(f8) AS g, avg(i4) AS h FROM t WHERE k > 19 GROUP BY k');
SELECT differs('SELECT sum(n) AS a, avg(n) AS b, sum(i8) AS c FROM t');
SELECT differs('SELECT sum(n) AS a, avg(n) AS b, stddev(n) AS c, sum(i8) AS d FROM t WHERE id < 400 OR k = 23');
-- expressions, HAVING, order, limit, other queries around
SELECT crosses(q), differs(q) FROM (VALUES
  ('SELECT k % 2 AS g, avg(n) * 2 + count(*) AS a, round(stddev_pop(i4), 3) AS b FROM t WHERE k < 10 GROUP BY 1'),
  ('SELECT k, sum(i8 + i4) / avg(i2) AS a FROM t GROUP BY k HAVING avg(i4) > 590 AND count(n) > 5'),
  ('SELECT 1 AS x FROM t HAVING avg(i4) > 5'),
  ('SELECT avg(i4) AS a FROM t WHERE id < 0'),
  ('SELECT k, avg(i4) AS a FROM t WHERE id < 0 OR id = 7 GROUP BY k'),
  ('SELECT avg(CASE WHEN b THEN i4 ELSE 0 END) AS a, avg(i4) FILTER (WHERE b) AS c FROM t'),
  ('SELECT k, avg(i8) AS a FROM t GROUP BY k ORDER BY 2 DESC NULLS LAST, 1 LIMIT 3'),
  ('SELECT x.k, x.a, y.c FROM (SELECT k, avg(i8) AS a FROM t GROUP BY k) x JOIN (SELECT k, count(*) AS c FROM t GROUP BY k) y USING (k)'),
  ('SELECT g, (SELECT avg(i4) FROM t WHERE k = g) AS a FROM generate_series(0, 6) g'),
  ('SELECT k, avg(i4) AS a, rank() OVER (ORDER BY avg(i4)) AS r FROM t WHERE k < 10 GROUP BY k'),
  ('SELECT DISTINCT avg(i4) > 500 AS a FROM t GROUP BY k'),
  ('SELECT k, s, b, avg(i4) AS a FROM t GROUP BY k, s, b'),
  ('WITH c AS (SELECT k, avg(f8) AS a FROM t WHERE k < 7 GROUP BY k) SELECT sum(a) AS a FROM c'),
  ('SELECT avg(a) AS a FROM (SELECT i4 AS a FROM one UNION ALL SELECT i4 + 1 FROM two) u'),
  ('SELECT w, avg(a) AS a FROM (SELECT ''one'' AS w, i4 AS a FROM one UNION ALL SELECT ''two'', i4 + 1 FROM two) u GROUP BY w'),
  -- and what has to be seen as a whole, or cannot be sent
  ('SELECT avg(DISTINCT i4) AS a FROM t'),
  ('SELECT k, b, avg(i4) AS a FROM t GROUP BY ROLLUP (k, b)'),
  ('SELECT avg(i4 + length(m::text)) AS a FROM t'),
  ('SELECT m, avg(i4) AS a FROM t GROUP BY m'),
  ('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i4) AS a, avg(i4) AS b FROM t'),
  ('SELECT avg(i4) AS a FROM t WHERE m = ''ok''')) v(q);
-- core's own way; then one that cannot hash, and parents of other kinds
SET enable_partitionwise_aggregate = on;
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(n) AS a FROM t WHERE k < 7 GROUP BY k')) v(q);
RESET enable_partitionwise_aggregate;
SET enable_hashagg = off;
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(n) AS a FROM t WHERE k < 7 GROUP BY k')) v(q);
RESET enable_hashagg;
CREATE TABLE here.parent (k int, v int);
CREATE TABLE here.child (more int) INHERITS (here.parent);
INSERT INTO here.child SELECT i % 3, i, 1 FROM generate_series(1, 30) i;
CREATE TABLE away.parent (k int, v int);
CREATE FOREIGN TABLE away.child (more int) INHERITS (away.parent) SERVER part_one OPTIONS (schema_name 'here');
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(v) AS a FROM parent GROUP BY k')) v(q);
DROP TABLE away.parent CASCADE;
ALTER TABLE away.t DETACH PARTITION away.one;
CREATE TABLE away.t_one PARTITION OF away.t FOR VALUES IN (0) PARTITION BY RANGE (id);
ALTER TABLE away.t_one ATTACH PARTITION away.one FOR VALUES FROM (0) TO (1000);
CREATE TABLE away.t_local PARTITION OF away.t_one FOR VALUES FROM (1000) TO (2000);
INSERT INTO here.t (id, k, i4) VALUES (1001, 5, 3), (1002, 30, 4), (1004, 30, 5);
INSERT INTO away.t_local SELECT * FROM here.t WHERE id IN (1002, 1004);
CREATE OR REPLACE VIEW here.one AS SELECT * FROM here.t WHERE id % 2 = 0 AND id < 1000;
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(i4) AS a FROM t WHERE id < 900 GROUP BY k'), ('SELECT k, avg(i4) AS a FROM t GROUP BY k')) v(q);
SELECT plan('SELECT k + 1, avg(i4) AS a FROM t GROUP BY k + 1');
DROP TABLE away.t_local;
DELETE FROM here.t WHERE id > 1000;

-- prepared, with parameters inside and outside of aggregates
SET search_path = away, public;
SET plan_cache_mode = force_generic_plan;
PREPARE p(int) AS SELECT k + $1 AS g, avg(i4 * $1), count(*) FROM t WHERE k < $1 GROUP BY 1 HAVING avg(i4) > $1 ORDER BY 1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p(2);
EXECUTE p(2);
EXECUTE p(4);
DEALLOCATE p;
RESET plan_cache_mode;
-- an estimate of the remote planner, which has to understand it
ALTER SERVER part_one OPTIONS (ADD use_remote_estimate 'true');
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(n) AS a FROM t WHERE k < 7 GROUP BY k')) v(q);
ALTER SERVER part_one OPTIONS (DROP use_remote_estimate);
-- the remote version cannot be determined without a user mapping
CREATE ROLE regress_no_mapping;
GRANT USAGE ON SCHEMA away TO regress_no_mapping;
GRANT SELECT ON ALL TABLES IN SCHEMA away TO regress_no_mapping;
SET ROLE regress_no_mapping;
EXPLAIN (COSTS OFF) SELECT k, avg(n) FROM away.t GROUP BY k;
RESET ROLE;
RESET search_path;
DROP OWNED BY regress_no_mapping;
DROP ROLE regress_no_mapping;

-- The data node's side: plans that end at states.
SET search_path = here, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT k, rdma_internal.partialize(avg(i4), NULL::int8[]), count(*) FROM t GROUP BY k;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (VERBOSE, COSTS OFF) SELECT rdma_internal.partialize(avg(i8), NULL::bytea), rdma_internal.partialize(avg(f4), NULL::float8[]) FROM t;
SELECT rdma_internal.partialize(avg(i8), NULL::bytea) = (SELECT rdma_internal.partialize(sum(i8), NULL::bytea) FROM t OFFSET 0), rdma_internal.partialize(avg(f4), NULL::float8[]) FROM t;
SELECT crosses(q), differs(q) FROM (VALUES ('SELECT k, avg(i8) AS a, stddev(i4) AS b FROM t WHERE k < 7 GROUP BY k')) v(q);
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET max_parallel_workers_per_gather;
-- in queries of many kinds
SELECT rdma_internal.partialize(avg(i4), NULL::int8[])::text, generate_series(1, 2) FROM t WHERE id < 5;
SELECT x.s[1] FROM (SELECT k, rdma_internal.partialize(avg(i4), NULL::int8[]) AS s FROM t GROUP BY k) x WHERE x.k = 1;
SELECT array_dims(s) FROM (SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM t UNION ALL SELECT rdma_internal.partialize(avg(i2), NULL::int8[]) FROM t) u(s);
WITH c AS MATERIALIZED (SELECT rdma_internal.partialize(min(id), NULL::int) AS lowest FROM t) SELECT lowest, (SELECT rdma_internal.partialize(max(i.id), NULL::int) FROM t i WHERE i.id < lowest + 9) FROM c;
SELECT k FROM t GROUP BY k HAVING rdma_internal.partialize(avg(i4), NULL::int8[]) = '{57,33858}';
SELECT sum(cardinality(s)) FROM (SELECT rdma_internal.partialize(avg(f8) FILTER (WHERE id IN (SELECT o.id FROM t o WHERE o.b)), NULL::float8[]) AS s FROM t GROUP BY k) x;
SELECT k, rank() OVER (ORDER BY rdma_internal.partialize(avg(i4), NULL::int8[])) FROM t WHERE k < 3 GROUP BY k ORDER BY rdma_internal.partialize(avg(i4), NULL::int8[]) DESC LIMIT 2;
PREPARE p(int) AS SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM t WHERE id < $1;
EXECUTE p(5);
SET plan_cache_mode = force_generic_plan;
EXECUTE p(6);
CREATE INDEX ON t (id);
EXECUTE p(7);
RESET plan_cache_mode;
DEALLOCATE p;
SELECT rdma_internal.partialize(min(id), NULL::int), rdma_internal.partialize(max(id), NULL::int) FROM t;
CREATE VIEW states AS SELECT k, rdma_internal.partialize(avg(i4), NULL::int8[]) AS s FROM t GROUP BY k;
SELECT * FROM states WHERE k = 2;
CREATE FUNCTION states(int) RETURNS SETOF int8[] LANGUAGE sql STABLE AS 'SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM here.t WHERE k = $1';
SELECT * FROM states(2);
DO $$ DECLARE c CURSOR FOR SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM here.t; s int8[]; BEGIN OPEN c; FETCH c INTO s; RAISE NOTICE '%', s; END $$;
-- over foreign tables: the rows come, and the state is computed
EXPLAIN (VERBOSE, COSTS OFF) SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM away.one;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM away.one;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM away.t;
-- misused
SELECT rdma_internal.partialize(5, NULL::int);
SELECT rdma_internal.partialize(i4, NULL::int) FROM t LIMIT 1;
SELECT rdma_internal.partialize(avg(i4) + 1, NULL::int8[]) FROM t;
SELECT rdma_internal.partialize(rdma_internal.partialize(avg(i4), NULL::int8[]), NULL::int8[]) FROM t;
SELECT rdma_internal.partialize(avg(i4), NULL::int) FROM t;
-- refused by core, in words that differ between its minor releases
DO $$ BEGIN PERFORM rdma_internal.partialize(avg(n), NULL::internal) FROM t; RAISE NOTICE 'taken'; EXCEPTION WHEN cannot_coerce OR feature_not_supported THEN RAISE NOTICE 'refused'; END $$;
SELECT rdma_internal.partialize(avg(i4), NULL) FROM t;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]), avg(i4) FROM t;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM t HAVING avg(i8) > 4;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]), count(DISTINCT i4) FROM t;
SELECT rdma_internal.partialize(avg(DISTINCT i4), NULL::int8[]) FROM t;
SELECT rdma_internal.partialize(sum(f8 ORDER BY id), NULL::float8) FROM t;
SELECT rdma_internal.partialize(mode() WITHIN GROUP (ORDER BY i4), NULL::bytea) FROM t;
SELECT rdma_internal.partialize(json_agg(i4), NULL::bytea) FROM t;
SELECT rdma_internal.partialize(avg(i4), NULL::int8[]) FROM t GROUP BY ROLLUP (k);
SELECT rdma_internal.partialize(rank() OVER (), NULL::int8) FROM t;
SELECT rdma_internal.partialize(sum(i4) OVER (), NULL::int8) FROM t LIMIT 1;
SELECT (SELECT rdma_internal.partialize(avg(o.i4), NULL::int8[]) FROM t LIMIT 1) FROM t o;
SELECT (SELECT avg(o.i4) FROM t LIMIT 1), rdma_internal.partialize(avg(o.i4), NULL::int8[]) FROM t o;
CREATE AGGREGATE last(int) (SFUNC = int4larger, STYPE = int, COMBINEFUNC = int4larger, FINALFUNC = int4abs, SORTOP = >);
SELECT rdma_internal.partialize(last(i4), NULL::int) FROM t;
DROP AGGREGATE last(int);
RESET search_path;

-- A data node that sends forged states: it has another function in the mark's place.
CREATE TABLE here.forged (id int PRIMARY KEY, state bytea);
CREATE TABLE here.few (id int, k int, n numeric);
INSERT INTO here.few SELECT i, 1, i FROM generate_series(1, 1200) i;
CREATE TABLE away.few (id int, k int, n numeric) PARTITION BY LIST (k);
CREATE FOREIGN TABLE away.few_1 PARTITION OF away.few FOR VALUES IN (1) SERVER part_one OPTIONS (schema_name 'here', table_name 'few');
CREATE SEQUENCE here.next;
CREATE FUNCTION rdma_internal.partialize(numeric, bytea) RETURNS bytea LANGUAGE sql AS 'SELECT state FROM here.forged WHERE id = (SELECT nextval(''here.next''))';
CREATE FUNCTION here.try(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; detail text;
BEGIN
  EXECUTE query INTO result;
  RETURN 'value';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
  RETURN CASE sqlstate WHEN 'XX001' THEN 'refused' WHEN '22003' THEN 'value' ELSE sqlstate || ' ' || sqlerrm || ' ' || detail END;
END $$;
-- cut, lengthened, and with bytes changed; a generator of our own, as random() differs between releases
DO $$
DECLARE
  state bytea; seed bigint := 7;
  -- two states, of 3 rows with sum and of 3 rows with sum and sum of squares
  real bytea[] := ARRAY['\x000000000000000300000002000000000000000000000002000609c4000000020000000000000003000000000000000000000000000000000000000000000000',
                        '\x0000000000000003000000020000000000000000000000020006138800000002000000000000000000000002000e1388000000020000000000000003000000000000000000000000000000000000000000000000'];
BEGIN
  FOR i IN 1..1200 LOOP
    state := real[1 + i % 2];
    FOR j IN 1..1 + i % 4 LOOP
      seed := (seed * 1103515245 + 12345) % 2147483648;
      state := set_byte(state, (seed / 7 % length(state))::int, CASE seed / 65536 % 3 WHEN 0 THEN 255 WHEN 1 THEN 127 ELSE (seed / 1000 % 256)::int END);
    END LOOP;
    IF i % 10 = 0 THEN
      state := substr(state, 1, (seed / 100 % length(state))::int);
    ELSIF i % 10 = 5 THEN
      state := state || '\x00';
    END IF;
    INSERT INTO here.forged VALUES (i, state);
  END LOOP;
END $$;
SELECT how, count(*) > 20 AS many
FROM (SELECT here.try(format('SELECT %s(n) FROM away.few WHERE id = %s', CASE id % 2 WHEN 0 THEN 'avg' ELSE 'stddev' END, id)) AS how FROM (SELECT id FROM here.forged ORDER BY id OFFSET 0) f) x GROUP BY 1 ORDER BY 1;
SELECT setval('here.next', 1, false);
UPDATE here.forged SET state = '\x' WHERE id = 1;
UPDATE here.forged SET state = '\x000000000000000300000002000000000000000000000002000609c4000000020000000000000003000000000000000000000000000000000000000000000000' WHERE id = 2;
UPDATE here.forged SET state = '\x000000000000000300000002400000000000000000000002000609c4000000020000000000000003000000000000000000000000000000000000000000000000' WHERE id = 3;
UPDATE here.forged SET state = NULL WHERE id = 4;
SELECT avg(n) FROM away.few WHERE id = 1;
SELECT avg(n) FROM away.few WHERE id = 2;
SELECT avg(n) FROM away.few WHERE id = 3;
SELECT avg(n) FROM away.few WHERE id = 4;
\set ECHO none
DROP FUNCTION rdma_internal.partialize(numeric, bytea);

SET client_min_messages = warning;
DROP SERVER part_one, part_two CASCADE;
DROP SCHEMA away, here CASCADE;
DROP FUNCTION differs(text), crosses(text), plan(text);
