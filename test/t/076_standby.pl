# A hot standby as a data node: reads work, writes are refused with the standby's own SQLSTATE, a recovery conflict
# is an error and never a part of a result, and a promotion is nothing that a connected reader notices.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $coord = rdma_node('coord');
my $primary = rdma_node('primary', conf => "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nautovacuum = off\n");

$primary->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE wide AS SELECT g AS a, g % 10 AS b, repeat('x', 200) AS c FROM generate_series(1, 200000) g;
	CREATE TABLE small AS SELECT g AS b, 'name ' || g AS name FROM generate_series(0, 9) g;
	CREATE TABLE log (a int PRIMARY KEY, b text);
	INSERT INTO log VALUES (1, 'first');
	ANALYZE;
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
# a conflict is not waited for
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0\nmax_standby_archive_delay = 0\n");
$standby->start;

my $port = $standby->port;
$coord->safe_psql('postgres', qq{
	CREATE EXTENSION rdma_fdw;
	CREATE SERVER s FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres');
	CREATE USER MAPPING FOR postgres SERVER s OPTIONS (user 'postgres');
	CREATE SCHEMA s;
	IMPORT FOREIGN SCHEMA public FROM SERVER s INTO s;
	CREATE TABLE go (step int);
});
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'the data node is a standby');

