# Distributed joins from psql on bad days: a pool of buffers that is too small for those that run at once, an error in one
# fragment, a node or its engine that dies, a cancel, an early end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# room for about three joins at once
my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nrdma_fdw.buffer_memory = '12MB'\n"
		. "max_connections = 60\n");
my %other = (n1 => $n2, n2 => $n1);
my %half = (n1 => 1, n2 => 2);

foreach my $node ($n1, $n2)
{
	my ($name, $first) = ($node->name, $half{ $node->name });

	$node->safe_psql('postgres', qq{
		CREATE TABLE o AS SELECT g AS k, g % 7 AS c FROM generate_series($first, 40000, 2) g;
		CREATE TABLE l AS SELECT (g * 7919) % 40000 + 1 AS k, g AS v FROM generate_series($first, 80000, 2) g;
		CREATE VIEW bad_on_n1 AS SELECT k, CASE WHEN '$name' = 'n1' THEN 1 / (v - 50001) ELSE v END AS v FROM l;
		CREATE VIEW bad_on_n2 AS SELECT k, CASE WHEN '$name' = 'n2' THEN 1 / (v - 50002) ELSE v END AS v FROM l;
		CREATE VIEW endless AS SELECT g % 40000 + 1 AS k, g AS v FROM (SELECT generate_series(1, 1000000000) AS g) s;
		ANALYZE;
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE o (k int, c int) SERVER pair;
	CREATE FOREIGN TABLE l (k int, v int) SERVER pair;
	CREATE FOREIGN TABLE bad_on_n1 (k int, v int) SERVER pair;
	CREATE FOREIGN TABLE bad_on_n2 (k int, v int) SERVER pair;
	CREATE FOREIGN TABLE endless (k int, v int) SERVER pair;
	ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both';
});
my $sum = 'SELECT count(*), sum(c), sum(v) FROM o JOIN l USING (k)';
my $right = '80000|239994|3200040000';
like($coord->safe_psql('postgres', "EXPLAIN (COSTS OFF) $sum"), qr/Strategy: .*Exchange 1: repartition 2:2.*Exchange 2: repartition 2:2/s, 'the join moves both sides');
$right = $coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = pull; $sum");
is($coord->safe_psql('postgres', $sum), $right, 'and is right');

my $idle = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'rdma_fdw' AND state = 'active'";

sub healthy
{
	my ($when) = @_;

	rdma_healthy($coord, $sum, $right, $when);
	foreach my $node ($n1, $n2)
	{
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), $node->name . " has no flow left $when");
	}
	return;
}

# ---- more joins at once than there are buffers for: they wait for each other, without holding anything
my $script = $coord->basedir . '/join.sql';
append_to_file($script, "$sum;\nSELECT count(*), sum(c + v) FROM (SELECT c, v FROM o JOIN l USING (k) OFFSET 0) t;\n");
$coord->command_ok([ 'pgbench', '-n', '-c', '12', '-j', '2', '-t', '2', '-f', $script, '-h', $coord->host, '-p', $coord->port, 'postgres' ],
	'twelve sessions with joins that do not fit at the same time');
healthy('(small pool)');

# ---- the time for that is limited
$coord->safe_psql('postgres', 'BEGIN; SET LOCAL rdma_fdw.buffer_wait = 0; ' . $sum . '; COMMIT');

foreach my $victim ($n1, $n2)
{
	my $name = $victim->name;

	# ---- an error in one fragment is the user's, not what it does to the other one
	my $job = rdma_begin($coord, "SELECT count(*), sum(v) FROM o JOIN bad_on_$name USING (k)");
	rdma_outcome($job);
	like($job->{err}, qr/ERROR:  22012: division by zero.*$name/s, "an error on $name has its SQLSTATE and names it");
	ok(rdma_wait($other{$name}, $idle, 60), 'and the other node stops');
	healthy("(error on $name)");

	# ---- a node, an engine, a session dies
	foreach my $how ('node', 'engine', 'session')
	{
		$job = rdma_begin($coord, 'SELECT count(*), sum(v) FROM o JOIN endless USING (k)');
		ok(rdma_wait($victim, "SELECT count(*) > 0 AND bool_or(rows > 100000) FROM rdma.stat_flows", 60), "an endless join is under way");
		$victim->stop('immediate') if $how eq 'node';
		kill('KILL', rdma_engine_pid($victim)) if $how eq 'engine';
		$victim->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rdma_fdw' AND state = 'active'")
			if $how eq 'session';
		rdma_outcome($job);
		like($job->{err}, qr/ERROR/, "it fails when the $how on $name dies");
		ok(rdma_wait($other{$name}, $idle, 60), 'and the other node stops');
		$victim->start if $how eq 'node';
		healthy("($how on $name died)");
	}
}

