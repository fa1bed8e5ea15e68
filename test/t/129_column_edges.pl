# Random statements over rows at the edges (limits of types, NaN, both zeros, infinities, NULL in all places, long numerics, texts that
# are compressed or stored elsewhere, dropped and added columns, tables of 0, 1, 1,023 to 1,025 and 4,000 rows): PostgreSQL's executor, scans on columns, and
# these with one row in seven left to the executor give the same rows, or the same error. SEED=n repeats one; DURATION is in seconds.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || time() % 1_000_000;
my $duration = $ENV{DURATION} || 10;
srand($seed);
diag("seed $seed");

sub any { return $_[ int(rand(@_)) ]; }
sub likely { return rand() < $_[0]; }

# ---- tables; each column has a list of values, of which NULL and the first one are frequent
my %values = (
	s => [ qw(0 1 -1 2 7 32767 -32768) ],
	i => [ qw(0 1 -1 5 100 46341 2147483647 -2147483648) ],
	l => [ qw(0 1 -1 3 100000 3037000500 9223372036854775807 -9223372036854775808) ],
	f => [ map { "'$_'" } qw(0 -0 1.5 -2.25 0.1 NaN Infinity -Infinity 1e308 -1e308 1e-308 5e-324) ],
	n => [ map { "'$_'" } qw(0 0.01 -0.01 1 12.50 9999.99 10000 9999999999.99 -9999999999.99 NaN) ],
	m => [ map { "'$_'" } qw(0 0.000001 -0.000001 1 0.5 999999999999.999999 -999999999999.999999 NaN) ],
	w => [ map { "'$_'" } qw(0 1 -1 12345678901234567890.1234 -99999999999999999999999999.9999 NaN 0.0001) ],
	u => [ map { "'$_'" } qw(0 1 1.0 0.10 1e30 Infinity -Infinity NaN) ],
	d => [ map { "'$_'" } ('2000-01-01', '1999-12-31', '1970-01-01', 'infinity', '-infinity', '4713-01-01 BC', '5874897-12-31') ],
	o => [ map { "'$_'" } ('2000-01-01', '1999-12-31 23:59:59.999999', 'infinity', '-infinity', '294276-12-31', '4713-01-01 BC') ],
	c => [ map { "'$_'" } ('a', 'a  ', '', 'ab', 'abcde', 'b') ],
	v => [ map { "'$_'" } ('a', 'a ', '', 'abc', 'xxabcxx', 'fifteen letters', 'sixteen letters!', 'Ärger', 'a%b_c\\d') ],
	t => [ "'t'", "''", "'abcabc'", "'cab'", "'PROMO BRUSHED'", "repeat('abc', 50)", "repeat('abc', 3000)", 'long_text' ]);
my %type = (
	s => 'int2', i => 'int4', l => 'int8', f => 'float8', n => 'numeric(12,2)', m => 'numeric(18,6)', w => 'numeric(30,4)', u => 'numeric',
	d => 'date', o => 'timestamp', c => 'char(5)', v => 'varchar(20)', t => 'text');
my @columns = sort keys %type;
my @rows = (0, 1, 1023, 1024, 1025, 4000);

