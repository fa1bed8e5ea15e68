#!/usr/bin/env bash
# core.sh SOURCE: PostgreSQL's own regression inputs with scans on columns, with one row in seven left to core besides, and without;
# what they print has to be the same but for plans (Settings/Output.pm). The server is one with rdma_fdw preloaded: RF_PREFIX, a copy
# made by test/tmp_install.sh. SOURCE is the unpacked source of that server's release (make check-memory leaves one in
# /var/tmp/rdma_fdw_memory/MAJOR/source), of which only src/test/regress is used. Takes five minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -d "${1:-}/src/test/regress" ] || { sed -n '2,5p' "$0"; exit 2; }
regress=$(cd "$1/src/test/regress" && pwd)
. "$here/../cluster.sh"
. "$here/../results.sh"
work=$(mktemp -d)
chmod 755 "$work"
trap 'rf_cleanup >/dev/null 2>&1; rm -rf "$work"' EXIT
rf_init "$work"

# run NAME DISABLED: $work/NAME.results has the outputs
run()
{
	local name=$1 setting
	rf_start "$name" max_prepared_transactions=2 max_connections=60 rdma_fdw.disable="$2" || exit 1
	rf_psql "$name" -qc "CREATE DATABASE regression TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
	for setting in lc_messages=C lc_monetary=C lc_numeric=C lc_time=C bytea_output=hex timezone_abbreviations=Default; do
		rf_psql "$name" -qc "ALTER DATABASE regression SET ${setting%=*} TO '${setting#*=}'"
	done
	mkdir "$work/$name.out"
	cp -r "$regress"/{sql,data,expected,parallel_schedule,resultmap} "$work/$name.out/"
	[ $EUID != 0 ] || chown -R "$RF_USER" "$work/$name.out"
	# What differs from the expected outputs is no matter here: plans, and functions of a library that is not built.
	rf_run "$(dirname "$("$RF_BINDIR/pg_config" --pgxs)")/../test/regress/pg_regress" --use-existing --inputdir="$work/$name.out" \
		--outputdir="$work/$name.out" --bindir="$RF_BINDIR" --dlpath="$work" --host="$RF_SOCKETS" --port="$(rf_port "$name")" \
		--user="$RF_USER" --dbname=regression --schedule="$work/$name.out/parallel_schedule" --max-connections=8 >"$work/$name.log" 2>&1
	grep -E 'PANIC|TRAP:|terminated by signal (6|7|8|11)' "$(rf_log "$name")" && rf_result FAIL "core/$name" "a process crashed"
	rf_stop "$name"
}

run off columns
run columns column_costs
run some_rows column_costs,column_kernels
for name in columns some_rows; do
	differ=0
	for output in "$work"/off.out/results/*.out; do
		input=$(basename "$output" .out)
		perl -I"$here" -MSettings::Output=normal -e '
			sub lines_of { open(my $in, "<", $_[0]) or return []; my @lines = <$in>; chomp(@lines);
				return [ grep { !/^WARNING:  did not get seqscan plan/ } @lines ]; }	# brin: a look at EXPLAIN
			my $input = lines_of("$ARGV[0].sql");
			exit(join("\n", normal(lines_of("$ARGV[1]"), $input, [qr{\\gexec}])) ne
				join("\n", normal(lines_of("$ARGV[2]"), $input, [qr{\\gexec}])));' \
			"$regress/sql/$input" "$output" "$work/$name.out/results/$input.out" && continue
		diff -U2 "$output" "$work/$name.out/results/$input.out" | head -n 40
		rf_result FAIL "core/$name/$input" "other answers than without"
		differ=1
	done
	[ $differ = 1 ] || rf_result ok "core/$name" "$(ls "$work/off.out/results" | wc -l) inputs"
done
