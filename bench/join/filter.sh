#!/usr/bin/env bash
# filter.sh: TPC-H over several data nodes with lineitem lying anywhere, so that it has to move where it is joined, once without filters of exchanges
# (rdma_fdw.disable = exchange_filters) and once with them: CPU of all processes of the nodes, the least of interleaved rounds in one session, as other
# work on the machine only adds to it. Each query as the planner joins it (auto), and with both sides moved (rdma_fdw.exchange_strategy = repartition_both).
# Then joins of a table with keys of which 1 to 100 in a hundred are wanted. The rows must be the same with filters and without.
#
#   SF     TPC-H scale (default 0.5)       ROUNDS  default 5        NODES  data nodes (default 2)      ROWS  of the last table (default 2000000)
#   TIMEOUT  seconds that a query may take (default 60)
#   QUERIES  default "Q3 Q4 Q5 Q10 Q12 Q17 Q18 Q21"
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
sf=${SF:-0.5} rounds=${ROUNDS:-5} nodes=${NODES:-2} rows=${ROWS:-2000000} timeout=${TIMEOUT:-60}
read -ra queries <<<"${QUERIES-Q3 Q4 Q5 Q10 Q12 Q17 Q18 Q21}"
bench_begin "${DIR:-}"
bench_tpch
settings=(shared_buffers=1GB work_mem=256MB jit=off max_wal_size=8GB autovacuum=off max_parallel_workers_per_gather=0)
bench_start "$nodes" "${settings[@]}"
tables=(region nation supplier part partsupp customer orders)
declare -A key=([supplier]=s_suppkey [part]=p_partkey [partsupp]=ps_partkey [customer]=c_custkey [orders]=o_custkey)
list() { local IFS=,; echo "$*"; }

say "loading scale $sf"
for ((i = 0; i < nodes; i++)); do
	{
		echo "CREATE EXTENSION rdma_fdw; CREATE SCHEMA dist; SET search_path = dist;"
		cat "$tree/bench/tpch/schema.sql"
		# each key has ten facts, and "part" is the same for one key in a hundred
		echo "CREATE TABLE facts AS SELECT i AS id, i * 7919 % ($rows / 10) AS k, i % 100 AS v, i / 4.0::float8 AS f FROM generate_series($i::int8, $rows - 1, $nodes) i;"
		echo "CREATE TABLE keys AS SELECT k, k * 9973 % 100 AS part, k % 1000 AS w FROM generate_series($i::int8, $rows / 10 - 1, $nodes) k;"
	} | rf_psql "n$((i + 1))" -q
	"$dir/tpchgen" -s "$sf" -t lineitem -n "$nodes" -i "$i" | rf_psql "n$((i + 1))" -qc "\\copy dist.lineitem from pstdin"
