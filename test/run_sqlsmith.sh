#!/usr/bin/env bash
# run_sqlsmith.sh: random queries over foreign tables (SQLsmith, Debian package sqlsmith), on a PostgreSQL with assertions.
# run_check.sh calls it for the group "sqlsmith".
#
# A coordinator and two data nodes with small TPC-H tables and one with a column of many types, each node's by itself and
# some over both (a server with nodes: distributed and replicated ones); an ordinary role runs SQLsmith's statements, the
# functions of this extension included. Errors are expected, and printed by kind. What must not be: a process that crashes,
# a query that hangs (statement_timeout is 5 s), a flow or a session's memory that stays.
#
#   DURATION   seconds (default: 60)        SEED   of SQLsmith (default: the time; it is printed)
#   PLAIN      1: on the PostgreSQL of PG_CONFIG instead
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/results.sh"
. "$here/memory/server.sh"
: "${RF_WORK:?run this through make check-sqlsmith}" "${RF_TREE:?}" "${RF_RESULTS:?}"
seconds=${DURATION:-60} seed=${SEED:-$(($(date +%s) % 1000000))}
work=$RF_WORK/sqlsmith tree=$RF_TREE
mkdir -p "$work"
give_up() { rf_show "$work/build.log"; rf_result FAIL sqlsmith "$1"; exit 1; }

"$here/install_deps.sh" sqlsmith || give_up "the package sqlsmith is missing"
[ -n "${PLAIN:-}" ] || rf_assertion_server "$work/build.log" || give_up "there is no PostgreSQL with assertions"
# Sources of its own: objects that lie beside them may be for another server.
cp -r "$tree" "$work/source"
find "$work/source" \( -name '*.o' -o -name '*.so' \) -delete
export RF_PREFIX=$work/pg
"$work/source/test/tmp_install.sh" "$RF_PREFIX" >"$work/build.log" 2>&1 || give_up "the extension does not build"
. "$here/run_common.sh"

trap 'rf_stop_all' EXIT
gcc -O2 -o "$work/tpchgen" "$tree/bench/tpch/tpchgen.c" -lm || exit 1
rf_start_trio "$work/clusters"
export RF_DB=contrib_regression
for node in coord n1 n2; do rf_psql $node -qc 'ALTER DATABASE contrib_regression SET log_min_messages = error'; done

