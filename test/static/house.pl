#!/usr/bin/env perl
# house.pl [--record] [--show NAME] [FOLDER]: how simple the tree is, in numbers.
#
# Prints a table: each measure's value today, the value that test/static/house.txt allows, and the limit that is aimed at. Exits
# with 1 if a value is above what is allowed. The file works as a ratchet: where a limit is not reached yet it holds an
# earlier value, which may only get smaller, and otherwise the limit itself. --record writes the smaller values of today into the
# file. --show NAME lists the places that a measure counts.
#
# The English is counted in comments of C, in messages (strings of src with three words or more, except SQL) and in the
# documents without their code; per 10,000 words of these. CHANGELOG.md and the logs of test runs are history and not counted.
use strict;
use warnings;

my ($record, $show) = (0, '');
while (@ARGV && $ARGV[0] =~ /^--/)
{
	my $option = shift;
	if ($option eq '--record') { $record = 1; }
	elsif ($option eq '--show' && @ARGV) { $show = shift; }
	else { die "usage: house.pl [--record] [--show NAME] [FOLDER]\n"; }
}
chdir($ARGV[0] // '.') or die "$ARGV[0]: $!\n";

my $allowed_file = 'test/static/house.txt';

# Name, what it counts, limit. Names are those in house.txt.
my @measures = (
	[ lines => 'lines of src and include', 86000 ],
	[ custom_scans => 'custom scans', 4 ],
	[ hooks => 'hook installations', 12 ],
	[ hook_files => 'files that install hooks', 1 ],
	[ row_stores => 'files that create a store of rows', 2 ],
	[ settings => 'settings', 40 ],
	[ functions => 'functions in schema rdma', 50 ],
	[ fields => 'fields of the largest structure', 40 ],
	[ private_places => 'places in lists of fdw_private', 0 ],
	[ long_lines => 'lines over 100 columns in C', 0 ],
	[ bare_functions => 'functions over 15 lines without a comment', 0 ],
	[ same_names => 'files that share their name with another', 0 ],
	[ long_outputs => 'expected outputs over 400 lines', 0 ],
	[ subjects => 'commit subjects over 72 characters', 0 ],
	[ none => '"none", per 10,000 words', 3 ],
	[ those_that => '"those that", "one that", "ones"', 8 ],
	[ others => '"others", "another one", "the other"', 4 ],
	[ what => '"what" as a noun', 25 ],
	[ questions => 'headers that ask a question', 10 ],
	[ of => 'headers that begin with "Of"', 0 ],
	[ who => '"who" for code', 0 ],
);

# Persons, who may be "who"
my $person = qr/(?:users?|superusers?|owners?|administrators?|attackers?|readers?|people|persons?|everybody|anybody|somebody|nobody
  |everyone|anyone|someone|maintainers?|contributors?|authors?|man|operators?|clients?|developers?|newcomers?)/xi;

# What counts in a text, by measure. Headers are the comments' first sentences.
my %english = (
	none => qr/\b[Nn]one\b/,
	those_that => qr/\b(?:those|one)\s+(?:that|which|who)\b|\bones\b|\b(?:that|those)\s+of\b/i,
	others => qr/\bothers\b|\banother\s+one\b|(?<!after )\bthe\s+other(?=\s*(?:[.,;:?)]|$))/i,
	what => qr/\bwhat(?:ever)?\b/i,
	who => qr/(?<!$person )\bwho(?:ever|m)?\b/i,
);

my (%places, %value);

# A place that the measure counts
sub found
{
	my ($name, $file, $line, $text) = @_;
	$text =~ s/\s+/ /g;
	push @{ $places{$name} }, "$file:$line: $text";
}

sub content
{
	my ($file) = @_;
	open(my $in, '<', $file) or die "$file: $!\n";
	local $/;
	my $text = <$in>;
	close($in);
	return $text;
}

