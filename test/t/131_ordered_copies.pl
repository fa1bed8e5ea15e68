# Statements that write the same rows of a replicated table meet on its first node, whichever way they send them, and only there does
# one wait for the other. So the first node finds every deadlock, and the copies are equal.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();

$_->safe_psql('postgres', 'CREATE TABLE copies (a bigint PRIMARY KEY, b text)') foreach ($n1, $n2);
$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE copies (a bigint NOT NULL, b text) SERVER many OPTIONS (schema_name 'public', table_name 'copies', replicated 'true');
	CREATE TABLE lines AS SELECT g AS a, repeat('l', 200) AS b FROM generate_series(1, 5000) g;
	CREATE FUNCTION one_by_one() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE r bigint; n bigint := 0;
	BEGIN
		FOR i IN 1 .. 20 LOOP
			INSERT INTO copies VALUES (i, 'single') ON CONFLICT DO NOTHING RETURNING a INTO r;
			n := n + 1;
		END LOOP;
		RETURN n;
	END $$;
});
my $file = $coord->basedir . '/lines';
$coord->safe_psql('postgres', "COPY lines TO '$file'");

my $blocked = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted";

sub equal
{
	my ($rows, $what) = @_;
	my ($one, $two) = map { $_->safe_psql('postgres', "SELECT count(*), md5(string_agg(a || b, ',' ORDER BY a)) FROM copies") } ($n1, $n2);

	like($one, qr/^\Q$rows\E\|/, "$what: the rows");
	is($two, $one, "$what: the copies are equal");
	$coord->safe_psql('postgres', 'TRUNCATE copies');
	return;
}

sub load { my ($from, $text, $conflict) = @_; return "INSERT INTO copies SELECT g, repeat('$text', 200) FROM generate_series($from, 5000) g $conflict"; }

# A load cannot go on on the first node, where somebody has its first row; the other node has seen nothing of it. So a writer of its
# other rows ends while it waits.
my %writers = (
	'a load'               => load(1, 's', ''),
	'a load of new rows'   => load(1, 's', 'ON CONFLICT DO NOTHING'),
	'COPY'                 => "COPY copies FROM '$file'",
	'rows one by one'      => 'SELECT one_by_one()',
	'UPDATE on the nodes'  => "UPDATE copies SET b = b || '!'");

foreach my $conflict ('', 'ON CONFLICT DO NOTHING')
{
	foreach my $writer (sort keys %writers)
	{
		my $what = "$writer beside INSERT" . ($conflict ? " $conflict" : '');
		my $holder = $n1->background_psql('postgres');

		$holder->query_safe("BEGIN; INSERT INTO copies VALUES (0, 'holder')");
		my $first = rdma_begin($coord, load(0, 'f', $conflict));
		ok(rdma_wait($n1, $blocked, 120), "$what: the load waits on the first node");
		my $second = rdma_begin($coord, $writers{$writer});
		ok(rdma_outcome($second), "$what: the writer ends");
		is($second->{err}, '', "$what: without an error");
		$holder->query_safe('ROLLBACK');
		$holder->quit;
		ok(rdma_outcome($first), "$what: the load goes on");
		if ($conflict ne '' || $writer =~ /UPDATE/)
		{
			is($first->{err}, '', "$what: and ends");
			equal(5001, $what);
		}
		else
		{
			like($first->{err}, qr/23505/, "$what: the first node has its rows");
			equal($writer =~ /one by one/ ? 20 : 5000, $what);
		}
	}
}

# TRUNCATE locks the first node's table first.
my $holder = $n1->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE copies IN ROW EXCLUSIVE MODE');
my $truncate = rdma_begin($coord, 'TRUNCATE copies');
ok(rdma_wait($n1, $blocked, 120), 'TRUNCATE waits on the first node');
is($n2->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation = 'copies'::regclass AND mode = 'AccessExclusiveLock'"),
	0, 'and has locked nothing on the other');
$holder->query_safe('COMMIT');
$holder->quit;
ok(rdma_outcome($truncate), 'and goes on');
is($truncate->{err}, '', 'without an error');

