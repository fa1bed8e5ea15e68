#!/usr/bin/env bash
# pair_machine.sh ROLE FOLDER: what pair.sh runs inside each of the two machines; ROLE is node or coordinator, FOLDER is check.sh's. VM_CARD is
# the card that the wire is at. What both write to FOLDER/pair both see.
#
# Every statement is right or fails with an error of the connection (class 08); none hangs: statement_timeout is far beyond every limit of
# rdma_fdw's. All limits grow with how slow the machine is (slowness).
#
#   PAIR_PARTS   only these of the parts at the end, "over_a_bad_wire path_falls_back" say
set -uo pipefail
role=$1
work=$2
shared=$work/pair
export RF_TEMPLATE=$work/template/cluster RF_START_TIMEOUT=500 PGCONNECT_TIMEOUT=120
. "$(dirname "$0")/../results.sh"
. "$(dirname "$0")/../cluster.sh"

# How much slower this machine is than one on an idle host, which counts this far in a second: 1 to 8
slowness()
{
	local began=$(date +%s%N) i seconds
	for ((i = 0; i < 50000; i++)); do :; done
	seconds=$((($(date +%s%N) - began) / 1000000000))
	echo $((seconds < 1 ? 1 : seconds > 8 ? 8 : seconds))
}

# Of packets in disorder rxe sends again once in its acknowledgement timeout only, and then one or two of them arrive in order: the 82 of a
# write take 45 times that, however fast the machine is. It follows from peer_timeout: 67 ms of 8 s, so that they take 3 s.
slow=$(slowness)
settings=(shared_buffers=64MB 'listen_addresses=*' rdma_fdw.buffer_memory=64MB
	"rdma_fdw.peer_timeout=$((8 * slow))s" "rdma_fdw.connect_timeout=$((10 * slow))s" log_min_messages=log)
here=10.88.0.1
there=10.88.0.2

# Rows of node N: every second one.
fill()
{
	rf_psql "$1" -q <<-SQL
		CREATE EXTENSION rdma_fdw;
		CREATE TABLE item AS SELECT i AS k, md5(i::text) AS m FROM generate_series($2, 30000, 2) i;
		CREATE TABLE part AS SELECT (i * 7919) % 30000 + 1 AS k, i AS v FROM generate_series($2, 30000, 2) i;
		CREATE TABLE written (k int, m text);
		CREATE VIEW endless AS SELECT g AS k, repeat('x', 200) AS m FROM (SELECT generate_series(1, 100000000) AS g) s;
		ANALYZE item, part;
	SQL
	printf 'host all all 10.88.0.0/24 trust\n' | rf_run tee -a "$RF_ROOT/$1/pg_hba.conf" >/dev/null
	rf_sql "$1" 'SELECT pg_reload_conf()' >/dev/null
}

# up NAME SETTING ...: minutes may pass here, beside other load
up()
{
	echo "$1 starts"
	rf_start "$@"
}

rf_init "$TMPDIR/pair"

# ---------- the node's machine ----------

if [ "$role" = node ]; then
	up n1 "${settings[@]}" rdma_fdw.provider=auto
	fill n1 1
	rf_port n1 >"$shared/port.new" && mv "$shared/port.new" "$shared/port"
	while [ ! -e "$shared/stop" ]; do
		echo "the node is there"
		sleep 5
	done
	rf_run cat "$(rf_log n1)" >"$shared/n1.log"
	rf_stop_all
	exit 0
fi

# ---------- the coordinator's machine ----------

echo "limits are $slow times those of an idle host"
up n2 "${settings[@]}" rdma_fdw.provider=auto
up co "${settings[@]}" rdma_fdw.provider=verbs
fill n2 2
rf_psql co -qc 'CREATE EXTENSION rdma_fdw'
began=$SECONDS
while [ ! -s "$shared/port" ]; do
	[ $((SECONDS - began)) -lt 1200 ] || { rf_result FAIL roce/pair "the node's machine did not come up"; exit 0; }
	echo "waiting for the node's machine"
	sleep 10
done
n1_port=$(cat "$shared/port")
rf_psql co -q <<SQL || rf_result FAIL roce/pair "the servers cannot be created"
CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '$there', port '$n1_port', dbname 'postgres', inline_limit '0');
CREATE SERVER n2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '$here', port '$(rf_port n2)', dbname 'postgres', inline_limit '0');
CREATE USER MAPPING FOR postgres SERVER n1;
CREATE USER MAPPING FOR postgres SERVER n2;
CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
CREATE SCHEMA far;
CREATE FOREIGN TABLE far.item (k int, m text) SERVER n1 OPTIONS (schema_name 'public');
CREATE FOREIGN TABLE far.endless (k int, m text) SERVER n1 OPTIONS (schema_name 'public');
CREATE FOREIGN TABLE far.written (k int, m text) SERVER n1 OPTIONS (schema_name 'public');
CREATE FOREIGN TABLE item (k int, m text) SERVER pair;
CREATE FOREIGN TABLE part (k int, v int) SERVER pair;
ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both';
ALTER DATABASE postgres SET statement_timeout = '$((240 * slow))s';
SQL

