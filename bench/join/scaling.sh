#!/usr/bin/env bash
# scaling.sh: the join of orders and line items (J1; U1 with all orders on one node and all line items on another) and TPC-H over several data
# nodes with more and more parallel workers on each, to one node with as many on its own. All are on one machine, so a node starts no more
# workers than its share of the processors, less one; what this shows ends where processors do.
# Each case of a query is one session, which runs it twice; the second time counts, and a case's rows must be those of the others. Tables of
# 64 kB are worth workers here, so that all that a case allows are started.
#
#   SF       TPC-H scale (default 1)         WORKERS  "1 2 4 8"; one node also gets none and, as all nodes together have, NODES times the most
#   NODES    data nodes (default 2)          QUERIES  default J1 U1 and all 22
#   RUNS     rounds (default 1)              MINUTES  fewer rounds, so that the whole ends in time (default 9)
#   TIMEOUT  seconds (default 60)            OUT      default build/bench-scaling        DIR  keep clusters and data there
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
sf=${SF:-1} nodes=${NODES:-2} runs=${RUNS:-1} timeout=${TIMEOUT:-60} out=${OUT:-$tree/build/bench-scaling}
read -ra queries <<<"${QUERIES:-J1 U1 $(seq -f Q%g -s ' ' 1 22)}"
read -ra workers <<<"${WORKERS:-1 2 4 8}"
most=$((workers[-1] * nodes))
mkdir -p "$out"
raw=$out/raw.csv
more=(max_worker_processes=$((3 * most + 16)) max_parallel_workers=$((2 * most)) min_parallel_table_scan_size=64kB min_parallel_index_scan_size=64kB)
. "$tree/bench/join/load.sh" "${DIR:-}"

cases=(node0)
for w in "${workers[@]}"; do cases+=("node$w" "rdma$w"); done
cases+=("node$most")

session()
{
	echo "SET statement_timeout = '${timeout}s'; SET max_parallel_workers_per_gather = ${1#????};"
	case $1 in
		node*) echo "SET search_path = local;" ;;
		rdma*) echo "SET search_path = $([ "$2" = U1 ] && echo apart, )dist;" ;;
	esac
}

# Sessions of data nodes have their own settings.
nodes_get()
{
	local name
	for name in "${names[@]}"; do rf_psql "$name" -qc "ALTER ROLE postgres SET max_parallel_workers_per_gather = $1"; done
}

echo "query,case,first,last,cpu_ms" >"$raw"
bad=0
again=1
left=${#queries[@]}
rm -f "$dir"/late.*
for number in "${queries[@]}"; do
	say "$number, $left left"
	step_of $((left--))
	for ((round = 1; ; round++)); do
		another_round $round "$runs" || break
		for case in "${cases[@]}"; do
			[[ $case != rdma* ]] || nodes_get "${case#rdma}"
			cpu=$(bench_cpu coord "${names[@]}")
			ms=$(bench_once "$case" "$number" supplier)
			echo "$number,$case,$ms,$((($(bench_cpu coord "${names[@]}") - cpu) / (again + 1)))" >>"$raw"
			bench_same "$number" "$case" node0 || bad=1
		done
	done
done
say "done"
"$tree/bench/join/scaling.pl" "$out" "$sf" "$nodes" "${workers[*]}" | tee "$out/scaling.txt"
bench_plot scaling "$tree/bench/join/scaling.gp" "TPC-H scale $sf over $nodes data nodes on one machine"
exit $bad
