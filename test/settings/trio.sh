#!/usr/bin/env bash
# trio.sh FOLDER TEST...: SQL inputs under the settings in SETTINGS, on a coordinator and two data nodes that are new; settings.pl
# calls it. The outputs are in FOLDER/out/results, and what the servers' logs tell of crashes is printed.
set -uo pipefail
. "$(dirname "$0")/../run_common.sh"
work=$1
shift
rm -rf "$work"
export LC_ALL=C
# Memory that was freed, and new memory that nobody has written, is not what it was: the blocks of contexts that are gone, too.
export MALLOC_PERTURB_=${MALLOC_PERTURB_-165}
# Many clusters are written and removed: in memory, where there is enough of it.
data=$work
[ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -lt 4000000 ] 2>/dev/null || data=/dev/shm/rdma_fdw_settings.$$
mkdir -p "$work"
trap 'rf_stop_all; rm -rf "$data/coord" "$data/n1" "$data/n2"; [ "$data" = "$work" ] || rm -rf "$data"' EXIT
(rf_start_trio "$data") >"$work/start.log" 2>&1 || { tail -n 5 "$work/start.log"; exit 2; }
RF_ROOT=$data RF_SOCKETS=$data RF_CLUSTERS=(coord n1 n2)
RF_COORD_PORT=$(rf_port coord) RF_N1_PORT=$(rf_port n1) RF_N2_PORT=$(rf_port n2)
export RF_COORD_PORT RF_N1_PORT RF_N2_PORT
mkdir -p "$work/out"
[ $EUID != 0 ] || chown "$RF_USER" "$work/out"
rf_run timeout "${RF_TIMEOUT:-7200}" "$(dirname "$(rf_pg_config --pgxs)")/../test/regress/pg_regress" --use-existing \
	--bindir="$RF_BINDIR" --host="$RF_SOCKETS" --port="$RF_COORD_PORT" --user=postgres --dbname=contrib_regression \
	--inputdir="$RF_TREE" --outputdir="$work/out" "$@" >"$work/pg_regress.log" 2>&1
for name in coord n1 n2; do
	grep -E 'PANIC|TRAP:|terminated by signal (6|7|8|11)|runtime error:' "$(rf_log "$name")" | head -n 3
	cp "$(rf_log "$name")" "$work/"
done
exit 0