# ask SQL: its answer, or "ERROR: SQLSTATE: ..."; messages are left in $said
said=$TMPDIR/said
ask()
{
	local out
	out=$(rf_psql co -qAt -v VERBOSITY=verbose -c "$1" 2>"$said" </dev/null) || out="ERROR: $(sed -n 's/^.*ERROR:  //p' "$said" | head -1)"
	printf '%s\n' "$out"
}

result()
{
	local name=$1 good=$2
	shift 2
	if [ "$good" = 1 ]; then
		rf_result ok "roce/pair: $name"
	else
		rf_result FAIL "roce/pair: $name" "$*"
		cat "$said" 2>/dev/null
	fi
}

pull='SELECT count(*), sum(k), sum(length(m)) FROM (SELECT * FROM far.item OFFSET 0) x'
pulled='15000|225000000|480000'
exchange='SELECT count(*), sum(v), sum(length(m)) FROM item JOIN part USING (k)'
exchanged='30000|450015000|960000'
write="DELETE FROM far.written; INSERT INTO far.written SELECT i, md5(i::text) FROM generate_series(1, 8000) i; SELECT count(*), sum(k) FROM far.written"
written='8000|32004000'

# right SQL ANSWER WHAT: right, at the latest after a minute (of an idle host) of errors of the connection
right()
{
	local until=$((SECONDS + 60 * slow)) answer tries=0
	while :; do
		answer=$(ask "$1")
		tries=$((tries + 1))
		case $answer in
			"$2") result "$3" 1; return ;;
			"ERROR: 08"*) [ $SECONDS -lt $until ] || break ;;
			*) break ;;
		esac
		sleep 1
	done
	result "$3" 0 "attempt $tries: $answer"
}

all_right()
{
	right "$pull" "$pulled" "a pull $1"
	right "$write" "$written" "a write $1"
	right "$exchange" "$exchanged" "an exchange $1"
}

# fails SQL WHAT: with an error of the connection whose hint says what to look at
fails()
{
	local answer
	answer=$(ask "$1")
	if [[ $answer == "ERROR: 08006"* ]] && grep -q 'HINT:.*4791.*gid_index.*MTU' "$said"; then
		result "$2" 1
	else
		result "$2" 0 "$answer"
	fi
}

# nothing_held WHAT: on any of the clusters, within a minute (of an idle host)
nothing_held()
{
	local until=$((SECONDS + 60 * slow)) held sql
	sql="SELECT (SELECT count(*) FROM rdma.stat_flows) + (SELECT coalesce(sum(outstanding), 0) FROM rdma.qps) + (SELECT bytes_in_flight FROM rdma.stat_engine)"
	while :; do
		held="$(rf_sql co "$sql") $(rf_sql n2 "$sql") $(rf_run "$RF_BINDIR/psql" -X -h $there -p "$n1_port" -U postgres -d postgres -qAtc "$sql" </dev/null)"
		[ "$held" != "0 0 0" ] || { result "nothing is held $1" 1; return; }
		[ $SECONDS -lt $until ] || break
		sleep 1
	done
	result "nothing is held $1" 0 "$held"
}

transport() { rf_sql co "SELECT string_agg(transport, ',') FROM rdma.stat_peers WHERE state = 'connected' AND host = '$there'"; }

netem()
{
	tc qdisc del dev "$VM_CARD" root 2>/dev/null
	[ $# = 0 ] || tc qdisc add dev "$VM_CARD" root netem "$@"
}

# drop DIRECTION ...: RoCE's packets only; "large": only those that a path of 1500 bytes would not carry. They vanish on the way ("trap"): a
# packet that is refused ("drop") before it has left is offered again and again by rxe of Linux 6.1, within ibv_post_send and without end.
drop()
{
	local direction filter
	tc qdisc del dev "$VM_CARD" clsact 2>/dev/null
	[ $# = 0 ] || tc qdisc add dev "$VM_CARD" clsact
	for direction in "$@"; do
		filter="match ip protocol 17 0xff match ip dport 4791 0xffff"
		[ "$direction" != large ] || { direction=egress filter="$filter match u16 0x1000 0x1000 at 2"; }
		# shellcheck disable=SC2086
		tc filter add dev "$VM_CARD" "$direction" protocol ip u32 $filter action trap || result "packets of $direction are dropped" 0
	done
}

# The next statement reconnects.
new_engine()
{
	local pid
	pid=$(rf_engine_pid co)
	kill -TERM "$pid"
	while [ "$(rf_engine_pid co)" = "$pid" ]; do
		sleep 0.2
	done
}

# ---------- the parts ----------

over_a_good_wire()
{
	all_right "over a good wire"
	[ "$(transport)" = verbs ] && result "over verbs" 1 || result "over verbs" 0 "$(transport)"
}

# Packets that are lost, and packets that overtake each other.
over_a_bad_wire()
{
	local what
	for what in 'loss 0.5%' 'loss 3%' 'delay 2ms 2ms reorder 25%'; do
		# shellcheck disable=SC2086
		netem $what
		all_right "with $what"
	done
	netem
}

link_goes_down()
{
	local flap answer
	(
		sleep 1
		ip link set "$VM_CARD" down
		sleep 4
		ip link set "$VM_CARD" up
		ip addr add $here/24 dev "$VM_CARD" 2>/dev/null
	) &
	flap=$!
	answer=$(ask 'SET rdma_fdw.push_down = scans; SELECT count(m) FROM (SELECT m FROM far.endless LIMIT 100000) x')
	case $answer in
		100000 | "ERROR: 08"*) result "a link that goes down is survived or told" 1 ;;
		*) result "a link that goes down is survived or told" 0 "$answer" ;;
	esac
	wait $flap
	all_right "after the link was down"
}

