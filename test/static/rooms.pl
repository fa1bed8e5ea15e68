#!/usr/bin/env perl
# rooms.pl [FOLDER]: the folders of src use each other in one direction only, no files call each other in a circle, all that
# src exports is used there, and one file sets the hooks of PostgreSQL.
#
# Looks at what every file includes and, where objects lie beside the sources, at what every object calls (nm). A folder may
# use what stands before it in @rooms. Prints the graph of folders with -v. Exit status 1 when an arrow points the wrong way,
# or when nothing uses what is there.
use strict;
use warnings;

my $verbose = @ARGV && $ARGV[0] eq '-v' && shift;
chdir($ARGV[0] // '.') or die "$ARGV[0]: $!\n";

# From the bottom to the top.
my @rooms = qw(base provider batch vector shmem engine client flow remote serve exchange
  fdw/options fdw/deparse fdw/catalog fdw/plan fdw/exec fdw monitor .);

# Headers that rooms use of each other, by the room whose code they declare.
my %owner = (
	(map { $_ => 'base' } qw(wire guc compat sql_text as_role plan_node)),
	(map { $_ => 'batch' } qw(batch batches region)),
	(map { $_ => 'flow' } qw(flow reader group reassemble)),
	steps => 'remote', vector => 'vector',
	(map { $_ => $_ } qw(provider client remote serve exchange fdw)));

# Files that are one piece of code: a recursion through them is what they are for.
my @together = (
	# statements have expressions and FROM items, and these have statements
	[qw(fdw/deparse/querybuild fdw/deparse/querybuild_expr fdw/deparse/from_items fdw/deparse/exchange_text
		fdw/deparse/select fdw/deparse/sort_key fdw/deparse/shippable fdw/deparse/subselect)],
	# a decoder and a store, and their kinds
	[qw(batch/decode batch/decode_tuples)],
	[qw(serve/store serve/store_insert serve/store_update)],
	# a provider, and its transports
	[qw(provider/soft provider/soft_shm provider/soft_stream)],
	[qw(provider/verbs provider/verbs_cq provider/verbs_post provider/verbs_iwarp)],
);

# What nothing in src calls and src/exports.map does not name, but tests and benches cannot do without.
my %for_tests = map { $_ => 1 } (
	# the engine ends with its process; a program that goes on gives back what it made
	qw(rf_pool_destroy rf_values_destroy),
);

my %place = map { $rooms[$_] => $_ } 0 .. $#rooms;
my $bad = 0;
my %arrow;    # room -> room -> example

sub room_of
{
	my ($file) = @_;
	return $owner{$1} // complain("include/rdma_fdw/$1.h belongs to no room of test/static/rooms.pl")
	  if $file =~ m{^include/rdma_fdw/(\w+)\.h$};
	$file =~ m{^src/(?:(.*)/)?[^/]+$} or return;
	my $room = $1 // '.';
	exists $place{$room} or complain("src/$room is not among the rooms of test/static/rooms.pl");
	return $room;
}

sub complain
{
	print "$_[0]\n";
	$bad++;
	return;
}

sub arrow
{
	my ($from, $to, $why) = @_;
	my ($a, $b) = (room_of($from), room_of($to));
	return if !defined $a || !defined $b || $a eq $b;
	$arrow{$a}{$b} //= $why;
	complain("$from " . $why) if $place{$b} > $place{$a};
	return;
}

# ---------- includes ----------
my @files = grep { !m{/\.} } split /\n/, `find src include -name '*.[ch]'`;
my %exists = map { $_ => 1 } @files;
for my $file (@files)
{
	(my $folder = $file) =~ s{/[^/]+$}{};
	open(my $fh, '<', $file) or die "$file: $!\n";
	while (<$fh>)
	{
		next unless /^#include "([^"]+)"/;
		my ($header) = grep { $exists{$_} } "$folder/$1", "src/$1", "include/$1";
		arrow($file, $header, "includes $header") if defined $header;
	}
	close $fh;
}

# ---------- calls ----------
my (%defined_in, %wants);
my @objects = grep { $exists{ s/\.o$/.c/r } } split /\n/, `find src -name '*.o'`;
# one nm for all: to start it takes longer than to read an object
open(my $symbols, '-|', 'nm', '-A', @objects) or die "nm: $!\n";
while (<$symbols>)
{
	my ($file, $kind, $name) = /^(.+)\.o:.* ([A-Z]) (\w+)$/ or next;
	if ($kind =~ /[TDBRVC]/) { $defined_in{$name} = "$file.c"; }
	elsif ($kind eq 'U') { push @{ $wants{"$file.c"} }, $name; }
}
close $symbols;
my %calls;
for my $file (sort keys %wants)
{
	for my $name (@{ $wants{$file} })
	{
		my $other = $defined_in{$name} or next;
		arrow($file, $other, "calls $name of $other");
		$calls{$file}{$other} //= $name;
	}
}

# ---------- what nothing calls ----------
sub text_of
{
	my $all = '';
	for my $file (@_)
	{
		open(my $fh, '<', $file) or die "$file: $!\n";
		local $/;
		$all .= <$fh>;
		close $fh;
	}
	$all =~ s{/\*.*?\*/}{}gs;
	return $all;
}

my %wanted = map { $_ => 1 } map { @$_ } values %wants;
my $exports = text_of('src/exports.map');
my @exported = map { s/\*/.*/r } $exports =~ /^\s+([\w*]+);$/mg;
my ($exported) = map { qr/^(?:$_)$/ } join '|', grep { $_ ne '.*' } @exported;
my $others = text_of(split /\n/, `find test bench -name '*.[ch]'`);
my %text;
for my $name (sort keys %defined_in)
{
	next if $wanted{$name} || $name =~ $exported || $for_tests{$name};
	my $file = $defined_in{$name};
	my $uses = () = ($text{$file} //= text_of($file)) =~ /\b$name\b/g;
	if ($uses < 2) { complain("$name of $file is called by nothing in src"); }
	elsif ($others !~ /\b$name\b/) { complain("$name of $file is used there only: it should be static"); }
}

# ---------- hooks ----------
for my $file (@files)
{
	next if $file eq 'src/hooks.c';
	my %named = map { $_ => 1 } text_of($file) =~ /\b(?!rf_)([A-Za-z]\w*_hook)\b/g;
	complain("$file names $_: only src/hooks.c sets hooks of PostgreSQL") for sort keys %named;
}

# ---------- nodes of plans ----------
# Without a row in its table a field of such a node is lost on the way to a worker, and shared by copies.
{
	my (%rows, %seen);
	my $text = text_of(grep { !$seen{$_}++ } @files, glob 'include/*/*.h src/*.h src/*/*.h src/*/*/*.h');
	push @{ $rows{$1} }, $2 while $text =~ /\bRF_FIELD\((\w+),\s*(\w+)/g;
	push @{ $rows{$1} }, 'fetch' while $text =~ /\bFETCH_FIELDS\((Rf\w+)\)/g;
	my $nodes = 0;
	while ($text =~ /\btypedef struct (\w+)\s*\{\s*ExtensibleNode\s+node;(.*?)\}\s*\1;/gs)
	{
		my ($type, $body) = ($1, $2);
		my %row = map { $_ => 1 } @{ $rows{$type} // [] };
		$nodes++;
		$row{$_} or complain("$type.$_ has no RF_FIELD: it is neither copied nor sent to workers") for $body =~ /(\w+)\s*;/g;
	}
	$nodes or complain('no node of plans was found');
}

# ---------- circles of files ----------
my %piece;
for my $group (@together)
{
	$piece{"src/$_.c"} = $group->[0] for @$group;
}
my %graph;
for my $from (keys %calls)
{
	for my $to (keys %{ $calls{$from} })
	{
		my ($a, $b) = map { $piece{$_} // $_ } $from, $to;
		$graph{$a}{$b} = "$from calls $calls{$from}{$to} of $to" if $a ne $b;
	}
}
my (%state, @path);
sub visit
{
	my ($node) = @_;
	$state{$node} = 'open';
	push @path, $node;
	for my $next (sort keys %{ $graph{$node} // {} })
	{
		if (!$state{$next}) { visit($next); }
		elsif ($state{$next} eq 'open')
		{
			my ($start) = grep { $path[$_] eq $next } 0 .. $#path;
			my @circle = (@path[ $start .. $#path ], $next);
			complain("a circle:");
			print "  $graph{$circle[$_]}{$circle[$_ + 1]}\n" for 0 .. $#circle - 1;
		}
	}
	pop @path;
	$state{$node} = 'done';
	return;
}
visit($_) for grep { !$state{$_} } sort keys %graph;

if ($verbose)
{
	for my $room (@rooms)
	{
		print "$room -> ", join(' ', grep { $arrow{$room}{$_} } @rooms), "\n";
	}
}
printf "%d files, %d objects, %d wrong\n", scalar @files, scalar keys %wants, $bad if $verbose || $bad;
exit($bad ? 1 : 0);
