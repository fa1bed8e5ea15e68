# RdmaQueries.pm: random queries over two tables, for differential tests. They read %T% and %U% (and their aliases t and u), which
# the caller replaces by names of tables; each table has the columns that %of lists, and t has en and u has g of an enumerated type.
# random_query() gives one; srand() decides which; with DIFFERENTIAL_SETS in the environment only set operations come. A query's rows, compared as a multiset, do not depend on how it is run.
package RdmaQueries;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(pick random_query);

# Set by sub-selects that may run once for each row. One costs a round trip or more, so a query with such a one bounds its rows.
my $per_row;

sub pick { return $_[ int(rand(scalar @_)) ]; }

# Columns of each that are the same text wherever they are equal, so that any row of a group may stand for it.
my %of = (
	t => { int => [ 'id', 'i2', 'i4', 'dm' ], text => [ 't', 'vc' ], bool => ['b'], date => ['d'], exact => [ 'i2', 'i4', 'i8', 'n2' ] },
	u => { int => [ 'id', 'tid', 'k', 'v' ], text => ['s'], bool => ['f'], date => ['d'], exact => [ 'k', 'v', 'n' ] });

sub column { my ($a, $kind) = @_; return "$a->[0]." . pick(@{ $of{ $a->[1] }{$kind} }); }

sub condition
{
	my ($a, $depth) = @_;
	if ($depth > 0 && rand() < 0.5)
	{
		return '(' . condition($a, $depth - 1) . pick(' AND ', ' OR ') . condition($a, $depth - 1) . ')';
	}
	my $i = column($a, 'int');
	return pick("$i > " . int(rand(40)), "$i % " . (2 + int(rand(5))) . ' = 1', "$i IS NULL", "$i IS NOT NULL", "$i BETWEEN 1 AND " . int(rand(90)),
		"$i IN (1, 2, 3, 5, 8, 13, 21)", "$i = ANY (ARRAY[1, 4, 9, NULL])", "$i <> ALL (ARRAY[7, 8])", "coalesce($i, 3) < 20", "NOT ($i = 4)",
		column($a, 'text') . ' LIKE ' . pick("'a%'", "'%1'", "'b_%'"), column($a, 'text') . " COLLATE \"C\" < 'c'", column($a, 'bool'), 'NOT ' . column($a, 'bool'),
		column($a, 'bool') . ' IS NOT TRUE', column($a, 'date') . " < date '2001-09-01'", column($a, 'date') . ' < now()', '(' . column($a, 'int') . ', ' . column($a, 'int') . ') < (5, 7)',
		"CASE WHEN $i > 9 THEN " . column($a, 'bool') . ' ELSE ' . column($a, 'int') . ' > 4 END', "$i IS DISTINCT FROM 4", "greatest($i, 3) = $i",
		$a->[1] eq 'u' ? "$a->[0].g = 'ok'" : "$a->[0].en <> 'sad'", 'extract(month FROM ' . column($a, 'date') . ') = 3', "length(" . column($a, 'text') . ') > 2',
		"random() >= 0");
}

sub on
{
	my ($x, $y) = @_;
	my %link = (
		'tu' => [ '=.id = ~.tid', '=.id = ~.tid', '=.i2 = ~.v', '=.dm = ~.id', '=.d = ~.d' ],
		'uu' => [ '=.id = ~.tid', '=.k = ~.k AND =.v = ~.v', '=.s = ~.s', '=.id = ~.id' ],
		'tt' => [ '=.id = ~.id', '=.i4 = ~.i4', '=.id = ~.dm' ]);
	($x, $y) = ($y, $x) if !$link{"$x->[1]$y->[1]"};
	my $text = pick(@{ $link{"$x->[1]$y->[1]"} });
	$text =~ s/=\./$x->[0]./g;
	$text =~ s/~\./$y->[0]./g;
	return $text;
}

