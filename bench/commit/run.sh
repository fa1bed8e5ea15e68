#!/usr/bin/env bash
# run.sh: transactions over one, two and three data nodes, with fsync on: rdma_fdw.commit = atomic, best_effort, and postgres_fdw, which
# commits on each node separately, too (parallel_commit). Interleaved runs, medians, ratios.
#
#   transfers   per second: two updates on one node, or one update on each of two or three, or on a node and here
#   WAL syncs   of all servers together per transfer of one client; atomic has to have exactly 2k + 1 for k > 1 nodes (or a node and
#               local tables, k = 1), and the bench fails if it has not
#   reads       of two nodes per second beside writers that transfer between them: statements of some 20 ms of work, and of none but
#               their snapshots; and how many were torn: with one snapshot of both there may be none, also of READS (default 100,000)
#               more, and the bench fails if there is one
#   one node    lookups and updates by key per second, atomic against best_effort, with fsync off there: the disk would cover the rest
#
#   CLIENTS  of transfers (default "1 16")      TIME  seconds of a measurement (default 5)     RUNS  rounds (default 3)
#   MINUTES  fewer rounds, so that the whole ends in time (default 9, and what READS take)
#   OUT      where table, TSV and plot go (default build/bench-commit)      DIR   keep clusters and data there
#   NOTE     a line about the machine for the table
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
read -ra crowds <<<"${CLIENTS:-1 16}"
time=${TIME:-5} runs=${RUNS:-3} out=${OUT:-$tree/build/bench-commit}
rows=10000 synced=200 readers=2 writers=4 many=${READS:-100000}
mkdir -p "$out"
raw=$out/raw.tsv
bench_begin "${DIR:-}"
# Nothing but commits writes or flushes WAL while syncs are counted.
settings=(fsync=on full_page_writes=on shared_buffers=128MB jit=off autovacuum=off max_connections=100 max_wal_size=4GB wal_level=minimal
	max_wal_senders=0 checkpoint_timeout=1h bgwriter_delay=10s wal_writer_delay=10s rdma_fdw.measured_costs=off)
nodes=(n1 n2 n3)
say "starting clusters"
for name in "${nodes[@]}" coord; do
	rf_start "$name" "${settings[@]}"
done
# what a run before this one has set in the folder that is kept
for name in "${nodes[@]}" coord; do
	rf_psql "$name" -qc 'ALTER SYSTEM RESET ALL' -c 'SELECT pg_reload_conf()' >/dev/null
done
if ! rf_run test -e "$RF_ROOT/loaded"; then
	for name in "${nodes[@]}"; do
		rf_psql "$name" -q <<-SQL
			CREATE EXTENSION rdma_fdw;
			CREATE TABLE acc (id int PRIMARY KEY, balance bigint NOT NULL, filler text) WITH (fillfactor = 50);
			INSERT INTO acc SELECT g, 100, repeat('x', 80) FROM generate_series(1, $rows) g;
			VACUUM (FREEZE, ANALYZE) acc;
		SQL
	done
	rf_psql coord -q <<-SQL
		CREATE EXTENSION rdma_fdw;
		CREATE EXTENSION postgres_fdw;
		CREATE TABLE here (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);
		INSERT INTO here SELECT g, 100 FROM generate_series(1, $rows) g;
		CREATE TABLE torn (kind text, sum bigint);
		VACUUM (FREEZE, ANALYZE);
	SQL
	rf_run touch "$RF_ROOT/loaded"
fi
for wrapper in rdma_fdw postgres_fdw; do
	for name in "${nodes[@]}"; do
		rf_psql coord -q <<-SQL
			SET client_min_messages = warning;
			DROP SERVER IF EXISTS ${wrapper}_$name CASCADE;
			DROP SCHEMA IF EXISTS ${wrapper}_$name CASCADE;
			$(bench_server "${wrapper}_$name" "$name" "$wrapper" "parallel_commit 'true'")
			CREATE SCHEMA ${wrapper}_$name;
			IMPORT FOREIGN SCHEMA public LIMIT TO (acc) FROM SERVER ${wrapper}_$name INTO ${wrapper}_$name;
			ANALYZE ${wrapper}_$name.acc;
		SQL
	done
done
rf_psql coord -qc 'TRUNCATE torn'

# ---- scripts of pgbench, for each wrapper
scripts=$dir/scripts
mkdir -p "$scripts"
for wrapper in rdma_fdw postgres_fdw; do
	table() { printf '%s_n%d.acc' "$wrapper" "$1"; }
	draw="\\set a random(1, $rows)
