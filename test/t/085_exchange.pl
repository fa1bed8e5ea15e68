# rdma_internal.exchange on the data nodes, with a plain script as its coordinator (RdmaExchange.pm): every row arrives once and where its hash says, joins over
# exchanges give what one node gives, in any order in which the nodes' own plans read them, and nothing is left behind. Bad days are in 082_exchange_bad_days.
use strict;
use warnings;
use FindBin;
use List::Util qw(max);
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaExchange;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "work_mem = '4MB'\njit = off\nmax_parallel_workers_per_gather = 0\n";
my %node = map { $_ => rdma_node($_, conf => $conf) } qw(n1 n2 n3);
my $coord = $node{n3};
my @all = values %node;

exchange_setup($coord, %node);

# Node i has the rows with n % 3 = i, so not by any key; n3's part of the tables b and c is empty; one key of a has a third of the rows; some are NULL.
my $rows_a = "SELECT n AS id, CASE WHEN n % 3 = 0 THEN 7 WHEN n % 50 = 1 THEN NULL ELSE n % 997 END AS k, repeat(md5(n::text), 3) AS t, (n / 8.0)::numeric(12,2) AS x, n::bigint AS l FROM generate_series(1, 9000) n";
my $rows_b = "SELECT n AS id, CASE WHEN n % 40 = 1 THEN NULL ELSE n % 1200 END AS k, md5(n::text) AS t FROM generate_series(1, 4000) n";
my $rows_c = "SELECT n AS id, repeat(md5(n::text), 1 + n % 9) AS t FROM generate_series(1, 300) n";
foreach my $i (0 .. 2)
{
	my $name = 'n' . ($i + 1);

	$node{$name}->safe_psql('postgres', qq{
		CREATE TABLE a AS SELECT * FROM ($rows_a) s WHERE (id / 5) % 3 = $i;
		CREATE TABLE b AS SELECT * FROM ($rows_b) s WHERE (id / 7) % 2 = $i;
		CREATE TABLE c AS SELECT * FROM ($rows_c) s WHERE id % 2 = $i;
		CREATE TABLE nothing (id int, k int);
		ANALYZE;
	});
}
$coord->safe_psql('postgres', "CREATE TABLE all_a AS $rows_a; CREATE TABLE all_b AS $rows_b; CREATE TABLE all_c AS $rows_c; CREATE TABLE all_nothing (id int, k int); ANALYZE");

my %columns = (a => 'id int, k int, t text, x numeric(12,2), l bigint', b => 'id int, k int, t text', c => 'id int, t text', nothing => 'id int, k int');

