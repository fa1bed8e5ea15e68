# Several coordinators over the same nodes: whoever reads several nodes sees each transaction of the others on all of them or on none.
# A commit is held between its nodes as in 094_snapshot.pl: a synchronous standby that does not exist holds it after its flush, and a
# proxy what is then said to one node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($n1, $n2) = map { rdma_node($_) } qw(n1 n2);
my $here = rdma_node('here');
my $other = rdma_node('other', conf => "wal_level = replica\nmax_wal_senders = 2\nsynchronous_standby_names = 'nobody'\nsynchronous_commit = local\n");
my $proxy = Proxy->start({ n2 => $n2->port });

foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', 'CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT g, 100 FROM generate_series(1, 20) g');
}
rdma_connect($_, n1 => $n1, n2 => $n2) foreach ($here, $other);
$other->safe_psql('postgres', "ALTER SERVER n2 OPTIONS (SET port '" . $proxy->port('n2') . "')");
foreach my $coord ($here, $other)
{
	$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_; ANALYZE $_.t") foreach qw(n1 n2);
}

my $sum = 'SELECT (SELECT sum(v) FROM n1.t) + (SELECT sum(v) FROM n2.t)';
my $both = 'SELECT (SELECT v FROM n1.t WHERE k = 1), (SELECT v FROM n2.t WHERE k = 1)';
my $move = 'BEGIN; UPDATE n1.t SET v = v - 1 WHERE k = 1; UPDATE n2.t SET v = v + 1 WHERE k = 1; COMMIT';

sub now { return $here->safe_psql('postgres', $both); }
sub renewed { return $here->safe_psql('postgres', 'SELECT snapshots_renewed FROM rdma.stat_gate'); }

# The transaction has committed on n1 and is prepared on n2.
my $held;
sub hold_half
{
	$held = rdma_begin($other, "SET application_name = 'victim'", "SET synchronous_commit = on; $move");
	ok(rdma_wait($other, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'SyncRep'}, 120),
		'a commit of another coordinator is held after its flush');
	my $v = now();
	is($here->safe_psql('postgres', $_), $v, "prepared on both it shows on neither: $_") foreach ($both,
		"BEGIN ISOLATION LEVEL REPEATABLE READ; $both; COMMIT");

	# nodes that begin later, for commands of each kind
	my ($one, $two) = split(/\|/, $v);
	my $first = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM n2.t WHERE k = 1';
	is($here->safe_psql('postgres', "$first; $_; COMMIT"), $two, "also for who goes on with: $_") foreach (
		'INSERT INTO n1.t SELECT g, 0 FROM generate_series(31, 3000) g', 'INSERT INTO n1.t VALUES (21, 0), (22, 0)', 'UPDATE n1.t SET v = v WHERE k = 3',
		'DELETE FROM n1.t WHERE k > 20 AND random() >= 0', 'UPDATE n1.t SET v = v WHERE k = 3 AND random() >= 0', 'SELECT FROM n1.t WHERE k < 0');
	$proxy->tell('n2', 'stall');
	$other->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'});
	ok(rdma_wait($n1, "SELECT count(*) = 0 FROM pg_prepared_xacts", 120), 'it has committed on one node');
	is($n2->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'and not on the other');
	return $v;
}

# The proxy lets go, and the coordinator finishes it.
sub let_go
{
	$proxy->tell('n2', 'cut');
	rdma_outcome($held);
	ok(rdma_wait($other, 'SELECT count(*) = 0 FROM rdma.transactions', 120), 'it is finished');
}

sub after { my ($a, $b) = split(/\|/, $_[0]); return ($a - 1) . '|' . ($b + 1); }

