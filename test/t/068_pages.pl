# Unchanged heap pages: which roles get them, independent of the reader's claims; what others may do to the table while pages are in
# flight; nothing stays pinned or open when either side is cancelled or ends.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $coord = rdma_node('coord');
my $data = rdma_node('data');
my $port = $data->port;

$data->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE EXTENSION pg_buffercache;
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	SELECT rdma.grant_access(r, 'read') FROM unnest('{app,other}'::regrole[]) r;
	GRANT app TO other;
	GRANT CREATE ON SCHEMA public TO app;
	CREATE TABLE t AS SELECT g AS a, g % 10 AS b, 'text of row ' || g AS c FROM generate_series(1, 5000) g;
	CREATE TABLE few_columns AS TABLE t;
	CREATE TABLE owned AS TABLE t;
	ALTER TABLE owned OWNER TO app;
	CREATE TABLE secured AS TABLE t;
	ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
	CREATE POLICY few ON secured USING (b < 5);
	CREATE TABLE bypassed AS TABLE t;
	ALTER TABLE bypassed ENABLE ROW LEVEL SECURITY, OWNER TO app;
	CREATE UNLOGGED TABLE unlogged AS TABLE t;
	CREATE TABLE parent (a int, b int, c text) PARTITION BY LIST (b);
	CREATE TABLE leaf PARTITION OF parent DEFAULT;
	INSERT INTO parent TABLE t;
	CREATE TABLE masked AS TABLE t;
	CREATE VIEW plain_view AS SELECT * FROM t;
	CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE b < 5;
	GRANT SELECT ON ALL TABLES IN SCHEMA public TO app, other;
	REVOKE SELECT ON few_columns FROM app;
	GRANT SELECT (a, b, c) ON few_columns TO app;
	VACUUM ANALYZE;
});
my @labelled = qw(t few_columns owned secured bypassed unlogged leaf masked);

sub server
{
	my ($name, $user, $options) = @_;
	$coord->safe_psql('postgres', qq{
		CREATE EXTENSION IF NOT EXISTS rdma_fdw;
		CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres', inline_limit '0' $options);
		CREATE USER MAPPING FOR postgres SERVER $name OPTIONS (user '$user');
		CREATE SCHEMA $name;
	} . join('', map { "CREATE FOREIGN TABLE $name.$_ (a int, b int, c text) SERVER $name OPTIONS (schema_name 'public', table_name '$_');" }
		(@labelled, 'parent', 'plain_view', 'barrier')));
	return;
}
server('app', 'app', '');
server('super', 'postgres', '');
server('switched', 'other', ", options '-c role=app'");
server('forced', 'app', ", options '-c rdma_fdw.allow_page_shipping=on'");

