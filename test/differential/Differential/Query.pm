# Query.pm: random queries. query() gives one whose rows, as a multiset, depend on nothing but the tables; with
# "total" their order does not either.
#
# A relation is {text, scope, key, rows}: a FROM item, its columns, those that tell its rows apart (undef: nothing
# does), and about how many there are.
package Differential::Query;

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max min);
use Differential::Expr qw(not_strict pick chance expr condition constant of_type budget subselect_budget equality @types);
use Differential::Schema qw(%columns %rows);

our @EXPORT_OK = qw(query split_query reset_aliases test_select from_item base_relation select_list);

# Which tables may be read
our @tables = qw(t t u u w w x);
# May a table that is read be read with ONLY, which means nothing for a table without children? Given its name
our $only = sub { 0 };

# Statements that take long would be most of a run. What most joins leave of all pairs is a guess.
my $most_rows = 30000;
my $joined = 0.15;

my $alias;
my @common_table;				# {name, types}: of WITH, which may be read

sub reset_aliases { $alias = 0; @common_table = (); }
sub next_alias { my ($prefix) = @_; $alias++; return "$prefix$alias"; }

sub base_relation
{
	my ($table) = @_;
	my $a = next_alias('a');

	$table //= pick(@tables);
	my $only_it = @_ ? '' : $only->($table) ? 'ONLY ' : '';
	return { text => "$only_it$table $a", scope => [ map { [ "$a.$_->[0]", $_->[1] ] } @{ $columns{$table} } ], key => ["$a.id"], rows => $rows{$table} };
}

my @exported = qw(int4 int4 int4 int8 num text text vc bool date mood uuid dm ia jb pair iv by);

sub types { my ($n) = @_; return map { pick(@exported) } 1 .. $n; }

sub derived
{
	my ($depth, $outer) = @_;
	my $a = next_alias('d');
	my @types = types(pick(1, 2, 2, 3));
	my $q = query($depth - 1, types => \@types, outer => $outer, limit => 0.25);
	my $n = 0;
	my @scope = map { $n++; [ "$a.c$n", $_ ] } @types;
	my $text = "($q->{sql}) $a(" . join(', ', map { "c$_" } 1 .. $n) . ')';

	return { text => $text, scope => \@scope, key => undef, rows => $q->{rows} };
}

sub values_relation
{
	my $a = next_alias('v');
	my @types = map { pick(qw(int4 text num date)) } 1 .. 2;
	my @rows = map { '(' . join(', ', map { chance(0.1) ? 'NULL::' . ({ num => 'numeric', int4 => 'int', text => 'text', date => 'date' }->{$_}) : constant($_) } @types) . ')' } 1 .. pick(1, 3, 5);
	my $n = 0;

	return { text => '(VALUES ' . join(', ', @rows) . ") $a(c1, c2)", scope => [ map { $n++; [ "$a.c$n", $_ ] } @types ], key => undef, rows => scalar(@rows) };
}

sub from_item
{
	my ($depth, $outer) = @_;
	my $kind = rand();

	if (@common_table && $kind < 0.3 && !$outer)
	{
		my $with = pick(@common_table);
		my $a = next_alias('c');
		my $n = 0;
		return { text => "$with->{name} $a", scope => [ map { $n++; [ "$a.c$n", $_ ] } @{ $with->{types} } ], key => undef, rows => $with->{rows} };
	}
	return derived($depth, $outer) if $depth > 0 && $kind < 0.27;
	return values_relation() if $kind > 0.97;
	if ($kind > 0.95)
	{
		my $a = next_alias('f');
		return { text => "generate_series(1, " . int(rand(9)) . ") $a(c1)", scope => [ [ "$a.c1", 'int4' ] ], key => ["$a.c1"], rows => 9 };
	}
	return base_relation();
}

