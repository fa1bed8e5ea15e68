# A statement over several nodes uses no row before each node has rows, or has ended, since until then it can begin again where one
# finds no buffers. Here a node cannot have any before another one's rows were taken, which sends them while it reads the exchange
# that the first one waits for.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "jit = off\n");
$coord->append_conf('postgresql.conf', "rdma_fdw.buffer_memory = '4MB'\nrdma_fdw.buffer_wait = '5s'\n"
		. "rdma_fdw.exchange_strategy = repartition_one\n");
$coord->restart;

# A hash join by k takes the rows of `big` as they come, and passes them on in that order: that sort is by a value that nodes know.
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE big (id int, k int, pad text);
		CREATE TABLE small (k int, v int);
		CREATE VIEW constant AS SELECT k, 7 AS v FROM small;
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE big (id int, k int, pad text) SERVER pair OPTIONS (distributed_by 'id');
	CREATE FOREIGN TABLE small (k int, v int) SERVER pair OPTIONS (distributed_by 'k');
	CREATE FOREIGN TABLE constant (k int, v int) SERVER pair OPTIONS (distributed_by 'k');
	INSERT INTO small SELECT i, i FROM generate_series(1, 20) i;
});
my %key = map { $_->name => $_->safe_psql('postgres', 'ANALYZE small; SELECT min(k) FROM small') } ($n1, $n2);
# What n1 joins, much more than fits the buffers, then what n2 does, and then more for n1.
$coord->safe_psql('postgres', qq{
	INSERT INTO big SELECT i, CASE WHEN i BETWEEN 10001 AND 10100 THEN $key{n2} ELSE $key{n1} END, repeat('x', 500)
	FROM generate_series(1, 20100) i});
my $any = 'SELECT id, pad, v FROM big JOIN small USING (k)';
my $merged = 'SELECT id, pad, v FROM big JOIN constant USING (k) ORDER BY v';
my $right = '20100|20100|10050000';

# What comes of the query, with its plan that must be like that.
sub rows_of
{
	my ($query, $plan, $what, @settings) = @_;
	my $explain = $coord->safe_psql('postgres', join('', @settings, "EXPLAIN (VERBOSE, COSTS OFF) $query"));

	like($explain, $plan, "$what: the plan");
	return rdma_begin($coord, "SET statement_timeout = '3min'", @settings, "CREATE TEMP TABLE t AS $query",
		'SELECT count(*), count(DISTINCT id), sum(length(pad)) FROM t');
}

sub is_right
{
	my ($job, $what) = @_;

	ok(rdma_outcome($job), "$what: it ends");
	is($job->{out}, "$right\n", "$what: the rows") or diag($job->{err});
	foreach my $node ($coord, $n1, $n2)
	{
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "$what: no flow is left on " . $node->name);
	}
	return;
}

my @small = ("SET rdma_fdw.receive_buffers = 2;", "SET rdma_fdw.receive_buffer_size = '8kB';");
my $one_exchange = qr/^Foreign Scan(?!.*Exchange 2).*Exchange 1: repartition 2:2 on k/s;
is_right(rows_of($any, $one_exchange, 'any order', @small), 'any order');
is_right(rows_of($any, $one_exchange, 'on disk', @small, "SET work_mem = '64kB';"), 'on disk');
is_right(rows_of($merged, qr/$one_exchange.*ORDER BY \S+\.v/s, 'merged', @small, 'SET enable_sort = off;'), 'merged');
# Rows that were stored are being read when another query needs the sessions, so that the others are stored behind them.
foreach my $work_mem ('64kB', '64MB')
{
	is($coord->safe_psql('postgres', join('', @small, qq{
		SET rdma_fdw.inline_limit = 0;
		SET work_mem = '$work_mem';
		CREATE TEMP TABLE t (id int, length int);
		DO \$\$
		DECLARE r record; n int := 0;
		BEGIN
			FOR r IN $any LOOP
				n := n + 1;
				IF n = 5000 THEN
					PERFORM FROM small;
				END IF;
				INSERT INTO t VALUES (r.id, length(r.pad));
			END LOOP;
		END\$\$;
		SELECT count(*), count(DISTINCT id), sum(length) FROM t})), $right, "rows behind those that were stored, work_mem $work_mem");
}

# In a transaction that has begun the statement could not begin again, and rows are used at once.
is_right(rows_of($merged, qr/ORDER BY/, 'merged in a transaction', @small, 'SET enable_sort = off;', 'BEGIN;', 'DO $$BEGIN PERFORM FROM small; END$$;'),
	'merged in a transaction');

# n1's rows are here and n2, at last, finds no buffers: another session has them.
$n1->safe_psql('postgres', "CREATE TABLE many AS SELECT repeat('x', 1000) AS pad FROM generate_series(1, 10000)");
$coord->safe_psql('postgres', 'CREATE FOREIGN TABLE many (pad text) SERVER n1');
foreach ([ 'any order', $any, $one_exchange ], [ 'merged', $merged, qr/ORDER BY/ ])
{
	my ($order, $query, $plan) = @$_;
	my $what = "no buffers, $order";
	my $other = rdma_begin($coord, "SET application_name = 'other'", "SET rdma_fdw.receive_buffer_size = '256kB'",
		'SET rdma_fdw.receive_buffers = 7', 'BEGIN', 'DECLARE c CURSOR FOR SELECT * FROM many', 'FETCH 1 FROM c', 'SELECT pg_sleep(3600)');
	ok(rdma_wait($coord, "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'other' AND wait_event = 'PgSleep'"),
		"$what: another session reads");
	my $waits = $coord->safe_psql('postgres', 'SELECT buffer_waits FROM rdma.stat_engine');
	my $job = rows_of($query, $plan, $what, 'SET rdma_fdw.receive_buffers = 2;', "SET rdma_fdw.receive_buffer_size = '256kB';",
		'SET rdma_fdw.inline_limit = 0;', 'SET enable_sort = off;');
	ok(rdma_wait($coord, "SELECT buffer_waits >= $waits + 2 FROM rdma.stat_engine"), "$what: it tries again");
	$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'other'");
	rdma_outcome($other);
	is_right($job, $what);
}
done_testing();
