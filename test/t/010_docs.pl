# The documents: docs/sql-reference.md has an entry for every function, view and column of a view, option and setting, and
# for nothing else; what it says of a setting's default, range and time of change is what the server says. Links between
# documents lead somewhere. Reasons in EXPLAIN are as shown. Source files that documents and META.json name are there, and
# every .c file of src/fdw has its line in docs/architecture.md.
use strict;
use warnings;
use File::Basename;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tree = "$FindBin::Bin/../..";
my $node = rdma_node('one');

$node->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');

sub sql_lines
{
	return split /\n/, $node->safe_psql('postgres', $_[0]);
}

# One assertion for a kind of fault, however many there are; a failure lists them.
sub none
{
	my ($what, @faults) = @_;

	is(join("\n", sort @faults), '', $what);
}

# Elements of one array that are not in the other.
sub missing
{
	my ($wanted, $there) = @_;
	my %there = map { $_ => 1 } @$there;

	return grep { !$there{$_} } @$wanted;
}

# Entries of a section: text by the names in the heading, which stand in backquotes.
my (%functions, %internal, %options, %settings, $libpq, @twice);
{
	my ($section, $rank) = ('', '');
	my @current;

	foreach my $line (split /\n/, slurp_file("$tree/docs/sql-reference.md"))
	{
		if ($line =~ /^(##+) (.*)/)
		{
			my ($level, $title) = (length $1, $2);

			($section, $rank) = ($title, '') if $level == 2;
			$rank = $title if $level == 3;
			@current = ();
			next if $level < 4;
			while ($title =~ /`([^`]+)`/g)
			{
				my $entries = $section eq 'Settings' ? \%settings : $section eq 'Options' ? \%options : \%functions;

				push @twice, $1 if exists $entries->{$1};
				$entries->{$1} = '';
				push @current, \$entries->{$1};
			}
			push @current, \$libpq if $title eq 'Options of libpq';
			next;
		}
		$internal{$1} = 1 if $rank eq 'Internal functions' && $line =~ /^\| `([^`]+)` \|/;
		$$_ = ($$_ // '') . "$line\n" foreach @current;
	}
}
none('no entry stands twice', @twice);
none('every entry has an example', grep { ({ %functions, %options, %settings })->{$_} !~ /^```(sql|ini)?\n.*^```\n/ms }
	keys %functions, keys %options, keys %settings);

# Functions and views
my @views = sql_lines("SELECT 'rdma.' || relname FROM pg_class WHERE relnamespace = 'rdma'::regnamespace AND relkind = 'v'");
my @functions = sql_lines(
	q{SELECT pronamespace::regnamespace || '.' || proname || '(' || coalesce((SELECT string_agg(
			coalesce(proargnames[i] || ' ', '') || format_type(proargtypes[i - 1], NULL), ', ' ORDER BY i)
		FROM generate_series(1, pronargs) i), '') || ')'
	FROM pg_proc p WHERE pronamespace IN ('rdma'::regnamespace, 'rdma_internal'::regnamespace)
		AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'rdma'::regnamespace AND c.relname = p.proname)});
my @entries = (keys %functions, keys %internal);

none('every function and view has an entry', missing([ @views, @functions ], \@entries));
none('every entry is of a function or view', missing(\@entries, [ @views, @functions ]));
{
	my (@columns, @described);

	foreach my $view (@views)
	{
		push @columns, map { "$view.$_" } sql_lines("SELECT attname FROM pg_attribute WHERE attrelid = '$view'::regclass AND attnum > 0");
		push @described, map { "$view.$_" } ($functions{$view} // '') =~ /^\| `([^`]+)` \|/mg;
	}
	none('every column of a view is described', missing(\@columns, \@described));
	none('every described column is one of the view', missing(\@described, \@columns));
}

# Options: an unknown one is answered with those that are valid in its place.
my %places = (
	server => "CREATE SERVER wrong FOREIGN DATA WRAPPER rdma_fdw OPTIONS (no_such_option '1')",
	'user mapping' => "CREATE USER MAPPING FOR CURRENT_USER SERVER right_one OPTIONS (no_such_option '1')",
	table => "CREATE FOREIGN TABLE wrong (a int) SERVER right_one OPTIONS (no_such_option '1')",
	column => "CREATE FOREIGN TABLE wrong (a int OPTIONS (no_such_option '1')) SERVER right_one");
my %of_libpq = map { $_ => 1 } ($libpq // '') =~ /`(\w+)`/g;
my (%seen, $major);

($major) = sql_lines("SELECT current_setting('server_version_num')::int / 10000");
$node->safe_psql('postgres', 'CREATE SERVER right_one FOREIGN DATA WRAPPER rdma_fdw');
foreach my $place (sort keys %places)
{
	my ($status, $out, $error) = $node->psql('postgres', $places{$place});
	my ($valid) = $error =~ /Valid options in this context are: (.*)/;

	push @{ $seen{$_} }, $place foreach grep { !$of_libpq{$_} || exists $options{$_} } split /, /, $valid // '';
}
none('every option has an entry', missing([ keys %seen ], [ keys %options ]));
{
	my @wrong;

	foreach my $name (keys %options)
	{
		my ($where, $since) = $options{$name} =~ /\A\nOn: ([a-z, ]+)\.(?: PostgreSQL (\d+) and later\.)?\n/;
		my $places = join(', ', sort @{ $seen{$name} // [] });

		push @wrong, "$name: $places"
		  if !defined $where || $major >= ($since // 0) && join(', ', sort split(/, /, $where)) ne $places;
	}
	none('options go where their entries say', @wrong);
}

# Settings. The line below the heading follows from pg_settings.
my %context = (postmaster => 'server start', sighup => 'reload', superuser => 'superuser', user => 'session');

sub with_unit
{
	my ($value, $unit) = @_;
	my @steps = $unit eq 'kB' ? (1024, 'MB', 1024, 'GB', 1024, 'TB') : $unit eq 'ms' ? (1000, 's', 60, 'min', 60, 'h') :
		$unit eq 's' ? (60, 'min', 60, 'h') : ();

	return $value if $value <= 0;
	while (@steps && $value % $steps[0] == 0)
	{
		$value /= shift @steps;
		$unit = shift @steps;
	}
	return "$value$unit";
}

my (@names, @wrong);
foreach (sql_lines("SELECT name, vartype, boot_val, coalesce(unit, ''), min_val, max_val, array_to_string(enumvals, ', '), context
	FROM pg_settings WHERE name LIKE 'rdma\\_fdw.%' ORDER BY name"))
{
	my ($name, $type, $default, $unit, $min, $max, $values, $when) = split /\|/, $_, -1;
	my $line = 'Default ' . ($default eq '' ? 'empty' : '`' . ($type eq 'integer' ? with_unit($default, $unit) : $default) . '`');

	$line .= "; one of `" . join('`, `', split /, /, $values) . "`" if $type eq 'enum';
	$line .= "; `" . with_unit($min, $unit) . "` to `" . with_unit($max, $unit) . "`" if $type eq 'integer';
	$line .= "; $context{$when}.";
	push @names, $name;
	push @wrong, "$name: $line" if join(' ', split(' ', $settings{$name} // '')) !~ /\A\Q$line\E/;
}
none('every setting has an entry with its default and range', @wrong);
none('every entry is of a setting', missing([ keys %settings ], \@names));

# Links. An anchor is a heading as GitHub spells it.
my (%anchors, @broken, @unlisted, %named);
my @documents = map { s/^\Q$tree\E\///r } glob("$tree/*.md $tree/docs/*.md $tree/docs/*/*.md $tree/test/*/*.md");

sub anchors
{
	my ($file) = @_;
	my (%count, %found, $code);

	foreach my $line (split /\n/, slurp_file("$tree/$file"))
	{
		$code = !$code if $line =~ /^```/;
		next if $code || $line !~ /^#+ +(.*)/;
		my $anchor = lc $1;

		$anchor =~ s/[^\w\- ]//g;
		$anchor =~ s/ /-/g;
		$found{ $anchor . ($count{$anchor} ? "-$count{$anchor}" : '') } = 1;
		$count{$anchor}++;
	}
	return \%found;
}

foreach my $file (@documents)
{
	my ($folder) = $file =~ m{^(.*/)};
	my $text = slurp_file("$tree/$file");

	$text =~ s/^```.*?^```//msg;
	$named{$_} = 1 foreach $text =~ m{`((?:bench|include|sql|src|test)/[\w./]+\.\w+)`}g;
	my ($top) = $text =~ /\A(.*?)^## /ms;

	# A document that lists its sections at the top lists all of them.
	if (defined $top && $top =~ /\]\(#/)
	{
		push @unlisted, map { "$file: $_" } grep { my $anchor = lc($_) =~ s/[^\w\- ]//gr =~ s/ /-/gr; $top !~ /\]\(#\Q$anchor\E\)/ } $text =~ /^## (.*)$/mg;
	}
	while ($text =~ /\]\(([^)\s]+)\)/g)
	{
		my $link = $1;
		next if $link =~ /^[a-z]+:/;
		my ($path, $anchor) = split /#/, $link, 2;
		my $target = $path eq '' ? $file : ($folder // '') . $path;

		while ($target =~ s{(?:^|(?<=/))[^/.][^/]*/\.\./}{}) { }
		if (!-e "$tree/$target")
		{
			push @broken, "$file: $link";
		}
		elsif (defined $anchor && $target =~ /\.md$/)
		{
			$anchors{$target} //= anchors($target);
			push @broken, "$file: $link" if !$anchors{$target}{$anchor};
		}
	}
}
cmp_ok(scalar(@documents), '>', 10, 'the documents are here');
none('tables of contents are complete', @unlisted);
none('links lead to files and headings that are there', @broken);

# Plans with reasons are as the document has them, but for what it leaves out ("...").
$node->safe_psql('postgres', q{
	CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw;
	CREATE SERVER n2 FOREIGN DATA WRAPPER rdma_fdw;
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE SCHEMA dist;
	CREATE FOREIGN TABLE dist.a (id int, x int, t text) SERVER many OPTIONS (distributed_by 'id');
	CREATE FOREIGN TABLE dist.b (id int, aid int, y int, n int) SERVER many OPTIONS (distributed_by 'aid');
	CREATE FUNCTION score(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'});
foreach my $example (slurp_file("$tree/docs/performance.md") =~ /^### Why a \w+ is here\n+```\n(.*?)^```/msg)
{
	my ($statement, $plan) = $example =~ /\Ademo=# ([^;]*;)\n(.*)\z/s;
	my $pattern = quotemeta($plan) =~ s/^(\\ )+\\\.\\\.\\\.\\\n/(?:.*\\n)*/mgr;

	$statement =~ s/^demo-# //mg;
	# nothing is known of the tables' rows
	like($node->safe_psql('postgres', "SET enable_mergejoin = off; $statement") =~ s/^/ /mgr . "\n", qr/\A$pattern\z/, "the plan of: $statement");
}

# Source files
none('source files that documents name are there', grep { !-e "$tree/$_" } keys %named);
none('every source file of src/fdw has its line',
	missing([ map { s/^\Q$tree\E\///r } glob("$tree/src/fdw/*.c $tree/src/fdw/*/*.c") ], [ keys %named ]));

# META.json
my $meta = decode_json(slurp_file("$tree/META.json"));

# The script is made of pieces by the build, so what counts is that it was installed.
my $extensions = $node->config_data('--sharedir') . '/extension';

none('the documents and the script that META.json names are there',
	(grep { !-e "$tree/$_" } map { $_->{docfile} } values %{ $meta->{provides} }),
	(grep { !-e "$extensions/" . basename($_) } map { $_->{file} } values %{ $meta->{provides} }));

my ($version) = slurp_file("$tree/rdma_fdw.control") =~ /^default_version = '([^']+)'/m;
none('META.json is of the version that is installed by default',
	grep { !/^\Q$version\E\.\d+$/ } $meta->{version}, map { $_->{version} } values %{ $meta->{provides} });

# What a kind of access consists of is said in three more places: the reader's hint, rdma.check, and the reference.
my %access = map { $_ => [ sql_lines("SELECT split_part(unnest(rdma_internal.access_functions('$_')), '.', 2)") ] } qw(read write exchange);
my ($hints) = slurp_file("$tree/src/remote/remote_error.c") =~ /^(access_hint\(.*?^\})/ms;
my ($check) = slurp_file("$tree/src/monitor/check.c") =~ /^(check_access\(.*?^\})/ms;
my %table = slurp_file("$tree/docs/sql-reference.md") =~ /^\| `'(read|write|exchange)'` \| (.*) \|$/mg;
my %hint;

push @{ $hint{$2} }, $1 while $hints =~ /\{"for function (\w+)", "(\w+)"\}/g;
foreach my $kind (sort keys %access)
{
	my @named = ($table{$kind} =~ s/without `[\w.]+` and `[\w.]+`//r) =~ /`rdma(?:_internal)?\.(\w+)`/g;

	is(join(' ', sort @{ $hint{$kind} }), join(' ', sort @{ $access{$kind} }), "the hint names the functions of access '$kind'");
	is(join(' ', sort @named), join(' ', sort @{ $access{$kind} }), 'and so does the reference');
}
# A query does without two of them.
my @needed = grep { !/^(zero_pages|exchange_stats)$/ } map { @$_ } values %access;
my ($looked_for) = $check =~ /AND proname IN \((.*?)\) AND NOT/s;
my ($read, $write) = $check =~ /CASE WHEN proname IN \((.*?)\) THEN 'read' WHEN proname IN \((.*?)\) THEN 'write'/s;
is(join(' ', sort($looked_for =~ /'(\w+)'/g)), join(' ', sort @needed), 'rdma.check looks for them');
is(join(' ', sort($read =~ /'(\w+)'/g)), join(' ', sort grep { $_ ne 'zero_pages' } @{ $access{read} }), "as access 'read'");
is(join(' ', sort($write =~ /'(\w+)'/g)), join(' ', sort @{ $access{write} }), "and 'write'");

done_testing();
