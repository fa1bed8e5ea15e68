#!/usr/bin/env bash
# shuffle.sh: rows to 2, 8 and 64 destinations, kept together, divided and encoded column by column (what the exchange's producer does) and
# routed one after the other (what it did before): millions of rows per second of CPU, medians of interleaved rounds (ROUNDS, default 9).
#   scan    the producer over a table: scanning it is a part of both
#   values  routing alone, of values as they come out of a join or an expression, which have to be copied to be kept
# k4, a, b, e: int4; k8, c, g: int8; f: float8; d, h: date; n, n2: numeric; s, l: text of 11 and about 100 bytes. "reached" is at least 1.2.
# Then pick.c: fixed-width columns by list and by bitmap, without PostgreSQL.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
bench_begin
make -s -C "$tree/test/modules/batch" PG_CONFIG="${PG_CONFIG:-pg_config}"
install -m 755 "$tree/test/modules/batch/batch_test.so" "$("$RF_PREFIX/bin/pg_config" --pkglibdir)/"
rf_start one jit=off
rf_psql one -q <<SQL
CREATE FUNCTION batch_shuffle_time(query text, keys int[], destinations int, capacity int, rounds int, scan bool, OUT together float8, OUT by_row float8)
  AS '\$libdir/batch_test' LANGUAGE C STRICT;
CREATE TABLE fixed AS SELECT i * 7 AS k4, i::int8 * 1000003 AS k8, i % 13 AS a, i % 1000 AS b, i::int8 * 3 AS c, '2020-01-01'::date + i % 2000 AS d,
  i % 17 AS e, i / 8.0::float8 AS f, i::int8 AS g, '2020-01-01'::date + i % 100 AS h FROM generate_series(1, 50000) i;
CREATE TABLE variable AS SELECT i::int8 * 1000003 AS k8, '2020-01-01'::date + i % 2000 AS d, (i % 5000 / 100.0)::numeric(12,2) AS n, 'text ' || i AS s,
  (i % 700 / 10.0)::numeric(12,2) AS n2, repeat('l', 60 + i * 7 % 66) AS l FROM generate_series(1, 50000) i;
VACUUM ANALYZE;
SET max_parallel_workers_per_gather = 0;
SELECT columns, CASE WHEN scan THEN 'scan' ELSE 'values' END AS rows, destinations, round(1e3 / together::numeric, 1) AS "together M/s",
  round(1e3 / by_row::numeric, 1) AS "by row M/s", round((by_row / together)::numeric, 2) AS ratio, CASE WHEN by_row >= 1.2 * together THEN 'yes' ELSE 'NO' END AS reached
FROM unnest(ARRAY['k8, b', 'k4, k8, a, b, d', 'k8, k4, a, b, c, d, e, f, g, h', 'k8, n', 'k8, s, d', 'k8, l', 'k8, n, s, n2, d, l']) WITH ORDINALITY AS q (columns, place),
  unnest(ARRAY[true, false]) AS scan, unnest(ARRAY[2, 8, 64]) AS destinations,
  LATERAL batch_shuffle_time('SELECT ' || columns || ' FROM ' || CASE WHEN place <= 3 THEN 'fixed' ELSE 'variable' END, ARRAY[1], destinations, 262080, ${ROUNDS:-9}, scan)
ORDER BY scan DESC, place, destinations;
SQL
cc -O2 -fno-strict-aliasing -I"$tree/include" -I"$tree/src" -I"$tree/bench/region" "$tree/bench/join/pick.c" "$tree/bench/region/ncr_mask.c" -o "$dir/pick"
"$dir/pick"
