#!/usr/bin/env bash
# images.sh [SECONDS] [SEED]: raw images changed at random; what the decoder takes is used by the functions of its type in a
# backend (test/modules/batch/images.c, images.sql beside this). Another seed each round, until SECONDS (60) have passed. It
# needs a machine that the extension builds on, and starts a cluster of its own in a throw-away folder.
#
#   COUNT       images of each type in a round (20000)
#   PG_CONFIG   of another server: with assertions (test/memory/check.sh builds one), writes beyond palloc'd memory are found
#
# Ends with 1 and the image where something goes wrong.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
. "$tree/test/cluster.sh"
seconds=${1:-60} seed=${2:-$RANDOM} count=${COUNT:-20000}
dir=$(mktemp -d /tmp/rdma_fdw_images.XXXXXX)
chmod 755 "$dir"
trap 'rf_cleanup; rm -rf "$dir"' EXIT

# Objects that lie in the tree may be for another server.
cp -r "$tree" "$dir/tree"
find "$dir/tree" \( -name '*.o' -o -name '*.so' \) -delete
RF_PREFIX=$dir/pg RF_BINDIR=$dir/pg/bin
"$dir/tree/test/tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >/dev/null
make -s -C "$dir/tree/test/modules/batch" PG_CONFIG="${PG_CONFIG:-pg_config}" >&2
install -m 755 "$dir/tree/test/modules/batch/batch_test.so" "$("$RF_BINDIR/pg_config" --pkglibdir)/"
rf_init "$dir/clusters"
rf_start fuzz fsync=off jit=off
rf_psql fuzz -q -v ON_ERROR_STOP=1 <"$tree/test/fuzz/images.sql"
types=$(rf_sql fuzz 'SELECT count(*) FROM image_types')
end=$((SECONDS + seconds)) rounds=0
while [ $SECONDS -lt $end ]; do
	if ! rf_psql fuzz -q -v ON_ERROR_STOP=1 -c "SELECT * FROM mutate_images($count, $seed)" >"$dir/out" 2>&1; then
		printf 'seed %s: ' "$seed"
		cat "$dir/out"
		tail -n 20 "$(rf_log fuzz)"
		exit 1
	fi
	rounds=$((rounds + 1)) seed=$((seed + 1))
done
printf '%s rounds of %s images of %s types, last seed %s: nothing found\n' "$rounds" "$count" "$types" "$((seed - 1))"
cat "$dir/out"
