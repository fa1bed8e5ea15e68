#!/usr/bin/env bash
# run_unit.sh unit|sanitizers: the plain C tests. run_check.sh calls it: make check runs unit, and make check-full sanitizers besides.
#
# test/unit/NAME.c is one program, linked with whatever it needs of the sources that include no PostgreSQL header (they are
# put into a library together with test/unit files that have no main, so nothing has to be listed; unit takes their objects from the
# extension's build). It prints "ok - what" and "not ok - what" lines, or nothing and only its
# exit status counts. In unit it runs plain; in sanitizers under ASan+UBSan, and under TSan too when it says pthread_create or RF_TSAN.
# test/fuzz/NAME.c defines LLVMFuzzerTestOneInput; in sanitizers it runs for RF_FUZZ_SECONDS (10) from the inputs in test/fuzz/NAME/. One
# that includes test/fuzz/backend.h brings the file of the backend that it is about along, and is not linked with the library.
#
# The test "bench" of unit compiles bench/engine and bench/region, runs a short load of the engine's and the tests of the other's regions.
# test/static/indent.pl looks at the format of C files: the test "indent" of unit.
# test/static/rooms.pl looks at how folders and files use each other: the test "rooms" of unit. test/static/comments.pl looks for
# files and functions that comments name: the test "comments". test/static/house.pl measures how simple the tree is: the test
# "house". test/static/sql_text.pl looks for answers of other servers that become a part of statements: "sql_text", and its own
# test "sql_text_cases". test/static/questions.pl compares the statements that are sent to other servers with those that test/lying
# knows: "questions".
#
#   TESTS="a b"   only these          CC, CLANG   compilers
set -uo pipefail
. "$(dirname "$0")/results.sh"
: "${RF_WORK:?run this through make check-unit}" "${RF_TREE:?}" "${RF_SOURCE:?}"

