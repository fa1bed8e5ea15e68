#!/usr/bin/env bash
# check.sh: the tests over soft-RoCE, in a virtual machine (vm.sh). run_check.sh calls it for the group "roce".
#
# Runs the conformance test of all providers with verbs, then the whole SQL suite with rdma_fdw.provider = verbs, then two such machines
# with a wire between them (pair.sh). Everything is built and initialized out here, where it is fast; only the tests run inside.
# Reports through RF_RESULTS like its siblings. A machine that does not start is a failure with the reason. An emulated machine beside
# other load takes as long as it takes, so what ends it is silence, not the time of the whole.
#
#   TESTS="01_a 02_b"   only these inputs of the SQL suite; TESTS=unit only the plain C programs, TESTS=pair only the two machines
#   RF_VM_STALL         seconds without a line from a machine after which it is ended    (default 600)
set -uo pipefail
. "$(dirname "$0")/../run_common.sh"

here=$(cd "$(dirname "$0")" && pwd)
work=$RF_WORK/roce
mkdir -p "$work/out"
rm -f "$work/out"/*

# A data directory, of which the machine makes copies: initdb takes 12 s under emulation.
rf_init "$work/template" && rf_create cluster trust || {
	rf_result FAIL roce "no data directory"
	exit 1
}

if [ "${TESTS:-}" = pair ]; then
	exec "$here/pair.sh" "$work"
fi

# Plain C programs that want a device.
for name in test_provider_conformance test_provider_life test_strided test_region_plan test_verbs_device; do
	if ! (cd "$RF_TREE" && ${CC:-gcc} -std=gnu11 -g -O2 -D_GNU_SOURCE -DWITH_VERBS -Iinclude -Isrc -Itest/unit "test/unit/$name.c" \
		test/unit/sim*.c src/provider/*.c src/base/error.c src/engine/regions.c src/batch/region*.c -o "$work/$name" -libverbs -lpthread -lm) >"$work/build.log" 2>&1; then
		rf_show "$work/build.log" 60
		rf_result FAIL "roce/$name" "does not compile"
		rm -f "$work/$name"
	fi
done

VM_OUT=$work/out VM_STALL=${RF_VM_STALL:-600} VM_TIMEOUT=${RF_VM_TIMEOUT:-7200} "$here/vm.sh" env RF_WORK="$RF_WORK" \
	RF_TREE="$RF_TREE" RF_PREFIX="$RF_PREFIX" RF_RESULTS="$work/out/results" RF_TIMEOUT=0 PG_CONFIG="${PG_CONFIG:-pg_config}" \
	TESTS="${TESTS:-}" RF_USER="$RF_USER" PROVIDER=verbs "$here/inside.sh" "$work" 2>"$work/vm.log"
status=$?
cat "$work/vm.log" >&2
cat "$work/out/results" >>"${RF_RESULTS:-/dev/null}" 2>/dev/null
if [ "$status" = 125 ]; then
	rf_result FAIL roce "$(tail -n 1 "$work/vm.log")"
elif [ "$status" != 0 ] && ! grep -q '^FAIL ' "$work/out/results"; then
	rf_result FAIL roce "the tests in the virtual machine ended with status $status"
fi
pair=0
if [ -z "${TESTS:-}" ]; then
	"$here/pair.sh" "$work" || pair=1
fi
! grep -q '^FAIL ' "$work/out/results" 2>/dev/null && [ "$status" = 0 ] && [ "$pair" = 0 ]
