# Flows between several producers and several consumers (group.h): balance and repartition, over three nodes. The members are SQL functions of
# test/modules/flow_kinds; a function here forms the group over dblink, as a coordinator would. Every batch arrives once where it belongs, and the
# death of a member is an error at all others and leaves nothing behind.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 073_flow_kinds_pooled.pl runs all of this with other settings.
our $settings;
my %node = map { $_ => rdma_node($_, conf => $settings) } qw(n1 n2 n3);
my $coord = $node{n3};

foreach my $name (sort keys %node)
{
	$node{$name}->safe_psql('postgres', q{
		CREATE EXTENSION rdma_fdw;
		CREATE FUNCTION kinds_greet() RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_connect(text, bytea) RETURNS int AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_make(int, bytea[], bytea[], int, int) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_merge(bytea, bytea) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_extend(bytea, boolean, bytea) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_listen(bytea, int) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_open(bytea, int) RETURNS void AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_join(bytea) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_produce(int, int, bigint, bigint, int, boolean) RETURNS text AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_consume(bytea, int, bigint, bigint, int, bigint,
			OUT how text, OUT batches bigint, OUT sum bigint, OUT hash bigint, OUT per_producer bigint[])
			AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_exchange(bytea, int, bigint, int,
			OUT how text, OUT batches bigint, OUT sum bigint, OUT hash bigint, OUT per_producer bigint[])
			AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_expected(int, bigint) RETURNS bigint AS '$libdir/flow_kinds_test' LANGUAGE C;
	});
}

