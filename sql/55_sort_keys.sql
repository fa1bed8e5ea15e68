-- What remote statements are sorted and grouped by: constants, relabelled columns, sub-selects, names that are also functions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
DO $$ BEGIN
  EXECUTE format('CREATE SERVER keys1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', current_setting('port'), current_database());
  EXECUTE format('CREATE SERVER keys2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER keys1 OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER keys2 OPTIONS (user :'USER');
CREATE SCHEMA here;
CREATE TABLE here.one (id int, g int, f varchar(4), n int2, count int, upper text);
CREATE TABLE here.other (id int, g int, f varchar(4), n int2, count int, upper text);
INSERT INTO here.one SELECT i, i % 41, (ARRAY['a', 'ab', 'abcd', NULL])[i % 4 + 1], i % 5 - 2, 9 - i % 7, chr(97 + i % 6) FROM generate_series(1, 200) i;
INSERT INTO here.other SELECT 100 - i, i, 'b', -i, i, 'x' FROM generate_series(1, 40) i;
CREATE TABLE here.big AS SELECT 9007199254740992 + i % 2 AS x FROM generate_series(1, 9) i;
CREATE TABLE here.float AS SELECT 9007199254740992::float8 AS x;
CREATE TABLE here.parted (id int, a int, b int) PARTITION BY RANGE (id);
CREATE TABLE here.low PARTITION OF here.parted FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE here.high PARTITION OF here.parted FOR VALUES FROM (50) TO (MAXVALUE);
INSERT INTO here.parted SELECT i, i % 10, i % 15 FROM generate_series(1, 100) i;
ANALYZE here.one, here.other, here.big, here.float, here.parted;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here LIMIT TO (one, big, float) FROM SERVER keys1 INTO away;
IMPORT FOREIGN SCHEMA here LIMIT TO (other) FROM SERVER keys2 INTO away;
CREATE TABLE away.parted (id int, a int, b int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE away.low PARTITION OF away.parted FOR VALUES FROM (MINVALUE) TO (50) SERVER keys1 OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.high PARTITION OF away.parted FOR VALUES FROM (50) TO (MAXVALUE) SERVER keys1 OPTIONS (schema_name 'here');
ANALYZE away.one, away.other, away.big, away.float, away.parted;

-- The rows of a query in their order over tables that are here.
CREATE FUNCTION rows_of(schema text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; result text;
BEGIN
  PERFORM set_config('search_path', schema || ', public', true);
  FOR r IN EXECUTE query LOOP
    result := concat_ws(' ', result, r::text);
  END LOOP;
  RETURN result;
END $$;
-- Compares the rows; with the data node's estimates, too. Prints what goes to data nodes if asked for.
CREATE FUNCTION compared(query text, shown boolean DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; got text; expected text := rows_of('here', query);
BEGIN
  PERFORM set_config('search_path', 'away, public', true);
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF shown AND line ~ 'Remote SQL' THEN
      RETURN NEXT trim(line);
    END IF;
  END LOOP;
  got := rows_of('away', query);
  IF got IS DISTINCT FROM expected THEN
    RETURN NEXT format('DIFFERENT: %s instead of %s', left(got, 300), left(expected, 300));
  END IF;
  ALTER SERVER keys1 OPTIONS (ADD use_remote_estimate 'true');
  got := rows_of('away', query);
  ALTER SERVER keys1 OPTIONS (DROP use_remote_estimate);
  IF got IS DISTINCT FROM expected THEN
    RETURN NEXT format('DIFFERENT with use_remote_estimate: %s instead of %s', left(got, 300), left(expected, 300));
  END IF;
END $$;
\pset format unaligned
\pset tuples_only on

-- constants of branches: the rows of a branch are all equal in such a key
SELECT compared('SELECT kind, g, count(DISTINCT id) FROM (SELECT 1 AS kind, id, g FROM other UNION ALL SELECT 1, id, g FROM one) q GROUP BY kind, g ORDER BY 1, 2');
SELECT compared('SELECT g, id, rank() OVER (PARTITION BY kind ORDER BY g, id) FROM (SELECT 1 AS kind, id, g FROM other UNION ALL SELECT 1, id, g FROM one) q ORDER BY 3, 1 LIMIT 5');
SELECT compared('SELECT kind, g, row_number() OVER (PARTITION BY kind ORDER BY g, id) FROM (SELECT 2024 AS kind, id, g FROM other UNION ALL SELECT 2025, id, g FROM one) q ORDER BY 3, 1 LIMIT 4');
SELECT compared('SELECT kind, id FROM (SELECT ''b'' AS kind, id FROM other UNION ALL SELECT ''a'', id FROM one) q ORDER BY kind DESC, id LIMIT 3');
SELECT compared('SELECT kind, id FROM (SELECT 1.5 AS kind, id FROM other UNION ALL SELECT n, id FROM one) q ORDER BY kind, id LIMIT 3');
SELECT compared('SELECT DISTINCT kind, n FROM (SELECT 3 AS kind, n FROM other UNION ALL SELECT 2, n FROM one) q ORDER BY kind, n LIMIT 3');
SELECT compared('SELECT a.kind, a.id FROM (SELECT 1 AS kind, id FROM other UNION ALL SELECT 2, id FROM one) a JOIN (SELECT 2 AS kind, id FROM one UNION ALL SELECT 1, id FROM other) b USING (kind, id) ORDER BY 1, 2 LIMIT 3');
-- constants of the query
SELECT compared('SELECT 2, count(*) FROM one GROUP BY 1');
SELECT compared('SELECT 2 AS k, n, count(*) FROM one GROUP BY k, n ORDER BY k, n', true);
SELECT compared('SELECT ''x'', n FROM one GROUP BY 1, 2 ORDER BY 1, 2', true);
SELECT compared('SELECT DISTINCT 5, n FROM one ORDER BY 1, 2', true);
SELECT compared('SELECT id, count(*) OVER (PARTITION BY 1 ORDER BY 2) FROM one ORDER BY id LIMIT 2');
SELECT compared('SELECT q.c FROM (SELECT 7 AS k, count(*) AS c FROM one GROUP BY 1, n) q WHERE q.c > 3 ORDER BY 1');
SELECT compared('SELECT o.id FROM one o WHERE o.n >= (SELECT max(t.n) FROM one t WHERE t.g = o.g GROUP BY 1 + 1) AND o.id < 20 ORDER BY 1');

-- columns as another type
SELECT compared('SELECT f FROM one UNION SELECT f FROM one ORDER BY f');
SELECT compared('SELECT f, g FROM one UNION SELECT f, n FROM one WHERE g < 3 ORDER BY f DESC, g LIMIT 4');
SELECT compared('SELECT f FROM one INTERSECT SELECT f FROM one ORDER BY f DESC');
SELECT compared('SELECT DISTINCT f FROM one ORDER BY f', true);
SELECT compared('SELECT f, count(*) FROM one GROUP BY f ORDER BY f', true);
SELECT compared('SELECT f, count(*) FROM one GROUP BY f ORDER BY f::text');
-- an oid sorts as unsigned
SELECT compared('SELECT g - 20 FROM one WHERE g IN (19, 21) GROUP BY g - 20 ORDER BY (g - 20)::oid');
SELECT compared('SELECT DISTINCT (n::int)::oid AS o FROM one ORDER BY o', true);
SELECT compared('SELECT n::int FROM one GROUP BY n::int ORDER BY (n::int)::oid', true);
SELECT compared('SELECT n::int AS i FROM one ORDER BY (n::int)::oid, id LIMIT 3', true);
SELECT compared('SELECT upper FROM one GROUP BY upper ORDER BY upper COLLATE "C" DESC', true);
SELECT compared('SELECT f::text, count(*) FROM one GROUP BY f::text ORDER BY 1', true);
SELECT compared('SELECT DISTINCT f::text FROM one ORDER BY 1', true);
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT compared('SELECT a.id, c.oid FROM one a JOIN (VALUES (3::oid), (1::oid), (4294967295::oid)) c(oid) ON c.oid = a.n::int ORDER BY 1 LIMIT 3');
RESET enable_hashjoin;
RESET enable_nestloop;

-- a column merged by USING is of the type that is compared, in which values are the same that differ as they are stored
SELECT compared('SELECT x, count(*) FROM big LEFT JOIN "float" USING (x) GROUP BY x', true);
SELECT compared('SELECT DISTINCT x FROM big LEFT JOIN "float" USING (x)', true);

-- sub-selects
SELECT compared('SELECT id FROM one t ORDER BY (SELECT count(*) FROM one u WHERE u.g = t.id), id DESC LIMIT 3');
SELECT compared('SELECT DISTINCT (SELECT count(*) FROM one u WHERE u.n = t.g) FROM one t ORDER BY 1', true);
SELECT compared('SELECT (SELECT count(*) FROM one u WHERE u.n = t.g) AS c, count(*) FROM one t GROUP BY 1 ORDER BY 1', true);
SELECT compared('SELECT id, count(*) OVER (PARTITION BY (SELECT count(*) FROM one u WHERE u.n = t.g)) FROM one t ORDER BY id LIMIT 2');

-- columns with the names of functions
SELECT compared('SELECT count(*), o.count FROM one o GROUP BY o.count ORDER BY o.count', true);
SELECT compared('SELECT count(*) FROM one o GROUP BY o.count ORDER BY o.count DESC', true);
SELECT compared('SELECT upper(o.upper), max(o.id) FROM one o GROUP BY o.upper ORDER BY o.upper DESC', true);
SELECT compared('SELECT rank() OVER (ORDER BY o.count, o.id), o.count FROM one o ORDER BY o.count, o.id LIMIT 2');
SELECT compared('SELECT q.c, o.id FROM (SELECT count(*) AS c, min(o.id) AS m FROM one o GROUP BY o.count ORDER BY o.count LIMIT 3) q JOIN one o ON o.id = q.m ORDER BY 1, 2', true);

-- columns that only a condition inside of a sub-select compares, of which the sort key is another name
SELECT compared('SELECT b FROM parted WHERE a = b ORDER BY 1 LIMIT 4', true);
SELECT compared('SELECT b + 1 FROM parted WHERE a = b ORDER BY b DESC, id LIMIT 4', true);
SELECT compared('SELECT p.b, o.n FROM parted p JOIN one o USING (id) WHERE p.a = p.b ORDER BY 1, p.id LIMIT 4', true);
SELECT compared('SELECT p.b, q.id FROM one o LEFT JOIN parted p ON p.id = o.g AND p.a = p.b JOIN parted q ON q.a = q.b AND q.id = o.id ORDER BY q.b, q.id LIMIT 4', true);
SELECT compared('SELECT b FROM (SELECT id AS a, g AS b FROM one UNION ALL SELECT n, count FROM one) u WHERE a = b ORDER BY 1 LIMIT 4', true);

SET client_min_messages = warning;
DROP SCHEMA here, away CASCADE;
DROP FUNCTION compared, rows_of;
DROP SERVER keys1 CASCADE;
DROP SERVER keys2 CASCADE;
