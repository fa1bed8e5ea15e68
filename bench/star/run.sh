#!/usr/bin/env bash
# run.sh: star and snowflake queries over several data nodes: a retailer's three channels (schema.sql), facts by their ticket or
# order, so that no join with an item or a customer is co-located. rdma_fdw (server with nodes) and the same tables on one node
# (serial). Interleaved runs, medians, ratios; the rows must be the same in both. Each run has a new session, which runs the query
# eight times: the first time it meets its tables and caches, the last three times its plans are what they stay.
#
#   SCALE    rows (default 1: 500,000 lines in shops)    RUNS  rounds (default 3)      NODES  data nodes (default 2)
#   QUERIES  e.g. "S1 S40" (default all forty)
#   MINUTES  fewer rounds of long queries, so that the whole ends in time (default 9)
#   TIMEOUT  a query that takes longer counts as this many seconds, and is not run again (default 60)
#   OUT      where table, TSV, plot and plans go (default build/bench-star)    DIR  keep clusters and data there
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
here=$tree/bench/star
scale=${SCALE:-1} runs=${RUNS:-3} nodes=${NODES:-2} timeout=${TIMEOUT:-60} out=${OUT:-$tree/build/bench-star}
read -ra queries <<<"${QUERIES:-$(seq -f S%g -s ' ' 1 40)}"
mkdir -p "$out"
raw=$out/raw.csv
bench_begin "${DIR:-}"
settings=(shared_buffers="$(awk -v scale="$scale" 'BEGIN { printf "%dMB", 128 + scale * 512 }')" work_mem=256MB jit=off max_wal_size=8GB)
bench_start "$nodes" "${settings[@]}"

declare -A key=([shop_sale]=ss_ticket [shop_return]=sr_ticket [web_sale]=ws_order [web_return]=wr_order [mail_sale]=ms_order
	[mail_return]=mr_order [stock]=st_item [item]=i_id [customer]=c_id [address]=a_id)
small=(day minute household demographics income_band promotion shop warehouse site page call_centre catalogue_page shipping reason)
list() { local IFS=,; echo "$*"; }

if ! rf_run test -e "$RF_ROOT/loaded.$scale.$nodes"; then
	say "loading scale $scale"
	for name in "${names[@]}"; do
		{ echo "CREATE EXTENSION rdma_fdw; CREATE SCHEMA dist; SET search_path = dist;"; cat "$here/schema.sql"; } | rf_psql "$name" -q
	done
	{
		echo "CREATE EXTENSION rdma_fdw; CREATE SCHEMA dist; CREATE SCHEMA local; SET search_path = local;"
		cat "$here/schema.sql" "$here/data.sql" "$here/keys.sql"
	} | rf_psql coord -qAt -v scale="$scale"
	say "  local tables"
	{
		for name in "${names[@]}"; do bench_server "$name" "$name"; done
		echo "CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$(list "${names[@]}")');"
		echo "IMPORT FOREIGN SCHEMA dist FROM SERVER nodes INTO dist;"
		for table in "${small[@]}"; do echo "ALTER FOREIGN TABLE dist.$table OPTIONS (ADD replicated 'true');"; done
		for table in "${!key[@]}"; do echo "ALTER FOREIGN TABLE dist.$table OPTIONS (ADD distributed_by '${key[$table]}');"; done
		for table in "${small[@]}" "${!key[@]}"; do echo "INSERT INTO dist.$table SELECT * FROM local.$table;"; done
	} | rf_psql coord -q
	say "  distributed tables"
	for name in "${names[@]}"; do
		{ echo "SET search_path = dist;"; cat "$here/keys.sql"; } | rf_psql "$name" -q
	done
	rf_psql coord -qc "SET search_path = dist; ANALYZE $(list "${small[@]}" "${!key[@]}")"
	rf_run touch "$RF_ROOT/loaded.$scale.$nodes"
else
	# the clusters have other ports now
	for name in "${names[@]}"; do
		rf_psql coord -qc "ALTER SERVER $name OPTIONS (SET port '$(rf_port "$name")')"
	done
fi

query() { sed -n "/^-- $1\$/,/;\$/p" "$here/queries.sql"; }

session()
{
	echo "SET statement_timeout = '${timeout}s';"
	case $1 in
		serial) echo "SET search_path = local; SET max_parallel_workers_per_gather = 0;" ;;
		rdma) echo "SET search_path = dist;" ;;
	esac
}

echo "query,case,first,last" >"$raw"
bad=0
left=${#queries[@]}
rm -f "$dir"/late.*
cases=(rdma serial)
again=7
for number in "${queries[@]}"; do
	say "$number, $left left"
	step_of $((left--))
	# What each Foreign Scan brought is in this plan.
	{ session rdma; printf 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF)\n'; query "$number"; } |
		rf_psql coord -qAt >"$out/plan.$number.txt" 2>&1 || true
	for ((round = 0; ; round++)); do
		another_round $round "$runs" || break
		for ((i = 0; i < ${#cases[@]}; i++)); do
			case=${cases[(i + round) % ${#cases[@]}]}
			ms=$(bench_once "$case" "$number" item)
			# the first round warms up and is not counted
			[ $round = 0 ] || echo "$number,$case,$ms" >>"$raw"
		done
		if grep -q '^[^ ]*ERROR: ' "$dir/rows.serial" && ! grep -q 'statement timeout' "$dir/rows.serial"; then
			echo "$number: does not run on the local tables" >&2
			head -3 "$dir/rows.serial" >&2
			bad=1
		elif ! bench_same "$number" rdma serial; then
			bad=1
		fi
	done
	cp "$dir/rows.serial" "$out/rows.$number.txt"
done
say "done"
"$here/report.pl" "$out" "$scale" "$nodes" "$timeout" | tee "$out/star.txt"
bench_plot star "$here/plot.gp" "star queries, scale $scale, over $nodes data nodes"
exit $bad
