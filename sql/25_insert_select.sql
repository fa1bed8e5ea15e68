-- INSERT ... SELECT that data nodes do by themselves: on one server, on each of several nodes where the rows lie already where they
-- belong, and with an exchange where they do not. The rows, counts and errors are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ins
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA one;
CREATE TYPE one.mood AS ENUM ('glad', 'sad');
CREATE TABLE one.a (id int, x int, t text);
CREATE TABLE one.b (id int UNIQUE, x bigint, v varchar(4), n numeric(6,2));
CREATE TABLE one.e (id int, m one.mood);
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = ins;
SET rdma_fdw.measured_costs = off;

-- how(): who does it
CREATE FUNCTION how(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	lines text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line ~ 'Foreign Insert|Strategy|Exchange' THEN
			lines := concat_ws(', ', nullif(lines, ''), regexp_replace(trim(line), '^->  | on .*', '', 'g'));
		END IF;
	END LOOP;
	RETURN CASE WHEN lines ~ '^Foreign Insert' THEN lines ELSE 'here' END;
END $$;

-- ---------- one server ----------
CREATE FOREIGN TABLE a (id int, x int, t text) SERVER ins1 OPTIONS (schema_name 'one');
CREATE FOREIGN TABLE b (id int, x bigint, v varchar(4), n numeric(6,2)) SERVER ins1 OPTIONS (schema_name 'one');
CREATE FOREIGN TABLE e (id int, m text) SERVER ins1 OPTIONS (schema_name 'one');
INSERT INTO a SELECT g, g % 7, 't' || g FROM generate_series(1, 100) g;
\pset format unaligned
\pset tuples_only on
\set ECHO all
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO b SELECT id, x, t, id / 3.0 FROM a WHERE id < 50;
INSERT INTO b SELECT id, x, t, id / 3.0 FROM a WHERE id < 50;
SELECT count(*), sum(id), sum(x), min(v), max(v), sum(n) FROM b;
-- what is too long is an error there, too, and nothing is written; what has to be rounded is
INSERT INTO b SELECT id + 1000, x, t || 'longer', 0 FROM a WHERE id = 1;
SELECT count(*) FROM b;
INSERT INTO b (id, n) SELECT 2000 + id, 1.005 * id FROM a WHERE id = 3;
SELECT * FROM b WHERE id = 2003;
-- values from here, which the column's type there decides about; columns that are not named are NULL
PREPARE moods AS INSERT INTO e SELECT id, $1 FROM a WHERE id <= $2;
EXECUTE moods('sad', 3);
EXECUTE moods('glad', 2);
EXECUTE moods('angry', 2);
INSERT INTO e (id) SELECT max(id) FROM a GROUP BY x HAVING x = 6;
SELECT * FROM e ORDER BY id, m;
-- a parameter in a sub-select keeps its type
SET plan_cache_mode = force_generic_plan;
PREPARE far(bigint) AS INSERT INTO b (id, x) SELECT a.id + 9000, d.far FROM a LEFT JOIN (SELECT id, coalesce(x, 0) + $1 AS far FROM a) d ON a.id = d.id WHERE a.id < 3;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE far(4000000000);
EXECUTE far(4000000000);
RESET plan_cache_mode;
SELECT id, x FROM b WHERE id > 9000 ORDER BY id;
DELETE FROM b WHERE id > 9000;
-- joins, sub-selects, the target itself, conflicts
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO b (id, x) SELECT a.id + 100, b.x FROM a JOIN b USING (x) WHERE a.id = 1;
INSERT INTO b (id, x) SELECT a.id + 8000, b.x FROM a JOIN b USING (id) WHERE a.id = 1;
SELECT how('INSERT INTO b (id, x) SELECT a.id + 100, count(*) FROM a JOIN b USING (x) GROUP BY a.id');
INSERT INTO b (id, x) SELECT a.id + 100, count(*) FROM a JOIN b USING (x) GROUP BY a.id;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO b SELECT * FROM b WHERE id < 5 ON CONFLICT DO NOTHING;
INSERT INTO b SELECT * FROM b WHERE id < 5 ON CONFLICT DO NOTHING;
INSERT INTO b SELECT id, x, v, n FROM b WHERE id < 5;
INSERT INTO b (id) SELECT id + 5000 FROM a WHERE EXISTS (SELECT FROM e WHERE e.id = a.id) ORDER BY a.id LIMIT 2;
SELECT count(*), sum(id), sum(x) FROM b;
-- not there: values that only this server has, rows that somebody here wants to see, a condition that is evaluated here
CREATE SEQUENCE counter;
CREATE FUNCTION here(int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN $1 = 1; END';
SELECT how($$INSERT INTO e SELECT nextval('counter') FROM a$$);
SELECT how($$INSERT INTO e SELECT id FROM a RETURNING id$$);
SELECT how($$INSERT INTO e SELECT id FROM a WHERE here(id)$$);
SELECT how($$INSERT INTO e SELECT id FROM (SELECT id FROM a FOR UPDATE) s$$);
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_LEVEL, TG_OP; RETURN NEW; END $$;
CREATE TRIGGER one BEFORE INSERT ON e FOR EACH STATEMENT EXECUTE FUNCTION shout();
SELECT how($$INSERT INTO e SELECT id FROM a WHERE id = 1$$);
INSERT INTO e SELECT id FROM a WHERE id = 1;
CREATE TRIGGER each BEFORE INSERT ON e FOR EACH ROW EXECUTE FUNCTION shout();
SELECT how($$INSERT INTO e SELECT id FROM a WHERE id = 1$$);
INSERT INTO e SELECT id FROM a WHERE id = 1;
DROP TRIGGER one ON e;
DROP TRIGGER each ON e;
SET rdma_fdw.push_down = 'scans';
SELECT how($$INSERT INTO e SELECT id FROM a WHERE id = 1$$);
RESET rdma_fdw.push_down;
-- with somebody else's rights for the rows
SET client_min_messages = warning;
CREATE ROLE ins_owner SUPERUSER;
RESET client_min_messages;
CREATE USER MAPPING FOR ins_owner SERVER ins1 OPTIONS (user 'postgres');
CREATE VIEW av AS SELECT id FROM a;
ALTER VIEW av OWNER TO ins_owner;
SELECT how($$INSERT INTO e SELECT id FROM av$$);

-- ---------- several nodes ----------
CREATE TABLE src (k int, j int, v text, n numeric);
INSERT INTO src SELECT g, g * 7 % 1000, 'v' || g % 13, g / 3.0 FROM generate_series(1, 2000) g;
INSERT INTO src VALUES (NULL, 5, NULL, NULL), (7, NULL, 'null', 1);
CREATE TABLE dim (j int, name text);
INSERT INTO dim SELECT g, 'name ' || g FROM generate_series(0, 999, 3) g;
CREATE TABLE by_k (k int, j bigint, v varchar(20), n numeric(8,1));
CREATE TABLE by_j (LIKE by_k);
CREATE TABLE copies (j int, name text);
CREATE SCHEMA here;
CREATE TABLE here.src AS TABLE src;
CREATE TABLE here.dim AS TABLE dim;
CREATE TABLE here.by_k (LIKE by_k);
CREATE TABLE here.by_j (LIKE by_k);
CREATE TABLE here.copies (LIKE copies);
ALTER TABLE by_k ADD CHECK (k <> -1);
ALTER TABLE by_j ADD UNIQUE (j, k);
ALTER TABLE here.by_k ADD CHECK (k <> -1);
ALTER TABLE here.by_j ADD UNIQUE (j, k);
SELECT rdma.distribute_table('src', 'ins', 'k'), rdma.distribute_table('dim', 'ins', replicated => true),
	rdma.distribute_table('by_k', 'ins', 'k'), rdma.distribute_table('by_j', 'ins', 'j'), rdma.distribute_table('copies', 'ins', replicated => true);
ANALYZE src, dim;

-- compare(): runs an INSERT over the nodes' tables and over those here: counts or errors, whether the rows are the same, and how it
-- was done. In a subtransaction each, which an error ends.
CREATE FUNCTION written(statement text, place text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	PERFORM set_config('search_path', place, true);
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION compare(statement text, OUT written text, OUT how text, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	target text;
	differ bigint;
BEGIN
	how := ins.how(statement);
	written := ins.written(statement, 'ins');
	same := written = ins.written(statement, 'here');
	FOREACH target IN ARRAY ARRAY['by_k', 'by_j', 'copies'] LOOP
		EXECUTE format('SELECT count(*) FROM ((TABLE ins.%1$I EXCEPT ALL TABLE here.%1$I) UNION ALL (TABLE here.%1$I EXCEPT ALL TABLE ins.%1$I)) d', target)
			INTO differ;
		same := same AND differ = 0;
	END LOOP;
END $$;

-- where they are
SELECT * FROM compare('INSERT INTO by_k SELECT * FROM src');
SELECT * FROM compare('INSERT INTO by_k (v, k) SELECT upper(v), k FROM src WHERE j < 100');
SELECT * FROM compare('INSERT INTO by_k SELECT k, sum(j), min(v), avg(n) FROM src GROUP BY k');
SELECT * FROM compare('INSERT INTO by_k SELECT k, j, name, 1.25 FROM src JOIN dim USING (j)');
SELECT * FROM compare('INSERT INTO by_k SELECT a.k, b.j, a.v, b.n FROM src a LEFT JOIN by_k b USING (k) WHERE a.k < 40');
SELECT * FROM compare('INSERT INTO by_k SELECT 42, 1, v, n FROM src WHERE k = 42');
SELECT * FROM compare('INSERT INTO by_k SELECT k, j, v, n FROM src WHERE k = 42');
SELECT * FROM compare('INSERT INTO copies SELECT * FROM dim WHERE j < 500');
SELECT * FROM compare('INSERT INTO copies SELECT a.j, b.name FROM dim a JOIN dim b USING (j)');
-- from node to node, with values from here that only the exchange uses, or both
SELECT * FROM compare('INSERT INTO by_j SELECT k + 10000, j, v, n FROM src WHERE k < (SELECT count(*) / 100 FROM dim)');
SELECT * FROM compare('INSERT INTO by_j SELECT k, (SELECT count(*) FROM dim), v, (SELECT max(j) FROM dim) FROM src WHERE k BETWEEN 11 AND (SELECT min(j) + 13 FROM dim)');
SELECT * FROM compare('DELETE FROM by_j');
-- from node to node
SELECT * FROM compare('INSERT INTO by_j SELECT * FROM src WHERE k IS NOT NULL');
SELECT * FROM compare('INSERT INTO by_k SELECT j, k, v, n FROM src');
SELECT * FROM compare('INSERT INTO by_k SELECT k + 1, j, v, n FROM src');
SELECT * FROM compare('INSERT INTO by_k SELECT a.j, b.k, a.v, b.n FROM src a JOIN src b ON a.k = b.j WHERE a.k < 300');
SELECT * FROM compare('INSERT INTO by_k SELECT j, count(*), max(v), 0 FROM src WHERE j IS NOT NULL GROUP BY j');
SELECT * FROM compare('INSERT INTO by_k (k, v) SELECT j, name FROM dim');
SELECT * FROM compare('INSERT INTO by_k SELECT 5, j, v, n FROM src WHERE k < 100');
SELECT * FROM compare('INSERT INTO by_k SELECT j, k, v, n FROM by_k WHERE k < 100 AND j < 2000000000');
-- over this server
SELECT * FROM compare('INSERT INTO copies SELECT j, v FROM src WHERE k < 50');
SELECT * FROM compare('INSERT INTO copies SELECT j, name FROM dim ORDER BY j LIMIT 3');
SELECT * FROM compare('INSERT INTO by_k SELECT k, j, v, n FROM src ORDER BY k, j LIMIT 10');
SELECT * FROM compare('INSERT INTO by_k (k) SELECT n FROM src WHERE n < 100');
SELECT * FROM compare('INSERT INTO by_k (k) SELECT g FROM generate_series(1, 10) g');
SELECT * FROM compare('INSERT INTO by_k (k, j) SELECT src.k, (random() * 0)::int FROM src WHERE k < 20');
-- errors of one node: nothing is written on any
SELECT * FROM compare('INSERT INTO by_k SELECT CASE k WHEN 777 THEN -1 ELSE k END, j, v, n FROM src WHERE k > 700');
SELECT * FROM compare('INSERT INTO by_k SELECT k, j, repeat(v, 8), n FROM src WHERE k > 0');
SELECT * FROM compare('INSERT INTO by_k SELECT k, j / (k - 1500), v, n FROM src');
SELECT same, written ~ 'duplicate key' AS duplicate, how FROM compare('INSERT INTO by_j SELECT * FROM src WHERE k > 5 AND k < 900');
SELECT * FROM compare('INSERT INTO by_j SELECT * FROM src WHERE k > 0 ON CONFLICT DO NOTHING');

-- and with the rest of a transaction
BEGIN;
INSERT INTO by_k SELECT j, k, v, n FROM src WHERE k < 1000;
SAVEPOINT s;
INSERT INTO by_k SELECT * FROM src;
ROLLBACK TO s;
WITH i AS (INSERT INTO by_j SELECT k + 100000, k, v, n FROM src WHERE k < 7) SELECT count(*) FROM src;
SELECT count(*) - (SELECT count(*) FROM here.by_k) FROM by_k;
SELECT count(*) FROM by_j WHERE k >= 100000 OR j > 10000;
ROLLBACK;
SELECT count(*) - (SELECT count(*) FROM here.by_k) FROM by_k;
PREPARE shifted(int, text) AS INSERT INTO by_j SELECT k, j + $1, $2, n FROM src WHERE k BETWEEN 10 AND 20;
EXECUTE shifted(100000, 'first');
EXECUTE shifted(200000, 'second');
SELECT v, count(*), sum(j) FROM by_j WHERE j > 100000 GROUP BY v ORDER BY v;
EXPLAIN (COSTS OFF) EXECUTE shifted(300000, 'third');
SET rdma_fdw.exchange_strategy = pull;
SELECT how($$INSERT INTO by_j SELECT * FROM src$$);
RESET rdma_fdw.exchange_strategy;
DEALLOCATE ALL;

-- nothing lies where it does not belong
SELECT node, misplaced FROM rdma.check_distribution('ins.by_k') UNION ALL SELECT node, misplaced FROM rdma.check_distribution('ins.by_j');

\set ECHO none
DROP VIEW av;
DROP USER MAPPING FOR ins_owner SERVER ins1;
DROP ROLE ins_owner;
SET client_min_messages = warning;
DROP SCHEMA ins, here CASCADE;
DROP SERVER ins1, ins2, ins CASCADE;
