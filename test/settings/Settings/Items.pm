# Items.pm: the settings that are tried. An item is {name, set}: set is a hash of settings that belong together.
package Settings::Items;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(items packs together);

# What of this project's settings is not tried, and why. NAME, or NAME=VALUE for one end only.
my %left_out = (
	# places, names and keys, not ways to do something
	(map { ("rdma_fdw.$_" => 'a place') } qw(engine_port gid_index)),
	# a device's; without one they mean nothing, and some values refuse a device
	(map { ("rdma_fdw.$_" => 'of a device') } qw(traffic_class service_level)),
	'rdma_fdw.provider=verbs' => 'needs a device',
	# mean refusal, or that it depends on the load
	'rdma_fdw.buffer_memory' => 'too little is refused, and so is more than there is',
	'rdma_fdw.max_flows=16' => 'too few for these statements',
	'rdma_fdw.connect_timeout=100' => 'refuses on a busy machine',
	'rdma_fdw.peer_timeout=500' => 'refuses on a busy machine',
	'rdma_fdw.buffer_wait=0' => 'refuses what has to wait',
	# mean something else
	'rdma_fdw.allow_page_shipping' => 'permits what inputs show to be refused',
	'rdma_fdw.allow_snapshot_isolation' => 'permits what inputs show to be refused',
	'rdma_fdw.propagate_ddl=off' => 'inputs need tables on the nodes',
	'rdma_fdw.resolve=off' => 'leaves transactions for inputs that wait for them');

# $query: asks a server with default settings, rows of columns. $guc: the file that lists what rdma_fdw.disable names. Items for
# core's settings, for each end of ours, and for each technique.
sub items
{
	my ($query, $pkglibdir, $guc) = @_;
	my %known = map { $_->[0] => $_->[1] } $query->('SELECT name, setting FROM pg_settings');
	my @items;
	my $add = sub {
		my ($name, %set) = @_;
		push @items, { name => $name, set => \%set };
	};
	my $one = sub { $add->("$_[0]=$_[1]", $_[0] => $_[1]) if exists $known{ $_[0] }; };

	foreach my $name (sort grep { /^enable_/ } keys %known)
	{
		$one->($name, $known{$name} eq 'on' ? 'off' : 'on');
	}
	$one->(@$_) foreach ([ 'geqo_threshold', 2 ], [ 'join_collapse_limit', 1 ], [ 'from_collapse_limit', 1 ],
		[ 'plan_cache_mode', 'force_generic_plan' ], [ 'plan_cache_mode', 'force_custom_plan' ],
		[ 'cursor_tuple_fraction', 1 ], [ 'cursor_tuple_fraction', '0.01' ], [ 'work_mem', '64kB' ], [ 'random_page_cost', 0 ],
		[ 'constraint_exclusion', 'on' ], [ 'default_statistics_target', 1 ], [ 'default_statistics_target', 10000 ]);
	$add->('parallel', parallel_setup_cost => 0, parallel_tuple_cost => 0, min_parallel_table_scan_size => 0, min_parallel_index_scan_size => 0,
		max_parallel_workers => 16, max_worker_processes => 24, (exists $known{debug_parallel_query} ? 'debug_parallel_query' : 'force_parallel_mode') => 'regress');
	$add->('jit', jit => 'on', jit_above_cost => 0, jit_inline_above_cost => 0, jit_optimize_above_cost => 0)
	  if -e "$pkglibdir/llvmjit.so";

	foreach my $row ($query->("SELECT name, vartype, setting, min_val, max_val, coalesce(array_to_string(enumvals, ' '), '') FROM pg_settings WHERE name LIKE 'rdma\\_fdw.%' ORDER BY name"))
	{
		my ($name, $type, $setting, $min, $max, $values) = @$row;
		my @ends = $type eq 'bool' ? ('on', 'off') : $type eq 'enum' ? split(/ /, $values) : $type eq 'string' ? () : ($min, $max);
		foreach my $end (@ends)
		{
			$one->($name, $end) if $end ne $setting && !$left_out{$name} && !$left_out{"$name=$end"};
		}
	}
	foreach my $name (sort map { s/=.*//r } keys %left_out)
	{
		die "Items.pm leaves out $name, which is no setting\n" if !exists $known{$name};
	}
	my @techniques = techniques($guc);
	die "$guc names no technique for rdma_fdw.disable\n" if !@techniques;
	# tables of the inputs are small: rows are left to core only where all scans are on columns
	$add->("rdma_fdw.disable=$_", 'rdma_fdw.disable' => $_ eq 'column_kernels' ? "column_costs,$_" : $_) foreach @techniques;
	return @items;
}

# What rdma_fdw.disable names, of the table in src/guc.c
sub techniques
{
	my ($guc) = @_;
	open(my $in, '<', $guc) or die "$guc: $!\n";
	return map { /^\s*\{"(\w+)", RF_\w+\},$/ ? $1 : () } grep { /^}\s*techniques\[\]/ .. /^};/ } <$in>;
}

# Settings that hide each other when they stand together
my @apart = (qr/^enable_(hashjoin|mergejoin|nestloop)=/, qr/^enable_(seqscan|indexscan|bitmapscan|indexonlyscan)=/, qr/^enable_(hashagg|sort)=/,
	qr/^(parallel$|enable_parallel_|enable_gathermerge)/, qr/^rdma_fdw\.(push_down|exchange_strategy)=/,
	map { qr/^rdma_fdw\.disable=$_/ } qw(exchange_filter compute_node decorrelation value page receive column));

# A setting that lists what stands together
my $list = 'rdma_fdw.disable';

# The settings of items, as "name=value"
sub together
{
	my %set;
	foreach my $item (@_)
	{
		foreach my $name (keys %{ $item->{set} })
		{
			$set{$name} = defined $set{$name} ? "$set{$name},$item->{set}{$name}" : $item->{set}{$name};
		}
	}
	return map { "$_=$set{$_}" } sort keys %set;
}

# The items in $n packs, or as many as are needed for no pack to have a setting twice or two that are to be apart; rand() decides
sub packs
{
	my ($n, @items) = @_;
	my @packs = map { [] } 1 .. $n;

	foreach my $item (sort { $a->[0] <=> $b->[0] } map { [ rand(), $_ ] } @items)
	{
		my $this = $item->[1];
		my @groups = grep { $this->{name} =~ $_ } @apart;
		my $fits = sub {
			my ($pack) = @_;
			foreach my $other (@$pack)
			{
				return 0 if grep { $_ ne $list && exists $other->{set}{$_} } keys %{ $this->{set} };
				return 0 if grep { $other->{name} =~ $_ } @groups;
			}
			return 1;
		};
		my ($place) = sort { @$a <=> @$b } grep { $fits->($_) } @packs;
		push @packs, $place = [] if !$place;
		push @$place, $this;
	}
	return grep { @$_ } @packs;
}

1;
