# What a newcomer gets wrong: no preload, remote down, wrong password, remote without the extension, another wire version. Each is an
# error that says what to do.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $coord = rdma_node('coord', preload => 0);
my $n1 = rdma_node('n1', preload => 0, auth => 'scram');
$ENV{PGPASSWORD} = $RdmaCluster::PASSWORD;

$n1->safe_psql('postgres', "CREATE TABLE t AS SELECT 1 AS a; CREATE ROLE app LOGIN PASSWORD 'right'; GRANT SELECT ON t TO app");
$coord->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
pass('CREATE EXTENSION works without shared_preload_libraries');
my $port = $n1->port;
$coord->safe_psql('postgres', qq{
	CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER n1 OPTIONS (user 'app', password 'right');
	CREATE FOREIGN TABLE t (a int) SERVER n1;
});

sub fails
{
	my ($what, $error, $hint) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM t");
	like($err, $error, $what);
	like($err, $hint, "$what: the error says what to do") if $hint;
	return $err;
}

fails('not preloaded on the coordinator', qr/55000/, qr/restart.*shared_preload_libraries = 'rdma_fdw'/si);
$coord->append_conf('postgresql.conf', "shared_preload_libraries = 'rdma_fdw'\nrdma_fdw.buffer_memory = '32MB'\n");
$coord->restart;

fails('the remote lacks the extension', qr/n1/, qr/CREATE EXTENSION rdma_fdw/);
$n1->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
fails('the remote role may not serve readers', qr/42501/, qr/rdma\.grant_access\('app', 'read'\)/);
$n1->safe_psql('postgres', q{SELECT rdma.grant_access('app', 'read')});
fails('not preloaded on the data node', qr/55000/, qr/shared_preload_libraries = 'rdma_fdw'/);
$n1->append_conf('postgresql.conf', "shared_preload_libraries = 'rdma_fdw'\nrdma_fdw.buffer_memory = '32MB'\n");
$n1->restart;
is($coord->safe_psql('postgres', 'SELECT * FROM t'), '1', 'with both it works');

$coord->safe_psql('postgres', "ALTER USER MAPPING FOR CURRENT_USER SERVER n1 OPTIONS (SET password 'wrong')");
fails('wrong password', qr/08001.*n1.*password authentication failed/s);
$coord->safe_psql('postgres', "ALTER USER MAPPING FOR CURRENT_USER SERVER n1 OPTIONS (SET password 'right')");

# Another wire version: a function of the same name that answers as a later version would.
$n1->safe_psql('postgres', q{
	DROP EXTENSION rdma_fdw;
	CREATE SCHEMA rdma_internal; GRANT USAGE ON SCHEMA rdma_internal TO PUBLIC;
	CREATE FUNCTION rdma_internal.hello(request bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT '\x63000000'::bytea || decode(repeat('00', 400), 'hex') $$;
});
fails('another wire version', qr/n1.*version/s, qr/99.*Upgrade rdma_fdw on this server/s);
$n1->safe_psql('postgres', q{CREATE OR REPLACE FUNCTION rdma_internal.hello(request bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT '\x01'::bytea $$});
fails('a hello that is too short', qr/08P01|protocol/);
$n1->safe_psql('postgres', 'DROP SCHEMA rdma_internal CASCADE; CREATE EXTENSION rdma_fdw; SELECT rdma.grant_access(\'app\', \'read\')');
is($coord->safe_psql('postgres', 'SELECT * FROM t'), '1', 'and it works again');

# Permissions are the remote role's.
$n1->safe_psql('postgres', 'REVOKE SELECT ON t FROM app');
fails('no permission on the remote table', qr/42501/);
$n1->safe_psql('postgres', 'GRANT SELECT ON t TO app');

# A non-superuser must bring a password.
$coord->safe_psql('postgres', q{
	CREATE ROLE plain LOGIN; GRANT USAGE ON FOREIGN SERVER n1 TO plain; GRANT SELECT ON t TO plain;
	CREATE USER MAPPING FOR plain SERVER n1 OPTIONS (user 'app');
});
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nSET ROLE plain; SELECT * FROM t");
like($err, qr/2F003.*password/s, 'a non-superuser without a password is refused');
$coord->safe_psql('postgres', "ALTER USER MAPPING FOR plain SERVER n1 OPTIONS (ADD password 'right')");
is($coord->safe_psql('postgres', 'SET ROLE plain; SELECT * FROM t'), '1', 'with one it works');

# A server that takes connections and says nothing: the doctor reports that, and does not wait forever.
$coord->append_conf('postgresql.conf', "rdma_fdw.connect_timeout = '1s'\nrdma_fdw.peer_timeout = '1s'\n");
$coord->reload;
ok(rdma_wait($coord, "SELECT current_setting('rdma_fdw.peer_timeout') = '1s'"), 'the doctor has little time');
my $postmaster = (slurp_file($n1->data_dir . '/postmaster.pid') =~ /^(\d+)/)[0];
kill 'STOP', $postmaster;
my $rows = $coord->safe_psql('postgres', "SELECT item, status, value FROM rdma.\"check\"('n1')");
kill 'CONT', $postmaster;
like($rows, qr/^time limit\|info\|37 s$/m, 'rdma.check says how long it may take');
like($rows, qr/^database connection\|problem\|not known: there was no answer within 7 s$/m, 'and what could not be told in that time');
unlike($rows, qr/^remote extension/m, 'and stops there');

$n1->stop;
fails('remote down', qr/08001.*n1/s);
$coord->stop;
done_testing();
