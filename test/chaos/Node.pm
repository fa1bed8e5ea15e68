# Node.pm: a cluster made by test/cluster.sh, or another one, as the chaos test sees it: its processes, what they
# hold, its log, pg_ctl.
#
#   my $node = Node->new(dir => $dir, name => 'n1', bindir => $bindir);
#   my $node = Node->new(name => 'n1', bindir => $bindir, port => $port, data => $folder, log => $file);
#   $node->processes                     # { pid, title, kind } of the postmaster and all its children
#   $node->ask($sql)                     # rows of one query by the superuser, undef when it failed ($Wire::why or {M} in $node->{why})
#   $node->value($sql)                   # its first column of the first row
#   $node->ctl('restart', '-m', 'fast')  # pg_ctl; true when it succeeded
package Node;

use strict;
use warnings;
use Time::HiRes qw(time sleep);
use Wire;

sub new
{
	my ($class, %args) = @_;
	my $self = bless {%args}, $class;
	return $self if defined $args{port};
	open(my $f, '<', "$args{dir}/$args{name}.port") or die "$args{name}: $!\n";
	chomp($self->{port} = <$f>);
	return $self;
}

sub name { return $_[0]{name}; }
sub port { return $_[0]{port}; }
sub data { return $_[0]{data} // "$_[0]{dir}/$_[0]{name}"; }
sub log { return $_[0]{log} // "$_[0]{dir}/$_[0]{name}.log"; }

sub postmaster
{
	my ($self) = @_;
	open(my $f, '<', $self->data . '/postmaster.pid') or return undef;
	my $pid = <$f>;
	return defined $pid && $pid =~ /^(\d+)$/ ? $1 : undef;
}

# The lock files of a postmaster that is gone
sub forget
{
	my ($self) = @_;
	open(my $f, '<', $self->data . '/postmaster.pid') or return;
	chomp(my @lines = <$f>);
	unlink($self->data . '/postmaster.pid', "$lines[4]/.s.PGSQL.$lines[3].lock");
	return;
}

# The kinds that faults aim at; what has no database and no work is "other" (checkpointer, launchers
# and the like).
sub kind_of
{
	my ($title) = @_;
	return 'engine' if $title =~ /rdma_fdw engine/;
	return 'parallel' if $title =~ /parallel worker/;
	return 'autovacuum' if $title =~ /autovacuum worker/;
	return 'backend' if $title =~ /^postgres: \S+: \w+ postgres 127\.0\.0\.1/;
	return 'starting' if $title =~ /startup|initializing|authentication/;
	return 'other';
}

sub processes
{
	my ($self) = @_;
	my $pid = $self->postmaster // return;
	open(my $f, '<', "/proc/$pid/task/$pid/children") or return;
	my @processes = ({ pid => $pid, kind => 'postmaster', title => 'postmaster' });

	foreach my $child (split ' ', <$f> // '')
	{
		open(my $g, '<', "/proc/$child/cmdline") or next;
		local $/;
		my $title = <$g> // '';
		$title =~ s/\0+$//;
		$title =~ tr/\0/ /;
		# one that was just forked still has the postmaster's
		push @processes, { pid => $child, title => $title, kind => kind_of($title) } if $title =~ /^postgres:/;
	}
	return @processes;
}

sub engine
{
	my ($self) = @_;
	my ($engine) = grep { $_->{kind} eq 'engine' } $self->processes;
	return $engine && $engine->{pid};
}

# Everything that may be stopped runs again, also what the postmaster has forgotten.
sub go_on
{
	my ($self, @also) = @_;
	kill 'CONT', $_->{pid} foreach $self->processes;
	kill 'CONT', @also;
	return;
}

sub ctl
{
	my ($self, @words) = @_;
	my $pid = fork() // die "fork: $!\n";
	if (!$pid)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>', '/dev/null');
		open(STDERR, '>&', \*STDOUT);
		exec("$self->{bindir}/pg_ctl", '-D', $self->data, '-l', $self->log, '-w', '-t', 120, '-s', @words) or POSIX::_exit(1);
	}
	waitpid($pid, 0);
	return $? == 0;
}

sub ask
{
	my ($self, $sql, $seconds) = @_;
	my $deadline = time() + ($seconds // 20);
	my $c = Wire->connect(port => $self->port, deadline => $deadline, name => 'chaos check');

	$self->{why} = $Wire::why;
	return undef unless $c;
	my $r = $c->query($sql, deadline => $deadline);
	$self->{why} = $r->{error} ? "$r->{error}{C} $r->{error}{M}" : $r->{lost} ? 'lost' : $r->{late} ? 'late' : undef;
	$c->close unless $r->{late};
	return $self->{why} ? undef : $r->{rows};
}

sub value
{
	my ($self, $sql, $seconds) = @_;
	my $rows = $self->ask($sql, $seconds);
	return $rows && @$rows ? $rows->[0][0] : undef;
}

# Several statements each on its own, for ALTER SYSTEM, which wants no transaction; true when all
# succeeded
sub run
{
	my ($self, @statements) = @_;
	foreach my $sql (@statements)
	{
		return 0 unless $self->ask($sql, 60);
	}
	return 1;
}

sub wait_until
{
	my ($self, $seconds, $condition) = @_;
	my $end = time() + $seconds;
	while (1)
	{
		return 1 if $condition->();
		return 0 if time() > $end;
		sleep(0.2);
	}
}

# What the kernel says a process holds: descriptors, and memfds by inode.
sub descriptors
{
	my ($pid) = @_;
	my ($count, %memfds) = (0);
	opendir(my $d, "/proc/$pid/fd") or return (0, {});
	foreach my $fd (grep { !/^\./ } readdir($d))
	{
		my $to = readlink("/proc/$pid/fd/$fd") // next;
		$count++;
		$memfds{ (stat("/proc/$pid/fd/$fd"))[1] // $fd } = 1 if $to =~ m{^/memfd:};
	}
	return ($count, \%memfds);
}

1;
