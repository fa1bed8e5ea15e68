#!/usr/bin/env bash
# tmp_install.sh PREFIX [PG_CONFIG]: a private copy of the installed PostgreSQL under PREFIX with this extension in it.
#
# Nothing is installed into the system, and any number of copies live side by side: PostgreSQL finds its share and library
# folders relative to its own program file, so copied programs use PREFIX's. Programs are copied (a link would lead back to
# the original), libraries and shared files are links. The second call for the same PREFIX only builds and installs the
# extension again. PREFIX/bin leads to the programs in any layout; it is printed at the end.
# It starts nothing, and it does not touch anything outside PREFIX and the build tree.
#
#   RF_MAKE_ARGS  more arguments for make, e.g. "PROFILE=-O0"
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,10p' "$0"; exit 2; }
pg_config=${2:-${PG_CONFIG:-pg_config}}
tree=$(cd "$(dirname "$0")/.." && pwd)
umask 022
mkdir -p "$1"
prefix=$(cd "$1" && pwd -P)

bindir=$("$pg_config" --bindir)
libdir=$("$pg_config" --pkglibdir)
sharedir=$("$pg_config" --sharedir)
incdir=$("$pg_config" --includedir-server)
version=$("$pg_config" --version)
case $bindir in
	"$prefix"/*) echo "tmp_install: $pg_config belongs to $prefix itself" >&2; exit 2 ;;
esac

# The longest folder that all of them lie in is what PREFIX stands for.
base=$bindir
for dir in "$libdir" "$sharedir" "$incdir"; do
	while [ "${dir#"$base"/}" = "$dir" ]; do base=${base%/*}; done
done
to() { printf '%s\n' "$prefix${1#"$base"}"; }

# link_into FROM TO: TO becomes a folder with a link for every entry of FROM, but none of this extension's own files.
link_into()
{
	mkdir -p "$2"
	find "$1" -mindepth 1 -maxdepth 1 ! -name 'rdma_fdw*' -exec ln -sfn -t "$2" -- {} +
}

if [ "$(cat "$prefix/.postgresql" 2>/dev/null)" != "$version $bindir" ]; then
	rm -rf "$(to "$bindir")"
	mkdir -p "$(to "$bindir")" "$(to "${incdir%/*}")"
	cp -RL --preserve=mode,timestamps "$bindir/." "$(to "$bindir")/"
	link_into "$libdir" "$(to "$libdir")"
	link_into "$sharedir" "$(to "$sharedir")"
	rm -f "$(to "$sharedir")/extension"
	link_into "$sharedir/extension" "$(to "$sharedir")/extension"
	ln -sfn "$incdir" "$(to "$incdir")"
	[ -e "$prefix/bin" ] || ln -s ".${bindir#"$base"}" "$prefix/bin"
	printf '%s\n' "$version $bindir" >"$prefix/.postgresql"
fi

# shellcheck disable=SC2086
make -s -C "$tree" -j"$(nproc)" all PG_CONFIG="$pg_config" ${RF_MAKE_ARGS:-} >&2
# shellcheck disable=SC2086
make -s -C "$tree" install PG_CONFIG="$pg_config" ${RF_MAKE_ARGS:-} bindir="$(to "$bindir")" pkglibdir="$(to "$libdir")" \
	datadir="$(to "$sharedir")" >&2
printf '%s\n' "$prefix/bin"