sub table
{
	my ($rows) = @_;
	my @order = sort { rand() <=> 0.5 } @columns;
	my $dropped = int(rand(@order));
	my @added = splice(@order, 0, 2);
	my (@definitions, @targets);

	for my $at (0 .. $#order)
	{
		my ($column, $list) = ($order[$at], $values{ $order[$at] });
		my $nulls = any(0, 0, 1, 5, 100);
		push @definitions, 'gone text' if $at == $dropped;
		push @targets, "'gone' || g" if $at == $dropped;
		push @definitions, "$column $type{$column}" . ($column =~ /[vt]/ && likely(0.5) ? ' COLLATE "C"' : '');
		push @targets, "(CASE WHEN random() * 100 < $nulls THEN NULL ELSE (ARRAY[" . join(', ', @$list) . "])[1 + least(" . int(rand(30)) .
			" / 10 * random() * random(), 0.999) * @{[ scalar @$list ]}] END)::$type{$column}";
	}
	s/1 \+ least\((.*?)\) \* (\d+)\]/1 + (floor(least($1) * $2))::int]/ foreach @targets;
	return "CREATE TABLE t$rows (" . join(', ', @definitions) . ");\n" .
		"INSERT INTO t$rows SELECT " . join(', ', @targets) . " FROM generate_series(1, $rows) g, long;\n" .
		($dropped <= $#order ? "ALTER TABLE t$rows DROP gone;\n" : '') .
		join('', map { "ALTER TABLE t$rows ADD $_ $type{$_}" . (likely(0.7) ? ' DEFAULT ' . ($values{$_}[1]) : '') . ";\n" } @added) .
		(likely(0.5) ? "UPDATE t$rows SET $added[0] = " . any(@{ $values{ $added[0] } }[0 .. 3]) . " WHERE random() < 0.1;\n" : '') .
		(likely(0.5) ? "VACUUM ANALYZE t$rows;\n" : '');
}

# ---- expressions
my %constants = (
	int => [ qw(0 1 -1 2 5 100 32767 2147483647) ], big => [ qw(0::int8 1::int8 9223372036854775807) ],
	float => [ map { "'$_'::float8" } qw(0 -0 1.5 NaN Infinity 1e308 0.1) ], numeric => [ qw(0 1 0.5 0.01 12.50 0.000001 9999999999.99 1e20 'NaN'::numeric) ]);

sub number
{
	my ($kind, $depth) = @_;
	my $of = $kind eq 'int' ? [qw(s i l)] : $kind eq 'float' ? ['f'] : [qw(n n m m w u)];
	my $choice = rand();

	return $choice < 0.75 ? any(@$of) : any(@{ $constants{$kind} }) if $depth <= 0 || $choice < 0.4;
	return 'CASE WHEN ' . condition($depth - 1) . ' THEN ' . number($kind, $depth - 1) .
		(likely(0.3) ? ' WHEN ' . condition($depth - 1) . ' THEN NULL' : '') .
		(likely(0.7) ? ' ELSE ' . number($kind, $depth - 1) : '') . ' END' if $choice < 0.55;
	return 's::float8' if $kind eq 'float' && $choice < 0.6;
	return any('s', 'i', 'l') . '::numeric' if $kind eq 'numeric' && $choice < 0.6;
	return '(' . number($kind, $depth - 1) . ' ' . any(qw(+ - * + - * /)) . ' ' . number($kind, $depth - 1) . ')';
}

sub values_of { my ($column) = @_; return map { $_ eq 'long_text' ? "'t'" : $_ } @{ $values{$column} }; }

sub list { my ($column) = @_; return join(', ', map { likely(0.03) ? 'NULL' : any(values_of($column)) } 1 .. any(1, 2, 3, 8, 17)); }

sub pattern { return join('', map { likely(0.05) ? any('_', '\\\\%') : any('%', '%', 'a', 'ab', 'abc', 'cab', 'PROMO', ' ', 'Ä', 'x') } 1 .. any(1, 2, 3, 4)); }

sub condition
{
	my ($depth) = @_;
	my $choice = rand();

	return '(' . join(any(' AND ', ' OR '), map { condition($depth - 1) } 1 .. any(2, 2, 3)) . ')' if $depth > 0 && $choice < 0.3;
	return 'NOT (' . condition($depth - 1) . ')' if $depth > 0 && $choice < 0.35;
	my $column = any(@columns);
	my $compare = any(qw(= <> < <= > >=));
	return "$column IS " . any('', 'NOT ') . 'NULL' if $choice < 0.42;
	if ($choice < 0.65)
	{
		my $kind = any(qw(int float numeric));
		return number($kind, $depth) . " $compare " . number($kind, $depth);
	}
	return "$column " . any('', 'NOT ') . 'IN (' . list($column) . ')' if $choice < 0.78;
	return any(qw(t v c)) . ' ' . any('', 'NOT ') . "LIKE '" . pattern() . "'" if $choice < 0.9;
	return "$column BETWEEN " . any(values_of($column)) . ' AND ' . any(values_of($column)) if $choice < 0.95;
	return "$column $compare " . any(values_of($column));
}

