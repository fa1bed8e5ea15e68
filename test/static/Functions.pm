# Functions.pm - the functions of C files, and what they call, for the scripts of this folder.
package Functions;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(arguments c_code c_files c_functions slurp sql_functions);

sub slurp
{
	my ($file) = @_;
	open(my $fh, '<', $file) or die "$file: $!\n";
	local $/;
	my $text = <$fh>;
	close $fh;
	return $text;
}

sub c_files
{
	return sort split /\n/, `find src -name '*.c'`;
}

# A call's arguments, from the opening parenthesis on; first how long they are.
sub arguments
{
	my ($text) = @_;
	my ($depth, $from, @list) = (0, 1);
	for my $i (0 .. length($text) - 1)
	{
		my $c = substr($text, $i, 1);
		if ($c =~ /[(\[{]/) { $depth++; }
		elsif ($c eq ',' && $depth == 1) { push @list, substr($text, $from, $i - $from); $from = $i + 1; }
		elsif ($c =~ /[)\]}]/ && --$depth == 0)
		{
			push @list, substr($text, $from, $i - $from);
			return ($i + 1, @list);
		}
	}
	return (length $text, @list, substr($text, $from));
}

# The text of a C file without comments, strings, characters and preprocessor lines; lines keep their numbers.
sub c_code
{
	my ($file) = @_;
	my $text = slurp($file);
	$text =~ s{(/\*.*?\*/)}{$1 =~ s/[^\n]//gr}gse;
	$text =~ s{"(?:[^"\\\n]|\\.)*"}{""}g;
	$text =~ s{'(?:[^'\\\n]|\\.)*'}{0}g;
	$text =~ s{^#.*$}{}gm;
	return $text;
}

# The functions of a file, or of its text as c_code returns it: file, name, static, pointer, line, body, parameters.
sub c_functions
{
	my ($file, $text) = @_;
	my @functions;
	$text //= c_code($file);
	while ($text =~ /^((?:__attribute__.*?|static|extern|[A-Za-z])[^;{}()#]*?(?:\(\([^()]*\)\)[^;{}()]*?)?)\b(\w+)(?=\()/gm)
	{
		my ($type, $name) = ($1, $2);
		my ($length, @list) = arguments(substr($text, pos $text));
		my $after = pos($text) + $length;
		next unless substr($text, $after) =~ /^\s*\n(\{\n.*?^\})/ms;
		my ($body, $open, $close) = ($1, $-[1], $+[0]);
		push @functions,
		  {
			file => $file, name => $name, body => $body,
			line => 1 + (substr($text, 0, $after + $open) =~ tr/\n//),
			static => $type =~ /\bstatic\b/ ? 1 : 0, pointer => $type =~ /\*/ ? 1 : 0,
			number => $type =~ /^(?:\s|static|inline|extern)*(?:bool|u?int(?:16|32|64)(?:_t)?|int|double|size_t|Oid)\s*$/ ? 1 : 0,
			parameters => [ map { s/\([^()]*\)\s*$//r =~ /(\w+)\W*$/ ? $1 : '' } @list ] };
		pos($text) = $after + $close;
	}
	return @functions;
}

# Name and body of each function and procedure of an install script.
sub sql_functions
{
	my ($file) = @_;
	my $text = slurp($file);
	my @functions;
	while ($text =~ /^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (rdma\w*\.\w+)\((?:(?!^CREATE).)*?\bAS (\$\w*\$)(.*?)\2/gms)
	{
		push @functions, { name => $1, body => $3, line => 1 + (substr($text, 0, $-[3]) =~ tr/\n//) };
	}
	return @functions;
}

1;
