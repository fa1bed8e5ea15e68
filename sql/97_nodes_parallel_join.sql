-- Parallel workers of the data nodes share the rows that nodes exchange: what a Gather's processes read together are the rows of
-- local tables, whatever stands above, however many workers come, and wherever the rows are kept meanwhile.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name np
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA np;
CREATE TABLE np.a (id int, k int, t text, n numeric);
CREATE TABLE np.b (id bigint, aid int, y int, t text);
CREATE TABLE np.c (id int, bid bigint, v text);
CREATE TABLE np.r (id int, name text);
-- parallel-unsafe, as functions are unless they say something else: what it does is forbidden in parallel mode
CREATE TABLE np.made (i int);
CREATE FUNCTION np.unsafe(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO np.made VALUES (i);
	RETURN i;
END $$;
CREATE VIEW np.odd AS SELECT np.unsafe(id) AS id, k, t FROM np.a WHERE id % 50 = 1;
CREATE FUNCTION np.failing(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN 1 / (i - 777); END $$;
CREATE VIEW np.bad AS SELECT id, k, np.failing(id) AS t FROM np.a;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA np;
CREATE TABLE np.a (id int, k int, t text, n numeric);
CREATE TABLE np.b (id bigint, aid int, y int, t text);
CREATE TABLE np.c (id int, bid bigint, v text);
CREATE TABLE np.r (id int, name text);
CREATE TABLE np.made (i int);
CREATE FUNCTION np.unsafe(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO np.made VALUES (i);
	RETURN i;
END $$;
CREATE VIEW np.odd AS SELECT np.unsafe(id) AS id, k, t FROM np.a WHERE id % 50 = 1;
CREATE FUNCTION np.failing(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN 1 / (i - 777); END $$;
CREATE VIEW np.bad AS SELECT id, k, np.failing(id) AS t FROM np.a;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA np_here;
CREATE TABLE np_here.a AS SELECT i AS id, nullif(i % 997, 3) AS k, 'a' || i % 13 AS t, i / 4.0 AS n FROM generate_series(1, 3000) i;
CREATE TABLE np_here.b AS SELECT i::bigint AS id, nullif(i % 3100, 5) AS aid, i % 11 AS y, repeat('b' || i % 17, i % 60) AS t FROM generate_series(1, 6000) i;
CREATE TABLE np_here.c AS SELECT i AS id, nullif(i % 7000, 9)::bigint AS bid, repeat(md5(i::text), 1 + i % 5) AS v FROM generate_series(1, 4000) i;
CREATE TABLE np_here.r AS SELECT i AS id, 'r' || i AS name FROM generate_series(0, 9) i;
CREATE VIEW np_here.odd AS SELECT id, k, t FROM np_here.a WHERE id % 50 = 1;
ANALYZE np_here.a, np_here.b, np_here.c, np_here.r;
CREATE FOREIGN TABLE np.a (id int, k int, t text, n numeric) SERVER np OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE np.b (id bigint, aid int, y int, t text) SERVER np OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE np.c (id int, bid bigint, v text) SERVER np;
CREATE FOREIGN TABLE np.r (id int, name text) SERVER np OPTIONS (replicated 'true');
CREATE FOREIGN TABLE np.odd (id int, k int, t text) SERVER np;
CREATE FOREIGN TABLE np.bad (id int, k int, t int) SERVER np;
INSERT INTO np.a SELECT * FROM np_here.a;
INSERT INTO np.b SELECT * FROM np_here.b;
INSERT INTO np.c SELECT * FROM np_here.c;
INSERT INTO np.r SELECT * FROM np_here.r;
\pset format unaligned
\pset tuples_only on
\set ECHO all
SELECT DISTINCT answer FROM rdma.run_on('np', 'ANALYZE');
ANALYZE np.a, np.b, np.c, np.r, np.odd, np.bad;

-- what nodes are told, for the sessions of this session
CREATE FUNCTION np.on_nodes(VARIADIC commands text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE command text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		PERFORM rdma.run_on('np', command);
	END LOOP;
END $$;
-- does a node read this exchange below a Gather?
CREATE FUNCTION np.is_shared(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean = false;
BEGIN
	SET LOCAL search_path = np, public;
	SET LOCAL rdma_fdw.explain_nodes = on;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = found OR line ~ 'Parallel Custom Scan \(RdmaExchange\)';
	END LOOP;
	RETURN found;
END $$;
-- are the rows those of local tables?
CREATE FUNCTION np.same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE there text; here text;
	digest text := 'SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x';
BEGIN
	SET LOCAL search_path = np_here, public;
	EXECUTE format(digest, query) INTO here;
	SET LOCAL search_path = np, public;
	EXECUTE format(digest, query) INTO there;
	IF here = there AND here NOT LIKE '0 %' THEN RETURN true; END IF;
	RAISE WARNING '% gives %, and %', query, here, there;
	RETURN false;
END $$;
CREATE TABLE np_here.cases (number int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO np_here.cases (query) VALUES
	('SELECT count(*), sum(a.n), sum(b.y), min(b.t) FROM a JOIN b ON a.k = b.aid'),
	('SELECT a.t, count(*), sum(b.id), max(b.t) FROM a JOIN b ON a.k = b.aid GROUP BY a.t'),
	('SELECT a.id, b.id AS other, b.t FROM a JOIN b ON a.k = b.y'),
	('SELECT a.id, b.id AS other, b.t FROM a LEFT JOIN b ON a.k = b.aid AND b.y < 7'),
	('SELECT a.id, b.id AS other, b.t FROM b LEFT JOIN a ON a.k = b.aid AND a.id % 3 > 0'),
	('SELECT a.id, b.id AS other, b.t FROM a FULL JOIN b ON a.k = b.aid'),
	('SELECT id, t FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.k AND y > 3)'),
	('SELECT id, t FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.k AND y > 3)'),
	('SELECT count(*), sum(b.y), sum(length(c.v)) FROM a JOIN b ON a.k = b.aid JOIN c ON c.bid = b.id'),
	('SELECT c.id, b.id AS other, a.t, name, v FROM c JOIN b ON c.bid = b.id LEFT JOIN a ON a.k = b.y LEFT JOIN r ON r.id = b.y WHERE c.id < 900'),
	('SELECT s.k, s.n, b.y FROM (SELECT k, count(*) AS n FROM a GROUP BY k) s JOIN b ON b.aid = s.n'),
	('SELECT k AS v, t FROM a UNION SELECT y, t FROM b WHERE id < 2000'),
	('SELECT x.v, a.id FROM (SELECT aid AS v FROM b UNION ALL SELECT id FROM c) x JOIN a ON a.k = x.v'),
	('SELECT k, y, rank() OVER (PARTITION BY y ORDER BY a.id, b.id) FROM a JOIN b ON a.k = b.aid'),
	('SELECT a.id FROM a JOIN b ON a.k = b.aid WHERE b.y > (SELECT avg(y) FROM b x JOIN c ON c.bid = x.id)'),
	('SELECT a.id, (SELECT max(c.id) FROM c JOIN b ON c.bid = b.id WHERE b.aid = a.k) AS c FROM a WHERE a.id < 300'),
	('SELECT a.id, b.t FROM a JOIN b ON a.k = b.aid ORDER BY a.id, b.id LIMIT 50'),
	('SELECT DISTINCT b.t, a.t AS other FROM a JOIN b ON a.k = b.aid'),
	('SELECT o.id, o.t, b.y FROM odd o JOIN b ON o.k = b.aid');

SELECT np.on_nodes('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT number, np.is_shared(query), np.same(query), left(query, 100) AS query FROM np_here.cases ORDER BY 1;
SET rdma_fdw.exchange_strategy = replicate;
SELECT number, np.is_shared(query), np.same(query) FROM np_here.cases WHERE number IN (1, 3, 9, 13, 15) ORDER BY 1;
SET rdma_fdw.exchange_strategy = repartition_both;

-- hash tables that are not shared; a Gather over each side of a full join; merge joins
SELECT np.on_nodes('SET enable_parallel_hash = off');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 6, 13);
SELECT np.on_nodes('SET enable_hashjoin = off');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 6, 15);
SELECT np.on_nodes('SET enable_hashjoin = on', 'SET enable_parallel_hash = on', 'SET enable_mergejoin = off', 'SET enable_nestloop = off');
-- one node in parallel, the other not
SELECT answer IS NOT NULL AS set FROM rdma.run_on('np1', 'SET max_parallel_workers_per_gather = 0');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 9, 15);
SELECT np.on_nodes('SET max_parallel_workers_per_gather = 3');
-- only workers; no worker to be had
SELECT np.on_nodes('SET parallel_leader_participation = off');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 9, 15);
SELECT np.on_nodes('SET parallel_leader_participation = on', 'SET max_parallel_workers = 0');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 9, 15);
-- rows in a file; in many pieces, some of them larger than a batch
SELECT np.on_nodes('SET max_parallel_workers = 8', 'SET work_mem = ''64kB''');
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number IN (3, 9, 15);
SELECT np.same('SELECT x.id, md5(x.t) FROM (SELECT id, k, repeat(t, 60000) AS t FROM a WHERE id < 12) x JOIN b ON x.k = b.aid');
RESET rdma_fdw.receive_buffer_size;
SELECT np.on_nodes('RESET work_mem');

-- a LIMIT without order takes what comes first; a cursor is read in pieces, without workers
SELECT count(*) FROM (SELECT a.id FROM np.a JOIN np.b ON a.k = b.aid LIMIT 7) s;
BEGIN;
DECLARE np_cursor CURSOR FOR SELECT a.id FROM np.a JOIN np.b ON a.k = b.aid;
FETCH 0 FROM np_cursor;
MOVE 100 IN np_cursor;
COMMIT;
-- an error while rows are collected, and in what the processes do with them; and what follows
CREATE FUNCTION np.fails(query text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN false;
EXCEPTION WHEN others THEN
	RETURN true;
END $$;
SELECT np.fails('SELECT count(*) FROM np.bad x JOIN np.b ON x.t = b.aid');
SELECT np.fails('SELECT sum(1 / (b.aid - 777)) FROM np.a JOIN np.b ON a.k = b.aid');
SELECT bool_and(np.same(query)) FROM np_here.cases WHERE number < 4;
-- rows were counted where they were shared
CREATE FUNCTION np.counted(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; total bigint = 0; moved bigint = 0;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) ' || query LOOP
		moved = moved + coalesce((SELECT sum(m[1]::bigint) FROM regexp_matches(line, '(?:received|kept) rows=(\d+)', 'g') m), 0);
		total = total + coalesce((SELECT sum(m::bigint) FROM regexp_split_to_table(substring(line FROM 'rows per process=([0-9/]+)'), '/') m), 0);
	END LOOP;
	RETURN moved > 0 AND moved = total;
END $$;
SELECT np.counted('SELECT count(*), sum(a.n) FROM np.a JOIN np.b ON a.k = b.aid');
-- nodes on one machine, which shared memory connects, share its cores: with one each none is left for workers
CREATE FUNCTION np.are_alone(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; alone boolean;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ 'Exchange 1 on' THEN
			alone = coalesce(alone, true) AND (line ~ ' shm') = (line !~ 'rows per process=');
		END IF;
	END LOOP;
	RETURN alone;
END $$;
SELECT np.on_nodes('SET rdma_fdw.cores = 2');
SELECT np.are_alone('SELECT count(*), sum(a.n) FROM np.a JOIN np.b ON a.k = b.aid');
SELECT np.on_nodes('SET rdma_fdw.cores = 4');
SELECT np.counted('SELECT count(*), sum(a.n) FROM np.a JOIN np.b ON a.k = b.aid');

DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
DROP SCHEMA np, np_here CASCADE;
DROP SERVER np, np1, np2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
-- workers make values of types that are safe for them: of no domain; and where few rows are wanted nobody waits for all
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
CREATE DOMAIN np.positive AS int CHECK (value > 0);
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=20000', 'SELECT 1') AS x(c1 int);
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=20000', 'SELECT 1') AS x(c1 np.positive);
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=20000', 'SELECT ARRAY[1]') AS x(c1 np.positive[]);
EXPLAIN (COSTS OFF) SELECT c1 FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=20000', 'SELECT 1') AS x(c1 int) LIMIT 10;
DROP SCHEMA np CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
