#!/usr/bin/env bash
# run.sh: how fast rows go into a foreign table: rdma_fdw against postgres_fdw at several batch sizes, and what the data node needs for the
# same rows without any network (the floor): INSERT ... SELECT from a table of its own, COPY of a binary file. Interleaved runs, medians;
# the ratio is that of postgres_fdw's best batch size to rdma_fdw. Then UPDATE and DELETE with a condition that is evaluated here (random()),
# so that the rows are pulled and written by ctid; the floor is the same statement on the data node.
#
#   ROWS   rows of the narrow table (default 1000000); the wide one gets a quarter       RUNS  rounds (default 5)
#   CHANGED rows that UPDATE and DELETE write (default 100000)
#   TABLES "narrow wide"      BATCHES "1000 10000"   postgres_fdw's batch_size values
#   OUT    where table and CSV go (default build/bench-write)
#
# Narrow: (int, int, float8). Wide: 16 columns with text, numeric, timestamps, and a primary key. Sources are local tables here, prewarmed;
# targets on the data node are truncated before each run. fsync is off on both, wal_level minimal. WAL segments are kept for reuse
# (min_wal_size), as on a server that has run for a while: making new ones would be a large part of the faster cases' time.
set -euo pipefail
. "$(dirname "$0")/../clusters.sh"
rows=${ROWS:-1000000} changed=${CHANGED:-100000} runs=${RUNS:-5} out=${OUT:-$tree/build/bench-write}
read -ra tables <<<"${TABLES:-narrow wide}"
read -ra batches <<<"${BATCHES:-1000 10000}"
mkdir -p "$out"
bench_begin
settings=(shared_buffers=${SHARED_BUFFERS:-1GB} work_mem=64MB jit=off max_wal_size=16GB min_wal_size=4GB wal_level=minimal max_wal_senders=0 checkpoint_timeout=1d)
rf_start n1 "${settings[@]}"
rf_start coord "${settings[@]}"

rf_psql n1 -q <<-SQL
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE narrow (a int, b int, c float8);
	CREATE TABLE wide (id bigint PRIMARY KEY, i1 int, i2 int, i3 int, i4 int, n1 numeric(12,2), n2 numeric(12,2), t1 text, t2 text, t3 varchar(40),
	  c1 char(10), d1 date, ts1 timestamptz, ts2 timestamp, f1 float8, b1 bool);
	CREATE TABLE changed (id int PRIMARY KEY, v int, t text);
SQL
rf_psql coord -q <<-SQL
	CREATE EXTENSION rdma_fdw;
	CREATE EXTENSION postgres_fdw;
	$(bench_server rdma n1)
	$(bench_server pg n1 postgres_fdw)
	CREATE SCHEMA rdmafdw; CREATE SCHEMA pgfdw;
	IMPORT FOREIGN SCHEMA public LIMIT TO (narrow, wide, changed) FROM SERVER rdma INTO rdmafdw;
	IMPORT FOREIGN SCHEMA public LIMIT TO (narrow, wide, changed) FROM SERVER pg INTO pgfdw;
	CREATE TABLE narrow AS SELECT g AS a, g % 1000 AS b, g / 3.0::float8 AS c FROM generate_series(1, $rows) g;
	CREATE TABLE wide AS SELECT g::bigint AS id, g AS i1, g % 100 AS i2, g % 7 AS i3, -g AS i4, (g * 1.25)::numeric(12,2) AS n1, (g % 1000 / 3.0)::numeric(12,2) AS n2,
	  'some text ' || g AS t1, repeat('x', g % 60) AS t2, ('v' || g)::varchar(40) AS t3, (g % 1000)::char(10) AS c1, date '2020-01-01' + g % 2000 AS d1,
	  timestamptz '2020-01-01' + g * interval '1 s' AS ts1, timestamp '2020-01-01' + g * interval '1 s' AS ts2, sqrt(g) AS f1, g % 2 = 0 AS b1
	  FROM generate_series(1, $rows / 4) g;
	VACUUM FREEZE ANALYZE;
SQL
# the floor's source, on the data node
rf_psql n1 -q <<-SQL
	CREATE SCHEMA source;
	CREATE TABLE source.narrow (LIKE narrow);
	CREATE TABLE source.wide (LIKE wide);
SQL
for table in "${tables[@]}"; do
	rf_sql coord "INSERT INTO rdmafdw.$table SELECT * FROM public.$table"
	rf_sql n1 "INSERT INTO source.$table SELECT * FROM $table; COPY $table TO '$RF_ROOT/$table.bin' (FORMAT binary)"