# ---- who reads both waits, in both levels
foreach my $read ($both, "BEGIN ISOLATION LEVEL REPEATABLE READ; $both; COMMIT",
	"BEGIN; UPDATE n1.t SET v = v WHERE k = 7; $both; COMMIT")
{
	my $v = hold_half();
	my $renewed = renewed();
	my $reader = rdma_begin($here, $read);
	ok(rdma_wait($here, "SELECT snapshots_renewed > $renewed + 3 FROM rdma.stat_gate", 120), "takes new snapshots: $read");
	is($here->safe_psql('postgres', 'SELECT v FROM n1.t WHERE k = 1') . '|' . $here->safe_psql('postgres', 'SELECT v FROM n2.t WHERE k = 1'),
		(split(/\|/, after($v)))[0] . '|' . (split(/\|/, $v))[1], 'who reads one node does not wait');
	let_go();
	ok(rdma_outcome($reader), 'it goes on');
	is($reader->{err} . $reader->{out}, after($v) . "\n", 'and sees it on both');
}

# ---- a transaction that has read one of them cannot take a new snapshot there
my $s = $here->background_psql('postgres', on_error_stop => 0, timeout => 400);
my $v = now();
$s->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM n2.t WHERE k = 1;");
$other->safe_psql('postgres', $move);
$s->{stderr} = '';
$s->query("$both;");
like($s->{stderr}, qr/could not take one snapshot of several nodes.*(coordinator|coordinators)/s, 'what another coordinator has committed since is an error');
$s->query("ROLLBACK;");
$s->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM n2.t WHERE k = 1;");
$other->safe_psql('postgres', $move);
is($s->query("$both;"), after($v), 'the next transaction begins on both');
$s->query("COMMIT;");
$s->quit;
$s = $here->background_psql('postgres', on_error_stop => 0, timeout => 400);
$s->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM n2.t WHERE k = 1;");
$other->safe_psql('postgres', 'UPDATE n1.t SET v = v WHERE k = 3');
is($s->query("$both;"), now(), 'a commit on one node alone is none of that');
$s->query("COMMIT;");
$s->quit;

# Nor can one with a cursor there, of which no answer has been read.
$n2->safe_psql('postgres', 'CREATE TABLE big AS SELECT g, repeat(md5(g::text), 10) AS t FROM generate_series(1, 100000) g');
$here->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (big) FROM SERVER n2 INTO n2');
$s = $here->background_psql('postgres', on_error_stop => 0, timeout => 400);
$s->query("BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR SELECT * FROM n2.big; FETCH 1 FROM c;");
$v = now();
$other->safe_psql('postgres', $move);
$s->{stderr} = '';
my $torn = $s->query("SELECT v FROM n1.t WHERE k = 1; SELECT v FROM n2.t WHERE k = 1;");
like($s->{stderr}, qr/could not take one snapshot of several nodes/, 'also with a cursor that goes on') or diag($torn);
$s->query("ROLLBACK;");
$s->quit;

