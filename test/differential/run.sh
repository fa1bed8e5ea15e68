#!/usr/bin/env bash
# run.sh: the differential test by hand, in throw-away clusters; see README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${WORK:-$(mktemp -d /tmp/rdma_fdw_differential.XXXXXX)}
mkdir -p "$work/cases"
chmod 755 "$work" "$work/cases"
if [ -z "${RF_PREFIX:-}" ]; then
	export RF_PREFIX=$work/pg
	"$here/../tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; exit 2; }
fi

# wait_for PID ...: until all have ended; the status of the last one that failed. A signal to us ends them early.
wait_for()
{
	local pid code status=0
	running=$*
	trap 'kill $running 2>/dev/null || true' INT TERM
	for pid in "$@"; do
		code=0
		wait "$pid" || code=$?
		while kill -0 "$pid" 2>/dev/null; do
			code=0
			wait "$pid" || code=$?
		done
		[ "$code" = 0 ] || status=$code
	done
	return "$status"
}

# Several at a time, each in clusters of its own: seeds that follow each other, and COUNT is of all together
jobs=${JOBS:-1}
if [ "$jobs" -gt 1 ]; then
	seed=${SEED:-$(($(date +%s) % 1000000))}
	pids=()
	for ((i = 0; i < jobs; i++)); do
		JOBS=1 WORK=$work/$i SEED=$((seed + i)) COUNT=${COUNT:+$(((COUNT + jobs - 1) / jobs))} "$here/run.sh" &
		pids+=($!)
	done
	status=0
	wait_for "${pids[@]}" || status=$?
	[ "$status" != 0 ] || rm -rf "$work"
	exit "$status"
fi
. "$here/../cluster.sh"

options=()
case ${PROVIDER:-auto} in
	soft_tcp) options=(rdma_fdw.provider=tcp) ;;
	soft_shm | soft) options=(rdma_fdw.provider=soft) ;;
	*) options=(rdma_fdw.provider="${PROVIDER:-auto}") ;;
esac
rf_init "$work/clusters"
trap 'rf_stop_all' EXIT
for name in n1 n2 co; do
	rf_start "$name" jit=off shared_buffers=64MB restart_after_crash=on max_connections=60 rdma_fdw.buffer_memory=128MB rdma_fdw.cores=64 \
		timezone=UTC autovacuum=on autovacuum_naptime=20s autovacuum_analyze_threshold=2000000000 log_min_duration_statement=5s "${options[@]}"
done
status=0
perl "$here/differential.pl" --setup --co "$(rf_port co)" --n1 "$(rf_port n1)" --n2 "$(rf_port n2)" --psql "$RF_BINDIR/psql" --directory "$work/cases" \
	${SEED:+--seed "$SEED"} ${COUNT:+--count "$COUNT"} ${DURATION:+--duration "$DURATION"} ${TOPOLOGY:+--topology "$TOPOLOGY"} ${FROM:+--from "$FROM"} \
	${SHRINK:+--shrink "$SHRINK"} ${VERBOSE:+--verbose} &
wait_for $! || status=$?
if [ "$status" = 0 ]; then
	trap - EXIT
	rf_cleanup
	rm -rf "$work"
else
	echo "clusters' logs: $work/clusters/*.log; scripts of what differs: $work/cases"
fi
exit "$status"
