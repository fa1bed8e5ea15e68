#!/usr/bin/env bash
# run.sh: how fast a pull is. One coordinator and two data nodes on this machine, rows crossing to the coordinator, against a
# local scan, postgres_fdw, COPY to a client, and the bare loops of floor/floor.c. Interleaved runs, medians, ratios first.
#
#   SF     TPC-H scale (default 1: 6 million line items, 10 million rows of nums)     RUNS  rounds (default 5)
#   MINUTES  fewer rounds where these would take longer (default 9; all take about half an hour)
#   PULLS  "narrow medium wide"        PARTS  "pulls nodes cpu latency memory idle"             CASES a pattern for the pulls' cases
#   OUT    where table, CSV and plot go (default build/bench-scan)
#   DIR    keep clusters and data in this folder and use them again the next time (default: a throw-away folder in /tmp)
#   ALL=1  adds postgres_fdw with fetch_size 100 and a parallel local scan
#   MODE   pgbench's query mode for single rows: simple, extended or prepared (default simple)
#   VERBS=1 adds a coordinator that uses rdma_fdw.provider = verbs (machines with a device)
#
# Every table fits shared_buffers and is prewarmed: where the kernel drops file pages that nobody uses for a moment, a "warm"
# scan of the page cache is not warm.
# Data: lineitem with double precision where TPC-H says decimal, so that the aggregate does not hide the pull; everything is
# frozen, prewarmed, jit off, no parallel workers unless the case says so. n1 has the whole tables and half of them, n2 the
# other half; the coordinator has local copies.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
here=$tree/bench/scan
sf=${SF:-1} runs=${RUNS:-5} out=${OUT:-$tree/build/bench-scan}
read -ra pulls <<<"${PULLS:-narrow medium wide}"
parts=${PARTS:-pulls nodes cpu latency memory idle}
rows=$(awk -v sf="$sf" 'BEGIN { printf "%d", sf * 10000000 }')
mkdir -p "$out"
raw=$out/raw.csv

# ---- clusters and data ----
bench_begin "${DIR:-}"
make -s -C "$here/floor" PG_CONFIG="${PG_CONFIG:-pg_config}" >&2
bench_tpch
cp "$here/floor/floor.so" "$dir/floor.so"
chmod a+r "$dir/floor.so"
settings=(shared_buffers=${SHARED_BUFFERS:-$(awk -v sf="$sf" 'BEGIN { printf "%dMB", 512 + sf * 3584 }')} work_mem=256MB jit=off max_wal_size=16GB wal_level=minimal max_wal_senders=0
	checkpoint_timeout=1d max_parallel_workers_per_gather=0)
coords=(shm tcp tls)
[ -z "${VERBS:-}" ] || coords+=(verbs)
say "starting clusters"
# Data nodes leave encryption to the coordinator.
rf_start n1 "${settings[@]}" rdma_fdw.encryption=off
rf_start n2 "${settings[@]}" rdma_fdw.encryption=off
rf_start shm "${settings[@]}"
rf_start tcp "${settings[@]}" rdma_fdw.provider=tcp rdma_fdw.encryption=off
rf_start tls "${settings[@]}" rdma_fdw.provider=tcp
[ -z "${VERBS:-}" ] || rf_start verbs "${settings[@]}" rdma_fdw.provider=verbs

