# Plans of data nodes: a session that runs a long statement again and again gets one for its values each time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $n1 = rdma_node('n1', conf => "session_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\nauto_explain.log_nested_statements = on\n");
my $coord = rdma_node('coord');

$n1->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE t AS SELECT g AS a, repeat('x', 10) AS b FROM generate_series(1, 60000) g;
	CREATE INDEX ON t (a);
	ANALYZE t;
});
$coord->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
rdma_connect($coord, n1 => $n1);
$coord->safe_psql('postgres', q{
	CREATE FOREIGN TABLE t (a int, b text) SERVER n1;
	ANALYZE t;
	CREATE TABLE many AS SELECT g AS a FROM generate_series(1, 20000) g;
	CREATE TABLE one AS SELECT 77 AS a;
});

# The last plan that n1 used when one session ran the statement ten times; the answers have to be the same each time.
sub last_plan
{
	my ($sql, $answer) = @_;
	my $from = -s $n1->logfile;

	is($coord->safe_psql('postgres', "$sql;" x 10), join("\n", ($answer) x 10), "ten times: $sql");
	my @plans = split /Query Text: /, slurp_file($n1->logfile, $from);
	return (grep { /^SELECT [^\n]* FROM public\.t / } @plans)[-1];
}
my $array = 'SELECT count(b) FROM t WHERE a = ANY ((SELECT array_agg(a) FROM many)::int[])';

like(last_plan($array, 20000), qr/Filter: \(a = ANY \('\{1,2,/, 'an array that is longer than usual gets plans for its length');
like(last_plan('SELECT count(b) FROM t WHERE a % 2 = (SELECT a - 77 FROM one)', 30000), qr/Filter: \(\(a % 2\) = 0\)/, 'so does what takes long, even if the plan would be the same');
like(last_plan('SELECT b FROM t WHERE a = (SELECT a FROM one)', 'x' x 10), qr/Index Cond: \(a = \$1/, 'a look-up gets one plan for all values');
$n1->safe_psql('postgres', "ALTER DATABASE postgres SET plan_cache_mode = force_generic_plan");
like(last_plan($array, 20000), qr/Index Cond: \(a = ANY \(\$1/, 'unless the node is told otherwise');
done_testing();
