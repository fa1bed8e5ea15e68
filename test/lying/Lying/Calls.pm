# Calls.pm: roles of a node, with every kind of access, that call each function and procedure of the extension with hostile values, as a
# coordinator in wrong hands would.
#
#   my $calls = Lying::Calls->new(port => $port);       # a cluster; databases away1 and away2 there are nodes of the roles' servers
#   my @functions = $calls->functions($role);           # that the role may call
#   my ($verdict, $what) = $calls->try($role, $function, $seed);       # right, error, or what went wrong
#   Lying::Calls::roles()
#
# Each role has a schema with functions, operators and tables of its own, whose code counts when another role runs it, in a sequence, which no
# rollback takes back; it comes first in the search_path. A role may break what it owns. Nothing that another role owns may change, and no code may run as another role.
package Lying::Calls;

use strict;
use warnings;
use Lying::Proxy;
use Time::HiRes qw(time);
use Wire;

use constant TIMEOUT => 2;      # seconds: statement_timeout
use constant PATIENCE => 30;    # more than that: deadlines of what ends a statement

# role => what it was given
my %access = (plain => [], reader => ['read'], writer => ['write'], exchanger => ['exchange'], everything => [qw(read write exchange)], owner => []);

sub roles { return sort keys %access; }

sub run
{
	my ($port, $sql, %args) = @_;
	my $wire = Wire->connect(port => $port, deadline => time() + 60, name => 'calls', %args) // die "calls: $Wire::why\n";
	my $r = $wire->query($sql, deadline => time() + 120);

	die 'calls: ' . ($r->{error} ? "$r->{error}{M} " . ($r->{error}{D} // '') : 'no answer') . " in $sql\n" if $r->{error} || $r->{lost} || $r->{late};
	$wire->close;
	return $r->{rows};
}

sub new
{
	my ($class, %args) = @_;
	my $port = $args{port};
	my $self = bless { port => $port }, $class;

	run($port, "CREATE ROLE $_ LOGIN") foreach roles();
	run($port, "CREATE DATABASE $_") foreach qw(away1 away2);
	foreach my $db (qw(postgres away1 away2))
	{
		run($port, 'CREATE EXTENSION rdma_fdw', db => $db);
		run($port, join('', map { "CREATE SCHEMA h_$_ AUTHORIZATION $_; " . (@{ $access{$_} } ? "SELECT rdma.grant_access('$_', " . join(', ', map { "'$_'" } @{ $access{$_} }) . ');' : '') } roles()), db => $db);
	}
	run($port, "ALTER DATABASE postgres OWNER TO owner; CREATE TABLE ledger (a int); CREATE TABLE secret (word text); INSERT INTO secret VALUES ('secret'); CREATE SEQUENCE lent;
		GRANT USAGE ON SEQUENCE lent TO PUBLIC; GRANT USAGE ON FOREIGN DATA WRAPPER rdma_fdw TO PUBLIC;
		CREATE SERVER theirs FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 'away1'); CREATE USER MAPPING FOR postgres SERVER theirs;
		CREATE SERVER their_set FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'theirs'); CREATE FOREIGN TABLE their_table (a int) SERVER theirs; SELECT rdma.enroll_nodes('their_set')");
	$self->own($_) foreach roles();
	$self->{watch} = Wire->connect(port => $port, deadline => time() + 30, name => 'watch') // die "calls: $Wire::why\n";
	$self->{before} = $self->state;
	return $self;
}

# The role's objects, as in the beginning.
sub own
{
	my ($self, $role) = @_;
	my $port = $self->{port};

	run($port, "SET client_min_messages = warning; DROP OWNED BY $role; DROP SERVER IF EXISTS a_$role, b_$role CASCADE; CREATE SCHEMA IF NOT EXISTS h_$role AUTHORIZATION $role; GRANT USAGE ON FOREIGN DATA WRAPPER rdma_fdw TO PUBLIC;"
		. (@{ $access{$role} } ? "SELECT rdma.grant_access('$role', " . join(', ', map { "'$_'" } @{ $access{$role} }) . ');' : '')
		. join('', map { my ($server, $db) = @$_; "CREATE SERVER ${server}_$role FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname '$db', sslmode 'disable', gssencmode 'disable');
			CREATE USER MAPPING FOR $role SERVER ${server}_$role OPTIONS (user '$role', password_required 'false'); ALTER SERVER ${server}_$role OWNER TO $role;" } [ a => 'away1' ], [ b => 'away2' ]));
	foreach my $db (qw(away1 away2))
	{
		run($port, "DROP SCHEMA IF EXISTS h_$role CASCADE; CREATE SCHEMA h_$role AUTHORIZATION $role", db => $db);
	}
	run($port, "SET search_path = h_$role, public; SET client_min_messages = warning;
		CREATE FUNCTION note() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN IF current_user OPERATOR(pg_catalog.<>) ''$role'' THEN PERFORM pg_catalog.nextval(''public.lent''); END IF; RETURN true; END';"
		. join('', map { my $type = $_; ("CREATE FUNCTION trap($type, $type) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM h_$role.note(); RETURN true; END';",
				map { "CREATE OPERATOR $_ (LEFTARG = $type, RIGHTARG = $type, FUNCTION = trap);" } qw(= < > <> <=)) } qw(int bigint text name oid pg_catalog.bool regclass))
		. "CREATE FUNCTION format(text, text) RETURNS text LANGUAGE sql AS 'SELECT h_$role.note()::text'; CREATE FUNCTION quote_ident(name) RETURNS text LANGUAGE sql AS 'SELECT h_$role.note()::text';
		CREATE FUNCTION unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT h_$role.note()::text'; CREATE FUNCTION lower(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM h_$role.note(); RETURN \$1; END';
		CREATE DOMAIN checked AS int CHECK (h_$role.trap(VALUE, VALUE));
		CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM h_$role.note(); RETURN NEW; END';
		CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x' CHECK (h_$role.trap(b, b)), c checked); INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2);
		CREATE TRIGGER fires BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION fired();
		CREATE INDEX ON t (h_$role.lower(b)); CREATE STATISTICS s ON (h_$role.lower(b)), a FROM t;
		CREATE TABLE plain_t (a int PRIMARY KEY, b text); INSERT INTO plain_t SELECT g, g FROM generate_series(1, 20) g; CREATE VIEW v AS SELECT * FROM t;
		CREATE SERVER many_$role FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'a_$role, b_$role'); CREATE SERVER one_$role FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'a_$role');
		CREATE TABLE moved (a int PRIMARY KEY, b text)", user => $role);
	# what each may do with it is its own business
	eval { run($port, "SET search_path = h_$role, public; INSERT INTO moved SELECT g, g FROM generate_series(1, 20) g; SELECT rdma.distribute_table('moved', 'many_$role', 'a')", user => $role); };
	return;
}

# What no role of these may change.
sub state
{
	my ($self) = @_;
	my $r = $self->{watch}->query("SELECT pg_catalog.md5(pg_catalog.concat_ws(E'\\n',
		(SELECT pg_catalog.string_agg(a::text, ',' ORDER BY oid) FROM pg_catalog.pg_authid a), (SELECT pg_catalog.string_agg(m::text, ',' ORDER BY m::text) FROM pg_catalog.pg_auth_members m),
		(SELECT pg_catalog.string_agg(word, ',') FROM public.secret), (SELECT pg_catalog.count(*) FROM public.ledger),
		(SELECT pg_catalog.string_agg(pg_catalog.concat(oid, relname, relacl, relkind, relnatts), ',' ORDER BY oid) FROM pg_catalog.pg_class WHERE relowner = 10 AND relnamespace NOT IN ('pg_toast'::pg_catalog.regnamespace) AND relpersistence <> 't'),
		(SELECT pg_catalog.string_agg(pg_catalog.concat(oid, proname, proacl, prosecdef, proconfig, prosrc), ',' ORDER BY oid) FROM pg_catalog.pg_proc WHERE proowner = 10 AND pronamespace <> 'pg_catalog'::pg_catalog.regnamespace),
		(SELECT pg_catalog.string_agg(f::text, ',' ORDER BY oid) FROM pg_catalog.pg_foreign_server f WHERE srvowner = 10), (SELECT pg_catalog.string_agg(u::text, ',' ORDER BY u.oid) FROM pg_catalog.pg_user_mapping u JOIN pg_catalog.pg_foreign_server s ON s.oid = u.umserver WHERE s.srvowner = 10),
		(SELECT pg_catalog.string_agg(p::text, ',' ORDER BY server) FROM rdma.placement p WHERE server = 'their_set'), (SELECT pg_catalog.string_agg(d::text, ',') FROM pg_catalog.pg_db_role_setting d), (SELECT pg_catalog.count(*) FROM pg_catalog.pg_largeobject_metadata))),
		(SELECT is_called FROM public.lent),
		pg_catalog.md5(pg_catalog.concat_ws(';', (SELECT pg_catalog.string_agg(pg_catalog.concat(oid, relacl), ',' ORDER BY oid) FROM pg_catalog.pg_class WHERE relowner <> 10 AND relkind <> 't'),
			(SELECT pg_catalog.string_agg(f::text, ',' ORDER BY oid) FROM pg_catalog.pg_foreign_server f WHERE srvowner <> 10), (SELECT pg_catalog.string_agg(p::text, ',' ORDER BY server) FROM rdma.placement p)))", deadline => time() + 60);
	die "calls: the server does not answer: " . ($r->{error} ? $r->{error}{M} : 'lost') . "\n" if $r->{error} || $r->{lost} || $r->{late};
	return { md5 => $r->{rows}[0][0], lent => $r->{rows}[0][1] eq 't', theirs => $r->{rows}[0][2] };
}

# ---------- functions and values ----------

sub functions
{
	my ($self, $role) = @_;
	return map { { name => $_->[0], kind => $_->[1], types => [ split / /, $_->[2] ], defaults => $_->[3], record => $_->[4] eq 't', set => $_->[5] eq 't', variadic => $_->[6] eq 't', schema => $_->[7] } }
	  @{ run($self->{port}, "SELECT p.proname, p.prokind, (SELECT coalesce(string_agg(replace(format_type(t, NULL), ' ', '_'), ' ' ORDER BY n), '') FROM unnest(p.proargtypes) WITH ORDINALITY u(t, n)), p.pronargdefaults, p.prorettype = 'record'::regtype AND p.proallargtypes IS NULL, p.proretset, p.provariadic <> 0, p.pronamespace::regnamespace
		FROM pg_proc p WHERE p.pronamespace IN ('rdma'::regnamespace, 'rdma_internal'::regnamespace) AND has_function_privilege('$role', p.oid, 'EXECUTE') AND NOT 'internal'::regtype = ANY (p.proargtypes) ORDER BY p.oid::regprocedure::text") };
}

my @texts = map { s/\0//gr } Lying::Proxy::texts();
my @numbers = qw(0 1 -1 2 3 7 100 32767 2147483647 -2147483648 4294967295 9223372036854775807 -9223372036854775808);

sub one_of { return $_[ rand @_ ]; }
sub quoted { return "'" . ($_[0] =~ s/'/''/gr) . "'"; }

sub hostile
{
	my ($role, $type) = @_;
	return 'NULL' if rand() < 0.08;
	return one_of('{}', '{NULL}', '{{1,2},{3,4}}', '[5:6]={1,2}', '{1}', '{{{1}}}', '{' . join(',', ('1') x 3000) . '}', "{a_$role,b_$role}", "{h_$role.t,h_$role.moved}", '{a}', '{public.secret}', '{many_' . $role . '}', '{"x); DROP TABLE ledger; --"}', '{-1,99999}') if $type =~ /\[\]$/;
	return one_of(@numbers, rand() < 0.5 ? int(rand(20)) : ()) if $type =~ /^(?:integer|bigint|smallint|oid|xid8?|real|double_precision|numeric)$/;
	return one_of('t', 'f') if $type eq 'boolean';
	return one_of("h_$role.t", "h_$role.moved", "h_$role.plain_t", "h_$role.v", 'public.secret', 'public.ledger', 'public.their_table', 'pg_catalog.pg_authid', 'rdma.placement', 'rdma.stat_engine', '0', '4294967295') if $type eq 'regclass';
	return one_of($role, 'postgres', '0', 'owner', '"x""; --"') if $type eq 'regrole';
	return one_of('pg_catalog', "h_$role", 'rdma', 'rdma_internal', '0') if $type eq 'regnamespace';
	return one_of('integer', "h_$role.checked", 'internal', 'record', '0') if $type eq 'regtype';
	return one_of('(0,1)', '(0,0)', '(4294967295,65535)', '(1,1)') if $type eq 'tid';
	return one_of('{}', '[]', 'null', '1', '"x"', '[[1,2],[3]]', '{"schema":"public","name":"secret","columns":[]}', '[' x 500 . ']' x 500, '{"a":{"b":[null]}}') if $type =~ /^jsonb?$/;
	return one_of('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff') if $type eq 'uuid';
	return one_of('-1 day', '0', '100000 years', '1 ms') if $type eq 'interval';
	return one_of('-infinity', 'infinity', '2000-01-01') if $type =~ /^time/;
	return one_of('0/0', 'FFFFFFFF/FFFFFFFF') if $type eq 'pg_lsn';
	return '\\x' . join('', map { sprintf('%02x', rand() < 0.5 ? 0 : rand 256) } 1 .. one_of(0, 1, 4, 16, 24, 40, 56, 72, 192, 1000)) if $type eq 'bytea' && rand() < 0.5;
	return '\\x0' . one_of(1 .. 5) . '000000' . join('', map { one_of('00', 'ff', '01', '7f') } 1 .. one_of(52, 68, 188)) if $type eq 'bytea';
	return one_of("a_$role", "b_$role", "many_$role", "one_$role", 'theirs', 'their_set', "h_$role.t", "h_$role.moved", "h_$role", 't', 'moved', 'a', 'b', 'public.secret', 'public', 'secret', 'SELECT 1', 'SELECT * FROM secret', 'DROP TABLE ledger', "SELECT a, b FROM h_$role.moved",
		"SELECT h_$role.note()", "CREATE TABLE h_$role.made (a int CHECK (h_$role.trap(a, a)))", "CREATE INDEX ON h_$role.t (h_$role.lower(b))", "ALTER TABLE public.secret OWNER TO $role", "ALTER ROLE $role SUPERUSER", "COMMENT ON TABLE h_$role.t IS 'x'", 'read', 'all', 'update', 'skip locked',
		'number=0 keys=1 nodes=2', 'number=1 kind=hash consumers=1 producers=1') if rand() < 0.7;
	return one_of(@texts);
}

# Settings that a role may change, and what may be in them.
sub setting
{
	my ($self, $role) = @_;
	$self->{settings} //= [ map { $_->[0] } @{ run($self->{port}, "SELECT name FROM pg_settings WHERE name LIKE 'rdma\\_fdw.%' AND context = 'user' ORDER BY 1", user => 'plain') } ];
	my $name = rand() < 0.3 ? 'rdma_fdw.as_owner_of' : one_of(@{ $self->{settings} });
	my $value = $name =~ /as_owner_of/ ? one_of('public.secret', 'pg_catalog.pg_authid', "h_$role.t", 'rdma.placement', 'public.their_table', 'nothing', 'a.b.c', '"', '') : hostile($role, one_of(qw(text integer boolean)));
	# a server with assertions moves a list each time it grows: 100,000 elements take it minutes
	return 'SET ' . $name . ' = ' . quoted(substr($value, 0, 20_000));
}

sub call_of
{
	my ($role, $function) = @_;
	my @types = @{ $function->{types} };
	my $count = @types - int(rand($function->{defaults} + 1));
	my @values = map { my $type = $types[$_] =~ s/^any(?:element|nonarray|compatible)?$/text/r =~ s/^(?:anyarray|"any")$/text/r =~ s/_/ /gr; my $value = hostile($role, $types[$_]);
		($value eq 'NULL' ? 'NULL' : quoted($value)) . "::$type" } 0 .. $count - 1;
	$values[-1] = "VARIADIC $values[-1]" if $function->{variadic} && $count == @types;
	my $call = "$function->{schema}.\"$function->{name}\"(" . join(', ', @values) . ')';
	return "CALL $call" if $function->{kind} eq 'p';
	return "SELECT * FROM $call AS r(a " . one_of(qw(int text h_plain.checked)) . one_of('', ', b text') . ')' if $function->{record};
	return $function->{set} ? "SELECT * FROM $call LIMIT 50" : "SELECT $call";
}

sub try
{
	my ($self, $role, $function, $seed) = @_;
	my ($end, $told, @failed) = (time() + TIMEOUT + PATIENCE);

	srand($seed);
	my @setting = rand() < 0.3 ? $self->setting($role) : ();
	my $call = call_of($role, $function);
	my $wire = Wire->connect(port => $self->{port}, user => $role, deadline => $end, name => 'calls') // return ("no session: $Wire::why", $call);
	my $last = $function->{kind} ne 'p' && rand() < 0.8 ? 'ROLLBACK' : 'COMMIT';
	my $error;
	foreach my $sql ("SET search_path = h_$role, pg_catalog, public; SET statement_timeout = '" . TIMEOUT . "s'", @setting, $function->{kind} eq 'p' ? () : 'BEGIN', $call, $last, 'RESET statement_timeout; SELECT pg_catalog.concat(current_user, session_user, pg_catalog.current_setting(\'is_superuser\'))')
	{
		my $r = $wire->query($sql, deadline => $end);
		if ($r->{lost} || $r->{late}) { $wire->drop; return ($r->{lost} ? 'the session was lost' : 'no end', "$sql after @setting"); }
		$error = $r->{error} if $r->{error} && $sql eq $call;
		$told = $r->{rows}[0][0] if $sql =~ /^RESET/;
	}
	$wire->close;
	my $what = join('; ', @setting, $call) . ($error ? ": $error->{C} $error->{M}" : '');
	return ('another role is left', "$what: $told") if ($told // '') ne "$role${role}off";
	my $now = $self->state;
	return ('code of the role ran as another one', $what) if $now->{lent};
	return ('what others own has changed', $what) if $now->{md5} ne $self->{before}{md5};
	if ($now->{theirs} ne $self->{before}{theirs})
	{
		$self->own($role);
		$self->{before} = $self->state;
	}
	return ('an internal error', $what) if $error && $error->{C} eq 'XX000';
	return ($error ? 'error' : 'right', $what);
}

sub end { $_[0]{watch}->close; return; }

1;
