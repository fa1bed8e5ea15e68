# rdma.metrics: what docs/monitoring/exposition.sql prints of it is Prometheus' text exposition format, read strictly; the query file for
# postgres_exporter gives the same samples under the same names; and alerts and documents name no metric that is not there.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use HTTP::Tiny;
use IPC::Run;
use Time::HiRes qw(usleep);

my $tree = "$FindBin::Bin/../..";
my ($coord, $n1, $n2) = rdma_trio();
my $odd = "a \"b\\c\nd\xc3\xa4 {e}=,";

# what moves, and names that have to be escaped
(my $quoted = $odd) =~ s/"/""/g;
$coord->safe_psql('postgres', qq{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE SERVER "$quoted" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1');
	CREATE TABLE t AS SELECT i, repeat('x', 100) AS x FROM generate_series(1, 30000) i;
	SELECT rdma.distribute_table('t', 'many', 'i');
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	CREATE ROLE nobody LOGIN});
is($coord->safe_psql('postgres', 'SELECT sum(length(x)) FROM t WHERE random() >= 0'), '3000000', 'rows come');

# ---- a parser of the text format, as its specification has it; dies of the first fault
sub unescape
{
	my ($text, $legal) = @_;
	my %is = (n => "\n", '\\' => '\\', '"' => '"');

	$text =~ s{\\(.?)}{ index($legal, $1) >= 0 && $1 ne '' ? $is{$1} : die "escape \\$1 in $text\n" }ges;
	return $text;
}

sub parse
{
	my ($text) = @_;
	my (%samples, %help, %type, %ended, $current);

	die "the last line does not end\n" if $text !~ /\n\z/;
	foreach my $line (split /\n/, $text)
	{
		if ($line =~ /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/)
		{
			my ($kind, $name, $rest) = ($1, $2, $3);
			my $of = $kind eq 'HELP' ? \%help : \%type;

			die "$kind of $name stands twice\n" if exists $of->{$name};
			die "$kind of $name comes after its samples\n" if $samples{$name};
			die "type of $name: $rest\n" if $kind eq 'TYPE' && $rest !~ /^(?:counter|gauge)$/;
			$of->{$name} = $kind eq 'HELP' ? unescape($rest, 'n\\') : $rest;
			next;
		}
		$line =~ /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([+-]?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|Inf)|NaN)$/ or die "no sample: $line\n";
		my ($name, $list, $value) = ($1, $2 // '', $3);
		my %labels;

		die "$name has no HELP or TYPE\n" if !exists $help{$name} || !exists $type{$name};
		die "samples of $name do not stand together\n" if $ended{$name};
		$ended{$current} = 1 if defined $current && $current ne $name;
		$current = $name;
		while ($list ne '')
		{
			$list =~ s/^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,(?=.)|$)// or die "no label: $list\n";
			die "label $1 of $name stands twice\n" if exists $labels{$1};
			die "label $1 is reserved\n" if $1 =~ /^__|^(?:le|quantile|job|instance|server)$/;
			my ($label, $escaped) = ($1, $2);
			$labels{$label} = unescape($escaped, 'n\\"');
		}
		my $key = join("\0", map { ($_, $labels{$_}) } sort keys %labels);
		die "sample $line stands twice\n" if exists $samples{$name}{$key};
		$samples{$name}{$key} = $value;
	}
	die "HELP and TYPE differ\n" if join(' ', sort keys %help) ne join(' ', sort keys %type);
	return (\%samples, \%type, \%help);
}

