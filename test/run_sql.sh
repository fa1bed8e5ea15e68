#!/usr/bin/env bash
# run_sql.sh: pg_regress over sql/NN_name.sql against clusters of its own (see run_common.sh for how the inputs find them).
# TESTS="01_a 02_b" runs only those; SHARE=n every nth input, tomorrow the next ones, so that n days run them all. run_check.sh
# calls it: RF_GROUP=tcp is the part that make check runs over TCP.
set -uo pipefail
. "$(dirname "$0")/run_common.sh"

# Those that take every way of rows over a connection: streams and their counters, pieces of batches, large values, pages, rows
# that are written, exchanges, parallel readers and several nodes, with their errors.
over_tcp=(20_scan 21_every_way 41_errors 44_async 46_parallel 47_pages 49_pieces 61_rows_of_statement 64_copy_routing 65_copy_lines
	66_transactions 73_large_rows 82_nodes_join 84_nodes_write)
group=${RF_GROUP:-sql_${PROVIDER:-auto}}
work=$RF_WORK/$group
tests=()
for file in "$RF_TREE"/sql/[0-9]*.sql; do
	file=${file##*/}
	tests+=("${file%.sql}")
done
rf_check_numbers "$group" "${tests[@]}"
rf_check_alternates "$group" "$RF_TREE/expected"
if [ -n "${TESTS:-}" ]; then
	read -ra tests <<<"$TESTS"
elif [ "$group" = tcp ]; then
	tests=("${over_tcp[@]}")
elif [ "${SHARE:-1}" -gt 1 ]; then
	first=$(($(date +%s) / 86400 % SHARE))
	printf '%s of %s inputs, every %s from the %s on: SHARE=1 runs all\n' "$(((${#tests[@]} - first + SHARE - 1) / SHARE))" "${#tests[@]}" "$SHARE" "$((first + 1))"
	for number in "${!tests[@]}"; do
		[ $((number % SHARE)) = "$first" ] || unset "tests[number]"
	done
fi
# A machine of its own is switched off with its servers.
[ -n "${RF_PREPARED:-}" ] || trap rf_stop_all EXIT
rf_start_trio "$work"
rf_run mkdir -p "$work/out"
rf_expect "$RF_TREE/expected" "${tests[@]}"
log=$work/pg_regress.log
launcher=()
[ "$(rf_major coord)" -lt 19 ] || launcher=(--launcher="$RF_TREE/test/words_19.pl")
rf_run timeout "${RF_TIMEOUT:-3600}" "$(dirname "$(rf_pg_config --pgxs)")/../test/regress/pg_regress" --use-existing \
	--bindir="$RF_BINDIR" --host="$RF_SOCKETS" --port="$RF_COORD_PORT" --user=postgres --dbname=contrib_regression \
	--inputdir="$RF_TREE" --outputdir="$work/out" "${launcher[@]}" "${tests[@]}" >"$log" 2>&1
rf_regress_results "$group" "$log" "$work/out/regression.diffs" "${tests[@]}"
rf_check_logs "$group"
rf_check_left "$group"
rf_show "$work/out/regression.diffs" 300
grep -Eq '^(test|ok|not ok) ' "$log" || rf_show "$log"
