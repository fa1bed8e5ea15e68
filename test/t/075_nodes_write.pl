# Bad days of a load into a table of a server with nodes: what goes wrong on one node undoes the load on all of them, frees all
# of them, and the next load works.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n");

foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 1000) g;
		CREATE UNLOGGED TABLE target (a bigint, b text, CHECK (a > 0));
		CREATE UNLOGGED TABLE copies (a bigint, b text);
	});
}
$coord->safe_psql('postgres', q{
	CREATE SCHEMA n1; IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO n1;
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE SCHEMA many; IMPORT FOREIGN SCHEMA public FROM SERVER many INTO many;
	ALTER FOREIGN TABLE many.target OPTIONS (ADD distributed_by 'a');
	ALTER FOREIGN TABLE many.copies OPTIONS (ADD replicated 'true');
});

my $check = 'SELECT count(*), sum(a) FROM n1.small WHERE length(b) + random() > 0';
my $expected = '1000|500500';
my $rows = "SELECT g, repeat('x', 200) FROM (SELECT generate_series(1::bigint, 1000000000) AS g) s";
my $storing = "query LIKE 'INSERT INTO % FROM rdma_internal.receive()%' AND pid <> pg_backend_pid() AND state = 'active'";
my $streaming = 'SELECT count(*) = 2 FROM rdma.stat_flows WHERE bytes > 1000000';

sub victim_pid { return $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'"); }
sub storing_pid { return $n2->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $storing"); }

sub nothing_remains
{
	my ($when) = @_;

	rdma_healthy($coord, $check, $expected, $when);
	foreach my $node ($n1, $n2)
	{
		my $name = $node->name;
		ok(rdma_wait($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE $storing", 60), "no INSERT is left on $name $when");
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
		is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM target), (SELECT count(*) FROM copies)'), '0|0', "no row remains on $name $when");
	}
	$coord->safe_psql('postgres', "INSERT INTO many.$_ SELECT g, 'after' FROM generate_series(1, 5000) g") foreach ('target', 'copies');
	is($coord->safe_psql('postgres', 'SELECT sum(rows), sum(misplaced) FROM rdma.check_distribution($$many.target$$)'), '5000|0', "the next load works $when");
	is($coord->safe_psql('postgres', 'SELECT sum(rows), bool_or(differs) FROM rdma.check_distribution($$many.copies$$)'), '10000|f', "and fills all copies $when");
	$coord->safe_psql('postgres', 'TRUNCATE many.target, many.copies');
	return;
}

my %ends = (
	'a cancel'                          => sub { $coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')'); },
	'a kill -9 of the writer'           => sub { kill 'KILL', victim_pid(); },
	'the end of one remote session'     => sub { $n2->safe_psql('postgres', 'SELECT pg_terminate_backend(' . storing_pid() . ')'); },
	'a kill -9 of one data node engine' => sub { kill 'KILL', rdma_engine_pid($n2); },
	'the death of one data node'        => sub { $n2->stop('immediate'); $n2->start; });
my %errors = ('a cancel' => qr/57014/);

# a row that one node refuses
my $refused = $rows =~ s/SELECT g,/SELECT CASE g WHEN 300000 THEN -3000000 ELSE g END,/r;
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nINSERT INTO many.target $refused");
like($err, qr/23514.*violates check constraint.*DETAIL:.*-3000000/s, 'a refused row: the error of the data node, with its detail');
nothing_remains('after a refused row');

foreach my $end (sort keys %ends)
{
	foreach my $table ('target', 'copies')
	{
		my $job = rdma_begin($coord, "SET application_name = 'victim'", "INSERT INTO many.$table $rows");

		ok(rdma_wait($coord, $streaming, 60), "rows stream to both nodes' $table before $end");
		$ends{$end}->();
		ok(rdma_outcome($job), "the writer of $table is told of $end");
		like($job->{err}, $errors{$end} // qr/ERROR|FATAL|server closed the connection|connection to server was lost/, "with an error after $end");
		nothing_remains("after $end ($table)");
	}
}

done_testing();