# files(NAMES, FOLDER...), sorted
sub files
{
	my ($names, @folders) = @_;
	my @folder = grep { -d $_ } @folders;
	return @folder ? sort(grep { chomp; /$names/ } qx(find @folder -type f)) : ();
}

# How often the line breaks before a place in a text
sub line_at
{
	my ($text, $place) = @_;
	return 1 + (substr($text, 0, $place) =~ tr/\n//);
}

# The text with comments, and the insides of strings if wanted, replaced by spaces; lines stay.
sub blank
{
	my ($text, $strings_too) = @_;
	my $space = sub { my ($piece) = @_; $piece =~ s/[^\n]/ /g; return $piece; };
	$text =~ s{(/\*.*?\*/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')}{$1 ? $space->($1) : $strings_too ? $space->($2) : $2}gse;
	return $text;
}

#----- the code -----

my @source = files(qr/\.[ch]$/, qw(src include));
my %text = map { $_ => content($_) } @source, files(qr/\.[ch]$/, qw(test bench));
my %code = map { $_ => blank($text{$_}, 1) } @source;

$value{lines} = 0;
$value{fields} = 0;
my (%scans, %hook_file, %same, %declared);
foreach my $file (@source)
{
	my $number = 0;
	foreach my $line (split(/\n/, $text{$file}))
	{
		my $wide = '';
		$wide .= $_ eq "\t" ? ' ' x (4 - length($wide) % 4) : $_ foreach split(//, $line);
		$number++;
		found(long_lines => $file, $number, $line) if length($wide) > 100;
	}
	$value{lines} += $number;

	my $code = $code{$file};
	found(custom_scans => $file, line_at($code, $-[0]), 'registered') while $code =~ /\bRegisterCustomScanMethods\s*\(/g;
	found(settings => $file, line_at($code, $-[0]), 'defined') while $code =~ /\bDefineCustom\w+Variable\s*\(/g;
	while ($code =~ /^\s+(\w+_hook)\s*=[^=]/gm)
	{
		my $name = $1;
		next if $name =~ /^(?:rf_|previous_|prev_)/;
		found(hooks => $file, line_at($code, $-[0]), $name);
		found(hook_files => $file, line_at($code, $-[0]), $name) unless $hook_file{$file}++;
	}
	if ($code =~ /\b(?:tuplestore_begin_heap|BufFileCreateTemp|BufFileCreateFileSet)\s*\(/)
	{
		found(row_stores => $file, line_at($code, $-[0]), 'created');
	}
	# structures: a field for each declarator
	while ($code =~ /\bstruct\s+(\w+)?\s*(\{(?:[^{}]++|(?2))*\})/g)
	{
		my ($name, $body, $place) = ($1 // 'without a name', $2, $-[0]);
		my $fields = 0;
		1 while $body =~ s/\([^()]*\)|\[[^\[\]]*\]//g;
		foreach my $part (split(/;/, $body)) { $fields += 1 + ($part =~ tr/,//) if $part =~ /\w/; }
		found(fields => $file, line_at($code, $place), "$name $fields") if $fields > 40;
		$value{fields} = $fields if $fields > $value{fields};
	}
	# lists in fdw_private are read by the members of these
	while ($code =~ /\btypedef\s+enum\s+\w+\s*\{([^{}]*)\}\s*(\w+(?:PrivateIndex|NodesIndex|ComputeIndex|Exprs))\s*;/g)
	{
		my ($members, $name, $place) = ($1, $2, $-[0]);
		foreach my $member (grep { /\w/ && !/_N(?:PRIVATE|\w*)?\s*$/ } split(/,/, $members))
		{
			found(private_places => $file, line_at($code, $place), "$name: $member");
		}
	}
	(my $name = $file) =~ s{.*/}{};
	push @{ $same{$name} }, $file;
}
foreach my $name (sort keys %same)
{
	next if @{ $same{$name} } < 2;
	found(same_names => $_, 1, $name) foreach @{ $same{$name} };
}

# Functions with a comment at a declaration: in its paragraph, or above it
foreach my $file (@source)
{
	my $place = 0;
	foreach my $paragraph (split(/\n\s*\n/, $text{$file}))
	{
		next unless $paragraph =~ m{/\*};
		my $plain = blank($paragraph, 1);
		next if $plain =~ /^\{/m && $file =~ /\.c$/;
		$declared{$1} = 1 while $plain =~ /\b(\w+)\s*\([^;{}]*\)[^;{}()]*(?:\([^;{}]*\)[^;{}()]*)*;/g;
	}
}
foreach my $file (@source)
{
	my @line = split(/\n/, $text{$file});
	my @code = split(/\n/, $code{$file});
	my $begin;
	foreach my $i (0 .. $#line)
	{
		$begin = $i if $line[$i] eq '{';
		next unless $line[$i] eq '}' && defined $begin;
		my ($open, $lines) = ($begin, $i - $begin - 1);
		undef $begin;
		next if $lines <= 15;
		# back to the line of the name, then over what belongs to the definition
		my $above = $open - 1;
		$above-- while $above > 0 && $code[$above] !~ /^\w+\s*\(/;
		next unless $code[$above] =~ /^(\w+)\s*\(/;
		my $name = $1;
		my $head = $above;
		$head-- while $head > 0 && $code[ $head - 1 ] =~ /^\w/ && $code[ $head - 1 ] !~ /^PG_FUNCTION_INFO_V1/;
		$head-- while $head > 0 && $code[ $head - 1 ] =~ /^PG_FUNCTION_INFO_V1|^#/;
		$head-- while $head > 0 && $line[ $head - 1 ] =~ /^\s*$/;
		next if $head > 0 && $line[ $head - 1 ] =~ m{\*/\s*$};
		next if $declared{$name};
		found(bare_functions => $file, $above + 1, "$name $lines");
	}
}

#----- SQL -----

my %function;
foreach my $file (glob('src/sql/*.sql'))
{
	# what is inside of function bodies is not created now
	(my $sql = content($file)) =~ s/\$(\w*)\$.*?\$\1\$//gs;
	while ($sql =~ /^(CREATE|DROP)(?:\s+OR\s+REPLACE)?\s+(?:FUNCTION|PROCEDURE|AGGREGATE)\s+rdma\.("?\w+"?)/gmi)
	{
		$function{$2} += uc($1) eq 'CREATE' ? 1 : -1;
	}
	$function{$1} = 0 while $sql =~ /^ALTER\s+(?:FUNCTION|PROCEDURE|AGGREGATE)\s+rdma\.("?\w+"?)[^;]*\bSET\s+SCHEMA\b/gmi;
}
found(functions => 'sql', 1, $_) foreach grep { $function{$_} > 0 } sort keys %function;

foreach my $file (files(qr/\.out$/, qw(expected test/expected)))
{
	my $lines = (content($file) =~ tr/\n//);
	found(long_outputs => $file, $lines, 'lines') if $lines > 400;
}

if (-e '.git')
{
	found(subjects => 'commit', 0, $_) foreach grep { chomp; length($_) > 72 } qx(git log --format=%s 2>/dev/null);
}

#----- the English -----

my $words = 0;

# One comment, message or paragraph; header: whether its first sentence says what a thing is
sub read_english
{
	my ($file, $line, $text, $header) = @_;
	# names and code are no English
	$text =~ s/`[^`]*`/ /g;
	$text =~ s/\]\([^()]*\)/]/g;
	$text =~ s/"[^"\n]{0,60}"/ /g;
	$words++ while $text =~ /\b[A-Za-z][A-Za-z'-]*/g;
	foreach my $name (sort keys %english)
	{
		while ($text =~ /$english{$name}/g)
		{
			my $from = $-[0] > 60 ? $-[0] - 60 : 0;
			found($name => $file, $line + line_at($text, $-[0]) - 1, substr($text, $from, 120));
		}
	}
	return unless $header;
	found(of => $file, $line, $text) if $text =~ /^\s*Of\b/;
	found(questions => $file, $line, $text) if $text =~ /^[^.;]*\?/;
}

foreach my $file (sort keys %text)
{
	my $text = $text{$file};
	while ($text =~ m{\G(/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^/"']+|.)}gs)
	{
		my ($piece, $place) = ($1, $-[0]);
		next unless $piece =~ m{^/\*(.*)\*/$}s;
		(my $comment = $1) =~ s/^[ \t]*\*+//gm;
		read_english($file, line_at($text, $place), $comment, 1);
	}
	next unless $file =~ /^src/;
	# strings that follow each other are one message
	my $code = blank($text, 0);
	while ($code =~ /\G(?:[^"']|'(?:[^'\\\n]|\\.)*')*((?:"(?:[^"\\\n]|\\.)*"[\s\\]*)+)/g)
	{
		my ($message, $place) = ($1, $-[1]);
		$message =~ s/"\s*\\?\s*"//g;
		$message =~ s/^"|"\s*$//g;
		$message =~ s/\\[nt"]/ /g;
		next if $message =~ /^\W*[A-Z]{2,}\b/ || $message !~ /[a-z]{2,}\s+\S*[a-z]{2,}\s+\S*[a-z]{2,}/;
		read_english($file, line_at($code, $place), $message, 0);
	}
}
foreach my $file ('README.md', 'CONTRIBUTING.md', 'SECURITY.md', files(qr/\.md$/, 'docs'), files(qr/README\.md$/, qw(test bench)))
{
	my $text = content($file);
	# blocks of code keep their lines only
	$text =~ s{^(\s*```.*?^\s*```)}{my $block = $1; $block =~ s/[^\n]//g; $block}gmse;
	read_english($file, 1, $text, 0);
}

#----- the table -----

my (%allowed, $bad);
foreach (split(/\n/, content($allowed_file)))
{
	$allowed{$1} = $2 if /^(\w+)\s+([\d.]+)$/;
}
foreach my $measure (@measures)
{
	my $name = $measure->[0];
	$value{$name} //= scalar(@{ $places{$name} // [] });
	$value{$name} = sprintf('%.1f', $value{$name} * 10000 / $words) if $english{$name} || $name =~ /^(?:questions|of)$/;
}
if ($show ne '')
{
	die "there is no measure $show\n" unless exists $value{$show};
	print "$_\n" foreach @{ $places{$show} // [] };
	exit(0);
}
printf "%-45s %9s %9s %9s\n", 'measure', 'value', 'allowed', 'limit';
foreach my $measure (@measures)
{
	my ($name, $title, $limit) = @$measure;
	# a new measure begins with today's value
	my $allowed = $allowed{$name} // ($record ? $value{$name} : $limit);
	my $above = $value{$name} > $allowed;
	printf "%-45s %9s %9s %9s%s\n", $title, $value{$name}, $allowed, $limit, $above ? '  above what is allowed' : '';
	if ($above) { $bad = 1; }
	else { $allowed{$name} = $value{$name} > $limit ? $value{$name} : $limit; }
	print "    $_\n" foreach $above && $name !~ /^(?:lines|settings)$/ && @{ $places{$name} // [] } <= 20 ? @{ $places{$name} } : ();
}
printf "%d words of English; house.pl --show NAME lists the places: %s\n", $words, join(' ', map { $_->[0] } @measures);
if ($record)
{
	(my $head = content($allowed_file)) =~ s/^\w+\s+[\d.]+\n//gm;
	open(my $out, '>', $allowed_file) or die "$allowed_file: $!\n";
	print $out $head, map { sprintf "%-16s%s\n", $_->[0], $allowed{ $_->[0] } // $_->[2] } @measures;
	close($out);
}
exit($bad ? 1 : 0);
