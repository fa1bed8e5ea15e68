#!/usr/bin/env bash
# check.sh GROUP: the tests over soft-RoCE and soft-iWARP, in virtual machines (vm.sh). run_check.sh calls it for these groups:
#
#   roce        plain C programs that want a device, and SQL inputs that together take every way to a device (chosen, below)
#   roce_sql    all SQL inputs with rdma_fdw.provider = verbs, over soft-RoCE (SHARE as in run_sql.sh)
#   roce_pair   two machines with a wire between them (pair.sh)
#
# Everything is built and initialized out here, where it is fast; only the tests run inside. Reports through RF_RESULTS like its siblings.
# A machine that does not start is a failure with the reason. An emulated machine beside other load takes as long as it takes, so
# what ends it is silence, not the time of the whole.
#
#   TESTS="01_a 02_b"   only these inputs of the SQL suite; TESTS=unit only the plain C programs
#   VM_DEVICE           rxe (soft-RoCE, the default) or siw (soft-iWARP): over this one
#   RF_VM_STALL         seconds without a line from a machine after which it is ended    (default 1200)
set -uo pipefail
. "$(dirname "$0")/../run_common.sh"

here=$(cd "$(dirname "$0")" && pwd)
group=$1
work=$RF_WORK/$group
mkdir -p "$work/out"

# Every way of rows, once; rows that are stored by COPY and routed; values that go by requests of their own. All other inputs take
# minutes under emulation.
chosen="21_every_way 64_copy_routing 73_large_rows"
rm -f "$work/out"/*

few=
case $group in
	roce) tests=${TESTS:-unit $chosen} few=RF_TIMES=4 device=${VM_DEVICE:-rxe} ;;
	roce_sql) tests=${TESTS:-all} few=RF_TIMES=${RF_TIMES:-4} device=${VM_DEVICE:-rxe} ;;
	roce_pair) tests= ;;
esac

# Clusters with the tests' database: initdb takes 12 s under emulation. The machines of a pair make copies of one; the machine that
# runs SQL inputs finds three with system identifiers of their own, and copies of their files what it writes to.
clusters="coord n1 n2" folder=$RF_WORK/sql_verbs
[ "$group" != roce_pair ] || clusters=cluster folder=$work/template
if [ "$tests" != unit ] &&
	! (rf_init "$folder" && for name in $clusters; do
		rf_start "$name" && rf_database "$name" && RF_DB=contrib_regression rf_sql "$name" "CREATE EXTENSION rdma_fdw" && rf_stop "$name" fast || exit 1
	done); then
	rf_result FAIL "$group" "no data directory"
	exit 1
fi
[ "$group" != roce_pair ] || exec "$here/pair.sh" "$work"

# Plain C programs that want a device. One that includes a source takes nothing of it out of the archive.
programs="test_provider_conformance test_provider_life test_strided test_region_plan test_verbs_device"
[[ " $tests " == *" unit "* ]] || programs=
compile=("${CC:-gcc}" -std=gnu11 -g -O2 -D_GNU_SOURCE -DWITH_VERBS -Iinclude -Isrc -Itest/unit)
if [ -n "$programs" ] && ! (mkdir -p "$work/objects" && cd "$RF_TREE" &&
	printf '%s\0' test/unit/sim*.c src/provider/*.c src/base/{error,tls}.c src/engine/regions.c src/batch/region*.c |
		xargs -0 -P "$(nproc)" -I{} bash -c 'source=$1; shift; "$@" -c "$source" -o "$0/${source//\//_}.o"' "$work/objects" {} "${compile[@]}" &&
	ar rcs "$work/objects/plain.a" "$work/objects"/*.o) >"$work/build.log" 2>&1; then
	rf_show "$work/build.log" 60
	rf_result FAIL "$group" "the programs' sources do not compile"
	programs=
fi
for name in $programs; do
	if ! (cd "$RF_TREE" && "${compile[@]}" "test/unit/$name.c" "$work/objects/plain.a" -o "$work/$name" -libverbs -lrdmacm -lssl -lcrypto -lpthread -lm) \
		>"$work/build.log" 2>&1; then
		rf_show "$work/build.log" 60
		rf_result FAIL "$group/$name" "does not compile"
		rm -f "$work/$name"
	fi
done

# machine DEVICE TESTS: tests in a machine that has this device
machine()
{
	local device=$1 status began=$SECONDS
	rm -f "$work/out/results"
	VM_DEVICE=$device VM_OUT=$work/out VM_STALL=${RF_VM_STALL:-1200} VM_TIMEOUT=${RF_VM_TIMEOUT:-7200} "$here/vm.sh" env RF_WORK="$RF_WORK" \
		RF_TREE="$RF_TREE" RF_PREFIX="$RF_PREFIX" RF_RESULTS="$work/out/results" RF_TIMEOUT=0 PG_CONFIG="${PG_CONFIG:-pg_config}" \
		SHARE="${SHARE:-1}" TESTS="$2" RF_AGAIN="${RF_AGAIN:-}" RF_USER="$RF_USER" PROVIDER=verbs $few "$here/inside.sh" "$work" 2>"$work/vm.log"
	status=$?
	cat "$work/vm.log" >&2
	cat "$work/out/results" >>"${RF_RESULTS:-/dev/null}" 2>/dev/null
	echo "$group over $device took $((SECONDS - began)) s"
	if [ "$status" = 125 ]; then
		rf_result FAIL "$group" "$device: $(tail -n 1 "$work/vm.log")"
	elif [ "$status" != 0 ] && ! grep -q '^FAIL ' "$work/out/results"; then
		rf_result FAIL "$group" "the tests in the virtual machine with $device ended with status $status"
	fi
	! grep -q '^FAIL ' "$work/out/results" 2>/dev/null && [ "$status" = 0 ]
}

machine "$device" "$tests"