# ---- rows of the coordinator that go by flow: sent again where a node finds no buffers for its own, and a node that is lost before
# it has taken them
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE FUNCTION held(k int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN IF k IN (20001, 20002) THEN PERFORM pg_advisory_lock_shared(81); END IF; RETURN k; END $$;
		CREATE VIEW held AS SELECT held(k) AS k, c FROM o;
		CREATE SEQUENCE attempts;
		CREATE FUNCTION lacking(k int) RETURNS int LANGUAGE plpgsql STABLE AS $$
			BEGIN IF k = 20002 AND nextval('public.attempts') < 3 THEN RAISE insufficient_resources; END IF; RETURN k; END $$;
		CREATE VIEW lacking AS SELECT lacking(k) AS k, c FROM o});
}
$coord->safe_psql('postgres', q{
	CREATE TABLE here AS SELECT (g * 7919) % 40000 + 1 AS k, repeat('x', 400) AS t FROM generate_series(1, 80000) g;
	ANALYZE here;
	CREATE FOREIGN TABLE held (k int, c int) SERVER pair;
	CREATE FOREIGN TABLE lacking (k int, c int) SERVER pair;
	ALTER SERVER pair OPTIONS (ADD fdw_tuple_cost '1000')});
my $sent = 'SELECT count(*), sum(c), sum(length(t)) FROM here JOIN o USING (k)';
my $answer = $coord->safe_psql('postgres', "SET rdma_fdw.disable = local_rows; $sent");
like($coord->safe_psql('postgres', "EXPLAIN (ANALYZE, TIMING OFF) $sent"), qr/Rows Sent: 80000\s+Rows Sent By: flow/, 'rows of the coordinator go by flow');
is($coord->safe_psql('postgres', $sent), $answer, 'and the answer is right');
is($coord->safe_psql('postgres', $sent =~ s/JOIN o/JOIN lacking/r), $answer, 'also where a node has to begin again');
is($n2->safe_psql('postgres', 'SELECT last_value FROM attempts'), 3, 'which it did twice');
foreach my $victim ($n1, $n2)
{
	my $name = $victim->name;

	foreach my $how ('node', 'engine', 'session')
	{
		my $holder = $victim->background_psql('postgres', on_error_stop => 0);
		$holder->query('SELECT pg_advisory_lock(81)');
		my $job = rdma_begin($coord, "SET application_name = 'sender'", $sent =~ s/JOIN o/JOIN held/r);
		ok(rdma_wait($victim, q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 60), "$name takes no rows");
		ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'sender' AND wait_event_type = 'Extension'}, 60), 'and rows wait');
		$victim->stop('immediate') if $how eq 'node';
		kill('KILL', rdma_engine_pid($victim)) if $how eq 'engine';
		$victim->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) if $how eq 'session';
		ok(rdma_outcome($job), "the statement ends when the $how on $name dies");
		like($job->{err}, qr/ERROR.*\b$name\b/s, 'with an error that names the node');
		is($job->{out}, '', 'and no answer');
		$how eq 'node' ? $holder->{run}->kill_kill : $holder->quit;
		$victim->start if $how eq 'node';
		healthy("(rows sent, $how on $name died)");
		is($coord->safe_psql('postgres', $sent), $answer, 'rows are sent again');
	}
}
$coord->safe_psql('postgres', 'ALTER SERVER pair OPTIONS (DROP fdw_tuple_cost)');

