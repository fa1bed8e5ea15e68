# load.sh: TPC-H's tables for the benches of joins. Source it after clusters.sh, with $sf and $nodes (data nodes) set and further settings of
# the clusters in the array more; an argument is a folder to keep clusters and data in.
#
#   clusters coord and ${names[@]} (n1, n2, ...), started
#   schemas of coord: local has all tables; dist has them over the nodes, orders by customer and lineitem by order (orders_by_key by order, so
#   co-located with it); apart has all orders on the first node and all line items on the second; rival is dist by postgres_fdw
#   query QUERY CASE   the text of J1, J2, C1 (J1 over orders_by_key), U1 (J1 over apart) and Q1 to Q22 for a case, of which rdma* run over dist
#
# As many tables are loaded at a time as there are processors.
bench_begin "${1:-}"
bench_tpch
settings=(shared_buffers="$(awk -v sf="$sf" 'BEGIN { printf "%dMB", 128 + sf * 2048 }')" work_mem=256MB jit=off max_wal_size=8GB "${more[@]}")
bench_start "$nodes" "${settings[@]}"

tables=(region nation supplier part partsupp customer orders lineitem)
declare -A key=([supplier]=s_suppkey [part]=p_partkey [partsupp]=ps_partkey [customer]=c_custkey [orders]=o_custkey
	[lineitem]=l_orderkey [orders_by_key]=o_orderkey)
list() { local IFS=,; echo "$*"; }

# at_once COMMAND...: in the background, when fewer than one for each processor are left there; it fails if the one waited for has failed
pids=()
at_once()
{
	if [ ${#pids[@]} -ge "$(nproc)" ]; then
		wait "${pids[0]}"
		pids=("${pids[@]:1}")
	fi
	"$@" &
	pids+=($!)
}

# Waits for all of them; fails if one has failed, also one that has ended before.
wait_all()
{
	local pid
	for pid in "${pids[@]}"; do wait "$pid"; done
	pids=()
}

load_table()
{
	"$dir/tpchgen" -s "$sf" -t "$1" -n 1 -i 0 | rf_psql coord -qc "\\copy local.$1 from pstdin"
	rf_psql coord -qc "INSERT INTO dist.$1 SELECT * FROM local.$1"
	case $1 in
		orders) rf_psql coord -qc "INSERT INTO dist.orders_by_key SELECT * FROM local.orders" -c "INSERT INTO apart.orders_there SELECT * FROM local.orders" ;;
		lineitem) rf_psql coord -qc "INSERT INTO apart.lineitem_there SELECT * FROM local.lineitem" ;;
	esac
}

# add_keys CLUSTER SCHEMA [SQL]
add_keys() { printf '%s\n' "SET search_path = $2;" "$keys" "${3:-}" "VACUUM (FREEZE, ANALYZE);" | rf_psql "$1" -q; }

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
	for table in lineitem orders "${tables[@]:0:6}"; do
		at_once load_table "$table"
	done
	wait_all
	say "  tables"
	# with the index that Q17 and Q20 take minutes without, wherever the tables are
	keys="$(grep '^ALTER' "$tree/bench/tpch/keys.sql") CREATE INDEX ON lineitem (l_partkey, l_suppkey);"
	at_once add_keys coord local
	for name in "${names[@]}"; do
		at_once add_keys "$name" dist "ALTER TABLE orders_by_key ADD PRIMARY KEY (o_orderkey);
			ALTER TABLE apart.orders ADD PRIMARY KEY (o_orderkey); ALTER TABLE apart.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);"
	done
	wait_all
	say "  keys"
	at_once rf_psql coord -qc "SET search_path = dist; ANALYZE $(list "${tables[@]}" orders_by_key), apart.orders, apart.lineitem"
	at_once rf_psql coord -qc "SET search_path = rival; ANALYZE $(list "${tables[@]}")"
	wait_all
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
		C1) [[ $2 != rdma* ]] || orders=orders_by_key ;;
	esac
	case $1 in
		J1 | C1 | U1) echo "SELECT count(*), sum(l_quantity), sum(o_totalprice) FROM $orders JOIN lineitem ON o_orderkey = l_orderkey;" ;;
		J2) echo "SELECT o_orderpriority, count(*), sum(l_extendedprice * (1 - l_discount)) FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderpriority ORDER BY 1;" ;;
		*) sed -n "/^-- $1\$/,/^-- Q/{/^-- Q/d;p}" "$tree/bench/tpch/queries.sql" ;;
	esac
}