group=${1:-unit}
work=$RF_WORK/$group
flavours=plain
[ "$group" = unit ] || flavours="asan tsan"
mkdir -p "$work"
cd "$RF_TREE" || exit 1
warnings="-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Werror"
flags="-std=gnu11 -g -fno-omit-frame-pointer -D_GNU_SOURCE -Iinclude -Isrc -Itest/unit"
libs="-libverbs -lrdmacm -lssl -lcrypto -lpthread -lm"
mapfile -t sources < <(grep -LE '#include[[:space:]]*"(postgres(_fe)?\.h|rdma_fdw/compat\.h|c\.h)"' src/*.c src/*/*.c src/*/*/*.c 2>/dev/null
	grep -LE '^main[[:space:]]*\(|[[:space:]]main[[:space:]]*\(' test/unit/*.c 2>/dev/null)

flavour_flags()
{
	case $1 in
		plain) echo "-O1" ;;
		asan) echo "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all" ;;
		tsan) echo "-O1 -fsanitize=thread" ;;
		fuzz) echo "-O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" ;;
	esac
}

compiler() { if [ "$1" = fuzz ]; then echo "${CLANG:-clang}"; else echo "${CC:-gcc}"; fi; }

# library FLAVOUR: work/FLAVOUR/plain.a out of all plain sources
library()
{
	local dir=$work/$1 extra=$warnings
	mkdir -p "$dir"
	[ "$1" != fuzz ] || extra=-w
	local compile=("${sources[@]}") built=()
	if [ "$1" = plain ]; then
		mapfile -t compile < <(printf '%s\n' "${sources[@]}" | grep -v '^src/')
		mapfile -t built < <(printf '%s\n' "${sources[@]}" | sed -n "s|^src/\(.*\)\.c$|$RF_SOURCE/src/\1.o|p")
	fi
	printf '%s\n' "${compile[@]}" | xargs -P "$(nproc)" -I{} bash -c '
		src=$1; shift; object=$0/$(echo "${src%.c}" | tr / _).o
		"$@" -c "$src" -o "$object"' "$dir" {} $(compiler "$1") $flags $extra $(flavour_flags "$1") >"$dir/build.log" 2>&1 ||
		{ rf_show "$dir/build.log" 60; return 1; }
	rm -f "$dir/plain.a"
	ar rcs "$dir/plain.a" "$dir"/*.o && { [ ${#built[@]} = 0 ] || ar rcsP "$dir/plain.a" "${built[@]}"; }
}

# run_one FLAVOUR NAME
run_one()
{
	local flavour=$1 name=$2 program=$work/$1/$2 log=$work/$1/$2.log status label=unit/$2
	[ "$flavour" = plain ] || label="unit/$name ($flavour)"
	# shellcheck disable=SC2046,SC2086
	if ! ${CC:-gcc} $flags $warnings $(flavour_flags "$flavour") "test/unit/$name.c" "$work/$flavour/plain.a" $libs -o "$program" >"$log" 2>&1; then
		rf_show "$log" 60
		rf_result FAIL "$label" "does not compile; $(rf_again "$name")"
		return
	fi
	# TSan's shadow memory does not survive every address layout.
	(cd "$work" && UBSAN_OPTIONS=print_stacktrace=1 timeout "${RF_TIMEOUT:-1800}" setarch -R "$program" >"$log" 2>&1 </dev/null)
	status=$?
	if ! rf_tap_results "$label" "$log" "test/unit/$name.c" && [ "$status" = 0 ]; then
		rf_result ok "$label"
	elif [ "$status" != 0 ]; then
		grep -Eq '^not ok' "$log" || rf_result FAIL "$label" "test/unit/$name.c: ended with status $status; $(rf_again "$name")"
		grep -v '^ok' "$log" | tail -n 60
	fi
}

# The programs of bench/ that take these sources compile, and rows come in the engine's: what they measure is not looked at.
run_bench()
{
	local log=$work/bench.log name
	# shellcheck disable=SC2086
	if ! { ${CC:-gcc} $flags $warnings -O1 bench/engine/*.c "$work/plain/plain.a" $libs -o "$work/bench_engine" &&
		${CC:-gcc} $flags $warnings -O1 -DWITH_VERBS bench/region/region_bench.c bench/region/ncr*.c "$work/plain/plain.a" $libs -o "$work/bench_region"; } \
		>"$log" 2>&1; then
		rf_show "$log" 60
		rf_result FAIL unit/bench "bench/engine or bench/region does not compile; $(rf_again bench)"
		return
	fi
	for name in test_ncr test_ncr_plan; do
		# shellcheck disable=SC2086
		if ! { ${CC:-gcc} $flags $warnings -O1 "bench/region/$name.c" bench/region/ncr*.c "$work/plain/plain.a" $libs -o "$work/$name" &&
			"$work/$name"; } >"$log" 2>&1; then
			rf_show "$log" 60
			rf_result FAIL unit/bench "bench/region/$name.c; $(rf_again bench)"
			return
		fi
	done
	bench_runs "one load" -t shm weights &&
		bench_runs "an exchange of nodes" -t fabric -n 4 &&
		rf_result ok unit/bench
}

# bench_runs WHAT ARGUMENTS: 3 says that a figure missed its target, which is no matter here
bench_runs()
{
	local what=$1 status
	shift
	timeout 300 "$work/bench_engine" -r 1 -m 50 "$@" >"$work/bench.log" 2>&1 </dev/null
	status=$?
	if [ $status != 0 ] && [ $status != 3 ]; then
		rf_show "$work/bench.log" 60
		rf_result FAIL unit/bench "bench/engine, $what: ended with status $status; $(rf_again bench)"
		return 1
	fi
}

run_plain() { if [ "$1" = bench ]; then run_bench; else run_one plain "$1"; fi; }
run_asan() { run_one asan "$1"; }
run_tsan() { run_one tsan "$1"; }

# run_fuzzer NAME
run_fuzzer()
{
	local name=$1 log=$work/fuzz/$1.log seeds=() with="$work/fuzz/plain.a $libs" config=${PG_CONFIG:-pg_config}
	if grep -q '"backend.h"' "test/fuzz/$name.c"; then
		with="-w -I$($config --includedir-server) -I$($config --includedir) -L$($config --pkglibdir) -L$($config --libdir) -lpgcommon -lpgport -lm"
	fi
	[ ! -d "test/fuzz/$name" ] || seeds=("test/fuzz/$name")
	mkdir -p "$work/fuzz/$name.corpus"
	# shellcheck disable=SC2046,SC2086
	if ! ${CLANG:-clang} $flags $(flavour_flags fuzz) -fsanitize=fuzzer "test/fuzz/$name.c" $with \
		-o "$work/fuzz/$name" >"$log" 2>&1; then
		rf_show "$log" 60
		rf_result FAIL "fuzz/$name" "does not compile; $(rf_again "$name")"
	elif "$work/fuzz/$name" -max_total_time="${RF_FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$work/fuzz/$name." "$work/fuzz/$name.corpus" "${seeds[@]}" >"$log" 2>&1 </dev/null; then
		rf_result ok "fuzz/$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
	else
		tail -n 40 "$log"
		rf_result FAIL "fuzz/$name" "test/fuzz/$name.c: see above for the input; $(rf_again "$name")"
	fi
}

# After the build of the other groups there is nothing to do.
if [ "$group" = unit ] && ! make -s -C "$RF_SOURCE" -j"$(nproc)" all PG_CONFIG="${PG_CONFIG:-pg_config}" >"$work/build.log" 2>&1; then
	rf_show "$work/build.log" 60
	rf_result FAIL unit "the extension does not build"
	exit 1
fi

# static_check NAME WHAT COMMAND...: a look at the text of src; its name goes from `wanted`
read -ra wanted <<<"${TESTS:-}"
static_check()
{
	local name=$1 what=$2
	shift 2
	[ "$group" = unit ] && [[ " ${TESTS:-$name} " == *" $name "* ]] || return 0
	mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | grep -Fxv "$name")
	if "$@" >"$work/$name.log" 2>&1; then
		rf_result ok "unit/$name"
	else
		rf_show "$work/$name.log"
		rf_result FAIL "unit/$name" "$what; $(rf_again "$name")"
	fi
}

# Calls between folders are found in objects.
static_check rooms "folders or files use each other in a circle, or nothing uses them" test/static/rooms.pl "$RF_SOURCE"
static_check indent "C files are not formatted: make indent" test/static/indent.pl --check "$RF_SOURCE"
static_check comments "comments name what is not there" test/static/comments.pl src include test/unit test/fuzz bench
static_check house "the tree is less simple than test/static/house.txt allows" test/static/house.pl "$RF_SOURCE"
static_check sql_text_cases "the test sql_text does not find what it is for" test/static/sql_text_cases.sh "$work/sql_text"
static_check sql_text "what another server says is pasted into a statement" test/static/sql_text.pl "$RF_SOURCE"
static_check questions "test/lying or docs/security.md does not know a statement that is sent to other servers" test/static/questions.pl "$RF_SOURCE"
[ -z "${TESTS:-}" ] || [ ${#wanted[@]} -gt 0 ] || exit 0

names=()
for file in test/unit/*.c; do
	[ -e "$file" ] && ! printf '%s\n' "${sources[@]}" | grep -Fqx "$file" && names+=("$(basename "$file" .c)")
done
[ "$group" != unit ] || names+=(bench)
fuzzers=()
for file in test/fuzz/*.c; do
	[ -e "$file" ] && [ "$group" != unit ] && fuzzers+=("$(basename "$file" .c)")
done
if [ -n "${TESTS:-}" ]; then
	names=($(printf '%s\n' "${names[@]}" | grep -Fxf <(printf '%s\n' "${wanted[@]}")))
	fuzzers=($(printf '%s\n' "${fuzzers[@]}" | grep -Fxf <(printf '%s\n' "${wanted[@]}")))
fi
if [ ${#names[@]} = 0 ] && [ ${#fuzzers[@]} = 0 ]; then
	rf_result FAIL unit "there is no test/unit/*.c or test/fuzz/*.c${TESTS:+ of ${wanted[*]}}"
	exit 1
fi

# Most of a program's time is waiting.
jobs=${RF_JOBS:-$((2 * $(nproc)))}
for flavour in $flavours; do
	[ ${#names[@]} -gt 0 ] || break
	chosen=("${names[@]}")
	[ $flavour != tsan ] || mapfile -t chosen < <(cd test/unit && grep -lE 'pthread_create|RF_TSAN' "${names[@]/%/.c}" | sed 's/\.c$//')
	[ ${#chosen[@]} -gt 0 ] || continue
	if library $flavour; then
		rf_side_by_side "$jobs" "run_$flavour" "${chosen[@]}"
	else
		rf_result FAIL "unit ($flavour)" "the plain C sources do not compile"
	fi
done

if [ ${#fuzzers[@]} -gt 0 ]; then
	if ! library fuzz; then
		rf_result FAIL "unit (fuzz)" "the plain C sources do not compile with ${CLANG:-clang}"
		exit 1
	fi
	rf_side_by_side "$(nproc)" run_fuzzer "${fuzzers[@]}"
fi
