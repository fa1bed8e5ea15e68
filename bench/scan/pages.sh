#!/usr/bin/env bash
# pages.sh: heap pages as they are against columns: CPU per row of the sending backend, of the reading one and of both engines, and
# time, of one pull each way. One coordinator and one data node on this machine; interleaved rounds, medians, ratios pages / columns.
#
#   SF     TPC-H scale (default 0.3: 1.8 million line items, 3 million rows of nums)      RUNS  rounds (default 5)
#   PULLS  "narrow medium wide filter dead"       TRANSPORTS "soft tcp" (rdma_fdw.provider)
#   OUT    a file for the table, besides the terminal
#
# narrow, medium and wide are those of run.sh; filter is wide with a condition that one row in ten passes; dead is medium on a table
# where three rows of four were deleted and not vacuumed away.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
sf=${SF:-0.3} runs=${RUNS:-5}
read -ra pulls <<<"${PULLS:-narrow medium wide filter dead}"
read -ra transports <<<"${TRANSPORTS:-soft tcp}"
bench_begin
bench_tpch
settings=(shared_buffers="$(awk -v sf="$sf" 'BEGIN { printf "%dMB", 256 + sf * 3584 }')" work_mem=256MB jit=off wal_level=minimal
	max_wal_senders=0 max_wal_size=8GB fsync=off autovacuum=off max_parallel_workers_per_gather=0)
rf_start n1 "${settings[@]}"
for transport in "${transports[@]}"; do
	rf_start "$transport" "${settings[@]}" rdma_fdw.provider="$transport"
done
rows=$(awk -v sf="$sf" 'BEGIN { printf "%d", sf * 10000000 }')
sed -n '/^CREATE TABLE lineitem/,$p' "$tree/bench/tpch/schema.sql" | rf_psql n1 -q -v decimal='double precision'
"$dir/tpchgen" -s "$sf" -t lineitem -n 1 -i 0 | rf_psql n1 -q -c "\\copy lineitem from pstdin"
rf_psql n1 -q <<-SQL
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE nums (a bigint NOT NULL, b bigint NOT NULL, c double precision NOT NULL, d int NOT NULL);
	INSERT INTO nums SELECT i, i * 7919 % 1000003, i * 0.5, i % 1000 FROM generate_series(1::bigint, $rows) i;
	CREATE TABLE dead AS TABLE nums;
	VACUUM (FREEZE, ANALYZE);
	DELETE FROM dead WHERE a % 4 <> 0;
	SECURITY LABEL FOR rdma_fdw ON TABLE lineitem IS 'page_shipping';
	SECURITY LABEL FOR rdma_fdw ON TABLE nums IS 'page_shipping';
	SECURITY LABEL FOR rdma_fdw ON TABLE dead IS 'page_shipping';
SQL
for transport in "${transports[@]}"; do
	rf_psql "$transport" -q <<-SQL
		SET client_min_messages = warning;
		CREATE EXTENSION rdma_fdw;
		CREATE SCHEMA pages; CREATE SCHEMA columns;
		$(bench_server pages n1 rdma_fdw "options '-c rdma_fdw.allow_page_shipping=on'")
		$(bench_server columns n1)
		IMPORT FOREIGN SCHEMA public FROM SERVER pages INTO pages;
		IMPORT FOREIGN SCHEMA public FROM SERVER columns INTO columns;
	SQL
done
all=$(rf_sql n1 "SELECT string_agg(format('count(%s)', attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'lineitem'::regclass AND attnum > 0")
declare -A query=(
	[narrow]='SELECT sum(l_quantity), sum(l_extendedprice) FROM (SELECT l_quantity, l_extendedprice FROM %s.lineitem OFFSET 0) t'
	[medium]='SELECT sum(a), sum(b), sum(c), sum(d) FROM (SELECT * FROM %s.nums OFFSET 0) t'
	[wide]="SELECT $all FROM (SELECT * FROM %s.lineitem OFFSET 0) t"
	[filter]="SELECT $all FROM (SELECT * FROM %s.lineitem WHERE l_partkey %% 10 = 3 OFFSET 0) t"
	[dead]='SELECT sum(a), sum(b), sum(c), sum(d) FROM (SELECT * FROM %s.dead OFFSET 0) t')

