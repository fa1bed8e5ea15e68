# Rows that a data node makes slowly do not wait for a full batch: a reader that wants a few has them long before one is full.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1) = (rdma_node('coord'), rdma_node('n1'));

# A batch would be full after thousands of these, that is after minutes; random() keeps the LIMIT here.
$n1->safe_psql('postgres', q{
	CREATE VIEW trickle AS SELECT a, pg_sleep(0.05)::text AS p FROM (SELECT generate_series(1, 1000000) AS a) s;
	CREATE VIEW seldom AS SELECT a, pg_sleep(0.5)::text AS p FROM (SELECT generate_series(1, 1000000) AS a) s;
	CREATE TABLE t AS SELECT generate_series(1, 1000000) AS a;
	CREATE VIEW sieve AS SELECT a FROM t WHERE a <= 3 OR pg_sleep(0.01) IS NULL;
	CREATE VIEW small AS SELECT a FROM t WHERE a <= 10;
});
rdma_connect($coord, n1 => $n1);
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO public');

my $few = "SELECT string_agg(a::text, ' ') FROM (SELECT a FROM %s WHERE a + random() > 0 LIMIT 3) s";
foreach my $case ([ trickle => 'rows 50 ms apart' ], [ seldom => 'rows half a second apart' ], [ sieve => 'rows behind which a filter lets nothing through' ])
{
	foreach my $inline (64, 0)
	{
		my ($status, $out, $err) = $coord->psql('postgres',
			"SET rdma_fdw.inline_limit = '${inline}kB'; SET statement_timeout = '60s';" . sprintf($few, $case->[0]));

		is($status == 0 ? $out : $err, '1 2 3', "$case->[1], inline_limit $inline kB");
	}
}
rdma_healthy($coord, 'SELECT count(*) FROM small', '10', 'after readers left early');
ok(rdma_wait($n1, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'and none on the data node');

# Many rows, with the flag set again and again: all of them arrive.
$n1->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.flush_time = '1ms'");
$n1->safe_psql('postgres', 'SELECT pg_reload_conf()');
is($coord->safe_psql('postgres', 'SELECT count(*), sum(a) FROM (SELECT * FROM t OFFSET 0) s'), '1000000|500000500000', 'a flush every millisecond loses nothing');
is($coord->safe_psql('postgres', 'SELECT count(*), sum(a) FROM (SELECT * FROM t WHERE a % 2 = 0 OFFSET 0) s'), '500000|250000500000', 'nor with a filter');
done_testing();
