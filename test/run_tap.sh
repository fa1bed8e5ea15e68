#!/usr/bin/env bash
# run_tap.sh tap|tap_rest: the TAP tests test/t/*.pl, each with clusters of its own (test/perl/RdmaCluster.pm starts them).
# TESTS="001_a 002_b" runs only those. run_check.sh calls it: make check runs tap, and make check-full tap_rest besides.
set -uo pipefail
here=$(dirname "$0")
. "$here/results.sh"
. "$here/cluster.sh"
: "${RF_WORK:?run this through make check-tap}" "${RF_TREE:?}" "${RF_PREFIX:?}"

pgxs_test=$(cd "$(dirname "$("${PG_CONFIG:-pg_config}" --pgxs)")/../test" && pwd)
cd "$RF_TREE/test" || exit 1
rf_check_numbers tap t/*.pl
group=${1:-tap}
# Those that take long for what they find, as others of make check would mostly see it, too: the flows below exchanges without
# these (072, and with other settings 073), random statements beside those of 088, a thousand small joins beside those of 081, and ways
# to die of one kind of scan, of many streams on several lanes, and of compute nodes, beside those of 060, 081, 082 and chaos.
rest=(t/{078_parallel_scan,073_flow_kinds_pooled,072_flow_kinds,084_exchange_random,070_lanes,083_small_joins,086_compute_nodes,050_differential}.pl)
if [ -n "${TESTS:-}" ]; then
	read -ra files <<<"$TESTS"
	# "060_bad_days" like the other groups' names, or the file
	files=("${files[@]#t/}")
	files=("${files[@]%.pl}")
	files=("${files[@]/#/t/}")
	files=("${files[@]/%/.pl}")
else
	# The longest first, so that no processor waits for the other at the end: those that took more than half a minute.
	longest=(t/{085_exchange,094_snapshot,096_moves,069_large_rows,082_exchange_bad_days,074_write,092_commit,057_encryption,081_nodes_join,060_bad_days,075_nodes_write,106_commit_faults,065_engine_away,056_identity,080_nodes}.pl)
	if [ "$group" = tap ]; then
		mapfile -t files < <(printf '%s\n' "${longest[@]}" t/*.pl | awk '!seen[$0]++' | grep -Fxvf <(printf '%s\n' "${rest[@]}"))
	else
		files=("${rest[@]}" t/{088_differential,126_lying_answers,127_hostile_callers}.pl)
		export DURATION=${DURATION:-60}
	fi
fi
for file in "${files[@]}"; do
	if [ ! -e "$file" ]; then
		rf_result FAIL tap "there is no test/$file"
		exit 1
	fi
done

rf_init "$RF_WORK/$group"
rf_run mkdir -p "$RF_ROOT/templates"

# Clusters lie in memory where there is enough of it: a file's are gone when it ends, and to make and remove a thousand files for each
# of them took a tenth of all processor time. Those of a test that failed are moved to the other files.
memory=
if [ -w /dev/shm ] && [ $(($(stat -f -c '%a * %S' /dev/shm))) -ge $((4 << 30)) ] && [ "$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)" -ge $((8 << 20)) ]; then
	memory=$(rf_run mktemp -d /dev/shm/rdma_fdw_tap.XXXXXX)
	trap 'rm -rf "$memory"' EXIT
fi

# run_file FILE
run_file()
{
	local file=$1 name dir status start=$SECONDS
	name=$(basename "$file" .pl)
	dir=$RF_ROOT/$name
	rf_run mkdir -p "$dir/log"
	if [ -n "$memory" ]; then
		rf_run mkdir "$memory/$name"
		rf_run ln -sfn "$memory/$name" "$dir/tmp_check"
	fi
	# shellcheck disable=SC2024
	rf_run "$RF_TREE/test/processor_time.pl" "$dir/processor" timeout "${RF_TIMEOUT:-1800}" env PATH="$RF_BINDIR:$PATH" HOME="$RF_ROOT" LANG=C.UTF-8 TESTDIR="$dir" TESTDATADIR="$dir/tmp_check" \
		TESTLOGDIR="$dir/log" PG_REGRESS="$pgxs_test/regress/pg_regress" PERL5LIB="$pgxs_test/perl:$RF_TREE/test/perl" \
		RF_TEMPLATES="$RF_ROOT/templates" PROVIDER="${PROVIDER:-auto}" PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-60}" PG_TEST_PORT_DIR="$RF_ROOT" \
		prove --verbose --norc --comments "$file" >"$dir.log" 2>&1 </dev/null
	status=$?
	rf_tap_results "tap/$name" "$dir.log" "test/$file" || [ "$status" != 0 ] || rf_result FAIL "tap/$name" "it asserted nothing"
	if [ "$status" != 0 ]; then
		grep -Eq '^not ok [0-9]+' "$dir.log" ||
			rf_result FAIL "tap/$name" "ended with status $status$(grep -oE ' at t/[^ ]+ line [0-9]+' "$dir.log" | tail -n 1); $(rf_again "$name")"
		grep -vE '^ok [0-9]+' "$dir.log" | tail -n 80
	fi
	printf '     took %s s, %s s of processor time\n' $((SECONDS - start)) "$(cat "$dir/processor" 2>/dev/null)"
	# servers' logs, where PostgreSQL 15 has them, and where later ones do
	for log in "$dir"/tmp_check/log/*.log "$dir"/log/*.log; do
		[ ! -e "$log" ] || rf_check_log "tap/$name, $(basename "$log")" "$log"
	done
	if [ -n "$memory" ] && [ "$status" = 0 ]; then
		rm -rf "${memory:?}/$name"
	elif [ -n "$memory" ]; then
		rm "$dir/tmp_check"
		mv "$memory/$name" "$dir/tmp_check"
	fi
}

# Two thirds of a file's time are waiting, for a cluster to start or a fault to be noticed, even beside other groups.
rf_side_by_side "${RF_JOBS:-$(($(nproc) + 1))}" run_file "${files[@]}"
