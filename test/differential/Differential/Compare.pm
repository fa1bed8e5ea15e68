# Compare.pm: do two sides agree? difference() gives undef where they do, else a short name of how they do not; the
# same defect gives the same name more often than not.
package Differential::Compare;

use strict;
use warnings;
use Exporter 'import';
use Differential::Schema qw(refuses);
use Differential::Session;

our @EXPORT_OK = qw(difference partition_difference normal_rows);

# Equal values of some types have more than one text: scales of numeric, blanks after bpchar
sub normal
{
	my ($row) = @_;
	return join("\x1f", map {
			my $field = $_;
			$field =~ s/^(-?\d+)\.(\d*?)0+$/length($2) ? "$1.$2" : $1/e;
			$field =~ s/ +$//;
			$field } split(/\x1f/, $row, -1));
}

sub normal_rows
{
	my ($answer, $ordered) = @_;
	my @rows = map { normal($_) } @{ Differential::Session::rows($answer) };
	return $ordered ? @rows : sort @rows;
}

sub same_rows
{
	my ($l, $r, $ordered) = @_;

	return 0 if $l->{count} != $r->{count};
	return 1 if $l->{text} eq $r->{text};
	return join("\x1e", normal_rows($l, $ordered)) eq join("\x1e", normal_rows($r, $ordered));
}

# One statement; $schema: of the topology that gave $r
sub difference
{
	my ($l, $r, $ordered, $schema) = @_;

	return 'crash' if !defined $r;
	if ($l->{state} ne '00000' || $r->{state} ne '00000')
	{
		# what no server ends in time says nothing about the other
		return 'heavy' if $l->{state} eq '57014';
		return 'timeout' if $r->{state} eq '57014';
		return undef if $l->{state} eq $r->{state};
		# the nodes may be able to make a full join that cannot be made here
		return 'refused' if $l->{state} eq '0A000' && $l->{message} =~ /^FULL JOIN is only/ && $r->{state} eq '00000';
		return 'refused' if $r->{state} eq '0A000' && refuses($schema, $r->{message});
		return "no error ($l->{state})" if $r->{state} eq '00000';
		return "error $r->{state}: " . ($r->{message} =~ s/"[^"]*"/"..."/gr =~ s/\d+/N/gr);
	}
	return undef if same_rows($l, $r, $ordered);
	return 'count' if $l->{count} != $r->{count};
	return 'order' if $ordered && same_rows($l, $r, 0);
	return 'values';
}

# The first answer has the rows of the three others together.
sub partition_difference
{
	my ($all, @parts) = @_;

	return undef if grep { !defined $_ || $_->{state} ne '00000' } $all, @parts;
	return join("\x1e", normal_rows($all)) eq join("\x1e", sort map { normal_rows($_) } @parts) ? undef : 'partitions';
}

1;