# A FROM item: text, and the aliases that can be seen outside
sub joined
{
	my ($prefix, $n) = @_;
	my @seen = ([ "${prefix}1", pick('t', 'u', 'u') ]);
	my $text = '%' . uc($seen[0][1]) . "% $seen[0][0]";
	for my $i (2 .. $n)
	{
		my $next = [ "$prefix$i", pick('t', 'u', 'u') ];
		my $with = pick(@seen);
		my $item = '%' . uc($next->[1]) . "% $next->[0]";
		$item = "(SELECT * FROM %" . uc($next->[1]) . "% x WHERE " . condition([ 'x', $next->[1] ], 1) . ") $next->[0]" if rand() < 0.25;
		$item = grouped_item($next->[1]) . " $next->[0]" if rand() < 0.12;
		my $join = pick('JOIN', 'JOIN', 'LEFT JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
		my $more = $join ne 'FULL JOIN' && rand() < 0.3 ? ' AND ' . condition(pick($with, $next), 0) : '';
		$text = "($text $join $item ON " . on($with, $next) . "$more)";
		push @seen, $next;
	}
	return ($text, @seen);
}

sub exists_clause
{
	my ($a) = @_;
	my $b = [ 'e', pick('t', 'u') ];
	my $where = on($a, $b) . (rand() < 0.5 ? ' AND ' . condition($b, 0) : '');
	my $not = pick('', 'NOT ');
	return "${not}EXISTS (SELECT FROM %" . uc($b->[1]) . "% e WHERE $where)" if rand() < 0.6;
	return column($a, 'int') . " ${not}IN (SELECT " . column($b, 'int') . ' FROM %' . uc($b->[1]) . '% e WHERE ' . condition($b, 1) . ')';
}

# A condition with a sub-select that the planner does not make a join of, correlated or not, up to two deep
sub subselect
{
	my ($a, $depth) = @_;
	$per_row = 1;
	my $b = [ $depth ? 's' : 'ss', pick('t', 'u', 'u') ];
	my $where = rand() < 0.8 ? on($a, $b) : condition($b, 0);
	$where .= ' AND ' . condition($b, 0) if rand() < 0.4;
	$where .= ' AND ' . pick("$b->[0].id > ", "$b->[0].id <> ") . column($a, 'int') if rand() < 0.2;
	$where .= ' AND ' . subselect(rand() < 0.5 ? $a : $b, 0) if $depth && rand() < 0.25;
	my $from = "FROM %" . uc($b->[1]) . "% $b->[0] WHERE $where";
	my $i = column($a, 'int');
	my $j = column($b, 'int');
	my $op = pick('=', '<', '>', '<>', '>=');
	my $not = pick('', 'NOT ');
	return pick(
		"$i $op (SELECT " . pick("max($j)", "min($j)", 'count(*)', "sum($j) / 3", "avg($j) + $i") . " $from)",
		"$i $op (SELECT $j $from ORDER BY $b->[0].id LIMIT 1)",
		"coalesce((SELECT min(" . column($b, 'text') . ") $from), 'x') $op " . column($a, 'text'),
		'(' . condition($a, 0) . pick(' OR ', ' = ') . "${not}EXISTS (SELECT $from))",
		'(' . condition($a, 0) . " OR $i ${not}IN (SELECT $j $from))",
		"$i ${not}IN (SELECT $j $from)",
		"$i $op " . pick('ANY', 'ALL') . " (SELECT $j $from)",
		"$i $op ALL (SELECT DISTINCT $j $from)",
		"$i $op ANY (SELECT max($j) $from GROUP BY " . column($b, 'int') . ' HAVING count(*) < 9)',
		"cardinality(ARRAY(SELECT $j $from)) % 3 = " . int(rand(2)),
		"CASE WHEN EXISTS (SELECT $from) THEN $i > 3 ELSE $i IS NULL END");
}

# A scalar aggregate correlated with row a: by equalities of columns, perhaps with more conditions on either side, perhaps not only by such.
sub correlated
{
	my ($a, $depth) = @_;
	$per_row = 1;
	my $b = [ "s$depth", pick('t', 'u') ];
	my $from = '%' . uc($b->[1]) . "% $b->[0]";
	my @where = (on($a, $b));
	my $column = column($b, 'exact');
	my $int = column($b, 'int');

	push @where, condition($b, 0) if rand() < 0.5;
	push @where, column($a, 'bool') if rand() < 0.1;
	push @where, column($a, 'int') . ' < ' . column($b, 'int') if rand() < 0.08;
	push @where, column($b, 'int') . ' = ' . column($a, 'int') if rand() < 0.15;
	push @where, column($b, 'text') . ' = ' . column($a, 'text') if rand() < 0.08;
	push @where, "coalesce(" . column($a, 'int') . ", 2) = $int" if rand() < 0.08;
	push @where, exists_clause($b) if rand() < 0.15;
	push @where, column($b, 'exact') . pick(' > ', ' <= ') . correlated($b, $depth + 1) if $depth < 2 && rand() < 0.25;
	if (rand() < 0.25)
	{
		my $c = [ "j$depth", pick('t', 'u') ];
		$from .= pick(' JOIN ', ' LEFT JOIN ') . '%' . uc($c->[1]) . "% $c->[0] ON " . on($b, $c);
	}
	my $value = pick('count(*)', "count($int)", "sum($column)", "min($column)", "max($column)", "avg($int)", "0.5 * sum($column)", "coalesce(sum($int), 0)", "count(*) + sum($int)",
		"nullif(count(*), 1)", "count(DISTINCT $int)", "sum($column) FILTER (WHERE " . condition($b, 0) . ')', "coalesce(max($int), min($int), -1)", "length(max(" . column($b, 'text') . '))',
		"array_length(array_agg($int), 1)", "CASE WHEN count(*) = 0 THEN -5 ELSE sum($int) END", "bit_or($int)", "regr_count($int, $column)");
	return "(SELECT $value FROM $from WHERE " . join(' AND ', @where) . ')';
}

sub correlated_condition
{
	my ($a) = @_;
	my $sub = correlated($a, 1);
	my $with = pick(column($a, 'exact'), column($a, 'int'), 3, 0);
	return pick("$with < $sub", "$with >= $sub", "$sub IS NULL", "$sub = $with", "coalesce($sub, 1) > 2", "($with < $sub OR " . condition($a, 0) . ')', "NOT ($with > $sub)");
}

# Such an aggregate by groups, with the columns of the table.
sub grouped_item
{
	my ($table) = @_;
	my $q = $table eq 't' ?
	  'min(id) AS id, min(i2) AS i2, max(i4) AS i4, max(i8) AS i8, sum(n2) AS n2, max(t) AS t, min(vc) AS vc, bool_and(b) AS b, min(d) AS d, max(dm) AS dm, \'ok\' AS en' :
	  'max(id) AS id, min(tid) AS tid, min(k) AS k, max(v) AS v, min(s) AS s, sum(n) AS n, max(d) AS d, \'ok\' AS g, bool_or(f) AS f';
	my %by = map { $_ => 1 } map { pick($table eq 't' ? qw(id i2 i4 dm b) : qw(id tid k v s f)) } 1 .. pick(1, 1, 2);
	$q =~ s/\w+\($_\) AS $_\b/$_/ foreach keys %by;
	return "(SELECT $q FROM %" . uc($table) . '% x WHERE ' . (rand() < 0.5 ? condition([ 'x', $table ], 0) : 'true') . ' GROUP BY ' . join(', ', sort keys %by)
	  . (rand() < 0.2 ? ' HAVING count(*) > 1' : '') . ')';
}

sub aggregate
{
	my $a = pick(@_);
	my $i = column($a, 'int');
	my $x = column($a, 'exact');
	my $text = pick('count(*)', "count($i)", "sum($x)", "min($x)", "max($x)", "avg($i)", "count(DISTINCT $i)", 'max(' . column($a, 'text') . ')', 'min(' . column($a, 'date') . ')',
		'bool_or(' . column($a, 'bool') . ')', "array_agg($i ORDER BY $i NULLS FIRST)", "string_agg(DISTINCT " . column($a, 'text') . ", ',')", "sum($i) + count(*)",
		"percentile_disc(0.5) WITHIN GROUP (ORDER BY $i)", "bit_and($i)", "max($i) - min($i)", "sum(DISTINCT $i)", "variance($i)");
	return $text =~ /^(count|sum|min|max|avg|bit_and)\([^)]*\)$/ && rand() < 0.2 ? "$text FILTER (WHERE " . condition($a, 0) . ')' : $text;
}

