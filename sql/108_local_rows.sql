-- Rows of this node go to the data nodes with the statement that joins them, or by flow: what the nodes do with them, and that
-- the rows of the result are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name lr
\set third lr_third
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA lr;
CREATE TYPE lr.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE lr.big (id int, grp int, x int, t text, c text COLLATE "C", v varchar(10), bp char(6), d date, n numeric, f float8,
  tz timestamptz, u uuid, by bytea, en lr.mood);
CREATE TABLE lr.dim (id int, name text);
CREATE TABLE lr.ref (id int, name text);
CREATE TABLE lr.one (id int, t text);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA lr;
CREATE TYPE lr.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE lr.big (id int, grp int, x int, t text, c text COLLATE "C", v varchar(10), bp char(6), d date, n numeric, f float8,
  tz timestamptz, u uuid, by bytea, en lr.mood);
CREATE TABLE lr.dim (id int, name text);
CREATE TABLE lr.ref (id int, name text);
\c lr_third postgres 127.0.0.1 :n2
CREATE SCHEMA lr;
CREATE TABLE lr.far (id int, t text);
INSERT INTO lr.far SELECT i * 3, 'far ' || i FROM generate_series(1, 20) i;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE SCHEMA lr_here;
CREATE TABLE lr_here.big AS SELECT i AS id, i % 50 AS grp, nullif(i % 7, 3) AS x, 't' || i % 90 AS t, ('c' || i % 30) COLLATE "C" AS c,
  ('v' || i % 20)::varchar(10) AS v, ('b' || i % 40)::char(6) AS bp, date '2020-01-01' + i % 300 AS d, i / 4.0 AS n,
  CASE i WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' ELSE i / 8.0 END::float8 AS f, timestamptz '2020-01-01 00:00Z' + i * interval '7 minutes' AS tz,
  md5((i % 60)::text)::uuid AS u, decode(md5((i % 60)::text), 'hex') AS by, (array['sad', 'ok', 'happy'])[i % 3 + 1] AS en
  FROM generate_series(1, 2000) i;
INSERT INTO lr_here.big (id, grp) VALUES (NULL, NULL), (-1, NULL);
CREATE TABLE lr_here.dim AS SELECT i AS id, 'dim ' || i % 6 AS name FROM generate_series(1, 500) i;
CREATE TABLE lr_here.ref AS SELECT i AS id, 'ref ' || i AS name FROM generate_series(0, 6) i;
CREATE TABLE lr_here.one AS SELECT i AS id, 't' || i AS t FROM generate_series(1, 300) i;
CREATE TABLE lr_here.far AS SELECT i * 3 AS id, 'far ' || i AS t FROM generate_series(1, 20) i;
-- only the coordinator has these
CREATE DOMAIN lr_here.number AS int;
CREATE TABLE lr_here.small AS SELECT i AS id, i % 10 AS grp, 't' || i AS t, ('c' || i) COLLATE "C" AS c, ('v' || i)::varchar(10) AS v,
  ('b' || i)::char(6) AS bp, date '2020-01-01' + i AS d, i / 4.0 AS n, CASE i WHEN 3 THEN 'NaN' WHEN 6 THEN '0' ELSE i / 8.0 END::float8 AS f,
  timestamptz '2020-01-01 00:00Z' + i * interval '7 minutes' AS tz, md5(i::text)::uuid AS u, decode(md5(i::text), 'hex') AS by,
  (array['sad', 'ok', 'happy'])[i % 3 + 1] AS en, i::lr_here.number AS dm, array[i, i + 1] AS arr FROM generate_series(1, 30, 2) i;
INSERT INTO lr_here.small (id, grp, t) VALUES (NULL, NULL, NULL), (3, NULL, 'a "quoted", {curly} \ value'), (100000, 3, '');
CREATE TABLE lr_here.other AS SELECT i AS grp, 'kind ' || i % 3 AS kind FROM generate_series(0, 40, 4) i;
CREATE TABLE lr_here.empty (id int, grp int);
ANALYZE lr_here.big, lr_here.dim, lr_here.ref, lr_here.one, lr_here.small, lr_here.other;

