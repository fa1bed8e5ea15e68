# Upgrades: ALTER EXTENSION takes a database from 1.0 to the default version, with views that depend on what changes, and ends
# with what CREATE EXTENSION makes; nodes whose databases are of either version work together while one after the other is upgraded
# and restarted.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();
my $default = $coord->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'rdma_fdw'});

# All members with their definitions, owners' rights and comments. Numbers of objects differ between databases.
my $members = q{
	SELECT m.identity, obj_description(d.objid, d.classid::regclass::name), CASE d.classid
		WHEN 'pg_proc'::regclass THEN (SELECT pg_get_functiondef(oid) || coalesce(proacl::text, '') FROM pg_proc WHERE oid = d.objid AND prokind <> 'a')
		WHEN 'pg_class'::regclass THEN (SELECT coalesce(pg_get_viewdef(c.oid), '') || coalesce(c.relacl::text, '') || (SELECT string_agg(concat_ws(' ', attname,
			format_type(atttypid, atttypmod), attacl::text, col_description(c.oid, attnum)), E'\n' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid)
			FROM pg_class c WHERE c.oid = d.objid)
		WHEN 'pg_namespace'::regclass THEN (SELECT nspacl::text FROM pg_namespace WHERE oid = d.objid)
		END
	FROM pg_depend d, pg_identify_object(d.classid, d.objid, 0) m
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rdma_fdw')
	ORDER BY m.identity COLLATE "C"};
my $fresh = $coord->safe_psql('postgres', $members);

cmp_ok(scalar(split /\n/, $fresh), '>', 100, 'the extension has members');

# One database of 1.0
$coord->safe_psql('postgres', 'CREATE DATABASE older');
$coord->safe_psql('older', q{
	CREATE EXTENSION rdma_fdw VERSION '1.0';
	CREATE VIEW mine AS SELECT * FROM rdma.connections;
	GRANT SELECT ON rdma.connections TO pg_monitor;
	GRANT EXECUTE ON FUNCTION rdma.hello(bytea) TO pg_monitor;
});
isnt($coord->safe_psql('older', $members), $fresh, '1.0 has other members');
$coord->safe_psql('older', 'ALTER EXTENSION rdma_fdw UPDATE');
is($coord->safe_psql('older', q{SELECT extversion FROM pg_extension WHERE extname = 'rdma_fdw'}), $default, 'it is of the default version');
is($coord->safe_psql('older', 'SELECT server FROM mine'), '', 'a view of 1.0 keeps its names');
like($coord->safe_psql('older', q{SELECT relacl FROM pg_class WHERE oid = 'rdma.connections'::regclass}), qr/pg_monitor=r/, 'rights that were granted stay');
is($coord->safe_psql('older', q{SELECT has_function_privilege('pg_monitor', 'rdma.hello(bytea)', 'EXECUTE'), has_function_privilege('pg_monitor', 'rdma.store(bytea,text,text[],bytea)', 'EXECUTE')}),
	't|f', 'on functions, too; what everybody had goes');
$coord->safe_psql('older', 'REVOKE SELECT ON rdma.connections FROM pg_monitor; REVOKE EXECUTE ON FUNCTION rdma.hello(bytea) FROM pg_monitor');
is($coord->safe_psql('older', $members), $fresh, 'and its members are those of a new one');

# Nodes of 1.0, upgraded and restarted one at a time
my %rows = (n1 => $n1, n2 => $n2);
foreach my $name (sort keys %rows)
{
	$rows{$name}->safe_psql('postgres', q{
		DROP EXTENSION rdma_fdw; CREATE EXTENSION rdma_fdw VERSION '1.0';
		CREATE TABLE t (id int, x int); CREATE TABLE u (id int, x int);
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE t (id int, x int) SERVER nodes OPTIONS (distributed_by 'id');
	CREATE FOREIGN TABLE u (id int, x int) SERVER nodes OPTIONS (distributed_by 'id');
	INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;
	INSERT INTO u SELECT i, 20001 - i FROM generate_series(1, 20000) i;
});

# One session goes through it all; its statements end between restarts.
my $session = $coord->background_psql('postgres', on_error_stop => 0);
my $query = 'SELECT count(*), sum(t.id) FROM t JOIN u ON u.x = t.id;';

sub works
{
	my ($when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($session->query($query), '20000|200010000', "$when: a session that goes on");
	is($coord->safe_psql('postgres', $query), '20000|200010000', "$when: a new session");
}
works('nodes of 1.0');
foreach my $name (sort keys %rows)
{
	$rows{$name}->safe_psql('postgres', 'ALTER EXTENSION rdma_fdw UPDATE');
	works("$name is upgraded");
	$rows{$name}->restart;
	works("$name was restarted");
	is($coord->safe_psql('postgres', qq{SELECT status FROM rdma."check"('$name') WHERE item = 'remote extension'}), 'ok', "$name has the library's version");
}
$session->quit;
done_testing();
