#!/usr/bin/env bash
# check.sh [SUITE:MAJOR ...]: the SQL and isolation tests and random statements on other majors of PostgreSQL (default trixie:17
# sid:18), and the SQL tests with a coordinator of this machine's major and data nodes of the other. run_check.sh calls it for the
# group "versions"; it is not part of `make check`, because it fetches about 400 MB for each Debian suite.
#
# A suite is unpacked once into RF_VERSIONS_DIR (default /var/tmp/rdma_fdw_versions) and used again. Needs root, for chroot.
#
# A suite is unpacked once into RF_VERSIONS_DIR (default /var/tmp/rdma_fdw_versions) and used again. Needs root, for chroot.
#
#   RF_VERSIONS="experimental:19"   only these; of 19 plans and names of sub-selects differ in 22, 28, 50, 53, 56, 57, 58, 91 and 98
#         TESTS="20_scan"   only these inputs, all of one group
#         COUNT=5000        cases of test/differential
set -uo pipefail
. "$(dirname "$0")/../results.sh"
. "$(dirname "$0")/../debian_root.sh"
: "${RF_WORK:?run this through make check-versions}" "${RF_TREE:?}" "${RF_RESULTS:?}"

cache=${RF_VERSIONS_DIR:-/var/tmp/rdma_fdw_versions}
packages=gcc,libc6-dev,make,perl,libssl-dev,libibverbs-dev,librdmacm-dev,libipc-run-perl

give_up()
{
	rf_result FAIL versions "$1"
	exit 1
}

rf_debian_tools mmdebstrap patchelf || give_up "run this as root: it needs mmdebstrap, patchelf and a chroot"

# portable ROOT: programs made inside are made to run outside, with the loader and the libraries of their own folder
portable()
{
	local root=$1 prefix=$1/tmp/rdma_fdw_pg program
	rm -rf "$prefix" "$prefix.new"
	rf_debian_inside "$root" bash -c 'cd /tmp/rdma_fdw_tree && test/tmp_install.sh /tmp/rdma_fdw_pg.new "$1" && rm /tmp/rdma_fdw_pg.new/bin &&
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
	log=$RF_WORK/versions_$suite.log
	needed=$packages
	for package in "postgresql-$major" "postgresql-server-dev-$major" libpq-dev libpq5; do
		needed+=,$package
		[ "$suite" != experimental ] || needed+=/experimental
	done
	if ! rf_debian_unpack "$suite" "$root" "$needed" "$log"; then
		rf_show "$log" 20
		rf_result FAIL "versions/$suite" "mmdebstrap failed"
		continue
	fi
	rm -rf "$root/tmp/rdma_fdw_tree" "$root/tmp/rdma_fdw_check"
	cp -r "$RF_TREE" "$root/tmp/rdma_fdw_tree"
	find "$root/tmp/rdma_fdw_tree" \( -name '*.o' -o -name '*.so' \) -delete

	printf '== PostgreSQL %s\n' "$major"
	export RF_AGAIN="RF_VERSIONS=$version make check-versions"
	rf_debian_inside "$root" env -u RF_PREFIX -u RF_BINDIR PG_CONFIG="/usr/lib/postgresql/$major/bin/pg_config" RF_WORK=/tmp/rdma_fdw_check TESTS="${TESTS:-}" \
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

	# defects of one major only are found by its planner
	[ -z "${TESTS:-}" ] || continue
	printf '== random statements on PostgreSQL %s\n' "$major"
	if RF_PREFIX=$root/tmp/rdma_fdw_pg/lib/postgresql/$major RF_BINDIR=$root/tmp/rdma_fdw_pg/lib/postgresql/$major/bin WORK=$RF_WORK/differential_$major \
		COUNT="${COUNT:-5000}" PARALLEL_NODES=0 "$(dirname "$0")/../differential/run.sh" >"$RF_WORK/differential_$major.log" 2>&1; then
		rf_result ok "pg$major/differential"
	else
		rf_show "$RF_WORK/differential_$major.log" 20
		rf_result FAIL "pg$major/differential" "see $RF_WORK/differential_$major.log"
	fi
done
