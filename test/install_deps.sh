#!/usr/bin/env bash
# install_deps.sh [--build] [PACKAGE...]: the Debian packages that building, testing, the demo and the benches need (--build:
# only those for building and running, which are all that the demo needs), and the named ones. It installs what is missing when
# run as root or with sudo, and otherwise says what to run. It does nothing when all are there.
set -euo pipefail

# The PostgreSQL of this Debian, or the one whose pg_config is found; PG_MAJOR=17 asks for another.
if [ -z "${PG_MAJOR:-}" ]; then
	PG_MAJOR=$(pg_config --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
fi
if [ -z "$PG_MAJOR" ]; then
	case $(. /etc/os-release && echo "${VERSION_ID:-}") in
		12) PG_MAJOR=15 ;;
		13) PG_MAJOR=17 ;;
		*) PG_MAJOR=18 ;;
	esac
fi
packages=(
	gcc make perl
	"postgresql-$PG_MAJOR" "postgresql-server-dev-$PG_MAJOR" postgresql-contrib libpq-dev libssl-dev
	libibverbs-dev librdmacm-dev
)
tools=(
	rdma-core ibverbs-providers ibverbs-utils perftest
	libipc-run-perl clang libclang-rt-dev cppcheck pgbouncer prometheus-postgres-exporter
	qemu-system-x86 busybox-static cpio kmod iproute2 xz-utils
	gnuplot-nox pg-bsd-indent
)
if [ "${1:-}" = --build ]; then
	shift
else
	packages+=("${tools[@]}")
fi
packages+=("$@")

if ! command -v dpkg-query >/dev/null; then
	echo "install_deps: this is not Debian; install the equivalents of: ${packages[*]}" >&2
	exit 0
fi

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	as_root=(sudo -n)
elif command -v sudo >/dev/null && [ -t 0 ]; then
	as_root=(sudo)
else
	echo "These packages are missing. As root, run:" >&2
	echo "    apt-get install ${missing[*]}" >&2
	exit 1
fi

echo "installing: ${missing[*]}"
log=$(mktemp)
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
	-o Dpkg::Options::=--force-confold "${missing[@]}" >"$log" 2>&1 </dev/null; }
# The package lists of a fresh machine are empty or old.
if ! install; then
	if ! "${as_root[@]}" apt-get update >>"$log" 2>&1 </dev/null || ! install; then
		tail -n 20 "$log" >&2
		echo "install_deps: apt-get failed; its whole output is in $log" >&2
		exit 1
	fi
fi
rm -f "$log"