# Rows with their order, where the order is complete
sub in_order { my ($q) = @_; return "SELECT x.*, row_number() OVER () AS rn FROM ($q) x"; }

# A branch of set operations: an integer of some width and a text.
sub branch
{
	my ($f, @s) = joined('p', pick(1, 1, 2));
	my $i = column($s[0], 'int') . pick('', '', '::int8', '::int8', ' + 1');
	my $t = column($s[-1], 'text') . '::text COLLATE "C"';
	my $rest = "FROM $f" . (rand() < 0.8 ? ' WHERE ' . condition($s[0], 1) : '');
	my $kind = int(rand(10));
	return "SELECT $i AS a, max($t) AS b $rest GROUP BY 1" if $kind == 0;
	return "SELECT DISTINCT $i AS a, $t AS b $rest" if $kind == 1;
	return "(SELECT $i AS a, $t AS b $rest ORDER BY 1, 2 LIMIT " . int(rand(12)) . ')' if $kind == 2;
	return "SELECT count(*) AS a, 'x' COLLATE \"C\" AS b $rest" if $kind == 3;
	return "SELECT " . pick('3', 'NULL', '7::int8') . " AS a, $t AS b $rest" if $kind == 4;
	return "SELECT $i AS a, $t AS b $rest";
}

sub set_tree
{
	my ($depth) = @_;
	return branch() if $depth == 0;
	my ($left, $right) = map { set_tree(rand() < 0.4 ? $depth - 1 : 0) } 1 .. 2;
	return "($left) " . pick('UNION', 'UNION', 'UNION ALL', 'UNION ALL', 'INTERSECT', 'INTERSECT ALL', 'EXCEPT', 'EXCEPT ALL') . " ($right)";
}

