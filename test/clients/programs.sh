#!/usr/bin/env bash
# programs.sh: PostgreSQL's own programs and sysbench, as their manuals say: pgbench makes its tables twice and runs TPC-B, sysbench
# prepares, runs and cleans up, pg_dump writes what pg_restore and psql read.
set -uo pipefail

# step NAME COMMAND...: its output, and its status if that is not 0, as the result
step()
{
	local name=$1 output status=0
	shift
	output=$("$@" 2>"$name.errors") || status=$?
	cat "$name.errors"
	[ "$status" = 0 ] || output="error: $(tail -n 3 "$name.errors") $output"
	printf 'step\t%s\t%s\n' "$name" "$(tr -s '\n\t ' ' ' <<<"$output")" >>"$RF_STEPS"
}

ask() { psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# own NAME SQL: what the author has to say because tables are distributed
own()
{
	[ -n "$RF_SERVER" ] || return 0
	printf 'sql\t%s\t%s\n' "$1" "$2" >>"$RF_STEPS"
	ask -c "$2" >/dev/null
}

distribute_pgbench()
{
	own "$1" "SELECT * FROM rdma.distribute_tables('nodes', '{pgbench_accounts,pgbench_tellers,pgbench_branches,pgbench_history}', '{aid,tid,bid,aid}')"
}

# what TPC-B keeps equal
balances()
{
	ask -c "WITH h AS (SELECT coalesce(sum(delta), 0) AS sum, count(*) FROM pgbench_history) SELECT h.count, (SELECT sum(abalance) FROM pgbench_accounts) = h.sum,
		(SELECT sum(tbalance) FROM pgbench_tellers) = h.sum, (SELECT sum(bbalance) FROM pgbench_branches) = h.sum, (SELECT count(*) FROM pgbench_accounts) FROM h"
}

# pgbench_run ARGUMENT...: says nothing that depends on time
pgbench_run() { pgbench -n -c 4 -t 40 --random-seed=7 "$@" | grep -E 'processed|failed|query mode'; }

sysbench_run()
{
	sysbench "$1" --db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" --pgsql-user="$PGUSER" --pgsql-password="$PGPASSWORD" --pgsql-db="$PGDATABASE" \
		--tables=2 --table-size=2000 --threads=1 --rand-seed=7 --events=60 --time=0 "${@:2}" >sysbench.out || { cat sysbench.out >&2; return 1; }
	grep -E 'transactions:|ignored errors|queries:|Inserting|Dropping' sysbench.out | sed 's/(.*//'
}

# its rows are random
sysbench_counts() { ask -c 'SELECT count(*), count(DISTINCT id), max(id), min(length(c)) FROM sbtest1' -c 'SELECT count(*), max(length(pad)) FROM sbtest2'; }

sysbench_rows()
{
	ask -c "SELECT count(*), sum(k), md5(string_agg(c || pad, '' ORDER BY id)) FROM sbtest1" -c "SELECT count(*), sum(k), md5(string_agg(c || pad, '' ORDER BY id)) FROM sbtest2"
}

distribute_sysbench() { own "$1" "SELECT * FROM rdma.distribute_tables('nodes', '{sbtest1,sbtest2}', '{id,id}')"; }

# pgbench
step initialize pgbench -i -q -s 1
step distribute distribute_pgbench distribute
step tpc_b pgbench_run
step balances balances
step extended pgbench_run -M extended
step prepared pgbench_run -M prepared
step select_only pgbench_run -S -M prepared
step simple_update pgbench_run -N
export PGOPTIONS='-c default_transaction_isolation=repeatable\ read'
step repeatable_read pgbench_run -N --max-tries=50
unset PGOPTIONS
step server_side_rows pgbench -i -I Gv -q -s 1
step balances_of_new_rows balances
step client_side_rows pgbench -i -I gv -q -s 1
step initialize_again pgbench -i -q -s 1 --foreign-keys
step tables ask -c "SELECT relname FROM pg_class WHERE relname LIKE 'pgbench%' AND relkind IN ('r', 'f') ORDER BY 1"
step tpc_b_again pgbench_run
step drop pgbench -i -I d

# sysbench
step sysbench_prepare sysbench_run oltp_read_write prepare
step sysbench_distribute distribute_sysbench sysbench_distribute
step sysbench_read_write sysbench_run oltp_read_write run
step sysbench_counts sysbench_counts
step sysbench_simple_protocol sysbench_run oltp_read_write --db-ps-mode=disable run
step sysbench_without_transactions sysbench_run oltp_read_write --skip-trx=on run
for load in oltp_insert oltp_delete oltp_update_index oltp_update_non_index oltp_point_select oltp_read_only oltp_write_only select_random_points select_random_ranges; do
	step "sysbench_$load" sysbench_run "$load" run
done
step sysbench_counts_at_end sysbench_counts

# pg_dump and pg_restore
dump() { pg_dump "${@:2}" ${RF_SERVER:+--include-foreign-data="$RF_SERVER"} -t sbtest1 -t sbtest2 -f "$1" && grep -c "^INSERT\|^COPY" "$1"; }
load()
{
	local before
	before=$(sysbench_rows) && ask -q -c 'TRUNCATE sbtest1, sbtest2' -f "$1" >/dev/null && [ "$before" = "$(sysbench_rows)" ] && sysbench_counts
}
dump_all() { pg_dump -Fc --no-owner -f all.dump && pg_restore -l all.dump | grep -c ' \(TABLE\|FOREIGN TABLE\) public sbtest'; }
dump_local() { sysbench_rows >local.rows && pg_dump -Fc -t 'sbtest*' -f local.dump; }
restore() { pg_restore --clean --if-exists -d "$PGDATABASE" local.dump && sysbench_rows | cmp - local.rows; }

step dump_rows dump rows.sql --data-only --inserts
step load_rows load rows.sql
step dump_copy dump copy.sql --data-only
step load_copy load copy.sql
step dump_all dump_all
step sysbench_cleanup sysbench_run oltp_read_write cleanup
step prepare_again sysbench_run oltp_read_write prepare
step dump_local dump_local
step distribute_again distribute_sysbench distribute_again
step restore_over_distributed restore
step restored_are_local ask -c "SELECT relname, relkind FROM pg_class WHERE relname LIKE 'sbtest_' ORDER BY 1"
step cleanup_at_end sysbench_run oltp_read_write cleanup
