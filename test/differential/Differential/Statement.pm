# Statement.pm: random cases. A case is {settings, statements, kind}: statements are [SQL, ordered], run one after the
# other in a session with these settings. case_of(seed, number) is the same whenever it is asked for.
package Differential::Statement;

use strict;
use warnings;
use Digest::MD5 qw(md5);
use Exporter 'import';
use Differential::Conflict qw(conflict_case);
use Differential::Expr qw(pick chance expr condition constant begin_statement budget parameters of_type);
use Differential::Query qw(query split_query reset_aliases base_relation from_item test_select);
use Differential::Schema qw(%columns @topologies place_of);
use Differential::Traps qw(trap_case);

our @EXPORT_OK = qw(case_of);

# Those that mean something for the rows go for both sides
my @meaning = (
	sub { 'SET datestyle = ' . pick("'ISO, MDY'", "'SQL, DMY'", "'German'", "'Postgres, MDY'") },
	sub { 'SET intervalstyle = ' . pick(qw(postgres postgres_verbose sql_standard iso_8601)) },
	sub { 'SET timezone = ' . pick("'UTC'", "'Europe/Zurich'", "'America/St_Johns'") },
	sub { 'SET extra_float_digits = ' . pick(-5, 0, 1, 3) },
	sub { 'SET bytea_output = ' . pick(qw(hex escape)) },
	sub { 'SET standard_conforming_strings = ' . pick(qw(on on off)) },
	sub { 'SET transform_null_equals = ' . pick(qw(off on)) });
