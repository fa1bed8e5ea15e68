# server.sh: a PostgreSQL with assertions. Source it; memory/check.sh and run_sqlsmith.sh do.
#
# It is built from the Debian source package of the installed major into RF_MEMORY_DIR (default /var/tmp/rdma_fdw_memory),
# by major. A build that broke off goes on at the next call, a complete one is used again; remove the folder to build again.

# Debian's source package, of the mirrors that this machine has its packages from. They may not have that of the installed
# minor release; another one of the same major does.
fetch_source()
{
	local apt candidate package=postgresql-${cache##*/}
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

# Into cache/server, whole or not at all. A build that broke off goes on where it stopped.
build_server()
{
	local build=$cache/build part parts=(src contrib/postgres_fdw contrib/dblink contrib/citext)
	mkdir -p "$build" && cd "$build" || return 1
	unset MAKELEVEL MAKEFLAGS MFLAGS	# PostgreSQL generates its headers only if no other make called its own
	[ -e config.status ] ||
		"$cache/source/configure" --prefix="$cache/server" --enable-cassert --enable-debug --enable-tap-tests --with-openssl \
			--with-lz4 --with-libxml --with-icu --without-readline CFLAGS="-O1 -fno-omit-frame-pointer" \
			CPPFLAGS=-DUSE_VALGRIND || return 1
	for part in "${parts[@]}"; do
		make -s -j"$(nproc)" -C "$part" && make -s -C "$part" install DESTDIR="$build/installed" || return 1
	done
	chmod -R a+rX "$cache" && mv "$build/installed$cache/server" "$cache/server" && rm -rf "$build"
}

# rf_assertion_server LOG: PG_CONFIG names it from now on, and $cache its folder. LOG gets what fetching and building print.
rf_assertion_server()
{
	local version
	version=$("${PG_CONFIG:-pg_config}" --version | sed 's/^PostgreSQL //; s/ .*//')
	cache=${RF_MEMORY_DIR:-/var/tmp/rdma_fdw_memory}/${version%%.*}
	"$(dirname "${BASH_SOURCE[0]}")/../install_deps.sh" valgrind bzip2 liblz4-dev libicu-dev libxml2-dev || return 1
	mkdir -p "$cache"
	[ -e "$cache/source" ] || (fetch_source) >"$1" 2>&1 || return 1
	if [ ! -e "$cache/server" ]; then
		printf 'building PostgreSQL\n'
		(build_server) >"$1" 2>&1 || return 1
	fi
	export PG_CONFIG=$cache/server/bin/pg_config
}
