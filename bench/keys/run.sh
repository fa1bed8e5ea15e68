#!/usr/bin/env bash
# run.sh: few keys that are here, joined with many rows of a data node, against the statement that one would write by hand for that
# (WHERE id = ANY (array)); and UPDATE of a table over nodes: of one row by its key against a table of one node, and against such tables of
# all of these nodes in turn, since a process that has slept for longer wakes up later; of all rows against the slowest of the nodes alone,
# and against all of them at the same time without rdma_fdw, which is what the machine can do.
# Interleaved runs in sessions that have run the statement before, medians; rows are compared, or counted.
#
#   ROWS   rows of the table that keys are joined with (default 1000000)     KEYS  "10 1000 10000"
#   PART   rows of each of three nodes that UPDATE writes (default 100000)   RUNS  rounds (default 5)
#   OUT    where table, CSV, TSV and plot go (default build/bench-keys)
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
rows=${ROWS:-1000000} part=${PART:-100000} runs=${RUNS:-5} out=${OUT:-$tree/build/bench-keys}
read -ra keys <<<"${KEYS:-10 1000 10000}"
nodes=(n1 n2 n3)
mkdir -p "$out"
raw=$out/raw.csv
bench_begin
settings=(shared_buffers=512MB work_mem=64MB jit=off max_wal_size=16GB min_wal_size=2GB checkpoint_timeout=1d autovacuum=off)
for cluster in "${nodes[@]}" coord; do rf_start "$cluster" "${settings[@]}"; done

say "loading"
for node in "${nodes[@]}"; do
	rf_psql "$node" -q <<-SQL
		CREATE EXTENSION rdma_fdw;
		CREATE TABLE changed (id int PRIMARY KEY, v int, t text) WITH (fillfactor = 50);
		CREATE TABLE alone (id int PRIMARY KEY, v int, t text) WITH (fillfactor = 50);
	SQL
done
rf_psql n1 -q <<-SQL
	CREATE TABLE big (id int PRIMARY KEY, v int, t text);
	INSERT INTO big SELECT g, g % 1000, 'row ' || g FROM generate_series(1, $rows) g;
	VACUUM (FREEZE, ANALYZE) big;
SQL
rf_psql coord -q <<-SQL
	CREATE EXTENSION rdma_fdw;
	$(for node in "${nodes[@]}"; do bench_server "$node" "$node"; done)
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2, n3');
	CREATE FOREIGN TABLE big (id int, v int, t text) SERVER n1;
	CREATE FOREIGN TABLE changed (id int, v int, t text) SERVER nodes OPTIONS (distributed_by 'id');
	$(for node in "${nodes[@]}"; do echo "CREATE FOREIGN TABLE alone_$node (id int, v int, t text) SERVER $node OPTIONS (table_name 'alone');"; done)
	INSERT INTO changed SELECT g, g, 'row ' || g FROM generate_series(1, 3 * $part) g;
	$(for node in "${nodes[@]}"; do echo "INSERT INTO alone_$node SELECT g, g, 'row ' || g FROM generate_series(1, $part) g;"; done)
	$(for n in "${keys[@]}"; do echo "CREATE TABLE keys_$n AS SELECT DISTINCT 1 + (g * 7919::bigint % $rows)::int AS id FROM generate_series(1, $n) g;"; done)
	ANALYZE;
	ANALYZE big, changed, alone_n1, alone_n2, alone_n3;
SQL
for node in "${nodes[@]}"; do rf_psql "$node" -qc 'VACUUM ANALYZE'; done

