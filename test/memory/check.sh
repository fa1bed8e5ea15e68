#!/usr/bin/env bash
# check.sh: the tests with every process of the servers, the engine and its threads too, under tools that watch memory.
# run_check.sh calls it for the group "memory"; it is not part of `make check`, because it builds PostgreSQL (10 minutes,
# once) and then takes more than an hour.
#
#   asan       AddressSanitizer and UndefinedBehaviorSanitizer in the extension: accesses outside of objects of malloc, of
#              the stack and of static data, use after free, undefined arithmetic. All SQL and isolation tests, the TAP
#              tests in tap_tests, where processes and connections die, and the chaos test for a minute.
#   valgrind   memcheck, which PostgreSQL tells about its memory contexts: reads of what was never written, accesses
#              outside of a palloc'd chunk or after pfree. The SQL tests in valgrind_tests: memcheck is 20 to 50 times
#              slower, and these together call every function of the extension that all SQL tests call (functions.sh
#              prints the list anew).
# Both run on one server with assertions (--enable-cassert), which check the use of core's interfaces and wipe freed memory.
# Only the extension is compiled for AddressSanitizer: palloc's chunks have no red zones there, they are memcheck's part.
#
# server.sh builds it. Programs started by root belong to RF_USER.
#
#   RF_MEMORY="valgrind"   only this tool
#   TESTS="20_scan 060_bad_days"   only these SQL and TAP files; under valgrind also others than valgrind_tests
#   VALGRIND_ARGS="--track-origins=yes"   more arguments, here: where unwritten bytes come from
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../results.sh"
. "$here/server.sh"
: "${RF_WORK:?run this through make check-memory}" "${RF_TREE:?}" "${RF_RESULTS:?}"

# PostgreSQL does not free everything at the end of a process, and finds the depth of its stack by addresses. A report
# aborts, so that the postmaster sees a crash.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:disable_coredump=1:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1

tap_tests=(060_bad_days 065_engine_away 066_void_transactions 082_exchange_bad_days 087_pooler)
# Those that add most functions for each second come first.
valgrind_tests=(33_images 34_hostile_node 48_placeholders 23_push_down 70_engine_views 47_pages 72_bench 10_options 52_aggregates 61_rows_of_statement
	32_batch 89_nodes_provenance 74_hostile_calls 26_analyze 78_distribute 59_windows 68_connections 58_join_rows
	86_compute_nodes 65_copy_lines 30_types 84_nodes_write 60_insert 22_pushdown 41_errors 66_transactions
	83_nodes_subselect 111_lookahead 46_parallel 51_subselects 85_nodes_write_join 79_partitions 53_partial_aggregates 92_nodes_parallel)

give_up()
{
	[ ! -e "$RF_WORK/memory.log" ] || tail -n 20 "$RF_WORK/memory.log"
	rf_result FAIL memory "$1"
	exit 1
}

# under TOOL PREFIX: its postmaster, and so all processes of its, run under the tool; reports go to the server's log
under()
{
	local command
	[ ! -e "$2/bin/postgres.plain" ] || return 0
	case $1 in
		asan) command="LD_PRELOAD=$(gcc -print-file-name=libasan.so) exec -a \"\$0\"" ;;
		valgrind)
			command="exec valgrind --quiet --leak-check=no --error-limit=no --num-callers=30 --fair-sched=yes"
			command+=" --gen-suppressions=all --error-markers=VALGRINDERROR-BEGIN,VALGRINDERROR-END"
			command+=" --suppressions=$cache/source/src/tools/valgrind.supp --suppressions=$here/valgrind.supp"
			command+=" ${VALGRIND_ARGS:-}"
			;;
	esac
	mv "$2/bin/postgres" "$2/bin/postgres.plain" || return 1
	# pg_ctl starts a server with -D; initdb and questions for the version need no tool. It restarts what the server says
	# its program is. Under valgrind that is the plain one, and no SQL file restarts a server.
	cat >"$2/bin/postgres" <<-SCRIPT
		#!/bin/bash
		[ "\$1" = -D ] || exec "\$0.plain" "\$@"
		$command "\$0.plain" "\$@"
	SCRIPT
	chmod 755 "$2/bin/postgres"
}

# run TOOL GROUP [TEST...]: these tests of the group, on the server under the tool; what pg_regress has done is printed
# while it runs
run()
{
	local tool=$1 group=$2 work=$RF_WORK/$1 tests
	shift 2
	[[ $group =~ ^(isolation|chaos)$ ]] || [ $# -gt 0 ] || return 0
	mkdir -p "$work/$group"
	RF_WORK=$work/$group RF_PREFIX=$work/pg TESTS="$*" RF_AGAIN="RF_MEMORY=$tool make check-memory" bash "$work/source/test/run_check.sh" "$group" 2>&1 |
		tee "$work/$group.log" | grep --line-buffered -v '^[0-9]* passed' &
	tests=$!
	tail -qF --pid=$tests -n +1 "$work/$group"/{sql_auto,isolation}/pg_regress.log 2>/dev/null |
		grep --line-buffered -E '^(test|ok|not ok) '
	wait $tests
	sed -n "s#^\(ok\|FAIL\)  *#\1 $tool/#p" "$work/$group.log" | sort -u >>"$RF_RESULTS"
}

# chosen FOLDER SUFFIX: those of TESTS that are files there
chosen()
{
	local name
	for name in $TESTS; do
		[ ! -e "$RF_TREE/$1/$name$2" ] || printf '%s\n' "$name"
	done
}

for name in "${valgrind_tests[@]}"; do
	[ -e "$RF_TREE/sql/$name.sql" ] || give_up "there is no sql/$name.sql: functions.sh makes valgrind_tests anew"
done
rf_assertion_server "$RF_WORK/memory.log" || give_up "there is no PostgreSQL with assertions"
export RF_LOG_LINES=30
export RF_START_TIMEOUT=300 RF_TIMEOUT=${RF_TIMEOUT:-14400} PGCONNECT_TIMEOUT=300 PG_TEST_TIMEOUT_DEFAULT=600
for tool in ${RF_MEMORY:-asan valgrind}; do
	printf '== %s\n' "$tool"
	# Sources of its own: objects that lie beside them are for another server.
	work=$RF_WORK/$tool
	mkdir -p "$work"
	cp -r "$RF_TREE" "$work/source"
	find "$work/source" \( -name '*.o' -o -name '*.so' \) -delete
	unset RF_MAKE_ARGS
	[ "$tool" != asan ] || export RF_MAKE_ARGS=PROFILE=-fsanitize=address,undefined
	# Engines that are slow for each other would be avoided, and with them the code that is to be examined.
	[ "$tool" != valgrind ] ||
		export SETTINGS="rdma_fdw.connect_timeout=5min rdma_fdw.peer_timeout=10min rdma_fdw.buffer_wait=5min ${SETTINGS:-}"
	if ! "$work/source/test/tmp_install.sh" "$work/pg" >"$RF_WORK/memory.log" 2>&1 || ! under "$tool" "$work/pg"; then
		rf_show "$RF_WORK/memory.log"
		rf_result FAIL "memory/$tool" "the extension does not build"
	elif [ -n "${TESTS:-}" ]; then
		run "$tool" sql $(chosen sql .sql)
		run "$tool" tap $(chosen test/t .pl)
	elif [ "$tool" = asan ]; then
		run asan sql $(basename -s .sql "$RF_TREE"/sql/[0-9]*.sql)
		run asan isolation
		run asan tap "${tap_tests[@]}"
		run asan chaos
	else
		run valgrind sql "${valgrind_tests[@]}"
	fi
done
