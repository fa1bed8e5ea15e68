# A node that cannot be connected when a statement begins, and can be a moment later, is down for that statement: it fails if it needs the
# node. It found the node as of then, beside others as of before. Statements that begin later can use the node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();
my $proxy = Proxy->start({ n2 => $n2->port });

# away leads to n2 by the proxy
rdma_connect($coord, away => $n2);
$coord->safe_psql('postgres', "ALTER SERVER away OPTIONS (SET port '" . $proxy->port('n2') . "')");
$_->safe_psql('postgres', 'CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 9) g') foreach ($n1, $n2);
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach qw(n1 n2 away);
my $move = 'BEGIN; UPDATE n1.t SET v = v + 1 WHERE k = 1; UPDATE n2.t SET v = v + 1 WHERE k = 1; COMMIT';

# Reads n1, waits for the lock, and reads n2.
my $reads = q{SELECT (SELECT v FROM n1.t WHERE k = 1), (SELECT pg_advisory_xact_lock_shared(1) IS NULL), (SELECT v FROM away.t WHERE k = 1)};

sub reader
{
	my ($begin, $sql) = @_;
	my $holder = $coord->background_psql('postgres');

	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$proxy->tell('n2', 'refuse');
	my $job = rdma_begin($coord, "$begin $sql");
	ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 120), 'n1 was read, and n2 cannot be connected');
	$coord->safe_psql('postgres', $move);
	$proxy->tell('n2', 'pass');
	$holder->quit;
	ok(rdma_outcome($job), 'now it can');
	return $job;
}

my $job = reader('', $reads);
is($job->{out}, '', 'no row of two moments');
like($job->{err}, qr/08001: could not connect to server "away"/, 'but the error of the attempt to connect');
$job = reader('BEGIN ISOLATION LEVEL REPEATABLE READ;', "$reads; COMMIT");
like($job->{err}, qr/08001: could not connect to server "away"/, 'as in REPEATABLE READ');
$job = reader('', $reads =~ s/\(SELECT v FROM away.t WHERE k = 1\)$/CASE WHEN random() < 0 THEN (SELECT v FROM away.t WHERE k = 1) END/r);
is($job->{out}, "2|f|\n", 'a node that is not needed is in nobody\'s way') or diag($job->{err});
$job = reader('BEGIN;', $reads =~ s/\(SELECT v FROM away.t WHERE k = 1\)$/CASE WHEN random() < 0 THEN (SELECT v FROM away.t WHERE k = 1) END/r . '; SELECT v FROM away.t WHERE k = 1; SELECT v FROM n1.t WHERE k = 1; COMMIT');
is($job->{out}, "3|f|\n4\n4\n", 'the next statement of the transaction can use it') or diag($job->{err});
is($coord->safe_psql('postgres', $reads), '4|f|4', 'and the next one reads both');

# From REPEATABLE READ on the later statement needs a snapshot that is one with the transaction's: there is none once something has committed.
my $needless = $reads =~ s/\(SELECT v FROM away.t WHERE k = 1\)$/CASE WHEN random() < 0 THEN (SELECT v FROM away.t WHERE k = 1) END/r;
$job = reader('BEGIN ISOLATION LEVEL REPEATABLE READ;', "$needless; SELECT v FROM away.t WHERE k = 1; COMMIT");
is($job->{out}, "4|f|\n", 'a node that is not needed is in nobody\'s way in REPEATABLE READ either');
like($job->{err}, qr/40001: could not take one snapshot of several nodes.*Transactions have committed/s, 'and another statement cannot have it in that transaction');
is($coord->safe_psql('postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; $reads; SELECT v FROM away.t WHERE k = 1; COMMIT"), "5|f|5\n5", 'but in the next one');

# A statement within the statement begins later than that one.
$coord->safe_psql('postgres', q{CREATE FUNCTION away_now() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT v FROM away.t WHERE k = 1); END'});
$job = reader('', $needless =~ s/^SELECT/SELECT 1,/r =~ s/CASE WHEN/away_now(), CASE WHEN/r);
is($job->{out}, "1|5|f|6|\n", 'a statement that a function runs can use the node') or diag($job->{err});
$job = reader('', $reads =~ s/\), \(SELECT v FROM away/), away_now(), (SELECT v FROM away/r);
like($job->{err}, qr/08001: could not connect to server "away"/, 'which is still down for the one that calls it');
$proxy->end;
done_testing();
