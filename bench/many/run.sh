#!/usr/bin/env bash
# run.sh: one join over ever more nodes of one machine, with default settings: two tables that are not co-located, so that the rows
# of one of them are repartitioned, or of both, or those of the smaller go to all nodes. The nodes are databases of a few clusters.
# Interleaved runs, medians, ratios to two nodes; and what memory an exchange takes, flows, connections, and messages, beside those of
# as many simulated nodes (bench/engine/nodes.tsv).
#
#   NODES      numbers of nodes (default "2 8 32 64")       CLUSTERS  that the nodes are databases of (default 8)
#   ROWS       of the smaller table (default 1500000, as orders of TPC-H at scale 1); the other has four times as many
#   RUNS       rounds (default 3)         MINUTES  fewer rounds, so that the whole ends in time (default 9)
#   OUT        where table, TSV and plot go (default build/bench-many)   DIR   keep clusters and data there
#   NOTE       a line about the machine for the table
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
read -ra counts <<<"${NODES:-2 8 32 64}"
clusters=${CLUSTERS:-8} rows=${ROWS:-1500000} runs=${RUNS:-3} out=${OUT:-$tree/build/bench-many}
strategies=(repartition_one repartition_both replicate)
mkdir -p "$out"
bench_begin "${DIR:-}"
settings=(shared_buffers=64MB jit=off autovacuum=off fsync=off)
most=0
for n in "${counts[@]}"; do
	((n <= most)) || most=$n
done

say "starting $clusters clusters"
rf_start coord "${settings[@]}"
for ((i = 1; i <= clusters; i++)); do
	rf_start "d$i" "${settings[@]}"
done
if ! rf_run test -e "$RF_ROOT/loaded"; then
	say "making $most nodes"
	for ((i = 1; i <= clusters; i++)); do
		rf_psql "d$i" -qc 'CREATE EXTENSION rdma_fdw'
		rf_psql "d$i" -qc 'CREATE DATABASE empty'
		rf_psql "d$i" -d empty -qc 'CREATE EXTENSION rdma_fdw'
		for ((n = i; n <= most; n += clusters)); do
			rf_psql "d$i" -qc "CREATE DATABASE s$n TEMPLATE empty"
		done
	done
	{
		echo 'CREATE EXTENSION rdma_fdw;'
		for ((n = 1; n <= most; n++)); do
			echo "CREATE SERVER s$n FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port "d$(((n - 1) % clusters + 1))")', dbname 's$n');"
			echo "CREATE USER MAPPING FOR CURRENT_USER SERVER s$n OPTIONS (user 'postgres');"
		done
	} | rf_psql coord -q
	for n in "${counts[@]}"; do
		say "tables over $n nodes"
		names=$(seq -f s%g -s ', ' 1 "$n")
		rf_psql coord -q >/dev/null <<-SQL
			CREATE SERVER many$n FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$names');
			CREATE TABLE o$n AS SELECT g AS ok, g % 1000 AS ck, g % 77 AS v FROM generate_series(1, $rows) g;
			CREATE TABLE l$n AS SELECT g % $rows + 1 AS ok, g AS q FROM generate_series(1, 4 * $rows) g;
			SELECT rdma.distribute_table('o$n', 'many$n', 'ck');
			SELECT rdma.distribute_table('l$n', 'many$n', 'ok');
			ANALYZE o$n;
			ANALYZE l$n;
		SQL
	done
	rf_run touch "$RF_ROOT/loaded"
fi
want=$(rf_psql coord -qAt <<<"SELECT count(*), sum(g), sum((g % $rows + 1) % 77) FROM generate_series(1, 4 * $rows) g")

# query N STRATEGY: milliseconds of the second execution in a session; the first connects it. Ends the bench if the rows are wrong.
query()
{
	local join="SELECT count(*), sum(q), sum(v) FROM o$1 JOIN l$1 USING (ok)" got
	got=$(printf '%s;\n' "SET rdma_fdw.exchange_strategy = $2" "$join" '\timing' "$join" '\q' | sed 's/^\(\\.*\);$/\1/' | rf_psql coord -qAt)
	[ "$(sed -n 1p <<<"$got")" = "$want" ] && [ "$(grep -v Tim <<<"$got" | sed -n 2p)" = "$want" ] || {
		printf '%s nodes, %s: %s instead of %s\n' "$1" "$2" "$got" "$want" >&2
		exit 1
	}
	sed -n 's/^Time: \([0-9]*\).*/\1/p' <<<"$got"
}