# table_data CLUSTER SUFFIX NODES NODE: lineitem and nums, whole or a node's half
table_data()
{
	local name=$1 suffix=$2 nodes=$3 node=$4
	sed -n '/^CREATE TABLE lineitem/,$p' "$tree/bench/tpch/schema.sql" |
		sed "s/TABLE lineitem/TABLE lineitem$suffix/" | rf_psql "$name" -q -v decimal='double precision'
	"$dir/tpchgen" -s "$sf" -t lineitem -n "$nodes" -i "$node" |
		rf_psql "$name" -q -c "\\copy lineitem$suffix from pstdin"
	rf_psql "$name" -q <<-SQL
		CREATE TABLE nums$suffix (a bigint NOT NULL, b bigint NOT NULL, c double precision NOT NULL, d int NOT NULL);
		INSERT INTO nums$suffix SELECT i, i * 7919 % 1000003, i * 0.5, i % 1000 FROM generate_series(1::bigint, $rows) i
		WHERE i % $nodes = $node;
		ALTER TABLE nums$suffix ADD PRIMARY KEY (a);
		VACUUM (FREEZE, ANALYZE);
	SQL
}
if ! rf_run test -e "$RF_ROOT/loaded.$sf"; then
	say "loading scale $sf (once)"
	table_data n1 "" 1 0 &
	table_data shm "" 1 0
	wait $!
	table_data n1 _half 2 0 &
	table_data n2 _half 2 1
	wait $!
	for name in n1 n2; do
		rf_sql $name "CREATE EXTENSION rdma_fdw; CREATE EXTENSION pg_prewarm" >/dev/null
	done
	for name in "${coords[@]}"; do
		rf_sql "$name" "CREATE EXTENSION rdma_fdw; CREATE EXTENSION postgres_fdw" >/dev/null
	done
	rf_sql shm "CREATE EXTENSION pg_prewarm" >/dev/null
	rf_run touch "$RF_ROOT/loaded.$sf"
fi
for name in n1 n2 shm; do
	rf_sql $name "SELECT sum(pg_prewarm(oid)) FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace" >/dev/null
done

# Ports are new in every run, so servers are made again.
half_views() { printf 'CREATE VIEW %s AS SELECT * FROM %s UNION ALL SELECT * FROM %s;\n' "$@"; }
for name in "${coords[@]}"; do
	rf_psql "$name" -q >/dev/null 2>&1 <<-SQL
		DROP SCHEMA IF EXISTS rdma1, rdma2, rdmac, pg1, pg2, floor CASCADE;
		DROP FUNCTION IF EXISTS floor_send(regclass, text);
		DROP FOREIGN DATA WRAPPER IF EXISTS floor CASCADE;
		DROP FUNCTION IF EXISTS floor_handler();
		DROP SERVER IF EXISTS pair, n1, n2, p1, p2 CASCADE;
		CREATE SCHEMA rdma1; CREATE SCHEMA rdma2; CREATE SCHEMA rdmac; CREATE SCHEMA pg1; CREATE SCHEMA pg2; CREATE SCHEMA floor;
		$(bench_server n1 n1)
		$(bench_server n2 n2)
		$(bench_server p1 n1 postgres_fdw "fetch_size '10000', async_capable 'true'")
		$(bench_server p2 n2 postgres_fdw "fetch_size '10000', async_capable 'true'")
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem, nums) FROM SERVER p1 INTO pg1;
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem_half, nums_half) FROM SERVER p1 INTO pg1;
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem_half, nums_half) FROM SERVER p2 INTO pg2;
		$(half_views pg2.lineitem pg1.lineitem_half pg2.lineitem_half) $(half_views pg2.nums pg1.nums_half pg2.nums_half)
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem, nums) FROM SERVER n1 INTO rdma1;
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem_half, nums_half) FROM SERVER n1 INTO rdma1;
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem_half, nums_half) FROM SERVER n2 INTO rdma2;
		CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
		IMPORT FOREIGN SCHEMA public LIMIT TO (lineitem_half, nums_half) FROM SERVER pair INTO rdmac;
		ALTER FOREIGN TABLE rdmac.lineitem_half RENAME TO lineitem;
		ALTER FOREIGN TABLE rdmac.nums_half RENAME TO nums;
		$(half_views rdma2.lineitem rdma1.lineitem_half rdma2.lineitem_half) $(half_views rdma2.nums rdma1.nums_half rdma2.nums_half)
	SQL
done

# ---- the pulls ----
lineitem_columns=l_orderkey,l_partkey,l_suppkey,l_linenumber,l_quantity,l_extendedprice,l_discount,l_tax,l_returnflag,l_linestatus,l_shipdate,l_commitdate,l_receiptdate,l_shipinstruct,l_shipmode,l_comment
declare -A table columns target
table[narrow]=lineitem columns[narrow]=l_quantity,l_extendedprice
target[narrow]='sum(l_quantity), sum(l_extendedprice)'
table[medium]=nums columns[medium]=a,b,c,d
target[medium]=${MEDIUM:-'sum(a), sum(b), sum(c), sum(d)'}
table[wide]=lineitem columns[wide]=$lineitem_columns
target[wide]=$(sed 's/\([a-z_]*\)/count(\1)/g' <<<"$lineitem_columns")

