# Rows that do not fit a buffer: laid out in value memory and sent from there, or copied to the buffers. They come right in every mode of
# value memory (rdma_fdw.disable) and in both directions, the counters say which way they took, and no value memory is left in use after an end of any
# kind.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $coord = rdma_node('coord', conf => "rdma_fdw.buffer_memory = '128MB'\n");
my $n1    = rdma_node('n1',    conf => "rdma_fdw.buffer_memory = '128MB'\nrdma_fdw.peer_timeout = '5s'\n");
rdma_connect($coord, n1 => $n1, options => "receive_buffers '4', receive_buffer_size '64kB'");

# The last one would want a piece of 64 MB, so it is always copied. Half of them are compressed where they are stored, half lie there as they are.
$n1->safe_psql('postgres', q{
	CREATE FUNCTION bytes(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
		$$SELECT substr(decode(string_agg(md5((seed * 1000003 + g)::text), ''), 'hex'), 1, n) FROM generate_series(1, n / 16 + 1) g$$;
	CREATE TABLE t (id int, plain bytea, packed text);
	ALTER TABLE t ALTER plain SET STORAGE EXTERNAL;
	INSERT INTO t SELECT i, bytes(i::int, n), CASE WHEN i % 2 = 0 THEN repeat(md5(i::text), n / 32) END
		FROM unnest(ARRAY[10, 70000, 64000, 300000, 1, 1048576, 65472, 65473, 2000000, 6000000, 100, 17000000]) WITH ORDINALITY u(n, i);
	INSERT INTO t SELECT 100 + i, bytes(100 + i, 60000 + i * 3000), NULL FROM generate_series(1, 60) i;
	CREATE TABLE target (id int, plain bytea, packed text);
	ANALYZE});
$coord->safe_psql('postgres', q{
	CREATE FOREIGN TABLE t (id int, plain bytea, packed text) SERVER n1;
	CREATE FOREIGN TABLE target (id int, plain bytea, packed text) SERVER n1});

# random() keeps the rows coming; the sums are made where the rows arrive.
my $digest = q{SELECT count(*), sum(length(plain)), sum(length(packed)),
	md5(string_agg(md5(plain) || coalesce(md5(packed), '-'), ',' ORDER BY id)) FROM t WHERE random() >= 0};
my $expected = $n1->safe_psql('postgres', $digest);

sub mode
{
	my ($node, $mode) = @_;

	$node->safe_psql('postgres', "ALTER ROLE postgres SET rdma_fdw.disable = '$mode'");
	return;
}

# An expression over the engine's and the lanes' counters.
sub counter
{
	my ($node, $expression) = @_;

	return $node->safe_psql('postgres',
		"SELECT $expression FROM rdma.stat_engine, (SELECT sum(in_place) AS in_place, sum(in_place_bytes) AS in_place_bytes FROM rdma.stat_lanes) l");
}

sub nothing_left
{
	my ($node, $when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(rdma_wait($node, 'SELECT value_used = 0 AND (SELECT count(*) FROM rdma.stat_flows) = 0 FROM rdma.stat_engine', 60),
		"no value memory is in use $when");
	return;
}

# ---- the modes
mode($n1, 'value_memory');
is($coord->safe_psql('postgres', $digest), $expected, 'off: the rows are right');
is(counter($n1, 'in_place + in_place_bytes + registrations + registration_hits + registrations_refused + value_registered'), '0',
	'off: nothing leaves from value memory, nothing is registered');

mode($n1, 'value_costs');
is($coord->safe_psql('postgres', $digest), $expected, 'on: the rows are right');
# At least the plain column of the rows that fit neither a buffer nor are too large for a piece.
my $large = $n1->safe_psql('postgres', 'SELECT sum(length(plain)) FROM t WHERE length(plain) BETWEEN 70000 AND 10000000');
my $sent  = counter($n1, 'in_place_bytes');
cmp_ok($sent, '>=', $large, 'on: all large rows leave from value memory');
cmp_ok(counter($n1, 'in_place'), '>=', $large / 65472, 'in as many buffers as they need');
nothing_left($n1, 'after a stream');
my $registrations = counter($n1, 'registrations');
cmp_ok($registrations, '>=', 1, 'it was registered');
cmp_ok(counter($n1, 'value_registered'), '>', 0, 'and stays so');

is($coord->safe_psql('postgres', $digest), $expected, 'on: the rows are right again');
is(counter($n1, 'in_place_bytes'), 2 * $sent, 'as many bytes left in place');
cmp_ok(counter($n1, 'registration_hits'), '>=', 1, 'registrations are used again');
is(counter($n1, 'registrations'), $registrations, 'and there are no more of them');

mode($n1, '');
is($coord->safe_psql('postgres', $digest), $expected, 'auto: the rows are right');
is($n1->safe_psql('postgres', 'SELECT copy_us_per_mb > 0 AND register_us >= 0 AND register_us_per_mb >= 0 FROM rdma.stat_engine'), 't',
	'what it decides by is shown');

# ---- several at once: there is not enough for all; flows that get none copy
mode($n1, 'value_costs');
{
	my @jobs;

	foreach my $i (0 .. 5)
	{
		my %job = (out => '', err => '');

		$job{run} = start([ 'psql', '-XAtq', '-d', $coord->connstr('postgres'), '-c', $digest ], '<', \undef, '>', \$job{out}, '2>', \$job{err});
		push @jobs, \%job;
	}
	foreach my $job (@jobs)
	{
		finish($job->{run});
		chomp $job->{out};
		is($job->{out}, $expected, 'one of six at once: the rows are right') or diag($job->{err});
	}
	nothing_left($n1, 'after six at once');
}

# ---- ends of every kind, with a row half sent: the reader takes one and then nothing
my @open = ('BEGIN', 'DECLARE c CURSOR FOR SELECT * FROM t WHERE length(plain) > 1000000 AND random() >= 0', 'MOVE 1 IN c');

$coord->safe_psql('postgres', join(';', @open, 'ROLLBACK'));
nothing_left($n1, 'after a rollback in the middle');
$coord->safe_psql('postgres', join(';', @open, 'CLOSE c', 'COMMIT'));
nothing_left($n1, 'after a cursor was closed in the middle');
$coord->psql('postgres', join(';', "SET statement_timeout = '1s'", @open, 'SELECT pg_sleep(60)'));
nothing_left($n1, 'after a cancel');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM (SELECT * FROM t WHERE length(plain) > 1000 AND random() >= 0 LIMIT 3) s'), '3', 'LIMIT');
nothing_left($n1, 'after a LIMIT');

# A session that holds a cursor open until its input ends.
sub holder
{
	my %job = (in => join(";\n", @open, "SELECT 'it is open'") . ";\n", out => '', err => '');

	$job{run} = start([ 'psql', '-XAtq', '-d', $coord->connstr('postgres') ], '<', \$job{in}, '>', \$job{out}, '2>', \$job{err},
		IPC::Run::timeout(120));
	$job{run}->pump until $job{out} =~ /it is open/;
	cmp_ok($n1->safe_psql('postgres', 'SELECT value_used FROM rdma.stat_engine'), '>', 0, 'a stream has value memory');
	return \%job;
}

my $job = holder();
$n1->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid()});
# The reader, which is at rest, has to let go of its side, too.
finish($job->{run});
nothing_left($n1, 'after the serving session was terminated');

