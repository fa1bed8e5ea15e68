#!/usr/bin/env bash
# inside.sh FOLDER: what check.sh runs inside the virtual machine. FOLDER is check.sh's: programs, and out/ (really writable: what
# is to be seen outside). TESTS: "unit" for the programs, and inputs of the SQL suite or "all".
set -uo pipefail
work=$1
test=$(cd "$(dirname "$0")/.." && pwd)
. "$test/results.sh"

# run NAME [ARGUMENT ...], as the user PostgreSQL runs as: its rights must be enough.
run()
{
	local name=$1 log=$work/out/$1.log began=$SECONDS status
	[ -x "$work/$name" ] || return
	echo "$name begins"
	timeout 500 runuser -u "$RF_USER" -- "$work/$@" >"$log" 2>&1 </dev/null
	status=$?
	if [ "$status" = 0 ]; then
		rf_result ok "roce/$name" "over $VM_DEVICE: $(grep -c '^ok' "$log") checks, $((SECONDS - began)) s"
	else
		rf_show "$log" 100
		rf_result FAIL "roce/$name" "over $VM_DEVICE: status $status; $(grep -c '^not ok' "$log") of its checks failed"
	fi
}
if [[ " $TESTS " == *" unit "* ]]; then
	run test_verbs_device
	run test_provider_conformance verbs
	run test_strided verbs
	run test_region_plan verbs
	run test_provider_life verbs rounds=1000
fi

# What the device tells about itself, to the log and rdma.check of a node that the SQL inputs have left running.
device_events()
{
	local began=$SECONDS state change what failed=
	. "$test/run_common.sh"
	rf_init "$RF_WORK/sql_verbs"
	export RF_DB=contrib_regression
	rf_psql n1 -q <<-SQL
		CREATE SERVER itself FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port n1)', dbname 'contrib_regression');
		CREATE USER MAPPING FOR postgres SERVER itself;
	SQL
	for change in down up; do
		[ $change = down ] && what=down || what=active
		ip link set "$VM_CARD" $change
		for try in $(seq 60); do
			grep -q "rdma_fdw engine: port 1 of RDMA device .* is $what" "$(rf_log n1)" && break
			sleep 1
		done
		state=$(rf_sql n1 "SELECT value FROM rdma.check('itself') WHERE item = 'link'")
		[ "$state" = $what ] || failed="$failed; $change: rdma.check says '$state'"
		grep -q "rdma_fdw engine: port 1 of RDMA device .* is $what" "$(rf_log n1)" || failed="$failed; $change: the log says nothing"
	done
	if [ -z "$failed" ]; then
		rf_result ok roce/device_events "over $VM_DEVICE: $((SECONDS - began)) s"
	else
		rf_result FAIL roce/device_events "over $VM_DEVICE$failed"
		tail -n 20 "$(rf_log n1)"
	fi
}

# The SQL suite, on clusters that check.sh made: where this machine writes to their files it makes a copy in its memory.
read -ra inputs <<<"${TESTS/#unit/}"
if [ ${#inputs[@]} -gt 0 ]; then
	TESTS=${inputs[*]}
	[ "$TESTS" != all ] || TESTS=
	began=$SECONDS
	export RF_PREPARED=1 RF_START_TIMEOUT=500 PGCONNECT_TIMEOUT=120
	# What pg_regress says as it comes: minutes pass under emulation.
	log=$RF_WORK/sql_verbs/pg_regress.log
	mkdir -p "${log%/*}"
	: >"$log"
	tail -n +1 -f "$log" | sed -u 's/^/  /' &
	"$test/run_sql.sh"
	kill %1
	device_events
	cp "$RF_WORK"/sql_verbs/*.log "$RF_WORK"/sql_verbs/out/regression.diffs "$work/out/" 2>/dev/null
	echo "sql_verbs took $((SECONDS - began)) s"
fi
exit 0
