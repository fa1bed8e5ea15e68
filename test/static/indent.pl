#!/usr/bin/env perl
# indent.pl [--check] TREE [FILE ...]: formats the C files of TREE as pgindent does, with comments of at most 100 columns. With --check
# it changes nothing and prints the files that are not formatted; exit code 1 if there are any. Longer lines of code are counted by
# house.pl, as pg_bsd_indent does not break them. Needs pg_bsd_indent (Debian: pg-bsd-indent). The names of other projects' types are
# in typedefs.list beside this file; ours are found in the headers and sources.
use strict;
use warnings;

my $columns = 100;
my $options = "-bad -bap -bbb -bc -bl -cli1 -cp33 -cdb -nce -d0 -di12 -nfc1 -i4 -l$columns -lp -lpl -nip -npro -sac -tpg -ts4";

my $check = @ARGV && $ARGV[0] eq '--check' && shift @ARGV;
my $tree = shift @ARGV or die "usage: indent.pl [--check] TREE [FILE ...]\n";
chdir $tree or die "$tree: $!\n";
system('command -v pg_bsd_indent >/dev/null') == 0
  or die "there is no pg_bsd_indent: install the package pg-bsd-indent (make install-deps)\n";

sub read_file
{
	my ($name) = @_;
	open my $file, '<', $name or die "$name: $!\n";
	local $/;
	return scalar <$file>;
}

my @all = sort map { glob "$_/*.[ch] $_/*/*.[ch] $_/*/*/*.[ch]" } qw(src include bench test);
my %source = map { $_ => read_file($_) } @all;
my @files = @ARGV ? @ARGV : @all;

my %types = map { $_ => 1 } split /\s+/, read_file('test/static/typedefs.list');
for (values %source)
{
	my @names = (/^\}\s*(\w+);/gm, /\btypedef\s[^;{}()]*?\b(\w+);/g, /\btypedef\s[^;{}]*?\(\*\s*(\w+)\)/g);
	$types{$_} = 1 for grep { /^[A-Z]|_t(ype)?$/ } @names;
}
my $temporary = "/tmp/rdma_fdw_indent.$$";
open my $list, '>', "$temporary.types" or die "$temporary.types: $!\n";
print $list map { "$_\n" } sort keys %types;
close $list;

my @hidden;

# Initializers and compound literals of one line: pg_bsd_indent takes their braces for blocks. Each is a name of the same length while it
# works.
sub hide
{
	my ($line) = @_;
	my $strings = qr/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/;
	my $inner;
	$inner = qr/\{(?:[^{}"';]|$strings|(??{$inner}))*\}/;
	return $line if $line =~ /^\s*(?:#|\*|\/\*)/ || $line !~ /\{.+\}|__asm__|__attribute__|alignas/;
	my ($code, $comment) = $line =~ /^((?:[^"'\/]|$strings|\/(?!\*))*)(.*)$/;
	$code =~ s{(__asm__ [^;]*|__attribute__\(\(.*?\)\)(?= \w)|alignas\(\w+\))}{
		push @hidden, $1; sprintf('H%04d', $#hidden) . 'q' x (length($1) - 5)
	}ge;
	$code =~ s{(^\s*|[=,(]\s*|\)\s?)($inner)}{
		my ($before, $text) = ($1, $2);
		if (length $text < 6) { "$before$text" }
		else { push @hidden, $text; $before . sprintf('H%04d', $#hidden) . 'q' x (length($text) - 5) }
	}ge;
	return $code . $comment;
}

# An expression that goes on in the next line of a declaration is indented there, which pg_bsd_indent does in other statements only.
sub continued
{
	my ($text) = @_;
	my ($base, $goes_on, $comment) = ('', 0, 0);
	my @lines = split /\n/, $text, -1;
	for (@lines)
	{
		if ($comment || /^\s*\/\*/)
		{
			$comment = !/\*\//;
			next;
		}
		next if /^#/ || /^\s*$/;
		my ($tabs) = /^(\t*)/;
		(my $code = $_) =~ s!\s*/\*.*!!;
		if (!$goes_on) { $base = $tabs; }
		elsif ($goes_on == 2 && $tabs eq $base && $code !~ /^\s*[{}]/) { $_ = "\t$_"; }
		$comment = 1 if m!/\*! && !m!\*/!;
		$goes_on = $code =~ /(?:&&|\|\||[?=+|]| -| :)$/ && $code !~ /^\s*(?:case\b|default\b|\w+:$)/ ? 2 : $code =~ /[,(]$/ ? 1 : 0;
	}
	return join "\n", @lines;
}

sub indented
{
	my ($text, $name) = @_;
	@hidden = ();
	$text = join "\n", map { hide($_) } split /\n/, $text, -1;
	open my $in, '>', "$temporary.c" or die "$temporary.c: $!\n";
	print $in $text;
	close $in;
	my $messages = `pg_bsd_indent $options -U$temporary.types $temporary.c $temporary.out 2>&1`;
	die "$name: $messages" if $? || $messages ne '';
	$text = read_file("$temporary.out");
	unlink "$temporary.out", "$temporary.c";
	# As pgindent: one space before the * of a function's return type; comments side by side are apart.
	$text =~ s/^([A-Za-z_][\w ]*?)[ \t]+\*$/$1 */gm;
	$text =~ s!\*/(/\*.*\*/)$!*/\t$1!gm;
	$text =~ s/,([.\[][a-zA-Z_])/, $1/g;
	$text =~ s/\[(\w+)\.\.\./[$1 ... /g;
	$text = continued($text);
	# Strings of a list outside of functions
	$text =~ s/^(?=")/\t/gm;
	$text =~ s/H(\d{4})q*/$1 < @hidden ? $hidden[$1] : $&/ge;
	return $text;
}

my $bad = 0;
for my $name (@files)
{
	my $text = eval { indented($source{$name} // read_file($name), $name) };
	if (!defined $text)
	{
		print $@;
		$bad = 1;
		next;
	}
	if ($text ne $source{$name})
	{
		if ($check)
		{
			print "$name: not formatted (make indent formats it)\n";
			$bad = 1;
		}
		else
		{
			open my $file, '>', $name or die "$name: $!\n";
			print $file $text;
			close $file;
		}
	}
}
unlink "$temporary.types";
exit $bad;
