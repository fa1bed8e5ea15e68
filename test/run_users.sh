#!/usr/bin/env bash
# run_users.sh: servers of two users of one machine. Rows go between them over TCP, never through shared memory, and a process of the
# second user gets nothing out of the first one's engine by its local socket. Needs root, who can start both; anybody else skips it.
set -uo pipefail
here=$(dirname "$0")
. "$here/results.sh"
. "$here/cluster.sh"
: "${RF_WORK:?run this through make check-users}" "${RF_PREFIX:?}"

if [ $EUID != 0 ]; then
	echo 'skipped: only root can run servers as two users'
	exit 0
fi
other_user=${RF_OTHER_USER:-nobody}
mkdir -p "$RF_WORK/users"
chmod 755 "$RF_WORK/users"
RF_USER=$other_user RF_PREPARED='' rf_init "$RF_WORK/users/theirs"
theirs=$RF_ROOT their_sockets=$RF_SOCKETS
rf_init "$RF_WORK/users/ours"
# the clusters of the second user: `theirs FUNCTION ARGUMENTS`
theirs() { RF_USER=$other_user RF_ROOT=$theirs RF_SOCKETS=$their_sockets "$@"; }
trap 'rf_stop_all; theirs rf_stop other' EXIT

rf_start one
rf_start two
theirs rf_start other

# link FROM TO PORT: FROM reads TO's table
link()
{
	cat <<-SQL
		CREATE SERVER $1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$2', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $1 OPTIONS (user 'postgres');
		CREATE FOREIGN TABLE from_$1 (a int, b text) SERVER $1 OPTIONS (table_name 't');
	SQL
}
table="CREATE EXTENSION rdma_fdw; CREATE TABLE t AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 50000) g;"
other_port=$(theirs rf_port other)
{ echo "$table"; link two "$(rf_port two)"; link other "$other_port"; } | rf_psql one -q
echo "$table" | rf_psql two -q
{ echo "$table"; link two "$(rf_port two)"; } | theirs rf_psql other -q

# expect NAME EXPECTED GOT
expect()
{
	if [ "$2" = "$3" ]; then
		rf_result ok "users/$1"
	else
		rf_result FAIL "users/$1" "expected '$2', got '$3'; $(rf_again '')"
	fi
}
rows="SELECT count(*), sum(a), min(length(b)) FROM"
# as in every session that reads rows: the transport of the connection to that port
transport() { printf 'SELECT string_agg(DISTINCT transport, chr(44)) FROM rdma.stat_peers WHERE port = %s' "$1"; }
engine_port() { "$@" -qAtc 'SELECT port FROM rdma.stat_engine' </dev/null; }

answer='50000|1250025000|100'
expect 'rows of a server of the same user' "$answer" "$(rf_sql one "$rows from_two")"
expect 'by shared memory' 'shm' "$(rf_sql one "$(transport "$(engine_port rf_psql two)")")"
expect 'rows of a server of another user' "$answer" "$(rf_sql one "$rows from_other")"
expect 'over TCP' 'tcp' "$(rf_sql one "$(transport "$(engine_port theirs rf_psql other)")")"
# their engine connects
expect 'rows that another user reads' "$answer" "$(theirs rf_sql other "$rows from_two")"
expect 'over TCP, too' 'tcp' "$(theirs rf_sql other "$(transport "$(engine_port rf_psql two)")")"

# The engine's socket has a name that everybody can see, made of the node's identity, as two numbers. The engine closes a connection of
# another user without a word, and counts it.
words=$(perl -e 'print map { unpack("H*", reverse) } unpack("a8a8", pack("H*", $ARGV[0] =~ s/-//gr))' "$(rf_sql one 'SELECT node FROM rdma.stat_engine')")
name=$(sed -n "s/.* @\(rdma_fdw[.]$words[.][0-9]*\)\$/\1/p" /proc/net/unix | sort -u | head -n 1)
knock='use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, pack_sockaddr_un("\0$ARGV[0]")) or die "connect: $!";
	$SIG{ALRM} = sub { print "open\n"; exit }; alarm 5; my $n = sysread($s, my $b, 100); print $n ? "an answer\n" : "closed\n"'
before=$(rf_sql one 'SELECT garbage_connections FROM rdma.stat_engine')
expect 'the local socket is there' 'found' "${name:+found}"
expect 'it closes a connection of another user' 'closed' "$(theirs rf_run perl -e "$knock" "$name")"
expect 'and counts it' 1 "$(rf_sql one "SELECT garbage_connections - $before FROM rdma.stat_engine")"
# its memory: descriptors of another user's process cannot be opened
expect 'the memory of the engine cannot be opened' 0 \
	"$(theirs rf_run find "/proc/$(rf_engine_pid one)/fd" -lname '*memfd*' 2>/dev/null | wc -l)"
for log in "$RF_ROOT"/*.log "$theirs"/*.log; do
	rf_check_log "users, $(basename "$log")" "$log"
done
