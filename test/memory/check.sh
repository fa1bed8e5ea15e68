#!/usr/bin/env bash
# check.sh: the SQL and isolation tests with every process of the servers, the engine and its threads too, under tools that
# watch memory. run_check.sh calls it for the group "memory"; it is not part of `make check`, because it builds PostgreSQL
# twice (10 to 20 minutes, once) and takes some 10 minutes under the first tool and more than an hour under the second.
#
#   asan       AddressSanitizer and UndefinedBehaviorSanitizer: accesses outside of objects, undefined arithmetic
#   valgrind   memcheck, which PostgreSQL tells about its memory contexts: reads of what was never written, accesses
#              outside of a palloc'd chunk or after pfree
# Both run on a server with assertions (--enable-cassert), which check the use of core's interfaces and wipe freed memory.
#
# The servers are built from the Debian source package of the installed major into RF_MEMORY_DIR (default
# /var/tmp/rdma_fdw_memory) and used again; remove the folder to build anew. Programs started by root belong to RF_USER.
#
#   RF_MEMORY="valgrind"   only this tool                TESTS="20_scan"   only these inputs, all of one group
#   VALGRIND_ARGS="--track-origins=yes"   more arguments, here: where the bytes that nobody wrote come from
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../results.sh"
: "${RF_WORK:?run this through make check-memory}" "${RF_TREE:?}" "${RF_RESULTS:?}"

cache=${RF_MEMORY_DIR:-/var/tmp/rdma_fdw_memory}
version=$("${PG_CONFIG:-pg_config}" --version | sed 's/^PostgreSQL //; s/ .*//')
package=postgresql-${version%%.*}
parts=(src contrib/postgres_fdw contrib/dblink contrib/citext)
# PostgreSQL does not free everything at the end of a process, and finds the depth of its stack by addresses.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:disable_coredump=1
export UBSAN_OPTIONS=print_stacktrace=1

give_up()
{
	[ ! -e "$RF_WORK/memory.log" ] || tail -n 20 "$RF_WORK/memory.log"
	rf_result FAIL memory "$1"
	exit 1
}

# Debian's source package, of the mirrors that this machine has its packages from. They may not have that of the installed
# minor release; another one of the same major does.
fetch_source()
{
	local apt candidate
	mkdir -p "$cache/lists/partial" && cd "$cache" || return 1
	apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
		sort -u >sources.list
	apt=(-o "Dir::Etc::SourceList=$cache/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$cache/lists"
		-o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=)
	apt-get "${apt[@]}" update || return 1
	for candidate in $(apt-cache "${apt[@]}" showsrc "$package" | sed -n 's/^Version: //p' | sort -Vru); do
		if apt-get "${apt[@]}" source --download-only --only-source "$package=$candidate"; then
			rm -rf source.new && mkdir source.new &&
				tar -xf "${package}_${candidate%-*}.orig.tar.bz2" -C source.new --strip-components=1 && mv source.new source
			return
		fi
	done
	return 1
}

# build_server TOOL: into cache/TOOL, whole or not at all
build_server()
{
	local build=$cache/build_$1 part
	local options=(--enable-cassert --enable-debug --with-openssl --with-lz4 --with-libxml --with-icu --without-readline)
	case $1 in
		asan) options+=(CFLAGS="-O1 -fno-omit-frame-pointer -fsanitize=address,undefined") ;;
		valgrind) options+=(CFLAGS="-O1 -fno-omit-frame-pointer" CPPFLAGS=-DUSE_VALGRIND) ;;
	esac
	rm -rf "$build" "$cache/$1" && mkdir -p "$build" && cd "$build" || return 1
	"$cache/source/configure" --prefix="$cache/$1" "${options[@]}" || return 1
	for part in "${parts[@]}"; do
		make -s -j"$(nproc)" -C "$part" || return 1
		make -s -C "$part" install DESTDIR="$build/installed" || return 1
	done
	mv "$build/installed$cache/$1" "$cache/$1" && rm -rf "$build" && chmod -R a+rX "$cache"
}

# under_valgrind PREFIX: its postmaster, and so all processes of its, run under memcheck; reports go to the server's log
under_valgrind()
{
	[ ! -e "$1/bin/postgres.plain" ] || return 0
	mv "$1/bin/postgres" "$1/bin/postgres.plain" || return 1
	cat >"$1/bin/postgres" <<-SCRIPT
		#!/bin/sh
		# pg_ctl starts a server with -D; initdb and questions for the version need no memcheck.
		[ "\$1" = -D ] || exec "\$0.plain" "\$@"
		exec valgrind --quiet --leak-check=no --error-limit=no --num-callers=30 --fair-sched=yes --gen-suppressions=all \\
			--error-markers=VALGRINDERROR-BEGIN,VALGRINDERROR-END --suppressions="$cache/source/src/tools/valgrind.supp" \\
			--suppressions="$here/valgrind.supp" ${VALGRIND_ARGS:-} "\$0.plain" "\$@"
	SCRIPT
	chmod 755 "$1/bin/postgres"
}

"$here/../install_deps.sh" valgrind bzip2 liblz4-dev libicu-dev libxml2-dev || give_up "packages are missing"
[ -e "$cache/source" ] || (fetch_source) >"$RF_WORK/memory.log" 2>&1 || give_up "cannot fetch the sources of $package"

groups=$(rf_server_groups)
for tool in ${RF_MEMORY:-asan valgrind}; do
	if [ ! -e "$cache/$tool" ]; then
		printf 'building PostgreSQL for %s\n' "$tool"
		(build_server "$tool") >"$RF_WORK/memory.log" 2>&1 || give_up "PostgreSQL does not build for $tool"
	fi
	printf '== %s\n' "$tool"
	# Sources of its own: objects that lie beside them are for another server.
	work=$RF_WORK/$tool
	mkdir -p "$work"
	cp -r "$RF_TREE" "$work/source"
	find "$work/source" \( -name '*.o' -o -name '*.so' \) -delete
	export PG_CONFIG=$cache/$tool/bin/pg_config
	if ! "$work/source/test/tmp_install.sh" "$work/pg" >"$RF_WORK/memory.log" 2>&1 ||
		{ [ "$tool" = valgrind ] && ! under_valgrind "$work/pg"; }; then
		rf_show "$RF_WORK/memory.log"
		rf_result FAIL "memory/$tool" "the extension does not build"
		continue
	fi
	RF_WORK=$work/check RF_PREFIX=$work/pg RF_START_TIMEOUT=300 RF_TIMEOUT=${RF_TIMEOUT:-14400} PGCONNECT_TIMEOUT=300 RF_LOG_LINES=30 \
		RF_AGAIN="RF_MEMORY=$tool make check-memory" \
		bash "$work/source/test/run_check.sh" $groups 2>&1 |
		tee "$work/check.log" | grep -v '^[0-9]* passed'
	sed -n "s#^\(ok \|FAIL\) *\([^ ].*\)#\1 $tool/\2#p" "$work/check.log" | sort -u >>"$RF_RESULTS"
done