CREATE FOREIGN TABLE lr.big (id int, grp int, x int, t text, c text COLLATE "C", v varchar(10), bp char(6), d date, n numeric, f float8,
  tz timestamptz, u uuid, by bytea, en text) SERVER lr OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE lr.dim (id int, name text) SERVER lr OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE lr.ref (id int, name text) SERVER lr OPTIONS (replicated 'true');
CREATE FOREIGN TABLE lr.one (id int, t text) SERVER lr1;
CREATE FOREIGN TABLE lr.far (id int, t text) SERVER "lr 3";
INSERT INTO lr.big SELECT * FROM lr_here.big;
INSERT INTO lr.dim SELECT * FROM lr_here.dim;
INSERT INTO lr.ref SELECT * FROM lr_here.ref;
INSERT INTO lr.one SELECT * FROM lr_here.one;
ANALYZE lr.big, lr.dim, lr.ref, lr.one, lr.far;
CREATE VIEW lr.small AS SELECT * FROM lr_here.small;
CREATE VIEW lr.other AS SELECT * FROM lr_here.other;
CREATE VIEW lr.empty AS SELECT * FROM lr_here.empty;
-- Joins here are no choice, so that plans do not depend on costs.
ALTER SERVER lr OPTIONS (ADD fdw_tuple_cost '1000');
ALTER SERVER lr1 OPTIONS (ADD fdw_tuple_cost '1000');

-- Prints what the nodes get, and checks the rows against those of local tables.
CREATE FUNCTION lr.planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; sent boolean := false; item text; items int := 0; diff bigint; rows bigint;
BEGIN
  SET LOCAL search_path = lr, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF NOT sent AND line ~ 'Custom Scan|Remote SQL|Exchange|Strategy' THEN
      line := regexp_replace(line, ' rows=\d+ distinct=[-0-9,]+', '', 'g');
      -- range table entries have other numbers in each major
      LOOP
        item := substring(line FROM '\ml\d+\M');
        EXIT WHEN item IS NULL;
        items := items + 1;
        line := regexp_replace(line, '\m' || item || '\M', 'local' || items, 'g');
      END LOOP;
      RETURN NEXT line;
      sent := line ~ 'Remote SQL';
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = lr_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  SELECT count(*) INTO rows FROM expected;
  RETURN NEXT format('%s rows%s', rows, CASE WHEN diff <> 0 THEN ' *** ' || diff || ' differ' END);
  DROP TABLE got, expected;
  RESET search_path;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- every kind of join