sub set_query
{
	my $q = set_tree(pick(1, 1, 2, 3));
	my $kind = int(rand(9));
	return in_order("$q ORDER BY " . pick('1, 2', '2 DESC, 1', '1 DESC NULLS LAST, 2') . (rand() < 0.7 ? ' LIMIT ' . int(rand(15)) . pick('', ' OFFSET 3') : '')) if $kind == 0;
	return "SELECT count(*), sum(a), max(b), count(DISTINCT a) FROM ($q) z" . pick('', ' WHERE a > 3', ' WHERE now() > \'2020-01-01\'') if $kind == 1;
	return "SELECT a % 5, count(*), min(b) FROM ($q) z" . pick('', ' WHERE a IS NOT NULL') . ' GROUP BY 1' if $kind == 2;
	return "SELECT z.id, y.b FROM %U% z " . pick('JOIN', 'LEFT JOIN', 'FULL JOIN') . " ($q) y ON z.id = y.a" . pick('', ' WHERE z.k > 2') if $kind == 3;
	return "SELECT z.id FROM %U% z WHERE " . pick('', 'NOT ') . "z.id IN (SELECT a FROM ($q) y WHERE a IS NOT NULL)" if $kind == 4;
	return "SELECT z.id, (SELECT count(*) FROM ($q) y WHERE y.a = z.id) FROM %U% z WHERE z.id < 20" if $kind == 5;
	return $q;
}

