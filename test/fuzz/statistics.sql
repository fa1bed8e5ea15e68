-- Statistics of a node, changed at random: rdma.import_statistics takes or refuses them, and the planner uses what was taken. Statements are
-- refused with an SQLSTATE of their own; an internal error (XX000) is a defect, as is a crash. statistics.sh runs this on a cluster that has
-- the node in another database; there pg_stats shows what is in the table lies.
CREATE SERVER node FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'port', dbname 'node', sslmode 'disable', gssencmode 'disable');
CREATE USER MAPPING FOR CURRENT_USER SERVER node OPTIONS (user 'postgres');
CREATE TYPE mood AS ENUM ('bad', 'fair', 'good');
CREATE FOREIGN TABLE t (i int, b bigint, n numeric, f float8, s text, c varchar(5), d date, ts timestamptz, bo bool, u uuid, m mood, ia int[], sa text[], v tsvector, r int4range, j jsonb, o oid, x bytea, na name) SERVER node;
CREATE FOREIGN TABLE lies (attname text, null_frac text, avg_width text, n_distinct text, most_common_vals text, most_common_freqs text, histogram_bounds text, correlation text, most_common_elems text, most_common_elem_freqs text, elem_count_histogram text) SERVER node;
CREATE FOREIGN TABLE honest (attname text, null_frac text, avg_width text, n_distinct text, most_common_vals text, most_common_freqs text, histogram_bounds text, correlation text, most_common_elems text, most_common_elem_freqs text, elem_count_histogram text) SERVER node;
CREATE TABLE seeds AS SELECT * FROM honest;

-- A text with some pieces replaced, inserted, doubled or taken out, or another text.
CREATE FUNCTION changed(value text, often float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  pieces CONSTANT text[] := ARRAY['{', '}', ',', '"', '\', '''', 'NULL', 'NaN', 'Infinity', '-1', '0', '1', '2', '1e38', '1e-45', '1e400', '0.5', '2147483648', '-9223372036854775808', '[', ']', '[2:3]=', '[-2147483648:-2147483647]=', ' ', 'é', E'\x01', '%s', '1,2', '{1}', '0.5,0.4', '{}', 'bad', 'infinity', '(1,2)'];
  at int;
BEGIN
  IF random() > often THEN
    RETURN value;
  ELSIF random() < 0.05 THEN
    RETURN NULL;
  ELSIF random() < 0.1 OR value IS NULL THEN
    RETURN '{' || (SELECT string_agg(pieces[1 + floor(random() * cardinality(pieces))], ',') FROM generate_series(1, 1 + floor(random() * CASE WHEN random() < 0.05 THEN 3000 ELSE 5 END)::int)) || '}';
  END IF;
  FOR i IN 1 .. 1 + floor(random() * 3) LOOP
    at := 1 + floor(random() * (length(value) + 1));
    value := CASE floor(random() * 4) WHEN 0 THEN overlay(value PLACING pieces[1 + floor(random() * cardinality(pieces))] FROM at FOR floor(random() * 3)::int)
      WHEN 1 THEN left(value, at) || substr(value, at + 1 + floor(random() * 4)::int) WHEN 2 THEN left(value, at) || substr(value, greatest(at - floor(random() * 12)::int, 1))
      ELSE regexp_replace(value, '[0-9]', floor(random() * 10)::text) END;
  END LOOP;
  RETURN value;
END $$;

CREATE FUNCTION asked() RETURNS text[] LANGUAGE sql AS $$
  SELECT ARRAY['i = 3', 'i < 50', 'i IN (1, 2, 3)', 'b BETWEEN 1 AND 9', 'n > 1.5', 'n IS NULL', 'f < 0.3', 's = ''a''', 's LIKE ''a%''', 's > ''m''', 'c <> ''x''', 'd < ''2020-01-01''', 'ts > now()', 'bo', 'NOT bo', 'u > ''80000000-0000-0000-0000-000000000000''', 'm = ''good''',
    'm > ''bad''', 'ia @> ''{1}''', 'ia && ''{1,2,3}''', '5 = ANY (ia)', 'ia <@ ''{1,2,3,4,5}''', 'sa @> ''{a}''', 'v @@ ''a & b''::tsquery', 'v @@ ''a:*''::tsquery', 'r && ''[1,5)''', 'r @> 4', 'r << ''[7,9)''', 'j @> ''{"a":1}''', 'o = 16384', 'x > ''\x01''', 'na = ''a''', 'i <> ALL (ARRAY[1, 2])'] $$;

-- How many statistics were taken. An internal error is raised on.
CREATE FUNCTION fuzz_statistics(count int, seed int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  taken bigint := 0;
  conditions CONSTANT text[] := asked();
  told text;
BEGIN
  PERFORM setseed(seed / 1000000.0);
  FOR i IN 1 .. count LOOP
    DELETE FROM lies;
    INSERT INTO lies SELECT CASE WHEN random() < 0.02 THEN (SELECT s.attname FROM seeds s ORDER BY random() LIMIT 1) ELSE attname END, changed(null_frac, 0.01), changed(avg_width, 0.01), changed(n_distinct, 0.01), changed(most_common_vals, 0.08), changed(most_common_freqs, 0.08),
      changed(histogram_bounds, 0.08), changed(correlation, 0.05), changed(most_common_elems, 0.08), changed(most_common_elem_freqs, 0.08), changed(elem_count_histogram, 0.08) FROM seeds ORDER BY random() LIMIT 4;
    SELECT string_agg(l::text, E'\n') INTO told FROM lies l;
    BEGIN
      taken := taken + coalesce(rdma.import_statistics('t'), 0);
    EXCEPTION WHEN OTHERS THEN
      IF SQLSTATE = 'XX000' THEN RAISE EXCEPTION 'statistics: % of: %', SQLERRM, told; END IF;
    END;
    BEGIN
      FOR n IN 1 .. 6 LOOP
        EXECUTE 'EXPLAIN SELECT count(*) FROM t WHERE ' || conditions[1 + floor(random() * cardinality(conditions))] || ' AND ' || conditions[1 + floor(random() * cardinality(conditions))];
      END LOOP;
      EXECUTE 'EXPLAIN SELECT 1 FROM t a JOIN t b USING (i, s) JOIN t c ON a.n = c.n AND a.m = c.m WHERE a.ia && b.ia GROUP BY a.d, a.s';
    EXCEPTION WHEN OTHERS THEN
      RAISE EXCEPTION 'planning: % of: %', SQLERRM, told;
    END;
  END LOOP;
  RETURN taken;
END $$;