# cpu PID: nanoseconds of all its threads, so far
cpu() { cat "/proc/$1/task"/*/schedstat 2>/dev/null | awk '{ ns += $1 } END { printf "%.0f", ns }'; }

# ask SQL: its answer's first line, from the session
ask()
{
	local line answer=
	printf '%s;\n\\echo done\n' "$1" >&"${session[1]}"
	while read -r line <&"${session[0]}" && [ "$line" != done ]; do answer=${answer:-$line}; done
	printf '%s\n' "$answer"
}

# one NAME SCHEMA SQL: NAME SCHEMA sender reader engines wall, in ns
one()
{
	local before after start stop
	before="$(cpu "${sender[$2]}") $(cpu "$reader") $(($(cpu "$n1_engine") + $(cpu "$engine")))"
	start=$(date +%s%N)
	ask "$3" >/dev/null
	stop=$(date +%s%N)
	after="$(cpu "${sender[$2]}") $(cpu "$reader") $(($(cpu "$n1_engine") + $(cpu "$engine")))"
	awk -v a="$after" -v b="$before" -v name="$1 $2" -v wall=$((stop - start)) 'BEGIN {
		split(a, x); split(b, y); printf "%s %d %d %d %d\n", name, x[1] - y[1], x[2] - y[2], x[3] - y[3], wall }'
}

declare -A sender
for transport in "${transports[@]}"; do
	coproc session { rf_psql "$transport" -qAt 2>&1; }
	client=$session_PID
	reader=$(ask 'SELECT pg_backend_pid()')
	engine=$(rf_engine_pid "$transport") n1_engine=$(rf_engine_pid n1)
	for schema in pages columns; do
		ask "SELECT count(d) FROM $schema.nums WHERE a = 1" >/dev/null
		sender[$schema]=$(rf_sql n1 "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid NOT IN (0${sender[pages]:+, ${sender[pages]}}) ORDER BY backend_start DESC LIMIT 1")
	done
	for run in $(seq 0 "$runs"); do
		for pull in "${pulls[@]}"; do
			for schema in pages columns; do
				# shellcheck disable=SC2059
				line=$(one "$transport $pull" $schema "$(printf "${query[$pull]}" $schema)")
				[ "$run" = 0 ] || printf '%s\n' "$line"
			done
		done
	done >>"$dir/raw"
	printf '\\q\n' >&"${session[1]}"
	wait "$client" || true
	unset 'sender[pages]' 'sender[columns]'
done
declare -A counts
counts[narrow]=$(rf_sql n1 'SELECT count(*) FROM lineitem') counts[medium]=$rows counts[dead]=$((rows / 4))
counts[wide]=${counts[narrow]} counts[filter]=${counts[narrow]}
{
	printf '%-6s %-8s %28s %28s %28s %24s\n' "" "" 'sender, ns per row' 'reader, ns per row' 'both engines, ns per row' 'time, ms'
	for transport in "${transports[@]}"; do
		for pull in "${pulls[@]}"; do
			awk -v t="$transport" -v p="$pull" -v rows="${counts[$pull]}" '
				function median(list, a, n, i, j, x) {
					n = split(list, a, " ")
					for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j - 1]; j--) { x = a[j]; a[j] = a[j - 1]; a[j - 1] = x }
					return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
				}
				$1 == t && $2 == p { for (i = 4; i <= 7; i++) v[$3, i] = v[$3, i] " " $i }
				END {
					printf "%-6s %-8s", t == "auto" ? "shm" : t, p
					for (i = 4; i <= 7; i++) {
						a = median(v["pages", i]); b = median(v["columns", i]); unit = i == 7 ? 1e6 : rows
						printf " %9.1f / %7.1f (%.2f)", a / unit, b / unit, (b > 0 ? a / b : 0)
					}
					printf "\n"
				}' "$dir/raw"
		done
	done
} | tee ${OUT:+"$OUT"}