$job = holder();
$coord->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'it is open' AND pid <> pg_backend_pid()});
nothing_left($n1, 'after the reader was terminated');
finish($job->{run});

foreach my $node ($n1, $coord)
{
	$job = holder();
	my $pid = rdma_engine_pid($node);
	kill 'TERM', $pid;
	ok(rdma_wait($node, "SELECT pid <> $pid FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'an engine ends and comes back');
	finish($job->{run});
	nothing_left($n1, 'after the engine of ' . $node->name . ' has ended');
	is($coord->safe_psql('postgres', $digest), $expected, 'and the rows are right');
}

$job = holder();
my $serving = $n1->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND query ~ 'FROM public[.]t'});
kill 'KILL', $serving;
finish($job->{run});
rdma_healthy($coord, $digest, $expected, 'after kill -9 of the serving session');
nothing_left($n1, 'after kill -9 of the serving session');

# ---- the other direction: rows that this node stores over there
$coord->safe_psql('postgres', 'CREATE TABLE source AS SELECT * FROM t');
mode($coord, 'value_costs');
$coord->safe_psql('postgres', 'INSERT INTO target SELECT * FROM source');
is($n1->safe_psql('postgres', $digest =~ s/FROM t /FROM target /r), $expected, 'INSERT of large rows');
cmp_ok(counter($coord, 'in_place_bytes'), '>=', $large, 'which left in place, too');
nothing_left($coord, 'after the INSERT');

done_testing();
