#!/bin/sh
# entry.sh node|coordinator: makes a cluster in PGDATA with a database "shop", if there is none, and runs it. RDMA_PASSWORD is that
# of the role "app" on the nodes and of "postgres" everywhere; NODES, for the coordinator, the nodes' host names. PGPORT and
# RDMA_ENGINE_PORT are for several servers on one host.
set -eu
role=$1
here=$(dirname "$0")
: "${RDMA_PASSWORD:?set RDMA_PASSWORD}"

# Made beside PGDATA, so that what was interrupted begins anew.
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	umask 077
	new=$PGDATA.new
	rm -rf "$new"
	printf '%s\n' "$RDMA_PASSWORD" >"/tmp/password.$$"
	initdb -D "$new" -U postgres -E UTF8 --locale=C.UTF-8 --auth-local=trust --auth-host=scram-sha-256 \
		--pwfile="/tmp/password.$$" >/dev/null
	rm "/tmp/password.$$"
	cat >>"$new/postgresql.conf" <<-CONF
		listen_addresses = '*'
		unix_socket_directories = '/tmp'
		shared_preload_libraries = 'rdma_fdw'
		rdma_fdw.engine_port = ${RDMA_ENGINE_PORT:-5433}
	CONF
	echo 'host all all all scram-sha-256' >>"$new/pg_hba.conf"
	pg_ctl -D "$new" -w -o "-c listen_addresses=" start >/dev/null
	psql -h /tmp -U postgres -Xqc 'CREATE DATABASE shop'
	psql -h /tmp -U postgres -d shop -Xq -v ON_ERROR_STOP=1 -v password="$RDMA_PASSWORD" -v nodes="${NODES:-}" -f "$here/$role.sql"
	pg_ctl -D "$new" -w stop >/dev/null
	mv -T "$new" "$PGDATA"
fi
exec postgres -D "$PGDATA"
