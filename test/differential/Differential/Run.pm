# Run.pm: generates cases, runs each over local tables and over a topology, compares, and reports what differs.
package Differential::Run;

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(min);
use Time::HiRes qw(time);
use Differential::Compare qw(difference partition_difference normal_rows);
use Differential::Schema qw(@topologies small_setup);
use Differential::Session;
use Differential::Shrink qw(shrink);
use Differential::Statement qw(case_of);

our @EXPORT_OK = qw(run_cases);

# What limits each statement; see run_cases()
my $timeout;
# What carries a generated statement, or looks at what it left behind
my $carrier = qr/^(BEGIN|COMMIT|ROLLBACK|SET|RESET|PREPARE|DEALLOCATE|FETCH|MOVE|CLOSE)\b|^SELECT \* FROM [\w.]+$/;

sub session { my ($self, $name) = @_; return Differential::Session->new(%{ $self->{connection} }, name => $name, file => "$self->{directory}/$name.sql", patience => 2 * $self->{timeout}); }

sub before
{
	my ($case, $schema, @settings) = @_;
	return ('RESET ALL', "SET search_path = $schema, public", $timeout, 'SET jit = off', @settings);
}

# The statements of one side of a case
sub side
{
	my ($case, $foreign) = @_;
	my @sql = map { $_->[0] } @{ $case->{statements} };

	return (@sql) if !$foreign || !$case->{none};
	return (@sql, 'SET rdma_fdw.push_down = none', @sql, 'RESET rdma_fdw.push_down');
}

# What leaves a case behind wherever it stopped
sub ending { my ($case) = @_; return $case->{statements}[0][0] eq 'BEGIN' ? ('ROLLBACK') : (); }

# How the answers of a case differ; undef: they agree. $r: of the foreign side, with those of push_down = none behind.
sub verdict
{
	my ($case, $l, $r) = @_;
	my $n = @{ $case->{statements} };

	foreach my $i (0 .. $n - 1)
	{
		my $ordered = $case->{statements}[$i][1];
		return 'crash' if !defined $r->[$i];
		return undef if !defined $l->[$i];
		my $how = difference($l->[$i], $r->[$i], $ordered, $case->{schema});
		return $how if defined $how;
	}
	if ($case->{none})
	{
		foreach my $i (0 .. $n - 1)
		{
			my $how = difference($r->[$i], $r->[ $n + 1 + $i ], $case->{statements}[$i][1], $case->{schema});
			return "none: $how" if defined $how;
		}
	}
	if ($case->{kind} eq 'partitioning')
	{
		return partition_difference(@$r[ 0 .. 3 ]);
	}
	return undef;
}

# Both sides at once; but one after the other if a statement leaves out rows that are locked, since some topologies have
# tables of `l` in them.
sub ask_both
{
	my ($self, $here, $there) = @_;

	$self->{here}->ask(@$here);
	Differential::Session::wait_for($self->{here}{patience}, $self->{here}) if grep { /\b(SKIP LOCKED|NOWAIT)\b/ } @$here;
	$self->{there}->ask(@$there);
	Differential::Session::wait_for($self->{here}{patience}, $self->{here}, $self->{there});
}

