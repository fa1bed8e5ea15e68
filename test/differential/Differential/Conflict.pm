# Conflict.pm: INSERT ... ON CONFLICT into the table with a key, by the nodes alone and by rows of the coordinator, also
# prepared and below WITH. What may be refused by design is rare here: the nodes evaluate the clause, and no sub-select is in it.
package Differential::Conflict;

use strict;
use warnings;
use Exporter 'import';
use Differential::Expr qw(pick chance expr condition constant begin_statement parameters);
use Differential::Query qw(base_relation);
use Differential::Schema qw(%columns place_of);

our @EXPORT_OK = qw(conflict_case);

# Columns of the table that are no part of its key
my @free = grep { $_->[0] !~ /^(id|p)$/ } @{ $columns{y} };

# A value of the column: nothing that is too long for it, and of the enum only what needs no evaluation
sub value
{
	my ($scope, $column) = @_;
	my ($name, $type) = @$column;

	return 'NULL' if chance(0.1);
	return chance(0.5) ? constant('mood') : pick(map { $_->[0] } grep { $_->[1] eq 'mood' } @$scope, [ 'NULL', 'mood' ]) if $type eq 'mood';
	return 'left(' . expr($scope, 1, 'text') . ', 3)' if $type eq 'vc';
	return chance(0.7) ? expr($scope, 1, $type) : constant($type);
}

# (names, what gives the rows): $unique: no two with the same key
sub source
{
	my ($unique) = @_;
	my @chosen = grep { chance(0.7) } @free;
	my $names = join(', ', 'id', 'p', map { $_->[0] } @chosen);
	my $kind = rand();

	if ($kind < 0.5)
	{
		my (%seen, @rows);

		foreach (1 .. pick(1, 1, 2, 4))
		{
			my $id = chance(0.7) ? 1 + int(rand(30)) : 1000 + int(rand(4));
			my $p = chance(0.7) ? chr(97 + $id % 3) : pick(qw(a b c z));
			next if $seen{"$id $p"}++ && ($unique || chance(0.8));
			push @rows, "($id, '$p'" . join('', map { ', ' . (chance(0.1) ? 'DEFAULT' : value([], $_)) } @chosen) . ')';
		}
		return ($names, 'VALUES ' . join(', ', @rows));
	}
	# each row of a table has another id
	my $table = $kind < 0.75 ? 'y' : pick(qw(t u w x));
	my $from = base_relation($table);
	my $id = $from->{key}[0];
	my $p = $table eq 'y' ? $id =~ s/\.id$/.p/r : pick("'a'", "'b'", "substr('abc', 1 + ($id % 3)::int, 1)", "chr(97 + ($id % 3)::int)");
	my $select = 'SELECT ' . join(', ', $id . pick('', '', ' + 1'), $p, map { value($from->{scope}, $_) } @chosen);

	return ($names, "$select FROM $from->{text}" . (chance(0.7) ? ' WHERE ' . condition($from->{scope}, 1) : ''));
}

sub conflict_case
{
	my ($schema) = @_;
	my $prepared = chance(0.25);
	begin_statement(parameters => $prepared, budget => { selects => 0 });
	# what core plans for partitions has no unique index of the parent
	my $everywhere = (place_of($schema, 'y'))[0] ne 'parts';
	my $update = $everywhere && chance(0.75);
	my $where = $update && chance(0.4);
	my $alias = base_relation('y')->{scope}[0][0] =~ s/\.id$//r;
	my @own = map { [ "$alias.$_->[0]", $_->[1] ] } @{ $columns{y} };
	my @both = (@own, map { [ "EXCLUDED.$_->[0]", $_->[1] ] } @{ $columns{y} });
	# with a WHERE, equal rows are an error that core does not have: see docs/limits.md
	my ($names, $rows) = source($where);
	my $below = chance(0.15);
	my $returning = $below ? " RETURNING $alias.id, n" : chance(0.5) ? '' : ' RETURNING ' . pick('*', join(', ', map { expr(\@own, 1, pick(qw(int4 text vc bool))) } 1 .. 2));
	my $clause = ' ON CONFLICT' . ($update || $everywhere && chance(0.7) ? pick(' (id, p)', ' (p, id)') : '') . ' DO ';

	if ($update)
	{
		my @set = grep { chance(0.4) } @free;
		@set = pick(@free) if !@set;
		my @assigned = map { "$_->[0] = " . (chance(0.1) ? 'DEFAULT' : chance(0.3) ? "EXCLUDED.$_->[0]" : value(\@both, $_)) } @set;
		push @assigned, pick('p = EXCLUDED.p', 'id = EXCLUDED.id') if chance(0.1);
		$clause .= 'UPDATE SET ' . join(', ', @assigned) . ($where ? ' WHERE ' . condition(\@both, 1) : '');
	}
	else { $clause .= 'NOTHING'; }
	my $sql = "INSERT INTO y AS $alias ($names) $rows$clause$returning";
	$sql = "WITH m AS ($sql) SELECT count(*), sum(id), sum(n), (SELECT count(*) FROM y) FROM m" if $below;
	my @statements = ([ 'BEGIN', 0 ], [ $sql, 0 ]);
	push @statements, [ $sql, 0 ] if chance(0.2);
	my @parameters = parameters();
	if (@parameters)
	{
		my @again = map { chance(0.3) ? 'NULL' : $_->[1] } @parameters;
		@statements = ([ 'SET plan_cache_mode = ' . pick(qw(force_generic_plan force_custom_plan)), 0 ], [ 'PREPARE p(' . join(', ', map { $_->[0] } @parameters) . ") AS $sql", 0 ],
			[ 'BEGIN', 0 ], map { [ 'EXECUTE p(' . join(', ', @$_) . ')', 0 ] } [ map { $_->[1] } @parameters ], \@again);
	}
	return { kind => 'conflict', statements => [ @statements, [ 'SELECT * FROM y', 0 ], [ 'ROLLBACK', 0 ], @parameters ? ([ 'DEALLOCATE p', 0 ], [ 'RESET plan_cache_mode', 0 ]) : () ] };
}

1;
