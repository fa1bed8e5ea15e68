-- Tables of one server beside tables of a server with nodes that it is one of: the nodes join them, and the rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name os
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA os;
CREATE TABLE os.a (id int, x int, t text);
CREATE TABLE os.r (id int, name text);
CREATE TABLE os.o (k int, v int, t text);
CREATE TABLE os.p (k int, w numeric);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA os;
CREATE TABLE os.a (id int, x int, t text);
CREATE TABLE os.r (id int, name text);
CREATE TABLE os.q (k int, v int, m money);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = os, public;
CREATE SCHEMA os_here;
CREATE TABLE os_here.a AS SELECT i AS id, nullif(i % 40, 3) AS x, 'a' || i % 13 AS t FROM generate_series(1, 5000) i;
CREATE TABLE os_here.r AS SELECT i AS id, 'r' || i AS name FROM generate_series(0, 39) i;
CREATE TABLE os_here.o AS SELECT nullif(i % 900, 7) AS k, i % 11 AS v, 'o' || i % 5 AS t FROM generate_series(1, 2000) i;
CREATE TABLE os_here.p AS SELECT i % 300 AS k, i / 8.0 AS w FROM generate_series(1, 600) i;
CREATE TABLE os_here.q AS SELECT i AS k, i % 9 AS v, i::money AS m FROM generate_series(1, 700) i;
ANALYZE os_here.a, os_here.r, os_here.o, os_here.p, os_here.q;
CREATE FOREIGN TABLE a (id int, x int, t text) SERVER os OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE r (id int, name text) SERVER os OPTIONS (replicated 'true');
CREATE FOREIGN TABLE o (k int, v int, t text) SERVER os1;
CREATE FOREIGN TABLE p (k int, w numeric) SERVER os1;
CREATE FOREIGN TABLE q (k int, v int, m money) SERVER os2;
INSERT INTO a SELECT * FROM os_here.a;
INSERT INTO r SELECT * FROM os_here.r;
INSERT INTO o SELECT * FROM os_here.o;
INSERT INTO p SELECT * FROM os_here.p;
INSERT INTO q SELECT * FROM os_here.q;
ANALYZE a, r, o, p, q;

-- What of a plan says where things are done; and whether the rows are right, with each way to bring them together.
CREATE FUNCTION planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; way text; diff bigint;
BEGIN
  SET LOCAL search_path = os, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ '^ *(-> +)?(Foreign Scan|Custom Scan|Foreign Insert)|Relations:|Nodes:|One of Nodes:|Any of Nodes:|Strategy:|Exchange \d:|Joined Here:' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
  FOREACH way IN ARRAY ARRAY['auto', 'repartition_one', 'repartition_both', 'replicate', 'pull'] LOOP
    PERFORM set_config('rdma_fdw.exchange_strategy', way, true);
    PERFORM set_config('search_path', 'os, public', true);
    EXECUTE 'CREATE TEMP TABLE there AS ' || query;
    PERFORM set_config('search_path', 'os_here, public', true);
    EXECUTE 'CREATE TEMP TABLE here AS ' || query;
    SELECT count(*) INTO diff FROM ((TABLE there EXCEPT ALL TABLE here) UNION ALL (TABLE here EXCEPT ALL TABLE there)) d;
    IF diff <> 0 THEN
      RETURN NEXT format('%s: %s rows differ', way, diff);
    END IF;
    DROP TABLE there, here;
  END LOOP;
  PERFORM set_config('rdma_fdw.exchange_strategy', 'auto', true);
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

SELECT planned('SELECT count(*), sum(a.x) AS x, sum(o.v) AS v FROM a JOIN o ON a.id = o.k');
-- both of one server: where they are
SELECT planned('SELECT o.k, o.v, p.w, r.name FROM o JOIN p USING (k) JOIN r ON r.id = o.v');
SELECT planned('SELECT a.id, o.k, o.v, q.v AS qv FROM a JOIN o ON a.id = o.k JOIN q ON q.k = a.id WHERE a.x < 9');
-- outer, semi and anti joins, with rows that have no partner and with NULLs
SELECT planned('SELECT a.id, o.k, o.v FROM a LEFT JOIN o ON a.id = o.k AND o.v > 3');
SELECT planned('SELECT o.k, o.v, a.x FROM o LEFT JOIN a ON a.id = o.k');
SELECT planned('SELECT o.k, o.v, a.id FROM o FULL JOIN a ON a.id = o.k');
SELECT planned('SELECT id, x FROM a WHERE EXISTS (SELECT FROM o WHERE o.k = a.id AND o.v > 4)');
SELECT planned('SELECT id, x FROM a WHERE NOT EXISTS (SELECT FROM o WHERE o.k = a.id)');
SELECT planned('SELECT k, v FROM o WHERE NOT EXISTS (SELECT FROM a WHERE a.id = o.k AND a.x = 5)');
SELECT planned('SELECT k, v FROM o WHERE k IN (SELECT x FROM a)');
-- groups, order, DISTINCT, set operations, sub-selects in FROM
SELECT planned('SELECT a.t, o.t AS ot, count(*), max(p.w) FROM a JOIN o ON o.k = a.id JOIN p ON p.k = o.k GROUP BY 1, 2');
SELECT planned('SELECT DISTINCT r.name, o.t FROM a JOIN o ON o.k = a.id JOIN r ON r.id = a.x ORDER BY 1, 2 LIMIT 7');
SELECT planned('SELECT a.id, g.n FROM a JOIN (SELECT k, count(*) AS n FROM o GROUP BY k) g ON g.k = a.id WHERE g.n > 2');
SELECT planned('SELECT id FROM a JOIN o ON o.k = a.id WHERE o.v = 1 UNION SELECT k FROM q WHERE v = 2');
SELECT planned('SELECT a.t, g.v, g.n FROM a JOIN (SELECT DISTINCT k, v, count(*) OVER (PARTITION BY k) AS n FROM o WHERE v > 1) g ON g.k = a.id AND g.n > 1 WHERE a.x IN (1, 2)');
SELECT planned('SELECT a.id, l.k, l.w FROM a LEFT JOIN (SELECT o.k, p.w FROM o JOIN p USING (k) ORDER BY p.w, o.k, o.v LIMIT 20) l ON l.k = a.id WHERE a.id < 100');
-- a type that means something else elsewhere stays where it is
SELECT planned('SELECT a.id, q.m::text FROM a JOIN q ON q.k = a.id WHERE q.v = 3');
-- its own scan is what it was, also with keys that are sent
CREATE TABLE small AS SELECT i * 37 AS k FROM generate_series(1, 5) i;
CREATE VIEW os_here.small AS SELECT * FROM small;
ANALYZE small;
SELECT planned('SELECT o.k, o.v FROM o JOIN small s ON s.k = o.k WHERE o.v > (SELECT min(x) FROM a)');

