# rdma.create_restore_point: clusters that are recovered to it have each transaction on all or on none, whatever it was doing
# then. Base backups, transfers between two nodes and the coordinator, a point, more transfers, and recovery of all three at
# other ports. Steps are held as in 092_commit: a deferred trigger on a node waits for an advisory lock (its PREPARE), a
# synchronous standby that does not exist holds a local commit after its flush until it is cancelled, and a proxy loses
# what is said to a node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "wal_level = replica\nmax_wal_senders = 4\n";
my ($n1, $n2) = map { rdma_node($_, conf => $conf, no_start => 1) } qw(n1 n2);
my $coord = rdma_node('coord', conf => $conf . "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\nrdma_fdw.resolve = off\n", no_start => 1);
my @all = ($coord, $n1, $n2);

foreach my $node (@all)
{
	$node->enable_archiving;
	$node->start;
}
my $proxy = Proxy->start({ n2 => $n2->port });

# a2 leads to n2, too, by the proxy. It is the first by name, so restore points are made by it.
rdma_connect($coord, n1 => $n1, n2 => $n2, a2 => $n2);
$coord->safe_psql('postgres', "ALTER SERVER a2 OPTIONS (SET port '" . $proxy->port('n2') . "')");
my $tables = q{
	CREATE TABLE acc (k int PRIMARY KEY, v int);
	INSERT INTO acc SELECT g, 100 FROM generate_series(1, 20) g;
	CREATE TABLE seen (k int PRIMARY KEY);
};
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', $tables . q{
		CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF new.k >= 100 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait_here AFTER INSERT ON seen DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_here();
	});
}
$coord->safe_psql('postgres', "$tables CREATE SCHEMA n1; CREATE SCHEMA n2; CREATE SCHEMA a2;
	IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO n1; IMPORT FOREIGN SCHEMA public FROM SERVER n2 INTO n2; IMPORT FOREIGN SCHEMA public FROM SERVER a2 INTO a2");

sub everywhere { my ($k, $second) = @_; $second //= 'n2'; return "BEGIN; INSERT INTO seen VALUES ($k); INSERT INTO n1.seen VALUES ($k); INSERT INTO $second.seen VALUES ($k); COMMIT"; }

sub found { my ($k, @nodes) = @_; return join(' ', map { $_->safe_psql('postgres', "SELECT count(*) FROM seen WHERE k = $k") } @nodes); }

sub prepared { my ($node, $count) = @_; return rdma_wait($node, "SELECT count(*) = $count FROM pg_prepared_xacts WHERE gid NOT IN (SELECT gid FROM known)", 120); }

sub fails
{
	my ($sql, $error, $what) = @_;
	my ($status, $out, $err) = $coord->psql('postgres', $sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	like($err, $error, $what);
	return;
}

my $point = 'SELECT server_name, lsn IS NOT NULL FROM rdma.create_restore_point';

# ---- what is refused, before anything is made
$n2->stop;
fails("$point('early')", qr/could not connect to server "a2"/, 'a node that cannot be reached is named');
$n2->start;
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma.restore_points'), 0, 'and nothing is made on others');
fails("BEGIN; SELECT * FROM n1.acc; $point('early'); COMMIT", qr/cannot run in a transaction that has used server "n1"/, 'nodes must not be in use');
fails("$point('" . 'x' x 64 . "')", qr/1 to 63 bytes/, 'a name has a length');
fails("CREATE ROLE app; SET ROLE app; $point('early')", qr/permission denied for function create_restore_point/, 'not everybody may');
$coord->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION rdma.create_restore_point TO app; GRANT USAGE ON SCHEMA rdma TO app');
fails("SET ROLE app; $point('early')", qr/permission denied for foreign server a2/, 'who may needs the servers');
$coord->safe_psql('postgres', 'GRANT USAGE ON FOREIGN SERVER a2, n1, n2 TO app');
fails("SET ROLE app; $point('early')", qr/user "app" has no user mapping for server "a2"/, 'and mappings');
$coord->safe_psql('postgres', "CREATE USER MAPPING FOR app SERVER $_ OPTIONS (user 'app', password_required 'false')") foreach qw(a2 n1 n2);
$_->safe_psql('postgres', q{CREATE ROLE app LOGIN; SELECT rdma.grant_access('app', 'write')}) foreach ($n1, $n2);
fails("SET ROLE app; $point('early')", qr/cannot create a restore point on server "a2".*may not create.*GRANT EXECUTE/s, 'and rights on nodes');
$_->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO app; GRANT SELECT, INSERT, UPDATE ON rdma.restore_points TO app') foreach ($n1, $n2);
is($coord->safe_psql('postgres', "SET ROLE app; $point('early')"), "|t\na2|t\nn1|t\nn2|t", 'a row for this server and each other');
is($coord->safe_psql('postgres', q{SELECT count(DISTINCT lsn) FROM rdma.run_on('n1', 'SELECT lsn FROM rdma.restore_points') r(node, lsn)}), 1, 'the node knows');
fails("$point('early')", qr/"early" was created before.*another name/s, 'a name is used once');
is($_->safe_psql('postgres', q{SELECT count(*) FROM rdma.restore_points WHERE name = 'early' AND lsn > '0/0'}), 1, 'it is recorded on ' . $_->name) foreach @all;
like(slurp_file($_->logfile), qr/restore point "early" created/, 'and made on ' . $_->name) foreach @all;

# ---- base backups
$_->backup('base') foreach @all;
$_->safe_psql('postgres', 'CREATE TABLE known AS SELECT gid FROM pg_prepared_xacts') foreach ($n1, $n2);

# ---- transfers from now on: between n1, n2 and here; and commits on one node after the other
sub script
{
	my ($file, $line) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$file.sql";

	append_to_file($path, "SET application_name = 'bank';\n" . join('', map { $line->($_) . "\n" } 1 .. 20000));
	return $path;
}
srand(100);
my @where = ('acc', 'n1.acc', 'n2.acc');
my @scripts = map { my $own = $_; script("bank$own", sub {
	my ($from, $sum, $k) = (int(rand(3)), 1 + int(rand(9)), 2 + 6 * $own + int(rand(6)));
	my $to = ($from + 1 + int(rand(2))) % 3;
	return "BEGIN; UPDATE $where[$from] SET v = v - $sum WHERE k = $k; UPDATE $where[$to] SET v = v + $sum WHERE k = $k; COMMIT;"; }) } (0 .. 2);
push @scripts, script('ordered', sub { my ($i) = @_; return "UPDATE n1.acc SET v = $i WHERE k = 1; UPDATE n2.acc SET v = $i WHERE k = 1;"; });
$_->safe_psql('postgres', 'UPDATE acc SET v = 0 WHERE k = 1') foreach ($n1, $n2);
my @bank = map { my %job = (out => '', err => ''); $job{run} = IPC::Run::start([ 'psql', '-X', '-q', '-d', $coord->connstr('postgres'), '-f', $_ ],
	'<', '/dev/null', '>', \$job{out}, '2>', \$job{err}); \%job } @scripts;

sub some_commits
{
	my $before = $coord->safe_psql('postgres', 'SELECT commits FROM rdma.stat_gate');

	return rdma_wait($coord, "SELECT commits > $before + 40 FROM rdma.stat_gate", 180);
}
ok(some_commits(), 'transfers are under way');

# ---- one is in doubt: committed on n1, and prepared on n2
sub victim { my ($sql) = @_; return rdma_begin($coord, "SET application_name = 'victim'", $sql); }
sub victim_pid { return $coord->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'}); }
sub held_commit
{
	my ($sql) = @_;
	my $job = victim("SET synchronous_commit = on; $sql");

	ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'SyncRep'}, 120), 'a commit is held after its flush');
	return $job;
}
my $doubt = held_commit(everywhere(1, 'a2'));
my $pid = victim_pid();
$proxy->tell('n2', 'stall');
$coord->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
ok(rdma_wait($n1, 'SELECT count(*) = 1 FROM seen WHERE k = 1', 120), 'it commits on n1');
$coord->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
ok(rdma_outcome($doubt), 'and cannot on n2');
like($doubt->{err}, qr/server "a2" has not confirmed/, 'with a warning');
$proxy->tell('n2', 'cut');
is(found(1, @all), '1 1 0', 'it is in doubt');

# ---- another is prepared on n1, and preparing on n2
my $holder = $n2->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
my $undecided = rdma_begin($coord, everywhere(100));
ok(rdma_wait($n2, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 120), 'another one is not decided');
ok(rdma_wait($n1, q{SELECT count(*) > 0 FROM pg_prepared_xacts WHERE NOT EXISTS (SELECT FROM seen WHERE k = 100)}, 120), 'and prepared on n1');

# ---- a third is in its second phase: the point waits for its end. The connection is cut meanwhile: the point is not everywhere.
my $third = held_commit(everywhere(2));
my $cut = rdma_begin($coord, "$point('half')");
ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND mode = 'ShareLock' AND NOT granted}, 120), 'a point waits for a commit');
$proxy->tell('n2', 'cut');
$coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')');
rdma_outcome($_) foreach ($third, $cut);
like($cut->{err}, qr/"half" is not on all nodes.*Server "a2": .*Do not recover to it/s, 'a node is lost then, which is an error');
like(slurp_file($_->logfile), qr/restore point "half" created/, $_->name . ' has it') foreach ($coord, $n1);
unlike(slurp_file($n2->logfile), qr/restore point "half" created/, 'n2 has not');
fails("$point('half')", qr/"half" was created before.*Server "a2" has it/s, 'its name is used up');
$third = held_commit(everywhere(3));
my $good = rdma_begin($coord, "$point('good')");
ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND mode = 'ShareLock' AND NOT granted}, 120), 'the next one waits, too');
is(found(3, $n1, $n2), '0 0', 'for a commit that nobody sees');
$coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')');
rdma_outcome($_) foreach ($third, $good);
is($good->{out}, "|t\na2|t\nn1|t\nn2|t\n", 'and is made') or diag($good->{err});