\\set b random(1, $rows)
\\set c random(1, $rows)
\\set m random(1, 9)
BEGIN;"
	add() { printf 'UPDATE %s SET balance = balance + %s WHERE id = %s;\n' "$1" "$2" "$3"; }
	# two rows of a node in one order, so that clients do not wait for each other in a circle
	{ echo "$draw"; add "$(table 1)" -:m 'least(:a, :b)'; add "$(table 1)" :m 'greatest(:a, :b)'; echo 'COMMIT;'; } >"$scripts/$wrapper.1"
	{ echo "$draw"; add "$(table 1)" -:m :a; add "$(table 2)" :m :b; echo 'COMMIT;'; } >"$scripts/$wrapper.2"
	{ echo "$draw"; add "$(table 1)" '-2 * :m' :a; add "$(table 2)" :m :b; add "$(table 3)" :m :c; echo 'COMMIT;'; } >"$scripts/$wrapper.3"
	{ echo "$draw"; add here -:m :a; add "$(table 1)" :m :b; echo 'COMMIT;'; } >"$scripts/$wrapper.here"
	printf '\\set a random(1, %d)\nSELECT balance FROM %s WHERE id = :a;\n' $rows "$(table 1)" >"$scripts/$wrapper.lookup"
	printf '\\set a random(1, %d)\n' $rows >"$scripts/$wrapper.update"
	add "$(table 1)" 1 :a >>"$scripts/$wrapper.update"
done
chmod -R a+rX "$scripts"

# pgb CASE CLIENTS SCRIPT ARG ...: pgbench in a case; prints committed per second and transactions that failed
pgb()
{
	local case=$1 clients=$2 script=$3 wrapper=rdma_fdw said options='-c client_min_messages=error'
	shift 3
	case $case in
		postgres_fdw) wrapper=postgres_fdw ;;
		each_node) options+=" -c rdma_fdw.snapshot=each_node" ;;
		*) options+=" -c rdma_fdw.commit=$case" ;;
	esac
	said=$(PGOPTIONS=$options rf_run "$RF_BINDIR/pgbench" -n -h "$RF_SOCKETS" -p "$(rf_port coord)" -U postgres -c "$clients" -j "$((clients < 2 ? 1 : 2))" \
		--max-tries=1000 -f "$scripts/$wrapper.$script" "$@" postgres 2>"$dir/pgbench.$script.err") || { cat "$dir/pgbench.$script.err" >&2; return 1; }
	awk '/^tps/ { tps = $3 } /^number of failed/ { failed = $5 } END { print tps + 0, failed + 0 }' <<<"$said"
}
measure() { local said; said=$(pgb "$2" "$3" "$4" -T "$time"); printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$4" "$3" "$2" "${said% *}" >>"$raw"; }

cases=(atomic best_effort postgres_fdw)
spreads=(1 2 3 here)
printf 'what\tspread\tclients\tcase\tvalue\n' >"$raw"

# ---- WAL syncs
syncs()
{
	local name sum=0 query='SELECT wal_sync FROM pg_stat_wal'
	# where PostgreSQL 18 and later have it
	[ "$(rf_sql coord "SELECT current_setting('server_version_num')::int >= 180000")" = f ] ||
		query="SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
	for name in "${nodes[@]}" coord; do
		sum=$((sum + $(rf_sql "$name" "$query")))
	done
	echo $sum
}
bad=0
rf_psql coord -qc "ALTER SYSTEM SET rdma_fdw.resolve = off" -c "SELECT pg_reload_conf()" >/dev/null
for case in "${cases[@]}"; do
	for spread in "${spreads[@]}"; do
		say "WAL syncs: $case, $spread"
		pgb "$case" 1 "$spread" -t 5 >/dev/null
		case $spread in 1) want=1 ;; here) want=3 ;; *) want=$((2 * spread + 1)) ;; esac
		# the WAL writer has one of its own now and then, so the least of some tries counts
		least=
		for ((try = 0; try < 4; try++)); do
			# what sessions have counted they report at their end
			sleep 1
			before=$(syncs)
			pgb "$case" 1 "$spread" -t $synced >/dev/null
			sleep 1
			after=$(syncs)
			[ -n "$least" ] && [ $((after - before)) -ge "$least" ] || least=$((after - before))
			if [ "$case" != atomic ] || [ "$least" = $((want * synced)) ]; then
				break
			fi
		done
		printf 'syncs\t%s\t1\t%s\t%s\n' "$spread" "$case" "$(awk -v n="$least" -v c=$synced 'BEGIN { print n / c }')" >>"$raw"
		if [ "$case" = atomic ] && [ "$least" != $((want * synced)) ]; then
			echo "$spread: $least WAL syncs of $synced transactions, not $((want * synced))" >&2
			bad=1
		fi
	done
done
rf_psql coord -qc "ALTER SYSTEM RESET rdma_fdw.resolve" -c "SELECT pg_reload_conf()" >/dev/null