# rdma_internal.exchange over a table
sub ex
{
	my ($number, $table, $spec, $where) = @_;

	$where = defined $where ? " WHERE $where" : '';
	return "rdma_internal.exchange('number=$number $spec', \$q\$SELECT * FROM $table$where\$q\$) AS $table($columns{$table})";
}
sub by { return "kind=repartition keys=$_[0] rows=" . ($_[1] // 1000); }
my $everywhere = 'kind=replicate rows=100';

# All nodes' rows together are those of the query over the whole tables, and nothing is left behind. Returns the answers.
sub same
{
	my ($what, $members, $exchanges, $sql, $truth, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %answers = exchange_run($coord, $members, $exchanges, $sql, %options);
	my @rows = map { split /\n/, $answers{$_} } grep { !/^stats_/ && length $answers{$_} } keys %answers;
	my $want = join("\n", sort split(/\n/, $coord->safe_psql('postgres', $truth)));
	my $have = join("\n", sort @rows);

	ok($have eq $want, $what) or diag("wanted " . substr($want, 0, 400) . "\nhave " . substr($have, 0, 2000));
	ok(exchange_idle(@all), "$what: no flow is left");
	return %answers;
}

# ---- every row once, and where it belongs
foreach my $members ('n1,n2', 'n1,n2,n3', 'n1')
{
	my $n = () = $members =~ /n/g;
	my $part = $members =~ /n2/ ? ($n == 3 ? 'true' : '(id / 5) % 3 < 2') : '(id / 5) % 3 = 0';

	same("rows repartitioned over $members", $members, 1, "SELECT ROW(id, k, t, x, l)::text FROM " . ex(1, 'a', by(2)), "SELECT all_a::text FROM all_a WHERE $part");
	same("two keys over $members", $members, 1, "SELECT id || ' ' || rdma.hash_node($n, l, t) FROM " . ex(1, 'a', by('5,3')),
		"SELECT id || ' ' || rdma.hash_node($n, l, t) FROM all_a WHERE $part");
}
my %where = exchange_run($coord, 'n1,n2,n3', 1, "SELECT DISTINCT rdma.hash_node(3, l, t) FROM " . ex(1, 'a', by('5,3')));
is("$where{n1} $where{n2} $where{n3}", '0 1 2', 'rows are where rdma.hash_node says');
same('only some columns and rows are wanted', 'n1,n2,n3', 1, "SELECT t FROM " . ex(1, 'a', by(1)) . " WHERE x > 1000", "SELECT t FROM all_a WHERE x > 1000");
same('no column is wanted', 'n1,n2,n3', 1, "SELECT 1 FROM " . ex(1, 'a', by(1)), "SELECT 1 FROM all_a");

# ---- replicate
same('replicate', 'n1,n2,n3', 1, "SELECT ROW(id, t)::text FROM " . ex(1, 'c', $everywhere), "SELECT all_c::text FROM all_c, generate_series(1, 3)");
same('replicate with rows larger than a buffer', 'n1,n2', 1, "SELECT id || md5(t) FROM rdma_internal.exchange('number=1 $everywhere', 'SELECT id, repeat(t, 1000) FROM c') AS x(id int, t text)",
	"SELECT id || md5(repeat(t, 1000)) FROM all_c, generate_series(1, 2)", slot_size => 8192, slots => 2);
same('repartition of rows larger than a buffer', 'n1,n2', 1, "SELECT id || md5(t) FROM rdma_internal.exchange('number=1 kind=repartition keys=2', 'SELECT id, repeat(t, 1000) FROM c') AS x(id int, t text)",
	"SELECT id || md5(repeat(t, 1000)) FROM all_c", slot_size => 4096, slots => 1);

# ---- what all get lies once for all of them: rows come until the engine has given memory for that, and then some that check the bytes
my $mark = "SELECT coalesce(sum(in_place), 0) FROM rdma.stat_lanes";
my $in_place = 'SET rdma_fdw.disable = value_costs';
$_->safe_psql('postgres', "CREATE TABLE mark AS $mark; CREATE FUNCTION still_copied() RETURNS bool LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ($mark) = (SELECT * FROM mark); END'")
  foreach @all;
my $until_placed = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000000 AND still_copied())
	SELECT n, md5(n::text) FROM r UNION ALL SELECT n, repeat(md5(n::text), n % 40) FROM generate_series(1, 5000) n";
foreach my $pool ('receive_pool', 'receive_pool_costs')
{
	my %placed = exchange_run($coord, 'n1,n2,n3', 1, "SELECT count(*) || ' ' || sum(hashtext(t)::bigint) || ' ' || sum(n::bigint) FROM rdma_internal.exchange('number=1 $everywhere', \$q\$$until_placed\$q\$) AS x(n int, t text)",
		settings => { map { $_ => "$in_place, $pool" } qw(n1 n2 n3) }, slot_size => 8192, slots => 3);

	like($placed{n1}, qr/^\d+ -?\d+ \d+$/, "without $pool: rows that lie once for all");
	ok($placed{n1} eq $placed{n2} && $placed{n1} eq $placed{n3}, 'all nodes got the same') or diag(explain(\%placed));
	is($_->safe_psql('postgres', 'SELECT still_copied()'), 'f', 'sent from there') foreach @all;
	$_->safe_psql('postgres', "TRUNCATE mark; INSERT INTO mark $mark") foreach @all;
}
my %placed = exchange_run($coord, 'n1,n2,n3', 1, "SELECT 1 FROM rdma_internal.exchange('number=1 $everywhere', \$q\$SELECT n, 1 / (4001 - n) FROM ($until_placed) s(n, t)\$q\$) AS x(n int, m int)",
	settings => { n1 => $in_place, n2 => $in_place, n3 => $in_place }, slot_size => 4096, slots => 2);
like(join(' ', @placed{qw(n1 n2 n3)}), qr/division by zero/, 'an error while they are sent from there');
%placed = exchange_run($coord, 'n1,n2,n3', 1, "SELECT t FROM rdma_internal.exchange('number=1 $everywhere', \$q\$$until_placed\$q\$) AS x(n int, t text) LIMIT (SELECT 10 * count(*) FROM a WHERE id = 10)",
	settings => { n1 => $in_place, n2 => $in_place, n3 => $in_place }, slot_size => 4096, slots => 2);
is(join(' ', map { $placed{$_} =~ /ERROR/ ? $placed{$_} : scalar(split /\n/, $placed{$_}) } qw(n1 n2 n3)),
	join(' ', map { 10 * $_->safe_psql('postgres', 'SELECT count(*) FROM a WHERE id = 10') } @node{qw(n1 n2 n3)}), 'some nodes stop reading early');
ok(exchange_idle(@all), 'no flow is left');
ok($_->poll_query_until('postgres', 'SELECT value_used = 0 FROM rdma.stat_engine'), 'and no value memory in use') foreach @all;

# ---- rows do not wait until there are many of them: n1 makes twenty a second without end, and all go to n2, which wants three
my $key = $coord->safe_psql('postgres', 'SELECT min(v) FROM generate_series(1, 100) v WHERE rdma.hash_node(2, v) = 1');
my %first = exchange_run($coord, 'n1,n2', 1, "SELECT k FROM rdma_internal.exchange('number=1 kind=repartition keys=1', 'SELECT $key, pg_sleep(0.05)::text FROM a, generate_series(1, 1000000) WHERE id = 1') AS x(k int, t text)
	LIMIT (SELECT 3 - 3 * count(*) FROM a WHERE id = 1)");
is($first{n2}, "$key\n$key\n$key", 'the first rows leave when they have waited for rdma_fdw.flush_time') or diag($first{error});

# ---- joins
my %joins = (
	inner => "SELECT a.id || ' ' || b.id || b.t || a.x FROM %s JOIN %s ON a.k = b.k",
	left => "SELECT a.id || ' ' || coalesce(b.id, -1) || a.t FROM %s LEFT JOIN %s ON a.k = b.k",
	right => "SELECT coalesce(a.id, -1) || ' ' || b.id FROM %s RIGHT JOIN %s ON a.k = b.k",
	full => "SELECT coalesce(a.id, -1) || ' ' || coalesce(b.id, -1) FROM %s FULL JOIN %s ON a.k = b.k",
	semi => "SELECT a.id::text FROM %s WHERE EXISTS (SELECT FROM %s WHERE a.k = b.k)",
	anti => "SELECT a.id::text FROM %s WHERE NOT EXISTS (SELECT FROM %s WHERE a.k = b.k)");
my %ways = (hash => 'SET enable_mergejoin = off; SET enable_nestloop = off', merge => 'SET enable_hashjoin = off; SET enable_nestloop = off');
foreach my $type (sort keys %joins)
{
	my $truth = sprintf($joins{$type}, 'all_a a', 'all_b b');

	same("$type join, both repartitioned", 'n1,n2,n3', 2, sprintf($joins{$type}, ex(1, 'a', by(2)), ex(2, 'b', by(2))), $truth);

	# One node builds a hash table from exchange 2 first, the other sorts exchange 1 first; buffers hold a fraction of the rows.
	same("$type join, nodes read in opposite orders", 'n1,n2,n3', 2, sprintf($joins{$type}, ex(1, 'a', by(2)), ex(2, 'b', by(2))), $truth,
		settings => { n1 => $ways{hash}, n2 => $ways{merge}, n3 => $ways{hash} }, slot_size => 4096, slots => 1);
	# Rows of b without partners are not sent.
	next if $type =~ /right|full/;
	same("$type join, one side filtered", 'n1,n2,n3', 2, sprintf($joins{$type}, ex(1, 'a', by(2), 'id > 50'), ex(2, 'b', by(2) . ' filter=1')), $truth =~ s/all_a/(SELECT * FROM all_a WHERE id > 50)/r,
		settings => { n1 => $ways{hash}, n2 => $ways{merge}, n3 => $ways{hash} }, slot_size => 4096, slots => 1);
}
same('a filter larger than a buffer', 'n1,n2,n3', 2, "SELECT a.id || ' ' || b.t FROM " . ex(1, 'a', by(1)) . ' JOIN ' . ex(2, 'b', by(1) . ' filter=1') . ' ON a.id = b.id',
	"SELECT a.id || ' ' || b.t FROM all_a a JOIN all_b b ON a.id = b.id", settings => { n2 => $ways{merge} }, slot_size => 4096, slots => 1);
same('one side replicated', 'n1,n2,n3', 1, "SELECT a.id || ' ' || b.id FROM a JOIN " . ex(1, 'b', $everywhere) . " ON a.k = b.k",
	"SELECT a.id || ' ' || b.id FROM all_a a JOIN all_b b ON a.k = b.k");
same('without equality, one side replicated', 'n1,n2,n3', 1, "SELECT a.id || ' ' || c.id FROM a JOIN " . ex(1, 'c', $everywhere) . " ON a.id BETWEEN c.id * 10 AND c.id * 10 + 2",
	"SELECT a.id || ' ' || c.id FROM all_a a JOIN all_c c ON a.id BETWEEN c.id * 10 AND c.id * 10 + 2");

# ---- more than work_mem while the other exchange is read
my %spilled = same('what waits for its reader goes to disk', 'n1,n2', 2,
	"SELECT a.id || ' ' || b.id FROM " . ex(1, 'a', by(2), 'k <> 7') . " JOIN " . ex(2, 'b', by(2)) . ' ON a.k = b.k',
	"SELECT a.id || ' ' || b.id FROM all_a a JOIN all_b b ON a.k = b.k WHERE a.k <> 7 AND (a.id / 5) % 3 < 2",
	settings => { n1 => "SET work_mem = '64kB'; $ways{hash}", n2 => "SET work_mem = '64kB'; $ways{merge}" }, slot_size => 4096, slots => 1);
like("$spilled{stats_n1} $spilled{stats_n2}", qr/,[1-9][0-9]{3,},\w+,\)/, 'and is counted') or diag(explain(\%spilled));

# ---- several joins: exchanges side by side, and one inside the query of another
same('three exchanges side by side', 'n1,n2,n3', 3,
	"SELECT a.id || ' ' || b.id || ' ' || c.id FROM " . ex(1, 'a', by(2)) . ' JOIN ' . ex(2, 'b', by(2)) . ' ON a.k = b.k JOIN ' . ex(3, 'c', $everywhere) . ' ON c.id = a.k',
	"SELECT a.id || ' ' || b.id || ' ' || c.id FROM all_a a JOIN all_b b ON a.k = b.k JOIN all_c c ON c.id = a.k", settings => { n2 => $ways{merge} }, slot_size => 4096, slots => 2);
my $inner = "SELECT a.id, b.id, a.t, b.k FROM " . ex(1, 'a', by(2)) . " JOIN " . ex(2, 'b', by(2)) . " ON a.k = b.k WHERE a.id % 5 = 0";
my $nested = "rdma_internal.exchange('number=3 kind=repartition keys=1 rows=2000', \$n\$$inner\$n\$) AS j(aid int, bid int, t text, k int)";
foreach my $how (sort keys %ways)
{
	same("an exchange inside another's query ($how joins on one node)", 'n1,n2,n3', 4,
		"SELECT j.aid || ' ' || j.bid || j.t || c.id FROM $nested JOIN " . ex(4, 'c', by(1)) . " ON c.id = j.aid",
		"SELECT a.id || ' ' || b.id || a.t || c.id FROM all_a a JOIN all_b b ON a.k = b.k JOIN all_c c ON c.id = a.id WHERE a.id % 5 = 0",
		settings => { n2 => $ways{$how} }, slot_size => 4096, slots => 1);
}
same('set operations', 'n1,n2,n3', 2, "SELECT k::text FROM " . ex(1, 'a', by(2)) . " EXCEPT SELECT k::text FROM " . ex(2, 'b', by(2)),
	"SELECT k::text FROM all_a EXCEPT SELECT k::text FROM all_b", settings => { n3 => 'SET enable_hashagg = off' });
same('union all', 'n1,n2,n3', 2, "SELECT t FROM " . ex(1, 'a', by(2)) . " UNION ALL SELECT t FROM " . ex(2, 'b', by(2)), "SELECT t FROM all_a UNION ALL SELECT t FROM all_b");

# ---- rows that are asked for again
my $nested_loop = 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off';
same('nested loop over an exchange', 'n1,n2', 1, "SELECT b.id || ' ' || c.id || c.t FROM b JOIN " . ex(1, 'c', $everywhere) . " ON b.id % 150 = c.id",
	"SELECT b.id || ' ' || c.id || c.t FROM all_b b JOIN all_c c ON b.id % 150 = c.id", settings => { all => $nested_loop });
same('nested loop over two exchanges', 'n1,n2', 2, "SELECT b.id || b.t || ' ' || c.id || c.t FROM " . ex(1, 'b', by(1), 'id < 200') . ' LEFT JOIN ' . ex(2, 'c', by(1)) . " ON b.id = c.id",
	"SELECT b.id || b.t || ' ' || c.id || c.t FROM all_b b LEFT JOIN all_c c ON b.id = c.id WHERE b.id < 200", settings => { n1 => $nested_loop, n2 => $ways{hash} }, slot_size => 4096, slots => 1);
same('a subquery for each row', 'n1,n2', 1, "SELECT b.id || ' ' || (SELECT count(*) FROM " . ex(1, 'c', $everywhere) . " WHERE c.id % 100 = b.id) FROM b WHERE b.id < 100",
	"SELECT b.id || ' ' || (SELECT count(*) FROM all_c c WHERE c.id % 100 = b.id) FROM all_b b WHERE b.id < 100");
same('a subquery for all rows', 'n1,n2', 2, "SELECT a.id || a.t FROM " . ex(1, 'a', by(1)) . " WHERE a.id < (SELECT max(id) FROM " . ex(2, 'c', $everywhere) . ')',
	"SELECT a.id || a.t FROM all_a a WHERE a.id < 300 AND (a.id / 5) % 3 < 2", slot_size => 4096, slots => 1);

same('a CTE that two scans read', 'n1,n2', 2, "WITH m AS MATERIALIZED (SELECT * FROM " . ex(1, 'b', by(2)) . ") SELECT x.id || x.t || y.id || c.t FROM m x JOIN m y ON x.k = y.k AND x.id < y.id JOIN " . ex(2, 'c', $everywhere) . ' ON c.id = x.id',
	"SELECT x.id || x.t || y.id || c.t FROM all_b x JOIN all_b y ON x.k = y.k AND x.id < y.id JOIN all_c c ON c.id = x.id", settings => { n1 => $ways{hash}, n2 => $ways{merge} }, slot_size => 4096, slots => 1);
same('a lateral subquery', 'n1,n2', 2, "SELECT b.id || s.t FROM " . ex(1, 'b', by(1), 'id < 100') . ' CROSS JOIN LATERAL (SELECT t FROM ' . ex(2, 'c', $everywhere) . ' WHERE c.id > b.id ORDER BY c.id LIMIT 1) s',
	"SELECT b.id || s.t FROM all_b b CROSS JOIN LATERAL (SELECT t FROM all_c c WHERE c.id > b.id ORDER BY c.id LIMIT 1) s WHERE b.id < 100", slot_size => 4096, slots => 1);

# ---- rows that several places of the statement read, also the queries of other exchanges
sub reader
{
	my ($number, $reader, $table, $spec, $name) = @_;

	return "rdma_internal.exchange('number=$number $spec reader=$reader', '') AS $name($columns{$table})";
}
my $pairs = "SELECT b.id || b.t || y.id || y.t FROM " . ex(1, 'b', by(2)) . ' JOIN ' . reader(1, 2, 'b', by(2), 'y') . ' ON b.k = y.k AND b.id < y.id';
my $all_pairs = 'SELECT x.id || x.t || y.id || y.t FROM all_b x JOIN all_b y ON x.k = y.k AND x.id < y.id';
my $inside = 'SELECT c.id, a.id, a.t FROM c JOIN ' . reader(1, 2, 'a', $everywhere, 'a') . ' ON a.k = c.id';
my $around = "rdma_internal.exchange('number=2 kind=repartition keys=2 rows=2000', \$n\$$inside\$n\$) AS j(cid int, aid int, t text)";
my $both = 'SELECT b.id || j.t || coalesce(a.x, 0) FROM ' . ex(3, 'b', by(1)) . ' JOIN ' . ex(1, 'a', $everywhere) . " ON b.k = a.k AND a.id % 7 = 0 LEFT JOIN $around ON j.aid = b.id";
my $both_rows = "SELECT b.id || j.t || coalesce(a.x, 0) FROM all_b b JOIN all_a a ON b.k = a.k AND a.id % 7 = 0 LEFT JOIN (SELECT a.id AS aid, a.t FROM all_c c JOIN all_a a ON a.k = c.id) j ON j.aid = b.id";
my $parallel = "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0";
my $with_workers = "$parallel; SET enable_nestloop = off; SET enable_mergejoin = off";
my %how = (hash => $ways{hash}, merge => $ways{merge}, 'nested loop' => 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off', parallel => $with_workers,
	'parallel without leader' => "$with_workers; SET parallel_leader_participation = off", 'parallel without workers' => "$with_workers; SET max_parallel_workers = 0", 'spilling' => "SET work_mem = '64kB'; $ways{hash}",
	'parallel, spilling' => "$with_workers; SET work_mem = '64kB'");
foreach my $how (sort keys %how)
{
	my %settings = (n1 => $ways{hash}, n2 => $how{$how}, n3 => $how{$how});

	same("two readers of an exchange ($how)", 'n1,n2,n3', 1, $pairs, $all_pairs, settings => \%settings, slot_size => 4096, slots => 1);
	same("a reader inside another exchange ($how)", 'n1,n2,n3', 3, "$both WHERE j.aid = b.id", "$both_rows WHERE j.aid = b.id", settings => \%settings, slot_size => 4096, slots => 1)
	  if $how ne 'nested loop';
}
# A hash table that grows, for which its processes meet, while rows still come from one node; also below Append, where some rows are there at once
$node{$_}->safe_psql('postgres', 'CREATE TABLE late AS SELECT n AS id FROM generate_series(1, ' . ($_ eq 'n1' ? 20000 : 0) . ') n; CREATE TABLE h AS SELECT n AS id, n % 1200 AS k FROM generate_series(1, 20000) n; ANALYZE h, late') foreach (keys %node);
my $late = "rdma_internal.exchange('number=2 kind=repartition keys=1 rows=10', 'SELECT id, CASE WHEN id % 500 = 0 THEN pg_sleep(0.02)::text ELSE md5(id::text) END FROM late') AS l(id int, t text)";
my $growing = 'SELECT a.id || md5(string_agg(s.t, $$,$$ ORDER BY s.t)) FROM ' . ex(1, 'a', by(1, 100000)) . ' JOIN %s s ON a.id = s.id GROUP BY a.id';
my $grown = "SELECT a.id || md5(string_agg(s.t, ',' ORDER BY s.t)) FROM all_a a JOIN (%s) s ON a.id = s.id GROUP BY a.id";
my $all_late = "SELECT n AS id, CASE WHEN n % 500 = 0 THEN '' ELSE md5(n::text) END AS t FROM generate_series(1, 20000) n";
same('a hash table that grows', 'n1,n2,n3', 2, sprintf($growing, "(SELECT id, t FROM $late)"), sprintf($grown, $all_late), settings => { all => $with_workers });
same('a hash table below Append that grows', 'n1,n2,n3', 2, sprintf($growing, "(SELECT id, 'here' AS t FROM h WHERE id * 0 = 0 AND k * 0 = 0 AND (id % 100 > 0 OR pg_sleep(0.002) IS NOT NULL) UNION ALL SELECT id, t FROM $late)"),
	sprintf($grown, "SELECT id, 'here' AS t FROM h UNION ALL $all_late"), settings => { all => $with_workers });
my $limited_reader = 'SELECT count(*)::text FROM (SELECT 1 FROM ' . reader(1, 2, 'b', by(2), 'y') . " LIMIT current_setting('test.rows')::int) s UNION ALL SELECT b.id || b.t FROM " . ex(1, 'b', by(2));
same('a reader that ends early', 'n1,n2', 1, $limited_reader, "SELECT '3' UNION ALL SELECT '5' UNION ALL SELECT id || t FROM all_b", settings => { n1 => 'SET test.rows = 3', n2 => 'SET test.rows = 5' }, slot_size => 4096, slots => 1);
same('an exchange that ends early, before its other reader begins', 'n1,n2', 1,
	'SELECT count(*)::text FROM (SELECT 1 FROM ' . ex(1, 'b', by(2)) . " LIMIT current_setting('test.rows')::int) s UNION ALL SELECT y.id || y.t FROM " . reader(1, 2, 'b', by(2), 'y'),
	"SELECT '3' UNION ALL SELECT '0' UNION ALL SELECT id || t FROM all_b", settings => { n1 => 'SET test.rows = 3', n2 => 'SET test.rows = 0' }, slot_size => 4096, slots => 1);
same('a reader for each row', 'n1,n2', 1, 'SELECT b.id || b.t FROM ' . ex(1, 'b', by(2), 'id < 200') . ' WHERE (SELECT count(*) FROM ' . reader(1, 2, 'b', by(2), 'y') . ' WHERE y.id < b.id AND y.k = b.k) = 0',
	'SELECT b.id || b.t FROM all_b b WHERE id < 200 AND (SELECT count(*) FROM all_b y WHERE y.id < b.id AND y.k = b.k AND y.id < 200) = 0', slot_size => 4096, slots => 1);
same('one that a planner leaves out, while the other reads', 'n1,n2', 2,
	"SELECT y.id || y.t FROM " . reader(1, 2, 'b', by(2), 'y') . ' UNION ALL SELECT b.t FROM (SELECT k, id, t FROM ' . ex(1, 'b', by(2)) . ' WHERE false) b JOIN ' . ex(2, 'c', by(1)) . ' ON c.id = b.id',
	'SELECT id || t FROM all_b', slot_size => 4096, slots => 1);
same('one that filters, and is read elsewhere', 'n1,n2', 2,
	"SELECT a.id || b.t FROM " . ex(2, 'a', by(2) . ' filter=1') . ' JOIN ' . ex(1, 'b', by(2)) . ' ON a.k = b.k UNION ALL SELECT y.t FROM ' . reader(1, 2, 'b', by(2), 'y'),
	'SELECT a.id || b.t FROM all_a a JOIN all_b b ON a.k = b.k AND (a.id / 5) % 3 < 2 UNION ALL SELECT t FROM all_b', slot_size => 4096, slots => 1);
same('compute nodes with two readers', 'n1,n2,n3', 1, $pairs, $all_pairs, producers => 'n1,n2', consumers => 'n2,n3', slot_size => 4096, slots => 1);
my %read = exchange_run($coord, 'n1,n2', 1, "EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF) $pairs", settings => { all => $with_workers });
like($read{n1}, qr/Exchange: 1, repartition by column 2, reader 2\n *Rows per Process: \d+\/\d+\/\d+/, 'its processes share its rows') or diag($read{n1});

# ---- a reader that turns to another exchange between two rows: what it has read from is sent on to the others all the same
same('a hash join whose inner side is empty on one node, and what is read after it', 'n1,n2', 2,
	"SELECT a.id || a.t FROM " . ex(1, 'a', by(1)) . " JOIN b n ON n.k = a.k AND n.id < current_setting('test.ids')::int AND a.t || n.t = '' UNION ALL SELECT c.id || c.t FROM " . ex(2, 'c', $everywhere),
	"SELECT c.id || c.t FROM all_c c, generate_series(1, 2)", settings => { n1 => "SET test.ids = 0; $ways{hash}", n2 => "SET test.ids = 10000; $ways{hash}" }, slot_size => 4096, slots => 1);
same('a limit that one node reaches, and what is read after it', 'n1,n2', 2,
	"SELECT count(s.t)::text FROM (SELECT * FROM " . ex(1, 'a', by(1)) . " LIMIT current_setting('test.rows')::int) s UNION ALL SELECT c.id || c.t FROM " . ex(2, 'c', $everywhere),
	"SELECT '10' UNION ALL SELECT count(*)::text FROM all_a WHERE (id / 5) % 3 < 2 AND rdma.hash_node(2, id) = 1 UNION ALL SELECT c.id || c.t FROM all_c c, generate_series(1, 2)",
	settings => { n1 => 'SET test.rows = 10', n2 => 'SET test.rows = 10000' }, slot_size => 4096, slots => 1);

# ---- fetched in pieces
$_->safe_psql('postgres', 'CREATE FUNCTION pieces(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN FOR r IN EXECUTE query LOOP RETURN NEXT r; END LOOP; END $$') foreach (@all);
same('a cursor that is read in pieces', 'n1,n2,n3', 1, 'SELECT * FROM pieces($pieces$SELECT id || t FROM ' . ex(1, 'a', by(1)) . '$pieces$)', 'SELECT id || t FROM all_a');

# ---- ends before the end
my %limited = same('limit over an exchange', 'n1,n2,n3', 1, "SELECT 'row' FROM " . ex(1, 'a', by(1)) . ' LIMIT 5', "SELECT 'row' FROM generate_series(1, 15)");
same('limit below a join', 'n1,n2', 2, "SELECT count(*)::text || s.t IS NULL FROM (SELECT * FROM " . ex(1, 'a', by(1)) . ' LIMIT 10) s JOIN ' . ex(2, 'b', by(1)) . ' ON s.id = b.id OR true GROUP BY s.t LIMIT 1',
	"SELECT false FROM generate_series(1, 2)", slot_size => 4096, slots => 1);
same('one node wants nothing', 'n1,n2,n3', 2, "SELECT nothing.id || a.t FROM " . ex(1, 'nothing', by(2)) . ' JOIN ' . ex(2, 'a', by(2)) . ' ON a.k = nothing.k', 'SELECT 1 WHERE false', slot_size => 4096, slots => 1);
same('nor does the other plan', 'n1,n2,n3', 2, "SELECT nothing.id || a.t FROM " . ex(1, 'nothing', by(2)) . ' JOIN ' . ex(2, 'a', by(2)) . ' ON a.k = nothing.k', 'SELECT 1 WHERE false',
	settings => { n1 => $ways{merge}, n2 => $ways{hash}, n3 => $nested_loop }, slot_size => 4096, slots => 1);
same('empty inputs', 'n1,n2,n3', 2, "SELECT count(*) FROM " . ex(1, 'nothing', by(2)) . ' FULL JOIN ' . ex(2, 'b', by(2), 'false') . ' ON b.k = nothing.k', 'SELECT 0 FROM generate_series(1, 3)');
same('only NULL keys', 'n1,n2,n3', 1, "SELECT id::text FROM " . ex(1, 'b', by(2), 'k IS NULL'), 'SELECT id::text FROM all_b WHERE k IS NULL');

# ---- the nodes' queries: parallel ones, with parameters, prepared
my %plan = exchange_run($coord, 'n1,n2', 1, 'EXPLAIN (COSTS OFF) SELECT 1 FROM ' . ex(1, 'a', by(1)), settings => { all => $parallel });
like($plan{n1}, qr/RdmaExchange.*Gather.*Parallel Seq Scan on a/s, 'a query inside may be parallel');
same('parallel queries', 'n1,n2,n3', 2, sprintf($joins{left}, ex(1, 'a', by(2)), ex(2, 'b', by(2))), sprintf($joins{left}, 'all_a a', 'all_b b'), settings => { all => $parallel }, slot_size => 4096, slots => 1);
same('parallel queries that end early', 'n1,n2,n3', 1, "SELECT 'row' FROM " . ex(1, 'a', by(1)) . ' LIMIT 5', "SELECT 'row' FROM generate_series(1, 15)", settings => { all => $parallel });
same('parallel queries that begin when nothing is wanted any more', 'n1,n2,n3', 2, "SELECT nothing.id || a.t FROM " . ex(1, 'nothing', by(2)) . ' JOIN ' . ex(2, 'a', by(2)) . ' ON a.k = nothing.k', 'SELECT 1 WHERE false',
	settings => { all => "$parallel; $ways{merge}" }, slot_size => 4096, slots => 1);
foreach my $mode (qw(force_custom_plan force_generic_plan))
{
	my $prepare = "SET plan_cache_mode = $mode; PREPARE p(int, text, int) AS SELECT a.id || a.t FROM rdma_internal.exchange('number=1 kind=repartition keys=1', 'SELECT id, t FROM a WHERE id < \$1 AND t <> \$2') AS a(id int, t text) WHERE id > \$3";

	same("parameters inside an exchange ($mode)", 'n1,n2,n3', 1, "EXECUTE p(500, 'c9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236d', 3)", "SELECT id || t FROM all_a WHERE id < 500 AND id > 3 AND t <> 'c9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236d'", settings => { all => $prepare });
}

# ---- heavy keys: 7 is in a third of a's rows
my $heavy = $coord->safe_psql('postgres', q{SELECT (hashint4extended(7, 8816678312871386365)::numeric + 18446744073709551616 + 5305509591434766563) % 18446744073709551616});
my %plain = exchange_run($coord, 'n1,n2,n3', 1, 'SELECT count(*) FROM ' . ex(1, 'a', by(2)));
my %spread = exchange_run($coord, 'n1,n2,n3', 1, 'SELECT count(*) FROM ' . ex(1, 'a', by(2) . " heavy=spread:1,$heavy"));
cmp_ok(max(@plain{qw(n1 n2 n3)}), '>', 4500, 'a heavy key makes one node heavy');
cmp_ok(max(@spread{qw(n1 n2 n3)}), '<', 3600, 'a heavy key that is spread does not');
foreach my $type (qw(inner left))
{
	same("$type join with a heavy key", 'n1,n2,n3', 2, sprintf($joins{$type}, ex(1, 'a', by(2) . " heavy=spread:$heavy"), ex(2, 'b', by(2) . " heavy=broadcast:$heavy")),
		sprintf($joins{$type}, 'all_a a', 'all_b b'), slot_size => 4096, slots => 2);
}

# ---- estimates
my $counted = by(2, 5000) . ' distinct=4000,1000,-1';
%plan = exchange_run($coord, 'n1,n2', 1, 'EXPLAIN SELECT k FROM ' . ex(1, 'a', $counted) . ' GROUP BY k');
like($plan{n1}, qr/HashAggregate.* rows=1000 .*RdmaExchange.* rows=5000 /s, "the coordinator's estimates of rows and values are used");

like($coord->safe_psql('postgres', 'EXPLAIN (COSTS OFF) SELECT k FROM ' . ex(1, 'a', by(2) . ' heavy=spread:5,6')), qr/RdmaExchange\)\n +Exchange: 1, repartition by column 2, 2 heavy keys spread\n +->  Seq Scan on a/,
	'EXPLAIN needs no set-up');

# ---- nodes that only hold rows, and nodes that only join
same('compute node', 'n1,n2,n3', 2, sprintf($joins{inner}, ex(1, 'a', by(2), 'id % 2 = 0'), ex(2, 'b', by(2))), "SELECT a.id || ' ' || b.id || b.t || a.x FROM all_a a JOIN all_b b ON a.k = b.k WHERE a.id % 2 = 0 AND (a.id / 5) % 3 < 2",
	producers => 'n1,n2', consumers => 'n3', slot_size => 4096, slots => 1);
same('two compute nodes, one of which has rows', 'n1,n2,n3', 2, sprintf($joins{left}, ex(1, 'a', by(2)), ex(2, 'b', by(2))), sprintf($joins{left}, '(SELECT * FROM all_a WHERE (id / 5) % 3 < 2) a', 'all_b b'),
	producers => 'n1,n2', consumers => 'n2,n3', settings => { n3 => $ways{merge} }, slot_size => 4096, slots => 1);
same('replicate to compute nodes', 'n1,n2,n3', 1, 'SELECT c.id::text FROM ' . ex(1, 'c', $everywhere), 'SELECT id::text FROM all_c, generate_series(1, 2)', producers => 'n1,n2', consumers => 'n2,n3');

# ---- what is wrong is said
sub refused
{
	my ($what, $error, $sql, %options) = @_;
	my %answers = exchange_run($coord, 'n1,n2', 2, $sql, %options);

	like("$answers{n1}", $error, $what);
	return ok(exchange_idle(@all), "$what: no flow is left");
}
refused('no set-up', qr/exchange 3 is not set up in this session/, 'SELECT 1 FROM ' . ex(3, 'a', by(1)));
refused('the same exchange twice', qr/exchange 1 is in the statement twice/, 'SELECT 1 FROM ' . ex(1, 'a', by(1)) . ' CROSS JOIN ' . ex(1, 'b', by(1)));
refused('a reader of nothing', qr/reader 2 of exchange 1 finds no such rows/, 'SELECT 1 FROM ' . reader(1, 2, 'a', by(1), 'x'));
refused('a reader of other columns', qr/reader 2 of exchange 1 finds no such rows/, 'SELECT 1 FROM ' . ex(1, 'a', by(1)) . ', ' . reader(1, 2, 'b', by(1), 'x'));
# what the other node says then depends on which of them ends first
my %own = exchange_run($coord, 'n1,n2', 1, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', \$q\$SELECT id FROM rdma_internal.exchange('number=1 kind=replicate reader=2', '') AS x(id int)\$q\$) AS y(id int)");
like("$own{n1} $own{n2}", qr/exchange 1 is read by its own query/, 'a reader of the exchange around it');
ok(exchange_idle(@all), 'a reader of the exchange around it: no flow is left');
refused('a reader of an exchange that is not set up', qr/exchange 3 is not set up in this session/, 'SELECT 1 FROM ' . reader(3, 2, 'a', by(1), 'x'));
refused('not a SELECT', qr/SELECT statements only/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', 'DELETE FROM a') AS x(id int)");
refused('a SELECT that changes data', qr/data-modifying/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', 'WITH d AS (DELETE FROM a RETURNING 1) SELECT * FROM d') AS x(id int)");
refused('two statements', qr/exactly one SELECT/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT 1; SELECT 2') AS x(id int)");
refused('another number of columns', qr/returns 2 columns, but 1 are defined/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT 1, 2') AS x(id int)");
refused('text that is no value of the defined type', qr/invalid input syntax for type integer: "one"/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', \$\$SELECT 'one'\$\$) AS x(id int)");
refused('a key that is no column', qr/exchange 1 has no column 9/, 'SELECT 1 FROM ' . ex(1, 'a', by(9)));
refused('a key that cannot be hashed', qr/extended hash function for type point/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=repartition keys=1', 'SELECT point(1, 2)') AS x(p point)");
refused('a filter without keys', qr/no exchange can be filtered by exchange 1/, 'SELECT 1 FROM ' . ex(1, 'c', $everywhere) . ', ' . ex(2, 'a', by(1) . ' filter=1'));
refused('a filter by other keys', qr/no exchange can be filtered by exchange 1/, 'SELECT 1 FROM ' . ex(2, 'b', by(1) . ' filter=1') . ', ' . ex(1, 'a', by('1,2')));
refused('a filter of rows that go elsewhere', qr/exchange 2 cannot be filtered/, 'SELECT 1 FROM ' . ex(1, 'a', by(1)) . ', ' . ex(2, 'b', by(1) . ' filter=1'), producers => 'n1');
same('a filter by what is not in the statement', 'n1,n2', 2, 'SELECT b.id::text FROM ' . ex(2, 'b', by(1) . ' filter=1'), 'SELECT id::text FROM all_b');
refused('a whole row', qr/whole rows of an exchange/, 'SELECT a FROM ' . ex(1, 'a', by(1)));
refused('a query with an error', qr/relation "nowhere" does not exist/, "SELECT 1 FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT id FROM nowhere') AS x(id int)");
foreach my $spec ('', 'number=1', 'kind=replicate', 'number=0 kind=replicate', 'number=65 kind=replicate', 'number=1.5 kind=replicate', 'number=1 kind=gather', 'number=1 kind=repartition',
	'number=1 kind=repartition keys=', 'number=1 kind=repartition keys=0', 'number=1 kind=repartition keys=1,x', 'number=1 kind=replicate keys=1', 'number=1 kind=replicate rows=-1', 'number=1 kind=replicate rows=nan',
	'number=1 kind=replicate rows', 'number=1 kind=replicate what=1', 'number=1 kind=repartition keys=1 keys=1', 'number=1 kind=repartition keys=1 heavy=spread', 'number=1 kind=repartition keys=1 heavy=all:1',
	'number=1 kind=repartition keys=1 filter=1', 'number=2 kind=repartition keys=1 filter=0', 'number=2 kind=replicate filter=1', 'number=2 kind=repartition keys=1 filter=1 filter=1',
	'number=1 kind=replicate reader=0', 'number=1 kind=replicate reader=2 reader=3', 'number=1 kind=repartition keys=1 heavy=spread:-1', 'number=1 kind=repartition keys=1 heavy=spread:99999999999999999999')
{
	my ($status, $out, $err) = $node{n1}->psql('postgres', "SELECT 1 FROM rdma_internal.exchange('$spec', 'SELECT 1') AS x(id int)");

	like($err, qr/invalid description of an exchange/, "description \"$spec\" is refused");
}

# ---- a node that sends other bytes than it should, in the place of a filter: what it says counts for its own rows only, and what is none is refused
foreach my $name (qw(n1 n2))
{
	$node{$name}->safe_psql('postgres', q{
		CREATE FUNCTION kinds_listen_all(bytea[], int) RETURNS bytea[] AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_lie(bytea[], int, int, bytea[], int) RETURNS void AS '$libdir/flow_kinds_test' LANGUAGE C;
	});
}
# n1 runs the statement, and n2 sends the messages by one of its two exchanges: n1's answer and the rows that it filtered, or its error
$coord->safe_psql('postgres', q{
	CREATE FUNCTION lie(sql text, number int, messages bytea[], part int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE groups bytea[]; filled bytea[]; greetings bytea[]; answer text; i int; g int;
	BEGIN
		PERFORM connect_nodes();
		FOR i IN 1 .. 2 LOOP
			PERFORM dblink_connect('m' || i, (SELECT connstr FROM nodes n WHERE n.name = 'n' || i));
			PERFORM dblink_exec('m' || i, 'BEGIN');
			greetings[i] := ask('m' || i, 'rdma_internal.exchange_greet()');
		END LOOP;
		FOR g IN 1 .. 2 LOOP
			groups[g] := kinds_make(3, greetings, greetings, 2, 65536);
		END LOOP;
		FOR i IN 1 .. 2 LOOP
			filled := ask('m' || i, format(CASE i WHEN 1 THEN 'rdma_internal.exchange_listen(0, %L)' ELSE 'kinds_listen_all(%L, 1)' END, groups))::bytea[];
			FOR g IN 1 .. 2 LOOP
				groups[g] := kinds_merge(groups[g], filled[g]);
			END LOOP;
		END LOOP;
		PERFORM ask('m1', format('rdma_internal.exchange_open(0, %L)', groups));
		PERFORM dblink_send_query('m2', format('SELECT kinds_lie(%L, 1, %s, %L, %s)', groups, number, messages, part));
		answer := (SELECT r FROM dblink('m1', sql, false) AS t(r text));
		IF answer IS NULL THEN
			answer := 'ERROR: ' || dblink_error_message('m1');
		ELSE
			answer := answer || ' ' || ask('m1', '(SELECT sum(rows_filtered) FROM rdma_internal.exchange_stats())');
			PERFORM r FROM dblink_get_result('m2') AS t(r text);
		END IF;
		PERFORM dblink_disconnect('m1'), dblink_disconnect('m2');
		RETURN answer;
	END $$;
});
sub lie
{
	my ($number, $part, @messages) = @_;
	my $sql = 'SELECT count(*) FROM ' . ex(1, 'a', by(1)) . ' JOIN ' . ex(2, 'b', by(1) . ' filter=1') . ' ON a.id = b.id';
	my ($status, $out, $err) = $coord->psql('postgres', "SELECT lie(\$s\$$sql\$s\$, $number, ARRAY[" . join(', ', map { "'\\x" . unpack('H*', $_) . "'" } @messages) . "]::bytea[], $part)");

	return "$out$err";
}
sub filter_of { my ($count, @words) = @_; return pack('VV', 0x544c4946, $count) . pack('Q<*', @words); }
my $its_own = $node{n1}->safe_psql('postgres', 'SELECT count(*) FROM a JOIN b USING (id) WHERE rdma.hash_node(2, id) = 0');
my $few = $node{n1}->safe_psql('postgres', 'SELECT count(*) FROM b WHERE rdma.hash_node(2, id) = 0 AND id NOT IN (SELECT id FROM a)');
my $theirs = $node{n1}->safe_psql('postgres', 'SELECT count(*) FROM b WHERE rdma.hash_node(2, id) = 1');
my %honest = ('no filter' => [], 'one that says nothing' => [ filter_of(0) ], 'one that has all' => [ filter_of(64, (~0) x 64) ]);
foreach my $what (sort keys %honest)
{
	my ($rows, $filtered) = split / /, lie(2, 65536, @{ $honest{$what} });

	is($rows, $its_own, "$what: n1 has its rows");
	cmp_ok($filtered, '<=', $few, 'and sends all that n2 has a right to');
}
# a filter that comes later than rows are sent is used from then on, so a busy machine may need another try
foreach my $part (65536, 100, 7)
{
	my ($rows, $filtered);

	foreach my $try (1 .. 20)
	{
		($rows, $filtered) = split / /, lie(2, $part, filter_of(64, (0) x 64));
		last if $rows ne $its_own || $filtered >= $theirs;
		note("the filter came after " . ($theirs - $filtered) . " rows");
	}
	is($rows, $its_own, "nothing has partners on n2, in parts of $part bytes: n1 has its rows");
	cmp_ok($filtered, '>=', $theirs, 'and sends none');
}
my $damaged = qr/node 1 sent a damaged filter for exchange 2/;
my $no_batch = qr/damaged column batch/;
my %lies = (
	'words that are missing' => [ $damaged, filter_of(64, (0) x 63) ],
	'all words missing' => [ $damaged, filter_of(64) ],
	'a word too many' => [ $damaged, filter_of(64, (0) x 65) ],
	'a byte too many' => [ $damaged, filter_of(64, (0) x 64) . 'x' ],
	'a filter that says nothing, and then something' => [ $damaged, filter_of(0, 1) ],
	'too few words' => [ $damaged, filter_of(32, (0) x 32) ],
	'no power of two' => [ $damaged, filter_of(96, (0) x 96) ],
	'too many words' => [ $damaged, filter_of(262144, (0) x 262144) ],
	'as many words as can be told' => [ $damaged, filter_of(0x80000000) ],
	'a length that overflows' => [ $damaged, filter_of(0x20000001, 0) ],
	'two filters' => [ $damaged, filter_of(64, (0) x 64), filter_of(64, (0) x 64) ],
	'two that say nothing' => [ $damaged, filter_of(0), filter_of(0) ],
	'half a header' => [ $no_batch, substr(filter_of(64), 0, 4) ],
	'another magic' => [ $no_batch, pack('VV', 0x544c4947, 64) . pack('Q<*', (0) x 64) ]);
foreach my $what (sort keys %lies)
{
	my ($error, @messages) = @{ $lies{$what} };

	like(lie(2, 65536, @messages), $error, "$what: refused");
}
like(lie(1, 65536, filter_of(64, (0) x 64)), $no_batch, 'a filter of what is not filtered: refused');
ok(exchange_idle(@all), 'no flow is left after that');
is($node{n1}->safe_psql('postgres', 'SELECT 1'), '1', 'and n1 runs');

done_testing();
