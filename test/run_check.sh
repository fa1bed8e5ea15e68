#!/usr/bin/env bash
# run_check.sh GROUP...: run groups of tests (the Makefile lists them)
# and end with one line "N passed, N failed"; the exit status says the same.
#
# Everything happens in a throw-away folder that the user PostgreSQL runs as can reach, from any folder of the sources:
# the inputs are copied there and PostgreSQL with this extension is installed there. When something failed the folder stays.
#
#   RF_WORK    the folder (default: a new one in /tmp)         RF_PREFIX  an existing copy made by tmp_install.sh
#   PROVIDER   auto, verbs, soft, soft_shm or soft_tcp, for the groups that run SQL
#   SETTINGS   more settings for their clusters, as "K=V K=V" (groups sql, sql_tcp and isolation)
#   PG_CONFIG  which PostgreSQL to build and run with
#   RF_GROUPS  how many groups run at a time
#   RF_JOBS    how many TAP files or unit tests run at a time
#   RF_TIMES   how often SQL tests repeat what is a matter of chance (default 20)
set -uo pipefail

tree=$(cd "$(dirname "$0")/.." && pwd)
umask 022
if [[ ! ${PROVIDER:-auto} =~ ^(auto|verbs|soft|soft_shm|soft_tcp)$ ]]; then
	echo "PROVIDER=$PROVIDER is none of auto, verbs, soft, soft_shm, soft_tcp" >&2
	exit 2
fi
if [ -n "${RF_WORK:-}" ]; then
	mkdir -p "$RF_WORK"
else
	RF_WORK=$(mktemp -d /tmp/rdma_fdw_check.XXXXXX)
	chmod 755 "$RF_WORK"
fi
export RF_WORK RF_TREE=$RF_WORK/tree RF_SOURCE=$tree RF_RESULTS=$RF_WORK/results
: >"$RF_RESULTS"
. "$tree/test/results.sh"

finish()
{
	local passed failed
	passed=$(grep -c '^ok ' "$RF_RESULTS")
	failed=$(grep -c '^FAIL ' "$RF_RESULTS")
	if [ "$failed" -gt 0 ] || [ "$passed" = 0 ]; then
		printf '\n'
		grep '^FAIL ' "$RF_RESULTS"
		printf 'outputs and logs are kept in %s\n' "$RF_WORK"
		printf '%s passed, %s failed\n' "$passed" "$failed"
		exit 1
	fi
	rm -rf "$RF_WORK"
	printf '%s passed, %s failed\n' "$passed" "$failed"
	exit 0
}

# inputs
rm -rf "$RF_TREE"
mkdir -p "$RF_TREE"
for part in Makefile rdma_fdw.control META.json LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs docker sql expected test bench src include; do
	[ ! -e "$tree/$part" ] || cp -R "$tree/$part" "$RF_TREE/"
done
chmod -R a+rX "$RF_TREE"

# the extension, where a group needs a server (memory, coverage, package and sqlsmith build their own)
needs_server=
for group in "$@"; do
	[[ $group =~ ^(unit|sanitizers|static|memory|coverage|package|sqlsmith)$ ]] || needs_server=yes
done
if [ -n "$needs_server" ]; then
	export RF_PREFIX=${RF_PREFIX:-$RF_WORK/pg}
	if ! "$tree/test/tmp_install.sh" "$RF_PREFIX" "${PG_CONFIG:-pg_config}" >"$RF_WORK/build.log" 2>&1; then
		rf_show "$RF_WORK/build.log"
		rf_result FAIL build "the extension does not build"
		finish
	fi
	# Modules that only tests use go into the private copy too.
	for module in "$RF_TREE"/test/modules/*/Makefile; do
		[ -e "$module" ] || continue
		module=$(dirname "$module")
		if make -s -C "$module" PG_CONFIG="${PG_CONFIG:-pg_config}" >>"$RF_WORK/build.log" 2>&1; then
			install -m 755 "$module"/*.so "$("$RF_PREFIX/bin/pg_config" --pkglibdir)/"
		else
			rf_show "$RF_WORK/build.log"
			rf_result FAIL build "test module $(basename "$module") does not build"
		fi
	done
	if grep -q 'warning:' "$RF_WORK/build.log"; then
		rf_show "$RF_WORK/build.log"
		rf_result FAIL build "the compiler warns"
	else
		rf_result ok build
	fi
fi

# run_group GROUP
run_group()
{
	local group=$1 start=$SECONDS status=0 used=$RF_WORK/$1.processor
	local run=("$tree/test/processor_time.pl" "$used")
	# versions and memory run this script on a server of theirs, and say how that is repeated.
	export RF_AGAIN=${RF_AGAIN:-${SETTINGS:+SETTINGS="'$SETTINGS' "}${PROVIDER:+PROVIDER=$PROVIDER }make check-$group}
	printf '== %s\n' "$group"
	case $group in
		sql | isolation | chaos | users | sqlsmith) "${run[@]}" "$tree/test/run_$group.sh" || status=$? ;;
		unit | sanitizers) "${run[@]}" "$tree/test/run_unit.sh" "$group" || status=$? ;;
		tap | tap_rest) "${run[@]}" "$tree/test/run_tap.sh" "$group" || status=$? ;;
		tcp) PROVIDER=soft_tcp RF_GROUP=$group "${run[@]}" "$tree/test/run_sql.sh" || status=$? ;;
		sql_tcp) PROVIDER=soft_tcp RF_GROUP=$group RF_JIT=on "${run[@]}" "$tree/test/run_sql.sh" || status=$? ;;
		static | versions | memory | coverage | package | settings | clients) "${run[@]}" "$tree/test/$group/check.sh" || status=$? ;;
		settings_few) FEW=${FEW:-4} "${run[@]}" "$tree/test/settings/check.sh" || status=$? ;;
		roce | roce_sql | roce_pair) "${run[@]}" "$tree/test/soft_roce/check.sh" "$group" || status=$? ;;
		*) rf_result FAIL "$group" "no such group of tests" ;;
	esac
	# Groups report through RF_RESULTS; when one could not, its exit status still counts.
	[ $status = 0 ] || grep -q '^FAIL ' "$RF_RESULTS" || rf_result FAIL "$group" "ended with status $status"
	printf '== %s took %s s, %s s of processor time\n' "$group" $((SECONDS - start)) "$(cat "$used" 2>/dev/null)"
}

# Several groups run side by side, each on clusters of its own: much of a group's time is waiting.
if [ $# = 1 ]; then
	run_group "$1"
else
	printf 'groups: %s\n' "$*"
	rf_side_by_side "${RF_GROUPS:-$(($(nproc) + 2))}" run_group "$@"
fi
finish
