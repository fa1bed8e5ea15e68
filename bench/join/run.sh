#!/usr/bin/env bash
# run.sh: joins and TPC-H over several data nodes, orders by customer and lineitem by order, so that they are not co-located:
# rdma_fdw (server with nodes), the same tables on one node (serial, 2 parallel workers), and postgres_fdw at its best
# (hash partitions on the nodes, async, partitionwise). Interleaved runs, medians, ratios; the rows must be the same everywhere.
# Each run has a new session, which runs the query twice: the first time it also meets its tables, caches and memory.
#
#   SF       TPC-H scale (default 1)          RUNS   rounds (default 3)        NODES  data nodes (default 2)
#   QUERIES  e.g. "J1 J2 C1 U1 Q3" (default J1 J2 C1 U1 and all 22); C1 is J1 over orders stored by order key, so co-located,
#            U1 with all orders on the first node and all line items on the second
#   RIVALS   queries that postgres_fdw runs, too (default "J1 J2")
#   MINUTES  fewer rounds of long queries, so that the whole ends in time (default 9)
#   TIMEOUT  a query that takes longer counts as this many seconds, and is not run again (default 60)
#   OUT      where table, TSV, plot and plans go (default build/bench-join)    DIR  keep clusters and data there
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
sf=${SF:-1} runs=${RUNS:-3} nodes=${NODES:-2} timeout=${TIMEOUT:-60} out=${OUT:-$tree/build/bench-join}
read -ra queries <<<"${QUERIES:-J1 J2 C1 U1 $(seq -f Q%g -s ' ' 1 22)}"
rivals=" ${RIVALS-J1 J2} "
mkdir -p "$out"
raw=$out/raw.csv
more=()
. "$tree/bench/join/load.sh" "${DIR:-}"

session()
{
	echo "SET statement_timeout = '${timeout}s';"
	case $1 in
		serial) echo "SET search_path = local; SET max_parallel_workers_per_gather = 0;" ;;
		parallel) echo "SET search_path = local; SET max_parallel_workers_per_gather = 2;" ;;
		rdma) echo "SET search_path = $([ "$2" = U1 ] && echo apart, )dist;" ;;
		rival) echo "SET search_path = rival; SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;" ;;
	esac
}

echo "query,case,first,last,cpu_ms" >"$raw"
bad=0
again=1
left=${#queries[@]}
rm -f "$dir"/late.*
for number in "${queries[@]}"; do
	say "$number, $left left"
	step_of $((left--))
	cases=(rdma serial parallel)
	[[ $rivals != *" $number "* ]] || cases+=(rival)
	{ session rdma "$number"; printf 'EXPLAIN (COSTS OFF)\n'; query "$number" rdma; } | rf_psql coord -qAt >"$out/plan.$number.txt" 2>&1 || true
	for ((round = 0; ; round++)); do
		another_round $round "$runs" || break
		for ((i = 0; i < ${#cases[@]}; i++)); do
			case=${cases[(i + round) % ${#cases[@]}]}
			cpu=$(bench_cpu coord "${names[@]}")
			ms=$(bench_once "$case" "$number" supplier)
			# the first round warms up and is not counted
			[ $round = 0 ] || echo "$number,$case,$ms,$((($(bench_cpu coord "${names[@]}") - cpu) / (again + 1)))" >>"$raw"
		done
		for case in "${cases[@]}"; do
			bench_same "$number" "$case" serial || bad=1
		done
	done
done
say "done"
"$tree/bench/join/report.pl" "$out" "$sf" "$nodes" "$timeout" | tee "$out/join.txt"
bench_plot join "$tree/bench/join/plot.gp" "TPC-H scale $sf over $nodes data nodes"
exit $bad
