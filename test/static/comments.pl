#!/usr/bin/env perl
# comments.pl FOLDER...: comments name only source files and functions that exist. A file is one of this tree, with or without its
# folders, or one of PostgreSQL's that is listed below; a function begins with rf_ or rdma_. Prints what is not there; exits with 1 then.
use strict;
use warnings;

# PostgreSQL's files that comments refer to
my %elsewhere = map { $_ => 1 } qw(explain.h latch.h outfuncs.c pg_statistic.h postgres.h readfuncs.c setrefs.c);

my @files = grep { chomp; 1 } map { qx(find '$_' -name '*.[ch]' | sort) } @ARGV;
my (%known_file, %known_name, @comments);

# Files that comments may name: all that are tracked or lie here
foreach my $path (grep { chomp; 1 } qx(find src include test bench sql docs -type f))
{
	my @part = split(/\//, $path);
	$known_file{ join('/', @part[ $_ .. $#part ]) } = 1 foreach 0 .. $#part;
}
foreach my $file (@files)
{
	open(my $in, '<', $file) or die "$file: $!\n";
	local $/;
	my $text = <$in>;
	close($in);
	my $line = 1;
	# comments, strings and the rest
	while ($text =~ m{\G(/\*.*?\*/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^/"']+|.)}gs)
	{
		my $piece = $1;
		if ($piece =~ m{^/\*}) { push @comments, [ $file, $line, $piece ]; }
		else { $known_name{$1} = 1 while $piece =~ /\b((?:rf|rdma|Rf|RF)_?\w*)\b/g; }
		$line += ($piece =~ tr/\n//);
	}
}
foreach my $sql (glob('src/sql/*.sql test/unit/*.[ch] bench/*/*.[ch] test/fuzz/*.c'))
{
	open(my $in, '<', $sql) or die "$sql: $!\n";
	while (<$in>) { $known_name{$1} = 1 while /\b((?:rf|rdma)_\w+)\b/g; $known_name{"rdma_$1"} = 1 while /\brdma(?:_internal)?\.(\w+)/g; }
}

my $bad = 0;

# FILE, the line of the comment, its text, the place in it, and what is wrong
sub complain
{
	my ($file, $line, $text, $place, $what) = @_;
	printf "%s:%d: %s\n", $file, $line + (substr($text, 0, $place) =~ tr/\n//), $what;
	$bad = 1;
}

foreach my $comment (@comments)
{
	my ($file, $line, $text) = @$comment;
	while ($text =~ m{(?<![\w./-])((?:\w+/)*\w+\.[ch])\b(?!\w)}g)
	{
		my $name = $1;
		next if $known_file{$name} || $elsewhere{$name};

		complain($file, $line, $text, $-[1], "there is no file $name");
	}
	while ($text =~ /\b((?:rf|rdma)_[a-z]\w+)\b(?!\.)/g)
	{
		my $name = $1;
		next if $known_name{$name} || $name =~ /^rdma_(fdw|core)$/;
		complain($file, $line, $text, $-[1], "nothing is called $name");
	}
}
exit($bad);