SELECT lr.planned('SELECT s.t, b.x FROM small s JOIN big b USING (id)');
SELECT lr.planned('SELECT s.t, b.x FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, s.t, b.x FROM small s LEFT JOIN big b ON b.id = s.id AND b.grp > s.grp');
SELECT lr.planned('SELECT b.id, s.t FROM big b LEFT JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT b.id AS bid, s.id FROM big b FULL JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT s.id FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.id = s.id AND b.grp > 2)');
SELECT lr.planned('SELECT s.id FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x = 2)');
SELECT lr.planned('SELECT b.id FROM big b WHERE b.grp IN (SELECT grp FROM small WHERE id < 20)');
SELECT lr.planned('SELECT b.id FROM big b WHERE NOT EXISTS (SELECT FROM small s WHERE s.grp = b.grp)');
SELECT lr.planned('SELECT b.id FROM big b WHERE b.grp NOT IN (SELECT grp FROM small WHERE grp IS NOT NULL)');
SELECT lr.planned('SELECT s.id, b.id AS bid FROM small s JOIN big b ON b.grp BETWEEN s.id AND s.id + 1');
SELECT lr.planned('SELECT s.grp, count(b.id), sum(b.x) FROM small s LEFT JOIN big b ON b.id = s.id AND b.grp > s.grp GROUP BY 1');
SELECT lr.planned('SELECT b.x, count(s.id), min(s.t) FROM big b LEFT JOIN small s ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT count(*), count(b.id), count(s.id), sum(b.x) FROM big b FULL JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT count(*), sum(s.id) FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x > s.grp)');
SELECT lr.planned('SELECT count(*), sum(s.id) FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x > s.grp)');
SELECT lr.planned('SELECT count(*) FROM big b WHERE b.grp NOT IN (SELECT grp FROM small WHERE grp IS NOT NULL)');
SELECT lr.planned('SELECT count(*), sum(b.x * s.id) FROM big b CROSS JOIN small s');
SELECT lr.planned('SELECT count(*), sum(b.x * s.id) FROM big b JOIN small s ON b.grp BETWEEN s.id AND s.id + 1');
-- what comes of it
SELECT lr.planned('SELECT s.t, count(*), sum(b.x) FROM small s JOIN big b USING (grp) GROUP BY s.t');
-- nodes of the same major send states of it
SELECT p FROM lr.planned('SELECT s.t, count(*), sum(b.n) FROM small s JOIN big b USING (grp) GROUP BY s.t') p WHERE p ~ ' rows';
SELECT lr.planned('SELECT count(*), min(s.id), max(b.n) FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT b.id, count(*) FROM small s JOIN big b USING (grp) GROUP BY b.id HAVING count(*) > 1');
SELECT lr.planned('SELECT DISTINCT s.id, b.x FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, b.id AS bid FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5');
SELECT lr.planned('SELECT b.id, rank() OVER (PARTITION BY b.id ORDER BY s.id) FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, b.x, count(*) FROM small s JOIN big b USING (grp) GROUP BY ROLLUP (s.id, b.x)');
-- with tables of the nodes: co-located, moved, on every node
SELECT lr.planned('SELECT s.t, d.name, count(*) FROM small s JOIN big b USING (grp) JOIN dim d ON d.id = b.id GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, d.name, count(*) FROM small s JOIN big b USING (grp) JOIN dim d ON d.id = b.x GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, r.name, count(*) FROM small s JOIN big b USING (grp) JOIN ref r ON r.id = b.x GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, r.name FROM small s JOIN ref r USING (id)');
SELECT lr.planned('SELECT s.t, o.t AS ot FROM small s JOIN one o USING (id)');
-- several of them, and of other kinds
SELECT lr.planned('SELECT s.t, o.kind, count(*) FROM small s JOIN big b ON b.id = s.id JOIN other o ON o.grp = b.grp GROUP BY 1, 2');
SELECT lr.planned('SELECT v.name, count(*) FROM (VALUES (1, ''one''), (2, ''two'')) v(grp, name) JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('SELECT g, count(*) FROM generate_series(3, 5) g JOIN big b ON b.grp = g GROUP BY 1');
SELECT lr.planned('WITH w AS MATERIALIZED (SELECT grp, count(*) AS n FROM small GROUP BY grp) SELECT w.n, count(*) FROM w JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('WITH w AS MATERIALIZED (SELECT grp, sum(x) AS s FROM big GROUP BY grp) SELECT count(*) FROM big b JOIN w USING (grp) WHERE b.x > w.s / 300');
SELECT lr.planned('SELECT l.grp, count(*) FROM (SELECT grp, min(id) AS id FROM small GROUP BY grp ORDER BY grp LIMIT 5) l JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('SELECT f.t, count(*) FROM far f JOIN big b ON b.grp = f.id GROUP BY 1');
-- not of sub-selects in FROM
SELECT lr.planned('SELECT l.grp, count(*) FROM (SELECT grp, (SELECT max(id) FROM other) AS id FROM small GROUP BY grp ORDER BY grp LIMIT 5) l JOIN big b USING (grp) GROUP BY 1');
-- a sort key that is only equal to a column that is sent
SET enable_hashagg = off;
SELECT lr.planned('SELECT DISTINCT s.t, b.x FROM small s JOIN big b USING (grp) WHERE s.t = s.v');
RESET enable_hashagg;
-- nothing and one
SELECT lr.planned('SELECT count(*), count(e.id) FROM big b LEFT JOIN empty e USING (grp)');
SELECT lr.planned('SELECT b.id FROM big b JOIN empty e USING (grp)');
-- types: as they are here, text that is an enum there, and what cannot be sent
SELECT lr.planned('SELECT s.id, s.f, s.n, s.tz, s.by, s.bp, s.d, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1, 2, 3, 4, 5, 6, 7');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.t = s.t GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.c = s.c GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.v = s.v GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.bp = s.bp GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.d = s.d GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.n = s.n GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.f = s.f GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.tz = s.tz GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.u = s.u GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.by = s.by GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.en = s.en GROUP BY 1');
SELECT lr.planned('SELECT s.dm, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT s.arr, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.t > s.t AND b.grp = s.grp GROUP BY 1');

-- rows are read again where what they depend on has changed, and not where it has not
SET search_path = lr, public;
SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE s.grp = o) l;
SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE b.x = o) l;
SET plan_cache_mode = force_generic_plan;
PREPARE p AS SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE s.grp < $1 AND b.x > $2;
EXECUTE p(5, 1);
EXECUTE p(8, 3);
DEALLOCATE p;
RESET plan_cache_mode;
BEGIN;
DECLARE c CURSOR FOR SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id;
FETCH 2 FROM c;
UPDATE lr_here.small SET grp = 0;
FETCH 2 FROM c;
ROLLBACK;
INSERT INTO lr.dim SELECT b.id + 1000, s.t FROM small s JOIN big b USING (grp) WHERE b.x = 5 AND s.id < 10;
SELECT count(*), min(id), max(id) FROM dim WHERE id > 1000;
DELETE FROM dim WHERE id > 1000;

-- many rows go by flow, however many were expected; the same with more bytes
CREATE FUNCTION many(n int) RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 10 AS 'BEGIN RETURN QUERY SELECT generate_series(1, n); END';
CREATE FUNCTION wide(n int) RETURNS TABLE (i int, t text) LANGUAGE plpgsql STABLE ROWS 10 AS
  'BEGIN RETURN QUERY SELECT g, repeat(md5(g::text), 200) FROM generate_series(1, n) g; END';
CREATE FUNCTION sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line ~ 'Custom Scan|Rows Sent' THEN RETURN NEXT regexp_replace(line, '[(]actual.*', ''); END IF;
  END LOOP;
END $$;
SELECT sent('SELECT count(*), sum(b.x) FROM many(1000) m JOIN big b ON b.grp = m');
SELECT sent('SELECT count(*), sum(b.x) FROM many(100001) m JOIN big b ON b.grp = m');
SELECT count(*), sum(b.x) FROM many(1000) m JOIN big b ON b.grp = m;
SELECT count(*), sum(b.x) FROM many(100001) m JOIN big b ON b.grp = m;
SELECT count(*), sum(length(m.t)) FROM wide(4000) m JOIN big b ON b.grp = m.i;
SELECT count(*), sum(length(m.t)) FROM wide(4000) m JOIN one o ON o.id = m.i;
-- so do those of a table, read while the statement runs; with joins on the nodes, and rows of the nodes themselves
CREATE TABLE lr_here.large AS SELECT i AS id, i % 700 AS grp, 't' || i % 90 AS t FROM generate_series(1, 30000) i;
ANALYZE lr_here.large;
CREATE VIEW large AS SELECT * FROM lr_here.large;
SELECT sent('SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp)');
SELECT lr.planned('SELECT count(*), sum(b.x), min(l.t) FROM large l JOIN big b USING (grp)');
SELECT lr.planned('SELECT count(*), sum(b.x), min(l.t) FROM large l JOIN big b USING (id) WHERE l.grp < 500');
SELECT lr.planned('SELECT b.id, l.id AS lid FROM large l JOIN big b USING (grp) ORDER BY b.id, l.id OFFSET 100 LIMIT 5');
SELECT lr.planned('SELECT count(*), count(l.id), sum(b.x) FROM big b LEFT JOIN large l ON l.id = b.grp * 5');
SELECT lr.planned('SELECT count(*), count(l.id), sum(b.x) FROM large l LEFT JOIN big b ON l.id = b.grp * 5');
SELECT lr.planned('SELECT count(*), sum(l.id) FROM large l WHERE NOT EXISTS (SELECT FROM big b WHERE b.id = l.id AND b.x > 2)');
SELECT lr.planned('SELECT d.name, count(*), sum(l.id) FROM big b JOIN dim d ON d.id = b.x JOIN large l USING (grp) GROUP BY 1');
SELECT lr.planned('SELECT count(*), sum(l.id), sum(b.x) FROM large l JOIN large m USING (id) JOIN big b USING (id)');
SELECT lr.planned('SELECT l.t, o.t AS ot, count(*) FROM large l JOIN one o ON o.id = l.grp GROUP BY 1, 2');
SELECT lr.planned('WITH w AS MATERIALIZED (SELECT b.id, l.id AS lid FROM big b JOIN large l USING (grp)) SELECT count(*), sum(w.lid + b.x) FROM w JOIN big b USING (id)');
SET search_path = lr, public;
SELECT o, q.* FROM generate_series(0, 2) o, LATERAL (SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp) WHERE b.x = o) q;
-- a portal that is closed early
BEGIN;
DECLARE c CURSOR FOR SELECT b.id, l.id FROM large l JOIN big b USING (grp) ORDER BY b.id, l.id;
FETCH 2 FROM c;
CLOSE c;
COMMIT;
SELECT count(*) FROM (SELECT b.id, l.id FROM large l JOIN big b USING (grp) LIMIT 10) q;
-- a volatile function is called once, so its rows are not sent
CREATE SEQUENCE calls;
CREATE FUNCTION counted(n int) RETURNS SETOF int LANGUAGE plpgsql VOLATILE ROWS 10 AS 'BEGIN PERFORM nextval(''calls''); RETURN QUERY SELECT generate_series(1, n); END';
SELECT count(*), sum(b.x) FROM counted(100001) m JOIN big b ON b.grp = m;
SELECT last_value FROM calls;
SELECT o, l.* FROM (VALUES (10), (100001), (20)) v(o), LATERAL (SELECT count(*), sum(b.x) FROM many(o) m JOIN big b ON b.grp = m) l;

