# cluster.sh: PostgreSQL clusters in a throw-away folder, for tests, benches and the demo. Source it; it starts nothing itself.
#
#   rf_init FOLDER           an empty folder for all clusters, owned by the user they run as
#   rf_start NAME [K=V ...]  initdb and start one cluster on a free port of 127.0.0.1; K=V are settings, later ones win.
#                            One that FOLDER has from before is started again with these settings, on another port.
#                            RF_AUTH=scram asks for a password on TCP (user postgres, password "secret"); the default is trust.
#                            RF_TEMPLATE names a data directory (trust) to copy instead of running initdb.
#   rf_psql NAME [ARG ...]   psql as superuser over the cluster's socket; rf_sql NAME SQL for one unaligned answer
#   rf_port NAME, rf_pid NAME, rf_engine_pid NAME, rf_log NAME
#   rf_restart NAME, rf_stop NAME [MODE], rf_stop_all [MODE], rf_cleanup (stops all and removes the folder); MODE is
#                            pg_ctl's, by default immediate: throw-away clusters need no shutdown checkpoint
#   rf_run COMMAND ...       run something as the user that owns the clusters
#
#   RF_PREPARED              rf_init finds the folder as an rf_init of before left it
#   RF_START_TIMEOUT         seconds until a cluster has to be up (60); an emulated machine needs more
#
# PostgreSQL refuses to run as root: root's clusters belong to RF_USER (default postgres), anybody else's to themselves.
# RF_PREFIX names a copy made by tmp_install.sh (its bin/ is used), otherwise RF_BINDIR names the programs;
# RF_BINDIR_NAME those of one cluster, which may be of another major.
# Sockets and TCP are on the loopback interface only.

RF_USER=${RF_USER:-postgres}
RF_BINDIR=${RF_BINDIR:-${RF_PREFIX:+$RF_PREFIX/bin}}
RF_CLUSTERS=()
export PGCONNECT_TIMEOUT=${PGCONNECT_TIMEOUT:-20}

rf_die()
{
	printf '%s\n' "$*" >&2
	exit 1
}

rf_run()
{
	if [ $EUID = 0 ]; then
		runuser -u "$RF_USER" -- "$@"
	else
		"$@"
	fi
}

