# Bad days of writers: if anything dies, is cancelled or refused in the middle of a bulk load, nothing of the load remains, the writer gets an
# error, both sides are free again, and the next statements work. And: a database with foreign objects is dumped, restored and cleaned out.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n";
my ($coord, $n1, $n2) = rdma_trio(conf => $conf);

foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 1000) g;
		CREATE UNLOGGED TABLE target (a bigint CHECK (a <> 3000000), b text);
		CREATE TABLE log (a bigint PRIMARY KEY, b text);
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');

my $check = 'SELECT count(*), sum(a) FROM n1.small WHERE length(b) + random() > 0';
my $expected = '1000|500500';
# a load that would take hours, and not stored first as a function in FROM would; the constraint ends a load that nothing else ended
my $load = "INSERT INTO n1.target SELECT g, repeat('x', 200) FROM (SELECT generate_series(1::bigint, 1000000000) AS g) s";
my $streaming = "SELECT coalesce(bool_or(bytes > 1000000), false) FROM rdma.stat_flows";
my $storing = "query LIKE 'INSERT INTO % FROM rdma_internal.receive()%' AND pid <> pg_backend_pid() AND state = 'active'";

sub victim_pid { return $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'"); }
sub storing_pid { return $n1->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $storing"); }

# Everything that must hold afterwards. The number of rows is asked on the data node itself.
sub nothing_remains
{
	my ($when) = @_;

	rdma_healthy($coord, $check, $expected, $when);
	ok(rdma_wait($n1, "SELECT count(*) = 0 FROM pg_stat_activity WHERE $storing", 60), "no INSERT is left on the data node $when");
	ok(rdma_wait($n1, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on the data node $when");
	is($n1->safe_psql('postgres', 'SELECT (SELECT count(*) FROM target), (SELECT count(*) FROM log)'), '0|0', "no row remains $when");
	$coord->safe_psql('postgres', "INSERT INTO n1.target SELECT g, 'after' FROM generate_series(1, 5000) g");
	is($n1->safe_psql('postgres', 'SELECT count(*), sum(a) FROM target'), '5000|12502500', "the next load works $when");
	$coord->safe_psql('postgres', 'TRUNCATE n1.target');
	return;
}

is($coord->safe_psql('postgres', $check), $expected, 'the cluster works before anything goes wrong');

# ---- the data node refuses a row in mid-stream
my $refused = $load =~ s/SELECT g,/SELECT CASE g WHEN 300000 THEN 3000000 ELSE g END,/r;
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\n$refused");
like($err, qr/23514.*violates check constraint.*DETAIL:.*3000000/s, 'a refused row: the error of the data node, with its detail');
nothing_remains('after a refused row');

# ---- the source fails in mid-stream
($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nINSERT INTO n1.target SELECT 1000 / (400000 - g), repeat('x', 200) FROM (SELECT generate_series(1, 1000000) AS g) s");
like($err, qr/22012.*division by zero/s, 'a source that fails: its own error');
nothing_remains('after a source that failed');

# ---- kinds of ends; each begins with another write of the same transaction, which must not remain either
my %ends = (
	'a cancel'                          => sub { $coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')'); },
	'the end of the writer'             => sub { $coord->safe_psql('postgres', 'SELECT pg_terminate_backend(' . victim_pid() . ')'); },
	'a kill -9 of the writer'           => sub { kill 'KILL', victim_pid(); },
	'the end of the remote session'     => sub { $n1->safe_psql('postgres', 'SELECT pg_terminate_backend(' . storing_pid() . ')'); },
	'a cancel of the remote session'    => sub { $n1->safe_psql('postgres', 'SELECT pg_cancel_backend(' . storing_pid() . ')'); },
	'a kill -9 of the remote session'   => sub { kill 'KILL', storing_pid(); },
	'a kill -9 of the data node engine' => sub { kill 'KILL', rdma_engine_pid($n1); },
	'a kill -9 of the own engine'       => sub { kill 'KILL', rdma_engine_pid($coord); },
	'the death of the data node'        => sub { $n1->stop('immediate'); $n1->start; });
my %errors = (
	'a cancel'                       => qr/57014/,
	'a cancel of the remote session' => qr/57014.*canceling statement/s);

foreach my $end (sort keys %ends)
{
	my $job = rdma_begin($coord, "SET application_name = 'victim'", "BEGIN; INSERT INTO n1.log VALUES (1, 'first'); $load; COMMIT");

	ok(rdma_wait($coord, $streaming, 60), "rows stream before $end");
	$ends{$end}->();
	ok(rdma_outcome($job), "the writer is told of $end");
	like($job->{err}, $errors{$end} // qr/ERROR|FATAL|server closed the connection|connection to server was lost/, "with an error after $end");
	nothing_remains("after $end");
}

# ---- rows that are written by ctid: a row that does not get on there, and a cancel here
$n1->safe_psql('postgres', q{
	CREATE TABLE wide AS SELECT g AS a, 'old' AS b FROM generate_series(1, 20000) g;
	CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 10000 THEN PERFORM pg_sleep(3600); END IF; RETURN NEW; END $$;
	CREATE TRIGGER stop BEFORE UPDATE ON wide FOR EACH ROW EXECUTE FUNCTION stop()});
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (wide) FROM SERVER n1 INTO n1');
my $update = "UPDATE n1.wide SET b = repeat('x', 1000) WHERE random() >= 0";
my $updating = rdma_begin($coord, "SET application_name = 'victim'", $update);
ok(rdma_wait($coord, $streaming, 60), 'new values stream');
ok(rdma_wait($n1, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 60), 'until one of them stops');
$ends{'a cancel'}->();
ok(rdma_outcome($updating), 'a cancel ends the UPDATE');
like($updating->{err}, qr/57014/, 'with an error that says so');
nothing_remains('after a cancelled UPDATE');
is($n1->safe_psql('postgres', q{SELECT count(*) FROM wide WHERE b = 'old'}), '20000', 'and every row is as it was');
$n1->safe_psql('postgres', 'DROP TRIGGER stop ON wide');
$coord->safe_psql('postgres', $update);
is($n1->safe_psql('postgres', q{SELECT count(*) FROM wide WHERE length(b) = 1000}), '20000', 'the next UPDATE works');

# ---- an idle transaction with a load finished: the data node goes away before COMMIT
my $job = rdma_begin($coord, "SET application_name = 'victim'", "BEGIN; INSERT INTO n1.target SELECT g, repeat('x', 200) FROM generate_series(1, 20000) g; SELECT pg_sleep(1); SELECT count(*) FROM n2.small; "
	. "INSERT INTO n2.log VALUES (1, 'other node'); SELECT pg_sleep(3600)", "COMMIT");
ok(rdma_wait($coord, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND query ~ '3600' AND wait_event = 'PgSleep'", 60),
	'a transaction holds rows on two nodes');
$n1->stop('immediate');
$n1->start;
$coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')');
ok(rdma_outcome($job), 'it ends');
nothing_remains('after a node that died in a transaction');
is($n2->safe_psql('postgres', 'SELECT count(*) FROM log'), '0', 'nor on the other node');

# ---- pg_dump and restore
$coord->safe_psql('postgres', "CREATE TABLE here AS SELECT 1 AS a; COMMENT ON SERVER n1 IS 'first node'; CREATE VIEW both_nodes AS SELECT a FROM n1.small UNION ALL SELECT a FROM n2.small");
# The server with nodes comes before those that it names, as pg_dump sorts by name.
$_->safe_psql('postgres', 'CREATE TABLE spread (a int, b text); CREATE TABLE copies (a int, b text)') foreach ($n1, $n2);
$coord->safe_psql('postgres', q{
	CREATE SERVER a_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE SCHEMA many; IMPORT FOREIGN SCHEMA public LIMIT TO (spread, copies) FROM SERVER a_many INTO many;
	ALTER FOREIGN TABLE many.spread OPTIONS (ADD distributed_by 'a');
	ALTER FOREIGN TABLE many.copies OPTIONS (ADD replicated 'true');
});
my $dump = $coord->basedir . '/dump.sql';
command_ok([ 'pg_dump', '-d', $coord->connstr('postgres'), '-f', $dump ], 'a database with servers, mappings and foreign tables is dumped');
$coord->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $coord->connstr('restored'), '-f', $dump ], 'and restored');
is($coord->safe_psql('restored', 'SELECT count(*), sum(a) FROM both_nodes'), '2000|1001000', 'foreign tables of the restored database work');
$coord->safe_psql('restored', "INSERT INTO n1.log VALUES (2, 'restored')");
$coord->safe_psql('restored', "INSERT INTO many.$_ SELECT g, 'restored' FROM generate_series(1, 100) g") foreach ('spread', 'copies');
is($coord->safe_psql('restored', q{SELECT count(*), sum(s.a) FROM many.spread s JOIN many.copies c USING (a)}), '100|5050', 'those of its server with nodes, too');
is($coord->safe_psql('restored', q{SELECT sum(rows), sum(misplaced) FROM rdma.check_distribution('many.spread')}), '100|0', 'with rows where they belong');
my $objects = q{SELECT (SELECT string_agg(srvname || ARRAY(SELECT unnest(srvoptions) ORDER BY 1)::text, ',' ORDER BY srvname) FROM pg_foreign_server),
	(SELECT string_agg(srvname || usename || ARRAY(SELECT unnest(umoptions) ORDER BY 1)::text, ',' ORDER BY srvname) FROM pg_user_mappings),
	(SELECT string_agg(ftrelid::regclass || ARRAY(SELECT unnest(ftoptions) ORDER BY 1)::text, ',' ORDER BY ftrelid::regclass::text) FROM pg_foreign_table)};
is($coord->safe_psql('restored', $objects), $coord->safe_psql('postgres', $objects), 'with the same options');

# ---- DROP EXTENSION leaves nothing
$coord->safe_psql('restored', 'SET client_min_messages = warning; DROP EXTENSION rdma_fdw CASCADE');
$n1->safe_psql('postgres', 'DROP EXTENSION rdma_fdw');
my $left = q{SELECT (SELECT count(*) FROM pg_foreign_server), (SELECT count(*) FROM pg_user_mappings), (SELECT count(*) FROM pg_foreign_table),
	(SELECT count(*) FROM pg_foreign_data_wrapper), (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rdma%'),
	(SELECT count(*) FROM pg_proc WHERE probin ~ 'rdma_fdw'), (SELECT count(*) FROM pg_depend d JOIN pg_class c ON c.oid = d.refobjid WHERE c.relkind = 'f')};
is($coord->safe_psql('restored', $left), '0|0|0|0|0|0|0', 'DROP EXTENSION ... CASCADE leaves nothing');
is($n1->safe_psql('postgres', $left), '0|0|0|0|0|0|0', 'nor does DROP EXTENSION on a data node, where nothing depends on it');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM small'), '1000', 'and its tables stay');

done_testing();
