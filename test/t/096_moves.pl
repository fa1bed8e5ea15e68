# Nodes come and go while rows are written and read: no client gets an error, sums are right all the time, and whatever is killed in
# the middle of a move, everything is right afterwards without anybody's help.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 2000;
my ($coord, $n1, $n2) = rdma_trio();
my $n3 = rdma_node('n3');
rdma_connect($coord, n3 => $n3);
$coord->safe_psql('postgres', qq{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE t (id int PRIMARY KEY, v bigint NOT NULL);
	INSERT INTO t SELECT i, i FROM generate_series(1, $rows) i;
	CREATE TABLE u AS SELECT i AS id, i % 10 AS x FROM generate_series(1, $rows) i;
	CREATE TABLE r AS SELECT i AS x, 'r' || i AS r FROM generate_series(0, 9) i;
	SELECT rdma.distribute_table('t', 'many', 'id'), rdma.distribute_table('u', 'many', 'id'), rdma.distribute_table('r', 'many', replicated => true);
	CREATE TABLE control (stop bool);
	CREATE TABLE done (client int, transactions int);
	INSERT INTO control VALUES (false);
});
my $sum = $rows * ($rows + 1) / 2;
my $right = "$rows|$sum";

# Each has rows of its own, as the second of two who update one row gets an error.
sub writer
{
	my ($client) = @_;

	return rdma_begin($coord, qq{DO \$\$
		DECLARE made int = 0; one int; other int;
		BEGIN
			WHILE NOT (SELECT stop FROM control) LOOP
				one := 2 * (1 + floor(random() * $rows / 2)::int) - $client;
				other := 2 * (1 + floor(random() * $rows / 2)::int) - $client;
				COMMIT;
				UPDATE t SET v = v + 1 WHERE id = one;
				IF NOT FOUND THEN RAISE EXCEPTION 'no row %', one; END IF;
				UPDATE t SET v = v - 1 WHERE id = other;
				IF NOT FOUND THEN RAISE EXCEPTION 'no row %', other; END IF;
				COMMIT;
				made := made + 1;
			END LOOP;
			INSERT INTO done VALUES ($client, made);
		END \$\$});
}

sub reader
{
	my ($client, $query, $wanted) = @_;

	return rdma_begin($coord, qq{DO \$\$
		DECLARE made int = 0; found text;
		BEGIN
			WHILE NOT (SELECT stop FROM control) LOOP
				COMMIT;
				found := ($query);
				IF found IS DISTINCT FROM '$wanted' THEN RAISE EXCEPTION 'found %', found; END IF;
				COMMIT;
				made := made + 1;
			END LOOP;
			INSERT INTO done VALUES ($client, made);
		END \$\$});
}

sub buckets_of
{
	my ($place) = @_;

	return $coord->safe_psql('postgres', "SELECT count(*) FROM unnest(rdma.buckets('many')) b WHERE b = $place");
}

sub all_right
{
	my ($when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(rdma_wait($coord, 'SELECT (SELECT count(*) FROM rdma.decisions) + (SELECT count(*) FROM rdma.transactions) = 0', 120), "nothing is in doubt $when");
	is($coord->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), $right, "all rows are there once $when");
	is($coord->safe_psql('postgres', "SELECT count(*), count(x.id) FROM generate_series(1, $rows) g LEFT JOIN LATERAL (SELECT id FROM t WHERE t.id = g OFFSET 0) x ON true"),
		"$rows|$rows", "and each is found $when");
	is($coord->safe_psql('postgres', 'SELECT count(*) FROM t JOIN u USING (id) JOIN r USING (x)'), $rows, "and joined $when");
	is($coord->safe_psql('postgres', q{SELECT sum(misplaced) FROM (SELECT misplaced FROM rdma.check_distribution('t') UNION ALL SELECT misplaced FROM rdma.check_distribution('u')) x}),
		'0', "and lies where it belongs $when");
	return;
}

# ---- under load
my @clients = (writer(0), writer(1), reader(2, "SELECT count(*) || '|' || sum(v) FROM t", $right),
	reader(3, 'SELECT count(*)::text FROM t JOIN u USING (id) JOIN r USING (x)', $rows));

