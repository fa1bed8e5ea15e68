#!/usr/bin/env bash
# run_chaos.sh: the chaos test (test/chaos), on clusters of its own. run_check.sh calls it.
#
#   SEED, DURATION, ROUND, CLIENTS, RATE, LONGEST, ONLY, WITHOUT     see test/chaos/README.md; SEED is printed
set -uo pipefail
. "$(dirname "$0")/run_common.sh"

work=$RF_WORK/chaos
mapfile -t settings < <(rf_provider_settings)
trap rf_stop_all EXIT
rf_init "$work"
for name in co n1 n2; do
	# The engine's port must stay when the cluster restarts: the proxy leads there.
	rf_start "$name" timezone=UTC shared_buffers=32MB jit=off max_connections=60 log_min_messages=error autovacuum=on autovacuum_naptime=5s \
		max_worker_processes=16 restart_after_crash=on rdma_fdw.engine_port="$(rf_free_port)" \
		rdma_fdw.buffer_memory=64MB rdma_fdw.peer_timeout=4s "${settings[@]}"
done
log=$work/tap
commit=$(git -C "${RF_SOURCE:-$RF_TREE}" rev-parse --short HEAD 2>/dev/null)
rf_run env COMMIT="$commit" RF_BINDIR="$RF_BINDIR" PROVIDER="${PROVIDER:-auto}" SEED="${SEED:-}" DURATION="${DURATION:-60}" ROUND="${ROUND:-}" CLIENTS="${CLIENTS:-}" \
	RATE="${RATE:-}" LONGEST="${LONGEST:-}" ONLY="${ONLY:-}" WITHOUT="${WITHOUT:-}" timeout "${RF_TIMEOUT:-0}" \
	perl "$RF_TREE/test/chaos/chaos.pl" "$RF_ROOT" 2>&1 </dev/null | tee "$log" | grep --line-buffered -v '^ok '
status=${PIPESTATUS[0]}
rf_tap_results chaos "$log" test/chaos/chaos.pl || rf_result FAIL chaos "it checked nothing"
if [ "$status" != 0 ] && ! grep -q '^not ok' "$log"; then
	rf_result FAIL chaos "ended with status $status"
fi
