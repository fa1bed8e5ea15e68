# What was known of a server, a user mapping or a database that is gone keeps nobody waiting; and none of them goes while a
# transaction is to be finished with it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($n1, $n2) = map { rdma_node($_) } qw(n1 n2);
my $coord = rdma_node('coord', conf => "wal_level = replica\nmax_wal_senders = 2\nsynchronous_standby_names = 'nobody'\nsynchronous_commit = local\n");
$_->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw') foreach ($coord, $n1, $n2);
$_->safe_psql('postgres', 'CREATE TABLE t (k int)') foreach ($n1, $n2);

sub connect_nodes
{
	my ($database) = @_;

	foreach my $node ($n1, $n2)
	{
		my $name = $node->name;

		$coord->safe_psql($database, qq{
			CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '} . $node->port . qq{', dbname 'postgres');
			CREATE USER MAPPING FOR CURRENT_USER SERVER $name OPTIONS (user 'postgres');
			CREATE FOREIGN TABLE ${name}_t (k int) SERVER $name OPTIONS (schema_name 'public', table_name 't')});
	}
	return;
}

my $both = 'SELECT (SELECT count(*) FROM n1_t), (SELECT count(*) FROM n2_t)';

# ---- rows of finished transactions, which a crash keeps, when their server has been dropped
connect_nodes('postgres');
$coord->safe_psql('postgres', 'ALTER SYSTEM SET rdma_fdw.resolve = off; SELECT pg_reload_conf()');
ok(rdma_wait($coord, q{SELECT current_setting('rdma_fdw.resolve') = 'off'}), 'nobody removes rows now');
$coord->safe_psql('postgres', 'BEGIN; INSERT INTO n1_t VALUES (1); INSERT INTO n2_t VALUES (1); COMMIT');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM rdma.decisions'), 2, 'a finished transaction has rows yet');
$coord->safe_psql('postgres', 'DROP SERVER n1, n2 CASCADE');
$coord->stop('immediate');
$coord->start;
connect_nodes('postgres');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM rdma.decisions'), 2, 'the crash has kept them');
my ($status, $out, $err) = $coord->psql('postgres', "SET statement_timeout = '30s'; $both");
isnt($status, 0, 'what is not known to be finished is not read over');
$coord->safe_psql('postgres', 'ALTER SYSTEM RESET rdma_fdw.resolve; SELECT pg_reload_conf()');
ok(rdma_wait($coord, 'SELECT count(*) = 0 FROM rdma.decisions', 120), 'the resolver removes rows of servers that are gone');
is($coord->safe_psql('postgres', $both), '1|1', 'and nobody waits for them');

# ---- a database
$coord->safe_psql('postgres', 'CREATE DATABASE other');
$coord->safe_psql('other', 'CREATE EXTENSION rdma_fdw');
connect_nodes('other');
my $job = rdma_begin($coord, q{\c other}, "SET application_name = 'victim'", 'SET synchronous_commit = on',
	'BEGIN; INSERT INTO n1_t VALUES (2); INSERT INTO n2_t VALUES (2); COMMIT');
ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'SyncRep'}, 120), 'a transaction is decided');
$n2->stop('immediate');
$coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'});
rdma_outcome($job);
is($coord->safe_psql('other', 'SELECT server_name, decision FROM rdma.transactions WHERE gid IS NOT NULL'), 'n2|commit', 'and cannot be finished on n2');
($status, $out, $err) = $coord->psql('postgres', 'DROP DATABASE other');
like($err, qr/cannot drop the database while its transactions are to be finished.*rdma\.transactions.*rdma\.resolve/s, 'its database cannot be dropped');
is($coord->safe_psql('other', q{SELECT rdma.resolve('n2', true)}), 1, 'unless it is given up');
ok(rdma_wait($coord, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'other'}, 120), 'nobody is in it');
is(($coord->psql('postgres', 'DROP DATABASE other'))[0], 0, 'then it can');
$n2->start;
is($coord->safe_psql('postgres', $both), '2|1', 'others read the nodes');
is($n2->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'what was given up is still prepared');

done_testing();
