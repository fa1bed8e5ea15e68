#!/usr/bin/env bash
# check.sh: which lines the tests execute, as gcov counts them. run_check.sh calls it for the group "coverage"; it is not part
# of make check, because it repeats the other groups: half an hour.
#
# It builds the sources once more with counters, runs the groups of COVERAGE_GROUPS on that build, and prints a table by room
# into COVERAGE_OUT (table.txt) and the exported functions that no test calls. It fails where a room has fewer than 90 % of
# its lines, or an exported function is not called, unless test/coverage/unreached names the file or function with a reason.
#
# Not counted is what runs in the soft-RoCE machine: its files cannot be written from here. Processes that end by SIGQUIT or
# SIGKILL leave no counts.
#
#   COVERAGE_GROUPS="sql unit"   only these groups          COVERAGE_OUT   default: the folder of this file
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../results.sh"
: "${RF_WORK:?run this through make check-coverage}" "${RF_TREE:?}" "${RF_RESULTS:?}"

work=$RF_WORK/coverage
source=$work/source
out=${COVERAGE_OUT:-$here}
mkdir -p "$work"
cp -r "$RF_TREE" "$source"
find "$source" \( -name '*.o' -o -name '*.so' -o -name '*.d' \) -delete

# Lanes are threads, and their counters are shared.
export RF_MAKE_ARGS="PROFILE=--coverage COPT=-fprofile-update=atomic" CC="gcc --coverage"
if ! "$source/test/tmp_install.sh" "$work/pg" >"$work/build.log" 2>&1; then
	rf_show "$work/build.log"
	rf_result FAIL coverage/build "the extension does not build with counters"
	exit 1
fi
# Servers run as another user, and write the counts beside the objects.
chmod -R a+rwX "$source"

for group in ${COVERAGE_GROUPS:-unit sql tcp isolation tap tap_rest chaos}; do
	mkdir -p "$work/$group"
	RF_WORK=$work/$group RF_PREFIX=$work/pg bash "$source/test/run_check.sh" "$group" 2>&1 | tee "$work/$group.log" | grep -E '^(FAIL|==)'
	sed -n 's#^\(ok\|FAIL\)  *#\1 coverage/#p' "$work/$group.log" | sort -u >>"$RF_RESULTS"
done

# One line for each function and file: kind, file, name, lines executed in percent, lines
cd "$source" || exit 1
find src -name '*.c' | sort | while read -r file; do
	gcov -n -f -o "${file%.c}.o" "$file" 2>/dev/null | awk -v file="$file" '
		/^(Function|File) / {kind = $1; name = $2; gsub("\x27", "", name)}
		/^Lines executed:/ && (kind == "Function" || name == file) {
			split($0, part, /[:% ]+/); print kind "\t" file "\t" name "\t" part[3] "\t" part[5]}
		/^No executable lines/ {kind = ""}'
done >"$work/lines"

"$here/table.pl" "$work/lines" "$here/unreached" "$source/include" "$source/src" >"$work/table.txt"
status=$?
cat "$work/table.txt"
[ -n "${COVERAGE_GROUPS:-}" ] || cp "$work/table.txt" "$out/table.txt"
if [ $status = 0 ]; then rf_result ok coverage; else rf_result FAIL coverage "rooms or functions are not reached: see the table"; fi
