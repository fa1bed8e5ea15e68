#!/usr/bin/env bash
# run.sh: nodes come and go while clients work. A table lies on two of three nodes, and a replicated one beside it; clients of pgbench
# transfer between two of its rows, look rows up, and add all of them up, which fails unless the sum is right. Meanwhile the third node
# is added, rows are moved to it, the first node is drained and removed.
#
#   clients     errors, of which there may be none; the longest pause of a statement, without moves and in each step; the bench fails
#               with an error, rows that are lost or misplaced, or a sum that is not right
#   a move      half of a node's rows at once, without clients, to an INSERT ... SELECT of as many rows on their new node, interleaved,
#               medians
#
#   ROWS   of the table (default 500,000)      CLIENTS  (default 4)      CALM  seconds without moves before and after (default 10)
#   RUNS   moves to and fro (default 3)        OUT      where table, TSV and plot go (default build/bench-moves)
#   NOTE   a line about the machine for the table
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
rows=${ROWS:-500000} clients=${CLIENTS:-4} calm=${CALM:-10} runs=${RUNS:-3} out=${OUT:-$tree/build/bench-moves}
mkdir -p "$out"
bench_begin
say "starting clusters"
for name in n1 n2 n3 coord; do
	rf_start "$name" shared_buffers=512MB max_wal_size=8GB checkpoint_timeout=1h jit=off
	rf_psql "$name" -qc 'CREATE EXTENSION rdma_fdw'
done
for name in n1 n2 n3; do
	bench_server "$name" "$name" | rf_psql coord -q
done
say "$rows rows"
rf_psql coord -q <<-SQL
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE acc AS SELECT i AS id, 100::bigint AS balance, 'the account with the number ' || i AS name FROM generate_series(1, $rows) i;
	ALTER TABLE acc ADD PRIMARY KEY (id);
	CREATE TABLE kind AS SELECT i AS id, repeat('k', 100) AS name FROM generate_series(1, $rows / 5) i;
	SELECT rdma.distribute_table('acc', 'many', 'id'), rdma.distribute_table('kind', 'many', replicated => true) \g /dev/null
	SELECT rdma.run_on('many', 'CREATE INDEX ON acc (rdma.hash_node(' || cardinality(rdma.buckets('many')) || ', id))') \g /dev/null
	SELECT rdma.run_on('many', 'VACUUM ANALYZE acc') \g /dev/null
	ANALYZE acc;
