#!/usr/bin/env bash
# check.sh [SUITE:MAJOR ...]: the SQL and isolation tests on other majors of PostgreSQL (default trixie:17 sid:18), and the SQL tests
# with a coordinator of this machine's major and data nodes of the other. run_check.sh calls it for the group "versions"; it is
# not part of `make check`, because it fetches about 400 MB for each Debian suite.
#
# A suite is unpacked once into RF_VERSIONS_DIR (default /var/tmp/rdma_fdw_versions) and used again. Needs root, for chroot.
#
#   RF_VERSIONS="trixie:17"   only these        TESTS="20_scan"   only these inputs, all of one group
set -uo pipefail
. "$(dirname "$0")/../results.sh"
: "${RF_WORK:?run this through make check-versions}" "${RF_TREE:?}" "${RF_RESULTS:?}"

cache=${RF_VERSIONS_DIR:-/var/tmp/rdma_fdw_versions}
packages=gcc,libc6-dev,make,perl,postgresql-contrib,libpq-dev,libssl-dev,libibverbs-dev,libipc-run-perl

give_up()
{
	rf_result FAIL versions "$1"
	exit 1
}

[ "$(id -u)" = 0 ] || give_up "other majors run in a chroot: run this as root"
for program in mmdebstrap patchelf; do
	command -v $program >/dev/null || apt-get install -y --no-install-recommends $program >/dev/null 2>&1 ||
		give_up "cannot install $program"
done

# unpack SUITE MAJOR: cache/SUITE-MAJOR, whole or not at all
unpack()
{
	local root=$cache/$1-$2 mirror log=$RF_WORK/versions_$1.log
	[ ! -e "$root" ] || return 0
	# The mirror that this machine uses; a frozen one has Release files that have expired.
	mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | sort -u | head -n 1)
	mkdir -p "$cache"
	rm -rf "$root.new"
	printf 'unpacking Debian %s with PostgreSQL %s\n' "$1" "$2"
	if ! mmdebstrap --variant=apt --mode=root --aptopt='Acquire::Check-Valid-Until "false"' \
		--include="$packages,postgresql-$2,postgresql-server-dev-$2" "$1" "$root.new" "$mirror" >"$log" 2>&1; then
		rf_show "$log" 20
		rf_result FAIL "versions/$1" "mmdebstrap failed"
		return 1
	fi
	mv "$root.new" "$root"
}

# inside ROOT COMMAND...: in the folder as if it were a machine of its own; mounts and processes end with it
inside()
{
	local root=$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		root=$1; shift
		mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && exec chroot "$root" "$@"' bash "$root" "$@"
}

# portable ROOT: programs made inside are made to run outside, with the loader and the libraries of their own folder
portable()
{
	local root=$1 prefix=$1/tmp/rdma_fdw_pg program
	rm -rf "$prefix" "$prefix.new"
	inside "$root" bash -c 'cd /tmp/rdma_fdw_tree && test/tmp_install.sh /tmp/rdma_fdw_pg.new "$1" && rm /tmp/rdma_fdw_pg.new/bin &&
		cp -rL /tmp/rdma_fdw_pg.new /tmp/rdma_fdw_pg' \
		bash "/usr/lib/postgresql/$2/bin/pg_config" >"$RF_WORK/versions_build.log" 2>&1 || return 1
	for program in "$prefix/lib/postgresql/$2/bin"/*; do
		# Scripts have no interpreter to set. RPATH, unlike RUNPATH, counts for what a module needs too.
		patchelf --set-interpreter "$root/lib64/ld-linux-x86-64.so.2" --force-rpath \
			--set-rpath "$root/usr/lib/x86_64-linux-gnu" "$program" 2>/dev/null
	done
	chmod -R a+rX "$prefix"
	chmod a+x "$root" "$root/tmp" "$cache"
}

groups=$(rf_server_groups)
# Only a hang takes that long.
export RF_TIMEOUT=${RF_TIMEOUT:-3600}
for version in ${RF_VERSIONS:-trixie:17 sid:18}; do
	suite=${version%:*} major=${version#*:}
	root=$cache/$suite-$major
	unpack "$suite" "$major" || continue
	rm -rf "$root/tmp/rdma_fdw_tree" "$root/tmp/rdma_fdw_check"
	cp -r "$RF_TREE" "$root/tmp/rdma_fdw_tree"
	find "$root/tmp/rdma_fdw_tree" \( -name '*.o' -o -name '*.so' \) -delete

	printf '== PostgreSQL %s\n' "$major"
	export RF_AGAIN="RF_VERSIONS=$version make check-versions"
	inside "$root" env -u RF_PREFIX -u RF_BINDIR PG_CONFIG="/usr/lib/postgresql/$major/bin/pg_config" RF_WORK=/tmp/rdma_fdw_check TESTS="${TESTS:-}" \
		bash /tmp/rdma_fdw_tree/test/run_check.sh $groups 2>&1 | tee "$RF_WORK/versions_$major.log" |
		grep -v '^[0-9]* passed'
	sed -n "s#^\(ok \|FAIL\) *\([^ ].*\)#\1 pg$major/\2#p" "$RF_WORK/versions_$major.log" | sort -u >>"$RF_RESULTS"

	[ "$groups" != isolation ] || continue
	printf '== this major, with data nodes of PostgreSQL %s\n' "$major"
	if ! portable "$root" "$major"; then
		rf_show "$RF_WORK/versions_build.log"
		rf_result FAIL "versions/mixed with $major" "does not build"
		continue
	fi
	RF_WORK=$RF_WORK/mixed_$major RF_BINDIR_n1=$root/tmp/rdma_fdw_pg/lib/postgresql/$major/bin \
		RF_BINDIR_n2=$root/tmp/rdma_fdw_pg/lib/postgresql/$major/bin RF_GROUP=mixed_$major "$(dirname "$0")/../run_sql.sh"
done
