# Random distributed statements against one node: joins of exchanges, some inside others' queries, some filtered by others, under random planner settings on each
# node, random buffers and kinds of receive pools. SEED=n and COUNT=n in the environment run others, and more of them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaExchange;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed  = $ENV{SEED} || 4711;
my $count = $ENV{COUNT} || 25;
my %node  = map { $_ => rdma_node($_, conf => "jit = off\n") } qw(n1 n2 n3);
my $coord = $node{n3};
my $number;

srand($seed);
exchange_setup($coord, %node);
my %rows = (
	a => "SELECT n AS id, CASE WHEN n % 9 = 0 THEN 7 WHEN n % 50 = 1 THEN NULL ELSE n % 397 END AS k, 'text ' || n AS t, (n / 8.0)::numeric(12,2) AS x FROM generate_series(1, 900) n",
	b => "SELECT n AS id, CASE WHEN n % 40 = 1 THEN NULL ELSE n % 420 END AS k, md5(n::text) AS t, n * 1.5 AS x FROM generate_series(1, 600) n",
	c => "SELECT n AS id, n % 100 AS k, repeat(md5(n::text), 1 + n % 9) AS t, 3.14 * n AS x FROM generate_series(1, 200) n");
foreach my $table (sort keys %rows)
{
	$node{"n$_"}->safe_psql('postgres', "CREATE TABLE $table AS SELECT * FROM ($rows{$table}) s WHERE (id / 5) % 3 = $_ - 1; ANALYZE $table") foreach 1 .. 3;
	$coord->safe_psql('postgres', "CREATE TABLE all_$table AS $rows{$table}; ANALYZE all_$table");
}

sub pick { return $_[ int rand @_ ]; }

# A relation as an exchange with `key` as its key, and the same over the whole tables; %s is its alias.
sub exchange_of
{
	my ($query, $truth, $key) = @_;
	my $rows = pick(1, 100, 100000);

	$number++;
	return ("rdma_internal.exchange('number=$number kind=repartition keys=$key rows=$rows', \$q$number\$$query\$q$number\$) AS %s(id int, k int, t text, x numeric)", "($truth) AS %s");
}

sub relation
{
	my ($key, $depth) = @_;

	return exchange_of(joined($depth - 1), $key) if $depth > 0 && rand() < 0.5;
	my $table = pick(qw(a b c));
	my $where = rand() < 0.3 ? ' WHERE mod(id, ' . pick(2 .. 6) . ') = 0' : rand() < 0.1 ? ' WHERE false' : '';
	return exchange_of("SELECT id, k, t, x FROM $table$where", "SELECT id, k, t, x FROM all_$table$where", $key);
}

sub joined
{
	my ($depth) = @_;
	my $type = pick('JOIN', 'JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
	my $key = pick(1, 2);
	my $column = $key == 1 ? 'id' : 'k';
	my ($left, $left_truth) = relation($key, $depth);
	my ($right, $right_truth) = relation($key, $depth);
	# rows of the right side without partners are not needed: its exchange has the higher number
	my ($filter) = $left =~ /^rdma_internal\.exchange\('number=(\d+)/;
	$right =~ s/^(rdma_internal\.exchange\('number=\d+)/$1 filter=$filter/ if $type =~ /^(JOIN|LEFT JOIN)$/ && rand() < 0.6;
	my $select = "SELECT coalesce(l.id, r.id) AS id, coalesce(l.k, r.k, 1) AS k, coalesce(l.t, '') || '-' || coalesce(r.t, '') AS t, coalesce(l.x, 0) + coalesce(r.x, 0) AS x"
	  . " FROM %s $type %s ON l.$column = r.$column" . ($type ne 'FULL JOIN' && rand() < 0.3 ? ' AND l.x < r.x' : '');

	return (sprintf($select, sprintf($left, 'l'), sprintf($right, 'r')), sprintf($select, sprintf($left_truth, 'l'), sprintf($right_truth, 'r')));
}

sub settings
{
	my $parallel = pick(0, 0, 2);
	my $no_hash = rand() < 0.4;

	# Without both of them only nested loops are left, which take too long here.
	return join('; ', "SET work_mem = '" . pick('64kB', '4MB') . "'", 'SET rdma_fdw.receive_buffer_size = ' . pick(4, 16, 256), "SET rdma_fdw.disable = '" . pick('', 'receive_pool_costs', 'receive_pool_costs, receive_claims', 'receive_pool') . "'",
		$no_hash ? 'SET enable_hashjoin = off' : 'SET enable_mergejoin = ' . pick(qw(on off)),
		(map { "SET $_ = " . pick(qw(on on off)) } qw(enable_nestloop enable_material enable_hashagg enable_sort)),
		"SET max_parallel_workers_per_gather = $parallel; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0");
}

my $done = 0;
while ($done < $count)
{
	$number = 0;
	my ($sql, $truth) = joined(2);
	next if $number > 8;
	if (rand() < 0.3)
	{
		my $group = "SELECT k AS id, count(*)::int AS k, md5(string_agg(t, '' ORDER BY t COLLATE \"C\", id)) AS t, sum(x) AS x FROM %s GROUP BY k";
		my ($grouped, $grouped_truth) = exchange_of($sql, $truth, 2);

		($sql, $truth) = (sprintf($group, sprintf($grouped, 'g')), sprintf($group, sprintf($grouped_truth, 'g')));
	}
	my $sums = "SELECT count(*) || ' ' || coalesce(sum(hashtext(id || '|' || coalesce(k, -1) || t || x)::bigint), 0) FROM (%s) f";
	my %answers = exchange_run($coord, 'n1,n2,n3', $number, sprintf($sums, $sql), settings => { map { $_ => settings() } qw(n1 n2 n3) },
		slots => pick(1, 2, 4), slot_size => pick(4096, 8192, 65536));
	my ($rows, $hashes) = (0, 0);

	$done++;
	foreach my $name (qw(n1 n2 n3))
	{
		my ($n, $sum) = ($answers{$name} // '') =~ /^(\d+) (-?\d+)$/;

		$rows += $n // -1000000;
		$hashes += $sum // 0;
	}
	is("$rows $hashes", $coord->safe_psql('postgres', sprintf($sums, $truth)), "statement $done of seed $seed, $number exchanges") or diag($sql, explain(\%answers));
}
ok(exchange_idle(values %node), 'no flow is left');
cmp_ok($done, '>', 0, 'statements ran');

done_testing();
