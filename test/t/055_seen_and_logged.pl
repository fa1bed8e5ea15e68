# What the administrator of a data node sees of statements that it runs for others: the statement itself, while it runs and in the
# statistics of statements; and no secret in the log, however much it logs.
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

# Writers that wait for a lock
$n1->safe_psql('postgres', q{
	CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(55); RETURN NEW; END';
	CREATE TRIGGER wait BEFORE INSERT OR UPDATE ON seen FOR EACH ROW EXECUTE FUNCTION wait();
});
my $lock = $n1->background_psql('postgres');
$lock->query_safe('BEGIN; SELECT pg_advisory_xact_lock(55)');
foreach my $write ("INSERT INTO seen SELECT g, 'y' FROM generate_series(70001, 71000) g", "UPDATE seen SET b = 'z' || random() WHERE a < 10")
{
	my $job = rdma_begin($coord, $write);
	my $like = $write =~ /^INSERT/ ? 'INSERT INTO public.seen(a, b) SELECT * FROM rdma_internal.receive()%' : 'UPDATE public.seen SET b = %';
	ok($n1->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Lock' AND query LIKE '$like'"),
		"pg_stat_activity shows what is written: $like")
		or diag($n1->safe_psql('postgres', 'SELECT state, query FROM pg_stat_activity WHERE pid <> pg_backend_pid()'));
	$n1->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
	rdma_outcome($job);
	like($job->{err}, qr/57014/, 'until it is cancelled');
}
$lock->query_safe('COMMIT');
$lock->quit;
$n1->safe_psql('postgres', 'DROP TRIGGER wait ON seen');

# An error's statement in the log
$n1->safe_psql('postgres', 'CREATE UNIQUE INDEX ON seen (a)');
foreach my $fails ([ 'SELECT sum(1 / (a - 5)) FROM seen', 'division by zero', qr/SELECT .*FROM public\.seen/ ],
	[ "INSERT INTO seen SELECT g, 'y' FROM generate_series(1, 1000) g", 'duplicate key', qr/INSERT INTO public\.seen/ ])
{
	my ($sql, $error, $statement) = @$fails;
	my $before = -s $n1->logfile;
	like(($coord->psql('postgres', $sql))[2], qr/$error/, "$error");
	my $log = substr(slurp_file($n1->logfile), $before);
	like($log, qr/ERROR:  .*$error.*?STATEMENT:  $statement/s, 'the log says the statement');
	unlike($log, qr/STATEMENT:  SELECT rdma\./, 'and not the call that carries it');
}

SKIP:
{
	skip 'pg_stat_statements is not installed', 3 unless $counts;
	is($coord->safe_psql('postgres', 'SELECT count(b) FROM (SELECT b FROM seen WHERE a < 50001 OFFSET 0) s'), '50000', 'a second statement');
	is($n1->safe_psql('postgres', q{SELECT query, calls, rows FROM pg_stat_statements WHERE query LIKE 'SELECT b FROM public.seen%'}),
		'SELECT b FROM public.seen WHERE (a < $1)|1|50000', 'pg_stat_statements counts it as itself');
	$coord->safe_psql('postgres', "INSERT INTO seen SELECT -g - 1000, 'y' FROM generate_series(1, 1000) g");
	is($n1->safe_psql('postgres', q{SELECT calls, rows FROM pg_stat_statements WHERE query LIKE 'INSERT INTO public.seen(a, b) SELECT * FROM rdma_internal.receive()%' AND rows > 0}),
		'1|1000', 'and what is written');
}

# Everything is logged, parameters of statements between nodes included, which name the other engines' tokens.
my $n2 = rdma_node('n2');
rdma_connect($coord, n2 => $n2);
foreach my $node ($n1, $n2)
{
	$node->append_conf('postgresql.conf', "log_statement = 'all'\nlog_min_duration_statement = 0\nlog_parameter_max_length = -1\nlog_parameter_max_length_on_error = -1\n"
		. "session_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\n");
	$node->restart;
	$node->safe_psql('postgres', 'CREATE TABLE l (a int, b int); CREATE TABLE r (a int, b int)');
}
$coord->safe_psql('postgres', q{
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE l (a int, b int) SERVER nodes OPTIONS (distributed_by 'a');
	CREATE FOREIGN TABLE r (a int, b int) SERVER nodes OPTIONS (distributed_by 'a');
	INSERT INTO l SELECT i, i FROM generate_series(1, 20000) i;
	INSERT INTO r SELECT i, 20001 - i FROM generate_series(1, 20000) i;
});
is($coord->safe_psql('postgres', 'SELECT count(*), sum(l.a) FROM l JOIN r ON r.b = l.a'), '20000|200010000', 'a join over both nodes');

# Answers of rdma_internal.hello in the logs, 176 bytes: where a secret could be, at 64, they have the public key of an engine.
my $greeting = $coord->safe_psql('postgres', 'SELECT rdma_internal.exchange_greet()');
my %public = map { (substr($_->safe_psql('postgres', "SELECT rdma_internal.hello('$greeting')"), 2 + 2 * 64, 64) => 1) } ($n1, $n2);
my @answers = map { slurp_file($_->logfile) =~ /rdma_internal\.exchange_connect\(h, r\).*\n?.*?\\\\x([0-9a-f]{352})\b/g } ($n1, $n2);
cmp_ok(scalar(@answers), '>', 0, 'parameters of connecting nodes are in the log');
is(scalar(grep { !$public{ substr($_, 2 * 64, 64) } } @answers), 0, 'and no secret with them');

$n2->stop;
$n1->stop;
$coord->stop;
done_testing();
