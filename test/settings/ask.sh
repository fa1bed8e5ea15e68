#!/usr/bin/env bash
# ask.sh SQL: the answer of a new server with default settings and the extension loaded; settings.pl calls it.
set -euo pipefail
. "$(dirname "$0")/../cluster.sh"
trap rf_cleanup EXIT
rf_init "$RF_WORK/ask"
rf_start ask jit=off
rf_sql ask "$1"