-- a sub-select that the statement reads, and that what runs instead has a plan for
SET rdma_fdw.disable = decorrelation_costs;
SELECT count(*), sum((SELECT max(n) FROM big b WHERE b.grp = g)) FROM generate_series(3, 8) g;
SELECT count(*), sum((SELECT max(n) FROM big b WHERE b.grp = m)) FROM many(100001) m;
RESET rdma_fdw.disable;
SELECT count(*), sum(q.n) FROM many(10) m JOIN (SELECT grp, count(*) AS n FROM big GROUP BY grp) q ON q.grp = m;
SELECT count(*), sum(q.n) FROM many(100001) m JOIN (SELECT grp, count(*) AS n FROM big GROUP BY grp) q ON q.grp = m;

-- an error here, and one there, leave nothing behind
\set VERBOSITY terse
SELECT count(*) FROM (SELECT 1 / (s.id - 3) AS grp FROM small s OFFSET 0) s JOIN big b USING (grp);
SELECT sum(1 / (b.x - s.grp)) FROM small s JOIN big b USING (grp);
SELECT count(*) FROM small s JOIN big b USING (grp);
SELECT count(*) FROM (SELECT 1 / (l.id - 29000) AS grp FROM large l OFFSET 0) l JOIN big b USING (grp);
SELECT count(*) FROM large l JOIN big b USING (grp) WHERE 1 / (l.id - 29000) > -2;
SELECT sum(1 / (b.x - l.grp)) FROM large l JOIN big b USING (grp);
SET statement_timeout = '300ms';
SELECT count(*) FROM large l JOIN big b USING (grp) JOIN large m USING (grp) JOIN big c USING (grp);
RESET statement_timeout;
SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp);
-- no flow is left
SELECT count(*) FROM rdma.stat_flows;

