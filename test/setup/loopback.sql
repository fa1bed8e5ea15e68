-- loopback.sql: what an input begins with that compares foreign tables with local ones in one database. Set before, with ECHO none:
--   name     of the server (tbl: tbl_srv), which is this database over TCP, and of its two schemas: tbl_remote is for tables that
--            the server has, tbl_here, which is first in the search_path, for foreign tables and those that they are compared with
--   options  command-line options of the server's sessions, if any
-- Three functions are in tbl_here: same, which compares, both_ways, which writes and compares, and analyzed, which is EXPLAIN ANALYZE
-- as all versions print it.
\if :{?options}
\else
	\set options ''
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
\set server :name _srv
\set remote :name _remote
\set local :name _here
SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L%s)', :'server', current_setting('port'),
	current_database(), CASE WHEN :'options' <> '' THEN format(', options %L', :'options') END) \gexec
CREATE USER MAPPING FOR CURRENT_USER SERVER :"server" OPTIONS (user :'USER');
CREATE SCHEMA :"remote";
CREATE SCHEMA :"local";
SET search_path = :"local", public;

-- same(a, b): do two relations (or queries in parentheses) have the same rows, counted with repetitions? Texts of rows are compared,
-- so that 1.0 and 1.00 or -0 and 0 are told apart.
CREATE FUNCTION same(a text, b text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint; extra bigint; missing bigint;
BEGIN
  EXECUTE format('SELECT count(*), count(*) FILTER (WHERE n > 0), count(*) FILTER (WHERE n < 0) FROM
    (SELECT image, sum(n) AS n FROM (SELECT row_::text AS image, 1 AS n FROM %s row_ UNION ALL SELECT row_::text, -1 FROM %s row_) u GROUP BY image) v', a, b)
    INTO n, extra, missing;
  IF extra + missing = 0 THEN RETURN 'same, ' || n || ' distinct rows'; END IF;
  RETURN extra || ' rows too many, ' || missing || ' missing, of ' || n;
END $$;

-- Runs a statement with each of two tables in place of TABLE_: how many rows each wrote, and whether the tables are the same.
CREATE FUNCTION both_ways(statement text, here text DEFAULT 'l', there text DEFAULT 't') RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows_here bigint; rows_there bigint;
BEGIN
  EXECUTE replace(statement, 'TABLE_', here);
  GET DIAGNOSTICS rows_here = ROW_COUNT;
  EXECUTE replace(statement, 'TABLE_', there);
  GET DIAGNOSTICS rows_there = ROW_COUNT;
  RETURN CASE WHEN rows_here = rows_there THEN rows_here || ' rows, ' ELSE rows_here || ' rows here, ' || rows_there || ' there, ' END || same(here, there);
END $$;

-- Numbers of rows as before 18, which shows fractions.
CREATE FUNCTION analyzed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    RETURN NEXT regexp_replace(line, '(actual rows=[0-9]+)[.]00|(Transport: )(shm|tcp|verbs)', '\1\2');
  END LOOP;
END $$;
