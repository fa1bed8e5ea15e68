-- The node of statistics.sql: honest statistics of a table, and pg_stats that shows others.
CREATE TYPE mood AS ENUM ('bad', 'fair', 'good');
CREATE TABLE t AS SELECT g % 100 AS i, g::bigint * g AS b, g / 7.0 AS n, g / 1000.0::float8 AS f, chr(97 + g % 26) || g % 40 AS s, (g % 9)::varchar(5) AS c, date '2010-01-01' + g AS d, timestamptz '2020-01-01 00:00+00' + g * interval '1 hour' AS ts, g % 3 = 0 AS bo, md5(g::text)::uuid AS u,
  (ARRAY['bad', 'fair', 'good'])[1 + g % 3]::mood AS m, ARRAY[g % 5, g % 7] AS ia, ARRAY[chr(97 + g % 5), 'x'] AS sa, to_tsvector('simple', chr(97 + g % 9) || ' b') AS v, int4range(g % 50, g % 50 + 5) AS r, jsonb_build_object('a', g % 4) AS j, (16000 + g % 500)::oid AS o, decode(to_hex(256 + g % 90), 'escape') AS x, ('n' || g % 30)::name AS na
  FROM generate_series(1, 1000) g;
ANALYZE t;
CREATE TABLE honest AS SELECT attname::text, null_frac::text, avg_width::text, n_distinct::text, most_common_vals::text, most_common_freqs::text, histogram_bounds::text, correlation::text, most_common_elems::text, most_common_elem_freqs::text, elem_count_histogram::text
  FROM pg_stats WHERE tablename = 't';
CREATE TABLE lies (LIKE honest);
SET allow_system_table_mods = on;
ALTER VIEW pg_catalog.pg_stats RENAME TO pg_true_stats;
CREATE VIEW pg_catalog.pg_stats AS SELECT 'public'::text AS schemaname, 't'::text AS tablename, false AS inherited, l.* FROM public.lies l;
GRANT SELECT ON pg_catalog.pg_stats TO PUBLIC;
