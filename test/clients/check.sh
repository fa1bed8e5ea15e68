#!/usr/bin/env bash
# check.sh: clients that nobody here wrote use distributed tables; see README.md. run_check.sh calls it for the group "clients".
#
#   TESTS='django knex'  only these
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../results.sh"
. "$here/../cluster.sh"
: "${RF_WORK:?run this through make check-clients}" "${RF_PREFIX:?}"

clients=(django sqlalchemy programs jdbc knex sequelize typeorm drizzle)
npm='bin/node=nodejs bin/npm=npm'
# The programs and the Python modules that a client needs, each with the Debian package that has it
declare -A needs=(
	[django]='django=python3-django psycopg2=python3-psycopg2'
	[sqlalchemy]='sqlalchemy=python3-sqlalchemy alembic=python3-alembic psycopg2=python3-psycopg2'
	[jdbc]='bin/javac=default-jdk-headless /usr/share/java/postgresql.jar=libpostgresql-jdbc-java'
	[programs]='bin/pgbench=postgresql-client bin/sysbench=sysbench'
	[knex]=$npm
	[sequelize]=$npm
	[typeorm]=$npm
	[drizzle]=$npm
)

# has THING: a file, a program or a Python module
has()
{
	case $1 in
		/*) [ -e "$1" ] ;;
		bin/*) command -v "${1#bin/}" >/dev/null ;;
		*) /usr/bin/python3 -c "import $1" 2>/dev/null ;;
	esac
}

# provide CLIENT: installs the packages of what is missing, and names what stays so
provide()
{
	local need missing=() log=$work/$1.packages
	for need in ${needs[$1]}; do
		has "${need%%=*}" || missing+=("${need#*=}")
	done
	[ ${#missing[@]} = 0 ] || "$here/../install_deps.sh" "${missing[@]}" >"$log" 2>&1 ||
		{ rf_show "$log" >&2; echo "cannot install ${missing[*]}"; return 1; }
	for need in ${needs[$1]}; do
		has "${need%%=*}" || { echo "${need%%=*} is missing, also with the package ${need#*=}"; return 1; }
	done
	[ -e "$here/$1.js" ] || return 0
	mkdir -p "$work/npm"
	cp "$here"/*.js "$here/lib/steps.js" "$here/package.json" "$work/npm/"
	[ -d "$work/npm/node_modules" ] || (cd "$work/npm" && npm install --ignore-scripts --no-audit --no-fund) >"$log" 2>&1 ||
		{ rf_show "$log" >&2; echo "npm install fails: $(grep -m 1 'notarget\|ENOTFOUND\|error' "$log")"; return 1; }
}

# database CLIENT: one of this name on all clusters, and CLIENT_plain on the coordinator, as docs/tutorial.md makes them; the role
# app is no superuser anywhere.
database()
{
	local node
	for node in n1 n2; do
		rf_psql "$node" -q -c "CREATE DATABASE $1"
		RF_DB=$1 rf_psql "$node" -q -o /dev/null <<-SQL
			CREATE EXTENSION rdma_fdw;
			SELECT FROM rdma.grant_access('app', 'write', 'exchange');
			GRANT CREATE ON DATABASE $1 TO app;
			GRANT CREATE ON SCHEMA public TO app;
		SQL
	done
	rf_psql co -q -c "CREATE DATABASE $1 OWNER app" -c "CREATE DATABASE $1_plain OWNER app"
	RF_DB=$1 rf_psql co -q <<-SQL
		CREATE EXTENSION rdma_fdw;
		CREATE SERVER node1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port n1)', dbname '$1');
		CREATE SERVER node2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$(rf_port n2)', dbname '$1');
		CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'node1, node2');
		CREATE USER MAPPING FOR app SERVER node1 OPTIONS (user 'app', password 'secret');
		CREATE USER MAPPING FOR app SERVER node2 OPTIONS (user 'app', password 'secret');
		GRANT USAGE ON FOREIGN SERVER node1, node2, nodes TO app;
	SQL
}

# run CLIENT DATABASE SERVER: its steps in a file of the name of the database, what it says besides in a log
run()
{
	# shellcheck disable=SC2086
	local file=("$here/$1".*) folder=$work/$2 program status=0
	case ${file[0]##*.} in
		py) program='/usr/bin/python3 -P' ;;
		sh) program=bash ;;
		java) program='java -Xshare:auto -XX:TieredStopAtLevel=1 -cp /usr/share/java/postgresql.jar' ;;
	esac
	[ "${file[0]##*.}" != js ] || folder=$work/npm/$2 file=("$work/npm/$1.js") program=node
	mkdir -p "$folder"
	: >"$work/$2.steps"
	(cd "$folder" && PGHOST=127.0.0.1 PGPORT=$(rf_port co) PGUSER=app PGPASSWORD=secret PGDATABASE=$2 PGAPPNAME=$2 \
		RF_SERVER=$3 RF_STEPS=$work/$2.steps PYTHONPATH=$here/lib PATH=$RF_BINDIR:$PATH timeout 600 $program "${file[0]}") >"$work/$2.log" 2>&1 </dev/null || status=$?
	[ "$status" = 0 ] || rf_show "$work/$2.log"
	return "$status"
}

# left CLIENT: what the client, which dropped all its tables, left on a node or on the coordinator
left()
{
	local name query="SELECT string_agg(format('%s %s', relkind, relname), ', ') FROM pg_class WHERE relnamespace = 'public'::regnamespace"
	for name in co n1 n2; do
		RF_DB=$1 rf_sql "$name" "$query HAVING count(*) > 0" | sed "s/^/on $name: /"
	done
}

work=$RF_WORK/clients
mkdir -p "$work"
rf_init "$work/clusters"
trap rf_stop_all EXIT
for name in co n1 n2; do
	RF_AUTH=scram rf_start "$name" timezone=UTC jit=off shared_buffers=64MB max_connections=60 rdma_fdw.buffer_memory=96MB log_statement=all
	rf_psql "$name" -q -c "CREATE ROLE app LOGIN PASSWORD 'secret'"
done
read -ra tests <<<"${TESTS:-${clients[*]}}"
for client in "${tests[@]}"; do
	if [ -z "${needs[$client]:-}" ]; then
		rf_result FAIL "clients/$client" "no such client among: ${clients[*]}"
	elif ! why=$(provide "$client"); then
		rf_result FAIL "clients/$client" "$why"
	else
		database "$client"
		run "$client" "${client}_plain" '' || rf_result FAIL "clients/$client" 'it fails with local tables'
		run "$client" "$client" nodes || rf_result FAIL "clients/$client" 'it did not come to its end'
		"$here/compare.pl" "$client" "$work/${client}_plain.steps" "$work/$client.steps" "$here/known.txt" | while IFS=$'\t' read -r verdict what; do
			case $verdict in
				ok | FAIL) rf_result "$verdict" "clients/$client" "$what" ;;
				*) printf '%s\n' "$verdict" ;;
			esac
		done
		what=$(left "$client")
		[ -z "$what" ] || rf_result FAIL "clients/$client" "left behind: ${what//$'\n'/; }"
	fi
done
for name in co n1 n2; do
	rf_check_log "clients/log of $name" "$(rf_log "$name")"
done
