#!/usr/bin/env bash
# run_isolation.sh: pg_isolation_regress over test/specs/*.spec with test/expected/*.out, against clusters of its own.
# TESTS="a b" runs only those. run_check.sh calls it.
set -uo pipefail
. "$(dirname "$0")/run_common.sh"

work=$RF_WORK/isolation
tests=()
for file in "$RF_TREE"/test/specs/*.spec; do
	[ ! -e "$file" ] || tests+=("$(basename "$file" .spec)")
done
if [ -n "${TESTS:-}" ]; then
	read -ra tests <<<"$TESTS"
fi
if [ ${#tests[@]} = 0 ]; then
	rf_result FAIL isolation "no test/specs/*.spec found"
	exit 1
fi

trap rf_stop_all EXIT
rf_start_trio "$work"
rf_run mkdir -p "$work/out"
rf_expect "$RF_TREE/test/expected" "${tests[@]}"
log=$work/pg_isolation_regress.log
rf_run timeout "${RF_TIMEOUT:-3600}" "$(dirname "$(rf_pg_config --pgxs)")/../test/isolation/pg_isolation_regress" --use-existing \
	--bindir="$RF_BINDIR" --host="$RF_SOCKETS" --port="$RF_COORD_PORT" --user=postgres --dbname=contrib_regression \
	--inputdir="$RF_TREE/test" --outputdir="$work/out" "${tests[@]}" >"$log" 2>&1
rf_regress_results isolation "$log" "$work/out/regression.diffs" "${tests[@]}"
rf_check_logs isolation
rf_show "$work/out/regression.diffs" 300
grep -Eq '^(test|ok|not ok) ' "$log" || rf_show "$log"