sub unbounded_query
{
	my ($from, @seen) = joined('a', pick(1, 2, 2, 2, 3, 3, 4));
	my @where = map { condition($_, 1) } grep { rand() < 0.4 } @seen;
	push @where, exists_clause(pick(@seen)) if rand() < 0.25;
	push @where, subselect(pick(@seen), 1) if rand() < 0.25;
	push @where, correlated_condition(pick(@seen)) if rand() < 0.12;
	# what random_query() makes a condition of, or takes away
	my $where = (@where ? ' WHERE ' . join(' AND ', @where) : '') . '%' . (@where ? 'AND' : 'WHERE') . ':' . join(' ', map { $_->[0] } @seen) . '%';
	my $shape = $ENV{DIFFERENTIAL_SETS} ? 0.8 : rand();
	my $n = 0;

	if ($shape < 0.30)
	{
		my $list = join(', ', map { $n++; column(pick(@seen), pick('int', 'text', 'date', 'bool', 'exact')) . " AS c$n" } 1 .. 3);
		$list .= ', (' . subselect(pick(@seen), 0) . ') AS c4' if rand() < 0.15;
		return "SELECT $list FROM $from$where" if rand() < 0.5;
		my $ids = join(', ', map { "$_->[0].id" } @seen);
		return in_order("SELECT $list FROM $from$where ORDER BY " . pick('1, ', '2 DESC, ', '3 NULLS FIRST, ', '') . $ids
			  . (rand() < 0.7 ? ' LIMIT ' . int(rand(20)) . (rand() < 0.4 ? ' OFFSET ' . int(rand(10)) : '') : ''));
	}
	if ($shape < 0.60)
	{
		my @keys = map { $n++; my $a = pick(@seen); pick(column($a, 'int'), column($a, 'int') . ' % 4', column($a, 'text'), column($a, 'bool'), 'extract(year FROM ' . column($a, 'date') . ')') } 1 .. pick(0, 1, 1, 2);
		my $aggregates = join(', ', map { $n++; aggregate(@seen) . " AS c$n" } 1 .. pick(1, 2, 3));
		my $group = @keys ? ' GROUP BY ' . (@keys == 2 && rand() < 0.3 ? pick('ROLLUP', 'CUBE') . '(' . join(', ', @keys) . ')' : join(', ', @keys)) : '';
		$aggregates =~ s/count\(\*\)/'count(*) FILTER (WHERE ' . subselect(pick(@seen), 0) . ')'/e if rand() < 0.2;
		my $having = rand() < 0.3 ? ' HAVING count(*) > ' . pick(0, 1, 3) . (rand() < 0.3 ? ' AND max(' . column(pick(@seen), 'int') . ') IS NOT NULL' : '') : '';
		my $m = 0;
		my $list = join(', ', (map { $m++; "$_ AS k$m" } @keys), $aggregates);
		return "SELECT $list FROM $from$where$group$having" if rand() < 0.7 || @keys == 0 || $group =~ /ROLLUP|CUBE/;
		return in_order("SELECT $list FROM $from$where$group$having ORDER BY " . join(', ', map { $_ . pick('', ' DESC', ' NULLS FIRST') } 1 .. @keys) . ' LIMIT 5');
	}
	if ($shape < 0.70)
	{
		my $list = join(', ', map { $n++; my $a = pick(@seen); pick(column($a, 'int'), column($a, 'text'), column($a, 'int') . ' > 5') . " AS c$n" } 1 .. 2);
		return rand() < 0.5 ? "SELECT DISTINCT $list FROM $from$where" : in_order("SELECT DISTINCT $list FROM $from$where ORDER BY 1, 2 LIMIT 7");
	}
	if ($shape < 0.78)
	{
		my $a = pick(@seen);
		my $ids = join(', ', map { "$_->[0].id" } @seen);
		my $over = 'OVER (' . (rand() < 0.6 ? 'PARTITION BY ' . column($a, pick('int', 'text', 'bool')) . ' ' : '') . "ORDER BY " . column($a, 'int') . ", $ids"
		  . (rand() < 0.3 ? ' ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING' : '') . ')';
		my $function = pick('row_number()', 'rank()', 'lag(' . column($a, 'int') . ')', 'sum(' . column($a, 'exact') . ')', 'count(*)', 'first_value(' . column($a, 'text') . ')');
		my $q = "SELECT $a->[0].id, $function $over AS w FROM $from$where";
		return rand() < 0.7 ? $q : "SELECT * FROM ($q) y WHERE w::text <> '2'" if $function ne 'row_number()' && $function ne 'rank()';
		return rand() < 0.5 ? $q : "SELECT * FROM ($q) y WHERE w <= 3";
	}
	return set_query() if $shape < 0.86;
	if ($shape < 0.93)
	{
		my $how = pick('', 'MATERIALIZED', 'NOT MATERIALIZED');
		return "WITH w AS $how (SELECT $seen[0][0].id AS wid, count(*) AS n FROM $from$where GROUP BY 1) SELECT z.id, n FROM %U% z LEFT JOIN w ON w.wid = z.id WHERE z.k > 1";
	}
	my $a = pick(@seen);
	return "SELECT $a->[0].id, " . join(', ', map { $n++; correlated($a, 1) . " AS c$n" } 1 .. pick(1, 2)) . " FROM $from$where" if rand() < 0.5;
	return "SELECT " . correlated($a, 1) . " AS s, $a->[0].id FROM $from$where ORDER BY 1, 2" if rand() < 0.2;
	$per_row = 1;
	return "SELECT $a->[0].id, (SELECT " . pick('count(*)', 'max(z.v)', 'sum(z.n)') . " FROM %U% z WHERE z.tid = $a->[0].id) AS s FROM $from$where" if rand() < 0.5;
	$per_row = 1;
	return "SELECT $a->[0].id, l.id AS lid FROM $from, LATERAL (SELECT z.id FROM %U% z WHERE z.k = " . column($a, 'int') . " ORDER BY z.id LIMIT 2) l$where";
}

sub random_query
{
	$per_row = 0;
	my $q = unbounded_query();
	$q =~ s{%(AND|WHERE):([^%]*)%}{$per_row ? " $1 " . join(' AND ', map { "coalesce($_.id, 0) <= 60" } split(/ /, $2)) : ''}ge;
	return $q;
}

1;
