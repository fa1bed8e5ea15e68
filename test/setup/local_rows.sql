\set ECHO none
-- local_rows.sql: tables of the coordinator, in lr_here, and tables of the nodes, which are also in lr_here, to compare with; foreign
-- tables and views of all of them in lr, for lr.planned. To be included after two_nodes.sql with name lr and third lr_third.
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
