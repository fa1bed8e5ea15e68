# Expr.pm: random expressions of a type over the columns of a scope. None of them can raise an error, and each has the
# same text wherever it is equal (but for the scale of a numeric), so that any row of a group may stand for it.
#
# A scope is a list of columns [sql, type]; sql begins with the alias of its relation and a dot. Aliases are unique
# within a statement, which is what lets an expression be written again elsewhere (see again()).
package Differential::Expr;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(not_strict pick chance expr condition constant of_type begin_statement budget subselect_budget equality @types $scalar_select $test_select parameters);

# Every type; json cannot be compared
our @types = qw(int4 int8 int2 num f8 text vc bp nm bool date ts tz time iv uuid mood dm ia ta r4 mr jb pair inet bit money tv by);
my @common = qw(int4 int4 int4 int8 int2 num text text vc vc bool date mood dm);

# Set by Query.pm, as sub-selects are queries: sub (scope, type) and sub (scope).
our ($scalar_select, $test_select);

# About how often what is generated now will be evaluated; a server may be asked each time, if it is a sub-select.
our $times = 1;

my (@earlier, %left, @parameters, $with_parameters);

sub pick { return $_[ int(rand(scalar @_)) ]; }
sub chance { return rand() < $_[0]; }

# What one statement may still have of relations and of sub-selects.
sub begin_statement
{
	my (%args) = @_;
	@earlier = ();
	@parameters = ();
	$times = 1;
	$with_parameters = $args{parameters};
	%left = (relations => 7, selects => 3, %{ $args{budget} // {} });
}

sub budget
{
	my ($what, $n) = @_;
	return 0 if $left{$what} < ($n // 1);
	$left{$what} -= $n // 1;
	return 1;
}

sub subselect_budget { return $times <= 1500 && budget('selects'); }

sub parameters { return @parameters; }

my %sql_type = (num => 'numeric', vc => 'varchar', bp => 'bpchar', nm => 'name', ts => 'timestamp', tz => 'timestamptz', iv => 'interval', dm => 'positive', ia => 'int4[]',
	ta => 'text[]', r4 => 'int4range', mr => 'int4multirange', jb => 'jsonb', bit => 'bit(9)', tv => 'tsvector', by => 'bytea', f8 => 'float8', bool => 'boolean');

my %constants = (
	int2 => sub { (int(rand(24)) - 8) . '::int2' },
	int4 => sub { chance(0.2) ? '(-' . int(rand(9)) . ')' : int(rand(30)) },
	int8 => sub { int(rand(60)) . '::int8' },
	num => sub { pick('1.5', '7.25', '12', '0.00', '-3.5') . '::numeric' },
	f8 => sub { pick('0.5', '2.25', '7', '1e300') . '::float8' },
	text => sub { pick("'a1'", "'b'", "''", "'c3'", "E'q\\\\''\"'", "'it''s'", "E'tab\\t'", "'Ünï'") },
	vc => sub { pick("'a'", "'c4'", "''", "'b'") . '::varchar' },
	bp => sub { pick("'a'", "'c4'", "'b'") . '::bpchar' },
	nm => sub { "'n" . int(rand(9)) . "'::name" },
	bool => sub { pick('true', 'false') },
	date => sub { "'2001-" . pick('02', '09') . "-11'::date" },
	ts => sub { "'2001-03-" . pick('25 03:00', '29 12:00:00.25') . "'::timestamp" },
	tz => sub { "'2001-03-" . pick('25 03:00', '29 12:00+02') . "'::timestamptz" },
	time => sub { "'0" . int(rand(10)) . ":30'::time" },
	iv => sub { "'" . int(rand(40)) . " hours 3 min'::interval" },
	uuid => sub { "md5('" . int(rand(30)) . "')::uuid" },
	mood => sub { pick("'sad'", "'ok'", "'happy'") . '::mood' },
	dm => sub { (1 + int(rand(30))) . '::positive' },
	ia => sub { pick("'{1,NULL,3}'::int4[]", 'ARRAY[2, 4]', "'{}'::int4[]") },
	ta => sub { pick("'{x1,NULL}'::text[]", "ARRAY['x2', E'q\\\\''\"']", "'{}'::text[]") },
	r4 => sub { pick("'[3,12)'::int4range", "'empty'::int4range", "int4range(5, NULL)") },
	mr => sub { pick("'{[1,3),[10,12)}'::int4multirange", "'{}'::int4multirange") },
	jb => sub { pick("'{\"a\": 3}'::jsonb", "'[1, null]'::jsonb", "jsonb_build_object('a', 4)") },
	pair => sub { "ROW(" . int(rand(6)) . ", 'p1')::pair" },
	inet => sub { "'10.0.1." . int(rand(9)) . "'::inet" },
	bit => sub { int(rand(32)) . '::bit(9)' },
	money => sub { int(rand(50)) . '::money' },
	tv => sub { "'fox:3 quick:2'::tsvector" },
	by => sub { 'decode(' . pick("'005c27'", "'5c'") . ", 'hex')" },
	js => sub { "'{\"a\": 1}'::json" });

sub constant
{
	my ($type) = @_;
	my $value = $constants{$type}->();

	if ($with_parameters && @parameters < 4 && chance(0.6))
	{
		push @parameters, [ $sql_type{$type} // $type, chance(0.1) ? 'NULL' : $value ];
		return '$' . scalar(@parameters);
	}
	return $value;
}

sub of_type
{
	my ($scope, @wanted) = @_;
	my %wanted = map { $_ => 1 } @wanted;
	return map { $_->[0] } grep { $wanted{ $_->[1] } } @$scope;
}

# An expression written before in this statement, where all its relations can be seen: what an outer join did to the
# columns since then makes it another value.
sub again
{
	my ($scope, $type) = @_;
	my %seen = map { $_->[0] => 1 } @$scope;
	my @fitting = grep {
		my $e = $_;
		$e->[0] eq $type && !grep { !$seen{$_} } @{ $e->[2] }
	} @earlier;

	return @fitting ? pick(@fitting)->[1] : undef;
}

sub remember
{
	my ($type, $text) = @_;
	return $text if $text =~ /SELECT|\$/ || length($text) > 120;
	my %of = map { $_ => 1 } $text =~ /\b([a-z]+\d+\.\w+)/g;
	push @earlier, [ $type, $text, [ keys %of ] ] if %of;
	return $text;
}

# Of each type, what makes one out of others; @_: scope, depth
my %makes = (
	int4 => [
		sub { '(' . expr(@_, 'int4') . pick(' + ', ' - ') . int(rand(9)) . ')' },
		sub { 'coalesce(' . expr(@_, 'int4') . ', ' . expr(@_, 'int4') . ')' },
		sub { 'coalesce(' . expr(@_, 'int4') . ', ' . int(rand(9)) . ')' },
		sub { '(' . expr(@_, 'int4') . ' % ' . (2 + int(rand(5))) . ')' },
		sub { 'length(' . expr(@_, 'text') . ')' }, sub { 'nullif(' . expr(@_, 'int4') . ', ' . int(rand(9)) . ')' },
		sub { pick('greatest', 'least') . '(' . expr(@_, 'int4') . ', ' . expr(@_, 'int4') . ')' },
		sub { '(' . expr(@_, 'int2') . ')::int4' }, sub { '(' . expr(@_, 'dm') . ')::int4' }, sub { 'cardinality(' . expr(@_, 'ia') . ')' },
		sub { '(' . expr(@_, 'ia') . ')[1]' }, sub { '(' . expr(@_, 'pair') . ').k' }, sub { 'extract(month FROM ' . expr(@_, 'date') . ')::int4' },
		sub { 'lower(' . expr(@_, 'r4') . ')' }, sub { 'ascii(' . expr(@_, 'text') . ')' }, sub { '(' . expr(@_, 'bool') . ')::int4' } ],
	int8 => [ sub { '(' . expr(@_, 'int4') . ')::int8' }, sub { '(' . expr(@_, 'int8') . ' + ' . expr(@_, 'int4') . ')' }, sub { 'coalesce(' . expr(@_, 'int8') . ', 7)' } ],
	int2 => [ sub { 'coalesce(' . expr(@_, 'int2') . ', 3::int2)' } ],
	num => [ sub { '(' . expr(@_, 'int4') . ')::numeric' }, sub { '(' . expr(@_, 'num') . pick(' + ', ' * ') . int(rand(9)) . ')' }, sub { 'coalesce(' . expr(@_, 'num') . ', 0)' },
		sub { 'round(' . expr(@_, 'num') . ')' } ],
	f8 => [ sub { '(' . expr(@_, 'int4') . ')::float8' }, sub { 'coalesce(' . expr(@_, 'f8') . ', 0.5)' } ],
	text => [
		sub { '(' . expr(@_, 'text') . " || 'z')" }, sub { 'upper(' . expr(@_, 'text') . ')' }, sub { 'substr(' . expr(@_, 'text') . ', 1, 2)' },
		sub { 'coalesce(' . expr(@_, 'text') . ', ' . expr(@_, 'text') . ')' }, sub { '(' . expr(@_, 'int4') . ')::text' }, sub { '(' . expr(@_, 'vc') . ')::text' },
		sub { '(' . expr(@_, 'mood') . ')::text' }, sub { '(' . expr(@_, 'text') . ' COLLATE "C")' }, sub { '(' . expr(@_, pick(qw(date ts tz iv by f8 bool time inet nm money))) . ')::text' },
		sub { 'concat(' . expr(@_, 'text') . ", '-', " . expr(@_, 'int4') . ')' }, sub { '(' . expr(@_, 'pair') . ').v' }, sub { '(' . expr(@_, 'ta') . ')[1]' },
		sub { '(' . expr(@_, 'jb') . "->>'a')" }, sub { 'rtrim(' . expr(@_, 'bp') . ')' } ],
	vc => [ sub { '(' . expr(@_, 'text') . ')::varchar(3)' }, sub { '(' . expr(@_, 'vc') . ')::varchar(1)' }, sub { 'coalesce(' . expr(@_, 'vc') . ", 'n')::varchar" } ],
	bp => [ sub { 'coalesce(' . expr(@_, 'bp') . ", 'n'::bpchar)" } ],
	nm => [ sub { 'coalesce(' . expr(@_, 'nm') . ", 'n')" } ],
	bool => [ sub { '(' . condition(@_) . ')' } ],
	date => [ sub { '(' . expr(@_, 'date') . ' + ' . int(rand(9)) . ')' }, sub { '(' . expr(@_, pick('ts', 'tz')) . ')::date' } ],
	ts => [ sub { '(' . expr(@_, 'date') . ')::timestamp' }, sub { "date_trunc('day', " . expr(@_, 'ts') . ')' }, sub { '(' . expr(@_, 'tz') . ')::timestamp' } ],
	tz => [ sub { '(' . expr(@_, 'ts') . ')::timestamptz' } ],
	iv => [ sub { '(' . expr(@_, 'ts') . ' - ' . expr(@_, 'ts') . ')' } ],
	dm => [ sub { 'coalesce(' . expr(@_, 'dm') . ', 7::positive)' } ],
	ia => [ sub { '(' . expr(@_, 'ia') . ' || ' . expr(@_, 'int4') . ')' }, sub { 'ARRAY[' . expr(@_, 'int4') . ', ' . expr(@_, 'int4') . ']' } ],
	pair => [ sub { 'ROW(' . expr(@_, 'int4') . ', ' . expr(@_, 'text') . ')::pair' } ],
	jb => [ sub { "jsonb_build_object('a', " . expr(@_, 'int4') . ')' } ],
	bit => [ sub { '(' . expr(@_, 'bit') . ' & 7::bit(9))' } ]);

sub expr
{
	my ($scope, $depth, $type) = @_;

	if (chance(0.25))
	{
		my $text = again($scope, $type);
		return $text if defined $text;
	}
	if ($depth > 0 && chance(0.45))
	{
		my $kind = rand();
		if ($kind < 0.06 && $type =~ /^(int4|int8|text|num|vc|date)$/ && subselect_budget())
		{
			return $scalar_select->($scope, $type);
		}
		if ($kind < 0.16)
		{
			return remember($type, 'CASE WHEN ' . condition($scope, $depth - 1) . ' THEN ' . expr($scope, $depth - 1, $type) . ' ELSE ' . expr($scope, $depth - 1, $type) . ' END');
		}
		return remember($type, pick(@{ $makes{$type} })->($scope, $depth - 1)) if $makes{$type};
	}
	my @columns = of_type($scope, $type);
	return remember($type, pick(@columns)) if @columns && chance(0.9);
	# another type's column is worth more than a constant
	if (!@columns && $depth > 0 && $makes{$type} && chance(0.6)) { return remember($type, pick(@{ $makes{$type} })->($scope, $depth - 1)); }
	return constant($type);
}

my %tests = (
	int4 => [ sub { "$_[0] BETWEEN " . int(rand(9)) . ' AND ' . int(rand(40)) }, sub { "$_[0] IN (1, 2, 3, 5, 8, 13)" }, sub { "$_[0] = ANY (ARRAY[1, 4, NULL, 9])" }, sub { "$_[0] <> ALL ('{7,8}')" },
		sub { "$_[0] NOT IN (2, " . pick('3', 'NULL') . ')' } ],
	text => [ sub { "$_[0] LIKE " . pick("'a%'", "'%1%'", "'b_%'") }, sub { "$_[0] ~ '^[ab]'" }, sub { "$_[0] IN ('a1', 'b2', 'c')" }, sub { "$_[0] > 'b' COLLATE \"C\"" }, sub { "$_[0] <> ''" } ],
	vc => [ sub { "$_[0] LIKE '%a%'" }, sub { "$_[0] IN ('a', 'c4', 'b')" }, sub { "$_[0] >= 'b'" } ],
	bool => [ sub { "$_[0] IS " . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN') } ],
	date => [ sub { "extract(month FROM $_[0]) = 3" }, sub { "$_[0] < now()" } ],
	mood => [ sub { "$_[0] <> 'sad'" }, sub { "$_[0] = ANY ('{ok,happy}')" } ],
	ia => [ sub { "$_[0] \@> ARRAY[1]" }, sub { int(rand(9)) . " = ANY ($_[0])" }, sub { "$_[0] && '{2,3}'" } ],
	ta => [ sub { "'x1' = ANY ($_[0])" } ],
	r4 => [ sub { "$_[0] \@> " . int(rand(20)) }, sub { "$_[0] && int4range(2, 5)" }, sub { "isempty($_[0])" } ],
	mr => [ sub { "$_[0] \@> " . int(rand(12)) } ],
	jb => [ sub { "$_[0] \@> '{\"a\": 3}'" }, sub { "$_[0] ? 'b'" }, sub { "($_[0]->>'a')::int > 2" } ],
	pair => [ sub { "($_[0]).k > 2" }, sub { "$_[0] IS NULL" }, sub { "$_[0] IS NOT NULL" } ],
	inet => [ sub { "$_[0] << '10.0.1.0/24'" } ],
	tv => [ sub { "$_[0] @@ 'fox & 1'::tsquery" } ],
	iv => [ sub { "$_[0] > '1 day'" } ],
	by => [ sub { "length($_[0]) > 5" } ]);
my %compared = (int4 => [qw(int4 int4 int8 int2 num dm)], int8 => [qw(int8 int4)], num => [qw(num int4)], text => [qw(text text vc)], vc => [qw(vc text)], date => [qw(date date ts)]);

sub comparison
{
	my ($scope, $depth) = @_;
	# a text here, an enum there: no more can be done with it than to compare it with constants
	my @open = chance(0.03) ? of_type($scope, 'open') : ();
	return pick(@open) . pick(" = 'ok'", " <> 'sad'", " IN ('ok', 'happy')", ' IS NULL', " = ANY ('{sad,ok}')") if @open;
	my $type = chance(0.7) ? pick(@common) : pick(@types);
	my @there = of_type($scope, $type);
	$type = pick(@common) if !@there;
	my $left = expr($scope, $depth, $type);

	return "$left IS " . pick('', 'NOT ') . 'NULL' if chance(0.12);
	return pick(@{ $tests{$type} })->($left) if $tests{$type} && chance(0.4);
	my $right = expr($scope, $depth, pick(@{ $compared{$type} // [$type] }));
	return "$left " . pick('=', '=', '<>', '<', '>', '<=', '>=', 'IS DISTINCT FROM', 'IS NOT DISTINCT FROM') . " $right" if $type !~ /^(tv)$/ || chance(0.3);
	return "$left = $right";
}

sub condition
{
	my ($scope, $depth) = @_;

	if ($depth > 0)
	{
		my $kind = rand();
		return '(' . condition($scope, $depth - 1) . pick(' AND ', ' OR ', ' OR ') . condition($scope, $depth - 1) . ')' if $kind < 0.35;
		return 'NOT (' . condition($scope, $depth - 1) . ')' if $kind < 0.42;
		return '(' . expr($scope, $depth - 1, 'int4') . ', ' . expr($scope, $depth - 1, 'int4') . ') ' . pick('<', '=', '>=') . ' (' . int(rand(9)) . ', ' . expr($scope, 0, 'int4') . ')' if $kind < 0.46;
		return $test_select->($scope) if $kind < 0.62 && subselect_budget();
		return '(' . condition($scope, $depth - 1) . ') IS ' . pick('', 'NOT ') . pick('TRUE', 'UNKNOWN') if $kind < 0.66;
	}
	return 'random() >= 0' if chance(0.01);
	return comparison($scope, $depth > 0 ? $depth - 1 : 0);
}

# What is not NULL although the column is. It is worth writing again above the join, where it may be NULL after all.
sub not_strict
{
	my ($column, $type) = @_;
	my $value = $type eq 'int4' ? int(rand(6)) : pick("'a'", "'b1'");
	my $text = $type eq 'int4' && chance(0.3) ? "CASE WHEN $column IS NULL THEN $value ELSE $column END" : "coalesce($column, $value)";

	remember($type, $text) foreach 1 .. 6;
	return $text;
}

# By which two relations are joined: what hash and merge joins can do. Plain columns more often than not.
sub equality
{
	my ($left, $right, $plain) = @_;
	foreach my $try (1 .. ($plain ? 40 : 6))
	{
		my $type = pick(@common, 'uuid');
		my @l = of_type($left, $type);
		my @r = of_type($right, @{ $compared{$type} // [$type] });
		@r = of_type($right, $type) if !@r;
		next if !@l || !@r;
		my ($l, $r) = (pick(@l), pick(@r));
		$l = expr($left, 1, $type) if !$plain && chance(0.2);
		$r = expr($right, 1, $type) if !$plain && chance(0.2);
		return "$l = $r";
	}
	return expr($left, 1, 'int4') . ' = ' . expr($right, 1, 'int4');
}

1;
