# Traps.pm: cases of shapes in which defects were found that no random query has: joins of many tables, locked rows with
# LIMIT, ctid, WITH that writes, cursors that are declared before a write, aggregates of columns that have another number
# type on the data nodes, roles that leave. Each is small and has one answer over local tables.
package Differential::Traps;

use strict;
use warnings;
use Exporter 'import';
use Differential::Expr qw(pick chance condition);
use Differential::Query qw(base_relation);
use Differential::Schema qw(%columns place_of);

our @EXPORT_OK = qw(trap_case);

# Columns that may get another value in every topology: no key of a distribution or of partitions
my %free = (t => [ [ vc => "'new'" ], [ n2 => 'n2 + 1' ] ], u => [ [ n => 'n + 1' ], [ d => 'd + 1' ] ], w => [ [ e => "coalesce(e, '') || 'n'" ], [ c => "'c'" ] ]);
# Columns that lead to the ids of other tables, and how many rows have each value at most
my %leads = (t => [qw(i4 i2)], u => [qw(k v tid)], w => [qw(a b)], x => [qw(a b)]);

sub rows_of { my ($table) = @_; return [ "SELECT * FROM $table", 0 ]; }

sub alias_of { my ($relation) = @_; my ($alias) = $relation->{text} =~ /(\S+)$/; return $alias; }

# A write of the table without triggers
sub write_of
{
	my ($table, $returning) = @_;
	my $target = base_relation($table);
	my $alias = alias_of($target);
	my $where = condition($target->{scope}, 1);
	my ($column, $value) = @{ pick(@{ $free{$table} }) };
	my $kind = rand();
	my $ending = $returning ? " RETURNING $alias.id" : '';

	$value =~ s/\b$column\b/$alias.$column/g;
	return "UPDATE $table AS $alias SET $column = $value WHERE $where$ending" if $kind < 0.5;
	return "DELETE FROM $table AS $alias WHERE $where$ending" if $kind < 0.75;
	my $names = join(', ', map { $_->[0] } grep { $_->[0] ne 'id' && !$_->[4] } @{ $columns{$table} });
	return "INSERT INTO $table AS $alias (id, $names) SELECT 1000 + row_number() OVER (ORDER BY id), $names FROM " . pick($table, "$table WHERE id % 2 = 0") . $ending;
}

# Each table is found by its id from one before, so that the join has no more rows than its first table.
sub wide_case
{
	my $n = 7 + int(rand(8));
	my @tables = map { pick(qw(t u w x)) } 1 .. $n;
	my @alias = map { "j$_" } 1 .. $n;
	my ($from, @where) = ("$tables[0] $alias[0]");
	my $commas = chance(0.5);

	foreach my $i (1 .. $n - 1)
	{
		my $other = chance(0.3) ? 0 : int(rand($i));
		my $on = "$alias[$i].id = $alias[$other]." . pick(@{ $leads{ $tables[$other] } });
		if ($commas) { $from .= ", $tables[$i] $alias[$i]"; push @where, $on; }
		else { $from = ($i > 1 ? "($from)" : $from) . ' ' . pick('JOIN', 'LEFT JOIN', 'LEFT JOIN') . " $tables[$i] $alias[$i] ON $on"; }
	}
	push @where, "$alias[-1].id < " . int(rand(60)) if chance(0.3);
	my $where = @where ? ' WHERE ' . join(' AND ', @where) : '';
	my $list = chance(0.5) ? "count(*), sum($alias[0].id), max($alias[-1].id)" : "$alias[0].id, $alias[-1].id, $alias[ int($n / 2) ].id";
	my $order = $list =~ /count/ ? '' : ' ORDER BY 1, 2, 3';
	# above nine tables only the genetic search takes no longer than the rest of the case
	my $threshold = $n > 9 ? pick(2, 5, 9) : pick(2, 5, 12);
	return { kind => 'wide', statements => [
			[ "SET geqo_threshold = $threshold", 0 ], [ 'SET geqo_seed = ' . pick(0, 0.3, 0.7), 0 ], [ "SET join_collapse_limit = $n", 0 ],
			[ "SELECT $list FROM $from$where$order", 1 ],
			[ 'RESET geqo_threshold', 0 ], [ 'RESET geqo_seed', 0 ], [ 'RESET join_collapse_limit', 0 ] ] };
}

