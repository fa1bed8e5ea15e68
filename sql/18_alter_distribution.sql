-- rdma.alter_distribution: another key, copies and back, with what the table has; or nothing changes.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name alt
\i :two_nodes
CREATE ROLE regress_rdma_alter;
CREATE TABLE "T 1" (id int, x int NOT NULL, v text DEFAULT 'v', twice int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id, x), CHECK (x > 0));
CREATE INDEX by_v ON "T 1" (v);
GRANT SELECT ON "T 1" TO regress_rdma_alter;
COMMENT ON TABLE "T 1" IS 'a table';
INSERT INTO "T 1" SELECT i, 1 + i % 50, 'v' || i FROM generate_series(1, 2000) i;
GRANT USAGE ON SCHEMA alt TO regress_rdma_alter;
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
SELECT rdma.distribute_table('"T 1"', 'alt', 'id');
CREATE FUNCTION state() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ', (SELECT concat_ws(' ', placement, distributed_by, propagate_ddl) FROM rdma.tables WHERE server = 'alt'), (SELECT concat_ws(' ', count(*), sum(id), sum(x), count(DISTINCT v), sum(twice)) FROM "T 1"),
    (SELECT concat_ws(' ', count(*) FILTER (WHERE rows > 0), sum(misplaced), bool_or(differs)) FROM rdma.check_distribution('"T 1"')), (SELECT count(*) FROM generate_series(1, 50) g, LATERAL (SELECT FROM "T 1" WHERE x = g OFFSET 0) t)) $$;
SELECT state();
SELECT rdma.alter_distribution('"T 1"', 'x');
SELECT state();
SELECT rdma.alter_distribution('"T 1"', 'x, id');
SELECT state();
SELECT rdma.alter_distribution('"T 1"', replicated => true);
SELECT state();
BEGIN;
SELECT rdma.alter_distribution('"T 1"', 'id');
SELECT state();
ROLLBACK;
SELECT state();
SELECT rdma.alter_distribution('"T 1"', 'id');
SELECT state();
-- what it has is there
SELECT obj_description('"T 1"'::regclass), has_table_privilege('regress_rdma_alter', '"T 1"', 'SELECT');
SELECT node, string_agg(answer, ', ') FROM (SELECT node, answer FROM rdma.run_on('alt', $$SELECT string_agg(indexdef, '; ' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'alt'$$)) i GROUP BY node ORDER BY node;
INSERT INTO "T 1" (id, x) VALUES (3000, 1) RETURNING *;
SELECT said('INSERT INTO "T 1" (id, x) VALUES (3000, 1)');
SELECT said('INSERT INTO "T 1" (id, x) VALUES (3001, -1)');
DELETE FROM "T 1" WHERE id = 3000;
-- what cannot be, changes nothing
SELECT count(*) FROM rdma.run_on('alt', 'CREATE UNIQUE INDEX once ON alt."T 1" (id)');
SELECT said($$SELECT rdma.alter_distribution('"T 1"', 'x')$$);
SELECT state();
SELECT said($$SELECT rdma.alter_distribution('"T 1"', 'no')$$);
SELECT said($$SELECT rdma.alter_distribution('"T 1"')$$);
SELECT said($$SELECT rdma.alter_distribution('"T 1"', 'id', true)$$);
SELECT said($$SELECT rdma.alter_distribution('pg_class', 'oid')$$);
CREATE MATERIALIZED VIEW above AS SELECT id FROM "T 1";
SELECT said($$SELECT rdma.alter_distribution('"T 1"', 'x')$$);
DROP MATERIALIZED VIEW above;
SET ROLE regress_rdma_alter;
SELECT said($$SELECT rdma.alter_distribution('alt."T 1"', 'x')$$);
RESET ROLE;
SELECT state();

SET client_min_messages = warning;
DROP SERVER alt1, alt2, alt CASCADE;
DROP SCHEMA alt CASCADE;
DROP ROLE regress_rdma_alter;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA alt CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA alt CASCADE;