# ---- life goes on
$holder->quit;
rdma_outcome($undecided);
is(found(100, @all), '1 1 1', 'what was not decided commits');
ok(some_commits(), 'transfers go on');
$coord->safe_psql('postgres', everywhere(4));
is($coord->safe_psql('postgres', "$point('later')"), "|t\na2|t\nn1|t\nn2|t", 'there are later points');
$coord->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bank'});
IPC::Run::finish($_->{run}) foreach @bank;
unlike($_->{err}, qr/ERROR(?!.*terminat)/, 'transfers had no other error') foreach @bank;

# ---- all are lost, but for backups and archives
foreach my $node (@all)
{
	my $file = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');

	ok(rdma_wait($node, "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver", 120), $node->name . ' is archived');
	$node->stop('immediate');
}
sub restored
{
	my ($from) = @_;
	my $node = PostgreSQL::Test::Cluster->new($from->name . '_restored');

	$node->init_from_backup($from, 'base', has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_name = 'good'\nrecovery_target_action = 'promote'\n");
	$node->start;
	ok(rdma_wait($node, 'SELECT NOT pg_is_in_recovery()', 120), $from->name . ' is recovered');
	return $node;
}
my ($r1, $r2) = map { restored($_) } ($n1, $n2);
my $rc = restored($coord);
my @restored = ($rc, $r1, $r2);

is(found(1, @restored), '1 1 0', 'what was in doubt is in doubt');
is(found(2, @restored), '1 1 1', 'what had committed is there');
is(found(3, @restored), '1 1 1', 'also what the point waited for');
is(found(100, @restored), '0 0 0', 'what was not decided is not');
is(found(4, @restored), '0 0 0', 'nor what came later');
is($r1->safe_psql('postgres', 'SELECT count(*) > 0 FROM pg_prepared_xacts'), 't', 'it is prepared on n1');

# the servers lead to the new places; then what was left is finished
$rc->safe_psql('postgres', "ALTER SERVER n1 OPTIONS (SET port '" . $r1->port . "'); ALTER SERVER n2 OPTIONS (SET port '" . $r2->port . "'); ALTER SERVER a2 OPTIONS (SET port '" . $r2->port . "')");
my $both = 'SELECT (SELECT count(*) FROM n1.seen WHERE k = 1), (SELECT count(*) FROM n2.seen WHERE k = 1)';
my $reader = rdma_begin($rc, $both);
$rc->adjust_conf('postgresql.conf', 'rdma_fdw.resolve', 'on');
$rc->reload;
ok(rdma_wait($rc, 'SELECT (SELECT count(*) FROM rdma.decisions) + (SELECT count(*) FROM rdma.transactions) = 0', 120), 'nothing stays in doubt')
  or diag($rc->safe_psql('postgres', 'SELECT * FROM rdma.transactions'));
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM pg_prepared_xacts', 120), 'nothing stays prepared on ' . $_->name) foreach ($r1, $r2);
rdma_outcome($reader);
is($reader->{out}, "1|1\n", 'who reads several nodes waits for that') or diag($reader->{err});
is(found(1, @restored), '1 1 1', 'what was in doubt is everywhere');
is(found(100, @restored), '0 0 0', 'what was not decided nowhere');
is($rc->safe_psql('postgres', 'SELECT (SELECT sum(v) FROM acc WHERE k > 1) + (SELECT sum(v) FROM n1.acc WHERE k > 1) + (SELECT sum(v) FROM n2.acc WHERE k > 1)'), 5700, 'the sum is right');
like($rc->safe_psql('postgres', 'SELECT (SELECT v FROM n1.acc WHERE k = 1) - (SELECT v FROM n2.acc WHERE k = 1)'), qr/^[01]$/, 'and one-node commits are there in their order');
cmp_ok($r2->safe_psql('postgres', 'SELECT v FROM acc WHERE k = 1'), '>', 0, 'of which there were some');
is($_->safe_psql('postgres', q{SELECT string_agg(name || (lsn > '0/0')::text, ' ' ORDER BY name) FROM rdma.restore_points WHERE name IN ('early', 'later')}), 'earlytrue', $_->name . ' knows the names that were used') foreach @restored;
fails_there("$point('early')", qr/was created before/, 'and they stay used');
is($rc->safe_psql('postgres', "$point('again')"), "|t\na2|t\nn1|t\nn2|t", 'another one can be made');

# What is recorded with the owner's rights is not looked up where the caller says
$rc->safe_psql('postgres', q{CREATE ROLE keeper LOGIN; CREATE SCHEMA trap AUTHORIZATION keeper; CREATE USER MAPPING FOR keeper SERVER n1; CREATE USER MAPPING FOR keeper SERVER n2;
CREATE USER MAPPING FOR keeper SERVER a2; GRANT USAGE ON FOREIGN SERVER n1, n2, a2 TO keeper;
ALTER USER MAPPING FOR keeper SERVER n1 OPTIONS (user 'postgres', password_required 'false'); ALTER USER MAPPING FOR keeper SERVER n2 OPTIONS (user 'postgres', password_required 'false');
ALTER USER MAPPING FOR keeper SERVER a2 OPTIONS (user 'postgres', password_required 'false');
GRANT EXECUTE ON FUNCTION rdma.create_restore_point(text), pg_create_restore_point(text) TO keeper});
my ($status, $out, $err) = $rc->psql('postgres', q{
CREATE FUNCTION trap.same(text, text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN
		ALTER ROLE keeper SUPERUSER;
	END IF;
	RETURN pg_catalog.texteq($1, $2);
END $$;
CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.same);
SET search_path = trap, pg_catalog;
SELECT count(*) FROM rdma.create_restore_point('kept')}, extra_params => [ '-U', 'keeper' ]);
is($out, 4, 'a role that was given the function makes a point') or diag($err);
is($rc->safe_psql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'keeper'}), 'f', 'and has no more rights than before');

sub fails_there { my ($sql, $error, $what) = @_; my ($status, $out, $err) = $rc->psql('postgres', $sql); like($err, $error, $what); return; }

unlike(slurp_file($_->logfile), qr/PANIC|signal 11|signal 6/, $_->name . ' did not crash by itself') foreach (@all, @restored);
$proxy->end;
$_->stop foreach @restored;
done_testing();
