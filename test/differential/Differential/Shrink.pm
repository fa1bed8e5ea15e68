# Shrink.pm: makes a failing case short. It takes tokens away, and whole settings and statements, as long as
# $still->(case) says that the rest fails in the same way. What is no SQL any more fails in another way.
package Differential::Shrink;

use strict;
use warnings;
use Exporter 'import';
use Time::HiRes qw(time);

our @EXPORT_OK = qw(shrink);

sub tokens
{
	my ($sql) = @_;
	return $sql =~ /(E?'(?:[^'\\]|''|\\.)*'(?:::[\w\[\]]+(?:\(\d+\))?)?|"[^"]*"|\$\d+|\w+(?:\.\w+|\.\*)*|::\s*[\w\[\]]+(?:\(\d+\))?|<=|>=|<>|->>|->|@>|<<|\|\||&&|@@|\S)/gs;
}

sub text { return join(' ', @_) =~ s/ ([,)])/$1/gr =~ s/\( /(/gr =~ s/ ::/::/gr; }

# Where the parenthesis at $i ends
sub closing
{
	my ($tokens, $i) = @_;
	my $depth = 0;
	for my $j ($i .. $#$tokens)
	{
		$depth++ if $tokens->[$j] eq '(';
		$depth-- if $tokens->[$j] eq ')';
		return $j if $depth == 0;
	}
	return undef;
}

# Lists of tokens to try instead of these, shorter ones first
sub candidates
{
	my ($tokens) = @_;
	my $n = @$tokens;
	my @lists;

	# what is between parentheses: gone with them, without them, or a constant
	for my $i (grep { $tokens->[$_] eq '(' } 0 .. $n - 1)
	{
		my $j = closing($tokens, $i) // next;
		my @before = @$tokens[ 0 .. $i - 1 ];
		my @after = @$tokens[ $j + 1 .. $n - 1 ];
		push @lists, [ @before, 'NULL', @after ], [ @before, '1', @after ], [ @before, 'true', @after ], [ @before, @$tokens[ $i + 1 .. $j - 1 ], @after ] if $j > $i + 1;
		push @lists, [ @$tokens[ 0 .. $i - 2 ], @$tokens[ $i + 1 .. $j - 1 ], @after ] if $i > 0 && $tokens->[ $i - 1 ] =~ /^\w+$/;
	}
	# a whole query is one of its parentheses
	for my $i (grep { $tokens->[$_] eq '(' && ($tokens->[ $_ + 1 ] // '') =~ /^(SELECT|\()$/i } 0 .. $n - 1)
	{
		my $j = closing($tokens, $i) // next;
		push @lists, [ @$tokens[ $i + 1 .. $j - 1 ] ];
	}
	# any piece of some length
	my %lengths = map { $_ => 1 } 1 .. 12, 16, 24, 32, 48, 64, 96, 128;
	foreach my $length (grep { $_ < $n } keys %lengths)
	{
		my $step = $length > 12 ? int($length / 8) : 1;
		for (my $i = 0; $i + $length <= $n; $i += $step)
		{
			my $depth = 0;
			foreach my $t (@$tokens[ $i .. $i + $length - 1 ])
			{
				$depth += $t eq '(' ? 1 : $t eq ')' ? -1 : 0;
				last if $depth < 0;
			}
			push @lists, [ @$tokens[ 0 .. $i - 1 ], @$tokens[ $i + $length .. $n - 1 ] ] if $depth == 0;
		}
	}
	return sort { @$a <=> @$b } @lists;
}

sub with_statement
{
	my ($case, $i, $sql) = @_;
	my @statements = @{ $case->{statements} };

	$statements[$i] = [ $sql, $statements[$i][1] ];
	return { %$case, statements => \@statements };
}

sub without
{
	my ($case, $key, $i) = @_;
	my @list = @{ $case->{$key} };

	splice(@list, $i, 1);
	return { %$case, $key => \@list };
}

sub shrink
{
	my ($case, $still, $seconds) = @_;
	my $end = time() + $seconds;
	my $smaller = 1;

	# transactions stay as they are: nothing may be left behind for the next case
	my $fixed = qr/^(BEGIN|COMMIT|ROLLBACK)/;
	while ($smaller && time() < $end)
	{
		$smaller = 0;
		foreach my $key (qw(both foreign statements))
		{
			next if $key eq 'statements' && $case->{kind} =~ /partitioning/;
			for (my $i = $#{ $case->{$key} }; $i >= 0; $i--)
			{
				next if $key eq 'statements' && $case->{statements}[$i][0] =~ $fixed;
				my $try = without($case, $key, $i);
				next if !@{ $try->{statements} };
				if ($still->($try)) { $case = $try; $smaller = 1; }
			}
		}
		# the four of a partitioning belong together
		last if $case->{kind} eq 'partitioning';
		foreach my $i (0 .. $#{ $case->{statements} })
		{
			my $progress = $case->{statements}[$i][0] !~ $fixed;
			while ($progress && time() < $end)
			{
				$progress = 0;
				my @tokens = tokens($case->{statements}[$i][0]);
				foreach my $list (candidates(\@tokens))
				{
					last if time() > $end;
					next if @$list >= @tokens && "@$list" eq "@tokens";
					next if length("@$list") >= length("@tokens");
					my $try = with_statement($case, $i, text(@$list));
					next if !$still->($try);
					$case = $try;
					$smaller = $progress = 1;
					last;
				}
			}
		}
	}
	return $case;
}

1;
