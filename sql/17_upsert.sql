-- rdma.upsert: what INSERT ... ON CONFLICT DO UPDATE does, set-wise, on the node that has each row; and what core refuses says so.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ups
\i :two_nodes
CREATE SCHEMA ups_here;
RESET client_min_messages;
CREATE FUNCTION said(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text; hint text; answer text;
BEGIN
  EXECUTE statement INTO answer;
  RETURN answer;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN concat_ws(E'\n', sqlstate || ': ' || sqlerrm, detail, hint);
END $$;
\pset format unaligned
\t on

-- values of many types, a name that has to be quoted, a default of here, a generated column
CREATE SEQUENCE numbers;
CREATE TABLE t (id int, part text, v numeric, f float8, b bytea, a text[], j jsonb, at timestamptz, c char(4), s varchar(5), "50% 'o\ff" bool, n bigint DEFAULT nextval('ups.numbers'), twice numeric GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (id, part));
CREATE TABLE ups_here.t (LIKE t INCLUDING ALL);
CREATE TABLE r (x int PRIMARY KEY, r text);
INSERT INTO r VALUES (1, 'one'), (2, 'two');
SELECT rdma.distribute_table('t', 'ups', 'id'), rdma.distribute_table('r', 'ups', replicated => true);
CREATE TABLE news AS SELECT i AS id, (ARRAY['a', E'b''"\\', '{,}'])[1 + i % 3] AS part, i / 7.0 AS v, sqrt(i)::float8 AS f, decode(md5(i::text), 'hex') AS b,
    CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '{}'::text[] ELSE ARRAY[i::text, NULL, E'x"\\{'] END AS a, CASE WHEN i % 3 > 0 THEN jsonb_build_object('k', i, 'null', NULL) ELSE 'null' END AS j,
    '2026-01-01 12:00+00'::timestamptz + i * interval '1 day' AS at, 'c ' AS c, 's' || i AS s, i % 2 = 0 AS "50% 'o\ff" FROM generate_series(1, 3000) i;
INSERT INTO news (id, part, f, v) VALUES (-1, 'inf', 'Infinity', 'NaN'), (-2, 'nan', 'NaN', NULL);
SET datestyle = 'German';
SET extra_float_digits = 0;
SELECT rdma.upsert('t', 'SELECT * FROM news', '{part,id}');
RESET datestyle;
RESET extra_float_digits;
INSERT INTO ups_here.t (id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", n) SELECT *, 0 FROM news ON CONFLICT (id, part) DO NOTHING;
CREATE FUNCTION same() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ', (SELECT count(*) FROM t), (SELECT count(*) FROM (SELECT id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", twice FROM t EXCEPT ALL SELECT id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", twice FROM ups_here.t) d),
    (SELECT count(*) FROM (SELECT id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", twice FROM ups_here.t EXCEPT ALL SELECT id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", twice FROM t) d),
    (SELECT count(DISTINCT n) FROM t), (SELECT sum(misplaced) FROM rdma.check_distribution('t'))) $$;
SELECT same();
SELECT count(DISTINCT node) FROM rdma.check_distribution('t') WHERE rows > 1000;

-- rows that are there are updated, others inserted, by whatever is assigned and where
UPDATE news SET v = v + 1, a = '{u}' WHERE id % 2 = 0;
INSERT INTO news (id, part, v) SELECT i, 'new', i FROM generate_series(5001, 5100) i;
SELECT rdma.upsert('t', 'SELECT * FROM ups.news', ARRAY['id', 'part'], 'v = t.v + excluded.v * 2 % 7, a = excluded.a', 'excluded.id % 3 > 0');
INSERT INTO ups_here.t (id, part, v, f, b, a, j, at, c, s, "50% 'o\ff", n) SELECT *, 0 FROM news ON CONFLICT (id, part) DO UPDATE SET v = t.v + excluded.v * 2 % 7, a = excluded.a WHERE excluded.id % 3 > 0;
SELECT same();
SELECT rdma.upsert('t', 'SELECT id, part, 7 AS v FROM ups.news WHERE id < 20', '{id,part}');
UPDATE ups_here.t SET v = 7 WHERE id < 20;
SELECT same();
-- nothing but the key: who is there stays
SELECT rdma.upsert('t', $$SELECT 1 AS id, 'b''"\' AS part UNION ALL SELECT 1, 'other'$$, '{id,part}');
INSERT INTO ups_here.t (id, part, n) VALUES (1, 'other', 0);
SELECT same();
SELECT rdma.upsert('t', 'SELECT * FROM ups.news WHERE false', '{id,part}');
-- it belongs to the transaction
BEGIN;
SELECT rdma.upsert('t', 'SELECT 2 AS id, ''x'' AS part, 1 AS v FROM generate_series(1, 1)', '{id,part}');
SAVEPOINT s;
SELECT rdma.upsert('t', 'SELECT 3 AS id, ''x'' AS part, 1 AS v', '{id,part}');
SELECT count(*) FROM t WHERE part = 'x';
ROLLBACK TO s;
SELECT count(*) FROM t WHERE part = 'x';
ROLLBACK;
SELECT same();

-- copies, an ordinary table, other names there
SELECT rdma.upsert('r', 'SELECT * FROM (VALUES (2, ''deux''), (3, ''trois'')) v(x, r)', '{x}');
SELECT * FROM r ORDER BY x;
SELECT bool_or(differs) FROM rdma.check_distribution('r');
SELECT count(*) FROM rdma.run_on('ups1', 'CREATE TABLE ups.plain ("far key" int PRIMARY KEY, far text)');
CREATE FOREIGN TABLE plain (k int OPTIONS (column_name 'far key'), v text OPTIONS (column_name 'far')) SERVER ups1;
SELECT rdma.upsert('plain', 'SELECT i AS k, i::text AS v FROM generate_series(1, 5) i', '{k}');
SELECT rdma.upsert('plain', 'SELECT i AS k, ''n'' AS v FROM generate_series(4, 7) i', '{k}', 'far = plain.far || excluded.far');
SELECT * FROM plain ORDER BY k;
-- more than one statement there
SELECT rdma.upsert('plain', 'SELECT i AS k, ''m'' AS v FROM generate_series(1, 25000) i', '{k}');
SELECT count(*), min(k), max(k), count(DISTINCT v) FROM plain;

-- what is refused, and why
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part FROM generate_series(1, 2)', '{id,part}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part', '{part}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part', '{id}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part', '{id,no}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part, 2 AS twice', '{id,part}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a'' AS part, ''toolong'' AS s', '{id,part}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id', '{}')$$);
SELECT said($$SELECT rdma.upsert('t', NULL, '{id}')$$);
SELECT said($$SELECT rdma.upsert('t', 'SELECT i AS id, ''{,}'' AS part FROM generate_series(1, 20) i', '{id,part}', 'id = excluded.id + 1000')$$) LIKE '23514:%rdma_placement%';
SELECT said($$SELECT rdma.upsert('r', 'SELECT 1 AS x, ''a'' AS r', '{x}', 'r = now()::text')$$);
SELECT said($$SELECT rdma.upsert('news', 'SELECT 1 AS id', '{id}')$$);
CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER quiet BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION quiet();
SELECT said($$SELECT rdma.upsert('plain', 'SELECT 1 AS k', '{k}')$$);
CREATE ROLE regress_rdma_upsert;
GRANT USAGE ON SCHEMA ups TO regress_rdma_upsert;
GRANT SELECT, INSERT ON t TO regress_rdma_upsert;
SET ROLE regress_rdma_upsert;
SELECT said($$SELECT rdma.upsert('t', 'SELECT 1 AS id, ''a''::text AS part', '{id,part}')$$);
RESET ROLE;
SELECT same();
-- core's own
SELECT left(said('MERGE INTO t USING news ON t.id = news.id WHEN MATCHED THEN DELETE'), 40);

SET client_min_messages = warning;
DROP SERVER ups1, ups2, ups CASCADE;
DROP SCHEMA ups, ups_here CASCADE;
DROP ROLE regress_rdma_upsert;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ups CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ups CASCADE;
