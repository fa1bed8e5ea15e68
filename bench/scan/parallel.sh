#!/usr/bin/env bash
# parallel.sh: parallel foreign scans against serial ones, where rows must be worked on here. One coordinator and two data nodes
# on this machine; interleaved rounds, medians, ratios to the serial scan.
#
#   ROWS   of the table (default 2000000)      RUNS  rounds (default 5)      WORKERS  "1 2"
#
# Queries: light takes a condition and an aggregate, heavy five md5 of each row, group a hash aggregate of many groups, hash a join
# with a local table. "two nodes" reads half of the table from each: one after the other, asynchronously, in parallel; "nodes" the
# same as a table of a server that stands for both. "join" joins two tables of such a server, which are not stored by the join key:
# pulled and joined by one process here, by two processes here to which the nodes send their rows by the key (servers of this very
# cluster as compute nodes), and by the nodes themselves.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
rows=${ROWS:-2000000} runs=${RUNS:-5}
read -ra workers <<<"${WORKERS:-1 2}"
bench_begin
for name in n1 n2 coord; do
	rf_start $name shared_buffers=512MB work_mem=256MB jit=off wal_level=minimal max_wal_senders=0 max_wal_size=4GB
done
for node in 0 1; do
	rf_psql n$((node + 1)) -q <<-SQL
		CREATE EXTENSION rdma_fdw;
		CREATE TABLE whole AS SELECT i AS a, i % 50000 AS b, 'text of row ' || i AS c FROM generate_series(1, $rows) i;
		CREATE TABLE half AS SELECT * FROM whole WHERE a % 2 = $node;
		CREATE TABLE other AS SELECT a, b FROM whole WHERE a % 4 / 2 = $node;
		VACUUM (FREEZE, ANALYZE);
		SET max_parallel_workers_per_gather = 0;
		ALTER SYSTEM SET max_parallel_workers_per_gather = 0;
		SELECT pg_reload_conf();
	SQL
done >/dev/null
rf_psql coord -q >/dev/null <<-SQL
	CREATE EXTENSION rdma_fdw;
	CREATE FUNCTION here(int) RETURNS int LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int4up';
	CREATE FUNCTION digest(text) RETURNS text LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'md5_text';
	CREATE TABLE local AS SELECT i AS a, i % 10 AS d FROM generate_series(1, $rows, 4) i;
	CREATE SCHEMA n1; CREATE SCHEMA n2;
	$(bench_server n1 n1)
	$(bench_server n2 n2)
	IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO n1;
	IMPORT FOREIGN SCHEMA public FROM SERVER n2 INTO n2;
	$(bench_server c1 coord)
	$(bench_server c2 coord)
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', compute_nodes 'c1, c2');
	CREATE SCHEMA many;
	CREATE FOREIGN TABLE many.half (a int, b int, c text) SERVER many OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE many.other (a int, b int) SERVER many OPTIONS (schema_name 'public');
	CREATE VIEW halves AS SELECT * FROM n1.half UNION ALL SELECT * FROM n2.half;
	ANALYZE;
	ANALYZE n1.whole, n1.half, n2.half, many.half, many.other;
SQL

declare -A query=(
	[light]='SELECT count(*), max(b) FROM %s WHERE here(a) > 0'
	[heavy]='SELECT count(*), max(digest(digest(digest(digest(digest(c)))))) FROM %s WHERE here(a) > 0'
	[group]='SELECT count(*), sum(n) FROM (SELECT here(b) AS b, count(*) AS n, max(c) FROM %s WHERE here(a) > 0 GROUP BY 1) s'
	[join]='SELECT count(*), sum(y.b), max(x.c) FROM many.half x JOIN many.other y ON x.a = y.a'
	[hash]='SELECT count(*), sum(d), max(c) FROM %s JOIN local USING (a) WHERE here(b) >= 0')

# timed SETTINGS QUERY: milliseconds; the plan must be what the case says
timed()
{
	rf_psql coord -qAt 2>&1 <<-SQL | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -1
		SET enable_mergejoin = off; SET enable_nestloop = off;
		$1
		SELECT 1 FROM n1.half WHERE a = 1;
		\timing on
		$2;
	SQL
}
serial="SET max_parallel_workers_per_gather = 0;"
raw=$dir/raw
for ((run = 1; run <= runs; run++)); do
	for name in light heavy group hash; do
		# shellcheck disable=SC2059
		sql=$(printf "${query[$name]}" n1.whole)
		echo "$name serial $(timed "$serial" "$sql")"
		for n in "${workers[@]}"; do
			echo "$name ${n}_workers $(timed "SET max_parallel_workers_per_gather = $n; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;" "$sql")"
		done
	done
	for name in light heavy; do
		# shellcheck disable=SC2059
		sql=$(printf "${query[$name]}" halves)
		for async in false true; do
			rf_sql coord "ALTER SERVER n1 OPTIONS (ADD async_capable '$async'); ALTER SERVER n2 OPTIONS (ADD async_capable '$async')"
			case=serial
			[ $async = false ] || case=async
			echo "${name}_two_nodes $case $(timed "$serial" "$sql")"
			rf_sql coord "ALTER SERVER n1 OPTIONS (DROP async_capable); ALTER SERVER n2 OPTIONS (DROP async_capable)"
		done
		for n in "${workers[@]}"; do
			echo "${name}_two_nodes ${n}_workers $(timed "SET max_parallel_workers_per_gather = $n; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;" "$sql")"
		done
	done
	for name in light heavy group hash; do
		# shellcheck disable=SC2059
		sql=$(printf "${query[$name]}" many.half)
		echo "${name}_nodes serial $(timed "$serial" "$sql")"
		for n in "${workers[@]}"; do
			echo "${name}_nodes ${n}_workers $(timed "SET max_parallel_workers_per_gather = $n; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;" "$sql")"
		done
	done
	echo "join serial $(timed "SET rdma_fdw.exchange_strategy = pull;" "${query[join]}")"
	echo "join here $(timed "SET rdma_fdw.disable = compute_node_costs;" "${query[join]}")"
	echo "join nodes $(timed "SET rdma_fdw.disable = compute_nodes; SET rdma_fdw.exchange_strategy = repartition_both;" "${query[join]}")"
done >"$raw"
sort "$raw" | awk '
	{ key = $1 " " $2; values[key, ++count[key]] = $3; if (!(key in seen)) { seen[key] = 1; order[++keys] = key } }
	END {
		for (i = 1; i <= keys; i++) {
			key = order[i]; n = count[key];
			for (a = 1; a <= n; a++) for (b = a + 1; b <= n; b++) if (values[key, b] + 0 < values[key, a] + 0) { t = values[key, a]; values[key, a] = values[key, b]; values[key, b] = t }
			median[key] = values[key, int((n + 1) / 2)]
		}
		printf "%-18s %-10s %10s %16s\n", "query", "case", "ms", "ratio to serial";
		for (i = 1; i <= keys; i++) { split(order[i], part, " "); printf "%-18s %-10s %10.1f %16.2f\n", part[1], part[2], median[order[i]], median[order[i]] / median[part[1] " serial"] }
	}'