# The most that the first cluster had while one statement ran: kB of buffers, of them touched or not; flows; peers
watch()
{
	rf_psql d1 -qAt -F ' ' <<-SQL
		SELECT (SELECT buffer_used / 1024 FROM rdma.stat_engine), (SELECT count(*) FROM rdma.stat_flows),
			(SELECT count(*) FROM rdma.stat_peers WHERE state = 'connected')
	SQL
}

# Work requests that the first cluster has posted so far
posted() { rf_psql d1 -qAtc 'SELECT sum(work_requests) FROM rdma.stat_lanes'; }

raw=$out/raw.txt held=$out/held.txt
: >"$raw"
: >"$held"
say "measuring"
step_of 4 3
for ((round = 0;; round++)); do
	another_round "$round" "$runs" || break
	for n in "${counts[@]}"; do
		for strategy in "${strategies[@]}"; do
			ms=$(query "$n" "$strategy")
			[ "$round" = 0 ] || echo "$n $strategy $ms" >>"$raw"
		done
	done
done
say "memory"
for n in "${counts[@]}"; do
	for strategy in "${strategies[@]}"; do
		before=$(posted)
		query "$n" "$strategy" >/dev/null &
		runner=$!
		while kill -0 $runner 2>/dev/null; do
			echo "$n $strategy $(watch)" >>"$held"
		done
		wait $runner
		# the query ran twice
		echo "$n $strategy posted $((($(posted) - before) / 2 / ((n + clusters - 1) / clusters)))" >>"$held"
	done
done

awk -v clusters="$clusters" -v rows="$rows" -v note="${NOTE:-}" -v counts="${counts[*]}" -v tsv="$out/many.tsv" '
	function median(list,   a, k, i, j, t) {
		k = split(list, a, " ")
		for (i = 2; i <= k; i++)
			for (j = i; j > 1 && a[j - 1] + 0 > a[j] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
		return a[int((k + 1) / 2)]
	}
	FILENAME ~ /nodes.tsv/ { if ($1 == "nodes" && !($2 in simulated)) simulated[$2] = $(15); next }
	FILENAME ~ /raw/ { ms[$1 " " $2] = ms[$1 " " $2] " " $3; next }
	$3 == "posted" { posted[$1 " " $2] = $4; next }
	{
		if ($3 > kb[$1 " " $2]) kb[$1 " " $2] = $3
		if ($4 > flows[$1 " " $2]) flows[$1 " " $2] = $4
		if ($5 > peers[$1]) peers[$1] = $5
	}
	END {
		printf "%d rows join %d, nodes are databases of at most %d clusters, default settings%s\n", rows, 4 * rows, clusters, note == "" ? "" : "; " note
		printf "medians in ms, ratios to the fewest nodes; of the first cluster the most that it held: MB of buffers for all of its nodes, flows,\n"
		printf "nodes of one cluster, and engines it is connected with; sent: work requests of a node, and what bench/engine/nodes.txt has of as many\n"
		printf "simulated nodes, each with 4 MB of rows\n\n"
		printf "%5s  %-30s %-30s %-30s %s\n", "nodes", "repartition one", "repartition both", "replicate", "nodes  engines  simulated"
		printf "%5s  %s %s %s\n", "", "   ms ratio   MB flows  sent  ", "   ms ratio   MB flows  sent  ", "   ms ratio   MB flows  sent"
		print "nodes\trepartition one\trepartition both\treplicate" >tsv
		count = split(counts, n, " ")
		for (i = 1; i <= count; i++) {
			line = ""
			times = n[i]
			for (j = 1; j <= 3; j++) {
				s = n[i] " " (j == 1 ? "repartition_one" : j == 2 ? "repartition_both" : "replicate")
				m = median(ms[s])
				if (i == 1) base[j] = m
				line = line sprintf("%5d %5.2f %4.0f %5d %5d   ", m, m / base[j], kb[s] / 1024, flows[s], posted[s])
				times = times "\t" m
			}
			print times >tsv
			printf "%5d  %s %5d %8d %10s\n", n[i], line, int((n[i] + clusters - 1) / clusters), peers[n[i]], simulated[n[i]]
		}
	}' FS='\t' "$tree/bench/engine/nodes.tsv" FS=' ' "$raw" "$held" | sed 's/ *$//' | tee "$out/table.txt"
bench_plot many "$tree/bench/many/plot.gp" "$rows rows join $((4 * rows)), nodes of $clusters clusters on one machine"
