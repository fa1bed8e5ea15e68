#!/usr/bin/env bash
# run.sh: how long it takes to plan joins over two data nodes, as a multiple of planning the same statement over local tables of the same
# rows: a star (each dimension joined by a key of its own), a join of all tables by one key, mixed keys (each joins two dimensions), and,
# where JOB names them, the 113 statements of the Join Order Benchmark. Statements of 12 and more relations are planned by GEQO, as by default.
# Each statement is planned over both in turns, in one session; processor time, the least and the median. With BASE also short
# statements, which that tree plans in turns with this one.
#
#   RUNS      times that each statement is planned over either (default 5)
#   SHAPES    "star-9 one-9 mixed-11 ..." (default: several of each, up to 30 relations)
#   JOB       a folder with schema.sql, fkindexes.sql and 1a.sql to 33c.sql of https://github.com/gregrahn/join-order-benchmark;
#             its tables get made-up rows (movies.pl), and are distributed by id, and by the columns that join them
#   QUERIES   "16b 31a" (default all)
#   BASE      another tree, built: what it takes is shown beside
#   OUT       where tables and CSV go (default build/bench-planning)     DIR   keep clusters and data there
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
here=$tree/bench/planning
runs=${RUNS:-5} out=${OUT:-$tree/build/bench-planning} job=${JOB:-} base=${BASE:-}
read -ra shapes <<<"${SHAPES-star-6 star-9 star-11 one-6 one-9 one-11 mixed-9 mixed-11 star-12 star-16 star-20 star-30 one-12 one-20 one-30 mixed-12 mixed-20 mixed-30}"
mkdir -p "$out"
raw=$out/raw.csv
bench_begin "${DIR:-}"
settings=(jit=off max_prepared_transactions=20)
coordinators=(coord)
if [ -n "$base" ]; then
	"$base/test/tmp_install.sh" "$dir/base" >/dev/null
	RF_BINDIR_base=$dir/base/bin RF_BINDIR_b1=$RF_BINDIR_base RF_BINDIR_b2=$RF_BINDIR_base
	coordinators+=(base)
	for cluster in b1 b2 base; do rf_start $cluster "${settings[@]}"; done
fi
bench_start 2 "${settings[@]}"

# dimensions: a table of sales and 29 others, which the nodes have by their ids, or, every second one, all of them
dimensions()
{
	local schema i keys values
	keys=$(for i in {1..29}; do echo -n ", k$i int"; done) values=$(for i in {1..29}; do echo -n ', i % 50 + 1'; done)
	echo 'CREATE SCHEMA l; CREATE SCHEMA d;'
	for schema in l d; do
		echo "CREATE TABLE $schema.sale (id int $keys); INSERT INTO $schema.sale SELECT i $values FROM generate_series(1, 2000) i;"
		for i in {1..29}; do
			echo "CREATE TABLE $schema.dim$i (id int, name text); INSERT INTO $schema.dim$i SELECT i, 'n' || i FROM generate_series(1, 50) i;"
		done
	done
	echo "SELECT rdma.distribute_table('d.sale', 'nodes', 'id');"
	for i in {1..29}; do
		echo "SELECT rdma.distribute_table('d.dim$i', 'nodes', $([ $((i % 2)) = 1 ] && echo 'replicated => true' || echo "'id'"));"
	done
	for schema in l d; do
		for i in sale dim{1..29}; do echo "ANALYZE $schema.$i;"; done
	done
}