# ---- cancel, early end
my $job = rdma_begin($coord, 'SELECT count(*), sum(v) FROM o JOIN endless USING (k)');
ok(rdma_wait($n1, "SELECT count(*) > 0 AND bool_or(rows > 100000) FROM rdma.stat_flows", 60), 'an endless join is under way');
$coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%endless%' AND pid <> pg_backend_pid()});
rdma_outcome($job);
like($job->{err}, qr/57014/, 'a cancel ends it');
ok(rdma_wait($_, $idle, 60), $_->name . ' stops') foreach ($n1, $n2);
healthy('(cancelled)');
is($coord->safe_psql('postgres', "BEGIN; SELECT count(*) FROM (SELECT v FROM o JOIN l USING (k) LIMIT 3) t;"
		. " SELECT count(*) FROM (SELECT v FROM l JOIN o USING (k) WHERE random() >= 0 LIMIT 1000) t; $sum; COMMIT"),
	"3\n1000\n$right", 'early ends, and the same sessions again');
healthy('(early ends)');

# ---- an engine stops after it has used its token and before it hears that: the next attempt has another one
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16, ReuseAddr => 1) or die $!;
my ($hold, $held) = map { PostgreSQL::Test::Utils::tempdir() . "/$_" } qw(hold held);
foreach my $node ($coord, $n1, $n2)
{
	$node->append_conf('postgresql.conf', "rdma_fdw.provider = tcp\nrdma_fdw.connect_timeout = '2min'\n"
			. "rdma_fdw.peer_timeout = '2min'\n");
}
my $engine_port = $n2->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');
$n2->append_conf('postgresql.conf', "rdma_fdw.engine_port = $engine_port\nrdma_fdw.engine_address = '127.0.0.1:" . $listen->sockport . "'\n");
$_->restart foreach ($n1, $n2, $coord);
my $proxy = fork() // die $!;
if ($proxy == 0)
{
	eval { proxy($listen, $engine_port) };
	POSIX::_exit(1);
}
is($coord->safe_psql('postgres', 'SELECT count(*) FROM l'), '80000', 'the coordinator is connected with both');
append_to_file($hold, '');
$job = rdma_begin($coord, $sum);
for (1 .. 1200)
{
	last if -e $held;
	select(undef, undef, undef, 0.1);
}
ok(-e $held, 'n2 has answered to the token');
unlink $hold;
kill 'TERM', rdma_engine_pid($n1);
rdma_outcome($job);
is($job->{out}, "$right\n", 'the engines are connected by a new token') or diag($job->{err});
like($coord->safe_psql('postgres', "EXPLAIN (ANALYZE, VERBOSE) $sum"), qr/Exchange 1 on n1: .* tcp encryption=TLS 1\.3 AES-256-GCM$/m,
	'EXPLAIN says how rows are encrypted between nodes');
kill 'KILL', $proxy;
waitpid($proxy, 0);
done_testing();

# Between engines. Of connections that are made while there is a file `hold` the acceptor's answers to the token are kept back.
sub proxy
{
	my ($listener, $port) = @_;
	my $select = IO::Select->new($listener);
	my %end;

	while (1)
	{
		foreach my $from ($select->can_read)
		{
			if ($from == $listener)
			{
				my $in = $listener->accept or next;
				my $out = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or next;
				my %both = (hold => -e $hold);
				$end{$in} = { to => $out, from_client => 1, both => \%both };
				$end{$out} = { to => $in, both => \%both };
				$select->add($in, $out);
				next;
			}
			my $end = $end{$from} or next;
			my $both = $end->{both};
			my $n = sysread($from, my $bytes, 1 << 18);
			if ($n && $both->{hold} && !$end->{from_client})
			{
				append_to_file($held, '') if $both->{proven};
				next if $both->{proven};
				$both->{greeted} = 1;
			}
			$both->{proven} = 1 if $n && $both->{greeted} && $end->{from_client};
			for (my $at = 0; $n && $at < $n;)
			{
				my $written = syswrite($end->{to}, $bytes, $n - $at, $at);
				$n = 0 unless $written;
				$at += $written // 0;
			}
			next if $n;
			foreach my $socket ($from, $end->{to})
			{
				delete $end{$socket};
				$select->remove($socket);
				close($socket);
			}
		}
	}
	return;
}