# the copy of a replicated table takes long: only its writers wait
$n3->safe_psql('postgres', 'CREATE TABLE r (x int, r text)');
my $slow = $n3->background_psql('postgres');
$slow->query_safe('BEGIN; LOCK TABLE r IN SHARE MODE');
my $adding = rdma_begin($coord, q{SELECT rdma.add_node('many', 'n3')});
ok(rdma_wait($coord, q{SELECT phase = 'copying' AND relation = 'public.r' FROM rdma.stat_moves}, 60), 'a node is being added');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM t JOIN u USING (id) JOIN r USING (x)'), $rows, 'all tables can be read meanwhile');
is($coord->safe_psql('postgres', 'UPDATE u SET x = x WHERE id < 3 RETURNING 1'), "1\n1", 'distributed ones written');
like(($coord->psql('postgres', q{SET lock_timeout = '100ms'; UPDATE r SET r = r}))[2], qr/lock timeout/, 'and the replicated one is not');
$slow->quit;
ok(rdma_outcome($adding), 'the node is added') or diag($adding->{err});
$coord->safe_psql('postgres', q{CALL rdma.rebalance('many', rest => 0)});
is($coord->safe_psql('postgres', q{SELECT string_agg(c::text, ' ' ORDER BY b) FROM (SELECT b, count(*) AS c FROM unnest(rdma.buckets('many')) b GROUP BY b) x}),
	'280 280 280', 'each node has as many buckets as the others');
$coord->safe_psql('postgres', q{UPDATE control SET stop = true});
foreach my $i (0 .. $#clients)
{
	ok(rdma_outcome($clients[$i]), "client $i came to its end");
	is($clients[$i]{err}, '', 'without an error');
}
is($coord->safe_psql('postgres', 'SELECT count(*) FROM done WHERE transactions > 0'), '4', 'and did something');
all_right('with three nodes');

# ---- killed in the middle of draining n1, which goes on by itself when it is called again
my @faults = (
	[ 'the process that moves is killed', sub {
		my $pid = $coord->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'mover'});
		kill 'KILL', $pid;
	}, sub { } ],
	[ 'the new node is stopped', sub { $n3->stop('immediate') }, sub { $n3->start } ],
	[ 'the old node is stopped', sub { $n1->stop('immediate') }, sub { $n1->start } ],
	[ 'the coordinator is stopped', sub { $coord->stop('immediate') }, sub { $coord->start } ]);
foreach my $fault (@faults)
{
	my ($when, $strike, $mend) = @$fault;
	my $before = buckets_of(0);
	my $job = rdma_begin($coord, q{SET application_name = 'mover'}, q{CALL rdma.drain_node('many', 'n1', goal => 1, rest => 0)});

	ok(rdma_wait($coord, "SELECT count(*) < $before FROM unnest(rdma.buckets('many')) b WHERE b = 0", 120), "rows move before $when");
	$strike->();
	ok(rdma_outcome($job), "the call ends when $when");
	isnt($job->{err}, '', 'with an error');
	$mend->();
	ok(rdma_wait($coord, 'SELECT true', 120), 'the coordinator is there');
	all_right("after $when");
	cmp_ok(buckets_of(0), '>', 0, 'and there is more to move');
}

$coord->safe_psql('postgres', q{CALL rdma.drain_node('many', 'n1', rest => 0)});
is(buckets_of(0), '0', 'the node is empty in the end');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'really');
# ---- it is down when it is removed
$n1->stop('immediate');
my ($status, undef, $error) = $coord->psql('postgres', q{SELECT rdma.remove_node('many', 'n1')});
isnt($status, 0, 'a node that is down is not removed');
like($error, qr/could not connect to server "n1"/, 'with an error that says so');
$coord->psql('postgres', q{SELECT rdma.remove_node('many', 'n2', lost => true)}, stderr => \$error);
like($error, qr/has \d+ of \d+ buckets.*rdma\.replace_node/s, 'nor one with buckets that is said to be lost');
$coord->safe_psql('postgres', q{SELECT rdma.remove_node('many', 'n1', lost => true)});
is($coord->safe_psql('postgres', q{SELECT string_agg(node, ' ' ORDER BY node) FROM rdma.nodes('many')}), 'n2 n3', 'and no node any more');
all_right('without it');
# ---- what it believes does not matter when it comes back
$n1->start;
all_right('beside it');
$n1->safe_psql('postgres', 'DROP EXTENSION rdma_fdw CASCADE; CREATE EXTENSION rdma_fdw; DROP TABLE r, t, u');
$coord->safe_psql('postgres', $_) foreach (q{SELECT rdma.add_node('many', 'n1')}, q{CALL rdma.rebalance('many', rest => 0)});
cmp_ok(buckets_of(2), '>', 0, 'and it may be a node again when it has forgotten that');
all_right('with it');

done_testing();