# The subquery's OFFSET 0 keeps any wrapper from aggregating remotely: the rows have to cross. It names the columns, because with * the
# planner fills the others with NULL, row by row.
query() { printf 'SELECT %s FROM (SELECT %s FROM %s OFFSET 0) t' "${target[$1]}" "${columns[$1]}" "$2.${table[$1]}"; }

# timed CLUSTER SETUP WARM SQL: milliseconds of SQL alone, after SETUP and WARM in the same session
timed()
{
	rf_psql "$1" -qAt -c "$2" -c "$3" -c '\timing on' -c "$4" </dev/null | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

# one PULL CASE: runs it once and prints milliseconds
one()
{
	local pull=$1 case=$2 t=${table[$1]} start end
	local peek="SELECT ${columns[$1]%%,*} FROM %s.$t LIMIT 1"
	case $case in
		local) timed shm SELECT "$(printf "$peek" public)" "SELECT ${target[$pull]} FROM public.$t" ;;
		local_parallel) timed shm "SET max_parallel_workers_per_gather = 2" "$(printf "$peek" public)" "SELECT ${target[$pull]} FROM public.$t" ;;
		pgfdw_*) timed shm "ALTER SERVER p1 OPTIONS (SET fetch_size '${case#pgfdw_}'); ALTER SERVER p2 OPTIONS (SET fetch_size '${case#pgfdw_}')" \
			"$(printf "$peek" pg1)" "$(query "$pull" pg1)" ;;
		pgfdw2_*) timed shm "ALTER SERVER p1 OPTIONS (SET fetch_size '${case#pgfdw2_}'); ALTER SERVER p2 OPTIONS (SET fetch_size '${case#pgfdw2_}')" \
			"$(printf "$peek" pg2)" "$(query "$pull" pg2)" ;;
		copy)
			start=$(date +%s%N)
			rf_run "$RF_BINDIR/psql" -X -h 127.0.0.1 -p "$(rf_port n1)" -U postgres -d postgres -q \
				-c "COPY (SELECT ${columns[$pull]} FROM $t) TO STDOUT (FORMAT binary)" >/dev/null
			end=$(date +%s%N)
			awk -v ns=$((end - start)) 'BEGIN { printf "%.3f\n", ns / 1e6 }'
			;;
		rdma_*_2) timed "$(cut -d_ -f2 <<<"$case")" SELECT "$(printf "$peek" rdma2)" "$(query "$pull" rdma2)" ;;
		rdma_*_cluster) timed "$(cut -d_ -f2 <<<"$case")" SELECT "$(printf "$peek" rdmac)" "$(query "$pull" rdmac)" ;;
		rdma_*_1buffer) timed "$(cut -d_ -f2 <<<"$case")" "SET rdma_fdw.receive_buffers = 1" "$(printf "$peek" rdma1)" "$(query "$pull" rdma1)" ;;
		rdma_*) timed "${case#rdma_}" SELECT "$(printf "$peek" rdma1)" "$(query "$pull" rdma1)" ;;
		floor_send) timed shm SELECT SELECT "SELECT floor_send('public.$t', '${columns[$pull]}')" ;;
		floor_receive) timed shm SELECT "SELECT * FROM floor.$pull LIMIT 1" "SELECT ${target[$pull]} FROM floor.$pull" ;;
	esac
}

cases=(local rdma_shm rdma_tcp rdma_tls rdma_shm_1buffer rdma_shm_2 rdma_shm_cluster copy pgfdw_10000 pgfdw_50000 pgfdw2_10000 floor_send floor_receive)
[ -z "${VERBS:-}" ] || cases+=(rdma_verbs rdma_verbs_2 rdma_verbs_cluster)
[ -z "${ALL:-}" ] || cases+=(pgfdw_100 local_parallel)
mapfile -t cases < <(printf '%s\n' "${cases[@]}" | grep -E "${CASES:-.}")