# accounts: tables of pgbench, here (l), on one node (f) and over both (d)
accounts()
{
	local schema
	for schema in l f d; do
		cat <<-SQL
			CREATE SCHEMA IF NOT EXISTS $schema;
			CREATE TABLE $schema.account (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
			CREATE TABLE $schema.history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
			INSERT INTO $schema.account SELECT i, 1, 0, '' FROM generate_series(1, 10000) i;
		SQL
	done
	cat <<-SQL
		SELECT rdma.distribute_table('d.account', 'nodes', 'aid'), rdma.distribute_table('d.history', 'nodes', 'aid');
		SELECT rdma.distribute_table('f.account', 'one', 'aid'), rdma.distribute_table('f.history', 'one', 'aid');
	SQL
	for schema in l f d; do echo "ANALYZE $schema.account;"; done
}

load()
{
	local first=n1 second=n2 node
	[ "$1" = coord ] || { first=b1 second=b2; }
	if rf_run test -e "$RF_ROOT/loaded.$1"; then
		# the clusters have other ports now
		for node in $first $second; do rf_psql "$1" -qc "ALTER SERVER $node OPTIONS (SET port '$(rf_port $node)')"; done
	else
		say "loading $1"
		for node in $first $second; do rf_psql $node -qc 'CREATE EXTENSION rdma_fdw'; done
		{
			echo "CREATE EXTENSION rdma_fdw;"
			for node in $first $second; do bench_server $node $node; done
			echo "CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$first, $second');"
			echo "CREATE SERVER one FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$first');"
			dimensions
			accounts
			echo 'VACUUM ANALYZE pg_catalog.pg_statistic;'
		} | rf_psql "$1" -q >/dev/null
		rf_run touch "$RF_ROOT/loaded.$1"
	fi
	if [ -n "$job" ] && ! rf_run test -e "$RF_ROOT/movies.$1"; then
		say "loading $1: movies"
		"$here/movies.pl" "$job" | rf_psql "$1" -q >/dev/null
		rf_run touch "$RF_ROOT/movies.$1"
	fi
}

# shape NAME: its statement
shape()
{
	local n=$((${1#*-} - 1)) i from=sale clauses=true
	for ((i = 1; i <= n; i++)); do
		from="$from, dim$i"
		case ${1%-*} in
			star) clauses="$clauses AND sale.k$i = dim$i.id" ;;
			one) clauses="$clauses AND sale.k1 = dim$i.id" ;;
			mixed) clauses="$clauses AND sale.k$(((i + 1) / 2)) = dim$i.id" ;;
		esac
	done
	echo "SELECT count(*) FROM $from WHERE $clauses"
}

# plan CLUSTER NAME TIMES SCHEMA... : plans what is read as often over these schemas in turns; CSV
plan()
{
	local cluster=$1 name=$2 times=$3 i schema sql
	shift 3
	sql=$(cat)
	{
		# connects, and reads what is said of the tables
		for schema; do printf 'SET search_path = %s;\nEXPLAIN %s;\n' "$schema" "$sql"; done
		echo 'SET client_min_messages = log; SET log_planner_stats = on;'
		for ((i = 0; i < times; i++)); do
			for schema; do printf 'SET search_path = %s;\n\\echo CASE %s\nEXPLAIN %s;\n' "$schema" "$schema" "$sql"; done
		done
	} | rf_psql "$cluster" -qAt -v ON_ERROR_STOP=0 2>&1 | awk -v name="$name" -v cluster="$cluster" '
		/^CASE / { schema = $2 }
		/ERROR/ { print > "/dev/stderr" }
		$4 == "user," && $10 == "elapsed" { printf "%s,%s,%s,%.3f\n", name, cluster, schema, ($2 + $5) * 1000 }'
}

for cluster in "${coordinators[@]}"; do load "$cluster"; done
for cluster in "${coordinators[@]}"; do rf_psql "$cluster" -qc CHECKPOINT; done

echo "statement,planner,schema,ms" >"$raw"
for name in ${shapes[@]+"${shapes[@]}"}; do
	say "$name"
	for cluster in "${coordinators[@]}"; do shape "$name" | plan "$cluster" "$name" "$runs" l d >>"$raw"; done
done

if [ -n "$job" ]; then
	say "Join Order Benchmark"
	for file in $(cd "$job" && ls -v [0-9]*.sql); do
		number=${file%.sql}
		[[ -z ${QUERIES:-} || " $QUERIES " == *" $number "* ]] || continue
		for cluster in "${coordinators[@]}"; do
			sed 's/; *$//' "$job/$file" | plan "$cluster" "job-$number" "$runs" movies movies_by_id movies_by_key >>"$raw"
		done
	done
fi

short="select-key SELECT abalance FROM account WHERE aid = 17
select-all SELECT * FROM account
select-count SELECT count(*) FROM account WHERE abalance > 5
select-top SELECT aid, abalance FROM account WHERE bid = 1 ORDER BY abalance DESC LIMIT 10
update-key UPDATE account SET abalance = abalance + 5 WHERE aid = 17
delete-key DELETE FROM account WHERE aid = 17
insert INSERT INTO history (tid, bid, aid, delta, mtime) VALUES (1, 1, 17, 5, CURRENT_TIMESTAMP)"
if [ -n "$base" ]; then
	say "short statements"
	for ((round = 0; round < runs; round++)); do
		while read -r name sql; do
			for cluster in "${coordinators[@]}"; do plan "$cluster" "$name" 60 l f d <<<"$sql" >>"$raw"; done
		done <<<"$short"
	done
fi
say "done"
"$here/report.pl" "$raw" | tee "$out/table.txt"
