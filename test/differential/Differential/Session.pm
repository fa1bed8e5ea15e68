# Session.pm: a psql that stays connected. run() hands it many statements at once; a session's server so never waits
# for us, and two sessions work at the same time when both were asked before the first answer is read.
package Differential::Session;

use strict;
use warnings;
use Errno;
use IPC::Open2;
use IO::Select;

my $mark = "\x1d";
my $column = "\x1f";
my $row = "\x1e";

sub new
{
	my ($class, %args) = @_;
	my $self = bless { %args }, $class;			# patience: seconds without output after which a server is given up

	$self->connect;
	return $self;
}

sub connect
{
	my ($self) = @_;
	# a server that crashed may still be on its way back
	foreach my $try (1 .. 60)
	{
		$self->{pid} = open2($self->{out}, $self->{in}, 'sh', '-c', 'exec "$@" 2>/dev/null', 'sh', $self->{psql} // 'psql', '-X', '-q', '-A', '-t', '-h', $self->{host}, '-p', $self->{port},
			'-U', $self->{user} // 'postgres', '-d', $self->{database} // 'postgres', '-F', $column, '-R', $row, '-P', 'null=<NULL>');
		binmode($self->{in}, ':utf8');
		print { $self->{in} } "\\set m '\\035'\nSET application_name = 'differential $self->{name}';\n\\echo :m END\n";
		$self->{in}->flush;
		$self->{buffer} = '';
		$self->{gone} = 0;
		return if defined $self->text(30);
		$self->close;
		sleep 1;
	}
	die "differential: no connection to port $self->{port}\n";
}

sub close
{
	my ($self) = @_;

	CORE::close($self->{in});
	CORE::close($self->{out});
	kill 'TERM', $self->{pid};
	waitpid($self->{pid}, 0);
}

# Asks; answers() waits for them.
sub ask
{
	my ($self, @statements) = @_;

	$self->{asked} = scalar(@statements);
	# psql may not have seen the end of the last one yet: it must not find more there
	unlink $self->{file};
	open(my $file, '>:utf8', $self->{file}) or die "$self->{file}: $!\n";
	print $file "$_;\n\\echo :m :SQLSTATE :ROW_COUNT :LAST_ERROR_MESSAGE :m\n" foreach @statements;
	print $file "\\echo :m END\n";
	CORE::close($file);
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } "\\i $self->{file}\n";
	$self->{in}->flush;
}

# What comes until the end; undef: the connection is gone, and what came until then is in buffer.
sub text
{
	my ($self, $seconds) = @_;
	my $text;

	wait_for($seconds, $self);
	return undef if $self->{buffer} !~ /$mark END\n\z/;
	$text = $self->{buffer};
	$self->{buffer} = '';
	return $text;
}

# Reads from all until each has answered, is gone, or has nothing to say for so many seconds. One that is not read stops when
# its pipe is full, with the locks of its transaction, for which another may wait.
sub wait_for
{
	my ($seconds, @sessions) = @_;

	while (@sessions = grep { !$_->{gone} && $_->{buffer} !~ /$mark END\n\z/ } @sessions)
	{
		my $select = IO::Select->new(map { $_->{out} } @sessions);
		$! = 0;
		my @ready = $select->can_read($seconds);
		return if !@ready && !$!{EINTR};
		foreach my $session (@sessions)
		{
			next if !grep { $_ == $session->{out} } @ready;
			$session->{gone} = 1 if !sysread($session->{out}, $session->{buffer}, 262144, length($session->{buffer}));
		}
	}
}

# [{state, count, message, rows}], fewer than were asked for if the connection was lost; it then is a new one.
sub answers
{
	my ($self) = @_;
	my $text = $self->text($self->{patience});
	my $lost = !defined $text;
	my @answers;

	$text = $self->{buffer} if $lost;
	my @pieces = split(/$mark/, $text, -1);
	while (@pieces >= 2)
	{
		my ($rows, $about) = splice(@pieces, 0, 2);
		my ($state, $count, $message) = $about =~ /^ (\w{5}) (\d*) ?(.*?) ?$/s or last;
		push @answers, { state => $state, count => $count || 0, message => $state eq '00000' ? '' : $message, text => $rows =~ s/\A\n//r };
	}
	# a lost connection shows as an error of psql's own, or as nothing
	if ($lost || @answers < $self->{asked} || grep { $_->{state} =~ /^57P0[12]$/ } @answers)
	{
		pop @answers while @answers && ($answers[-1]{state} =~ /^57P0/ || $answers[-1]{message} =~ /server closed the connection|no connection to the server/);
		$self->close;
		$self->connect;
	}
	return \@answers;
}

sub rows
{
	my ($answer) = @_;
	my $text = $answer->{text};

	return [] if $answer->{count} == 0;
	$text =~ s/\n\z//;
	return $text eq '' ? [''] : [ split(/$row/, $text, -1) ];
}

1;
