-- Partitioned tables with partitions on two ordinary servers: these join them among themselves, as nodes of one server do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA np;
CREATE TABLE np.a0 (id int, x int, t text);
CREATE TABLE np.b0 (id bigint, aid int, y int, t text);
CREATE TABLE np.b1 (t text, aid int, ident bigint, y int);
CREATE TABLE np.ra (id int, x int, t text);
CREATE TABLE np.rb (id int, y int);
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA np;
CREATE TABLE np.a1 (t text, x int, id int);
CREATE TABLE np.b2 (id bigint, aid int, y int, t text);
CREATE TABLE np.ra (id int, x int, t text);
CREATE TABLE np.rb (id int, y int);
CREATE TABLE np.l0 (k text, v int);
CREATE TABLE np.l1 (k text, v int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA np_here;
CREATE TABLE np_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t FROM generate_series(1, 200) i;
CREATE TABLE np_here.b AS SELECT i::bigint AS id, nullif(i % 240, 5) AS aid, i % 11 AS y, 'a' || i % 17 AS t FROM generate_series(1, 800) i;
CREATE TABLE np_here.ra AS SELECT i AS id, i % 9 AS x, 'r' || i AS t FROM generate_series(1, 300) i;
CREATE TABLE np_here.rb AS SELECT nullif(i % 300, 7) AS id, i % 6 AS y FROM generate_series(1, 600) i;
CREATE TABLE np_here.l AS SELECT 'a' || i AS k, i AS v FROM generate_series(1, 20) i;
CREATE TABLE np_here.one AS SELECT * FROM np_here.ra;
ANALYZE np_here.a, np_here.b, np_here.ra, np_here.rb, np_here.l, np_here.one;

CREATE SERVER np1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER np2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER np1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER np2 OPTIONS (user 'postgres');
CREATE SCHEMA np;
SET search_path = np;
-- by hash, as rows would be moved: remainder 0 on the first node, 1 on the second; columns in another order
CREATE TABLE a (gone int, id int, x int, t text) PARTITION BY HASH (id);
ALTER TABLE a DROP COLUMN gone;
CREATE FOREIGN TABLE a0 PARTITION OF a FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER np1;
CREATE FOREIGN TABLE a1 (t text, x int, id int) SERVER np2;
ALTER TABLE a ATTACH PARTITION a1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
-- by hash, but otherwise: two partitions on the first node, one of them with another name for a column
CREATE TABLE b (id bigint, aid int, y int, t text) PARTITION BY HASH (id);
CREATE FOREIGN TABLE b0 PARTITION OF b FOR VALUES WITH (MODULUS 3, REMAINDER 0) SERVER np1;
CREATE FOREIGN TABLE b1 (t text, aid int, id bigint OPTIONS (column_name 'ident'), y int) SERVER np1;
ALTER TABLE b ATTACH PARTITION b1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE FOREIGN TABLE b2 PARTITION OF b FOR VALUES WITH (MODULUS 3, REMAINDER 2) SERVER np2;
-- by range, twice the same, with a default partition for NULLs
CREATE TABLE ra (id int, x int, t text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE ra1 PARTITION OF ra FOR VALUES FROM (MINVALUE) TO (150) SERVER np1 OPTIONS (table_name 'ra');
CREATE FOREIGN TABLE ra2 PARTITION OF ra DEFAULT SERVER np2 OPTIONS (table_name 'ra');
CREATE TABLE rb (id int, y int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE rb1 PARTITION OF rb FOR VALUES FROM (MINVALUE) TO (150) SERVER np1 OPTIONS (table_name 'rb');
CREATE FOREIGN TABLE rb2 PARTITION OF rb DEFAULT SERVER np2 OPTIONS (table_name 'rb');
-- by list, all on one node
CREATE TABLE l (k text, v int) PARTITION BY LIST (k);
CREATE FOREIGN TABLE l0 PARTITION OF l FOR VALUES IN ('a1', 'a2', 'a3') SERVER np2;
CREATE FOREIGN TABLE l1 PARTITION OF l DEFAULT SERVER np2;
-- one partition is here
CREATE TABLE mixed (id int, x int, t text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE mixed1 PARTITION OF mixed FOR VALUES FROM (MINVALUE) TO (150) SERVER np1 OPTIONS (table_name 'ra');
CREATE TABLE mixed2 PARTITION OF mixed DEFAULT;
INSERT INTO a (id, x, t) SELECT * FROM np_here.a;
INSERT INTO b SELECT * FROM np_here.b;
INSERT INTO ra SELECT * FROM np_here.ra;
INSERT INTO rb SELECT * FROM np_here.rb;
INSERT INTO l SELECT * FROM np_here.l;
INSERT INTO mixed2 SELECT * FROM np_here.ra WHERE id >= 150;
CREATE VIEW np_here.mixed AS SELECT * FROM np_here.ra;
ANALYZE a, b, ra, rb, l, mixed;

-- Prints how rows meet in a query, and checks them against those of local tables; with (sql) what the nodes run.
CREATE FUNCTION joined(query text, sql bool DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ '^ *(Nodes|Strategy|Exchange)' OR (sql AND line ~ '^ *(Remote SQL|Relations)') THEN
      RETURN NEXT regexp_replace(trim(line), ' rows=\d+ distinct=[-0-9,]+', '', 'g');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = np_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  SET LOCAL search_path = np, public;
END $$;
CREATE FUNCTION strategies(query text) RETURNS TABLE (asked text, got text) LANGUAGE plpgsql AS $$
BEGIN
  FOREACH asked IN ARRAY '{colocated,repartition_one,repartition_both,replicate,pull}'::text[] LOOP
    PERFORM set_config('rdma_fdw.exchange_strategy', asked, true);
    got := (SELECT string_agg(line, '; ') FROM np.joined(query) line WHERE line !~ '^Nodes');
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('rdma_fdw.exchange_strategy', 'auto', true);
END $$;
\pset format unaligned
\pset tuples_only on

-- what each node runs: its own partitions, by their own names
SELECT joined('SELECT count(*), sum(a.x), sum(b.y) FROM a JOIN b ON a.id = b.aid', true);
SELECT joined('SELECT a.t, count(*) FROM a JOIN l ON a.t = l.k GROUP BY a.t', true);
-- each kind of join, each way
SELECT * FROM strategies('SELECT a.id, b.id AS bid, b.t FROM a JOIN b ON a.id = b.aid');
SELECT * FROM strategies('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 4');
SELECT * FROM strategies('SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON a.x = b.y');
SELECT * FROM strategies('SELECT a.id, b.id AS bid FROM a FULL JOIN b ON a.id = b.aid');
SELECT * FROM strategies('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5)');
SELECT * FROM strategies('SELECT id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5)');
-- a node that has no partition of one table still sends those of the other, and gets nothing wrong
SELECT * FROM strategies('SELECT a.id, l.v FROM a JOIN l ON a.t = l.k');
SELECT * FROM strategies('SELECT a.id, l.v FROM a LEFT JOIN l ON a.t = l.k');
SELECT * FROM strategies('SELECT a.id, l.v FROM a FULL JOIN l ON a.id = l.v');
SELECT * FROM strategies('SELECT l.k FROM l WHERE NOT EXISTS (SELECT FROM a WHERE a.t = l.k)');
-- the same bounds on the same nodes: nothing moves, whatever is above
SELECT joined('SELECT ra.id, rb.y FROM ra JOIN rb USING (id)');
SELECT joined('SELECT ra.id, rb.y FROM ra FULL JOIN rb ON ra.id = rb.id');
SELECT joined('SELECT rb.id, count(*), max(t) FROM ra RIGHT JOIN rb ON ra.id = rb.id GROUP BY rb.id', true);
SELECT joined('SELECT ra.id, rb.y FROM ra JOIN rb USING (id) ORDER BY 1, 2 LIMIT 7');
SELECT joined('SELECT DISTINCT a.x FROM a JOIN ra ON a.id = ra.id');
-- partitions that conditions leave: on one node, which joins alone
SELECT joined('SELECT ra.t, rb.y FROM ra JOIN rb USING (id) WHERE ra.id > 200 AND rb.id > 200');
SELECT joined('SELECT ra.t, b.y FROM ra JOIN b ON ra.id = b.aid WHERE ra.id < 100', true);
-- several joins, sub-selects, windows, parameters
SELECT joined('SELECT a.x, sum(b.y) AS s, count(ra.t) FROM a JOIN b ON a.id = b.aid LEFT JOIN ra ON ra.id = a.id GROUP BY a.x');
SELECT joined('SELECT a.id, s.n FROM a JOIN (SELECT aid, count(*) AS n FROM b GROUP BY aid) s ON s.aid = a.id');
SET rdma_fdw.disable = lookahead;
SELECT joined('SELECT id, (SELECT sum(b.y) FROM b JOIN ra ON b.aid = ra.id WHERE ra.x = l.v) FROM (SELECT v AS id, v FROM l) l');
RESET rdma_fdw.disable;
PREPARE q(int) AS SELECT count(*), sum(b.y) FROM a JOIN b ON a.id = b.aid WHERE a.id > $1 AND b.y < $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE q(9);
SELECT count(*), sum(b.y) FROM np_here.a JOIN np_here.b ON a.id = b.aid WHERE a.id > 9 AND b.y < 9;
RESET plan_cache_mode;
-- what stays as it was: partitions that are here, a single table, row locks, and by setting
SELECT joined('SELECT mixed.t, b.y FROM mixed JOIN b ON mixed.id = b.aid');
SELECT joined('SELECT count(*) FROM a');
SELECT count(*) FROM joined('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id = b.aid FOR UPDATE OF a') WHERE joined ~ 'Strategy';
SET rdma_fdw.disable = partitions;
SELECT joined('SELECT count(*), sum(a.x), sum(b.y) FROM a JOIN b ON a.id = b.aid');
RESET rdma_fdw.disable;
-- core's partitionwise join is still used
SET enable_partitionwise_join = on;
SET rdma_fdw.disable = partitions;
EXPLAIN (COSTS OFF) SELECT ra.t, rb.y FROM ra JOIN rb USING (id);
RESET rdma_fdw.disable;
RESET enable_partitionwise_join;
-- servers that cannot exchange rows
\c contrib_regression postgres 127.0.0.1 :n2
CREATE DATABASE np_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
\c np_latin1 postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION rdma_fdw;
CREATE SCHEMA np;
CREATE TABLE np.rb2 AS SELECT 200 AS id, 3 AS y;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = np;
CREATE SERVER np3 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'np_latin1');
CREATE USER MAPPING FOR CURRENT_USER SERVER np3 OPTIONS (user 'postgres');
DROP FOREIGN TABLE rb2;
CREATE FOREIGN TABLE rb2 PARTITION OF rb DEFAULT SERVER np3 OPTIONS (table_name 'rb2');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT count(*), sum(x), sum(y) FROM ra JOIN rb USING (id);
SET rdma_fdw.disable = partitions;
SELECT count(*), sum(x), sum(y) FROM ra JOIN rb USING (id);

-- rows of a table whose partitions are on one server are stored, not returned to the client
RESET rdma_fdw.disable;
CREATE TABLE np_here.copied (n int, k text);
INSERT INTO np_here.copied SELECT v, k FROM l;
SELECT count(*) = (SELECT count(*) FROM l) AS all_of_them FROM np_here.copied;

DROP SCHEMA np, np_here CASCADE;
DROP SERVER np1, np2, np3 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
DROP DATABASE np_latin1 WITH (FORCE);