SQL
buckets=$(rf_sql coord "SELECT cardinality(rdma.buckets('many'))")
milliseconds() { date +%s%3N; }
median() { sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

# ---- a move, without clients
# timed CLUSTER SQL: milliseconds
timed() { rf_psql "$1" -qAt -v ON_ERROR_STOP=1 -c '\timing on' -c "$2" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'; }
move()
{
	timed coord "SELECT rdma.move_buckets('many', '$1', '$2', ARRAY(SELECT b FROM generate_series(0, $buckets - 1, 4) b), 10000)"
}
# every fourth bucket lies on the first node: bucket modulo 2 is its place
rf_psql n2 -qc 'CREATE TABLE plain (LIKE acc INCLUDING DEFAULTS INCLUDING INDEXES)' -c 'CREATE TABLE moved (LIKE acc)'
for ((run = 1; run <= runs; run++)); do
	say "moves, $run of $runs"
	rf_psql n2 -qc 'TRUNCATE plain'
	move n1 n2 >>"$out/move.ms"
	rf_psql n2 -qc 'TRUNCATE moved' -c "INSERT INTO moved SELECT * FROM acc WHERE rdma.hash_node($buckets, id) % 4 = 0" -c 'VACUUM moved'
	timed n2 'INSERT INTO plain SELECT * FROM moved' >>"$out/insert.ms"
	move n2 n1 >/dev/null
	for name in n1 n2; do
		rf_psql "$name" -qc 'VACUUM acc'
	done
done
moved=$(rf_sql n2 'SELECT count(*) FROM moved')
move_ms=$(median <"$out/move.ms") insert_ms=$(median <"$out/insert.ms")
rm -f "$out"/*.ms

# ---- beside clients
cat >"$dir/transfer" <<-SQL
	\set a random(1, $rows)
	\set b random(1, $rows)
	\set m random(1, 9)
	BEGIN;
	UPDATE acc SET balance = balance - :m WHERE id = least(:a, :b);
	UPDATE acc SET balance = balance + :m WHERE id = greatest(:a, :b);
	COMMIT;
SQL
printf '\\set a random(1, %d)\nSELECT balance, kind.name FROM acc JOIN kind USING (id) WHERE id = :a;\n' $((rows / 5)) >"$dir/lookup"
printf 'SELECT 1 / (sum(balance) = %d)::int FROM acc;\n' $((rows * 100)) >"$dir/sum"
chmod a+r "$dir"/{transfer,lookup,sum}
rm -rf "$dir/log"
mkdir "$dir/log"
chmod 777 "$dir/log"
rf_run sh -c "cd '$dir/log' && exec '$RF_BINDIR/pgbench' -n -h '$RF_SOCKETS' -p $(rf_port coord) -U postgres -c $clients -j 1 -T 3600 -l \
	-f '$dir/transfer@10' -f '$dir/lookup@10' -f '$dir/sum@1' postgres" >"$dir/pgbench.out" 2>&1 &
sleep 1
pgbench=$(pgrep -n -x pgbench)
printf 'from\tto\tstep\n' >"$out/steps.tsv"
# step NAME SQL ...
step()
{
	local name=$1 began sql
	shift
	say "$name"
	began=$(milliseconds)
	for sql in "$@"; do
		case $sql in
			sleep*) $sql ;;
			*) rf_psql coord -q -v ON_ERROR_STOP=1 -c "$sql" >/dev/null ;;
		esac
	done
	printf '%s\t%s\t%s\n' "$began" "$(milliseconds)" "$name" >>"$out/steps.tsv"
}
step 'before' "sleep $calm"
step 'add a node' "SELECT rdma.add_node('many', 'n3')"
step 'move rows to it' "CALL rdma.rebalance('many')"
step 'drain the first' "CALL rdma.drain_node('many', 'n1')"
step 'remove it' "SELECT rdma.remove_node('many', 'n1')"
step 'after' "sleep $calm"
# as if its time were over
kill -ALRM "$pgbench"
wait $! || true
errors=$(grep -c 'ERROR' "$dir/pgbench.out" || true)
grep -m 3 'ERROR' "$dir/pgbench.out" >&2 || true
# client, transaction, microseconds, script, end in seconds and microseconds
cat "$dir"/log/pgbench_log.* | awk '{ printf "%.3f\t%.3f\t%s\n", $5 * 1000 + $6 / 1000 - $3 / 1000, $3 / 1000, $4 }' >"$out/latencies.tsv"
right=$(rf_sql coord "SELECT (SELECT count(*) || '/' || sum(balance) FROM acc) = '$rows/$((rows * 100))' AND (SELECT sum(misplaced) FROM rdma.check_distribution('acc')) = 0
	AND (SELECT string_agg(node, ' ' ORDER BY node) FROM rdma.nodes('many')) = 'n2 n3'")

{
	[ -z "${NOTE:-}" ] || echo "$NOTE"
	awk -v rows="$rows" -v clients="$clients" -v moved="$moved" -v move="$move_ms" -v insert="$insert_ms" -v errors="$errors" -v right="$right" -F '\t' '
		FNR == NR { if (FNR > 1) { from[++steps] = $1; to[steps] = $2; name[steps] = $3 } next }
		{
			for (i = 1; i <= steps; i++)
				if ($1 < to[i] && $1 + $2 > from[i])
				{
					n[i]++
					if ($2 > longest[i]) longest[i] = $2
					if ($3 < 2 && $2 > 1000) late[i]++
				}
			if ($2 > worst) worst = $2
		}
		END {
			printf "%d rows on two of three nodes, %d clients of pgbench\n\n%-18s %9s %14s %16s %12s\n", rows, clients, "step", "seconds", "transactions", "longest, ms", "above 1 s"
			for (i = 1; i <= steps; i++)
				printf "%-18s %9.1f %14d %16d %12d\n", name[i], (to[i] - from[i]) / 1000, n[i], longest[i], late[i]
			printf "\nerrors of clients: %d (0 asked). Rows, sum, places and nodes afterwards: %s\n", errors, right == "t" ? "right" : "WRONG"
			printf "a move of %d rows: %.0f ms; INSERT ... SELECT of as many there: %.0f ms; ratio %.2f\n", moved, move, insert, move / insert
		}' "$out/steps.tsv" "$out/latencies.tsv"
} | tee "$out/table.txt"
# seconds from the first step on, and the longest of each script that began in each tenth of a second
awk -F '\t' 'FNR == NR { if (FNR == 2) start = $1; next }
	$1 >= start { bin = int(($1 - start) / 100); if ($2 > longest[bin, $3]) longest[bin, $3] = $2; if (bin > last) last = bin }
	END { for (i = 0; i <= last; i++) printf "%.1f\t%s\t%s\t%s\n", i / 10, longest[i, 0], longest[i, 1], longest[i, 2] }' \
	"$out/steps.tsv" "$out/latencies.tsv" >"$out/longest.tsv"
if command -v gnuplot >/dev/null; then
	gnuplot -e "longest='$out/longest.tsv'; steps='$out/steps.tsv'; out='$out/moves.svg'" "$tree/bench/moves/plot.gp"
fi
[ "$errors" = 0 ] && [ "$right" = t ]