echo "case,way,round,ms" >"$raw"
times() { sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'; }
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# joined KEYS WAY: milliseconds, the median of a session
joined()
{
	local sql="SELECT k.id, b.v, b.t FROM keys_$1 k JOIN big b ON b.id = k.id" i
	[ "$2" = join ] || sql="SELECT b.id, b.v, b.t FROM big b WHERE b.id = ANY (ARRAY(SELECT id FROM keys_$1))"
	{
		printf '%s;\n' "$sql" "$sql"
		printf '\\timing on\n'
		for ((i = 0; i < 11 + 50000 / ($1 + 100); i++)); do printf '%s;\n' "$sql"; done
	} | rf_psql coord -qAt >"$dir/rows.$2"
	times <"$dir/rows.$2" | median
	sed -i '/^Time: /d' "$dir/rows.$2"
	sort -o "$dir/rows.$2" "$dir/rows.$2"
}

# one_row TABLE...: milliseconds of an UPDATE of one row of one of these, which take turns; the median of a session
one_row()
{
	local i
	{
		for ((i = 0; i < 600; i++)); do
			[ $i != 60 ] || echo '\timing on'
			printf 'UPDATE %s SET v = v + 1 WHERE id = %d;\n' "${@:1 + i % $#:1}" $((1 + RANDOM % part))
		done
	} | rf_psql coord -qAt | times | median
}

# all_rows CLUSTER: milliseconds of an UPDATE of all rows, in a session that has looked at them and changed a few
all_rows()
{
	rf_psql "$1" -qAt <<-'SQL' | times
		SELECT count(*) FROM changed;
		UPDATE changed SET v = v + 1 WHERE id < 10;
		\timing on
		UPDATE changed SET v = v + 1;
	SQL
}

clean()
{
	local node
	for node in "${nodes[@]}"; do rf_psql "$node" -qc 'VACUUM changed' -c CHECKPOINT; done
}

together()
{
	local node
	for node in "${nodes[@]}"; do all_rows "$node" >"$dir/together.$node" & done
	wait $(jobs -p)
	cat "$dir"/together.* | sort -n | tail -1
}

for ((round = 0; round <= runs; round++)); do
	say "round $round"
	for n in "${keys[@]}"; do
		for way in join any; do
			ms=$(joined "$n" $way)
			# the first round warms up
			[ $round = 0 ] || echo "keys $n,$way,$round,$ms" >>"$raw"
		done
		cmp -s "$dir/rows.join" "$dir/rows.any" || rf_die "$n keys: the rows differ"
	done
	for way in "changed" "alone_n1" "alone_n1 alone_n2 alone_n3"; do
		# shellcheck disable=SC2086
		ms=$(one_row $way)
		[ $round = 0 ] || echo "update one,$way,$round,$ms" >>"$raw"
	done
	sum=$(rf_sql coord 'SELECT sum(v) FROM changed WHERE id >= 10')
	for way in nodes together "${nodes[@]}"; do
		clean
		case $way in
			nodes) ms=$(all_rows coord) ;;
			together) ms=$(together) ;;
			*) ms=$(all_rows "$way") ;;
		esac
		[ $round = 0 ] || echo "update all,$way,$round,$ms" >>"$raw"
	done
	# three times each of them
	[ "$(rf_sql coord 'SELECT sum(v) FROM changed WHERE id >= 10')" = $((sum + 3 * (3 * part - 9))) ] || rf_die "UPDATE of all rows changed others"
done

tsv=$out/keys.tsv perl -F, -lane '
	BEGIN { open $tsv, ">", $ENV{tsv} or die "$ENV{tsv}: $!\n"; print $tsv "case\tratio" }
	next if $. == 1;
	push @{$t{$F[0]}{$F[1]}}, $F[3];
	sub line
	{
		printf "%-14s %-34s %9.2f %9.2f %6.2f\n", $_[0], $_[1], $_[2], $_[3], $_[2] / $_[3];
		printf $tsv "%s to %s\t%.3f\n", $_[0], $_[1], $_[2] / $_[3];
	}
	END {
		my %m;
		foreach my $case (keys %t) { foreach my $way (keys %{$t{$case}}) { my @s = sort { $a <=> $b } @{$t{$case}{$way}}; $m{$case}{$way} = $s[$#s / 2] } }
		my ($slowest) = sort { $b <=> $a } map { $m{"update all"}{$_} } qw(n1 n2 n3);
		printf "%-14s %-34s %9s %9s %6s\n", "", "to", "ms", "ms", "ratio";
		line($_, "WHERE id = ANY (array)", $m{$_}{join}, $m{$_}{any}) foreach sort { ($a =~ /(\d+)/)[0] <=> ($b =~ /(\d+)/)[0] } grep { /^keys/ } keys %m;
		line("UPDATE by key", "a table of one node", $m{"update one"}{changed}, $m{"update one"}{alone_n1});
		line("UPDATE by key", "tables of one node each, in turn", $m{"update one"}{changed}, $m{"update one"}{"alone_n1 alone_n2 alone_n3"});
		line("UPDATE of all", "the slowest node alone", $m{"update all"}{nodes}, $slowest);
		line("UPDATE of all", "the nodes at the same time", $m{"update all"}{nodes}, $m{"update all"}{together});
	}' "$raw" | tee "$out/table.txt"
bench_plot keys "$tree/bench/keys/plot.gp"