done
{
	echo "CREATE EXTENSION rdma_fdw; CREATE SCHEMA dist;"
	for name in "${names[@]}"; do bench_server "s_$name" "$name"; done
	echo "CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$(list "${names[@]/#/s_}")');"
	echo "IMPORT FOREIGN SCHEMA dist FROM SERVER nodes INTO dist;"
	echo "ALTER FOREIGN TABLE dist.region OPTIONS (ADD replicated 'true'); ALTER FOREIGN TABLE dist.nation OPTIONS (ADD replicated 'true');"
	for table in "${!key[@]}"; do echo "ALTER FOREIGN TABLE dist.$table OPTIONS (ADD distributed_by '${key[$table]}');"; done
} | rf_psql coord -q
for table in "${tables[@]}"; do
	"$dir/tpchgen" -s "$sf" -t "$table" -n 1 -i 0 | rf_psql coord -qc "\\copy dist.$table from pstdin"
done
keys="$(grep '^ALTER' "$tree/bench/tpch/keys.sql" | grep -v lineitem) CREATE INDEX ON lineitem (l_partkey, l_suppkey);"
for name in "${names[@]}"; do { echo "SET search_path = dist;"; echo "$keys VACUUM (FREEZE, ANALYZE);"; } | rf_psql "$name" -q; done
rf_psql coord -qc "SET search_path = dist; ANALYZE $(list "${tables[@]}" lineitem facts keys)"

# Seconds of CPU so far of all processes of the nodes' clusters
cat >"$dir/cpu" <<X
#!/bin/sh
for parent in $(for name in "${names[@]}"; do rf_pid "$name"; done | tr '\n' ' '); do
	for pid in \$(cat /proc/\$parent/task/\$parent/children); do cat /proc/\$pid/task/*/schedstat; done
done 2>/dev/null | awk '{ sum += \$1 } END { printf "cpu %.6f\n", sum / 1e9 }'
X
chmod 755 "$dir/cpu"

query()
{
	case $1 in
		inner*) echo "SELECT count(*), sum(v), sum(f) FROM facts JOIN keys ON facts.k = keys.k WHERE part < ${1#inner};" ;;
		exists*) echo "SELECT count(*), sum(w) FROM keys WHERE EXISTS (SELECT FROM facts WHERE facts.k = keys.k AND v < 98) AND part < ${1#exists};" ;;
		*) sed -n "/^-- $1\$/,/^-- Q/{/^-- Q/d;p}" "$tree/bench/tpch/queries.sql" ;;
	esac
}

# Strategy, query and rounds; round 0 is not counted
run()
{
	{
		echo "SET search_path = dist; SET rdma_fdw.exchange_strategy = $1; SET statement_timeout = '${timeout}s'; SELECT count(*) FROM supplier;"
		for ((r = 0; r <= $3; r++)); do
			for mode in $( ((r % 2)) && echo off auto || echo auto off); do
				echo "SET rdma_fdw.disable = '$([ "$mode" = off ] && echo exchange_filters)';"
				printf '\\echo begin %s %s\n' "$mode" "$r"
				echo "\\! $dir/cpu"
				printf '\\o %s\n' "$dir/rows/$mode"
				query "$2"
				printf '\\o\n'
				echo "\\! $dir/cpu"
			done
		done
		echo "RESET rdma_fdw.disable;"
		printf 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) '
		query "$2"
	} | rf_psql coord -qAt -v ON_ERROR_STOP=0 2>&1
}

# Strategy and query: a line of the table
measure()
{
	local out=$dir/out.$1.$2 counted=$rounds
	run "$1" "$2" 0 >"$out"
	# one that takes longer is measured once, as far as it got
	! grep -q 'statement timeout' "$out" || counted=0
	[ $counted = 0 ] || run "$1" "$2" "$counted" >"$out"
	if grep '^ERROR' "$out" | grep -v 'statement timeout' >&2; then
		bad=1
	fi
	[ $counted = 0 ] || cmp -s "$dir/rows/off" "$dir/rows/auto" || { echo "$2, $1: the rows differ" >&2; bad=1; }
	awk -v name="$2" -v strategy="$1" -v first="$((counted > 0))" '
		function least(mode,   i, x) {
			for (i = 1; i <= rounds; i++)
				if (i == 1 || used[mode, i] < x) x = used[mode, i]
			return x
		}
		$1 == "begin" { mode = $2; round = $3; began = 0 }
		$1 == "cpu" { if (began) { if (round >= first) used[mode, round - first + 1] = $2 - began; rounds = round - first + 1 } else began = $2 }
		/^ *Exchange [0-9]+ on / {
			match($0, /sent rows=[0-9]+/); sent += substr($0, RSTART + 10, RLENGTH - 10)
			if (match($0, /filtered rows=[0-9]+/)) filtered += substr($0, RSTART + 14, RLENGTH - 14)
		}
		END {
			printf "%-9s  %-16s  %8.3f  %8.3f  %5.2f  %9d  %9d\n", name, strategy, least("off"), least("auto"), least("auto") / least("off"), sent, filtered
			if (!first) print "           (once; without filters, or with them, it was stopped)"
		}' "$out"
}

bad=0
install -d -m 777 "$dir/rows"
echo "TPC-H scale $sf over $nodes nodes, lineitem anywhere; facts has $rows rows. CPU seconds of all processes of the nodes; rows with filters."
printf '%-9s  %-16s  %8s  %8s  %5s  %9s  %9s\n' query strategy without with ratio sent filtered
for name in "${queries[@]}" inner1 inner10 inner50 inner100 exists1 exists10 exists50 exists100; do
	say "$name"
	measure auto "$name"
	measure repartition_both "$name"
done
exit $bad
