#!/usr/bin/env bash
# statistics.sh [SECONDS] [SEED]: statistics of a node changed at random, imported, and used by the planner (statistics.sql). Another seed each
# round, until SECONDS (60) have passed. It starts a cluster of its own in a throw-away folder.
#
#   COUNT       imports in a round (500)
#   RF_PREFIX   an existing copy made by tmp_install.sh
#   PG_CONFIG   of another server, as in images.sh
#
# Ends with 1 and the statistics where something goes wrong.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-60} seed=${2:-$RANDOM} count=${COUNT:-500}
dir=$(mktemp -d /tmp/rdma_fdw_statistics.XXXXXX)
chmod 755 "$dir"
if [ -z "${RF_PREFIX:-}" ]; then
	RF_PREFIX=$dir/pg
	"$tree/test/tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >/dev/null
fi
. "$tree/test/cluster.sh"
trap 'rf_cleanup; rm -rf "$dir"' EXIT
rf_init "$dir/clusters"
rf_start fuzz fsync=off jit=off rdma_fdw.provider=soft
rf_sql fuzz 'CREATE DATABASE node'
rf_sql fuzz 'CREATE EXTENSION rdma_fdw'
RF_DB=node rf_sql fuzz 'CREATE EXTENSION rdma_fdw'
RF_DB=node rf_psql fuzz -q -v ON_ERROR_STOP=1 <"$tree/test/fuzz/statistics_node.sql"
rf_psql fuzz -q -v ON_ERROR_STOP=1 -v port="$(rf_port fuzz)" <"$tree/test/fuzz/statistics.sql"
end=$((SECONDS + seconds)) rounds=0 taken=0
while [ $SECONDS -lt $end ]; do
	if ! out=$(rf_sql fuzz "SELECT fuzz_statistics($count, $seed)" 2>&1); then
		printf 'seed %s: %s\n' "$seed" "$out"
		tail -n 20 "$(rf_log fuzz)"
		exit 1
	fi
	rounds=$((rounds + 1)) seed=$((seed + 1)) taken=$((taken + out))
done
printf '%s rounds of %s imports, last seed %s, %s statistics taken: nothing found\n' "$rounds" "$count" "$((seed - 1))" "$taken"
