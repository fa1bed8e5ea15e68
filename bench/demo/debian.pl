#!/usr/bin/perl
# debian.pl TABLE [NODES NODE]: this machine's package database as COPY text: packages, dependencies or files.
# With NODES and NODE only the rows of that node: all rows of one package are together. It reads /var/lib/dpkg and nothing else.
use strict;
use warnings;

my ($table, $nodes, $node) = @ARGV;
my $dpkg = $ENV{DPKG_DIR} || '/var/lib/dpkg';
die "usage: debian.pl packages|dependencies|files [NODES NODE]\n" unless ($table // '') =~ /^(packages|dependencies|files)$/;
$nodes //= 1;
$node //= 0;

# A field as COPY wants it; what is not UTF-8 (a few old file names are not) keeps its letters as Latin-1.
sub field
{
	my ($value) = @_;

	return '\\N' unless defined $value;
	utf8::encode($value) unless utf8::decode(my $copy = $value);
	$value =~ s/([\\\t\n\r])/{ '\\' => '\\\\', "\t" => '\\t', "\n" => '\\n', "\r" => '\\r' }->{$1}/ge;
	return $value;
}

sub row
{
	print join("\t", map { field($_) } @_), "\n";
}

open my $status, '<', "$dpkg/status" or die "debian.pl: $dpkg/status: $!\n";
local $/ = '';
while (my $paragraph = <$status>)
{
	my %p;
	while ($paragraph =~ /^([\w-]+):[ ]*(.*(?:\n[ \t].*)*)/mg)
	{
		$p{ lc $1 } = $2;
	}
	next unless ($p{status} // '') =~ /installed$/ && $p{status} !~ /not-installed|config-files/;
	next unless unpack('%32C*', $p{package}) % $nodes == $node;

	if ($table eq 'packages')
	{
		my ($summary) = split /\n/, $p{description} // '';
		my ($source) = split / /, $p{source} // $p{package};
		row(@p{qw(package version architecture)}, $source, @p{qw(section priority)}, $p{'installed-size'}, $summary);
	}
	elsif ($table eq 'dependencies')
	{
		foreach my $kind (qw(pre-depends depends recommends suggests conflicts breaks))
		{
			my $group = 0;
			foreach my $alternatives (split /,\s*/, $p{$kind} // '')
			{
				$group++;
				foreach my $one (split /\s*\|\s*/, $alternatives)
				{
					my ($name, $constraint) = $one =~ /^\s*([^\s:(]+)(?::\w+)?\s*(?:\((.*)\))?/ or next;
					row($p{package}, $p{architecture}, $kind, $group, $name, $constraint);
				}
			}
		}
	}
	else
	{
		my ($list) = grep { -e } "$dpkg/info/$p{package}:$p{architecture}.list", "$dpkg/info/$p{package}.list";
		next unless $list && open my $files, '<', $list;
		local $/ = "\n";
		while (my $path = <$files>)
		{
			chomp $path;
			row($p{package}, $p{architecture}, $path);
		}
	}
}