$coord->safe_psql('postgres', q{
	CREATE EXTENSION dblink;
	CREATE TABLE nodes (name text, connstr text);

	-- Run SQL in a member's session and give back its one value.
	CREATE FUNCTION ask(member text, sql text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (SELECT r FROM dblink(member, 'SELECT (' || sql || ')::text') AS t(r text));
	END $$;

	-- The engines of all nodes, each with each other and with itself.
	CREATE FUNCTION connect_nodes() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE a record; hello text;
	BEGIN
		FOR a IN SELECT * FROM nodes LOOP
			PERFORM dblink_connect('node_' || a.name, a.connstr);
		END LOOP;
		FOR a IN SELECT x.name AS one, y.name AS other FROM nodes x JOIN nodes y ON x.name <= y.name LOOP
			hello := ask('node_' || a.other, format('rdma_internal.hello(%L)', ask('node_' || a.one, 'kinds_greet()')));
			PERFORM ask('node_' || a.one, format('kinds_connect(%L, %L)', '127.0.0.1', hello));
		END LOOP;
		FOR a IN SELECT * FROM nodes LOOP
			PERFORM dblink_disconnect('node_' || a.name);
		END LOOP;
	END $$;

	CREATE FUNCTION begin_member(member text, node text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM dblink_connect(member, format('%s application_name=%s', (SELECT connstr FROM nodes WHERE name = node), member));
		PERFORM dblink_exec(member, 'BEGIN');
	END $$;

	CREATE FUNCTION greet(node text) RETURNS bytea LANGUAGE plpgsql AS $$
	BEGIN
		RETURN (SELECT r FROM dblink((SELECT connstr FROM nodes WHERE name = node), 'SELECT kinds_greet()') AS t(r bytea));
	END $$;

	-- What a member answered, or its error. It is over then.
	CREATE FUNCTION end_member(member text, OUT answer text, OUT error text) LANGUAGE plpgsql AS $$
	DECLARE one text;
	BEGIN
		FOR one IN SELECT r FROM dblink_get_result(member, false) AS t(r text) LOOP
			answer := one;
		END LOOP;
		error := nullif(dblink_error_message(member), 'OK');
		IF answer IS NOT NULL THEN
			error := NULL;
			PERFORM r FROM dblink_get_result(member, false) AS t(r text);
			PERFORM dblink_exec(member, 'COMMIT', false);
		ELSIF error IS NULL THEN
			error := 'neither an answer nor an error';
		END IF;
		PERFORM dblink_disconnect(member);
	END $$;

	-- producers, consumers: the nodes they run on; pauses in microseconds per batch.
	CREATE FUNCTION run(kind int, producers text[], consumers text[], batches bigint,
		stop_after bigint[] DEFAULT '{}', leave_after bigint[] DEFAULT '{}', pauses int[] DEFAULT '{}')
		RETURNS TABLE (member text, answer text, error text) LANGUAGE plpgsql AS $$
	DECLARE description bytea; p int := cardinality(producers); c int := cardinality(consumers); i int;
	BEGIN
		PERFORM connect_nodes();
		description := kinds_make(kind, (SELECT array_agg(greet(n) ORDER BY o) FROM unnest(producers) WITH ORDINALITY u(n, o)),
			(SELECT array_agg(greet(n) ORDER BY o) FROM unnest(consumers) WITH ORDINALITY u(n, o)), 4, 65536);
		FOR i IN 0 .. c - 1 LOOP
			PERFORM begin_member('c' || i, consumers[i + 1]);
			description := kinds_merge(description, ask('c' || i, format('kinds_listen(%L, %s)', description, i))::bytea);
		END LOOP;
		FOR i IN 0 .. c - 1 LOOP
			PERFORM dblink_send_query('c' || i, format('SELECT t::text FROM kinds_consume(%L, %s, %s, %s, %s, 0) t', description, i,
				coalesce(stop_after[i + 1], 0), coalesce(leave_after[i + 1], 0), coalesce(pauses[i + 1], 0)));
		END LOOP;
		FOR i IN 0 .. p - 1 LOOP
			PERFORM begin_member('p' || i, producers[i + 1]);
			PERFORM dblink_send_query('p' || i, format('SELECT kinds_produce(%s, %s, 0, %s, 60000, true) FROM kinds_open(%L, %s)', i, c, batches, description, i));
		END LOOP;
		FOR member IN SELECT 'c' || n FROM generate_series(0, c - 1) n UNION ALL SELECT 'p' || n FROM generate_series(0, p - 1) n LOOP
			SELECT e.answer, e.error INTO answer, error FROM end_member(member) e;
			RETURN NEXT;
		END LOOP;
	END $$;
});
foreach my $name (sort keys %node)
{
	$coord->safe_psql('postgres', "INSERT INTO nodes VALUES ('$name', 'host=127.0.0.1 port=" . $node{$name}->port . " dbname=postgres user=postgres')");
}

my %kind = (balance => 2, repartition => 3);

# All members' answers as a hash: how => [..], batches, sum, hash, error
sub run_sql
{
	my ($kind, $producers, $consumers, $batches, %more) = @_;
	my $sql = "SELECT member, answer, replace(error, chr(10), ' ') FROM run($kind{$kind}, '{$producers}', '{$consumers}', $batches";

	foreach my $argument (qw(stop_after leave_after pauses))
	{
		$sql .= ", $argument => '{$more{$argument}}'" if exists $more{$argument};
	}
	return "$sql)";
}

sub parse_members
{
	my ($out) = @_;
	my %members;

	foreach my $line (split /\n/, $out)
	{
		my ($member, $answer, $error) = split /\|/, $line, 3;
		my %one = (answer => $answer, error => $error // '');

		if ($answer =~ /^\((\w+),(-?\d+),(-?\d+),(-?\d+),"?\{([-\d,]*)\}"?\)$/)
		{
			@one{qw(how batches sum hash)} = ($1, $2, $3, $4);
			$one{per_producer} = [ split /,/, $5 ];
		}
		elsif ($answer =~ /^(\w+) (\d+)$/)
		{
			@one{qw(how batches)} = ($1, $2);
		}
		$members{$member} = \%one;
	}
	return \%members;
}

sub run_group
{
	my $out = $coord->safe_psql('postgres', run_sql(@_));
	return parse_members($out);
}

sub no_flows_left
{
	my ($when) = @_;
	foreach my $name (sort keys %node)
	{
		ok(rdma_wait($node{$name}, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
	}
	return;
}

sub total
{
	my ($members, $field, @names) = @_;
	my $sum = 0;
	use integer;
	$sum += $members->{$_}{$field} // 0 foreach (@names);
	return $sum;
}

sub expected { return $coord->safe_psql('postgres', "SELECT kinds_expected($_[0], $_[1])"); }
sub hows { my ($members) = @_; return join(' ', map { "$_=" . ($members->{$_}{how} // "error: $members->{$_}{error}") } sort keys %$members); }

# ---- everything arrives, once, where it belongs
foreach my $shape ([ 'n1,n2', 'n1,n2', '2 x 2' ], [ 'n1,n2,n3', 'n1,n2', '3 x 2' ], [ 'n1,n1', 'n1,n1', '2 x 2 on one node' ])
{
	my ($producers, $consumers, $name) = @$shape;
	my $p = () = $producers =~ /n/g;
	my $want = expected($p, 150);
	my $all_ended = join(' ', 'c0=ended', 'c1=ended', map { "p$_=finished" } 0 .. $p - 1);

	foreach my $kind (qw(balance repartition))
	{
		my $members = run_group($kind, $producers, $consumers, 150);

		is(hows($members), $all_ended, "$kind $name: all come to their end");
		is(total($members, 'sum', 'c0', 'c1'), $want, "$kind $name: every batch came to one consumer");
		is(total($members, 'batches', 'c0', 'c1'), $p * 150, "$kind $name: and once");
	}
}
my $members = run_group('repartition', 'n1,n2', 'n2,n3', 0);
is(hows($members), 'c0=ended c1=ended p0=finished p1=finished', 'streams without batches end');
$members = run_group('repartition', 'n1', 'n2', 50);
is(hows($members), 'c0=ended p0=finished', 'one producer, one consumer');
no_flows_left('after everything has ended');

# ---- balance follows the consumers
$members = run_group('balance', 'n1,n2', 'n1,n2,n3', 150, pauses => '30000,20000,10000');
is(hows($members), 'c0=ended c1=ended c2=ended p0=finished p1=finished', 'consumers of different speeds end');
is(total($members, 'sum', qw(c0 c1 c2)), expected(2, 150), 'and get everything');
cmp_ok($members->{c2}{batches}, '>', $members->{c0}{batches}, 'the fast one gets more than the slow one');
note('batches at speeds of 1 : 1.5 : 3: ' . join(' : ', map { $members->{$_}{batches} } qw(c0 c1 c2)));

# ---- stop and leave
$members = run_group('repartition', 'n1,n2', 'n1,n2', 300, stop_after => '10,0');
is(hows($members), 'c0=stopped c1=ended p0=stopped p1=stopped', 'repartition: a consumer that stops stops only what is meant for it');
my $whole = run_group('repartition', 'n1,n2', 'n1,n2', 300);
is($members->{c1}{sum}, $whole->{c1}{sum}, 'the other one has all of its batches');
$members = run_group('balance', 'n1,n2', 'n1,n2', 100000, stop_after => '10,0');
is(hows($members), 'c0=stopped c1=ended p0=stopped p1=stopped', 'balance: one that stops stops all');
$members = run_group('balance', 'n1,n2', 'n1,n2', 300, leave_after => '10,0');
is(hows($members), 'c0=ended c1=ended p0=finished p1=finished', 'balance: one leaves');
is(total($members, 'sum', 'c0', 'c1'), expected(2, 300), 'and nothing is lost');
no_flows_left('after stops and leaves');

# ---- join: a consumer and a producer that come later
my $joined = $coord->safe_psql('postgres', q{
	DO $$
	DECLARE d bytea; d2 bytea; d3 bytea; r text;
	BEGIN
		PERFORM connect_nodes();
		PERFORM begin_member('c0', 'n1'), begin_member('c1', 'n2'), begin_member('c2', 'n3'), begin_member('p0', 'n1'), begin_member('p1', 'n2');
		d := kinds_make(2, ARRAY[greet('n1')], ARRAY[greet('n1'), greet('n2')], 4, 65536);
		d := kinds_merge(d, ask('c0', format('kinds_listen(%L, 0)', d))::bytea);
		d := kinds_merge(d, ask('c1', format('kinds_listen(%L, 1)', d))::bytea);
		PERFORM ask('p0', format('kinds_open(%L, 0)', d));
		PERFORM dblink_send_query('c0', format('SELECT t::text FROM kinds_consume(%L, 0, 0, 0, 0, 1) t', d));
		PERFORM dblink_send_query('c1', format('SELECT t::text FROM kinds_consume(%L, 1, 0, 0, 0, 1) t', d));
		-- As many as both have buffers for, so each gets some whatever the other does.
		PERFORM ask('p0', 'kinds_produce(0, 2, 0, 8, 1000, false)');
		CREATE TEMP TABLE parts (who text, answer text);
		INSERT INTO parts SELECT m, (SELECT string_agg(t.a, '') FROM dblink_get_result(m) t(a text)) FROM unnest('{c0,c1}'::text[]) m;
		PERFORM a FROM unnest('{c0,c1}'::text[]) m, dblink_get_result(m) t(a text);
		d2 := kinds_extend(d, false, greet('n3'));
		d2 := kinds_merge(d2, ask('c2', format('kinds_listen(%L, 2)', d2))::bytea);
		PERFORM ask('p0', format('kinds_join(%L)', d2));
		d3 := kinds_extend(d2, true, greet('n2'));
		FOR i IN 0 .. 2 LOOP
			d3 := kinds_merge(d3, ask('c' || i, format('kinds_join(%L)', d3))::bytea);
		END LOOP;
		FOR i IN 0 .. 2 LOOP
			PERFORM dblink_send_query('c' || i, format('SELECT t::text FROM kinds_consume(%L, %s, 0, -1, 0, 0) t', d3, i));
		END LOOP;
		PERFORM dblink_send_query('p0', 'SELECT kinds_produce(0, 3, 8, 292, 1000, true)');
		PERFORM dblink_send_query('p1', format('SELECT kinds_produce(1, 3, 0, 300, 1000, true) FROM kinds_open(%L, 1)', d3));
		FOREACH r IN ARRAY '{c0,c1,c2,p0,p1}'::text[] LOOP
			INSERT INTO parts SELECT r, coalesce(answer, error) FROM end_member(r);
		END LOOP;
	END $$;
	SELECT who, answer, NULL FROM parts ORDER BY 1, 2;
});
my ($joined_batches, $joined_sum, $new_consumer) = (0, 0, 0);
foreach my $line (split /\n/, $joined)
{
	use integer;
	my $one = (values %{ parse_members($line) })[0];
	next unless defined $one->{sum};
	$joined_batches += $one->{batches};
	$joined_sum += $one->{sum};
	$new_consumer = $one->{batches} if $line =~ /^c2/;
}
is($joined_batches, 600, 'a consumer and a producer join: every batch came once') or diag($joined);
is($joined_sum, expected(2, 300), 'and to one consumer');
cmp_ok($new_consumer, '>', 0, 'the new consumer too has some');
no_flows_left('after members have joined');

# ---- every member is producer and consumer, in one backend: no cycle of waiting
foreach my $kind (qw(balance repartition))
{
	my $exchanged = $coord->safe_psql('postgres', qq{
		DO \$\$
		DECLARE d bytea; nodes text[] := '{n1,n2,n3}'; greetings bytea[];
		BEGIN
			PERFORM connect_nodes();
			greetings := (SELECT array_agg(greet(n) ORDER BY n) FROM unnest(nodes) n);
			d := kinds_make($kind{$kind}, greetings, greetings, 2, 65536);
			FOR i IN 0 .. 2 LOOP
				PERFORM begin_member('c' || i, nodes[i + 1]);
				d := kinds_merge(d, ask('c' || i, format('kinds_listen(%L, %s)', d, i))::bytea);
			END LOOP;
			FOR i IN 0 .. 2 LOOP
				PERFORM dblink_send_query('c' || i, format('SELECT t::text FROM kinds_exchange(%L, %s, 200, 60000) t', d, i));
			END LOOP;
			CREATE TEMP TABLE parts (who text, answer text);
			FOR i IN 0 .. 2 LOOP
				INSERT INTO parts SELECT 'c' || i, coalesce(answer, error) FROM end_member('c' || i);
			END LOOP;
		END \$\$;
		SELECT who, answer, NULL FROM parts ORDER BY 1});
	my $both = parse_members($exchanged);

	is(hows($both), 'c0=ended c1=ended c2=ended', "$kind: members that send and read come to their end");
	is(total($both, 'sum', qw(c0 c1 c2)), expected(3, 200), "$kind: and nothing is lost");
}
no_flows_left('after members that send and read');

# ---- bad days: all others get an error, none an end
sub bad_day
{
	my ($kind, $producers, $consumers, $victim, $how, $survivors) = @_;
	my $when = "when $victim $how ($kind)";
	my ($out, $err) = ('', '');
	my $job = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-c', run_sql($kind, $producers, $consumers, 100000000) ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	my $target = $node{n2};
	ok(rdma_wait($target, 'SELECT coalesce(bool_or(bytes > 1000000), false) FROM rdma.stat_flows', 60), "batches move $when");
	my $pid = $how =~ /engine/ ? rdma_engine_pid($target) :
		$target->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = '$victim' AND state = 'active'");

	like($pid, qr/^\d+$/, "the flow runs $when");
	if ($how =~ /cancelled/) { $target->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"); }
	elsif ($how =~ /terminated/) { $target->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"); }
	else { kill 'KILL', $pid; }
	finish($job);
	my $result = parse_members($out);
	cmp_ok(scalar(keys %$result), '==', scalar(() = "$producers,$consumers" =~ /n/g), "everybody is over $when") or diag($out . $err);
	is(join(' ', grep { !$result->{$_}{error} } sort keys %$result), '', "and everybody has an error $when");
	like($result->{$_}{error}, qr/ended before the end of its stream|of the flow failed|connection|engine|canceling|terminating|terminated/, "$_ says what happened") foreach (@$survivors);
	ok(rdma_wait($target, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), "the node works again $when");
	no_flows_left($when);
	return;
}

bad_day('repartition', 'n1,n2', 'n1,n2', 'n2', 'loses its engine', [ 'c0', 'p0' ]);
bad_day('balance', 'n1,n1', 'n2,n1', 'c0', 'is terminated', [ 'c1', 'p0', 'p1' ]);
bad_day('repartition', 'n1,n1', 'n1,n2', 'c1', 'is killed', [ 'c0', 'p0', 'p1' ]);
bad_day('repartition', 'n1,n2', 'n1,n1', 'p1', 'is cancelled', [ 'c0', 'c1' ]);
bad_day('balance', 'n1,n1', 'n1,n2', 'c1', 'is cancelled', [ 'c0', 'p0', 'p1' ]);
bad_day('balance', 'n1,n2', 'n1,n1', 'p1', 'is killed', [ 'c0', 'c1' ]);

$members = run_group('repartition', 'n1,n2,n3', 'n1,n2', 100);
is(hows($members), 'c0=ended c1=ended p0=finished p1=finished p2=finished', 'after all that the next flow works');
is(total($members, 'sum', qw(c0 c1)), expected(3, 100), 'and is whole');
no_flows_left('at the end');
ok($_->poll_query_until('postgres', 'SELECT value_used = 0 FROM rdma.stat_engine'), 'no value memory is in use') foreach values %node;

done_testing();
