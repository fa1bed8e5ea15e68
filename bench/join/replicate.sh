#!/usr/bin/env bash
# replicate.sh: a table that one node sends to N compute nodes (1:2, 1:4, 1:8): million rows per second of CPU on the sending node, backend and engine, with
# its batches copied into a send slot for each (rdma_fdw.disable = value_memory) and laid out once for all (value_costs). Medians of ROUNDS (default 5)
# interleaved rounds of ROWS (default 1,000,000) rows, and of the ratio within a round; also how often the sending engine's lane slept for 1,000 of its buffers.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
rounds=${ROUNDS:-5} rows=${ROWS:-1000000}
bench_begin
settings=(shared_buffers=512MB jit=off max_wal_size=8GB autovacuum=off rdma_fdw.buffer_memory=1GB)
rf_start from "${settings[@]}"
rf_start to "${settings[@]}"
rf_start coord "${settings[@]}"
rf_psql from -q -c 'CREATE EXTENSION rdma_fdw' -c "CREATE TABLE t AS SELECT i::int8 AS k, i % 1000 AS a, i::int8 * 3 AS b, i % 13 AS c, i / 7.0::float8 AS f FROM generate_series(1, $rows) i" -c 'CREATE TABLE u (k int8)' -c 'VACUUM ANALYZE'
rf_psql coord -q -c 'CREATE EXTENSION rdma_fdw' -c "CREATE SERVER p FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port from)', dbname 'postgres'); CREATE USER MAPPING FOR postgres SERVER p OPTIONS (user 'postgres')"
for n in 1 2 3 4 5 6 7 8; do
	rf_psql to -q -c "CREATE DATABASE d$n"
	rf_psql to -q -d "d$n" -c 'CREATE EXTENSION rdma_fdw' -c 'CREATE TABLE t (k int8, a int, b int8, c int, f float8); CREATE TABLE u AS SELECT -1::int8 AS k' -c 'ANALYZE'
	rf_psql coord -q -c "CREATE SERVER d$n FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port to)', dbname 'd$n'); CREATE USER MAPPING FOR postgres SERVER d$n OPTIONS (user 'postgres')"
done
for n in 2 4 8; do
	rf_psql coord -q -c "CREATE SERVER s$n FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'p', compute_nodes '$(seq -f 'd%g' -s ', ' 1 $n)')" \
		-c "CREATE SCHEMA s$n; CREATE FOREIGN TABLE s$n.t (k int8, a int, b int8, c int, f float8) SERVER s$n OPTIONS (schema_name 'public'); CREATE FOREIGN TABLE s$n.u (k int8) SERVER s$n OPTIONS (schema_name 'public')"
done

# Nanoseconds of CPU so far of each of the sending cluster's processes
cat >"$dir/ticks" <<X
#!/bin/sh
for pid in \$(cat /proc/[0-9]*/stat 2>/dev/null | awk '{ pid = \$1; sub(/^.*\\) /, ""); if (\$2 == $(rf_pid from)) print pid }'); do
	cat /proc/\$pid/task/*/schedstat | awk -v pid=\$pid '{ sum += \$1 } END { printf "ticks %d %.0f\\n", pid, sum }'
done 2>/dev/null
echo ticks
X
chmod 755 "$dir/ticks"
lane="SELECT 'lane', sleeps, requests, in_place FROM rdma.stat_lanes"

# N MODE: ns, sleeps, requests and buffers sent in place of one run
run()
{
	local n=$1 mode=$2 before after
	rf_psql from -q -c "ALTER DATABASE postgres SET rdma_fdw.disable = $([ "$mode" = off ] && echo value_memory || echo value_costs)"
	before=$(rf_sql from "$lane")
	rf_psql coord -qAt <<SQL | awk '/^ticks ./ { if (!after) before[$2] = $3; else sum += $3 - before[$2] } /^ticks$/ { after = 1 } END { printf "%.0f ", sum }'
SET rdma_fdw.exchange_strategy = replicate;
SET search_path = s$n;
SELECT count(*) FROM (SELECT * FROM t WHERE k <= 100) t JOIN u ON t.a + t.b + t.c + t.f < u.k;
\! $dir/ticks
SELECT count(*) FROM t JOIN u ON t.a + t.b + t.c + t.f < u.k;
\! $dir/ticks
SQL
	after=$(rf_sql from "$lane")
	awk -v "a=$after" -v "b=$before" 'BEGIN { split(a, x, "|"); split(b, y, "|"); print x[2] - y[2], x[3] - y[3], x[4] - y[4] }'
}

rf_psql coord -q -c 'SET rdma_fdw.exchange_strategy = replicate' -c 'EXPLAIN (COSTS OFF) SELECT count(*) FROM s2.t JOIN s2.u ON t.a + t.b + t.c + t.f < u.k' >&2
for ((r = 1; r <= rounds; r++)); do
	for n in 2 4 8; do
		for mode in off on; do
			echo "$n $mode $(run $n $mode)"
		done
	done
done | tee /dev/stderr | awk -v rows="$rows" '
	function median(list, count,   i, j, x) {
		for (i = 2; i <= count; i++)
			for (j = i; j > 1 && list[j] < list[j - 1]; j--) { x = list[j]; list[j] = list[j - 1]; list[j - 1] = x }
		return list[int((count + 1) / 2)]
	}
	{ rate[$1, $2, ++count[$1, $2]] = rows / $3 * 1e3; sleeps[$1, $2] += $4; requests[$1, $2] += $5 }
	END {
		print "consumers  copied Mrows/CPU s  once Mrows/CPU s  ratio  lane sleeps/1000 requests, copied  once"
		for (n = 2; n <= 8; n *= 2) {
			c = count[n, "off"]
			for (i = 1; i <= c; i++) { off[i] = rate[n, "off", i]; on[i] = rate[n, "on", i]; ratio[i] = on[i] / off[i] }
			printf "%9d  %18.2f  %16.2f  %5.2f  %33.0f  %4.0f\n", n, median(off, c), median(on, c), median(ratio, c),
				1000 * sleeps[n, "off"] / requests[n, "off"], 1000 * sleeps[n, "on"] / requests[n, "on"]
		}
	}'
