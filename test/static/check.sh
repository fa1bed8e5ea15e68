#!/usr/bin/env bash
# check.sh: what two analyzers and the warnings of two compilers say about src, and whether its folders and files use each other
# in one direction (rooms.pl). run_check.sh calls it for the group "static".
#
# Nothing they report is ignored: a report is answered by better code. Where there is none, cppcheck takes a comment
# "cppcheck-suppress" with its reason, and a kind of report that is never right here is switched off below with its reason.
# The analyzers know what Assert() says, as an assertion is the shortest proof that a report is wrong.
#
# A file that a tool had nothing to say of is not examined again until the file, a header of ours that it includes, the
# tool, its arguments or PostgreSQL change: RF_STATIC_DIR (default /var/tmp/rdma_fdw_static) has an empty file for each.
#
#   TESTS="src/fdw/plan/join.c"   only these files          CC, CLANG   compilers
set -uo pipefail
. "$(dirname "$0")/../results.sh"
: "${RF_WORK:?run this through make check-static}" "${RF_TREE:?}"

work=$RF_WORK/static
export clean=${RF_STATIC_DIR:-/var/tmp/rdma_fdw_static}
mkdir -p "$work" "$clean"
find "$clean" -type f -mtime +30 -delete
cd "$RF_TREE" || exit 1
pg_config=${PG_CONFIG:-pg_config}
# The largest first, so that no processor waits for the other at the end.
# shellcheck disable=SC2012,SC2086
if ! list=$(ls -S ${TESTS:-src/*.c src/*/*.c src/*/*/*.c}); then
	rf_result FAIL static "not all of these files exist: $TESTS"
	exit 1
fi
mapfile -t files <<<"$list"

# As the Makefile and PGXS compile; PostgreSQL's headers are not examined.
headers=(-Iinclude -Isrc -isystem "$("$pg_config" --includedir-server)" -isystem "$("$pg_config" --includedir)" -D_GNU_SOURCE)
flags=("${headers[@]}" -fno-strict-aliasing -fwrapv -c -o /dev/null)
# Parameters of call-backs, comparisons and initializers as in PostgreSQL itself; formats chosen by a caller have an
# attribute that checks them where they are written.
warnings=(-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
	-Wshadow -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wno-format-nonliteral)
of_gcc=(-Wimplicit-fallthrough=3 -Wduplicated-cond -Wduplicated-branches)

# Each file with a digest of itself and of our headers in it.
for file in "${files[@]}"; do
	printf '%s ' "$file"
	"${CC:-gcc}" "${headers[@]}" -MM -MT '' "$file" | tr -d ':\\' | xargs cat | sha256sum | cut -c 1-64
done >"$work/digests"

# once FILE DIGEST TOOLS COMMAND...: the command with the file, unless it had nothing to say of the same before
once()
{
	local file=$1 mark output status
	mark=$clean/$(printf '%s\n' "$@" | sha256sum | cut -c 1-32)
	shift 3
	[ ! -e "$mark" ] || return 0
	output=$("$@" "$file" 2>&1)
	status=$?
	if [ $status = 0 ] && [ -z "$output" ]; then
		: >"$mark"
	else
		printf '%s\n' "${output:-$file: ended with status $status}"
	fi
	return $status
}
export -f once

# each NAME COMMAND...: the command with each file; what any of them prints is a report
each()
{
	local name=$1 log=$work/${1// /_}.log start=$SECONDS tools
	shift
	tools="$("$1" --version) $("$pg_config" --version) $(sha256sum <test/static/postgres.cfg)"
	# shellcheck disable=SC2016
	if xargs -P "$(nproc)" -n 2 bash -c 'once "${@: -2}" "$0" "${@:1:$#-2}"' "$tools" "$@" <"$work/digests" >"$log" 2>&1 &&
		[ ! -s "$log" ]; then
		rf_result ok "static/$name" "${#files[@]} files, $((SECONDS - start)) s"
	else
		rf_show "$log"
		rf_result FAIL "static/$name" "$(grep -Ec '(warning|error):' "$log") reports"
	fi
}

# Calls are found in objects; without them only includes are.
if (make -s PG_CONFIG="$pg_config" && test/static/rooms.pl) >"$work/rooms.log" 2>&1; then
	rf_result ok "static/rooms"
else
	rf_show "$work/rooms.log"
	rf_result FAIL "static/rooms" "folders or files use each other in a circle, or nothing uses them"
fi
each "warnings of gcc" "${CC:-gcc}" -O2 "${flags[@]}" "${warnings[@]}" "${of_gcc[@]}"
each "warnings of clang" "${CLANG:-clang}" -O1 "${flags[@]}" "${warnings[@]}"
each "analyzer of clang" "${CLANG:-clang}" --analyze --analyzer-output text -DUSE_ASSERT_CHECKING=1 "${flags[@]}"
# It would need minutes for PostgreSQL's headers; postgres.cfg says what it has to know of them.
each "cppcheck" cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --max-configs=1 \
	--library=test/static/postgres.cfg -Iinclude -Isrc -D_GNU_SOURCE -D__GNUC__=12 -D__linux__ -D__x86_64__ \
	--template='{file}:{line}: {severity}: {message} [{id}]'
