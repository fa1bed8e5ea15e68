-- Columns that have other types on the data node than here: literals that they are compared with are taken as what they are there.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER types_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER types_srv OPTIONS (user :'USER');
CREATE SCHEMA here;
CREATE TYPE here.colour AS ENUM ('red', 'green', 'blue');
CREATE TABLE here.t (id int, e here.colour, u uuid, d date, n numeric, i int, ip inet, v varchar(9), b bytea, ts timestamp);
INSERT INTO here.t VALUES (1, 'red', 'c4ca4238-a0b9-2382-0dcc-509a6f75849b', '2020-01-02', 1.5, 7, '10.0.0.1', 'x\', '\x01', '2020-01-02 03:04:05'),
  (2, 'green', NULL, '2020-02-03', 2, 8, '10.0.0.2/8', 'y', NULL, NULL), (3, NULL, 'c81e728d-9d4c-2f63-6f06-7f89cc14862c', NULL, NULL, NULL, NULL, NULL, '\x02', NULL);
CREATE FOREIGN TABLE t (id int, e text, u text, d text, n text, i text, ip text, v text, b text, ts text)
  SERVER types_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE vt (id int, e varchar(20), d varchar, ts timestamptz, v varchar(9)) SERVER types_srv OPTIONS (schema_name 'here', table_name 't');
\pset format unaligned
\pset tuples_only on
-- prints the condition that goes there, and the ids
CREATE FUNCTION found(condition text, tab text DEFAULT 't') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; ids int[];
BEGIN
  FOR line IN EXECUTE format('EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM %s WHERE %s', tab, condition) LOOP
    IF line ~ 'Remote SQL' THEN
      RETURN NEXT coalesce(substring(line, 'WHERE .*'), 'nothing');
    END IF;
  END LOOP;
  EXECUTE format('SELECT array_agg(id ORDER BY id) FROM %s WHERE %s', tab, condition) INTO ids;
  RETURN NEXT ids;
END $$;
SELECT found($$e = 'red'$$);
SELECT found($$'red' <> e$$);
SELECT found($$e IN ('red', 'blue')$$);
SELECT found($$e NOT IN ('red', 'blue')$$);
SELECT found($$e IS DISTINCT FROM 'red'$$);
SELECT found($$u = 'c4ca4238-a0b9-2382-0dcc-509a6f75849b'$$);
SELECT found($$d = '2020-01-02'$$);
SELECT found($$d BETWEEN '2020-01-01' AND '2020-01-31'$$);
SELECT found($$n = '1.50'$$);
SELECT found($$i = '7' OR i = '08'$$);
SELECT found($$ip = '10.0.0.1'$$);
SELECT found($$v = 'x\'$$);
SELECT found($$b = '\x01'$$);
SELECT found($$e = 'red'$$, 'vt');
SELECT found($$d = '2020-01-02' AND v = 'x\'$$, 'vt');
SELECT found($$ts > '2020-01-01 00:00+00'$$, 'vt');
UPDATE t SET v = 'z' WHERE e = 'green' RETURNING id, v;
DELETE FROM t WHERE d = '2020-02-03' RETURNING id;
-- not what is there, which it says
SELECT count(*) FROM t WHERE e = 'yellow';
-- where the type is needed to find the operator, and with an explicit collation, the literal keeps it
CREATE TABLE here.a (id int, j jsonb, ia int[], t text);
INSERT INTO here.a VALUES (1, '{"a": 1, "b": 2}', '{1,2}', 'a');
CREATE FOREIGN TABLE a (id int, j jsonb, ia int[], t text) SERVER types_srv OPTIONS (schema_name 'here');
SELECT found($$j - 'a' = '{"b": 2}'$$, 'a');
SELECT found($$ia || 3 = '{1,2,3}' AND ia || '{4}' = '{1,2,4}'$$, 'a');
SELECT found($$t < 'B' COLLATE "C" OR t = 'a' COLLATE "C"$$, 'a');
-- what a sub-select or an exchange gives has the type that it has here
SELECT q.e, q.n FROM (SELECT e, count(*) AS n FROM t GROUP BY e OFFSET 0) q WHERE q.e = 'red';
-- in a sub-select, a column of the query around it
SELECT found($$ARRAY(SELECT CASE WHEN t.e IN ('red') THEN a.id END FROM a) = ARRAY[1]$$);

SET client_min_messages = warning;
DROP SERVER types_srv CASCADE;
DROP SCHEMA here CASCADE;
DROP FUNCTION found;