# ---- what reads
my $all = 'SELECT count(*), sum(a), min(length(c)) FROM s.wide WHERE random() >= 0';
my $expected = '200000|20000100000|200';
is($coord->safe_psql('postgres', $all), $expected, 'a scan that streams');
is($coord->safe_psql('postgres', "SELECT name FROM s.small WHERE b = 3"), 'name 3', 'a scan of few rows');
is($coord->safe_psql('postgres', 'SELECT b, count(*) FROM s.wide WHERE b < 2 GROUP BY b ORDER BY b'), "0|20000\n1|20000", 'an aggregate over there');
is($coord->safe_psql('postgres', 'SELECT name, count(*) FROM s.wide JOIN s.small USING (b) WHERE b = 7 GROUP BY name'), 'name 7|20000', 'a join over there');
is($coord->safe_psql('postgres', 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM s.wide; COMMIT'), '200000', 'in REPEATABLE READ, READ ONLY');
is($coord->safe_psql('postgres', 'BEGIN; SAVEPOINT a; SELECT count(*) FROM s.small; ROLLBACK TO a; SELECT count(*) FROM s.wide; COMMIT'), "10\n200000", 'with savepoints');
is($coord->safe_psql('postgres', "ANALYZE s.wide; SELECT count(*) FROM pg_stats WHERE schemaname = 's' AND tablename = 'wide'"), '3', 'ANALYZE');
is($coord->safe_psql('postgres', "ALTER SERVER s OPTIONS (ADD use_remote_estimate 'true'); $all; ALTER SERVER s OPTIONS (DROP use_remote_estimate)"), $expected, 'use_remote_estimate');
is($coord->safe_psql('postgres', "SELECT count(*) FROM rdma.\"check\"('s') WHERE status = 'problem'"), '0', 'rdma.check finds nothing wrong');
is($coord->safe_psql('postgres', "SELECT batches > 0 FROM rdma.bench('s', 1000000)"), 't', 'rdma.bench');
$primary->safe_psql('postgres', "INSERT INTO log VALUES (2, 'later')");
$primary->wait_for_catchup($standby);
is($coord->safe_psql('postgres', 'SELECT count(*) FROM s.log'), '2', 'what was replayed is seen');

# ---- what a standby refuses
sub refused
{
	my ($what, $sql, $error) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	isnt($status, 0, "$what fails");
	like($err, $error, "$what: the standby's error");
	return;
}

refused('SERIALIZABLE', 'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM s.small; COMMIT',
	qr/0A000: cannot use serializable mode in a hot standby.*HINT:.*REPEATABLE READ/s);
my $read_only = qr/25006: cannot execute .* in a read-only transaction/;
refused('INSERT of a row', "INSERT INTO s.log VALUES (3, 'no')", $read_only);
refused('INSERT of many rows', "INSERT INTO s.log SELECT g, 'no' FROM generate_series(10, 20000) g", $read_only);
refused('COPY', "COPY s.log FROM stdin;\n4\tno\n\\.\n", $read_only);
refused('INSERT with RETURNING', "INSERT INTO s.log VALUES (3, 'no') RETURNING a", $read_only);
refused('UPDATE over there', "UPDATE s.log SET b = 'no'", $read_only);
refused('UPDATE row by row', "UPDATE s.log SET b = 'no' WHERE random() >= 0", $read_only);
refused('DELETE', 'DELETE FROM s.log', $read_only);
refused('TRUNCATE', 'TRUNCATE s.log', $read_only);
refused('SELECT FOR UPDATE', 'SELECT * FROM s.log FOR UPDATE', $read_only);
rdma_healthy($coord, $all, $expected, 'after what was refused');

# ---- a session that another one goes on with: it waits for a row in "go"
sub background
{
	my (@sql) = @_;
	my %job = (out => '', err => '');

	$job{run} = start([ 'psql', '-X', '-A', '-t', '-q', '-v', 'VERBOSITY=verbose', '-v', 'ON_ERROR_STOP=1', '-d', $coord->connstr('postgres'),
			map { ('-c', $_) } "SET application_name = 'victim'", @sql ], '<', '/dev/null', '>', \$job{out}, '2>', \$job{err});
	return \%job;
}

sub waiting_sql
{
	my ($step) = @_;

	return "DO \$\$ BEGIN FOR i IN 1 .. 1200 LOOP EXIT WHEN EXISTS (SELECT FROM go WHERE step = $step); PERFORM pg_sleep(0.05); END LOOP; END \$\$";
}

sub waits
{
	my ($step) = @_;

	return rdma_wait($coord, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND query ~ 'FROM go WHERE step = $step\\M' AND state = 'active'", 60);
}

# Dead rows that its snapshot still sees are gone on the primary, so the standby ends sessions that need them.
sub conflict
{
	my ($low, $high) = @_;

	$primary->safe_psql('postgres', "DELETE FROM wide WHERE a BETWEEN $low AND $high");
	$primary->safe_psql('postgres', 'VACUUM wide');
	$primary->wait_for_catchup($standby);
	return;
}

# in the middle of a stream: no buffer of the reader's is free, so the sender waits
my $job = background('BEGIN', 'DECLARE c CURSOR FOR SELECT a, c FROM s.wide WHERE random() >= 0', 'FETCH 1 FROM c', waiting_sql(1), 'MOVE ALL FROM c', "SELECT 'complete'");
ok(waits(1), 'a stream stands still');
conflict(1, 1000);
$coord->safe_psql('postgres', 'INSERT INTO go VALUES (1)');
ok(rdma_outcome($job), 'its reader is told of the conflict');
like($job->{err}, qr/ERROR:  40001: .*conflict with recovery/, 'with the error of the standby');
unlike($job->{out}, qr/complete/, 'and gets nothing that looks complete');
rdma_healthy($coord, $all, '199000|19999599500|200', 'after a conflict in a stream');

# between two statements: the standby ends the session
$job = background('BEGIN', 'SELECT count(*) FROM s.wide', waiting_sql(2), 'SELECT count(*) FROM s.wide', "SELECT 'complete'");
ok(waits(2), 'a transaction stands still');
conflict(1001, 2000);
$coord->safe_psql('postgres', 'INSERT INTO go VALUES (2)');
ok(rdma_outcome($job), 'it is told of the conflict');
like($job->{err}, qr/ERROR:  (40001|08006|08003|57P01)/, 'with an error');
is($job->{out}, "199000\n", 'and no second count');
$expected = '198000|19998099000|200';
rdma_healthy($coord, $all, $expected, 'after a conflict in a transaction');

# ---- promotion
$job = background('BEGIN', 'SELECT count(*) FROM s.wide', waiting_sql(3), 'SELECT count(*) FROM s.wide', 'COMMIT', "INSERT INTO s.log SELECT g, 'promoted' FROM generate_series(3, 5000) g",
	"UPDATE s.log SET b = 'changed' WHERE a = 1", 'SELECT count(*), min(b) FROM s.log', 'SELECT count(*) FROM rdma.connections', 'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM s.small; COMMIT');
ok(waits(3), 'a transaction reads from the standby');
$standby->promote;
ok(rdma_wait($standby, 'SELECT NOT pg_is_in_recovery()', 60), 'which is promoted');
$coord->safe_psql('postgres', 'INSERT INTO go VALUES (3)');
ok(rdma_outcome($job), 'the session goes on');
is($job->{err}, '', 'without an error');
is($job->{out}, "198000\n198000\n5000|changed\n1\n10\n", 'reads on, and writes in its next transaction');
rdma_healthy($coord, $all, $expected, 'after the promotion');

$_->stop foreach ($coord, $standby, $primary);
done_testing();