floors()
{
	local pull
	rf_psql shm -q <<-SQL
		CREATE FUNCTION floor_send(regclass, text) RETURNS bigint AS '$dir/floor' LANGUAGE C STRICT;
		CREATE FUNCTION floor_handler() RETURNS fdw_handler AS '$dir/floor' LANGUAGE C;
		CREATE FOREIGN DATA WRAPPER floor HANDLER floor_handler;
		CREATE SERVER floor FOREIGN DATA WRAPPER floor;
		DO \$\$
		DECLARE
			p record;
		BEGIN
			FOR p IN SELECT * FROM (VALUES $(for pull in "${pulls[@]}"; do
				printf "('%s', '%s', '%s')," "$pull" "${table[$pull]}" "${columns[$pull]}"; done | sed 's/,$//')) v(pull, source, columns)
			LOOP
				EXECUTE format('CREATE FOREIGN TABLE floor.%I (%s) SERVER floor OPTIONS (source %L, rows %L)', p.pull,
					(SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY n)
					 FROM unnest(string_to_array(p.columns, ',')) WITH ORDINALITY u(name, n)
					 JOIN pg_attribute ON attname = name AND attrelid = format('public.%I', p.source)::regclass),
					'public.' || p.source,
					(SELECT reltuples::bigint FROM pg_class WHERE oid = format('public.%I', p.source)::regclass));
			END LOOP;
		END \$\$;
	SQL
}

run_pulls()
{
	local round pull case ms
	floors
	echo "pull,case,ms" >"$raw"
	for ((round = 0; ; round++)); do
		another_round $round "$runs" || break
		for pull in "${pulls[@]}"; do
			say "round $round of at most $runs$([ "$round" != 0 ] || echo ' (warming up, not counted)'): $pull"
			for case in "${cases[@]}"; do
				if ms=$(one "$pull" "$case") && [ -n "$ms" ]; then
					[ "$round" = 0 ] || echo "$pull,$case,$ms" >>"$raw"
				else
					say "$pull $case failed"
				fi
			done
		done
	done
	perl "$here/report.pl" "$out"
}

# ---- CPU time: who spends how much on a pull. It says what the seconds are made of, and it is steady on a busy machine too ----

