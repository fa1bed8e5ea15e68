#!/usr/bin/env perl
# questions.pl [--table] [FOLDER]: does test/lying know all statements that the extension sends to another server, and does docs/security.md
# list them?
#
# A place is a function that sends a statement: in C, one that hands a text, which is no parameter of its own, to libpq or to a
# function that passes it on; in the install scripts, one that calls rdma.run_on, rdma_internal.ask_node or rdma_internal.define_on. Each place needs an entry of
# test/lying/Lying/Questions.pm with as many calls. --table prints the table of docs/security.md.
# Exit status 1 when something is missing or left over.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lying";
use Functions qw(arguments c_files c_functions slurp sql_functions);
use Lying::Questions;

my $table = @ARGV && $ARGV[0] eq '--table' && shift;
chdir($ARGV[0] // "$FindBin::Bin/../..") or die "$!\n";

# Functions that send, and which argument is the text.
my %sends = (PQsendQuery => 1, PQsendQueryParams => 1, PQsendPrepare => 2, PQexec => 1, PQexecParams => 1, PQprepare => 2, rf_command_create => 1, rf_command_precede => 1);
my %called;    # place -> calls

sub calls
{
	my ($function) = @_;
	my @calls;
	while ($function->{body} =~ /\b(\w+)\s*(?=\()/g)
	{
		my $name = $1;
		my $place = $sends{"$function->{file}:$name"} // $sends{$name} // next;
		my (undef, @list) = arguments(substr($function->{body}, pos $function->{body}));
		my $text = ($list[$place] // next) =~ s/^\s+|\s+$//gr;
		my ($own) = grep { $function->{parameters}[$_] eq $text } 0 .. $#{ $function->{parameters} };
		push @calls, [ $text, $own ];
	}
	return @calls;
}

my @functions = map { c_functions($_) } c_files();
my $more = 1;
while ($more)
{
	$more = 0;
	foreach my $function (@functions)
	{
		my $key = $function->{static} ? "$function->{file}:$function->{name}" : $function->{name};
		my ($own) = grep { defined } map { $_->[1] } calls($function);
		next if !defined $own || defined $sends{$key};
		$sends{$key} = $own;
		$more = 1;
	}
}
foreach my $function (@functions)
{
	my $calls = grep { !defined $_->[1] && $_->[0] ne 'NULL' } calls($function);
	$called{"$function->{file}: $function->{name}"} = $calls if $calls;
}
my %sql = map { $_->{name} => $_ } map { sql_functions($_) } glob 'src/sql/*.sql';
foreach my $name (keys %sql)
{
	my $body = $sql{$name}{body} =~ s/^\s*--.*$//gmr =~ s/'(?:[^']|'')*'/''/gr;
	my $calls = () = $body =~ /\brdma\w*\.(?:run_on|ask_node|define_on)\(/g;
	$called{$name} = $calls if $calls;
}

my %known = map { $_->{place} => $_ } @Lying::Questions::questions;
my @wrong;
push @wrong, "$_ sends statements (calls: $called{$_}), and test/lying/Lying/Questions.pm has no entry for it" foreach grep { !$known{$_} } sort keys %called;
push @wrong, "test/lying/Lying/Questions.pm: $_ sends no statement" foreach grep { !$called{$_} } sort keys %known;
push @wrong, "$_ sends statements in $called{$_} calls, and test/lying/Lying/Questions.pm knows of $known{$_}{calls}" foreach grep { $called{$_} && $known{$_}{calls} != $called{$_} } sort keys %known;

my $lines = join('', map { my $place = $_->{place} =~ s/^src\/(.*): (\w+)$/`$1`, `$2`/r =~ s/^(rdma\w*\.\w+)$/`$1`/r; "| $place | $_->{asks} | $_->{check} |\n" } @Lying::Questions::questions);
if ($table) { print "| asked by | asked for | the answer |\n| --- | --- | --- |\n$lines"; }
else
{
	push @wrong, "docs/security.md: the table of questions is not what test/static/questions.pl --table prints" if index(slurp('docs/security.md'), "| --- | --- | --- |\n$lines\n") < 0;
}
print STDERR "$_\n" foreach @wrong;
exit(@wrong && !$table ? 1 : 0);