# RoCE's packets are lost in the middle of a pull.
path_dies()
{
	local dying
	(
		for try in $(seq 600); do
			[ "$(rf_sql co 'SELECT coalesce(sum(bytes), 0) > 1000000 FROM rdma.stat_flows')" != t ] || break
			sleep 0.1
		done
		drop egress ingress
	) &
	dying=$!
	fails 'SELECT count(m) FROM (SELECT k, m FROM far.endless OFFSET 0) x' "a path that dies in the middle of a pull is told"
	wait $dying
	drop
	right "$pull" "$pulled" "a pull when the packets come through again"
	nothing_held "after a path has died"
}

# From the beginning: in both directions, in one, and only packets that are too large.
path_is_dead()
{
	local what answer began
	for what in 'egress ingress' egress ingress large; do
		# shellcheck disable=SC2086
		drop $what
		new_engine
		fails "$pull" "connecting fails with $what dropped"
	done
	began=$SECONDS
	answer=$(ask "SELECT count(*) FROM rdma.check('n1') WHERE status = 'problem' AND fix LIKE '%4791%'")
	[ "$answer" = 1 ] && result "rdma.check says so" 1 || result "rdma.check says so" 0 "$answer after $((SECONDS - began)) s"
	drop
	all_right "when the packets come through"
}

# The same with provider = auto: TCP does it.
path_falls_back()
{
	local answer
	rf_stop co fast
	rf_start co rdma_fdw.provider=auto
	drop egress ingress
	right "$pull" "$pulled" "a pull without RoCE's packets and with provider = auto"
	grep -q 'WARNING:.*TCP instead of RDMA' "$said" && result "a warning says so" 1 || result "a warning says so" 0
	[ "$(transport)" = tcp ] && result "and rdma.stat_peers" 1 || result "and rdma.stat_peers" 0 "$(transport)"
	answer=$(ask "SELECT status FROM rdma.check('n1') WHERE item = 'transport' AND fix LIKE '%4791%'")
	[ "$answer" = problem ] && result "and rdma.check" 1 || result "and rdma.check" 0 "$answer"
	all_right "over TCP"
	drop
	new_engine
	right "$pull" "$pulled" "a pull when the packets come through, with provider = auto"
	[ "$(transport)" = verbs ] && result "over verbs again" 1 || result "over verbs again" 0 "$(transport)"
}

# What RDMA devices do not: TCP does it, or nothing where that is not allowed. n1 and n2 go on over verbs.
encryption_required()
{
	local answer
	rf_stop co fast
	rf_start co rdma_fdw.provider=auto rdma_fdw.encryption=require
	right "$pull" "$pulled" "a pull with encryption required"
	grep -q 'WARNING:.*TCP instead of RDMA' "$said" && result "a warning says why not over RDMA" 1 || result "a warning says why not over RDMA" 0
	answer=$(rf_sql co "SELECT DISTINCT transport || ' ' || encryption FROM rdma.stat_peers WHERE state = 'connected' AND host = '$there'")
	[ "$answer" = "tcp TLS 1.3 AES-256-GCM" ] && result "it is encrypted" 1 || result "it is encrypted" 0 "$answer"
	all_right "with encryption required"
	rf_stop co fast
	rf_start co rdma_fdw.provider=verbs
	answer=$(ask "$pull")
	[[ $answer == "ERROR: 55000"* ]] && grep -q 'rdma_fdw.encryption = require .* does not encrypt' "$said" && result "nothing goes over RDMA then" 1 || result "nothing goes over RDMA then" 0 "$answer"
	rf_stop co fast
	rf_start co rdma_fdw.encryption=auto
	right "$pull" "$pulled" "a pull over verbs again"
}

for part in ${PAIR_PARTS:-over_a_good_wire over_a_bad_wire link_goes_down path_dies path_is_dead path_falls_back encryption_required}; do
	began=$SECONDS
	$part
	echo "$part took $((SECONDS - began)) s"
done
nothing_held "at the end"

for name in co n2; do
	rf_run cat "$(rf_log $name)" >"$shared/$name.log"
	if grep -E 'PANIC|TRAP:|terminated by signal (6|7|8|11)' "$shared/$name.log"; then
		rf_result FAIL "roce/pair: log of $name" "a process crashed"
	fi
done
rf_stop_all
exit 0