sub locking_case
{
	my $table = pick(qw(t u w));
	my $relation = base_relation($table);
	my $alias = alias_of($relation);
	my $where = chance(0.7) ? ' WHERE ' . condition($relation->{scope}, 1) : '';
	my $lock = 'FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . pick('', ' SKIP LOCKED', ' SKIP LOCKED', ' NOWAIT');
	my $limit = 'LIMIT ' . pick(1, 1, 3, 10) . pick('', '', ' OFFSET 2');
	my $chosen = "SELECT $alias.id FROM $table $alias$where ORDER BY $alias.id $limit $lock";
	my $kind = rand();
	my @sql;

	if ($kind < 0.3) { @sql = ([ $chosen, 1 ]); }
	elsif ($kind < 0.4) { @sql = ([ "SELECT $alias.id, o.id FROM $table $alias JOIN w o ON o.id = $alias.id$where ORDER BY $alias.id $limit $lock", 1 ]); }
	elsif ($kind < 0.5) { @sql = ([ "SELECT count(*) FROM (SELECT $alias.id FROM $table $alias$where $limit $lock) chosen", 0 ]); }
	elsif ($kind < 0.8) { @sql = ([ "DELETE FROM $table WHERE id IN ($chosen) RETURNING id", 0 ], rows_of($table)); }
	else
	{
		my ($column, $value) = @{ $free{$table}[0] };
		@sql = ([ "WITH chosen AS ($chosen) UPDATE $table SET $column = $value FROM chosen WHERE $table.id = chosen.id RETURNING $table.id", 0 ], rows_of($table));
		$sql[0][0] =~ s/SET $column = $column/SET $column = $table.$column/;
	}
	return { kind => 'locking', statements => [ [ 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ'), 0 ], @sql, [ 'ROLLBACK', 0 ] ] };
}

# Over several servers a row's ctid says nothing without tableoid, in local partitions either.
sub ctid_case
{
	my ($schema) = @_;
	my $table = pick(qw(t u w));
	my $place = (place_of($schema, $table))[0];
	return undef if $place eq 'local';
	my $outer = base_relation($table);
	my $inner = base_relation($table);
	my ($a, $b) = (alias_of($outer), alias_of($inner));
	my $where = condition($inner->{scope}, 1);
	my $one = $place eq 'parts' ? "$a.tableoid = $b.tableoid AND " : '';
	my $found = pick("$a.ctid IN (SELECT $b.ctid FROM $table $b WHERE $one$where)", "EXISTS (SELECT FROM $table $b WHERE $one$a.ctid = $b.ctid AND $where)",
		$place eq 'parts' ? () : "$a.ctid = ANY (ARRAY(SELECT $b.ctid FROM $table $b WHERE $where))");
	my ($column, $value) = @{ $free{$table}[0] };
	my $kind = rand();

	$value =~ s/\b$column\b/$a.$column/g;
	return { kind => 'ctid', statements => [ [ "SELECT $a.id, $b.id FROM $table $a JOIN $table $b ON $one$a.ctid = $b.ctid WHERE $where ORDER BY 1, 2", 1 ] ] } if $kind < 0.3;
	my $sql = $kind < 0.5 ? "SELECT $a.id FROM $table $a WHERE $found ORDER BY 1" : $kind < 0.75 ? "DELETE FROM $table $a WHERE $found" : "UPDATE $table $a SET $column = $value WHERE $found";
	return { kind => 'ctid', statements => [ [ 'BEGIN', 0 ], [ $sql, 1 ], rows_of($table), [ 'ROLLBACK', 0 ] ] };
}

# No part of a statement sees what another part writes.
sub with_case
{
	my $table = pick(qw(t u w));
	my $other = pick(grep { $_ ne $table } qw(t u w));
	my $write = write_of($table, 1);
	my $sql = pick(
		"WITH m AS ($write) SELECT count(*), (SELECT count(*) FROM $table), (SELECT sum(id) FROM $table) FROM m",
		"WITH m AS ($write) SELECT s.* FROM $table s WHERE id NOT IN (SELECT id FROM m) ORDER BY id",
		"WITH s AS (SELECT id FROM $table), m AS ($write) SELECT count(*), (SELECT count(*) FROM s) FROM m",
		"WITH m AS ($write), n AS (" . write_of($other, 1) . ") SELECT (SELECT count(*) FROM m), (SELECT count(*) FROM n), (SELECT count(*) FROM $table), (SELECT count(*) FROM $other)",
		"WITH m AS ($write) DELETE FROM $other WHERE id IN (SELECT id FROM $table) RETURNING id",
		"WITH m AS ($write) SELECT id FROM m EXCEPT SELECT id FROM $table ORDER BY 1");

	return { kind => 'with', statements => [ [ 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ'), 0 ], [ $sql, 0 ], rows_of($table), rows_of($other), [ 'ROLLBACK', 0 ] ] };
}

# A cursor shows what was there when it was declared.
sub early_cursor_case
{
	my $table = pick(qw(t u w));
	my $relation = base_relation($table);
	my $alias = alias_of($relation);
	my $where = chance(0.4) ? ' WHERE ' . condition($relation->{scope}, 1) : '';
	my $query = pick("SELECT id FROM $table $alias$where ORDER BY id", "SELECT count(*), sum(id) FROM $table $alias$where",
		"SELECT $alias.id, o.id FROM $table $alias LEFT JOIN w o ON o.id = $alias.id$where ORDER BY 1, 2");

	return { kind => 'early cursor', statements => [
			[ 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ'), 0 ], [ 'DECLARE c ' . pick('', 'SCROLL ') . "CURSOR FOR $query", 0 ],
			chance(0.3) ? [ 'SAVEPOINT s', 0 ] : (), [ write_of($table), 0 ], [ 'FETCH ' . pick(1, 4, 'ALL') . ' c', 1 ], [ write_of($table), 0 ], [ 'FETCH ALL c', 1 ],
			rows_of($table), [ 'ROLLBACK', 0 ] ] };
}

# q and r have another number type on the nodes.
sub drift_case
{
	my $relation = base_relation('u');
	my $alias = alias_of($relation);
	my $column = pick("$alias.q", "$alias.r");
	my @list = map { pick("sum($column)", "avg($column)", "min($column)", "max($column)", "count($column)", "sum(DISTINCT $column)", "sum($column + 1)", "round(stddev($column), 6)", "bool_or($column > 3)") } 1 .. pick(1, 2, 3);
	my $where = chance(0.5) ? ' WHERE ' . pick(condition($relation->{scope}, 1), "$column > 10", "$column = 7", "$column IS NULL") : '';
	my $by = pick('', '', "$alias.k", "$alias.g");

	return { kind => 'drift', statements => [ [ 'SELECT ' . join(', ', $by || (), @list) . " FROM u $alias$where" . ($by ? " GROUP BY $by ORDER BY $by" : ''), 1 ] ] };
}

# A role leaves: what it has is gone here and on the nodes, and there again after ROLLBACK. Nothing is read before it: the nodes
# are asked as the owner, in another session, which would wait for the caller's.
sub leaving_case
{
	my $rights = pick('SELECT', 'INSERT, UPDATE', 'ALL') . ' ON ' . pick(qw(t u w x y));
	my ($behavior, $back) = (pick('', ' RESTRICT', ' CASCADE'), chance(0.3));
	my @before = (chance(0.7) ? [ 'ALTER TABLE y OWNER TO leaver', 0 ] : (), chance(0.5) ? [ "GRANT $rights TO leaver", 0 ] : (),
		chance(0.2) ? [ 'CREATE VIEW of_y AS SELECT id FROM y', 0 ] : ());
	my @after = ([ "SELECT to_regclass('y') IS NULL, to_regclass('of_y') IS NULL", 0 ],
		(map { [ "SELECT has_table_privilege('leaver', to_regclass('$_'), 'SELECT'), has_table_privilege('leaver', to_regclass('$_'), 'UPDATE')", 0 ] } qw(t u w x)));

	return { kind => 'leaving', statements => [ [ 'BEGIN', 0 ], @before, $back ? [ 'SAVEPOINT s', 0 ] : (), [ "DROP OWNED BY leaver$behavior", 0 ], $back ? [ 'ROLLBACK TO s', 0 ] : (), @after,
			$back ? rows_of('y') : (), [ 'ROLLBACK', 0 ], rows_of('y') ] };
}

# undef: there is no such case over this topology
sub trap_case
{
	my ($schema) = @_;
	my $kind = rand();

	return $kind < 0.3 ? wide_case() : $kind < 0.5 ? locking_case() : $kind < 0.6 ? ctid_case($schema) : $kind < 0.75 ? with_case() : $kind < 0.88 ? early_cursor_case() : $kind < 0.95 ? drift_case() : leaving_case();
}

1;
