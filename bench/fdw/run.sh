#!/usr/bin/env bash
# run.sh: the 22 queries of TPC-H on the tables of one data node: rdma_fdw, postgres_fdw, and local tables with the same rows.
# Interleaved runs, medians, ratios; the rows must be the same three ways.
#
#   SF       TPC-H scale (default 0.1)        RUNS   rounds (default 3)        QUERIES  e.g. "1 3 18" (default all)
#   MINUTES  fewer rounds of long queries, so that the whole ends in time (default 9)
#   TIMEOUT  a query that takes longer counts as this many seconds, and is not run again (default 15)
#   OUT      where table, CSV and plot go (default build/bench-fdw)            DIR  keep clusters and data there
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
sf=${SF:-0.1} runs=${RUNS:-3} timeout=${TIMEOUT:-15} out=${OUT:-$tree/build/bench-fdw}
read -ra queries <<<"${QUERIES:-$(seq -s ' ' 1 22)}"
mkdir -p "$out"
raw=$out/raw.csv
bench_begin "${DIR:-}"
bench_tpch
settings=(shared_buffers="$(awk -v sf="$sf" 'BEGIN { printf "%dMB", 128 + sf * 2048 }')" work_mem=64MB jit=off max_wal_size=8GB)
say "starting clusters"
rf_start n1 "${settings[@]}"
rf_start coord "${settings[@]}"
tables="region, nation, supplier, part, partsupp, customer, orders, lineitem"

load()
{
	local table
	rf_sql "$1" "CREATE SCHEMA local; CREATE EXTENSION rdma_fdw" >/dev/null
	{ echo "SET search_path = local;"; cat "$tree/bench/tpch/schema.sql"; } | rf_psql "$1" -q
	for table in ${tables//,/}; do
		"$dir/tpchgen" -s "$sf" -t "$table" -n 1 -i 0 | rf_psql "$1" -q -c "\\copy local.$table from pstdin"
	done
	{ echo "SET search_path = local;"; cat "$tree/bench/tpch/keys.sql"; } | rf_psql "$1" -q
	# the index that Q17 and Q20 take minutes without, wherever the tables are
	rf_psql "$1" -qc "CREATE INDEX ON local.lineitem (l_partkey, l_suppkey)"
	rf_psql "$1" -qc "VACUUM (FREEZE, ANALYZE)"
}
if ! rf_run test -e "$RF_ROOT/loaded.$sf"; then
	say "loading scale $sf"
	load n1 &
	load coord
	wait $!
	rf_sql coord "CREATE EXTENSION postgres_fdw" >/dev/null
	rf_run touch "$RF_ROOT/loaded.$sf"
fi
for wrapper in rdma_fdw postgres_fdw; do
	options=
	[ $wrapper = rdma_fdw ] || options="fetch_size '10000'"
	rf_psql coord -q <<-SQL
		SET client_min_messages = warning;
		DROP SERVER IF EXISTS by_$wrapper CASCADE;
		DROP SCHEMA IF EXISTS by_$wrapper CASCADE;
		$(bench_server by_$wrapper n1 $wrapper "$options")
		CREATE SCHEMA by_$wrapper;
		IMPORT FOREIGN SCHEMA local FROM SERVER by_$wrapper INTO by_$wrapper;
		SET search_path = by_$wrapper;
		ANALYZE $tables;
	SQL
done

query() { sed -n "/^-- Q$1\$/,/^-- Q/{/^-- Q/d;p}" "$tree/bench/tpch/queries.sql"; }

# one CASE QUERY: runs it once in a new session after a look at a small table (which connects), prints milliseconds
one()
{
	local case=$1 number=$2 rows=$dir/rows.$1
	if [ -e "$dir/late.$case.$number" ]; then
		printf '%d\n' $((timeout * 1000))
		return
	fi
	{
		printf "SET statement_timeout = '%ss';\nSET search_path = %s;\nSELECT count(*) FROM region;\n\\\\timing on\n" "$timeout" "$case"
		query "$number"
	} | rf_psql coord -qAt -v ON_ERROR_STOP=0 >"$rows" 2>&1
	if grep -q 'statement timeout' "$rows"; then
		touch "$dir/late.$case.$number"
		printf '%d\n' $((timeout * 1000))
	else
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$rows"
	fi
	sed -i -e 1d -e '/^Time: /d' "$rows"
}

echo "query,case,ms" >"$raw"
cases=(by_rdma_fdw by_postgres_fdw local)
bad=0
left=${#queries[@]}
rm -f "$dir"/late.*
for number in "${queries[@]}"; do
	say "Q$number, $left left"
	step_of $((left--))
	for ((round = 0; ; round++)); do
		another_round $round "$runs" || break
		for i in 0 1 2; do
			case=${cases[(i + round) % 3]}
			ms=$(one "$case" "$number")
			# the first round warms up and is not counted
			[ $round = 0 ] || echo "$number,$case,$ms" >>"$raw"
		done
		[ $round = 0 ] || continue
		for case in by_rdma_fdw by_postgres_fdw; do
			bench_same "Q$number" "$case" local || bad=1
		done
	done
done
say "done"
"$tree/bench/fdw/report.pl" "$out" "$sf" "$timeout" | tee "$out/fdw.txt"
bench_plot fdw "$tree/bench/fdw/plot.gp"
exit $bad