# Rows in the same order, at the same time: nobody ever fails. Rows that do not fit a buffer, and more than all of them, too.
foreach my $round (1 .. 4)
{
	my $large = $round % 2 == 0 ? 'UNION ALL SELECT 6000 + g, repeat(md5(g::text), 20000 * g) FROM generate_series(1, 6) g' : '';
	my @jobs = map { rdma_begin($coord, "INSERT INTO copies SELECT g, repeat('$_', 300) FROM generate_series(1, 5000) g $large ON CONFLICT DO NOTHING",
		load(4000, $_, 'ON CONFLICT (a) DO UPDATE SET b = excluded.b')) } ('x', 'y');

	foreach my $job (@jobs)
	{
		ok(rdma_outcome($job), "round $round: a writer ends");
		is($job->{err}, '', "round $round: without an error");
	}
	equal($large eq '' ? 5000 : 5006, "round $round");
}

# An error of a row that was sent to both, and of the second node only.
$n2->safe_psql('postgres', 'INSERT INTO copies VALUES (4500, $$alone$$)');
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\n" . load(1, 'e', ''));
like($err, qr/23505.*Key \(a\)=\(4500\) already exists/s, 'a row that the second node has');
is($_->safe_psql('postgres', 'SELECT count(*) FROM copies WHERE a <> 4500'), 0, 'undoes it on each') foreach ($n1, $n2);
$n2->safe_psql('postgres', 'TRUNCATE copies');
$coord->safe_psql('postgres', load(1, 'e', ''));
equal(5000, 'the next load');

# Three nodes; and nodes whose databases have different encodings, which no batch serves.
foreach my $encoding ('UTF8', 'LATIN1')
{
	my $name = lc $encoding;

	$n1->safe_psql('postgres', "CREATE DATABASE $name ENCODING '$encoding' TEMPLATE template0");
	$n1->safe_psql($name, 'CREATE EXTENSION rdma_fdw');
	my @all = ([ $n1, 'postgres' ], [ $n2, 'postgres' ], [ $n1, $name ]);
	$_->[0]->safe_psql($_->[1], "CREATE TABLE of_$name (a bigint PRIMARY KEY, b text)") foreach @all;
	$coord->safe_psql('postgres', "CREATE SERVER n3_$name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $n1->port . "', dbname '$name');"
		. "CREATE USER MAPPING FOR postgres SERVER n3_$name OPTIONS (user 'postgres', password 'secret');"
		. "CREATE SERVER many_$name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2, n3_$name');"
		. "CREATE FOREIGN TABLE of_$name (a bigint NOT NULL, b text) SERVER many_$name OPTIONS (schema_name 'public', replicated 'true')");
	my $three = sub {
		my ($sql, $rows, $what) = @_;

		$coord->safe_psql('postgres', $sql);
		my @found = map { $_->[0]->safe_psql($_->[1], "SELECT count(*), md5(string_agg(a || convert_to(b, 'UTF8')::text, ',' ORDER BY a)) FROM of_$name") } @all;
		like($found[0], qr/^\Q$rows\E\|/, "$encoding, $what: the rows");
		is($_, $found[0], "$encoding, $what: the copies are equal") foreach @found[1, 2];
	};
	$three->("INSERT INTO of_$name SELECT g, repeat(chr(228) || g, 100) FROM generate_series(1, 3000) g", 3000, 'a load');
	$three->("INSERT INTO of_$name SELECT g, 'few' FROM generate_series(3001, 3010) g", 3010, 'a few rows');
	$three->("INSERT INTO of_$name VALUES (3010, ''), (3011, 'one') ON CONFLICT DO NOTHING RETURNING a", 3011, 'rows one by one');
	$three->("UPDATE of_$name SET b = lines.b || random() FROM lines WHERE lines.a = of_$name.a AND lines.a < 20", 3011, 'UPDATE by values of here');
	$three->("DELETE FROM of_$name USING lines WHERE lines.a = of_$name.a AND lines.a < 10 AND random() >= 0", 3002, 'DELETE');
}

done_testing();
