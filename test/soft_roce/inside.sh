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
	cp "$RF_WORK"/sql_verbs/*.log "$RF_WORK"/sql_verbs/out/regression.diffs "$work/out/" 2>/dev/null
	echo "sql_verbs took $((SECONDS - began)) s"
fi
exit 0