# Compiling takes a tenth of a second and more for each statement
my $jit = sub { 'SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = ' . pick(0, -1) };
my @plans = (
	(map { my $name = $_; sub { "SET enable_$name = " . pick(qw(on off)) } } qw(hashjoin mergejoin nestloop hashagg sort material memoize incremental_sort partitionwise_join partitionwise_aggregate async_append)),
	(map { my $name = $_; sub { "SET enable_$name = off" } } qw(seqscan indexscan indexonlyscan bitmapscan tidscan gathermerge parallel_append parallel_hash partition_pruning)),
	sub { "SET work_mem = '" . pick('64kB', '4MB') . "'" },
	sub { 'SET from_collapse_limit = ' . pick(1, 8) },
	sub { 'SET join_collapse_limit = ' . pick(1, 8) },
	sub { 'SET geqo_threshold = 2' },
	sub { 'SET cursor_tuple_fraction = ' . pick(0.01, 1) },
	sub { 'SET plan_cache_mode = ' . pick(qw(force_generic_plan force_custom_plan)) },
	sub { 'SET constraint_exclusion = ' . pick(qw(on off)) },
	sub { 'SET random_page_cost = 0' },
	sub { 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0' },
	# it has another name from 16 on
	sub { "SELECT set_config(name, 'regress', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')" },
	sub { chance(0.2) ? $jit->() : 'SET jit = off' });
my @own = (
	sub { "SET rdma_fdw.receive_buffer_size = '" . pick('4kB', '8kB', '256kB') . "'" },
	sub { 'SET rdma_fdw.receive_buffers = ' . pick(1, 2, 4, 16) },
	sub { 'SET rdma_fdw.inline_limit = ' . pick(0, 0, 1, 64) },
	sub { 'SET rdma_fdw.measured_costs = ' . pick(qw(on off)) },
	sub { 'SET rdma_fdw.flush_time = ' . pick(0, 200) },
	sub { 'SET rdma_fdw.push_down = scans' },
	sub { 'SET rdma_fdw.cores = ' . pick(0, 1, 65536) },
	sub { 'SET rdma_fdw.snapshot = each_node' });

# The topology of the cases next to each other, and their settings: [for both], [for the foreign side alone]
sub settings
{
	my ($names) = @_;
	my $schema = pick(@$names);
	my (@both, @foreign);

	push @both, map { pick(@meaning)->() } 1 .. pick(0, 0, 1, 2);
	push @foreign, map { pick(@plans)->() } 1 .. pick(0, 0, 1, 2, 3);
	push @foreign, map { pick(@own)->() } 1 .. pick(0, 0, 1, 2);
	push @foreign, 'SET rdma_fdw.exchange_strategy = ' . pick(qw(auto auto colocated repartition_one repartition_both replicate pull));
	# a technique that is not used, or is used whatever it costs
	push @foreign, "SET rdma_fdw.disable = '" . join(', ', grep { $_ } pick(qw(exchange_filter_costs exchange_filter_costs exchange_filters), ''),
		pick(qw(decorrelation_costs decorrelation_costs decorrelation), ''), pick('', '', 'partitions'), pick('', '', 'local_rows'),
		pick('', '', 'lookahead'), pick('', '', 'value_memory', 'value_costs'), pick('', '', 'kept_memory'), pick('', '', 'receive_pool', 'receive_pool_costs'), pick('', '', 'receive_claims'),
		pick('', 'columns', 'column_costs', 'column_costs, column_kernels'),
		$schema eq 'computed' ? pick(qw(compute_node_costs compute_nodes), '') : '') . "'";
	return ($schema, \@both, \@foreign);
}

sub plain_case
{
	my $q = query(pick(1, 2, 2, 3), top => 1);
	return { kind => 'select', statements => [ [ $q->{sql}, $q->{total} ] ] };
}

sub prepared_case
{
	my $q = query(pick(1, 2), top => 1);
	my @parameters = parameters();
	return { kind => 'select', statements => [ [ $q->{sql}, $q->{total} ] ] } if !@parameters;
	my $types = join(', ', map { $_->[0] } @parameters);
	my @other = map { chance(0.2) ? 'NULL' : $_->[1] } @parameters;
	return { kind => 'prepared', statements => [
			[ 'SET plan_cache_mode = ' . pick(qw(force_generic_plan force_generic_plan force_custom_plan)), 0 ],
			[ "PREPARE p($types) AS $q->{sql}", 0 ],
			[ 'EXECUTE p(' . join(', ', map { $_->[1] } @parameters) . ')', $q->{total} ],
			[ 'EXECUTE p(' . join(', ', @other) . ')', $q->{total} ],
			[ 'DEALLOCATE p', 0 ], [ 'RESET plan_cache_mode', 0 ] ] };
}

sub cursor_case
{
	my $q = query(pick(1, 2), top => 1, total => 1, limit => 0.1);
	my $kind = pick('', 'SCROLL', 'NO SCROLL');
	my $hold = chance(0.3);
	my @fetch = ([ 'FETCH ' . pick(1, 3, 7) . ' c', 1 ]);
	push @fetch, [ pick('FETCH BACKWARD 2 c', 'FETCH FIRST c', 'FETCH ABSOLUTE 4 c', 'FETCH LAST c', 'FETCH PRIOR c'), 1 ], [ 'MOVE ' . pick(1, 2, 'BACKWARD 3') . ' c', 1 ] if $kind eq 'SCROLL';
	push @fetch, [ 'MOVE 2 c', 1 ] if chance(0.2);
	push @fetch, [ 'COMMIT', 0 ] if $hold;
	push @fetch, [ 'FETCH ALL c', 1 ];
	return { kind => 'cursor', statements => [ [ 'BEGIN', 0 ], [ "DECLARE c $kind CURSOR " . ($hold ? 'WITH HOLD ' : '') . "FOR $q->{sql}", 0 ], @fetch, [ $hold ? 'CLOSE c' : 'ROLLBACK', 0 ] ] };
}

my %of_type_in_table;

sub new_value
{
	my ($scope, $type, $sql_type) = @_;
	my $value = chance(0.5) ? expr($scope, 2, $type) : constant($type);
	return 'left(' . expr($scope, 1, 'text') . ', 3)' if $type eq 'vc' || $type eq 'bp';
	return '(' . expr($scope, 1, 'int4') . ' % 20)::' . $sql_type if $type =~ /^int/;
	return 'coalesce(' . expr($scope, 1, 'dm') . ', 4::positive)' if $type eq 'dm';
	return $value;
}

sub returning
{
	my ($scope) = @_;
	return '' if chance(0.5);
	return ' RETURNING ' . join(', ', map { expr($scope, 1, pick(qw(int4 text vc date bool))) } 1 .. 2);
}

# A table is changed, read, and is as before.
sub modifying_case
{
	my ($schema) = @_;
	my $table = pick(qw(t u w w x x));
	my @columns = grep { !$_->[4] } @{ $columns{$table} };

	# As with postgres_fdw, what reads the table while the statement writes rows of it one by one may see some of them.
	local @Differential::Query::tables = grep { $_ ne $table } qw(t u u w x);
	my $target = base_relation($table);
	my ($alias) = $target->{text} =~ /(\S+)$/;
	my $scope = $target->{scope};
	my $kind = rand();
	my $sql;

	if ($kind < 0.3)
	{
		my @chosen = grep { $_->[0] eq 'id' || chance($table eq 't' ? 0.2 : 0.7) } @columns;
		my $names = join(', ', map { $_->[0] } @chosen);
		my $from = from_item(1);
		my $a = { scope => $from->{scope} };
		my $list = join(', ', map { $_->[0] eq 'id' ? '1000 + row_number() OVER (ORDER BY ' . ($from->{key} ? $from->{key}[0] : '1') . ')' : new_value($a->{scope}, $_->[1], $_->[2]) } @chosen);
		# or what the data nodes can do by themselves
		my $own = $from->{key} && chance(0.5);
		my $key = $own ? pick('', '1000 + ', '-') . $from->{key}[0] : '';
		$list =~ s/1000 \+ row_number\(\) OVER \(ORDER BY \Q$from->{key}[0]\E\)/$key/ if $own;
		# without a key, the number of a row is undefined
		$list =~ s/1000 \+ row_number\(\) OVER \(ORDER BY 1\)/1000/;
		$sql = "INSERT INTO $table AS $alias ($names) SELECT $list FROM $from->{text}" . (chance(0.4) ? ' WHERE ' . condition($a->{scope}, 1) : '') . ($own ? '' : returning($scope));
	}
	elsif ($kind < 0.4)
	{
		my @chosen = grep { $_->[0] eq 'id' || chance($table eq 't' ? 0.3 : 0.7) } @columns;
		my $n = 2000;
		my @rows = map { $n++; '(' . join(', ', map { $_->[0] eq 'id' ? $n : chance(0.1) ? 'NULL' : chance(0.1) && $_->[1] ne 'dm' ? 'DEFAULT' : new_value([], $_->[1], $_->[2]) } @chosen) . ')' } 1 .. pick(1, 3);
		$sql = "INSERT INTO $table AS $alias (" . join(', ', map { $_->[0] } @chosen) . ') VALUES ' . join(', ', @rows) . returning($scope);
	}
	else
	{
		my ($from, $where, $all) = ('', '', $scope);

		if (chance(0.35))
		{
			# one row of it at most for each of the table's
			my $other = base_relation(pick(grep { $_ ne $table } qw(u w x)));
			$all = [ @$scope, @{ $other->{scope} } ];
			$from = $other->{text};
			$where = "$scope->[0][0] = $other->{scope}[0][0]";
			$where .= ' AND ' . condition($all, 1) if chance(0.6);
		}
		elsif (chance(0.9)) { $where = condition($scope, pick(0, 1, 2)); }
		if ($kind < 0.75)
		{
			# rows do not leave foreign partitions; nodes give them to each other
			my $moves = (place_of($schema, $table))[0] ne 'parts' && chance(0.3);
			my @set = grep { $moves || $_->[0] !~ /^(id|k|a|tid|i4|i2|v|s|b|t)$/ || ($table =~ /[wx]/ && $_->[0] eq 'b') } @columns;
			@set = grep { chance(0.15) } @set if $table eq 't';
			@set = ($columns[-1]) if !@set;
			$sql = "UPDATE $table AS $alias SET " . join(', ', map { "$_->[0] = " . (chance(0.1) ? 'DEFAULT' : new_value($all, $_->[1], $_->[2])) } @set)
			  . ($from ? " FROM $from" : '') . ($where ? " WHERE $where" : '') . returning($all);
		}
		else { $sql = "DELETE FROM $table AS $alias" . ($from ? " USING $from" : '') . ($where ? " WHERE $where" : '') . returning($all); }
	}
	return { kind => 'modifying', statements => [ [ 'BEGIN', 0 ], [ $sql, 0 ], [ "SELECT * FROM $table", 0 ], $table eq 'x' ? ([ 'SELECT * FROM public.audit', 0 ]) : (), [ 'ROLLBACK', 0 ] ] };
}

# For any p, the rows for which it is true, false and unknown are all of them.
sub partitioning_case
{
	my $q = split_query(pick(1, 2));
	my $p = condition($q->{scope}, 2);
	my $with = sub { my ($more) = @_; return $q->{select} . ($q->{where} || $more ? ' WHERE ' . join(' AND ', map { "($_)" } grep { $_ } $q->{where}, $more) : '') . $q->{rest}; };

	return plain_case() if $p =~ /random/ || $q->{select} =~ /^SELECT DISTINCT/;
	return { kind => 'partitioning', statements => [ map { [ $with->($_), 0 ] } '', $p, "NOT ($p)", "($p) IS NULL" ] };
}

# What rand() gives from here on. A hash, so that no seed's cases come again, some thousands further on, with another seed.
sub draw_by { srand(unpack('N', md5(join(' ', @_)))); return; }

sub case_of
{
	my ($seed, $number, $names) = @_;

	draw_by('settings', $seed, int($number / 20));
	my ($schema, $both, $foreign) = settings($names);

	draw_by('statement', $seed, $number);
	my $kind = rand();
	reset_aliases();
	begin_statement(parameters => $kind >= 0.70 && $kind < 0.78);
	local $Differential::Query::only = sub { (place_of($schema, $_[0]))[0] ne 'parts' && chance(0.03) };
	my $case = chance($ENV{TRAPS} // 0.1) ? trap_case($schema) : undef;
	$case //= $kind < 0.70 ? plain_case() : $kind < 0.78 ? prepared_case() : $kind < 0.83 ? cursor_case() : $kind < 0.90 ? modifying_case($schema) : $kind < 0.94 ? conflict_case($schema) : partitioning_case();
	$case->{none} = 1 if $case->{kind} eq 'select' && chance(0.12);
	$case->{number} = $number;
	$case->{schema} = $schema;
	$case->{both} = $both;
	$case->{foreign} = $foreign;
	return $case;
}

1;