# A case by itself, in new sessions. Also over l2, unless it is known to be deterministic.
sub alone
{
	my ($self, $case) = @_;
	my ($here, $there) = @{$self}{qw(here there)};
	my @before = before($case, 'l', @{ $case->{both} });
	my @before_there = before($case, $case->{schema}, @{ $case->{both} }, @{ $case->{foreign} });
	my $l2 = [];

	ask_both($self, [ @before, side($case, 0), 'ROLLBACK', 'RESET ALL', 'SET search_path = l2, public', $timeout, 'SET enable_hashagg = off', 'SET enable_hashjoin = off', @{ $case->{both} }, side($case, 0), 'ROLLBACK' ],
		[ 'DISCARD ALL', @before_there, side($case, 1), 'ROLLBACK' ]);
	my @l = @{ $here->answers };
	my @r = @{ $there->answers };
	splice(@l, 0, scalar @before);
	splice(@r, 0, 1 + @before_there);
	my $n = @{ $case->{statements} };
	$l2 = [ @l[ $n + 6 + @{ $case->{both} } .. $#l ] ] if @l >= 2 * $n + 6 + @{ $case->{both} };
	return ([ @l[ 0 .. ($n <= @l ? $n : scalar @l) - 1 ] ], \@r, $l2);
}

# undef: agrees, or is not deterministic
sub fails
{
	my ($self, $case) = @_;
	my ($l, $r, $l2) = alone($self, $case);
	my $how = verdict($case, $l, $r);

	return ($how, $l, $r) if !defined $how || $how eq 'crash' || $how eq 'partitions' || !@$l2;
	my $l2_how = verdict({ %$case, none => 0, kind => '' }, $l, $l2);
	return ('not deterministic', $l, $r) if defined $l2_how;
	return ($how, $l, $r);
}

sub sample
{
	my ($answer) = @_;
	return "--   nothing: the connection was lost\n" if !defined $answer;
	return "--   ERROR $answer->{state}: " . ($answer->{message} =~ s/\n/\n--   /gr) . "\n" if $answer->{state} ne '00000';
	my @rows = map { s/\x1f/ | /gr =~ s/\n/\\n/gr } normal_rows($answer, 1);
	return "--   $answer->{count} rows\n" . join('', map { '--   ' . substr($_, 0, 200) . "\n" } @rows[ 0 .. ($#rows > 9 ? 9 : $#rows) ]);
}

# A script that sets up what the case needs and runs it
sub script
{
	my ($self, $case, $how, $l, $r) = @_;
	my @sql = map { "$_->[0];" } @{ $case->{statements} };
	my @setup = small_setup($case->{schema}, join(' ', map { $_->[0] } @{ $case->{statements} }), 'postgres', co => ":'co'", n1 => ":'n1'", n2 => ":'n2'");
	my $text = "-- $how; statement $case->{number} of seed $self->{seed}, topology $case->{schema}\n-- psql -h 127.0.0.1 -U postgres -p PORT -v co=PORT -v n1=PORT -v n2=PORT -f this, in three new clusters\n";

	foreach my $i (0 .. $#{ $case->{statements} })
	{
		my $ri = $how =~ /^none/ ? $i + @sql + 1 : $i;
		next if defined $r->[$ri] && defined $l->[$i] && !defined difference($l->[$i], $r->[$ri], $case->{statements}[$i][1], $case->{schema});
		$text .= "-- expected:\n" . sample($l->[$i]) . "-- came:\n" . sample($r->[$ri]);
		last;
	}
	foreach my $part (@setup)
	{
		my ($cluster, $sql) = @$part;
		$sql =~ s/':'(\w+)''/:'$1'/g;
		$text .= "\\c postgres postgres 127.0.0.1 :$cluster\n$sql";
	}
	$text .= join("\n", 'SET search_path = l, public;', (map { "$_;" } @{ $case->{both} }), @sql, 'RESET ALL;', "SET search_path = $case->{schema}, public;", (map { "$_;" } @{ $case->{both} }, @{ $case->{foreign} }), @sql) . "\n";
	$text .= join("\n", 'SET rdma_fdw.push_down = none;', @sql) . "\n" if $case->{none} && $how =~ /^none/;
	return $text;
}

sub report
{
	my ($self, $case, $how) = @_;
	if ($how =~ /^(refused|heavy)$/)
	{
		$self->{counts}{$how}++;
		$self->say("statement $case->{number} ($case->{schema}): $how") if $how eq 'heavy' || $self->{verbose};
		return;
	}
	my ($again, $l, $r) = fails($self, $case);

	if (!defined $again && $how ne 'crash')
	{
		$self->{counts}{'not repeatable'}++;
		$self->say("statement $case->{number} ($case->{schema}): $how, but not when it runs by itself");
		$again = "$how, but not by itself";
		push @{ $self->{unrepeatable} }, $case->{number};
	}
	elsif (defined $again && $again =~ /^(not deterministic|heavy|refused)$/)
	{
		$self->{counts}{$again}++;
		$self->say("statement $case->{number} ($case->{schema}): $again") if $self->{verbose};
		return;
	}
	else { $again //= 'crash, but not when it runs by itself'; }
	$self->{counts}{differences}++;
	$self->{kinds}{$again}++;
	# one script for each kind of error is enough
	my $limit = $again =~ /^(error|none: error|crash)/ ? 1 : 8;
	if ($self->{kinds}{$again} <= $limit && $self->{shrink_seconds} > 0 && $again !~ /itself|timeout/)
	{
		# what never changes the answer only makes scripts longer
		$case = { %$case, none => 0 } if $again !~ /^none/;
		my $small = shrink($case, sub { my ($how_small) = fails($self, $_[0]); return defined $how_small && $how_small eq $again; }, $self->{shrink_seconds});
		my ($how_small, $ls, $rs) = fails($self, $small);
		($case, $l, $r) = ($small, $ls, $rs) if defined $how_small && $how_small eq $again;
	}
	my $file = "$self->{directory}/$self->{seed}-$case->{number}.sql";
	open(my $out, '>:utf8', $file) or die "$file: $!\n";
	print $out script($self, $case, $again, $l, $r);
	close($out);
	push @{ $self->{files} }, $file;
	$self->say("statement $case->{number} ($case->{schema}): $again: $file");
}

sub say { my ($self, $text) = @_; $self->{say}->($text); }

# What the generator does wrong, with the shortest statement of each kind
sub count_error
{
	my ($self, $case, $l) = @_;
	my ($i) = grep { $l->[$_]{state} ne '00000' } 0 .. $#{ $case->{statements} };
	return if !defined $i;
	my $kind = $self->{errors}{ "$l->[$i]{state} " . ($l->[$i]{message} =~ s/"[^"]*"/"..."/gr) } //= { count => 0, sql => 'x' x 10000 };
	$kind->{count}++;
	$kind->{sql} = $case->{statements}[$i][0] if length($case->{statements}[$i][0]) < length($kind->{sql});
}

# Twenty cases that share topology and settings, in sessions that go on
sub run_group
{
	my ($self, $first, $last) = @_;
	my @cases = map { case_of($self->{seed}, $_, $self->{topologies}) } $first .. $last;
	my ($here, $there) = @{$self}{qw(here there)};
	my @before = before($cases[0], 'l', @{ $cases[0]{both} });
	my @before_there = before($cases[0], $cases[0]{schema}, @{ $cases[0]{both} }, @{ $cases[0]{foreign} });

	ask_both($self, [ @before, map { (side($_, 0), ending($_)) } @cases ], [ 'DISCARD ALL', @before_there, map { (side($_, 1), ending($_)) } @cases ]);
	my @l = @{ $here->answers };
	my @r = @{ $there->answers };
	splice(@l, 0, scalar @before);
	splice(@r, 0, 1 + @before_there);
	foreach my $case (@cases)
	{
		my $n = @{ $case->{statements} };
		my $m = $case->{none} ? 2 * $n + 2 : $n;
		my $end = scalar(() = ending($case));
		my $l = [ splice(@l, 0, min(scalar(@l), $n + $end)) ];
		my $r = [ splice(@r, 0, min(scalar(@r), $m + $end)) ];

		if (@$l < $n)
		{
			# both sides are of one server: it went down; whose statement it was shows by itself
			if (@$r < $m) { report($self, $case, 'crash'); }
			run_group($self, $case->{number} + 1, $last) if $case->{number} < $last;
			return;
		}
		$self->{counts}{cases}++;
		$self->{counts}{$case->{kind}}++;
		$self->{counts}{errors}++ if grep { $_->{state} ne '00000' } @$l;
		$self->{counts}{empty}++ if $case->{kind} eq 'select' && $l->[0]{state} eq '00000' && $l->[0]{count} == 0;
		count_error($self, $case, $l) if $self->{errors};
		my $how = verdict($case, $l, $r);
		if (!defined $how)
		{
			$self->{counts}{statements} += grep { $_->[0] !~ $carrier } @{ $case->{statements} };
			next;
		}
		report($self, $case, $how);
		return run_group($self, $case->{number} + 1, $last) if $how eq 'crash' && $case->{number} < $last;
	}
}

# args: connection (host, port, database, psql), directory, seed; count or duration (seconds); topologies (names),
# from (number of the first), shrink_seconds, say, timeout (seconds of a statement that only what hangs takes). Returns {counts, kinds, files, seconds}.
sub run_cases
{
	my (%args) = @_;
	my $self = bless {
		shrink_seconds => 60, timeout => 300, say => sub { print "$_[0]\n" }, topologies => [ map { $_->[0] } @topologies ], %args,
		counts => { map { $_ => 0 } qw(statements cases errors differences) }, kinds => {}, files => [] };
	$timeout = "SET statement_timeout = '$self->{timeout}s'";
	my $start = time();
	my $number = $args{from} || 1;
	my $end = $args{count} ? $number + $args{count} - 1 : undef;

	# a run that is stopped still says what it did
	my $stopped = 0;
	local $SIG{TERM} = sub { $stopped = 1; };

	mkdir $self->{directory};
	$self->{here} = session($self, 'here');
	$self->{there} = session($self, 'there');
	while (!$stopped && (!defined $end || $number <= $end) && (!$args{duration} || time() - $start < $args{duration}))
	{
		my $last = $number - $number % 20 + 19;
		$last = $end if defined $end && $last > $end;
		run_group($self, $number, $last);
		my $before = $number;
		$number = $last + 1;
		$self->say(sprintf('%d cases, %d statements, %d differences, %.0f a second', $self->{counts}{cases}, $self->{counts}{statements}, $self->{counts}{differences}, $self->{counts}{statements} / (time() - $start)))
		  if $self->{progress} && int($number / $self->{progress}) != int($before / $self->{progress});
	}
	$_->close foreach @{$self}{qw(here there)};
	$self->{seconds} = time() - $start;
	return $self;
}

1;
