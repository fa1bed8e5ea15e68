# What the administrator of a data node sees of statements that it runs for others: the statement itself, while it runs and in the
# statistics of statements.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $coord = rdma_node('coord');
my $n1 = rdma_node('n1');
my $counts = $n1->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'});
if ($counts)
{
	$n1->append_conf('postgresql.conf', "shared_preload_libraries = 'rdma_fdw, pg_stat_statements'\npg_stat_statements.track = 'all'\ncompute_query_id = on\n");
	$n1->restart;
	$n1->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
}
rdma_connect($coord, n1 => $n1);
$n1->safe_psql('postgres', 'CREATE TABLE seen AS SELECT g AS a, repeat($$x$$, 1000) AS b FROM generate_series(1, 60000) g');
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (seen) FROM SERVER n1 INTO public');

# A reader that stops in the middle of its rows
my $reader = $coord->background_psql('postgres');
$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM seen; MOVE 1 FROM c');
ok($n1->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT a, b FROM public.seen'}),
	'pg_stat_activity shows the statement of a stream')
	or diag($n1->safe_psql('postgres', 'SELECT state, query FROM pg_stat_activity WHERE pid <> pg_backend_pid()'));
$reader->query_safe('COMMIT');
$reader->quit;

SKIP:
{
	skip 'pg_stat_statements is not installed', 2 unless $counts;
	is($coord->safe_psql('postgres', 'SELECT count(b) FROM (SELECT b FROM seen WHERE a < 50001 OFFSET 0) s'), '50000', 'a second statement');
	is($n1->safe_psql('postgres', q{SELECT query, calls, rows FROM pg_stat_statements WHERE query LIKE 'SELECT b FROM public.seen%'}),
		'SELECT b FROM public.seen WHERE (a < $1)|1|50000', 'pg_stat_statements counts it as itself');
}
$n1->stop;
$coord->stop;
done_testing();
