#!/usr/bin/env bash
# run.sh: connections and round trips that are struck, by hand, in throw-away clusters; see README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${WORK:-$(mktemp -d /tmp/rdma_fdw_refuse.XXXXXX)}
mkdir -p "$work"
chmod 755 "$work"
if [ -z "${RF_PREFIX:-}" ]; then
	export RF_PREFIX=$work/pg
	"$here/../tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; exit 2; }
fi
. "$here/../cluster.sh"
rf_init "$work/clusters"
trap 'rf_stop_all' EXIT
case ${PROVIDER:-auto} in
	soft_tcp) options=(rdma_fdw.provider=tcp) ;;
	soft_shm | soft) options=(rdma_fdw.provider=soft) ;;
	*) options=(rdma_fdw.provider="${PROVIDER:-auto}") ;;
esac
for name in n1 n2 co; do
	rf_start "$name" jit=off shared_buffers=32MB restart_after_crash=on max_connections=60 rdma_fdw.buffer_memory=64MB "${options[@]}"
done
status=0
perl "$here/refuse.pl" --port co="$(rf_port co)" --port n1="$(rf_port n1)" --port n2="$(rf_port n2)" ${ONLY:+--only "$ONLY"} ${EVERY:+--every "$EVERY"} ${SEED:+--seed "$SEED"} || status=$?
for name in n1 n2 co; do
	if grep -qE 'PANIC|terminated by signal (6|11)' "$(rf_log "$name")"; then
		grep -E 'PANIC|terminated by signal (6|11)' "$(rf_log "$name")" | head -n 3
		status=1
	fi
done
if [ "$status" = 0 ]; then
	trap - EXIT
	rf_cleanup
	rm -rf "$work"
else
	echo "clusters' logs: $work/clusters/*.log"
fi
exit "$status"
