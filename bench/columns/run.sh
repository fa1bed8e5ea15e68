#!/usr/bin/env bash
# run.sh: what scans on columns bring, and that no statement loses by them: the statements of statements.sql and the 22 queries of TPC-H
# on one server's own tables. Processor time of all processes, without columns and
# with them in turns; serial plans. The table has the least times and their ratio, then the medians and theirs.
#
#   SF       TPC-H scale factor (default 0.1)        RUNS   rounds (default 5)
#   ONLY     e.g. "count Q1" (default all)    OUT    where the table goes (default build/bench-columns)
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
here=$tree/bench/columns
sf=${SF:-0.1} runs=${RUNS:-5} out=${OUT:-$tree/build/bench-columns} only=${ONLY:-}
mkdir -p "$out"
bench_begin "${DIR:-}"
bench_tpch
rf_start one shared_buffers=1GB work_mem=256MB jit=off max_wal_size=8GB
if ! rf_run test -e "$RF_ROOT/loaded.$sf"; then
	say "loading scale $sf"
	rf_psql one -q -c 'CREATE EXTENSION rdma_fdw' -f "$tree/bench/tpch/schema.sql"
	for table in region nation supplier part partsupp customer orders lineitem; do
		"$dir/tpchgen" -s "$sf" -t "$table" | rf_psql one -q -c "\\copy $table from pstdin"
	done
	rf_psql one -q -v rows="$(awk -v sf="$sf" 'BEGIN { printf "%d", sf * 3000000 }')" -f "$here/tables.sql" -f "$tree/bench/tpch/keys.sql"
	rf_psql one -qc 'VACUUM ANALYZE'
	rf_run touch "$RF_ROOT/loaded.$sf"
fi
measure()
{
	"$here/measure.pl" "$(rf_pid one)" "$runs" columns '' runuser -u "$RF_USER" -- "$RF_BINDIR/psql" -X -h "$RF_SOCKETS" -p "$(rf_port one)" -U postgres -qAt postgres
}
pick() { if [ -z "$only" ]; then cat; else awk -v only=" $only " '/^-- [A-Za-z0-9_]+$/ { on = index(only, " " $2 " ") } on'; fi; }
say "without columns, with columns, ratio: of the least times, of the medians"
pick <"$here/statements.sql" | measure | tee "$out/columns.txt"
pick <"$tree/bench/tpch/queries.sql" | measure | tee -a "$out/columns.txt"