# "pages" or "columns", and how many rows
sub how
{
	my ($table, $columns) = @_;
	my $plan = $coord->safe_psql('postgres', 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT ' . ($columns // '*') . " FROM $table");
	my ($rows) = $plan =~ /Pulled: rows=(\d+)/;
	return ($plan =~ /Pages: rows=(\d+)/ && $1 > 0 ? 'pages' : 'columns') . " $rows";
}

# ---- two words of the administrator
is(how('app.t'), 'columns 5000', 'nothing is allowed at first');
$data->safe_psql('postgres', join('', map { "SECURITY LABEL FOR rdma_fdw ON TABLE $_ IS 'page_shipping';" } @labelled));
is(how('app.t'), 'columns 5000', 'a label alone does not do');
is(how('super.t'), 'columns 5000', 'nor for a superuser');
my ($status, undef, $err) = $coord->psql('postgres', 'SELECT * FROM forced.t');
like($err, qr/permission denied to set parameter "rdma_fdw.allow_page_shipping"/, 'the role cannot allow itself');
foreach my $sql ("SET rdma_fdw.allow_page_shipping = on", "SECURITY LABEL FOR rdma_fdw ON TABLE owned IS 'page_shipping'",
	"ALTER ROLE app SET rdma_fdw.allow_page_shipping = on", "SELECT set_config('rdma_fdw.allow_page_shipping', 'on', false)")
{
	($status, undef, $err) = $data->psql('postgres', "SET ROLE app; $sql");
	like($err, qr/permission denied|must be superuser|Only a superuser/, "refused to the role: $sql");
}
$data->safe_psql('postgres', 'ALTER ROLE app SET rdma_fdw.allow_page_shipping = on; ALTER ROLE other SET rdma_fdw.allow_page_shipping = on');
is(how('app.t'), 'pages 5000', 'both together do');
is(how('app.leaf'), 'pages 5000', 'so with a partition itself');
is(how('app.owned'), 'pages 5000', 'and with a table of its own');
is(how('super.t'), 'columns 5000', 'another role is another matter');

# ---- what stands against it
is(how('app.few_columns'), 'columns 5000', 'privileges on columns');
is(how('app.few_columns', 'a'), 'columns 5000', 'also for one of them');
is(how('app.secured'), 'columns 2500', 'row security');
is(how('app.bypassed'), 'columns 5000', 'row security that does not hold for the role');
is(how('app.unlogged'), 'columns 5000', 'an unlogged table');
is(how('app.parent'), 'columns 5000', 'a partition read through its parent');
is(how('app.plain_view'), 'columns 5000', 'a view');
is(how('app.barrier'), 'columns 2500', 'a security barrier');
is(how('switched.t'), 'columns 5000', 'a role that was switched to');
is(how('app.masked'), 'pages 5000', 'without a label of anybody else');
$data->safe_psql('postgres', q{SET allow_system_table_mods = on; INSERT INTO pg_seclabel VALUES ('masked'::regclass, 'pg_class'::regclass, 3, 'mask', 'MASKED')});
is(how('app.masked'), 'columns 5000', 'a label of somebody else on a column');
$data->safe_psql('postgres', "SECURITY LABEL FOR rdma_fdw ON TABLE t IS NULL");
is(how('app.t'), 'columns 5000', 'the label was taken back');
$data->safe_psql('postgres', 'SET ROLE app; SECURITY LABEL FOR rdma_fdw ON TABLE owned IS NULL');
is(how('app.owned'), 'columns 5000', 'by the owner, too');
$data->safe_psql('postgres', "DROP TABLE leaf");
is($data->safe_psql('postgres', "SELECT count(*) FROM pg_seclabel l WHERE provider = 'rdma_fdw' AND NOT EXISTS (SELECT FROM pg_class WHERE oid = objoid)"), '0', 'a table takes its label along');

# ---- the table is altered, emptied and vacuumed, and readers and senders end, while pages are in flight
$data->safe_psql('postgres', q{
	CREATE TABLE big AS SELECT g AS a, g % 10 AS b, repeat('x', 200) AS c FROM generate_series(1, 60000) g;
	GRANT SELECT ON big TO app;
	SECURITY LABEL FOR rdma_fdw ON TABLE big IS 'page_shipping';
	VACUUM ANALYZE big;
});
$coord->safe_psql('postgres', "CREATE FOREIGN TABLE app.big (a int, b int, c text) SERVER app OPTIONS (schema_name 'public')");
my $all = 'SELECT count(*), sum(a), sum(b), sum(length(c)) FROM app.big WHERE random() >= 0';
my $expected = '60000|1800030000|270000|12000000';
like(how('app.big'), qr/^pages/, 'a larger table');
my $pinned = q{SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0 AND relfilenode = pg_relation_filenode('big') AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())};
my $unpinned = $pinned =~ s/count\(\*\)/count(*) = 0/r;
my $waits = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active' AND wait_event_type = 'Extension'};

# ---- from where they are
sub from_pages { return $data->safe_psql('postgres', 'SELECT sum(from_pages_bytes) FROM rdma.stat_lanes'); }

# how many bytes more left shared buffers without a copy, once the engine has the setting
sub uncopied
{
	my ($setting, $wanted) = @_;
	my ($some, $end) = (0, time() + 60);

	$data->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.register_shared_buffers = $setting; SELECT pg_reload_conf()");
	do
	{
		my $before = from_pages();
		$coord->safe_psql('postgres', $all);
		$some = from_pages() - $before;
	} while (($some > 0) != $wanted && time() < $end);
	return $some;
}
is($coord->safe_psql('postgres', $all), $expected, 'its rows');
cmp_ok(uncopied('on', 1), '>', 1_000_000, 'pages leave from shared buffers');
is($data->safe_psql('postgres', "SELECT DISTINCT shared_buffers FROM rdma.stat_peers WHERE state = 'connected'"), 'registered', 'which are registered');
is(uncopied('off', 0), '0', 'or they are copied');
is($data->safe_psql('postgres', "SELECT DISTINCT shared_buffers FROM rdma.stat_peers WHERE state = 'connected'"), 'rdma_fdw.register_shared_buffers is off', 'and why');
is($coord->safe_psql('postgres', $all), $expected, 'with the same rows');
cmp_ok(uncopied('on', 1), '>', 1_000_000, 'and back');
is($data->safe_psql('postgres', "SELECT DISTINCT shared_buffers FROM rdma.stat_peers WHERE state = 'connected'"), 'registered', 'which are registered still');