done
rf_sql n1 "VACUUM FREEZE ANALYZE"

# once CASE TABLE VERB: seconds of one load; VERB is ADD or SET, for the option batch_size
once()
{
	local case=$1 table=$2 node=coord sql
	case $case in
		rdma) sql="INSERT INTO rdmafdw.$table SELECT * FROM public.$table" ;;
		pg*)
			rf_sql coord "ALTER FOREIGN TABLE pgfdw.$table OPTIONS ($3 batch_size '${case#pg}')"
			sql="INSERT INTO pgfdw.$table SELECT * FROM public.$table"
			;;
		floor_insert) node=n1 sql="INSERT INTO $table SELECT * FROM source.$table" ;;
		floor_copy) node=n1 sql="COPY $table FROM '$RF_ROOT/$table.bin' (FORMAT binary)" ;;
	esac
	rf_sql n1 "TRUNCATE $table; CHECKPOINT"
	rf_psql $node -qAt -c '\timing on' -c "$sql" </dev/null | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ printf "%.3f\n", $1 / 1000 }'
	[ "$(rf_sql n1 "SELECT count(*) FROM $table")" = "$(rf_sql coord "SELECT count(*) FROM public.$table")" ] || rf_die "$case lost rows of $table"
}

raw=$out/raw.csv
echo "table,case,round,seconds" >"$raw"
cases=(rdma floor_insert floor_copy)
for batch in "${batches[@]}"; do cases+=("pg$batch"); done
for table in "${tables[@]}"; do
	verb=ADD
	for ((round = 0; round <= runs; round++)); do
		for case in "${cases[@]}"; do
			seconds=$(once "$case" "$table" "$verb")
			case $case in pg*) verb=SET ;; esac
			# the first round warms up
			[ "$round" = 0 ] || echo "$table,$case,$round,$seconds" >>"$raw"
			say "$table $case round $round: $seconds s"
		done
	done
done

# change CASE STATEMENT: seconds of one UPDATE or DELETE of all rows
change()
{
	local case=$1 node=coord table=rdmafdw.changed sql
	case $case in
		pg) table=pgfdw.changed ;;
		floor) node=n1 table=changed ;;
	esac
	case $2 in
		update) sql="UPDATE $table SET v = v + 1, t = t || '!' WHERE random() >= 0" ;;
		delete) sql="DELETE FROM $table WHERE random() >= 0" ;;
	esac
	rf_sql n1 "TRUNCATE changed; INSERT INTO changed SELECT g, g, 'row ' || g FROM generate_series(1, $changed) g; ANALYZE changed; CHECKPOINT"
	rf_psql $node -qAt -c '\timing on' -c "$sql" </dev/null | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk '{ printf "%.3f\n", $1 / 1000 }'
	[ "$(rf_sql n1 "SELECT count(*) FROM changed WHERE t = 'row ' || id || '!' AND v = id + 1")/$(rf_sql n1 "SELECT count(*) FROM changed")" = \
		"$([ $2 = update ] && echo $changed/$changed || echo 0/0)" ] || rf_die "$case: wrong rows after $2"
}

for statement in update delete; do
	for ((round = 0; round <= runs; round++)); do
		for case in rdma pg floor; do
			seconds=$(change $case $statement)
			[ "$round" = 0 ] || echo "$statement,$case,$round,$seconds" >>"$raw"
			say "$statement $case round $round: $seconds s"
		done
	done
done

perl -F, -lane '
	next if $. == 1;
	push @{$t{$F[0]}{$F[1]}}, $F[3];
	END {
		print "table    case            median s   rows/s vs rdma";
		foreach my $table (sort keys %t) {
			my %m = map { my @s = sort { $a <=> $b } @{$t{$table}{$_}}; ($_ => $s[$#s / 2]) } keys %{$t{$table}};
			my ($best) = sort { $m{$a} <=> $m{$b} } grep { /^pg/ } keys %m;
			printf "%-8s %-15s %8.3f   %.2f\n", $table, $_, $m{$_}, $m{$_} / $m{rdma} foreach sort keys %m;
			printf "%-8s postgres_fdw at its best (%s) takes %.2f times as long as rdma_fdw\n", $table, $best, $m{$best} / $m{rdma};
			my ($floor) = sort { $m{$a} <=> $m{$b} } grep { /^floor/ } keys %m;
			printf "%-8s rdma_fdw takes %.2f times as long as the floor (%s)\n", $table, $m{rdma} / $m{$floor}, $floor;
		}
	}' "$raw" | tee "$out/table.txt"