-- writes
CREATE FOREIGN TABLE copy (id int, x int, t text) SERVER os OPTIONS (table_name 'b', distributed_by 'id');
SELECT count(*) FROM rdma.run_on('os', 'CREATE TABLE os.b (id int, x int, t text)');
EXPLAIN (COSTS OFF) INSERT INTO copy SELECT a.id, o.v, o.t FROM a JOIN o ON o.k = a.id;
INSERT INTO copy SELECT a.id, o.v, o.t FROM a JOIN o ON o.k = a.id;
SELECT count(*) FROM ((TABLE copy EXCEPT ALL SELECT a.id, o.v, o.t FROM os_here.a JOIN os_here.o ON o.k = a.id)
	UNION ALL (SELECT a.id, o.v, o.t FROM os_here.a JOIN os_here.o ON o.k = a.id EXCEPT ALL TABLE copy)) d;
-- rows that are written or locked are found as before
UPDATE o SET v = 100 FROM a WHERE a.id = o.k AND a.x = 5;
UPDATE os_here.o SET v = 100 FROM os_here.a WHERE a.id = o.k AND a.x = 5;
SELECT count(*) FROM ((TABLE o EXCEPT ALL TABLE os_here.o) UNION ALL (TABLE os_here.o EXCEPT ALL TABLE o)) d;
SELECT count(*) FROM (SELECT o.k FROM o JOIN a ON a.id = o.k WHERE o.v = 100 FOR UPDATE OF o) l;
-- in one transaction all see what it wrote
BEGIN;
INSERT INTO o VALUES (1, 1000, 'new');
SELECT count(*), sum(o.v) FROM a JOIN o ON a.id = o.k WHERE o.t = 'new';
ROLLBACK;
-- parameters
PREPARE by_value(int) AS SELECT count(*), sum(o.v) FROM a JOIN o ON a.id = o.k WHERE o.v = $1;
EXECUTE by_value(3);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_value(3);
RESET plan_cache_mode;
-- a server that is none of the nodes
SET rdma_fdw.disable = partitions;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.x, o.v FROM a JOIN o ON a.id = o.k;
RESET rdma_fdw.disable;

-- values of the joined rows are those of both servers: only if both are trusted they come as they are stored
SELECT count(*) FROM rdma.run_on('os', 'CREATE TABLE os.d (k int, words tsvector)');
CREATE TABLE d (k int, words tsvector) PARTITION BY LIST (k);
CREATE FOREIGN TABLE d1 PARTITION OF d FOR VALUES IN (1) SERVER os1 OPTIONS (table_name 'd');
CREATE FOREIGN TABLE d2 PARTITION OF d FOR VALUES IN (2) SERVER os2 OPTIONS (table_name 'd');
INSERT INTO d SELECT i % 2 + 1, to_tsvector('simple', 'a few words of row ' || i) FROM generate_series(1, 40) i;
ANALYZE d;
CREATE FUNCTION pulled_bytes() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE line text; bytes bigint := 0;
BEGIN
  FOR line IN EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) SELECT x.words FROM d x JOIN d y ON x.k = y.k AND x.words = y.words LOOP
    bytes := bytes + coalesce(substring(line FROM 'Pulled: .*bytes=(\d+)')::bigint, 0);
  END LOOP;
  RETURN bytes;
END $$;
EXPLAIN (COSTS OFF) SELECT x.words FROM d x JOIN d y ON x.k = y.k AND x.words = y.words;
SELECT pulled_bytes() AS none \gset
ALTER SERVER os1 OPTIONS (ADD trusted 'true');
SELECT pulled_bytes() AS first \gset
ALTER SERVER os1 OPTIONS (DROP trusted);
ALTER SERVER os2 OPTIONS (ADD trusted 'true');
SELECT pulled_bytes() AS second \gset
ALTER SERVER os1 OPTIONS (ADD trusted 'true');
SELECT :first = :none AS first_is_not_enough, :second = :none AS second_is_not_enough, pulled_bytes() <> :none AS both_are;

DROP SCHEMA os, os_here CASCADE;
DROP SERVER os CASCADE;
DROP SERVER os1 CASCADE;
DROP SERVER os2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DROP SCHEMA os CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DROP SCHEMA os CASCADE;
