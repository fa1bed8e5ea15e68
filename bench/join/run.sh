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
bench_begin "${DIR:-}"
bench_tpch
settings=(shared_buffers="$(awk -v sf="$sf" 'BEGIN { printf "%dMB", 128 + sf * 2048 }')" work_mem=256MB jit=off max_wal_size=8GB)
say "starting clusters"
names=()
for ((i = 1; i <= nodes; i++)); do
	names+=("n$i")
	rf_start "n$i" "${settings[@]}"
done
rf_start coord "${settings[@]}"

tables=(region nation supplier part partsupp customer orders lineitem)
declare -A key=([supplier]=s_suppkey [part]=p_partkey [partsupp]=ps_partkey [customer]=c_custkey [orders]=o_custkey
	[lineitem]=l_orderkey [orders_by_key]=o_orderkey)
list() { local IFS=,; echo "$*"; }

if ! rf_run test -e "$RF_ROOT/loaded.$sf.$nodes"; then
	say "loading scale $sf"
	for name in "${names[@]}"; do
		{
			echo "CREATE EXTENSION rdma_fdw; CREATE SCHEMA dist; SET search_path = dist;"
			cat "$tree/bench/tpch/schema.sql"
			echo "CREATE TABLE orders_by_key (LIKE orders); CREATE SCHEMA apart; CREATE TABLE apart.orders (LIKE orders); CREATE TABLE apart.lineitem (LIKE lineitem);"
		} | rf_psql "$name" -q
	done
	{
		echo "CREATE EXTENSION rdma_fdw; CREATE EXTENSION postgres_fdw; CREATE SCHEMA dist; CREATE SCHEMA rival; CREATE SCHEMA local;"
		echo "SET search_path = local;"
		cat "$tree/bench/tpch/schema.sql"
		for name in "${names[@]}"; do
			for wrapper in rdma_fdw postgres_fdw; do
				options=
				[ $wrapper = rdma_fdw ] || options="fetch_size '10000', async_capable 'true'"
				bench_server "${wrapper}_$name" "$name" $wrapper "$options"
			done
		done
		echo "CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$(list "${names[@]/#/rdma_fdw_}")');"
		echo "IMPORT FOREIGN SCHEMA dist FROM SERVER nodes INTO dist; CREATE SCHEMA apart; IMPORT FOREIGN SCHEMA apart FROM SERVER nodes INTO apart;"
		echo "CREATE FOREIGN TABLE apart.orders_there () INHERITS (local.orders) SERVER rdma_fdw_n1 OPTIONS (schema_name 'apart', table_name 'orders');"
		echo "CREATE FOREIGN TABLE apart.lineitem_there () INHERITS (local.lineitem) SERVER rdma_fdw_n2 OPTIONS (schema_name 'apart', table_name 'lineitem');"
		echo "ALTER FOREIGN TABLE apart.orders_there NO INHERIT local.orders; ALTER FOREIGN TABLE apart.lineitem_there NO INHERIT local.lineitem;"
		for table in region nation; do
			echo "ALTER FOREIGN TABLE dist.$table OPTIONS (ADD replicated 'true');"
			echo "CREATE FOREIGN TABLE rival.$table () INHERITS (local.$table) SERVER postgres_fdw_n1 OPTIONS (schema_name 'dist');"
			echo "ALTER FOREIGN TABLE rival.$table NO INHERIT local.$table;"
		done
		for table in "${!key[@]}"; do
			echo "ALTER FOREIGN TABLE dist.$table OPTIONS (ADD distributed_by '${key[$table]}');"
			[ "$table" != orders_by_key ] || continue
			echo "CREATE TABLE rival.$table (LIKE local.$table) PARTITION BY HASH (${key[$table]});"
			for ((i = 0; i < nodes; i++)); do
				echo "CREATE FOREIGN TABLE rival.${table}_$i PARTITION OF rival.$table FOR VALUES WITH (MODULUS $nodes, REMAINDER $i)
					SERVER postgres_fdw_n$((i + 1)) OPTIONS (schema_name 'dist', table_name '$table');"
			done
		done
	} | rf_psql coord -q
	for table in "${tables[@]}"; do
		"$dir/tpchgen" -s "$sf" -t "$table" -n 1 -i 0 | rf_psql coord -qc "\\copy local.$table from pstdin"
		rf_psql coord -qc "INSERT INTO dist.$table SELECT * FROM local.$table"
		say "  $table"
	done
	rf_psql coord -qc "INSERT INTO dist.orders_by_key SELECT * FROM local.orders" -c "INSERT INTO apart.orders_there SELECT * FROM local.orders" \
		-c "INSERT INTO apart.lineitem_there SELECT * FROM local.lineitem"
	# with the index that Q17 and Q20 take minutes without, wherever the tables are
	keys="$(grep '^ALTER' "$tree/bench/tpch/keys.sql") CREATE INDEX ON lineitem (l_partkey, l_suppkey);"
	{ echo "SET search_path = local;"; echo "$keys"; echo "VACUUM (FREEZE, ANALYZE);"; } | rf_psql coord -q
	for name in "${names[@]}"; do
		{ echo "SET search_path = dist;"; echo "$keys"; echo "ALTER TABLE orders_by_key ADD PRIMARY KEY (o_orderkey);"
			echo "ALTER TABLE apart.orders ADD PRIMARY KEY (o_orderkey); ALTER TABLE apart.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber); VACUUM (FREEZE, ANALYZE);"; } | rf_psql "$name" -q
	done
	say "  keys"
	rf_psql coord -qc "SET search_path = dist; ANALYZE $(list "${tables[@]}" orders_by_key), apart.orders, apart.lineitem"
	rf_psql coord -qc "SET search_path = rival; ANALYZE $(list "${tables[@]}")"
	rf_run touch "$RF_ROOT/loaded.$sf.$nodes"
else
	# the clusters have other ports now
	for name in "${names[@]}"; do
		for wrapper in rdma_fdw postgres_fdw; do
			rf_psql coord -qc "ALTER SERVER ${wrapper}_$name OPTIONS (SET port '$(rf_port "$name")')"
		done
	done
fi

# The query's text for a case.
query()
{
	local orders=orders
	case $1 in
		C1) [ "$2" != rdma ] || orders=orders_by_key ;;
	esac
	case $1 in
		J1 | C1 | U1) echo "SELECT count(*), sum(l_quantity), sum(o_totalprice) FROM $orders JOIN lineitem ON o_orderkey = l_orderkey;" ;;
		J2) echo "SELECT o_orderpriority, count(*), sum(l_extendedprice * (1 - l_discount)) FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderpriority ORDER BY 1;" ;;
		*) sed -n "/^-- $1\$/,/^-- Q/{/^-- Q/d;p}" "$tree/bench/tpch/queries.sql" ;;
	esac
}

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
			if ! grep -q 'statement timeout' "$dir/rows.$case" "$dir/rows.serial" && ! cmp -s "$dir/rows.$case" "$dir/rows.serial"; then
				echo "$number: rows of $case are not those of the local tables" >&2
				diff "$dir/rows.$case" "$dir/rows.serial" | head -5 >&2
				bad=1
			fi
		done
	done
done
say "done"
"$tree/bench/join/report.pl" "$out" "$sf" "$nodes" "$timeout" | tee "$out/join.txt"
if command -v gnuplot >/dev/null; then
	gnuplot -e "table='$out/join.tsv'; out='$out/join.svg'; name='TPC-H scale $sf over $nodes data nodes'" "$tree/bench/join/plot.gp"
else
	echo "gnuplot is not installed: no plot"
fi
exit $bad