# ---- transfers
step_of 5 3
for ((round = 0;; round++)); do
	another_round $round "$runs" || break
	say "transfers, round $round"
	for n in "${crowds[@]}"; do
		for spread in "${spreads[@]}"; do
			for ((i = 0; i < ${#cases[@]}; i++)); do
				case=${cases[(i + round) % ${#cases[@]}]}
				if [ $round = 0 ]; then
					pgb "$case" "$n" "$spread" -T 1 >/dev/null
				else
					measure transfers "$case" "$n" "$spread"
				fi
			done
		done
	done
done

# ---- reads beside writers that transfer between two rows of the same number, so that each pair has the same sum
pairs=$((rows / 100))
read_script()
{
	local kind=$1 reader=$2 wrapper=rdma_fdw sum condition='id <= :pairs'
	[ "$kind" != postgres_fdw ] || wrapper=postgres_fdw
	case $reader in
		# some 20 ms of work on the nodes
		long) sum="sum(balance) + 0 * sum(hashtext(filler)::bigint)" condition=true ;;
		# nothing but snapshots
		pair) sum='sum(balance)' condition='id = :a' ;;
	esac
	printf '\\set a random(1, :pairs)\n'
	printf 'SELECT (SELECT %s FROM %s_n1.acc WHERE %s) + (SELECT %s FROM %s_n2.acc WHERE %s) AS sum \\gset\n' "$sum" $wrapper "$condition" "$sum" $wrapper "$condition"
	printf "\\\\if :sum <> :total\nINSERT INTO torn VALUES ('%s', :sum);\n\\\\endif\n" "$kind"
}
kinds=(atomic each_node best_effort postgres_fdw)
for wrapper in rdma_fdw postgres_fdw; do
	{
		printf '\\set a random(1, %d)\n\\set m random(1, 9)\nBEGIN;\n' $pairs
		add "${wrapper}_n1.acc" -:m :a
		add "${wrapper}_n2.acc" :m :a
		echo 'COMMIT;'
	} >"$scripts/$wrapper.pairs"
done
for kind in "${kinds[@]}"; do
	for reader in long pair; do
		wrapper=rdma_fdw
		[ "$kind" != postgres_fdw ] || wrapper=postgres_fdw
		read_script "$kind" $reader >"$scripts/$wrapper.${reader}_$kind"
	done
done
chmod -R a+rX "$scripts"
for name in n1 n2; do
	rf_psql "$name" -qc "UPDATE acc SET balance = 100 WHERE id <= $pairs"
done
# read_beside KIND READER ARG ...: prints reads per second, beside writers until they are done
read_beside()
{
	local kind=$1 reader=$2 total writer
	shift 2
	total=$([ "$reader" = pair ] && echo 200 ||
		rf_sql coord "SELECT (SELECT sum(balance) FROM rdma_fdw_n1.acc) + (SELECT sum(balance) FROM rdma_fdw_n2.acc)")
	pgb "$kind" $writers pairs -T 600 >"$dir/writers" 2>/dev/null &
	writer=$!
	pgb "$kind" $readers "${reader}_$kind" -D total="$total" -D pairs=$pairs "$@" | cut -d' ' -f1
	rf_run pkill -f "pgbench.*-c $writers .*[p]airs" || true
	wait $writer || true
}
step_of 3
for ((round = 0;; round++)); do
	another_round $round "$runs" || break
	say "reads, round $round"
	for reader in long pair; do
		for ((i = 0; i < ${#kinds[@]}; i++)); do
			kind=${kinds[(i + round) % ${#kinds[@]}]}
			reads=$(read_beside "$kind" $reader -T "$([ $round = 0 ] && echo 1 || echo "$time")")
			[ $round = 0 ] || printf '%s\t2\t%s\t%s\t%s\n' $reader $readers "$kind" "$reads" >>"$raw"
		done
	done
	[ $round != 0 ] || rf_psql coord -qc "DELETE FROM torn WHERE kind <> 'atomic'"
done
rf_sql coord "SELECT 'torn', 2, $readers, k, (SELECT count(*) FROM torn WHERE kind = k) FROM unnest(string_to_array('${kinds[*]}', ' ')) k" | tr '|' '\t' >>"$raw"
say "$many reads"
read_beside atomic pair -t $((many / readers)) >/dev/null
torn=$(rf_sql coord "SELECT count(*) FROM torn WHERE kind = 'atomic'")
printf 'torn_of\t2\t%s\tatomic\t%s\nmany\t2\t%s\tatomic\t%s\n' $readers "$torn" $readers $many >>"$raw"
if [ "$torn" != 0 ]; then
	echo "$torn torn reads with one snapshot" >&2
	bad=1
fi

# ---- one node
for name in n1 coord; do
	rf_psql "$name" -qc "ALTER SYSTEM SET fsync = off" -c "SELECT pg_reload_conf()" >/dev/null
done
step_of 1
for ((round = 0;; round++)); do
	another_round $round $((runs * 2)) || break
	say "one node, round $round"
	for script in lookup update; do
		for ((i = 0; i < 2; i++)); do
			case=${cases[(i + round) % 2]}
			if [ $round = 0 ]; then
				pgb "$case" 1 $script -T 1 >/dev/null
			else
				measure one_node "$case" 1 $script
			fi
		done
	done
done
say "done"
"$tree/bench/commit/report.pl" "$out" "$time" "$readers" "$writers" "${NOTE:-}" | tee "$out/commit.txt"
bench_plot commit "$tree/bench/commit/plot.gp"
exit $bad