\set VERBOSITY default

-- not: rows that are locked or written, those behind a security barrier, without the setting, and in statements within others
CREATE FUNCTION sends(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean := false;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    found := found OR line ~ 'Local Rows';
  END LOOP;
  RETURN found;
END $$;
SELECT sends('SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5') AS plain,
  sends('SELECT s.id, b.id FROM lr_here.small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5 FOR UPDATE OF s') AS locks,
  sends('UPDATE big b SET x = 1 FROM small s WHERE s.grp = b.grp') AS updates;
CREATE VIEW hidden WITH (security_barrier) AS SELECT * FROM lr_here.small WHERE grp > 2;
SELECT sends('SELECT s.id, b.id FROM hidden s JOIN big b USING (grp) WHERE s.t < ''t3'' ORDER BY s.id, b.id LIMIT 5') AS behind_barrier;
SET rdma_fdw.disable = local_rows;
SELECT sends('SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5') AS off;
RESET rdma_fdw.disable;
-- what comes of such a statement is itself sent to the next one
SELECT lr.planned('SELECT d.name, count(*) FROM (SELECT b.x, s.grp, count(*) AS n FROM small s JOIN big b USING (grp) GROUP BY 1, 2) q JOIN dim d ON d.id = q.n GROUP BY 1');
SET rdma_fdw.disable = lookahead;
SELECT lr.planned('SELECT count(*) FROM big b WHERE b.x > (SELECT avg(c.x) FROM big c JOIN small s ON s.grp = c.grp WHERE c.grp = b.grp)');
RESET rdma_fdw.disable;

-- rights: who may not read the table may not have it sent
CREATE ROLE lr_reader;
GRANT USAGE ON SCHEMA lr, lr_here TO lr_reader;
GRANT SELECT ON lr.big TO lr_reader;
CREATE USER MAPPING FOR lr_reader SERVER lr1 OPTIONS (user 'postgres', password_required 'false');
CREATE USER MAPPING FOR lr_reader SERVER lr2 OPTIONS (user 'postgres', password_required 'false');
SET ROLE lr_reader;
SELECT count(*) FROM lr_here.small s JOIN lr.big b USING (grp);
SELECT count(*), sum(q.n) FROM generate_series(1, 10) m JOIN (SELECT grp, count(*) AS n FROM lr.big GROUP BY grp) q ON q.grp = m;
SELECT count(*), sum(q.n) FROM generate_series(1, 10) m JOIN (SELECT id AS grp, count(*) AS n FROM lr.dim GROUP BY id) q ON q.grp = m;
SELECT count(*) FROM generate_series(1, 10) m JOIN lr.big b ON b.grp = m JOIN (SELECT id, count(*) AS n FROM lr.dim GROUP BY id) q ON q.id = b.id;
RESET ROLE;
-- the nodes have another encoding: numbers have the same hash there, text has not
CREATE DATABASE lr_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
\c lr_latin1 postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE EXTENSION rdma_fdw;
CREATE SERVER lr1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER lr2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE SERVER lr FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'lr1, lr2');
CREATE USER MAPPING FOR CURRENT_USER SERVER lr1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER lr2 OPTIONS (user 'postgres');
CREATE FOREIGN TABLE big (id int, grp int, x int, t text) SERVER lr OPTIONS (schema_name 'lr', distributed_by 'id');
CREATE TABLE large AS SELECT i AS id, i % 700 AS grp, 't' || i % 90 AS t FROM generate_series(1, 30000) i;
ANALYZE large, big;
SET rdma_fdw.exchange_strategy = repartition_both;
EXPLAIN (COSTS OFF) SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp);
SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp);
SELECT count(*), sum(b.x) FROM large l JOIN big b USING (t);
SET rdma_fdw.disable = local_rows;
SELECT count(*), sum(b.x) FROM large l JOIN big b USING (grp);
SELECT count(*), sum(b.x) FROM large l JOIN big b USING (t);
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :coord
DROP DATABASE lr_latin1 WITH (FORCE);

DROP OWNED BY lr_reader;
DROP ROLE lr_reader;
SET client_min_messages = warning;
DROP SCHEMA lr, lr_here CASCADE;
DROP SERVER lr, lr1, lr2, "lr 3" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA lr CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA lr CASCADE;
DROP DATABASE lr_third;
