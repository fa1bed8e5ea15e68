#!/usr/bin/env bash
# demo.sh: a tour. It builds rdma_fdw, starts a coordinator and two data nodes as an ordinary user in a throw-away folder,
# spreads TPC-H tables and this machine's own package database over the nodes, and shows the SQL that pulls them together.
# The clusters stay up so that you can go on in psql; "demo.sh stop" (make demo-stop) removes everything.
#
#   SCALE   TPC-H scale factor (default 0.1, which is 600,000 line items; 1 needs about 4 GB of disk and three minutes)
#   Nothing is installed into the system's PostgreSQL, and nothing listens beyond 127.0.0.1.
set -eEuo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
scale=${SCALE:-0.1}
state=$tree/build/demo.path
. "$tree/test/cluster.sh"

stop()
{
	[ -s "$state" ] || return 0
	RF_ROOT=$(cat "$state")
	RF_BINDIR=$RF_ROOT/pg/bin
	if [ -x "$RF_BINDIR/pg_ctl" ]; then
		for name in coord n1 n2; do
			rf_stop "$name"
		done
	fi
	rm -rf "$RF_ROOT" "$state"
	rmdir "$tree/build" 2>/dev/null || true
	[ $# -gt 0 ] || echo "The demo's clusters are stopped and $RF_ROOT is gone."
}
if [ $# -gt 0 ] && [ "$1" != stop ]; then
	echo "demo.sh takes nothing, or stop" >&2
	exit 2
fi
if [ $# -gt 0 ]; then
	[ -s "$state" ] || echo "No demo is running."
	stop
	exit 0
fi

if [ -t 1 ]; then
	bold=$'\e[1m' green=$'\e[32m' plain=$'\e[0m'
else
	bold='' green='' plain=''
fi
step=0
began=$SECONDS
say() { step=$((step + 1)); printf '\n%s[%d/11] %s%s\n' "$bold" "$step" "$*" "$plain"; }
note() { printf '      %s\n' "$*"; }

# as_typed SQL: show it as psql would, run it on the coordinator
as_typed()
{
	printf '%sdemo=# %s%s\n' "$green" "$(sed '2,$s/^/demo-# /' <<<"$1")" "$plain"
	RF_DB=demo rf_psql coord -P pager=off -c "$1" </dev/null
}

# milliseconds SQL [SETUP]: the median of three runs after a warm one
milliseconds()
{
	local i args=()
	for i in 1 2 3 4; do
		args+=(-c "$1")
	done
	RF_DB=demo rf_psql coord -qAt -c "${2:-SELECT}" -c '\timing on' "${args[@]}" </dev/null |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 3 | sort -n | sed -n 2p
}

seconds() { awk -v ms="$1" 'BEGIN { printf "%.2f s", ms / 1000 }'; }
times() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'; }

say "Building rdma_fdw into a private copy of $("${PG_CONFIG:-pg_config}" --version)"
stop quietly
root=$(mktemp -d /tmp/rdma_fdw_demo.XXXXXX)
chmod 755 "$root"
mkdir -p "$tree/build"
printf '%s\n' "$root" >"$state"
failed()
{
	echo "The demo stopped in step $step. Logs are in $root; 'make demo-stop' removes them." >&2
}
trap failed ERR
"$tree/test/tmp_install.sh" "$root/pg" >"$root/build.log" 2>&1 || { tail -n 30 "$root/build.log" >&2; false; }
${CC:-cc} -O2 -std=gnu11 -o "$root/tpchgen" "$tree/bench/tpch/tpchgen.c"
cp "$tree/bench/demo/debian.pl" "$root/"
RF_PREFIX=$root/pg RF_BINDIR=$root/pg/bin
rf_init "$root"

say "Starting a coordinator and two data nodes as user $(rf_run id -un) in $root"
password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
for name in coord n1 n2; do
	RF_AUTH=scram rf_start "$name" shared_buffers=256MB work_mem=64MB max_wal_size=4GB wal_level=minimal max_wal_senders=0 \
		unix_socket_permissions=0700
	rf_sql "$name" "CREATE DATABASE demo" >/dev/null
	note "$name on 127.0.0.1, port $(rf_port $name)"
done

say "Spreading TPC-H tables, scale $scale, over the nodes: every row goes to n1 or n2 by a hash of its key"
load_node()
{
	local name=$1 index=$2 table
	export RF_DB=demo
	rf_sql "$name" "CREATE SCHEMA tpch; CREATE SCHEMA debian; CREATE EXTENSION rdma_fdw;
		CREATE ROLE app LOGIN PASSWORD '$password'; SELECT rdma.grant_access('app', 'write', 'exchange'); GRANT USAGE ON SCHEMA tpch, debian TO app; GRANT CREATE ON DATABASE demo TO app; GRANT CREATE ON SCHEMA public TO app;
		ALTER DEFAULT PRIVILEGES IN SCHEMA tpch, debian GRANT SELECT ON TABLES TO app"
	{ echo "SET search_path = tpch;"; cat "$tree/bench/tpch/schema.sql"; } | rf_psql "$name" -q
	for table in region nation supplier part partsupp customer orders lineitem; do
		"$root/tpchgen" -s "$scale" -t $table -n 2 -i "$index" | rf_psql "$name" -q -c "\\copy tpch.$table from pstdin"
	done
	{ echo "SET search_path = tpch;"; cat "$tree/bench/tpch/keys.sql"; } | rf_psql "$name" -q
	{ echo "SET search_path = debian;"; cat "$tree/bench/demo/debian.sql"; } | rf_psql "$name" -q
	for table in packages dependencies files; do
		"$root/debian.pl" $table 2 "$index" | rf_psql "$name" -q -c "\\copy debian.$table from pstdin"
	done
	rf_psql "$name" -qc "VACUUM (FREEZE, ANALYZE)"
}
load_node n1 0 &
first=$!
load_node n2 1
wait $first
for name in n1 n2; do
	note "$name: $(RF_DB=demo rf_sql $name "SELECT count(*) || ' line items, ' || pg_size_pretty(pg_database_size('demo'))
		FROM tpch.lineitem")"
done

say "What you would type: the extension, two servers, whom to be there, and their tables"
as_typed "CREATE EXTENSION rdma_fdw;"
for name in n1 n2; do
	as_typed "CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw
  OPTIONS (host '127.0.0.1', port '$(rf_port $name)', dbname 'demo');"
	as_typed "CREATE USER MAPPING FOR CURRENT_USER SERVER $name OPTIONS (user 'app', password '$password');"
	as_typed "CREATE SCHEMA $name; IMPORT FOREIGN SCHEMA tpch FROM SERVER $name INTO $name;"
done
as_typed "CREATE VIEW lineitem AS SELECT * FROM n1.lineitem UNION ALL SELECT * FROM n2.lineitem;"

say "Work that one node can do alone is done there"
join="SELECT o_orderpriority, count(*) FROM n1.orders JOIN n1.lineitem ON o_orderkey = l_orderkey
WHERE l_quantity > 45 GROUP BY 1 ORDER BY 1;"
as_typed "EXPLAIN (VERBOSE, COSTS OFF)
$join"
as_typed "$join"

say "A pull: every line item crosses to the coordinator (OFFSET 0 keeps a planner from summing on the nodes)"
pull="SELECT count(*), sum(l_quantity), sum(l_extendedprice)
FROM (SELECT * FROM lineitem OFFSET 0) l;"
as_typed "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF)
SELECT sum(l_quantity), sum(l_extendedprice)
FROM (SELECT l_quantity, l_extendedprice FROM n1.lineitem WHERE l_shipdate < '1998-09-02' OFFSET 0) l;"
as_typed "$pull"
ours=$(RF_DB=demo rf_sql coord "$pull")

say "The same pull through postgres_fdw, and a local table, on the same rows"
RF_DB=demo rf_psql coord -q <<-SQL
	CREATE EXTENSION postgres_fdw;
	CREATE SCHEMA p1; CREATE SCHEMA p2;
	CREATE SERVER p1 FOREIGN DATA WRAPPER postgres_fdw
	  OPTIONS (host '127.0.0.1', port '$(rf_port n1)', dbname 'demo', fetch_size '100', async_capable 'true');
	CREATE SERVER p2 FOREIGN DATA WRAPPER postgres_fdw
	  OPTIONS (host '127.0.0.1', port '$(rf_port n2)', dbname 'demo', fetch_size '100', async_capable 'true');
	CREATE USER MAPPING FOR CURRENT_USER SERVER p1 OPTIONS (user 'app', password '$password');
	CREATE USER MAPPING FOR CURRENT_USER SERVER p2 OPTIONS (user 'app', password '$password');
	IMPORT FOREIGN SCHEMA tpch LIMIT TO (lineitem) FROM SERVER p1 INTO p1;
	IMPORT FOREIGN SCHEMA tpch LIMIT TO (lineitem) FROM SERVER p2 INTO p2;
	CREATE SCHEMA rival;
	CREATE VIEW rival.lineitem AS SELECT * FROM p1.lineitem UNION ALL SELECT * FROM p2.lineitem;
	CREATE SCHEMA local;
	CREATE TABLE local.lineitem AS SELECT * FROM lineitem;
	VACUUM (FREEZE, ANALYZE) local.lineitem;
SQL
rival=$(RF_DB=demo rf_sql coord "SET search_path = rival; $pull" | tail -n 1)
local_ms=$(milliseconds "$pull" "SET search_path = local; SET max_parallel_workers_per_gather = 0")
rdma_ms=$(milliseconds "$pull")
best_ms=
for size in 100 10000 50000; do
	RF_DB=demo rf_sql coord "ALTER SERVER p1 OPTIONS (SET fetch_size '$size'); ALTER SERVER p2 OPTIONS (SET fetch_size '$size')" >/dev/null
	ms=$(milliseconds "$pull" "SET search_path = rival")
	note "postgres_fdw, fetch_size $(printf '%-6s' $size)  $(seconds "$ms")"
	if [ -z "$best_ms" ] || awk -v a="$ms" -v b="$best_ms" 'BEGIN { exit !(a < b) }'; then
		best_ms=$ms best_size=$size
	fi
done
note "rdma_fdw                        $(seconds "$rdma_ms")"
note "a local table, same query       $(seconds "$local_ms")"
if [ "$ours" = "$rival" ]; then
	note "same answer from both; ${bold}rdma_fdw is $(times "$best_ms" "$rdma_ms") times faster than postgres_fdw at its best (fetch_size $best_size)$plain,"
	note "and takes $(times "$rdma_ms" "$local_ms") times what the local table takes."
else
	printf 'postgres_fdw answers %s, rdma_fdw %s\n' "$rival" "$ours" >&2
	false
fi

say "Both nodes as one: orders lie by customer, line items by order, and a join by order brings them together"
as_typed "CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');"
as_typed "CREATE SCHEMA many;
CREATE TABLE many.orders AS SELECT * FROM n1.orders UNION ALL SELECT * FROM n2.orders;
CREATE TABLE many.lineitem AS SELECT * FROM n1.lineitem UNION ALL SELECT * FROM n2.lineitem;"
as_typed "SELECT rdma.distribute_table('many.orders', 'many', 'o_custkey') AS orders,
       rdma.distribute_table('many.lineitem', 'many', 'l_orderkey') AS lineitem;"
as_typed "SELECT * FROM rdma.check_distribution('many.orders');"
join="SELECT count(*), sum(l_quantity), sum(o_totalprice)
FROM many.orders JOIN many.lineitem ON o_orderkey = l_orderkey;"
as_typed "EXPLAIN (ANALYZE, COSTS OFF)
$join"
as_typed "$join"
here="SET rdma_fdw.exchange_strategy = pull"
if [ "$(RF_DB=demo rf_sql coord "$join")" != "$(RF_DB=demo rf_sql coord "$here; $join" | tail -n 1)" ]; then
	echo "The join gives something else when both tables are pulled to the coordinator" >&2
	false
fi
join_ms=$(milliseconds "$join")
pull_ms=$(milliseconds "$join" "$here")
note "joined on the nodes                      $(seconds "$join_ms")"
note "both tables pulled, joined here          $(seconds "$pull_ms")"
note "the same answer"

say "Is everything in order between here and n1?"
as_typed "SELECT * FROM rdma.check('n1');"

say "Real data: this machine's packages, what they depend on and their files, half of them on each node"
for name in n1 n2; do
	as_typed "CREATE SCHEMA debian_$name; IMPORT FOREIGN SCHEMA debian FROM SERVER $name INTO debian_$name;"
done
for table in packages dependencies files; do
	RF_DB=demo rf_sql coord "CREATE VIEW $table AS SELECT * FROM debian_n1.$table UNION ALL SELECT * FROM debian_n2.$table"
done
# all of it on one node, to compare with
rf_sql n1 "CREATE DATABASE whole" >/dev/null
RF_DB=whole rf_psql n1 -q <"$tree/bench/demo/debian.sql"
for table in packages dependencies files; do
	"$root/debian.pl" $table | RF_DB=whole rf_psql n1 -q -c "\\copy $table from pstdin"
done
compare()
{
	as_typed "$1"
	if [ "$(RF_DB=demo rf_sql coord "$1")" != "$(RF_DB=whole rf_sql n1 "$1")" ]; then
		echo "The same query on one node that has all rows gives something else:" >&2
		RF_DB=whole rf_psql n1 -P pager=off -c "$1" >&2
		false
	fi
	note "the same rows as on one node that has all of them"
	printf '\n'
}
compare "SELECT section, count(*) AS packages, sum(f.files) AS files, round(sum(installed_kb) / 1024) AS mb
FROM packages p
JOIN (SELECT package, architecture, count(*) AS files FROM files GROUP BY 1, 2) f USING (package, architecture)
GROUP BY section ORDER BY mb DESC, section LIMIT 5;"
compare "SELECT needs, count(DISTINCT package) AS packages
FROM dependencies WHERE kind IN ('depends', 'pre-depends')
GROUP BY needs ORDER BY packages DESC, needs LIMIT 5;"
compare "WITH RECURSIVE needed(package) AS (
  SELECT 'gcc'::text
  UNION SELECT d.needs FROM needed JOIN dependencies d USING (package) WHERE d.kind IN ('depends', 'pre-depends'))
SELECT count(DISTINCT p.package) AS packages, round(sum(p.installed_kb) / 1024) AS mb
FROM packages p JOIN needed USING (package);"
compare "SELECT count(*), count(DISTINCT path), sum(length(path)), min(path) COLLATE \"C\", max(path) COLLATE \"C\" FROM files;"

say "Now you ($((SECONDS - began)) s so far). Connect to the coordinator with"
note "${bold}psql -h $RF_SOCKETS -p $(rf_port coord) -U postgres demo$plain"
note "try: SELECT * FROM n1.orders WHERE o_orderkey = 7;"
note "     SELECT * FROM rdma.stat_peers;   \\d n1.*   \\dx+ rdma_fdw"
note "make demo-stop removes it all."