for node in n1 n2; do
	rf_psql $node -q -f "$tree/bench/tpch/schema.sql"
	for table in region nation supplier part partsupp customer orders lineitem; do
		"$work/tpchgen" -s 0.001 -t $table | rf_psql $node -q -c "\\copy $table from pstdin" || exit 1
	done
	rf_psql $node -q <<-SQL || exit 1
		CREATE EXTENSION rdma_fdw;
		CREATE TABLE kinds AS SELECT i AS id, i::int2 AS a, i * 1.5::float4 AS b, i::numeric / 7 AS c, 'text ' || i AS d,
			i % 2 = 0 AS e, '2024-01-01'::timestamptz + i * interval '1 day' AS f, i * interval '1 hour' AS g,
			int4range(i, i + 5) AS h, ARRAY[i, NULL, i] AS j, jsonb_build_object('k', i) AS k, ('10.0.0.' || i)::inet AS l,
			to_tsvector('simple', 'w' || i) AS m, point(i, i) AS n, md5(i::text)::uuid AS o, i::bit(8) AS p, decode(md5(i::text), 'hex') AS q
			FROM generate_series(1, 100) i;
		ANALYZE;
		CREATE SCHEMA spread;
		CREATE TABLE spread.orders AS SELECT * FROM orders WHERE rdma.hash_node(2, o_orderkey) = ${node#n} - 1;
		CREATE TABLE spread.lineitem AS SELECT * FROM lineitem WHERE rdma.hash_node(2, l_orderkey) = ${node#n} - 1;
		CREATE TABLE spread.customer AS SELECT * FROM customer WHERE rdma.hash_node(2, c_custkey) = ${node#n} - 1;
		CREATE TABLE spread.kinds AS SELECT * FROM kinds WHERE rdma.hash_node(2, id) = ${node#n} - 1;
		CREATE TABLE spread.nation AS SELECT * FROM nation;
		CREATE TABLE spread.part AS SELECT * FROM part;
		ANALYZE;
		CREATE ROLE smith LOGIN;
		GRANT USAGE ON SCHEMA spread TO smith;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, spread TO smith;
	SQL
done
rf_psql coord -q <<-SQL || exit 1
	CREATE EXTENSION rdma_fdw;
	CREATE ROLE smith LOGIN;
	ALTER ROLE smith SET statement_timeout = '5s';
	ALTER ROLE smith SET log_statement = 'none';
	CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$RF_N1_PORT', dbname 'contrib_regression');
	CREATE SERVER n2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$RF_N2_PORT', dbname 'contrib_regression', inline_limit '0',
		receive_buffers '2', receive_buffer_size '4kB');
	CREATE USER MAPPING FOR smith SERVER n1 OPTIONS (user 'smith', password_required 'false');
	CREATE USER MAPPING FOR smith SERVER n2 OPTIONS (user 'smith', password_required 'false');
	CREATE USER MAPPING FOR postgres SERVER n1 OPTIONS (user 'postgres');
	CREATE USER MAPPING FOR postgres SERVER n2 OPTIONS (user 'postgres');
	CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE SCHEMA s1; CREATE SCHEMA s2; CREATE SCHEMA s12;
	IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO s1;
	IMPORT FOREIGN SCHEMA public FROM SERVER n2 INTO s2;
	IMPORT FOREIGN SCHEMA spread FROM SERVER pair INTO s12;
	ALTER FOREIGN TABLE s12.orders OPTIONS (ADD distributed_by 'o_orderkey');
	ALTER FOREIGN TABLE s12.lineitem OPTIONS (ADD distributed_by 'l_orderkey');
	ALTER FOREIGN TABLE s12.customer OPTIONS (ADD distributed_by 'c_custkey');
	ALTER FOREIGN TABLE s12.kinds OPTIONS (ADD distributed_by 'id');
	ALTER FOREIGN TABLE s12.nation OPTIONS (ADD replicated 'true');
	ALTER FOREIGN TABLE s12.part OPTIONS (ADD replicated 'true');
	GRANT USAGE ON SCHEMA s1, s2, s12 TO smith;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA s1, s2, s12 TO smith;
	GRANT USAGE ON FOREIGN SERVER n1, n2, pair TO smith;
SQL

log=$work/sqlsmith.log
printf 'seed %s, %s s\n' "$seed" "$seconds"
timeout -s INT "$seconds" sqlsmith --exclude-catalog --seed="$seed" --verbose \
	--target="host=127.0.0.1 port=$RF_COORD_PORT dbname=contrib_regression user=smith" >"$log" 2>&1
tail -n 25 "$log"

wrong=0
complain() { rf_result FAIL sqlsmith "$*, seed $seed"; wrong=1; }
for name in coord n1 n2; do
	bad=$(grep -E 'PANIC|TRAP:|terminated by signal|rdma_fdw.*[^_]internal|not supposed' "$(rf_log $name)" | sort | uniq -c | head -5)
	[ -z "$bad" ] || complain "log of $name: $bad"
	starts=$(rf_sql $name 'SELECT starts FROM rdma.stat_engine')
	[ "$starts" = 1 ] || complain "the engine of $name has started $starts times"
	flows=
	for try in $(seq 1 60); do
		flows=$(rf_sql $name 'SELECT count(*) FROM rdma.stat_flows')
		[ "$flows" != 0 ] || break
		sleep 1
	done
	[ "$flows" = 0 ] || complain "$name keeps $flows flows"
	used=$(rf_sql $name 'SELECT buffer_used FROM rdma.stat_engine')
	[ "$used" = 0 ] || complain "$name keeps $used bytes of buffers"
	printf '%s: errors by kind, numbers and names left out, without those of SQLsmith itself:\n' $name
	grep -oE 'ERROR:  .*' "$(rf_log $name)" |
		grep -vE 'does not exist|permission denied|any(multi)?(range|enum)|element type|only superuser|must be superuser' | sed -E 's/"[^"]*"/"..."/g; s/[0-9]+/N/g; s/(.{110}).*/\1/' | sort | uniq -c | sort -rn | head -30
done
queries=$(sed -n 's/^queries: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
[ "${queries:-0}" -gt 0 ] || complain "SQLsmith ran no query"
[ $wrong = 1 ] || rf_result ok sqlsmith "$queries queries"
exit $wrong
