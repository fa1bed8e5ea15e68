# Output.pm: what psql printed for an SQL input, without what may depend on a plan.
package Settings::Output;

use strict;
use warnings;
use Exporter 'import';
use File::Basename qw(dirname);

our @EXPORT_OK = qw(normal exceptions);

# exceptions(FILE): {input => [regexes of statements]} of the lines "INPUT /REGEX/ REASON"
sub exceptions
{
	my ($file) = @_;
	my %exceptions;

	open(my $in, '<', $file) or die "$file: $!\n";
	while (<$in>)
	{
		next if /^\s*(#|$)/;
		m{^(\S+)\s+/(.*)/\s+(\S.*)$} or die "$file: line $.: INPUT /REGEX/ REASON is expected\n";
		push @{ $exceptions{$1} }, qr/$2/is;
	}
	return \%exceptions;
}

# What a function that says a plan may say besides: that rows are others than they should be, or an error
my $compared = qr/\bdiffer|\bwrong\b|\bnot as\b|instead of|\*\*\*|, f$|^(ERROR|FATAL|PANIC|WARNING)/i;
sub compared
{
	my (@lines) = @_;
	my $same = $lines[0] =~ /\| *same *$/;
	return grep { /$compared/ || ($same && /\| *f$/) } @lines;
}

# The text of an input and of the files of test/setup that it includes
sub with_setup
{
	my ($input) = @_;
	my $text = join("\n", @$input);

	foreach my $file ($text =~ m{^\\set \w+ :tree '(/test/setup/\w+\.sql)'$}mg)
	{
		local $/;
		open(my $in, '<', dirname(__FILE__) . "/../../..$file") or die "$file: $!\n";
		$text .= "\n" . <$in>;
	}
	return $text;
}

# explainers(INPUT): the names of functions of an input that say a plan, by themselves or by calling one that does
sub explainers
{
	my ($input) = @_;
	my $text = with_setup($input);
	my (%body, %says);

	while ($text =~ /^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE)\s+(?:\w+\.)?(\w+)\s*\(((?:(?!^CREATE\b).)*?)(\$\w*\$)(.*?)\g3/gmsi)
	{
		$body{$1} .= $4;
	}
	my $before = -1;
	while ($before != keys %says)
	{
		$before = keys %says;
		my $called = join('|', 'EXPLAIN\b', map { "\\b$_\\(" } keys %says);
		$body{$_} =~ /$called/i and $says{$_} = 1 foreach keys %body;
	}
	return keys %says;
}

# Is there an order of the whole answer?
sub ordered
{
	my ($statement) = @_;
	1 while $statement =~ s/\([^()]*\)//g;
	return $statement =~ /\bORDER\s+BY\b/i;
}

# Rows of tables in an answer, in any order unless the statement says one; plans are taken out
sub answer
{
	my ($statement, @lines) = @_;
	my @out;

	# which statement a node ran is a matter of plans
	@lines = grep { !/^(CONTEXT:  |remote SQL command: )/ } @lines;
	# rows without headings come in any order, too
	if (!grep { /^-{2,}(\+-+)*$|^ *QUERY PLAN *$/ } @lines)
	{
		return $statement =~ /^\s*(SELECT|WITH|TABLE|VALUES)\b/i && !ordered($statement) ? sort(@lines) : @lines;
	}

	for (my $i = 0; $i < @lines; $i++)
	{
		my $separator = $lines[$i] =~ /^ *QUERY PLAN *$/ ? $i : $i + 1 < @lines && $lines[ $i + 1 ] =~ /^-{2,}(\+-+)*$/ ? $i + 1 : undef;
		my $end;
		if (defined $separator)
		{
			($end) = grep { $lines[$_] =~ /^\(\d+ rows?\)$/ } $separator + 1 .. $#lines;
		}
		if (!defined $end)
		{
			push @out, $lines[$i];
			next;
		}
		if ($lines[$i] =~ /^ *QUERY PLAN *$/)
		{
			push @out, '(a plan)';
		}
		else
		{
			my @rows = @lines[ $separator + 1 .. $end - 1 ];
			@rows = sort @rows if !ordered($statement);
			# widths depend on rows, which are compared
			push @out, $lines[$i], @rows, $lines[$end];
		}
		$i = $end;
	}
	return @out;
}

# normal(OUTPUT, INPUT, EXCEPTIONS): lines of both as arrays. The echo of the input tells which statement an answer is of.
sub normal
{
	my ($output, $input, $exceptions) = @_;
	my ($at, $statement, $open, @answer, @out) = (0, '', 0);
	my $explains = join('|', map { "\\b$_\\(" } explainers($input));
	my $flush = sub {
		return if !@answer;
		if (grep { $statement =~ $_ } @$exceptions) { push @out, '(not compared)'; }
		elsif ($statement =~ /^\s*EXPLAIN\b/i || ($explains && $statement =~ /$explains/i)) { push @out, grep { $_ ne '' } sort(compared(@answer)); }
		else { push @out, answer($statement, @answer); }
		@answer = ();
	};

	foreach my $line (@$output)
	{
		my $is = $at;
		# empty lines are not echoed
		$is++ while $is < @$input && $input->[$is] =~ /^$/;
		if (!($is < @$input && $line eq $input->[$is]))
		{
			undef $is;
			# lines of COPY are not either; ECHO none, if it is not the next line, is that of an included file
			if ($line =~ /^(\\|[A-Z]{3}).*[;\w]$/ && $line ne '\set ECHO none')
			{
				($is) = grep { $_ < @$input && $line eq $input->[$_] } $at .. $at + 300;
			}
		}
		if (!defined $is)
		{
			push @answer, $line;
			next;
		}
		$flush->();
		$statement = '' if !$open;
		my $code = $line =~ s/--.*//r;
		$statement .= "$code\n";
		$open = $code !~ /;\s*$|^\\|\\(gset|gexec|gx?)\b/ && ($code =~ /\S/ || $open);
		push @out, $line;
		$at = $is + 1;
		# a set-up is not echoed
		if ($line eq '\set ECHO none')
		{
			$at++ while $at < @$input && $input->[$at] ne '\set ECHO all';
			$at++;
		}
	}
	$flush->();
	return @out;
}

1;
