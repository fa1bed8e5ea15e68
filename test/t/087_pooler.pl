# A data node behind PgBouncer in transaction mode, with one session of the server for all clients: statements mean there what they mean
# here, under any settings of that session; and nothing of ours stays in it for the pool's other clients.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'there is no pgbouncer' if system('which pgbouncer >/dev/null 2>&1') != 0;

my $coord = rdma_node('coord');
my $n1 = rdma_node('n1');
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node_port = $n1->port;

append_to_file("$folder/users.txt", "\"postgres\" \"\"\n");
append_to_file("$folder/pool.ini", <<INI);
[databases]
pooled = host=127.0.0.1 port=$node_port dbname=postgres user=postgres
kept = host=127.0.0.1 port=$node_port dbname=postgres user=postgres pool_mode=session
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
auth_type = any
auth_file = $folder/users.txt
pool_mode = transaction
default_pool_size = 1
unix_socket_dir =
logfile = $folder/pool.log
pidfile = $folder/pool.pid
INI
system_or_bail('pgbouncer', '-d', "$folder/pool.ini");
END
{
	my $status = $?;

	kill 'INT', slurp_file("$folder/pool.pid") if defined $folder && -e "$folder/pool.pid";
	$? = $status;
}

$n1->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE t (id int PRIMARY KEY, t text, d date, i interval);
	INSERT INTO t SELECT g, 'a\\' || g, date '2020-01-01' + g, g * interval '-1 day +2 hours' FROM generate_series(1, 1000) g;
	ALTER DATABASE postgres SET standard_conforming_strings = off;
	ALTER DATABASE postgres SET escape_string_warning = off;
	ALTER DATABASE postgres SET datestyle = 'German, DMY';
	ALTER DATABASE postgres SET intervalstyle = sql_standard;
	ALTER DATABASE postgres SET array_nulls = off;
});
$coord->safe_psql('postgres', qq{
	CREATE EXTENSION rdma_fdw;
	CREATE SERVER pool FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'pooled');
	CREATE SERVER kept FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'kept');
	CREATE USER MAPPING FOR CURRENT_USER SERVER pool OPTIONS (user 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER kept OPTIONS (user 'postgres');
	CREATE FOREIGN TABLE t (id int, t text, d text, i interval) SERVER pool OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE kept (id int, t text, d text, i interval) SERVER kept OPTIONS (schema_name 'public', table_name 't');
});

# Two sessions here take turns with the only one over there.
my $one = $coord->background_psql('postgres');
my $other = $coord->background_psql('postgres');

sub both
{
	my ($sql, $expected, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($one->query_safe($sql), $expected, "$what: one session");
	is($other->query_safe($sql), $expected, "$what: the other");
}

foreach my $turn (1, 2)
{
	both("SELECT count(*), max(d) FROM (SELECT * FROM t OFFSET 0) x", '1000|2022-09-27', "rows, turn $turn");
	both(q{SELECT id, d, i FROM t WHERE t = 'a\7' AND d = '2020-01-08'}, '7|2020-01-08|-7 days +14:00:00', "a condition, turn $turn");
}
both(q{UPDATE t SET t = t || '\' WHERE id = 5 RETURNING t LIKE 'a_5\\\\%'}, 't', 'an UPDATE over there');
is($one->query_safe(q{INSERT INTO t SELECT 5000 + g, 'b\\' || g, '2020-02-03', '-1 day +2:00' FROM generate_series(1, 30000) g; SELECT 'done'}),
	'done', 'many new rows');
both(q{SELECT count(*), count(DISTINCT i), min(d) FROM t WHERE id > 5000}, '30000|1|2020-02-03', 'they are there');
$one->query_safe(q{
	DO $$
	BEGIN
		FOR n IN 1 .. 5 LOOP
			INSERT INTO t VALUES (2000 + n, '\\' || n, '2020-02-03', '-1 day +2:00');
			BEGIN
				UPDATE t SET t = t || '!' WHERE id = 2000 + n AND random() < 2;
				IF n % 2 = 0 THEN
					RAISE EXCEPTION 'undone';
				END IF;
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
		END LOOP;
	END $$;
});
both(q{SELECT string_agg(t, ',' ORDER BY id) FROM t WHERE id BETWEEN 2001 AND 2100}, '\1!,\2,\3!,\4,\5!', 'row by row, with subtransactions');
isnt($coord->psql('postgres', 'SELECT 1 / (id - 7) FROM t'), 0, 'an error');
both(q{SELECT count(*) FROM t WHERE id < 1001}, '1000', 'after an error');
$one->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 2 FROM c});
is($one->query_safe('FETCH 2 FROM c; COMMIT'), "3\n4", 'a cursor');
is($one->query_safe('ANALYZE t; SELECT reltuples FROM pg_class WHERE oid = \'t\'::regclass'), '31005', 'ANALYZE');
is($one->query_safe(q{CREATE SCHEMA s; IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER pool INTO s; SELECT count(*) FROM s.t}), '31005', 'IMPORT');
is($one->query_safe("SELECT max(d) FROM kept WHERE id < 1001 AND t LIKE 'a\\\\%'"), '2022-09-27', 'a pool of sessions');

# What the pool's other clients find
my $pool = "host=127.0.0.1 port=$port dbname=pooled user=postgres";
is($coord->safe_psql('postgres', 'SHOW search_path', connstr => $pool), '"$user", public', "another client's search_path");
is($coord->safe_psql('postgres', 'SHOW datestyle', connstr => $pool), 'German, DMY', "another client's datestyle");
is($coord->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_statements', connstr => $pool), '0', 'no prepared statements');
$one->quit;
$other->quit;

# Without a pooler a session is ours, and set once.
$coord->safe_psql('postgres', "ALTER SERVER pool OPTIONS (SET port '$node_port', SET dbname 'postgres')");
is($coord->safe_psql('postgres', q{SELECT id, d FROM t WHERE t = 'a\7'}), '7|2020-01-08', 'directly');

done_testing();