# A tree of joins: of n relations
sub joined
{
	my ($n, $depth, $outer) = @_;

	return from_item($depth, $outer) if $n <= 1;
	my $of_left = 1 + int(rand($n - 1));
	$of_left = $n - 1 if chance(0.6);
	my $left = joined($of_left, $depth, $outer);
	my $kind = pick('JOIN', 'JOIN', 'LEFT JOIN', 'LEFT JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN', 'CROSS JOIN');

	# a row of it, for each of the other
	if ($depth > 0 && chance(0.07) && subselect_budget())
	{
		local $Differential::Expr::times = $Differential::Expr::times * $left->{rows};
		my $right = derived($depth, $left->{scope});
		my $join = pick('CROSS JOIN LATERAL', 'LEFT JOIN LATERAL');
		my $both = [ @{ $left->{scope} }, @{ $right->{scope} } ];
		return { text => "$left->{text} $join $right->{text}" . ($join =~ /LEFT/ ? ' ON ' . (chance(0.6) ? 'true' : condition($both, 0)) : ''), scope => $both, key => undef, rows => $left->{rows} * $right->{rows} };
	}
	my $right = joined($n - $of_left, $depth, $outer);
	my $both = [ @{ $left->{scope} }, @{ $right->{scope} } ];
	my $key = $left->{key} && $right->{key} ? [ @{ $left->{key} }, @{ $right->{key} } ] : undef;
	my $rows = $left->{rows} * $right->{rows};
	$kind = 'JOIN' if $kind eq 'CROSS JOIN' && ($n > 2 || $Differential::Expr::times * $rows > $most_rows);
	$rows = max($rows * $joined, $left->{rows}, $right->{rows}) if $kind ne 'CROSS JOIN';
	local $Differential::Expr::times = $Differential::Expr::times * $rows;
	# a full join can only be made by hashing or merging
	my $on = $kind eq 'CROSS JOIN' ? '' : ' ON ' . equality($left->{scope}, $right->{scope}, $kind eq 'FULL JOIN');
	if ($kind =~ /^(LEFT|RIGHT|FULL) JOIN$/ && chance(0.25))
	{
		my $type = pick('int4', 'int4', 'text');
		my ($kept, $nulled) = $kind eq 'RIGHT JOIN' ? ($right, $left) : ($left, $right);
		my @kept = of_type($kept->{scope}, $type);
		my @nulled = of_type($nulled->{scope}, $type);
		$on = ' ON ' . pick(@kept) . ' = ' . not_strict(pick(@nulled), $type) if @kept && @nulled;
	}
	$on .= ' AND ' . equality($left->{scope}, $right->{scope}) if $on && $kind ne 'FULL JOIN' && chance(0.1);
	$on .= ' AND ' . equality($left->{scope}, $right->{scope}, 1) if $on && $Differential::Expr::times > $most_rows;
	$on .= ' AND ' . condition($both, chance(0.3) ? 1 : 0) if $on && $kind ne 'FULL JOIN' && chance(0.3);
	return { text => "($left->{text} $kind $right->{text}$on)", scope => $both, key => $key, rows => $rows };
}

sub from_clause
{
	my ($depth, $outer) = @_;
	my $n = pick(1, 1, 2, 2, 2, 3, 3, 4);

	$n = 1 + int(rand(2)) if $depth <= 0;
	$n-- while $n > 1 && !budget('relations', $n);
	my $from = joined($n, $depth, $outer);
	return $from if !$outer;
	return { %$from, scope => [ @{ $from->{scope} }, @$outer ], own => $from->{scope} };
}

