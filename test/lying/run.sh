#!/usr/bin/env bash
# run.sh: a node that lies, or with WHAT=calls hostile callers, by hand, in throw-away clusters; see README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${WORK:-$(mktemp -d /tmp/rdma_fdw_lying.XXXXXX)}
mkdir -p "$work"
chmod 755 "$work"
if [ -z "${RF_PREFIX:-}" ]; then
	export RF_PREFIX=$work/pg
	"$here/../tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; exit 2; }
fi
. "$here/../cluster.sh"
rf_init "$work/clusters"
trap 'rf_stop_all' EXIT
what=${WHAT:-answers}
names=(n1 n2 co)
[ "$what" = answers ] || names=(n1)
for name in "${names[@]}"; do
	rf_start "$name" jit=off shared_buffers=32MB restart_after_crash=on max_connections=60 max_prepared_transactions=20 rdma_fdw.buffer_memory=64MB rdma_fdw.provider=soft
done
status=0
options=(${ONLY:+--only "$ONLY"} ${MINUTES:+--minutes "$MINUTES"} ${SEED:+--seed "$SEED"})
if [ "$what" = calls ]; then
	perl "$here/calls.pl" --port "$(rf_port n1)" "${options[@]}" || status=$?
else
	perl "$here/lying.pl" --port co="$(rf_port co)" --port n1="$(rf_port n1)" --port n2="$(rf_port n2)" ${LIE:+--lie "$LIE"} "${options[@]}" || status=$?
fi
for name in "${names[@]}"; do
	if grep -qE 'PANIC|TRAP|terminated by signal (6|11)' "$(rf_log "$name")"; then
		grep -E 'PANIC|TRAP|terminated by signal (6|11)' "$(rf_log "$name")" | head -n 3
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
