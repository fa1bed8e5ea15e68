# Questions.pm: all statements that the extension itself sends to other servers.
#
# One entry per place in the sources that sends some: { place, calls, asks, check, keys }. test/static/questions.pl compares places and
# numbers of calls with the sources, and the table in docs/security.md with asks and check. keys: name => regular expression of the
# text; the proxy lies about a question by its name, and the tests fail when a statement passes that none of them fits. A place without
# keys passes on what others wrote.
package Lying::Questions;

use strict;
use warnings;

# What would be run if what a node says were SQL.
our $canary = 'DROP TABLE ledger';

my $command = 'nothing: it succeeds, or fails with an error of the node';
my $yes = 'one value: `t` is yes, anything else no';

# place, calls, what it asks for, what becomes of the answer, keys
our @questions = map { my ($place, $calls, $asks, $check, @keys) = @$_; { place => $place, calls => $calls, asks => $asks, check => $check, keys => {@keys} } } (
	# ---------- sessions and transactions
	[ 'src/remote/session_settings.c: rf_session_pin_settings', 1, 'fixed settings of the session; limits and identity of the node', 'settings have to be as asked for; numbers; memberships: see `rdma_internal.memberships` below',
		pin => qr/^SELECT name, value, pg_catalog\.set_config\(name, value/ ],
	[ 'src/remote/session_settings.c: ask_again', 1, 'its part in sets of nodes, after a move', 'text that is only compared; numbers', member => qr/^SELECT NULL, \(SELECT rdma_internal\.memberships/ ],
	[ 'src/remote/session_settings.c: rf_session_set_search_path', 1, 'the search path of a command of `rdma.run_on`', $command, path => qr/^SELECT pg_catalog\.set_config\('search_path'/ ],
	[ 'src/remote/pipeline.c: rf_pipeline_begin', 3, 'the beginning of a transaction, and settings for one', 'nothing but success', begin => qr/^BEGIN|^START TRANSACTION/, local => qr/^SELECT pg_catalog\.set_config\(name, value, true\)/ ],
	[ 'src/remote/pipeline.c: send_others', 1, 'how long ago other coordinators prepared a transaction', 'a number', others => qr/rdma_internal\.other_parts_age\((?!bigint)/ ],
	[ 'src/remote/query.c: send_query', 1, 'settings for one transaction', 'nothing but success' ],
	[ 'src/remote/query.c: send_simple', 1, 'a command and settings for it, in one message', 'as the command' ],
	[ 'src/remote/query.c: rf_session_hello', 2, '`rdma_internal.hello`: the engine, its key, a token; `rdma_internal.stream` is prepared', 'fixed length, version, known values; a proof by the key follows', hello => qr/^SELECT rdma_internal\.hello\(\$1\)$/ ],
	[ 'src/remote/query.c: rf_sessions_execute_bare', 2, 'the search path of a command outside of a transaction', $command ],
	[ 'src/remote/command.c: rf_command_send', 3, 'statements that are prepared or have parameters', 'as the statement' ],
	[ 'src/remote/command.c: send_garbage', 1, 'old prepared statements are deallocated', 'nothing', deallocate => qr/^DEALLOCATE rdma_fdw_\d/ ],
	[ 'src/remote/transaction.c: abort_savepoints', 1, 'back to a savepoint', 'nothing but success; else the connection is closed', back => qr/^ROLLBACK TO SAVEPOINT/ ],
	[ 'src/remote/transaction.c: abort_transactions', 1, 'the end of a transaction', 'nothing but success; else the connection is closed', abort => qr/^(?:ABORT|ROLLBACK) TRANSACTION/ ],
	[ 'src/remote/transaction.c: rf_session_abort_transaction', 1, 'the same, in the middle of one here', 'as above' ],
	[ 'src/remote/transaction.c: release_savepoints', 1, 'the end of a savepoint', $command, release => qr/^RELEASE SAVEPOINT s\d/, savepoint => qr/^SAVEPOINT s\d/ ],
	[ 'src/remote/transaction.c: rf_transaction_set_constraints', 1, 'when deferrable keys are checked', 'nothing but success' ],
	[ 'src/remote/commit.c: find_writers', 1, 'whether the transaction wrote there', '`t` or `f`', wrote => qr/pg_current_xact_id_if_assigned/ ],
	[ 'src/remote/commit.c: check_constraints', 1, 'deferred constraints, before the commit', $command, constraints => qr/^SET CONSTRAINTS ALL IMMEDIATE$/ ],
	[ 'src/remote/commit.c: prepare_all', 1, 'the first phase of a commit', $command, prepare => qr/^PREPARE TRANSACTION/ ],
	[ 'src/remote/commit.c: commit_sessions', 1, 'a commit in one phase', 'the tag: `ROLLBACK` is an error', commit => qr/^COMMIT TRANSACTION/ ],
	[ 'src/remote/commit.c: rf_commit_after', 1, 'the second phase', 'success, or the resolver repeats it', finish => qr/^(?:COMMIT|ROLLBACK) PREPARED/ ],
	[ 'src/remote/recover.c: prepared_there', 1, 'names of prepared transactions', 'a name has to be one of this database exactly before it is used', prepared => qr/^SELECT gid FROM pg_catalog\.pg_prepared_xacts/ ],
	[ 'src/remote/recover.c: oldest_preparing', 1, 'the age of the oldest transaction that may still prepare', 'a number or NULL', preparing => qr/^SELECT \(extract\(epoch FROM pg_catalog\.max/ ],
	[ 'src/remote/recover.c: finish_part', 1, 'the second phase, by the resolver', 'success, or the error is shown in `rdma.transactions`' ],
	[ 'src/remote/other_coordinators.c: rf_others_agree', 2, 'which transactions of other coordinators the snapshot does not see; whether another snapshot sees them', 'numbers; `t` or `f`', unseen => qr/^SELECT part, age, owner FROM rdma_internal\.unseen_parts/, seen => qr/^SELECT rdma_internal\.seen_parts/ ],
	[ 'src/remote/snapshot.c: run_on_all', 1, 'snapshots of several nodes at one moment', 'as `send_others`' ],
	[ 'src/remote/statement_snapshot.c: rf_statement_snapshot_send', 1, '`rdma_internal.stream`: a snapshot that is kept for a statement', 'fixed length, known values' ],
	[ 'src/remote/deadlock.c: add_remote_edges', 1, 'which processes there wait for which', 'pairs of positive numbers; a circle has to be there twice, and only waiting backends of this database are cancelled', edges => qr/^SELECT w\.pid, b\.pid FROM/ ],
	[ 'src/remote/restore_point.c: check_node', 1, 'whether it is a primary that may make restore points', 'one row of booleans', may_point => qr/pg_is_in_recovery/ ],
	[ 'src/remote/restore_point.c: record_name', 1, 'the name of a restore point', 'a row, or none: the name was used', point_name => qr/^INSERT INTO rdma\.restore_points/ ],
	[ 'src/remote/restore_point.c: run_on_all', 1, 'the restore point, and its place in the WAL', 'a `pg_lsn`', point => qr/^SELECT pg_catalog\.pg_create_restore_point/, point_lsn => qr/^UPDATE rdma\.restore_points/ ],
	# ---------- rows
	[ 'src/remote/stream.c: send_request', 1, '`rdma_internal.stream`: rows of a query', 'fixed length, known values; images of values by the table below', stream => qr/^SELECT rdma_internal\.stream\(/ ],
	[ 'src/remote/load.c: send_request', 1, '`rdma_internal.store`: takes rows', 'fixed length, known values; the number of rows', store => qr/^SELECT rdma_internal\.store\(/ ],
	[ 'src/fdw/exec/modify_target.c: rf_modify_create_command', 1, 'a row is written', 'the tag\'s number; values of `RETURNING` by input functions', write_row => qr/^INSERT INTO public\.(?:grow|seed)\b|^UPDATE public\.(?:grow|seed)\b|^DELETE FROM public\.(?:grow|seed)\b/ ],
	[ 'src/fdw/exec/modify_target.c: rf_modify_lock_first', 1, 'a row is locked before it is written', $command, lock_row => qr/^SELECT rdma_internal\.lock_row/ ],
	[ 'src/fdw/exec/modify_direct.c: create_command', 1, 'an `UPDATE`, `DELETE` or `INSERT` as one statement', 'the tag\'s number; values of `RETURNING` by input functions', direct => qr/^(?:UPDATE|DELETE FROM) public\./ ],
	[ 'src/fdw/exec/modify_move.c: check_references', 1, 'whether foreign keys refer to a table whose rows change nodes', $yes, references => qr/^SELECT c\.conname, c\.conrelid/ ],
	[ 'src/fdw/exec/modify_move.c: delete_moving', 1, 'a row leaves a node', 'the tag\'s number; values by input functions' ],
	[ 'src/fdw/exec/modify_move.c: insert_moved', 1, 'a row comes to a node', 'the tag\'s number' ],
	[ 'src/fdw/exec/modify.c: rdmaExecForeignTruncate', 2, '`TRUNCATE`', $command, truncate => qr/^TRUNCATE / ],
	[ 'src/fdw/exec/lock_rows.c: lock', 2, 'rows of `LIMIT ... FOR UPDATE` are locked when they are returned', 'one row or none, values by input functions', late_lock => qr/rdma_internal\.locked_place\(\)/, lock_version => qr/rdma_internal\.lock_version/ ],
	[ 'src/fdw/exec/scan_nodes.c: rf_scan_nodes_collect', 1, 'what the exchanges of a statement moved', 'a fixed number of columns, numbers', stats => qr/rdma_internal\.exchange_stats/ ],
	[ 'src/fdw/exec/explain_nodes.c: explain_on_node', 5, 'the plan of a node', 'text that is shown', explain_prepare => qr/^PREPARE rdma_fdw_explain/, explain => qr/^EXPLAIN \(COSTS \w+, VERBOSE \w+\) EXECUTE/, explain_mode => qr/^SET LOCAL plan_cache_mode/, explain_end => qr/^DEALLOCATE rdma_fdw_explain/ ],
	# ---------- exchanges
	[ 'src/exchange/form_exchanges.c: begin_attempt', 1, 'a savepoint before exchanges are set up', $command, attempt => qr/^SAVEPOINT rdma_fdw_exchange/ ],
	[ 'src/exchange/form_exchanges.c: keep_attempt', 1, 'its end', $command, attempt_kept => qr/^RELEASE SAVEPOINT rdma_fdw_exchange/ ],
	[ 'src/exchange/form_exchanges.c: undo_attempt', 2, 'back to it', $command ],
	[ 'src/exchange/form_exchanges.c: connect_pairs', 3, '`rdma_internal.exchange_greet`, `rdma_internal.hello`, `rdma_internal.exchange_connect`: nodes connect to each other', 'one row each; what a node says goes to another one as a parameter, and is checked there as from any role', greet => qr/rdma_internal\.exchange_greet/, greeted => qr/^SELECT rdma_internal\.hello\(g\)/, connect => qr/rdma_internal\.exchange_connect/ ],
	[ 'src/exchange/form_exchanges.c: form_groups', 2, '`rdma_internal.exchange_listen`, `rdma_internal.exchange_open`: the flows of a statement', 'rows and columns; each description has to be what was sent, with only its own places filled in', listen => qr/rdma_internal\.exchange_listen/, open => qr/rdma_internal\.exchange_open/ ],
	[ 'src/exchange/form_exchanges.c: check_flows', 1, 'how many flows it may have', 'a number', flows => qr/current_setting\('rdma_fdw\.max_flows/ ],
	# ---------- planning and statistics
	[ 'src/fdw/plan/estimate.c: ask_data_node', 1, '`EXPLAIN`: rows and costs', 'numbers that are not negative', estimate => qr/^EXPLAIN \(COSTS TRUE/ ],
	[ 'src/fdw/catalog/analyze.c: ask_node_size', 1, 'pages and rows of a table', 'numbers between limits', size => qr/^WITH RECURSIVE tree/ ],
	[ 'src/fdw/catalog/analyze.c: fetch_rows', 2, 'a cursor of sampled rows', $command, sample => qr/^DECLARE rdma_fdw_sample/, sample_end => qr/^CLOSE rdma_fdw_sample/ ],
	[ 'src/fdw/catalog/analyze.c: fetch_some', 1, 'sampled rows', 'values by input functions, as the table\'s owner', fetch => qr/^FETCH \d+ FROM rdma_fdw_sample/ ],
	[ 'src/fdw/catalog/import_statistics.c: rf_import_statistics', 1, '`pg_stats`', 'each number between its limits, arrays of one dimension and in order, once per column; values by input functions, as the table\'s owner', pg_stats => qr/pg_catalog\.pg_stats/ ],
	[ 'src/fdw/catalog/remote_index.c: rf_import_indexes', 1, 'indexes of a table', 'numbers between limits; names of columns that are looked up here', indexes => qr/^SELECT i\.indexrelid/ ],
	[ 'src/fdw/catalog/import.c: ask_columns', 2, 'tables and columns of a schema', 'names are quoted; types and expressions are parsed whole', schema => qr/^SELECT 1 FROM pg_catalog\.pg_namespace/, columns => qr/^SELECT c\.relname, a\.attname/ ],
	# ---------- several nodes
	[ 'src/exchange/change.c: lock_on_node', 2, 'locks before rows are moved', $command, lock_timeout => qr/^SET LOCAL lock_timeout/, lock => qr/^LOCK TABLE / ],
	[ 'src/exchange/enroll.c: rf_node_join', 1, '`rdma_internal.join_set`: the database remembers which node it is', 'a UUID', join_set => qr/^SELECT rdma_internal\.join_set/ ],
	[ 'src/exchange/enroll.c: ask_membership', 1, '`rdma_internal.memberships`: which node it is', 'text that is only compared; numbers', memberships => qr/^SELECT rdma_internal\.memberships/ ],
	[ 'src/exchange/nodes.c: rdma_run_on', 1, 'the command of a caller of `rdma.run_on`', 'one value, which the caller gets', run_on => qr/^SELECT 7$/ ],
	[ 'rdma_internal.ask_node', 1, 'a question of another function', 'one row, and what the function does with it' ],
	[ 'rdma_internal.define_on', 2, '`rdma_internal.define`: a part of a table\'s definition', 'text that is shown; anything but NULL is an error', define => qr/^SELECT rdma_internal\.define\(|^CREATE (?:UNIQUE )?(?:TABLE|INDEX|STATISTICS) |^ALTER TABLE \S+ ADD CONSTRAINT \w+_(?:pkey|key|check)|^COMMENT ON TABLE/ ],
	[ 'rdma_internal.node_foreign_keys', 1, '`rdma_internal.foreign_keys`: foreign keys of tables', 'JSON; names are quoted, letters stand for actions', foreign_keys => qr/rdma_internal\.foreign_keys\(/ ],
	[ 'rdma_internal.drop_foreign_keys', 2, 'whether it has a foreign key, which is dropped', $yes, has_key => qr/^SELECT true FROM pg_catalog\.pg_constraint/, drop_key => qr/^ALTER TABLE \S+ DROP CONSTRAINT \S+_fkey$/ ],
	[ 'rdma.distribute_table', 7, 'whether a schema is there and may be used; it is created; foreign keys; statistics', $yes . '; the name of a role, which is shown', no_schema => qr/to_regnamespace\('\S+'\) IS NULL$/, may_create => qr/has_schema_privilege/, create_schema => qr/^CREATE SCHEMA /, analyze => qr/^ANALYZE /, add_key => qr/^ALTER TABLE \S+ ADD CONSTRAINT \S+ FOREIGN KEY/ ],
	[ 'rdma.distribute_tables', 1, 'foreign keys', $command ],
	[ 'rdma.alter_distribution', 1, 'foreign keys', $command ],
	[ 'rdma.undistribute_table', 3, 'a lock; `rdma_internal.table_description`: the table and its partitions; it is dropped', 'JSON; names are quoted, values literals; commands with expressions as [above](#definitions-of-tables)', describe => qr/rdma_internal\.table_description/, drop => qr/^DROP TABLE / ],
	[ 'rdma_internal.buckets_of_nodes', 1, 'the constraint `rdma_placement` of a table', 'numbers that the text has to consist of; all nodes have to agree', placement => qr/pg_get_constraintdef\(k\.oid\)/ ],
	[ 'rdma.check_distribution', 2, 'numbers of rows and of misplaced ones; a checksum', 'numbers; the checksum is compared', count_rows => qr/^SELECT ARRAY\[count\(\*\)/ ],
	[ 'rdma_internal.sample_tables', 2, 'the same of the first rows', 'numbers; text that is shown', sample_rows => qr/^SELECT CASE WHEN count\(\*\) > 100000|^SELECT count\(\*\) FROM \(SELECT \* FROM \S+ LIMIT/ ],
	[ 'rdma_internal.column_differences', 1, 'columns that the node lacks or that have other types', 'JSON; text that is shown', column_differences => qr/jsonb_build_object\('missing'/ ],
	[ 'rdma.protect_table', 1, 'the constraint `rdma_placement`', $command, protect => qr/ADD CONSTRAINT rdma_placement/ ],
	[ 'rdma.table_sizes', 1, 'rows and bytes of a table', 'numbers', sizes => qr/pg_total_relation_size/ ],
	[ 'rdma_internal.propagate_table', 6, 'a table is changed as here; whether a schema is there, and triggers', $yes, propagate => qr/^ALTER TABLE public\.seed (?:ADD COLUMN|ALTER COLUMN|SET SCHEMA)|^DROP TABLE IF EXISTS/ ],
	[ 'rdma_internal.send_objects', 4, 'which types, functions and the like are missing; they are created', 'numbers; `t` is yes, anything else no' ],
	[ 'rdma_internal.add_value', 1, 'a value of an enumeration', $command ],
	[ 'rdma_internal.change_function', 4, 'which nodes use a function, and whether the role owns it; it is changed; whether a schema is there', '`t` is yes, anything else no' ],
	[ 'rdma_internal.add_foreign_key', 1, 'a foreign key', $command ],
	[ 'rdma_internal.settle_keys', 1, 'a foreign key', $command ],
	[ 'rdma_internal.key_there', 1, 'names of the columns of a primary key', 'JSON; names are quoted' ],
	[ 'rdma_internal.propagate_rights', 2, 'whether the caller\'s role owns a table; owners and privileges of it', '`t` is yes, anything else no' ],
	[ 'rdma_internal.table_with', 1, 'tables that have an index, a partition or a constraint of a name', 'JSON; names are looked up among the caller\'s tables' ],
	[ 'rdma_internal.reach_table', 1, 'name and columns of a table', 'JSON; names are quoted; a type is parsed as one type', reach => qr/^\s*SELECT jsonb_build_object\('schema'/ ],
	[ 'rdma_internal.copy_rows', 2, 'that rows are read and stored as the owner of their table', $command, as_owner => qr/^SET LOCAL rdma_fdw\.as_owner_of/ ],
	[ 'rdma.add_node', 11, 'whether a table is there and has rows; the table\'s definition and trigger functions; it is created on the new node', $yes . '; the new node runs only what `rdma_internal.define` there accepts', has_table => qr/^SELECT to_regclass\('\S+'\) IS NOT NULL$/, has_rows => qr/^SELECT EXISTS \(SELECT FROM \S+\)$/, table_statements => qr/^SELECT rdma_internal\.table_statements/, table_members => qr/^SELECT array_agg\(name\) FROM rdma_internal\.table_members/, functions => qr/^SELECT array_agg\(DISTINCT function\)/ ],
	[ 'rdma.move_buckets', 16, 'whether a table is protected; triggers; the order of tables by foreign keys; partitions; rows', $yes . '; names are quoted; numbers; what was copied and what was deleted have to be as many', protected => qr/^SELECT EXISTS \(SELECT FROM pg_constraint/, triggers => qr/^SELECT jsonb_agg\(jsonb_build_array\(n\.nspname/, order => qr/^\s*WITH RECURSIVE r\(relation/,
		members => qr/^SELECT array_agg\(m\.name\)/, reltuples => qr/^SELECT sum\(reltuples\)/, deferred => qr/^SET CONSTRAINTS \S.* DEFERRED$/, deferrable => qr/^\s*SELECT jsonb_agg\(DISTINCT jsonb_build_array/, delete_moved => qr/^SELECT rdma_internal\.run_as_owner/, no_triggers => qr/DISABLE TRIGGER USER$/, row_security => qr/^SET LOCAL row_security/ ],
	[ 'rdma_internal.move_size', 1, 'the size of tables', 'a number', table_size => qr/^SELECT sum\(pg_table_size/ ],
	[ 'rdma_internal.bucket_indexes', 1, 'which tables lack an index on the bucket; their sizes', 'JSON; names are quoted, numbers', bucket_indexes => qr/jsonb_build_object\('table', t\.number/ ],
	[ 'rdma_internal.index_buckets', 1, 'such an index is created or dropped', $command, index_bucket => qr/^(?:CREATE|DROP) INDEX CONCURRENTLY \S*rdma_bucket_\d+/ ],
	[ 'rdma.remove_node', 2, 'whether it has rows; it forgets that it was a node', $yes ],
	[ 'rdma_internal.upsert_rows', 3, 'whether a table is protected; rows are written', $yes . '; the tag\'s number', has_placement => qr/^SELECT EXISTS \(SELECT FROM pg_catalog\.pg_constraint/, upsert => qr/ ON CONFLICT \(/ ],
	# ---------- rdma.check
	[ 'src/monitor/check.c: check_session', 1, 'its version', 'text that is shown', check_version => qr/^SELECT pg_catalog\.current_setting\('server_version'\)/ ],
	[ 'src/monitor/check.c: check_remote_extension', 1, 'the version of the extension', 'text that is compared and shown', check_extension => qr/^SELECT extversion/ ],
	[ 'src/monitor/check.c: check_remote_engine', 4, 'whether the engine runs, by which provider, with which device', 'text that is compared and shown', check_engine => qr/FROM rdma\.stat_engine/ ],
	[ 'src/monitor/check.c: check_access', 1, 'which access the role lacks', 'text that is shown', check_access => qr/^SELECT pg_catalog\.format\('SELECT rdma\.grant_access/ ],
	[ 'src/monitor/check.c: check_prepared', 1, 'how many transactions it can prepare', 'text that is compared and shown', check_prepared => qr/^SELECT setting .* name = 'max_prepared_transactions'/ ],
	[ 'src/monitor/check.c: check_hello', 1, '`rdma_internal.hello`', 'as for `rf_session_hello`', check_hello => qr/^SELECT pg_catalog\.encode\(rdma_internal\.hello/ ],
	[ 'src/monitor/check.c: check_round_trip', 1, 'how long an answer takes', 'nothing', check_time => qr/^SELECT 1$/ ],
	[ 'src/monitor/check.c: check_routing', 1, 'whether it hashes keys as this server does', 'a number that is compared', check_routing => qr/^SELECT rdma\.hash_node\(1000000007/ ]);

my %key = map { %{ $_->{keys} } } @questions;

sub names { return sort keys %key; }

# The questions that a text may be. The statements of the user that are no question of ours, too.
sub keys_of
{
	my ($text) = @_;
	return grep { $text =~ $key{$_} } keys %key;
}

1;