sub stuck
{
	my $job = rdma_begin($coord, 'BEGIN; DECLARE c CURSOR FOR SELECT * FROM app.big WHERE random() >= 0; FETCH 1 FROM c; SELECT pg_sleep(100)');
	ok(rdma_wait($data, $waits, 60), 'the sender waits for its reader');
	return $job;
}
foreach my $end ("pg_cancel_backend", "pg_terminate_backend")
{
	my $job = stuck();
	ok(rdma_wait($data, $unpinned, 60), 'no page stays pinned meanwhile');
	foreach my $sql ('TRUNCATE big', 'ALTER TABLE big DROP COLUMN b')
	{
		($status, undef, $err) = $data->psql('postgres', "SET lock_timeout = '100ms'; $sql");
		like($err, qr/lock timeout/, "it is locked: $sql");
	}
	is($data->psql('postgres', "SET statement_timeout = '60s'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) big"), 0, 'VACUUM gets all its locks');
	$coord->safe_psql('postgres', "SELECT $end(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()");
	ok(rdma_outcome($job), "the reader ends by $end");
	ok(rdma_wait($data, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active')", 60), 'so does the sender');
	is($data->safe_psql('postgres', $pinned), '0', 'and nothing is pinned');
	rdma_healthy($coord, $all, $expected, "after the reader's $end");

	$job = stuck();
	$data->safe_psql('postgres', "SELECT $end(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active'");
	ok(rdma_wait($data, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active')", 60), "the sender ends by $end");
	is($data->safe_psql('postgres', $pinned), '0', 'with nothing pinned');
	$coord->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()");
	ok(rdma_outcome($job), 'its reader, too');
	rdma_healthy($coord, $all, $expected, "after the sender's $end");
}

# ---- ends of all kinds while pages are being sent
my $sender_gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active')";
my $freeze = "SET statement_timeout = '60s'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) big";
my $pulls = "DO \$\$ BEGIN FOR i IN 1 .. 100000 LOOP PERFORM sum(a), sum(length(c)) FROM app.big WHERE random() >= 0; END LOOP; END \$\$";

# Pulls without end, and the reader's engine stopped with pages on their way to it: over TCP it has to say that they came.
sub on_their_way
{
	my $engine = rdma_engine_pid($coord);
	my $job = rdma_begin($coord, $pulls);

	for (1 .. 40)
	{
		usleep(20_000 + rand(50_000));
		kill 'STOP', $engine;
		usleep(100_000);
		return ($job, $engine) if $data->safe_psql('postgres', $pinned) > 0;
		kill 'CONT', $engine;
	}
	note('no page was on its way whenever the engine was stopped');
	kill 'STOP', $engine;
	return ($job, $engine);
}

$coord->append_conf('postgresql.conf', "rdma_fdw.provider = tcp\n");
$coord->restart;
$coord->psql('postgres', "SET statement_timeout = '400ms'; $pulls");
ok(rdma_wait($data, $sender_gone, 60) && rdma_wait($data, $unpinned, 60), 'a reader that runs out of time leaves nothing pinned');
is($data->psql('postgres', $freeze), 0, 'and VACUUM gets its locks');
foreach my $end ("pg_cancel_backend", "pg_terminate_backend")
{
	my ($job, $engine) = on_their_way();
	my $before = $data->safe_psql('postgres', $pinned);

	$data->safe_psql('postgres', "SELECT $end(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active'");
	usleep(300_000);
	is($data->safe_psql('postgres', $pinned) > 0, $before > 0, "what is on its way stays pinned after the sender's $end");
	kill 'CONT', $engine;
	ok(rdma_wait($data, $sender_gone, 60) && rdma_wait($data, $unpinned, 60), 'and not for longer');
	is($data->psql('postgres', $freeze), 0, 'VACUUM gets its locks');
	$coord->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO%' AND pid <> pg_backend_pid()");
	ok(rdma_outcome($job), 'the reader ends');
}
{
	my ($job, $engine);

	$data->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.peer_timeout = '2s'; SELECT pg_reload_conf()");
	($job, $engine) = on_their_way();
	$data->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND state = 'active'");
	ok(rdma_wait($data, $sender_gone, 60) && rdma_wait($data, $unpinned, 60), 'a reader that does not answer any more is given up');
	kill 'CONT', $engine;
	$coord->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO%' AND pid <> pg_backend_pid()");
	ok(rdma_outcome($job), 'and hears of it');
	$data->safe_psql('postgres', "ALTER SYSTEM RESET rdma_fdw.peer_timeout; SELECT pg_reload_conf()");
}
{
	my $job = rdma_begin($coord, $pulls);

	ok(rdma_wait($data, 'SELECT sum(from_pages) > 0 FROM rdma.stat_lanes', 60), 'pages are sent');
	kill 'KILL', rdma_engine_pid($data);
	ok(rdma_outcome($job), "the sender's engine is killed");
	rdma_healthy($coord, $all, $expected, "after the sender's engine was killed");
	is($data->safe_psql('postgres', $pinned), '0', 'nothing is pinned');
}
$data->safe_psql('postgres', "ALTER TABLE big DROP COLUMN b; ALTER TABLE big ADD COLUMN b int DEFAULT 3, ADD COLUMN d text DEFAULT 'later'");
is($coord->safe_psql('postgres', $all), '60000|1800030000|180000|12000000', 'the table was altered between two statements');
like(how('app.big'), qr/^pages/, 'and still comes in pages');
$data->safe_psql('postgres', 'DELETE FROM big WHERE a > 100');
is($coord->safe_psql('postgres', $all), '100|5050|300|20000', 'pages of dead rows');
$data->safe_psql('postgres', 'TRUNCATE big');
is($coord->safe_psql('postgres', $all), '0|||', 'it was emptied');
done_testing();