sub aggregate
{
	my $kind = any(qw(int float numeric));
	my $filter = likely(0.3) ? ' FILTER (WHERE ' . condition(1) . ')' : '';

	return 'count(*)' . $filter if likely(0.15);
	return 'count(' . any(@columns) . ')' . $filter if likely(0.1);
	return any(qw(min max)) . '(' . any(qw(d o)) . ')' . $filter if likely(0.1);
	return any(qw(sum avg min max count)) . '(' . number($kind, 2) . ')' . $filter;
}

sub statement
{
	my $where = likely(0.75) ? ' WHERE ' . join(' AND ', map { condition(2) } 1 .. any(1, 1, 2)) : '';
	my $from = ' FROM t' . any(@rows) . $where;

	return 'SELECT ' . join(', ', map { any(@columns) } 1 .. any(1, 2, 5)) . $from if likely(0.25);
	my @keys = map { any(grep { $_ ne 't' } @columns) } 1 .. any(0, 0, 1, 1, 2);
	return 'SELECT ' . join(', ', @keys, map { aggregate() } 1 .. any(1, 2, 3)) . $from . (@keys ? ' GROUP BY ' . join(', ', @keys) : '');
}

# ---- the server
my $node = rdma_node('edges', conf => "jit = off\ntimezone = UTC\nextra_float_digits = 3\nenable_sort = off\nmax_parallel_workers_per_gather = 0\n");
$node->safe_psql('postgres', 'SET client_min_messages = warning; SELECT setseed(' . ($seed % 1000) / 1000 . q{);
	CREATE TABLE long AS SELECT string_agg(md5(i::text), '') AS long_text FROM generate_series(1, 300) i;} . join('', map { table($_) } @rows) . q{
	CREATE FUNCTION result(statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE answer text;
	BEGIN
		EXECUTE format('SELECT count(*) || E''\n'' || coalesce(string_agg(q::text, E''\n'' ORDER BY q::text COLLATE "C"), '''') FROM (%s) q', statement) INTO answer;
		RETURN answer;
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLERRM;
	END $$;
	CREATE FUNCTION compare(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
	DECLARE
		way text;
		answer text;
		expected text;
	BEGIN
		FOREACH way IN ARRAY ARRAY['columns', 'column_costs', 'column_costs, column_kernels'] LOOP
			PERFORM set_config('rdma_fdw.disable', way, true);
			answer := result(statement);
			expected := coalesce(expected, answer);
			IF answer <> expected THEN
				RETURN NEXT format(E'%s\nunder %s gives\n%s\ninstead of\n%s', statement, way, left(answer, 500), left(expected, 500));
			END IF;
		END LOOP;
		IF expected !~ '^[0-9]+\n' THEN
			RETURN NEXT 'error';
		END IF;
	END $$});

my $end = time() + $duration;
my ($statements, $errors) = (0, 0);
my @differences;
while (time() < $end && @differences < 5)
{
	my $answer = $node->safe_psql('postgres', "SET statement_timeout = '60s';" . join('', map { 'SELECT compare($q$' . statement() . '$q$);' } 1 .. 50));
	$errors++ while $answer =~ s/^error$//m;
	$statements += 50;
	push @differences, $answer if $answer =~ /\S/;
}
note("$statements statements, of which $errors are errors");
is(join("\n", @differences), '', "seed $seed: statements give the same on columns");
cmp_ok($errors, '<', $statements / 2, 'less than half of the statements are errors');
done_testing();
