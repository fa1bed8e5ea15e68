#!/usr/bin/env bash
# check.sh: builds the Debian packages of the extension (debian/), asks lintian, and tries them where nothing else is installed.
# run_check.sh calls it for the group "package"; it is not part of `make check`, because it fetches about 700 MB for each release.
#
# A release is unpacked once into RF_PACKAGE_DIR (default /var/tmp/rdma_fdw_packages) with what building needs, and used again.
# There the package is built, checked by lintian, and installed for the SQL tests (debian/tests/installcheck). Then a folder is
# unpacked that has nothing but what the package depends on; it gets the package and runs debian/tests/loopback and first-join. Needs root, for
# chroot, mmdebstrap and the network.
#
#   RF_PACKAGES="bookworm trixie"   only these releases (default bookworm trixie sid; each has one major of PostgreSQL)
set -uo pipefail
. "$(dirname "$0")/../results.sh"
. "$(dirname "$0")/../debian_root.sh"
: "${RF_WORK:?run this through make check-package}" "${RF_SOURCE:?}" "${RF_RESULTS:?}"

cache=${RF_PACKAGE_DIR:-/var/tmp/rdma_fdw_packages}
build_packages=build-essential,debhelper,postgresql-server-dev-all,postgresql-contrib,libibverbs-dev,librdmacm-dev,libpq-dev,libssl-dev,lintian

if ! rf_debian_tools mmdebstrap; then
	rf_result FAIL package "run this as root: it needs mmdebstrap and a chroot"
	exit 1
fi

# step NAME COMMAND...: a result by its exit status, with the end of its output if it failed
step()
{
	local name=$1 log=$RF_WORK/package_${1//\//_}.log
	shift
	if "$@" >"$log" 2>&1; then
		rf_result ok "package/$name"
		return 0
	fi
	tail -n 40 "$log"
	rf_result FAIL "package/$name" "its output is in $log"
	return 1
}

# as_user ROOT COMMAND: run by a shell as an ordinary user, in the sources
as_user()
{
	local root=$1
	shift
	rf_debian_inside "$root" bash -c 'id tester >/dev/null 2>&1 || useradd --create-home tester
		rm -rf /home/tester/rdma-fdw && cp -r /tmp/rdma-fdw /home/tester/ && chown -R tester: /home/tester/rdma-fdw &&
		exec runuser -u tester -- env LC_ALL=C.UTF-8 bash -c "cd ~tester/rdma-fdw && $1"' bash "$*"
}

check_release()
{
	local suite=$1 root=$cache/$1 clean=$RF_WORK/clean_$1 log=$RF_WORK/package_$1.log package needs
	if ! rf_debian_unpack "$suite" "$root" "$build_packages" "$log"; then
		tail -n 20 "$log"
		rf_result FAIL "package/$suite" "mmdebstrap failed"
		return
	fi
	rm -rf "$root/tmp/rdma-fdw"* "$root"/tmp/*.deb "$root"/tmp/*.changes "$root"/tmp/*.buildinfo
	mkdir "$root/tmp/rdma-fdw"
	tar c -C "$RF_SOURCE" --exclude='*.o' --exclude='*.so' --exclude=./build --exclude=./.git . | tar x -C "$root/tmp/rdma-fdw" --no-same-owner

	step "$suite/build" rf_debian_inside "$root" bash -c \
		'cd /tmp/rdma-fdw && dpkg-buildpackage -us -uc -b' || return
	step "$suite/lintian" rf_debian_inside "$root" bash -c 'lintian --allow-root --fail-on error --no-tag-display-limit /tmp/rdma-fdw_*.changes'
	package=$(cd "$root/tmp" && ls postgresql-*-rdma-fdw_*.deb)

	# the sources stay: only the tests among them are used
	rf_debian_inside "$root" dpkg --purge "${package%%_*}" >/dev/null 2>&1
	step "$suite/install beside its tools" rf_debian_inside "$root" dpkg -i "/tmp/$package" &&
		step "$suite/installcheck" as_user "$root" debian/tests/installcheck
	rf_debian_inside "$root" dpkg --purge "${package%%_*}" >/dev/null 2>&1

	# names of what it depends on, without versions; dpkg compares those
	needs=$(dpkg-deb -f "$root/tmp/$package" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/[[:space:]]//g')
	if ! rf_debian_unpack "$suite" "$clean" "$needs" "$log"; then
		tail -n 20 "$log"
		rf_result FAIL "package/$suite/clean" "mmdebstrap failed with $needs"
		return
	fi
	cp "$root/tmp/$package" "$clean/tmp/"
	mkdir -p "$clean/tmp/rdma-fdw"
	cp -r "$RF_SOURCE/debian" "$clean/tmp/rdma-fdw/"
	step "$suite/install" rf_debian_inside "$clean" dpkg -i "/tmp/$package" &&
		step "$suite/loopback" as_user "$clean" debian/tests/loopback &&
		step "$suite/first join" rf_debian_inside "$clean" /tmp/rdma-fdw/debian/tests/first-join &&
		step "$suite/remove" rf_debian_inside "$clean" dpkg --purge "${package%%_*}"
	rm -rf "$clean"
}

for suite in ${RF_PACKAGES:-bookworm trixie sid}; do
	printf '== Debian %s\n' "$suite"
	check_release "$suite"
done