rf_init()
{
	if [ -n "${RF_PREPARED:-}" ]; then
		RF_ROOT=$1 RF_SOCKETS=$1
		return
	fi
	[ -x "$RF_BINDIR/initdb" ] || rf_die "cluster.sh: no initdb in '$RF_BINDIR'; set RF_PREFIX to a folder made by tmp_install.sh"
	if [ $EUID = 0 ] && ! getent passwd "$RF_USER" >/dev/null; then
		rf_die "cluster.sh: there is no user '$RF_USER' to run PostgreSQL as; set RF_USER to an ordinary user"
	fi
	mkdir -p "$1"
	RF_ROOT=$(cd "$1" && pwd -P)
	[ $EUID != 0 ] || chown "$RF_USER" "$RF_ROOT"
	chmod 755 "$RF_ROOT"
	rf_run test -x "$RF_BINDIR/initdb" ||
		rf_die "cluster.sh: user '$RF_USER' cannot reach $RF_BINDIR; put the PREFIX of tmp_install.sh where it can"
	rf_run test -w "$RF_ROOT" || rf_die "cluster.sh: user '$RF_USER' cannot reach $RF_ROOT; choose another folder"
	# A socket's path has 107 bytes at most; a deep folder gets its sockets elsewhere.
	RF_SOCKETS=$RF_ROOT
	if [ ${#RF_ROOT} -gt 80 ]; then
		RF_SOCKETS=$(rf_run mktemp -d /tmp/rf_socket.XXXXXX)
	fi
}

# A port on which no program listens now, below those that the kernel gives to outgoing connections: a cluster that restarts
# finds it free. Another program may still be faster, so rf_start tries more than once.
rf_free_port()
{
	local port hex sockets
	sockets=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
	while
		port=$((10240 + (RANDOM << 15 | RANDOM) % 22000))
		printf -v hex '%04X' "$port"
		[[ $sockets =~ :$hex\ 0+:0000\ 0A ]]
	do :; done
	printf '%s\n' "$port"
}

# Programs of the cluster NAME: RF_BINDIR_NAME, so that clusters of several majors can be mixed, or RF_BINDIR.
rf_bindir()
{
	local variable=RF_BINDIR_$1
	printf '%s\n' "${!variable:-$RF_BINDIR}"
}

rf_major() { "$(rf_bindir "$1")/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; }
rf_port() { printf '%s\n' "$(<"$RF_ROOT/$1.port")"; }
rf_log() { printf '%s\n' "$RF_ROOT/$1.log"; }
rf_pid() { local pid; read -r pid <"$RF_ROOT/$1/postmaster.pid" && printf '%s\n' "$pid"; }

# The engine's process: it has no database connection, so no view of PostgreSQL's shows it.
rf_engine_pid()
{
	local pid child
	pid=$(rf_pid "$1")
	for child in $(cat "/proc/$pid/task/$pid/children"); do
		! tr '\0' ' ' <"/proc/$child/cmdline" | grep -q 'rdma_fdw engine' || printf '%s\n' "$child"
	done
}

# rf_write FILE: standard input, so that the clusters' user can read it. An emulated machine takes long for each program that
# is started, hence no other user's tee.
rf_write() { (umask 022 && cat >>"$1"); }

# rf_settings K=V ...: as lines of postgresql.conf
rf_settings()
{
	local setting
	for setting in "$@"; do
		printf "%s = '%s'\n" "${setting%%=*}" "${setting#*=}"
	done
}

# rf_create NAME HBA [K=V ...]: initdb and settings, without starting it
rf_create()
{
	local name=$1 hba=$2 data=$RF_ROOT/$1
	shift 2
	if [ -n "${RF_TEMPLATE:-}" ]; then
		rf_run cp -rT "$RF_TEMPLATE" "$data" && chmod 700 "$data" || rf_die "cluster.sh: cannot copy $RF_TEMPLATE"
	else
		printf 'secret\n' | rf_write "$RF_ROOT/$name.password"
		rf_run "$(rf_bindir "$name")/initdb" -D "$data" -U postgres -E UTF8 --locale=C --no-sync --no-instructions \
			--auth-local=trust --auth-host="$hba" --pwfile="$RF_ROOT/$name.password" >/dev/null ||
			rf_die "cluster.sh: initdb of $name failed"
	fi
	{
		cat <<-CONF
			listen_addresses = '127.0.0.1'
			unix_socket_directories = '$RF_SOCKETS'
			cluster_name = '$name'
			shared_preload_libraries = 'rdma_fdw'
			fsync = off
			full_page_writes = off
			autovacuum = off
			log_line_prefix = '%m [%p] %a '
			include 'port.conf'
		CONF
		rf_settings "$@"
	} | rf_write "$data/postgresql.conf"
}

rf_start()
{
	local name=$1 auth=${RF_AUTH:-trust} data=$RF_ROOT/$1 log=$RF_ROOT/$1.log port try hba
	shift
	hba=trust
	[ "$auth" != scram ] || hba=scram-sha-256
	if [ ! -e "$data/PG_VERSION" ]; then
		rf_create "$name" "$hba" "$@"
	elif [ $# -gt 0 ]; then
		rf_settings "$@" | rf_write "$data/postgresql.conf"
	fi
	for try in 1 2 3 4 5; do
		port=$(rf_free_port)
		(umask 022 && printf 'port = %s\n' "$port" >"$data/port.conf" && printf '%s\n' "$port" >"$RF_ROOT/$name.port")
		if rf_run "$(rf_bindir "$name")/pg_ctl" -D "$data" -l "$log" -w -t "${RF_START_TIMEOUT:-60}" -s start >/dev/null 2>&1 </dev/null; then
			RF_CLUSTERS+=("$name")
			return 0
		fi
		rf_stop "$name"
		grep -q 'Address already in use' "$log" || break
	done
	tail -n 20 "$log" >&2
	rf_die "cluster.sh: cluster $name did not start (attempt $try); its log is above"
}

rf_psql()
{
	local name=$1
	shift
	rf_run "$RF_BINDIR/psql" -X -h "$RF_SOCKETS" -p "$(rf_port "$name")" -U postgres -d "${RF_DB:-postgres}" -v ON_ERROR_STOP=1 "$@"
}

rf_sql() { rf_psql "$1" -qAtc "$2" </dev/null; }

rf_stop()
{
	[ ! -e "$RF_ROOT/$1/postmaster.pid" ] ||
		rf_run "$(rf_bindir "$1")/pg_ctl" -D "$RF_ROOT/$1" -m "${2:-immediate}" -w -t 120 -s stop >/dev/null 2>&1 || true
}

rf_restart()
{
	rf_run "$(rf_bindir "$1")/pg_ctl" -D "$RF_ROOT/$1" -l "$RF_ROOT/$1.log" -m fast -w -t "${RF_START_TIMEOUT:-60}" -s restart >/dev/null 2>&1 </dev/null ||
		{ tail -n 20 "$RF_ROOT/$1.log" >&2; rf_die "cluster.sh: cluster $1 did not restart; its log is above"; }
}

rf_stop_all()
{
	local name
	for name in "${RF_CLUSTERS[@]}"; do
		rf_stop "$name" "${1:-immediate}"
	done
	RF_CLUSTERS=()
}

rf_cleanup()
{
	rf_stop_all
	[ -z "${RF_ROOT:-}" ] || rm -rf "$RF_ROOT"
	[ -z "${RF_SOCKETS:-}" ] || [ "$RF_SOCKETS" = "${RF_ROOT:-}" ] || rm -rf "$RF_SOCKETS"
}
