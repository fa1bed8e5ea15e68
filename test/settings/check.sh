#!/usr/bin/env bash
# check.sh: the answers of the SQL inputs are the same under all settings; see README.md. run_check.sh calls it for the group
# "settings".
set -uo pipefail
exec perl "$(dirname "$0")/settings.pl"