# cpu_ms PID: of all its threads, so far
cpu_ms() { cat "/proc/$1/task"/*/schedstat 2>/dev/null | awk '{ ns += $1 } END { printf "%d", ns / 1e6 }'; }

# cpu_case PULL CASE CLUSTER WARM SQL
cpu_case()
{
	local pull=$1 case=$2 name=$3 client pid senders i who before after
	local -A spent
	coproc session { rf_psql "$name" -qAt 2>&1; }
	client=$session_PID
	printf "%s;\nSELECT 'pid ' || pg_backend_pid();\n" "$4" >&"${session[1]}"
	while read -r pid <&"${session[0]}" && [[ $pid != pid\ * ]]; do :; done
	pid=${pid#pid }
	senders=$(rf_sql n1 "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	local -A pids=([reader]=$pid [sender]=${senders%%$'\n'*} [reader_engine]=$(rf_engine_pid "$name") [sender_engine]=$(rf_engine_pid n1))
	step_of $((left--))
	for ((i = 1; ; i++)); do
		another_round $i "$runs" || break
		local -A start=()
		for who in "${!pids[@]}"; do
			[ -z "${pids[$who]}" ] || start[$who]=$(cpu_ms "${pids[$who]}")
		done
		printf '%s;\n\\echo done\n' "$5" >&"${session[1]}"
		while read -r after <&"${session[0]}" && [ "$after" != done ]; do :; done
		for who in "${!start[@]}"; do
			spent[$who]+="$(($(cpu_ms "${pids[$who]}") - start[$who])) "
		done
	done
	printf '\\q\n' >&"${session[1]}"
	wait "$client" || true
	printf '%-8s %-14s' "$pull" "$case"
	for who in reader sender reader_engine sender_engine; do
		printf ' %9s' "$(tr ' ' '\n' <<<"${spent[$who]:-}" | grep . | sort -n | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }')"
	done
	printf '\n'
}

run_cpu()
{
	local pull t peek budget=$step_end left=$((7 * ${#pulls[@]}))
	floors >/dev/null 2>&1 || true
	{
		printf '%-8s %-14s %9s %9s %9s %9s\n' 'CPU ms' '' reader sender 'engine/r' 'engine/s'
		for pull in "${pulls[@]}"; do
			t=${table[$pull]}
			say "CPU time: $pull"
			peek="SELECT count(${columns[$pull]%%,*}) FROM (SELECT * FROM %s.$t LIMIT 1) x"
			cpu_case "$pull" local shm "$(printf "$peek" public)" "SELECT ${target[$pull]} FROM public.$t"
			cpu_case "$pull" rdma_shm shm "$(printf "$peek" rdma1)" "$(query "$pull" rdma1)"
			cpu_case "$pull" rdma_tcp tcp "$(printf "$peek" rdma1)" "$(query "$pull" rdma1)"
			cpu_case "$pull" rdma_tls tls "$(printf "$peek" rdma1)" "$(query "$pull" rdma1)"
			cpu_case "$pull" pgfdw_10000 shm "$(printf "$peek" pg1)" "$(query "$pull" pg1)"
			cpu_case "$pull" floor_send shm "SELECT 1 WHERE false" "SELECT floor_send('public.$t', '${columns[$pull]}')"
			cpu_case "$pull" floor_receive shm "SELECT count(*) FROM floor.$pull" "SELECT ${target[$pull]} FROM floor.$pull"
		done
	} | tee "$out/cpu.txt"
}

# ---- two nodes with half of the rows each, against one with all: everything crosses, or one row in a thousand. One after the
# other (async_capable false), the default (started early; asynchronous if that looks worth it), asynchronous (true). ----
run_nodes()
{
	local round kind case schema filter option
	for option in false true; do
		rf_psql shm -q <<-SQL >/dev/null
			SET client_min_messages = warning;
			DROP SCHEMA IF EXISTS nodes_$option, nodes1_$option, nodes2_$option CASCADE;
			CREATE SCHEMA nodes_$option; CREATE SCHEMA nodes1_$option; CREATE SCHEMA nodes2_$option;
			IMPORT FOREIGN SCHEMA public LIMIT TO (nums_half) FROM SERVER n1 INTO nodes1_$option;
			IMPORT FOREIGN SCHEMA public LIMIT TO (nums_half) FROM SERVER n2 INTO nodes2_$option;
			ALTER FOREIGN TABLE nodes1_$option.nums_half OPTIONS (ADD async_capable '$option');
			ALTER FOREIGN TABLE nodes2_$option.nums_half OPTIONS (ADD async_capable '$option');
			$(half_views nodes_$option.nums nodes1_$option.nums_half nodes2_$option.nums_half)
		SQL
	done
	echo "kind,case,ms" >"$out/nodes.csv"
	for ((round = 0; ; round++)); do
		another_round $round "$runs" || break
		say "two nodes: round $round of at most $runs"
		for kind in bulk selective; do
			filter=
			[ $kind = bulk ] || filter=' WHERE b % 1000 = 7'
			for case in one:rdma1 serial:nodes_false default:rdma2 async:nodes_true; do
				schema=${case#*:}
				ms=$(timed shm SELECT "SELECT a FROM $schema.nums LIMIT 1" \
					"SELECT ${target[medium]} FROM (SELECT * FROM $schema.nums$filter OFFSET 0) t")
				[ "$round" = 0 ] || echo "$kind,${case%:*},$ms" >>"$out/nodes.csv"
			done
		done
	done
	awk -F, 'NR > 1 { v[$1, $2] = v[$1, $2] " " $3; kinds[$1]; cases[$2] }
		function median(list, a, n, i, j, t) {
			n = split(list, a, " ")
			for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j] < a[j - 1]; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
			return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
		}
		END {
			printf "%-10s %12s %24s %24s %24s\n", "two nodes", "one node, ms", "one after the other", "default", "async Append"
			for (kind in kinds) {
				one = median(v[kind, "one"])
				printf "%-10s %12.1f", kind, one
				split("serial default async", order, " ")
				for (i = 1; i <= 3; i++) { m = median(v[kind, order[i]]); printf " %15.1f (%.2f x)", m, m / one }
				printf "\n"
			}
		}' "$out/nodes.csv" | tee "$out/nodes.txt"
}

# ---- single rows: pgbench writes every latency ----
run_latency()
{
	local round name prefix script
	prefix=$RF_ROOT/latency
	rf_run rm -rf "$prefix"
	rf_run mkdir -p "$prefix"
	for name in rdma1 pg1; do
		printf '\\set k random(1, %s)\nSELECT b, c, d FROM %s.nums WHERE a = :k;\n' "$rows" $name | rf_run tee "$prefix/$name.sql" >/dev/null
	done
	rf_sql shm "ALTER SERVER p1 OPTIONS (SET fetch_size '100')" >/dev/null
	for round in 0 1 2 3 4 5; do
		for name in rdma1 pg1; do
			script=$prefix/$name.sql
			(cd / && rf_run "$RF_BINDIR/pgbench" -n -h "$RF_SOCKETS" -p "$(rf_port shm)" -U postgres -M "${MODE:-simple}" -c 1 -t 2000 -f "$script" \
				-l --log-prefix="$prefix/$name.$round" postgres >/dev/null 2>&1) || say "pgbench of $name failed"
		done
	done
	rf_run sh -c "rm -f $prefix/*.0.*"
	for name in rdma1 pg1; do
		rf_run sh -c "cat $prefix/$name.[1-9].*" | awk '{ print $3 }' | sort -n | awk -v name="$name" '
			{ us[NR] = $1 } END { if (NR) printf "latency %s median %d us, p99 %d us, %d lookups\n", name, us[int(NR * 0.5) + 1], us[int(NR * 0.99) + 1], NR }'
	done | awk '{ print } { m[$2] = $4; p[$2] = $7 }
		END { if (m["pg1"]) printf "single row, rdma_fdw against postgres_fdw: median %.2f x, p99 %.2f x (target 1.10 x)\n", m["rdma1"] / m["pg1"], p["rdma1"] / p["pg1"] }' |
		tee "$out/latency.txt"
}

# ---- memory of the coordinator's backend: peak of what is its own (RssAnon), while 10 million rows pass ----
run_memory()
{
	local name pid before peak now client
	for name in rdma1 pg1; do
		coproc session { rf_psql shm -qAt 2>&1; }
		client=$session_PID
		printf "SELECT count(b) FROM (SELECT * FROM %s.nums LIMIT 1) t;\nSELECT pg_backend_pid();\n" $name >&"${session[1]}"
		read -r _ <&"${session[0]}"
		read -r pid <&"${session[0]}"
		before=$(awk '/RssAnon/ { print $2 }' "/proc/$pid/status")
		printf '%s;\n\\q\n' "$(query medium $name)" >&"${session[1]}"
		peak=$before
		while now=$(awk '/RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
			[ "$now" -le "$peak" ] || peak=$now
			sleep 0.01
		done
		wait "$client" || true
		printf 'memory %s: %s rows pulled, the backend'"'"'s own memory grew by %d kB (from %d kB)\n' $name "$rows" $((peak - before)) "$before"
	done | tee "$out/memory.txt"
}

# ---- the engine when nothing happens ----
run_idle()
{
	local name pid before after
	sleep 2
	for name in shm n1; do
		pid=$(rf_engine_pid $name)
		[ -n "$pid" ] || { say "no engine found in $name"; continue; }
		before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
		sleep 10
		after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
		printf 'idle engine of %s: %d ms of CPU in 10 s\n' "$name" $(((after - before) * 1000 / $(getconf CLK_TCK)))
	done | tee "$out/idle.txt"
}

# Shares of the time: a round of the pulls takes longest.
declare -A share=([pulls]=6 [nodes]=1 [cpu]=3 [latency]=1 [memory]=1 [idle]=1)
left=0
for part in $parts; do
	left=$((left + share[$part]))
done
for part in $parts; do
	say "$part"
	step_of $left "${share[$part]}"
	left=$((left - share[$part]))
	"run_$part"
done
say "written to $out"
