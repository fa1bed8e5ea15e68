#!/usr/bin/env bash
# pair.sh FOLDER: rdma_fdw over soft-RoCE between two emulated machines (vm.sh) with a wire between them: a coordinator and a data node on one,
# a data node on the other. check.sh calls it; FOLDER has template/cluster, a data directory, and out/. pair_machine.sh runs inside.
set -uo pipefail
. "$(dirname "$0")/../run_common.sh"

here=$(cd "$(dirname "$0")" && pwd)
work=$1
out=$work/pair
rm -rf "$out"
mkdir -p "$out"

# machine ROLE WIRE ADDRESS
machine()
{
	VM_OUT=$out VM_WIRE="$2 $out/wire $3" VM_MODULES="sch_netem sch_ingress cls_u32 act_gact" VM_MEMORY=2500 \
		VM_STALL="${RF_VM_STALL:-1200}" VM_TIMEOUT="${RF_VM_TIMEOUT:-3600}" "$here/vm.sh" env RF_WORK="$RF_WORK" \
		RF_TREE="$RF_TREE" RF_PREFIX="$RF_PREFIX" RF_USER="$RF_USER" RF_RESULTS="$out/results" \
		PAIR_PARTS="${PAIR_PARTS:-}" "$here/pair_machine.sh" "$1" "$work"
}

machine node listen 10.88.0.2/24 >"$out/node.log" 2>&1 &
node=$!
trap 'touch "$out/stop"; wait $node 2>/dev/null' EXIT
for try in $(seq 1200); do
	[ ! -S "$out/wire" ] && kill -0 $node 2>/dev/null || break
	sleep 0.1
done
if [ ! -S "$out/wire" ]; then
	rf_result FAIL roce/pair "$(tail -n 1 "$out/node.log")"
	exit 1
fi
machine coordinator connect 10.88.0.1/24 2>"$out/vm.log"
status=$?
cat "$out/vm.log" >&2
cat "$out/results" >>"${RF_RESULTS:-/dev/null}" 2>/dev/null
if [ "$status" != 0 ]; then
	rf_result FAIL roce/pair "the coordinator's machine ended with status $status: $(tail -n 1 "$out/vm.log")"
	rf_show "$out/node.log" 40
fi
! grep -q '^FAIL ' "$out/results" 2>/dev/null && [ "$status" = 0 ]
