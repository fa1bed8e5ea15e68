# RdmaCluster.pm: PostgreSQL clusters with rdma_fdw for the TAP tests, on top of PostgreSQL::Test::Cluster.
#
#   my $node = rdma_node('n1');                                   # started, preloaded, listens on 127.0.0.1
#   my $node = rdma_node('n1', conf => "work_mem = '1MB'\n");      # more settings; also: auth => 'scram', preload => 0
#   my ($coord, $n1, $n2) = rdma_trio(conf => ...);               # extension, servers n1 and n2, mappings, ready
#   rdma_connect($coord, n1 => $n1, options => "fetch_size '100'");
#   rdma_wait($node, "SELECT count(*) = 0 FROM rdma.stat_flows", 10) or die;
#   rdma_engine_pid($node)
#   rdma_healthy($coord, 'SELECT count(*) FROM t', '42', 'after the crash');   # two assertions
#
# RF_TEMPLATES in the environment names a folder where data folders are kept to be copied: initdb takes longer.
# PROVIDER in the environment (auto, verbs, soft, soft_shm, soft_tcp) selects the provider for all of them.
# It asserts nothing but rdma_healthy, and it contains no test of its own.
package RdmaCluster;

use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(:flock);
use File::Basename qw(dirname);
use Time::HiRes qw(time usleep);
use IPC::Run qw(start finish run);
use Test::More;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(rdma_node rdma_trio rdma_connect rdma_wait rdma_engine_pid rdma_healthy rdma_begin rdma_outcome);

our $PASSWORD = 'secret';

my %provider_settings = (
	auto     => "rdma_fdw.provider = auto\n",
	verbs    => "rdma_fdw.provider = verbs\n",
	soft     => "rdma_fdw.provider = soft\n",
	soft_shm => "rdma_fdw.provider = soft\n",
	soft_tcp => "rdma_fdw.provider = tcp\n");

# initdb COMMAND, or a copy of what the same command left in a template. Clusters of one test need different system
# identifiers, so the nth cluster of every test comes from the nth template.
my $clusters = 0;

sub initdb
{
	my ($initdb, @command) = @_;
	my ($data)   = map { $command[ $_ + 1 ] } grep { $command[$_] =~ /^(-D|--pgdata)$/ } 0 .. $#command;
	my $template = "$ENV{RF_TEMPLATES}/" . ++$clusters;

	open(my $lock, '>', "$template.lock") or die "$template.lock: $!";
	flock($lock, LOCK_EX) or die "$template.lock: $!";
	if (!-e $template)
	{
		$initdb->(map { $_ eq $data ? "$template.new" : $_ } @command);
		rename("$template.new", $template) or die "$template: $!";
	}
	close $lock;
	PostgreSQL::Test::Utils::system_or_bail('cp', '-a', $template, $data);
	return;
}

# $node->init, which calls initdb by this function
sub init
{
	my ($node, @extra) = @_;
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;

	local *PostgreSQL::Test::Utils::system_or_bail =
	  sub { return $_[0] eq 'initdb' ? initdb($run, @_) : $run->(@_) };
	$node->init(extra => \@extra);
	return;
}

