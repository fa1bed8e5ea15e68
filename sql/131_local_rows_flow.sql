-- Many rows of this node go by flow to the data nodes that join them, however many were expected, and the rows of the result are those
-- of local tables. Which statements send rows, and what the nodes do with them, is in 108_local_rows.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name lr
\set third lr_third
\i :two_nodes
\set local_rows :tree '/test/setup/local_rows.sql'
\i :local_rows
\set ECHO none
SET search_path = lr, public;
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
CREATE FUNCTION counted(n int) RETURNS SETOF int LANGUAGE plpgsql VOLATILE ROWS 10 AS 'BEGIN PERFORM nextval(''calls''); RETURN QUERY SELECT generate_series(1, n); END';
CREATE TABLE lr_here.large AS SELECT i AS id, i % 700 AS grp, 't' || i % 90 AS t FROM generate_series(1, 30000) i;
ANALYZE lr_here.large;
CREATE VIEW large AS SELECT * FROM lr_here.large;
\set ECHO all

-- more rows than were expected, and more bytes
SELECT sent('SELECT count(*), sum(b.x) FROM many(1000) m JOIN big b ON b.grp = m');
SELECT sent('SELECT count(*), sum(b.x) FROM many(100001) m JOIN big b ON b.grp = m');
SELECT count(*), sum(b.x) FROM many(1000) m JOIN big b ON b.grp = m;
SELECT count(*), sum(b.x) FROM many(100001) m JOIN big b ON b.grp = m;
SELECT count(*), sum(length(m.t)) FROM wide(4000) m JOIN big b ON b.grp = m.i;
SELECT count(*), sum(length(m.t)) FROM wide(4000) m JOIN one o ON o.id = m.i;
-- so do those of a table, read while the statement runs; with joins on the nodes, and rows of the nodes themselves
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

-- the nodes have another encoding: numbers have the same hash there, text has not
\set ECHO none
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
\set ECHO all
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
\set local_rows_end :tree '/test/setup/local_rows_end.sql'
\i :local_rows_end
