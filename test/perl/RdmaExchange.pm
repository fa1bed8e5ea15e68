# RdmaExchange.pm: the coordinator's part of a distributed statement over dblink, for tests of rdma_internal.exchange without a planner in the way.
#
#   exchange_setup($coord, n1 => $n1, n2 => $n2);      # clusters of RdmaCluster; connects their engines
#   my %r = exchange_run($coord, 'n1,n2', 2, $sql, settings => { n1 => 'SET enable_hashjoin = off' });
#                                      # runs $sql with 2 exchanges on both nodes; $r{n1} is its rows as text, or "ERROR: ..."
#   exchange_sql(...)                  # the same as the SQL to send to $coord, for who wants it in the background
#   exchange_idle(@nodes)              # true when no flow is left anywhere within a minute
#
# Options: settings (per node, SQL run before), slots, slot_size, producers and consumers (node names that have only these parts; default: all are both),
# explain => 1. It asserts nothing.
package RdmaExchange;

use strict;
use warnings;
use Exporter 'import';
use RdmaCluster;

our @EXPORT = qw(exchange_setup exchange_run exchange_sql exchange_parse exchange_idle);

sub exchange_setup
{
	my ($coord, %nodes) = @_;

	# What hangs fails, and says where.
	$coord->safe_psql('postgres', q{
		ALTER DATABASE postgres SET statement_timeout = '600s';
		CREATE EXTENSION IF NOT EXISTS rdma_fdw;
		CREATE EXTENSION dblink;
		CREATE FUNCTION kinds_make(int, bytea[], bytea[], int, int) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_merge(bytea, bytea) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE TABLE nodes (name text, connstr text);
		CREATE FUNCTION ask(member text, sql text) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			RETURN (SELECT r FROM dblink(member, 'SELECT (' || sql || ')::text') AS t(r text));
		END $$;
		CREATE FUNCTION connect_nodes() RETURNS void LANGUAGE plpgsql AS $$
		DECLARE a record; hello text;
		BEGIN
			FOR a IN SELECT * FROM nodes LOOP
				PERFORM dblink_connect('node_' || a.name, a.connstr);
			END LOOP;
			FOR a IN SELECT x.name AS one, y.name AS other FROM nodes x JOIN nodes y ON x.name < y.name LOOP
				hello := ask('node_' || a.other, format('rdma_internal.hello(%L)', ask('node_' || a.one, 'rdma_internal.exchange_greet()')));
				PERFORM ask('node_' || a.one, format('rdma_internal.exchange_connect(%L, %L)', '127.0.0.1', hello));
			END LOOP;
			FOR a IN SELECT * FROM nodes LOOP
				PERFORM dblink_disconnect('node_' || a.name);
			END LOOP;
		END $$;

		-- members: names of nodes; producers, consumers: those that are; settings: SQL for each member, run first
		CREATE FUNCTION run(members text[], exchanges int, sql text, settings text[], producers text[], consumers text[], slots int, slot_size int)
			RETURNS TABLE (node text, answer text) LANGUAGE plpgsql AS $$
		DECLARE
			groups bytea[];
			filled bytea[];
			greetings jsonb := '{}';
			i int;
			g int;
			one text;
			failed text;
		BEGIN
			PERFORM connect_nodes();
			FOR i IN 1 .. cardinality(members) LOOP
				PERFORM dblink_connect('m' || i, format('%s application_name=member_%s', (SELECT connstr FROM nodes n WHERE n.name = members[i]), members[i]));
				PERFORM dblink_exec('m' || i, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
				PERFORM dblink_exec('m' || i, settings[i]);
				greetings := greetings || jsonb_build_object(members[i], ask('m' || i, 'rdma_internal.exchange_greet()'));
			END LOOP;
			FOR g IN 1 .. exchanges LOOP
				groups[g] := kinds_make(3, (SELECT array_agg((greetings ->> n)::bytea ORDER BY o) FROM unnest(producers) WITH ORDINALITY u(n, o)),
					(SELECT array_agg((greetings ->> n)::bytea ORDER BY o) FROM unnest(consumers) WITH ORDINALITY u(n, o)), slots, slot_size);
			END LOOP;
			FOR i IN 1 .. cardinality(members) LOOP
				filled := ask('m' || i, format('rdma_internal.exchange_listen(%s, %L, %L, %L)', i - 1, groups,
					array_fill(coalesce(array_position(producers, members[i]), 0) - 1, ARRAY[exchanges]),
					array_fill(coalesce(array_position(consumers, members[i]), 0) - 1, ARRAY[exchanges])))::bytea[];
				FOR g IN 1 .. exchanges LOOP
					groups[g] := kinds_merge(groups[g], filled[g]);
				END LOOP;
			END LOOP;
			FOR i IN 1 .. cardinality(members) LOOP
				PERFORM ask('m' || i, format('rdma_internal.exchange_open(%s, %L)', i - 1, groups));
			END LOOP;
			FOR i IN 1 .. cardinality(members) LOOP
				PERFORM dblink_send_query('m' || i, sql);
			END LOOP;
			-- Read what all of them send: one that cannot send its result need not help the others (node_drive.c).
			LOOP
				failed := NULL;
				FOR i IN 1 .. cardinality(members) LOOP
					IF dblink_is_busy('m' || i) = 1 THEN
						failed := members[i];
					END IF;
				END LOOP;
				EXIT WHEN failed IS NULL;
				PERFORM pg_sleep(0.002);
			END LOOP;
			FOR i IN 1 .. cardinality(members) LOOP
				node := members[i];
				BEGIN
					answer := (SELECT string_agg(coalesce(r, ''), E'\n') FROM dblink_get_result('m' || i, false) AS t(r text));
					failed := nullif(dblink_error_message('m' || i), 'OK');
					IF failed IS NULL THEN
						PERFORM r FROM dblink_get_result('m' || i, false) AS t(r text);
						one := (SELECT string_agg(s::text, ' ' ORDER BY s.number) FROM dblink('m' || i, 'SELECT number, rows_out, bytes_out, rows_in, bytes_in, rows_kept_local, stalls, spilled_bytes, transport, process_rows FROM rdma_internal.exchange_stats()')
							s(number int, rows_out bigint, bytes_out bigint, rows_in bigint, bytes_in bigint, rows_kept bigint, stalls bigint, spilled bigint, transport text, process_rows text));
						PERFORM dblink_exec('m' || i, 'COMMIT', false);
						RETURN NEXT;
						node := 'stats_' || members[i];
						answer := one;
					ELSE
						answer := 'ERROR: ' || failed;
					END IF;
				END;
				RETURN NEXT;
				PERFORM dblink_disconnect('m' || i);
			END LOOP;
		END $$;
	});
	foreach my $name (sort keys %nodes)
	{
		$nodes{$name}->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS rdma_fdw');
		$coord->safe_psql('postgres',
			"INSERT INTO nodes VALUES ('$name', 'host=127.0.0.1 port=" . $nodes{$name}->port . " dbname=postgres user=postgres')");
	}
	return;
}

sub exchange_sql
{
	my ($members, $exchanges, $sql, %options) = @_;
	my $settings = join(', ', map { '$set$' . ($options{settings}{$_} // $options{settings}{all} // 'SELECT') . '$set$' } split(/,/, $members));
	my ($producers, $consumers) = ($options{producers} // $members, $options{consumers} // $members);
	my ($slots, $size) = ($options{slots} // 4, $options{slot_size} // 65536);

	$settings =~ s/\$set\$SELECT\$set\$/\$set\$SET seq_page_cost = 1\$set\$/g;
	return "SELECT node, replace(answer, chr(10), '~') FROM run('{$members}', $exchanges, \$run\$$sql\$run\$, ARRAY[$settings], '{$producers}', '{$consumers}', $slots, $size)";
}

# "n1|answer" lines as a hash; rows of an answer are separated by new lines again
sub exchange_parse
{
	my ($out) = @_;
	my %answers;

	foreach my $line (split /\n/, $out)
	{
		my ($node, $answer) = split /\|/, $line, 2;

		$answer =~ s/~/\n/g;
		$answers{$node} = $answer;
	}
	return %answers;
}

sub exchange_run
{
	my ($coord, @arguments) = @_;
	my ($status, $out, $err) = $coord->psql('postgres', exchange_sql(@arguments));

	return $status == 0 ? exchange_parse($out) : (error => $err);
}

sub exchange_idle
{
	my (@nodes) = @_;

	foreach my $node (@nodes)
	{
		return 0 unless rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60);
	}
	return 1;
}

1;
