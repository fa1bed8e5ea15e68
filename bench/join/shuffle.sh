#!/usr/bin/env bash
# shuffle.sh: rows to 2, 8 and 64 destinations, routed and encoded by bitmaps of rows kept together (what the exchange does) and one
# after the other: nanoseconds of CPU per row, medians of interleaved rounds (ROUNDS, default 15), without the query's own work.
# Strings and numerics are copied twice by bitmaps here; from a bare table scan the exchange leaves them on their pages.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
. "$tree/test/cluster.sh"
dir=$(mktemp -d /tmp/rdma_fdw_bench.XXXXXX)
trap 'rf_cleanup; rm -rf "$dir"' EXIT
chmod 755 "$dir"
RF_PREFIX=$dir/pg RF_BINDIR=$dir/pg/bin
"$tree/test/tmp_install.sh" "$RF_PREFIX" >/dev/null
make -s -C "$tree/test/modules/batch" PG_CONFIG="${PG_CONFIG:-pg_config}"
install -m 755 "$tree/test/modules/batch/batch_test.so" "$("$RF_PREFIX/bin/pg_config" --pkglibdir)/"
rf_init "$dir/clusters"
rf_start one jit=off
rf_psql one -q <<SQL
CREATE FUNCTION batch_shuffle_time(query text, keys int[], destinations int, capacity int, rounds int, OUT bitmaps float8, OUT by_row float8)
  AS '\$libdir/batch_test' LANGUAGE C STRICT;
CREATE TABLE t AS SELECT i * 7 AS k4, i::int8 * 1000003 AS k8, i % 13 AS a, i % 1000 AS b, i::int8 * 3 AS c, '2020-01-01'::date + i % 2000 AS d,
  (i % 5000 / 100.0)::numeric(12,2) AS n, 'text ' || i AS s FROM generate_series(1, 50000) i;
SELECT columns, destinations, round(bitmaps::numeric, 1) AS "bitmaps ns", round(by_row::numeric, 1) AS "by row ns", round((by_row / bitmaps)::numeric, 2) AS ratio
FROM unnest(ARRAY['k8', 'k8, b', 'k4, k8, a, b, d', 'k8, k4, a, b, c, d, k4, k8, a, b', 'k8, n', 'k8, s, d']) WITH ORDINALITY AS q (columns, place), unnest(ARRAY[2, 8, 64]) AS destinations,
  LATERAL batch_shuffle_time('SELECT ' || columns || ' FROM t', ARRAY[1], destinations, 262080, ${ROUNDS:-15}) ORDER BY place, destinations;
SQL