# ---- in doubt for long: an error that says whose it is
$v = hold_half();
$other->append_conf('postgresql.conf', "rdma_fdw.resolve = off\n");
$other->stop('immediate');
rdma_outcome($held);
my ($status, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$both");
like($err, qr/55P03: could not take one snapshot of several nodes/, 'a coordinator that is away leaves it in doubt');
my ($id) = $err =~ /system identifier (\d+)/;
is($here->safe_psql('postgres', 'SELECT v FROM n2.t WHERE k = 1'), (split(/\|/, $v))[1], 'each node can be read');
is($here->safe_psql('postgres', "SET rdma_fdw.snapshot = each_node; $both"), (split(/\|/, after($v)))[0] . '|' . (split(/\|/, $v))[1],
	'and both for who does not want one snapshot');

# ---- a node finds after a restart what had been prepared there
$n2->restart;
($status, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$both");
like($err, qr/55P03: could not take one snapshot of several nodes.*\Q$id\E/s, 'also after a restart of the node that has it prepared');
$n1->restart;
($status, $out, $err) = $here->psql('postgres', "\\set VERBOSITY verbose\n$both");
like($err, qr/55P03: could not take one snapshot of several nodes/, 'and of the one that has committed');
$proxy->tell('n2', 'cut');
$other->start;
is($other->safe_psql('postgres', 'SELECT system_identifier FROM pg_control_system()'), $id, 'the error names the coordinator');
$other->append_conf('postgresql.conf', "rdma_fdw.resolve = on\n");
$other->reload;
ok(rdma_wait($other, 'SELECT count(*) = 0 FROM rdma.decisions', 120), 'which is back, and finishes it');
is(now(), after($v), 'it shows on both');

# ---- parts that are rolled back, or fail to be prepared, leave nothing behind
$n1->safe_psql('postgres', "BEGIN; UPDATE t SET v = v WHERE k = 5; PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
is($n1->safe_psql('postgres', 'SELECT rdma_internal.other_parts_age(1)'), 0, 'a part is prepared');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma_internal.unseen_parts(1, 0)'), 1, 'and not visible');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma_internal.unseen_parts(x\'0123456789abcdef\'::bigint, 0)'), 0, 'its own coordinator knows of it');
$n1->psql('postgres', "BEGIN; UPDATE t SET v = v WHERE k = 6; PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma_internal.unseen_parts(1, 0)'), 1, 'which stays there when another transaction wants its name');
$n1->safe_psql('postgres', "ROLLBACK PREPARED 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
$n1->psql('postgres', "BEGIN; CREATE TEMP TABLE gone (); PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
$n1->psql('postgres', "BEGIN; UPDATE t SET v = v WHERE k = 5; SELECT 1 / 0; PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
is($n1->safe_psql('postgres', 'SELECT rdma_internal.other_parts_age(1) > 0, count(*) FROM rdma_internal.unseen_parts(1, 0)'), 't|0', 'nothing is left of it');
is($n1->safe_psql('postgres', q{SELECT rdma_internal.seen_parts(0, '{4711}', '{1000}'), rdma_internal.seen_parts(0, '{4711}', '{3600000000000}'), rdma_internal.seen_parts(0, '{}', '{}')}), 'f|t|f',
	'of what is older than the server a node does not know');
$n1->safe_psql('postgres', "BEGIN; UPDATE t SET v = v WHERE k = 5; PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
$n1->restart;
$n1->psql('postgres', "BEGIN; UPDATE t SET v = v WHERE k = 6; PREPARE TRANSACTION 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma_internal.unseen_parts(1, 0)'), 1, 'also after a restart');
$n1->safe_psql('postgres', "ROLLBACK PREPARED 'rdma_fdw_0123456789abcdef_5_0123456789abcdef_1_1'");

# ---- many at the same time: two coordinators write, both read
sub script
{
	my ($file, $count, $line) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$file.sql";

	append_to_file($path, join('', map { $line->($_) . "\n" } 1 .. $count));
	return $path;
}
srand(109);
my @jobs;
sub begin
{
	my ($coord, $file) = @_;
	my %job = (out => '', err => '');

	$job{run} = IPC::Run::start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-f', $file ], '<', '/dev/null', '>', \$job{out}, '2>', \$job{err});
	push @jobs, \%job;
	return;
}
my $before = $here->safe_psql('postgres', $sum);
my @kinds = ("$sum;", "BEGIN ISOLATION LEVEL REPEATABLE READ; $sum; COMMIT;", 'SELECT sum(a.v) + sum(b.v) FROM n1.t a JOIN n2.t b USING (k);');
foreach my $coord ($here, $other)
{
	my $name = $coord->name;

	begin($coord, script("writer-$name", 200, sub {
		my ($a, $b, $by) = (1 + int(rand(20)), 1 + int(rand(20)), 1 + int(rand(9)));
		return "BEGIN; UPDATE n1.t SET v = v - $by WHERE k = $a; UPDATE n2.t SET v = v + $by WHERE k = $b; COMMIT;"; }));
	begin($coord, script("reader-$name", 300, sub { return $kinds[ $_[0] % @kinds ]; }));
}
IPC::Run::finish($_->{run}) foreach @jobs;
is(join('', map { $_->{err} } @jobs), '', 'nobody has an error');
my @sums = map { split(/\n/, $_->{out}) } @jobs;
is(scalar(@sums), 600, 'all reads have an answer');
is(scalar(grep { $_ != $before } @sums), 0, 'each of a state that was there') or diag(join(' ', grep { $_ != $before } @sums));
cmp_ok(renewed(), '>', 0, 'some had to take their snapshots again');
is($here->safe_psql('postgres', $sum), $before, 'and nothing was lost');
$proxy->end;
done_testing();