sub own { my ($from) = @_; return $from->{own} // $from->{scope}; }

# What a sub-select sees of the query around it, and a condition that says so
sub correlated_where
{
	my ($from, $outer, $correlated) = @_;
	my $where = '';

	$where = ' WHERE ' . equality(own($from), $outer) if @$outer && chance($correlated // 0.75);
	$where .= ($where ? ' AND ' : ' WHERE ') . test_select(own($from)) if chance(0.12) && subselect_budget();
	$where .= ($where ? ' AND ' : ' WHERE ') . condition($from->{scope}, chance(0.3) ? 1 : 0) if chance(0.4);
	return $where;
}

# One value of the row that has this key
sub value_of_row
{
	my ($outer, $type) = @_;
	my $from = base_relation();
	my %types = map { $_->[0] => $_->[1] } @{ $from->{scope} };
	my @found = map { my @same = of_type($outer, $types{$_}); "$_ = " . (@same ? pick(@same) : expr($outer, 1, $types{$_})) } @{ $from->{key} };

	return '(SELECT ' . expr($from->{scope}, 1, $type) . " FROM $from->{text} WHERE " . join(' AND ', @found) . ')';
}

sub scalar_select
{
	my ($outer, $type) = @_;
	return value_of_row($outer, $type) if chance(0.25);
	my $from = from_clause(chance(0.2) ? 1 : 0, $outer);
	local $Differential::Expr::times = $Differential::Expr::times * $from->{rows};
	my $where = correlated_where($from, $outer);
	my $value = $type =~ /^int[48]$/ && chance(0.5) ? pick('count(*)', 'count(DISTINCT ' . expr(own($from), 1, 'int4') . ')') . "::$type" : undef;

	$value //= pick('min', 'max') . '(' . expr(own($from), 1, $type) . ')';
	return "(SELECT $value FROM $from->{text}$where)" if chance(0.8);
	my $e = expr(own($from), 1, $type);
	return "array_to_string(ARRAY(SELECT $e FROM $from->{text}$where ORDER BY 1), ',', '-')" if $type eq 'text' && chance(0.4);
	return "(SELECT $e FROM $from->{text}$where ORDER BY 1" . pick('', ' DESC', ' NULLS FIRST') . ' LIMIT 1)';
}

sub test_select
{
	my ($outer) = @_;
	my $kind = rand();
	my $not = pick('', '', 'NOT ');

	if ($kind < 0.35)
	{
		my $from = from_clause(chance(0.15) ? 1 : 0, $outer);
		local $Differential::Expr::times = $Differential::Expr::times * $from->{rows};
		return "${not}EXISTS (SELECT " . pick('', '1 ', '* ') . "FROM $from->{text}" . correlated_where($from, $outer) . ')';
	}
	my $type = pick(qw(int4 int4 text vc int8));
	my $e = expr($outer, 1, $type);
	my $q;
	if (chance(0.3)) { $q = query(1, types => [$type], limit => 0.2)->{sql}; }
	else
	{
		my $from = from_clause(chance(0.15) ? 1 : 0, $outer);
		local $Differential::Expr::times = $Differential::Expr::times * $from->{rows};
		$q = 'SELECT ' . expr($from->{scope}, 1, $type) . " FROM $from->{text}" . correlated_where($from, $outer, 0.35);
	}
	return "$e ${not}IN ($q)" if $kind < 0.75;
	return "$e " . pick('=', '<', '>=', '<>') . ' ' . pick('ANY', 'ALL') . " ($q)" if $kind < 0.93;
	return "cardinality(ARRAY($q)) % 3 = " . int(rand(3));
}

$Differential::Expr::scalar_select = \&scalar_select;
$Differential::Expr::test_select = \&test_select;

my %aggregates = (
	int4 => [ sub { "count(*)::int4" }, sub { "count($_[0])::int4" }, sub { "min($_[0])" }, sub { "max($_[0])" }, sub { "sum($_[0])::int4" }, sub { "count(DISTINCT $_[0])::int4" },
		sub { "bit_or($_[0])" }, sub { "percentile_disc(0.5) WITHIN GROUP (ORDER BY $_[0])" }, sub { "mode() WITHIN GROUP (ORDER BY $_[0])" },
		sub { "(max($_[0]) - min($_[0]))" }, sub { "coalesce(max($_[0]), -1)" }, sub { "array_length(array_agg($_[0]), 1)" } ],
	int8 => [ sub { 'count(*)' }, sub { "count($_[0])" }, sub { "max($_[0])" }, sub { "count(DISTINCT $_[0])" }, sub { "(sum($_[0]))::int8" } ],
	num => [ sub { "sum($_[0])" }, sub { "avg($_[0])" }, sub { "min($_[0])" }, sub { "sum(DISTINCT $_[0])" } ],
	text => [ sub { "max($_[0])" }, sub { "min($_[0])" }, sub { "string_agg($_[0], ',' ORDER BY $_[0])" }, sub { "string_agg(DISTINCT $_[0], '|')" } ],
	vc => [ sub { "max($_[0])::varchar" }, sub { "min($_[0])::varchar" } ],
	bool => [ sub { "bool_and($_[0])" }, sub { "bool_or($_[0])" }, sub { "(count(*) > 2)" }, sub { "every($_[0])" } ],
	date => [ sub { "max($_[0])" }, sub { "min($_[0])" } ],
	mood => [ sub { "max($_[0])" }, sub { "min($_[0])" } ],
	ia => [ sub { "max($_[0])" } ],
	dm => [ sub { "max($_[0])::positive" } ],
	iv => [ sub { "max($_[0])" }, sub { "sum($_[0])" } ],
	jb => [ sub { "jsonb_build_object('a', count(*))" } ]);

sub aggregate
{
	my ($scope, $type) = @_;
	return undef if !$aggregates{$type};
	my $text = pick(@{ $aggregates{$type} })->(expr($scope, 1, $type));
	if ($text =~ /^\w+\([^()]*\)$/ && chance(0.2)) { return "$text FILTER (WHERE " . condition($scope, 1) . ')'; }
	return $text;
}

# With PARTITION BY and ORDER BY such that rows that are equal in these give equal results
sub window
{
	my ($from, $type, $named) = @_;
	my $scope = $from->{scope};
	my $by = chance(0.5) ? 'PARTITION BY ' . expr($scope, chance(0.3) ? 1 : 0, pick(qw(int4 text bool))) : '';
	my $e = expr($scope, 0, $type);
	return undef if $e !~ /\b[a-z]+\d+\.\w/;
	my @order = ($e . pick('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'));
	unshift @order, expr($scope, 1, pick(qw(int4 text date vc))) . pick('', ' DESC') if chance(0.3);
	unshift @order, pick("'x'::text", '1::int4', '2024') if chance(0.05);
	push @order, @{ $from->{key} } if $from->{key} && !$from->{own};
	my $complete = $from->{key} && !$from->{own};
	my $order = 'ORDER BY ' . join(', ', @order);
	my @functions = $type eq 'int4' ? ('count(*)::int4', "sum($e)::int4", 'rank()::int4', 'dense_rank()::int4', "max($e)") : ("max($e)", "min($e)", "first_value($e)");
	push @functions, "lag($e)", "lead($e, 2)", "last_value($e)", "nth_value($e, 2)" if $complete;
	push @functions, 'row_number()::int4', 'ntile(3)::int4' if $complete && $type eq 'int4';
	my $f = pick(@functions);
	my ($call, $cast) = $f =~ /^(.*?)(::int4)?$/;
	my $frame = $f =~ /^(sum|max|min|count|first|last|nth)/ && chance(0.4)
	  ? pick('ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING', 'ROWS UNBOUNDED PRECEDING', 'RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING',
		'GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW', 'ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING EXCLUDE CURRENT ROW') : '';
	# which of the rows that are equal in the order a frame of rows has is not defined
	$frame = '' if !$complete && $frame =~ /ROWS/;
	return undef if $call =~ /[\$]/;
	if ($named && chance(0.6))
	{
		my $name = 'w' . (1 + @$named);
		# the clause defines all of it, or what OVER adds to
		if (chance(0.5)) { push @$named, "$name AS ($by $order)"; return "($call OVER ($name $frame))" . ($cast // '') if $frame; return "($call OVER " . pick($name, "($name)") . ')' . ($cast // ''); }
		push @$named, "$name AS ($by)";
		return "($call OVER ($name $order $frame))" . ($cast // '');
	}
	return "($call OVER ($by $order $frame))" . ($cast // '');
}

sub order_by
{
	my ($n, $scope, $distinct) = @_;
	my @by = map { $_ . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST', ' USING <', ' ASC') } sort { rand() <=> 0.5 } 1 .. $n;
	if ($scope && !$distinct)
	{
		my $e = expr($scope, 2, pick(qw(int4 text vc date mood)));
		# a bare constant is a column's number
		unshift @by, $e . pick('', ' DESC') if chance(0.25) && $e =~ /\b[a-z]+\d+\.\w/;
		unshift @by, "'x'::text" if chance(0.03);
	}
	return ' ORDER BY ' . join(', ', @by);
}

# Also where LIMIT and OFFSET together are no bigint
sub limit_clause
{
	return pick(' LIMIT 9223372036854775807 OFFSET ' . int(rand(6)), ' LIMIT ALL OFFSET 3', ' LIMIT 5 OFFSET 9223372036854775806') if chance(0.04);
	return ' LIMIT ' . pick(0, 1, 2, 5, 10, 20) . (chance(0.3) ? ' OFFSET ' . int(rand(6)) : '');
}

# One SELECT without set operations; types of its columns are given.
sub plain
{
	my ($depth, %args) = @_;
	my @wanted = @{ $args{types} };
	my $from = from_clause($depth, $args{outer});
	my $scope = $from->{scope};
	local $Differential::Expr::times = $Differential::Expr::times * $from->{rows};
	my $where = chance(0.55) ? condition($scope, pick(0, 1, 2)) : '';
	my $kind = rand();
	my (@list, @windows, $tail, $distinct, $order_scope);

	$where .= ($where ? ' AND ' : '') . equality(own($from), $args{outer}) if $args{outer} && @{ $args{outer} } && chance(0.7);
	$tail = '';
	if ($kind < 0.28 && !$args{rows_only})
	{
		my @keys = map { expr($scope, chance(0.3) ? 2 : 0, pick(qw(int4 int4 text vc bool date mood num))) } 1 .. pick(0, 1, 1, 2);
		@keys = grep { !/^\(SELECT|\$\d/ && /\b[a-z]+\d+\.\w/ } @keys;
		my %known;
		my $n = 0;
		@list = map {
			my $type = $_;
			my $text = aggregate(own($from), $type);
			# a key of the wanted type is worth as much
			if (!defined $text || chance(0.4))
			{
				my @fitting = grep { $_->[1] eq $type } @{ own($from) };
				if (@fitting && !($args{outer} && !@fitting)) { my $key = pick(@fitting)->[0]; push @keys, $key; $text = $key; }
			}
			$text // "max(" . constant($type) . ")";
		} @wanted;
		my %aggregated = (bool => 'bool_or', uuid => '', jb => '', pair => '', by => '');
		foreach my $i (0 .. $#wanted)
		{
			my $none = $aggregated{ $wanted[$i] } // 'max';
			$list[$i] = $none ? "$none(" . constant($wanted[$i]) . ')' : constant($wanted[$i]) if $list[$i] =~ /^max\(/ && $list[$i] !~ /\b[a-z]+\d+\./;
		}
		my $group = join(', ', grep { !$known{$_}++ } @keys);
		$tail = ' GROUP BY ' . (@keys > 1 && chance(0.25) ? pick("ROLLUP ($group)", "CUBE ($group)", "GROUPING SETS (($group), ())") : $group) if @keys;
		$tail = ' GROUP BY ' . pick("ROLLUP ($group)", "GROUPING SETS (($group), ())") if @keys == 1 && chance(0.1);
		$tail .= ' HAVING ' . pick('count(*) > ' . int(rand(4)), 'max(' . expr(own($from), 1, 'int4') . ') IS NOT NULL', 'bool_or(' . condition(own($from), 1) . ')', 'min(' . expr(own($from), 1, 'text') . ") < 'c'")
		  if chance(0.3);
	}
	else
	{
		my $window_at = $kind < 0.42 && !$args{rows_only} ? int(rand(@wanted)) : -1;
		@list = map {
			my $w = $_ == $window_at && $wanted[$_] =~ /^(int4|text|date|mood|vc|num)$/ ? window($from, $wanted[$_], \@windows) : undef;
			$w //= scalar_select($scope, $wanted[$_]) if $wanted[$_] =~ /^(int4|int8|text|date|num)$/ && chance(0.05) && subselect_budget();
			$w // expr($scope, pick(0, 0, 1, 2), $wanted[$_]);
		} 0 .. $#wanted;
		$distinct = 1 if $kind > 0.86;
		$order_scope = $scope if !$distinct;
	}
	$tail .= ' WINDOW ' . join(', ', @windows) if @windows;
	my $select = 'SELECT ';
	my $total = 0;
	my $order = '';
	if ($distinct && chance(0.3))
	{
		my $on = expr($scope, 1, pick(qw(int4 text bool)));
		if ($on !~ /^\(SELECT|\$\d/ && $on =~ /\./)
		{
			$select .= "DISTINCT ON ($on) ";
			# the first of each group is the same row wherever it is made
			$order = " ORDER BY $on" . pick('', ' DESC') . ', ' . join(', ', 1 .. @list);
			$total = 1;
		}
		else { $select .= 'DISTINCT '; }
	}
	elsif ($distinct) { $select .= 'DISTINCT '; }
	my $sql = $select . join(', ', @list) . " FROM $from->{text}" . ($where ? " WHERE $where" : '') . $tail;
	return { sql => $sql, order => $order, total => $total, order_scope => $order_scope, select => $select . join(', ', @list) . " FROM $from->{text}", where => $where, scope => $scope, rest => $tail,
		rows => $from->{rows} };
}

# What a branch of set operations may give for a column of a type instead of one of it
my %as_well = (int8 => [qw(int8 int4 int2)], num => [qw(num int4 int8)], text => [qw(text vc)], int4 => [qw(int4 int4 int2)]);

sub branch
{
	my ($depth, $types, $first) = @_;
	my $q = plain($depth, types => [ map { pick(@{ $as_well{$_} // [$_] }) } @$types ]);
	# constants, and NULL without a type
	if (chance(0.25))
	{
		my $from = from_clause(0);
		my @list = map { my $kind = rand(); $kind < 0.2 && !$first ? 'NULL' : $kind < 0.6 && !($first && $_ eq 'num') ? constant($_) : expr($from->{scope}, 1, $_) } @$types;
		return 'SELECT ' . join(', ', @list) . " FROM $from->{text}" . (chance(0.3) ? ' WHERE ' . condition($from->{scope}, 1) : '');
	}
	return "($q->{sql}" . ($q->{order} || order_by(scalar(@$types))) . limit_clause() . ')' if chance(0.12);
	return "($q->{sql}$q->{order})" if $q->{order};
	return $q->{sql};
}

sub set_tree
{
	my ($depth, $types, $levels, $first) = @_;
	return branch($depth, $types, $first) if $levels == 0;
	# what stands first says which type an unknown one is of
	my $left = set_tree($depth, $types, chance(0.3) ? $levels - 1 : 0, 1);
	my $right = set_tree($depth, $types, chance(0.4) ? $levels - 1 : 0, 0);
	return "($left) " . pick('UNION', 'UNION', 'UNION ALL', 'UNION ALL', 'INTERSECT', 'INTERSECT ALL', 'EXCEPT', 'EXCEPT ALL') . " ($right)";
}

# types: of its columns (default: some); outer: scope of the query around a LATERAL one; total: in a complete order;
# limit: how often it has LIMIT.
sub query
{
	my ($depth, %args) = @_;
	my @types = $args{types} ? @{ $args{types} } : types(pick(1, 2, 2, 3, 3, 4));
	my $with = '';
	my ($sql, $order, $total, $order_scope, $rows) = ('', '', 0, undef, 100);

	if ($depth > 1 && $args{top} && chance(0.1) && budget('relations', 2))
	{
		my $name = next_alias('with');
		my @with_types = types(2);
		my $q = query($depth - 1, types => \@with_types);
		$with = "WITH $name(c1, c2) AS " . pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ') . "($q->{sql}) ";
		push @common_table, { name => $name, types => \@with_types, rows => $q->{rows} };
	}
	if (chance($args{top} ? 0.2 : 0.15) && !$args{outer} && budget('relations', 1))
	{
		@types = map { /^(int4|int2)$/ && chance(0.3) ? 'int8' : $_ } @types if !$args{types};
		$sql = set_tree($depth - 1, \@types, pick(1, 1, 1, 2), 1);
		# a column's own type may have become a wider one
		my @casts = map { /^int4$/ ? '::int4' : '' } @types;
	}
	else
	{
		my $q = plain($depth, types => \@types, outer => $args{outer});
		($sql, $order, $total, $order_scope, $rows) = @{$q}{qw(sql order total order_scope rows)};
	}
	my $limit = chance($args{limit} // 0.3);
	if (!$total && ($args{total} || $limit || ($args{top} && chance(0.3))))
	{
		my $distinct = !$order_scope;
		local $Differential::Expr::times = $Differential::Expr::times * $rows;
		$order = order_by(scalar(@types), $order_scope, $distinct);
		$total = 1;
	}
	$sql = "$with$sql$order" . ($limit ? limit_clause() : '');
	return { sql => $sql, total => $total, types => \@types, rows => $limit ? min($rows, 20) : $rows };
}

# A query without what depends on all rows, for ternary partitioning: {select, where, scope, rest}
sub split_query
{
	my ($depth) = @_;
	my @types = types(pick(1, 2, 3));
	return plain($depth, types => \@types, rows_only => 1);
}

1;