# the parser itself
my $good = "# HELP a_total b\n# TYPE a_total counter\na_total{x=\"1\"} 1\n";
foreach my $bad ("a 1\n", "${good}a_total{x=\"1\"} 2\n", "${good}a_total{x=\"2\\q\"} 2\n", "${good}a_total{x=\"2} 2\n", "${good}# TYPE a_total counter\n",
	"${good}a_total{x=\"2\",x=\"3\"} 2\n", "${good}a_total one\n", "${good}a_total{y-z=\"2\"} 2\n", "${good}# HELP b b\n", $good =~ s/\n\z//r)
{
	ok(!eval { parse($bad); 1 }, 'the parser refuses what is wrong') or diag($bad);
}
ok(eval { parse($good); 1 }, 'and takes what is right');

sub exposition
{
	my ($status, $out, $err) = $coord->psql('postgres', "\\i $tree/docs/monitoring/exposition.sql", extra_params => [ '-U', 'monitor' ]);

	is($err, '', 'a member of pg_monitor may read all of it');
	return "$out\n";
}

my ($samples, $type, $help) = eval { parse(exposition()) };
is($@, '', 'the exposition is right');
my @names = sort keys %$samples;
cmp_ok(scalar(@names), '>', 70, 'there is much to see');
is(join(' ', grep { !/^rdma_fdw_[a-z]+(?:_[a-z]+)+$/ || /_(?:ms|us|mb|kb|minutes)(?:_|$)/ } @names), '', 'names are those of base units');
is(join(' ', grep { ($type->{$_} eq 'counter') != /_total$/ } @names), '', 'counters end with _total, and only they');
is(join(' ', grep { $help->{$_} !~ /^\p{Lu}.*[^.]\.$/ } @names), '', 'help is a sentence');
is(scalar(grep { /\0\Q$odd\E(?:\0|$)/s } keys %{ $samples->{rdma_fdw_transaction_unfinished} }), 1, 'a label keeps what had to be escaped');
is($samples->{rdma_fdw_engine_up}{''}, 1, 'the engine runs');
is(join(' ', map { $samples->{rdma_fdw_node_buckets}{"datname\0postgres\0foreign_server\0many\0node\0$_"} } qw(n1 n2)), '420 420', 'buckets');
is(scalar(keys %{ $samples->{rdma_fdw_peer_received_bytes_total} }), 2, 'a peer for each node');
cmp_ok(eval { my $sum = 0; $sum += $_ foreach values %{ $samples->{rdma_fdw_peer_received_bytes_total} }; $sum }, '>=', 3_000_000, 'from which rows came');
is($coord->safe_psql('postgres', q{SELECT count(*) FROM rdma.metrics WHERE value IS NULL OR labels IS NULL OR help IS NULL OR type IS NULL OR EXISTS (SELECT FROM jsonb_each(labels) WHERE jsonb_typeof(value) <> 'string')}),
	'0', 'nothing is NULL, and labels are strings');
like(($coord->psql('postgres', 'SELECT count(*) FROM rdma.metrics', extra_params => [ '-U', 'nobody' ]))[2], qr/permission denied/, 'others may not');

# ---- the query file: as postgres_exporter reads it, NAMESPACE_COLUMN for each column that is no label
sub query_file
{
	my (%groups, $group, $in);

	foreach my $line (split /\n/, slurp_file("$tree/docs/monitoring/queries.yaml"))
	{
		if ($line =~ /^(\w+):$/) { die "$1 stands twice" if $groups{$1}; $group = $groups{$1} = { query => '' }; $in = ''; }
		elsif ($line =~ /^  master: true$/) { $group->{master} = 1; }
		elsif ($line =~ /^  query: \|$/) { $in = 'query'; }
		elsif ($line =~ /^  metrics:$/) { $in = 'metrics'; }
		elsif ($in eq 'query' && $line =~ /^    (.*)/) { $group->{query} .= "$1\n"; }
		elsif ($in eq 'metrics' && $line =~ /^    - (\w+): \{usage: (LABEL|GAUGE|COUNTER), description: "([^"\\]*)"\}$/) { push @{ $group->{columns} }, [ $1, $2, $3 ]; }
		elsif ($line !~ /^#/) { die "no such line in the query file: $line"; }
	}
	return %groups;
}

my %groups = query_file();
my (%of_file, @differ);
foreach my $namespace (sort keys %groups)
{
	my $group = $groups{$namespace};
	my @columns = @{ $group->{columns} };
	my ($status, $out, $err) = $coord->psql('postgres', "SELECT row_to_json(q) IS NOT NULL FROM ($group->{query}) q", extra_params => [ '-U', 'monitor' ]);

	is($err, '', "the query of $namespace runs");
	my $there = $coord->safe_psql('postgres', "CREATE TEMP VIEW v AS $group->{query}; SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'v'::regclass");
	is($there, join(' ', map { $_->[0] } @columns), 'and has the columns that are declared');
	my @labels = sort map { $_->[0] } grep { $_->[1] eq 'LABEL' } @columns;
	is(!!$group->{master}, !grep({ $_ eq 'datname' } @labels), 'what is of a database is asked in each, the rest once');
	foreach my $column (grep { $_->[1] ne 'LABEL' } @columns)
	{
		my $name = "${namespace}_$column->[0]";

		push @differ, "$name: type" if lc $column->[1] ne ($type->{$name} // 'no such metric') && exists $samples->{$name};
		push @differ, "$name: description" if exists $help->{$name} && $column->[2] ne $help->{$name};
		$of_file{$name} = [ $namespace, @labels ];
	}
}
is(join(', ', @differ), '', 'types and descriptions are those of the view');
is(join(' ', grep { !$of_file{$_} } @names), '', 'all metrics are in the query file');
my @labels_differ;
foreach my $name (@names)
{
	foreach my $key (keys %{ $samples->{$name} })
	{
		my %labels = split /\0/, $key, -1;

		push @labels_differ, $name if join(' ', sort keys %labels) ne join(' ', @{ $of_file{$name} }[ 1 .. $#{ $of_file{$name} } ]);
	}
}
is(join(' ', @labels_differ), '', 'with the labels that they have');
# one query each is compared by its values; what does not stand still is not there
foreach my $name (qw(rdma_fdw_engine_buffer_bytes rdma_fdw_node_buckets rdma_fdw_transaction_unfinished rdma_fdw_connection_info))
{
	my ($namespace, @labels) = @{ $of_file{$name} };
	my $column = $name =~ s/^${namespace}_//r;
	my $object = @labels ? 'jsonb_build_object(' . join(', ', map { "'$_', $_" } @labels) . ')' : "'{}'::jsonb";

	is($coord->safe_psql('postgres', "SELECT count(*) FROM (SELECT $object, $column FROM ($groups{$namespace}{query}) q EXCEPT ALL SELECT labels, value FROM rdma.metrics WHERE name = '$name') d"),
		'0', "$name has the same values");
}

# ---- names in alerts and documents
my %known = map { $_ => 1 } @names, keys %of_file;
foreach my $file (map { "docs/$_" } qw(operations.md monitoring/README.md monitoring/alerts.yaml))
{
	my @used = slurp_file("$tree/$file") =~ /\b(rdma_fdw_[a-z_]*[a-z])\b(?!_?\.\.\.)/g;

	cmp_ok(scalar(@used), '>', 5, "$file uses metrics");
	is(join(' ', grep { !$known{$_} } @used), '', 'that are there');
}

# ---- the exporter itself: of two databases, one of which has nothing but the extension
SKIP:
{
	skip 'there is no postgres_exporter', 4 if system('which prometheus-postgres-exporter >/dev/null 2>&1') != 0;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $log = PostgreSQL::Test::Utils::tempdir() . '/exporter.log';
	my $http = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default);

	$coord->safe_psql('postgres', 'CREATE DATABASE other');
	$coord->safe_psql('other', 'CREATE EXTENSION rdma_fdw');
	local $ENV{DATA_SOURCE_NAME} = 'user=monitor dbname=postgres sslmode=disable host=' . $coord->host . ' port=' . $coord->port;
	my $exporter = IPC::Run::start(
		[   'prometheus-postgres-exporter', '--disable-default-metrics', '--disable-settings-metrics', '--auto-discover-databases',
			'--exclude-databases=template0,template1', "--extend.query-path=$tree/docs/monitoring/queries.yaml", "--web.listen-address=127.0.0.1:$port" ],
		'<', \'', '>', $log, '2>&1');
	my $answer;
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$answer = $http->get("http://127.0.0.1:$port/metrics");
		last if $answer->{success} || !$exporter->pumpable;
		usleep(100_000);
	}
	$exporter->kill_kill;
	ok($answer->{success}, 'postgres_exporter answers') or diag($answer->{content}, slurp_file($log));
	unlike(slurp_file($log), qr/level=error/, 'and has nothing to say against the file');
	# it adds the server as a label of its own
	my $text = join('', map { s/(?<=[{,])server="[^"]*"//r =~ s/(?<=\{),|,(?=,)|,(?=\} \S+\n)//gr =~ s/\{\}//r } grep { /^(?:# \w+ )?rdma_fdw_/ } $answer->{content} =~ /(.*\n)/g);
	my ($exported, $exported_type, $exported_help) = eval { parse($text) };
	is($@, '', 'what it exports is right');
	# what has no row for want of a value is NaN there
	my @other;
	foreach my $name (@names)
	{
		push @other, "$name: type $exported_type->{$name}" if ($exported_type->{$name} // 'none') ne $type->{$name};
		push @other, "$name: help" if ($exported_help->{$name} // '') ne $help->{$name};
		push @other, "$name: labels" if join(' ', sort keys %{ $samples->{$name} }) ne join(' ', sort grep { $exported->{$name}{$_} ne 'NaN' } keys %{ $exported->{$name} });
	}
	is(join(', ', @other), '', 'and has the names, types, texts and labels of the view');
}

# ---- without an engine the rest is there
$coord->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$coord->restart;
my ($less) = eval { parse(exposition()) };
is($@, '', 'the exposition is right without the library');
is(join(' ', map { $less->{$_}{''} // 'none' } qw(rdma_fdw_engine_up rdma_fdw_engine_starts_total)), '0 none', 'the engine does not run, and has no counters');
is(scalar(keys %{ $less->{rdma_fdw_node_buckets} }), 2, 'what catalogs say is there');

done_testing();