sub rdma_node
{
	my ($name, %args) = @_;
	my $preload = $args{preload} // 1;
	my $node    = PostgreSQL::Test::Cluster->new($name);
	my @extra   = ('--no-locale', '-E', 'UTF8', '-U', 'postgres');

	if (($args{auth} // 'trust') eq 'scram')
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . '/password';
		append_to_file($file, "$PASSWORD\n");
		push @extra, '--auth-host=scram-sha-256', "--pwfile=$file";
	}
	if (defined $ENV{RF_TEMPLATES} && ($args{auth} // 'trust') eq 'trust') { init($node, @extra); }
	else { $node->init(extra => \@extra); }
	$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\n");
	$node->append_conf('postgresql.conf', "restart_after_crash = on\nautovacuum = off\nshared_buffers = 32MB\njit = off\n");
	if ($preload)
	{
		$node->append_conf('postgresql.conf',
			"shared_preload_libraries = 'rdma_fdw'\n"
			  . "rdma_fdw.buffer_memory = '64MB'\nrdma_fdw.cores = 64\n"
			  . ($provider_settings{ $ENV{PROVIDER} // 'auto' } // die "PROVIDER=$ENV{PROVIDER}?"));
	}
	$node->append_conf('postgresql.conf', $args{conf}) if defined $args{conf};
	$node->start unless $args{no_start};
	return $node;
}

# Makes NAME => NODE pairs known to $coord: the extension on both sides, a server and a mapping for the superuser.
sub rdma_connect
{
	my ($coord, %args) = @_;
	my $options = delete $args{options};
	my $mapping = delete $args{mapping} // "user 'postgres', password '$PASSWORD'";

	$coord->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS rdma_fdw');
	foreach my $name (sort keys %args)
	{
		my $port = $args{$name}->port;

		$args{$name}->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS rdma_fdw');
		$coord->safe_psql('postgres',
			    "CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw"
			  . " OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres'"
			  . ($options ? ", $options" : '') . ");"
			  . "CREATE USER MAPPING FOR postgres SERVER $name OPTIONS ($mapping)");
	}
	return;
}

sub rdma_trio
{
	my (%args) = @_;
	my ($coord, $n1, $n2) = map { rdma_node($_, %args) } qw(coord n1 n2);

	rdma_connect($coord, n1 => $n1, n2 => $n2);
	return ($coord, $n1, $n2);
}

# What the sessions, flows, lanes and peers of a node do: for whoever reads of a wait in vain, which seldom happens twice.
sub tell_of
{
	my ($node) = @_;

	foreach my $query ('SELECT pid, backend_type, application_name, state, wait_event_type, wait_event, left(query, 200) AS query FROM pg_stat_activity WHERE pid <> pg_backend_pid()',
		'SELECT * FROM rdma.stat_flows', 'SELECT * FROM rdma.stat_lanes', 'SELECT * FROM rdma.stat_peers')
	{
		my ($out, $err) = ('', '');

		run([ 'psql', '-X', '-q', '-A', '-d', $node->connstr('postgres'), '-c', "SET statement_timeout = '10s'", '-c', $query ], '<', '/dev/null', '>', \$out, '2>', \$err);
		diag("$query\n$out$err");
	}
	return;
}

# Success, output and errors of one psql; not by $node->psql, which dies when psql cannot connect and ends before it has read the
# query.
sub rdma_ask
{
	my ($node, @sql) = @_;
	my ($out, $err) = ('', '');
	my $done = run([ 'psql', '-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$out, '2>', \$err);

	return ($done, $out, $err);
}

# Asks until the answer is true or the time is over; a refused connection (a crash restart) counts as "not yet".
sub rdma_wait
{
	my ($node, $query, $seconds) = @_;
	my $end = time() + ($seconds // 60);
	# A question costs about 20 ms of processor time, psql's and the server's.
	my $pause = 20_000;

	do
	{
		my (undef, $out) = rdma_ask($node, $query);

		return 1 if $out eq "t\n";
		usleep($pause);
		$pause = 100_000 if ($pause *= 1.5) > 100_000;
	} while (time() < $end);
	diag('in vain for ' . ($seconds // 60) . ' s on ' . $node->name . ": $query");
	tell_of($node);
	return 0;
}

sub rdma_engine_pid
{
	my ($node) = @_;

	return $node->safe_psql('postgres', "SELECT pid FROM rdma.stat_engine");
}

# psql in the background, with errors' SQLSTATE; what it prints is in {out} and {err} once it has ended.
sub rdma_begin
{
	my ($node, @sql) = @_;
	my %job = (out => '', err => '');

	$job{run} = start([ 'psql', '-X', '-A', '-t', '-q', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$job{out}, '2>', \$job{err});
	return \%job;
}

# Waits for its end; false: it had to be killed.
sub rdma_outcome
{
	my ($job) = @_;
	my $done = eval {
		local $SIG{ALRM} = sub { die "late\n" };
		alarm(120);
		finish($job->{run});
		alarm(0);
		1;
	};
	alarm(0);
	$job->{run}->kill_kill unless defined $done;
	return defined $done;
}

# The two things that hold after every bad day: the next query works, and no flow is left behind.
sub rdma_healthy
{
	my ($coord, $query, $expected, $when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($done, $out, $err);

	# A cluster that restarts after a crash needs a moment.
	for (1 .. 100)
	{
		($done, $out, $err) = rdma_ask($coord, $query);
		last if $done || $err !~ /starting up|recovery mode|could not connect|could not be connected|connection to server|terminat/;
		usleep(100_000);
	}
	chomp $out;
	is($done ? $out : "error: $err", $expected, "the next query works $when");
	ok(rdma_wait($coord, 'SELECT count(*) = 0 FROM rdma.stat_flows', 40), "no flow is left $when");
	return;
}

1;
