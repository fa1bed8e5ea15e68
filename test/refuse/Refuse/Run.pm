# Run.pm: tables, statements, and one trial: a statement with one connection or round trip struck.
#
#   my $run = Refuse::Run->new(port => { co, n1, n2 });        # makes the tables; the writer begins
#   my @cases = $run->cases;                                   # all, in their order
#   my ($struck, $verdict) = $run->try($case, 'n1', 'cut', 3); # $verdict: 'right', 'error', or a defect in words
#   $run->said                                                 # errors that were in order => how often
#   $run->end                                                  # returns the number of the writer's transactions
#
# A case is { kind, isolation, parallel, exchange, warm, sql => [...], want, copy }. warm: the session has connections already.
package Refuse::Run;

use strict;
use warnings;
use POSIX ();
use Refuse::Proxy;
use Time::HiRes qw(time sleep);
use Wire;

use constant ROWS => 600;
use constant PATIENCE => 40;		# seconds for a statement

my $body = 'repeat(md5(i::text), 20)';

# Wherever purse is summed up the result is 0: the writer takes from one node what it gives to the other.
# %1$s, %2$s: ids of the rows that it writes. any: the rows are on all nodes, so the statement succeeds without one of them;
# only: needs one node. caught: goes on after an error, with which it has lost what it did on the node, and on another one that it then cancelled.
my @kinds = (
	{ kind => 'scan', sql => ['SELECT sum(coins), count(*) FROM (SELECT * FROM purse OFFSET 0) x WHERE length(md5(body)) = 32'], want => '0|600' },
	{ kind => 'aggregate', sql => ['SELECT sum(coins), count(*) FROM purse'], want => '0|600' },
	{ kind => 'sorted', sql => ['SELECT sum(coins), max(id) FROM (SELECT * FROM purse ORDER BY id OFFSET 0) x'], want => '0|600' },
	{ kind => 'join', exchange => 1, sql => ['SELECT sum(p.coins), count(*) FROM purse p JOIN grp g ON g.g = p.g'], want => '0|600' },
	{ kind => 'grouped join', exchange => 1, sql => ['SELECT sum(s), sum(n) FROM (SELECT g.name, sum(p.coins) AS s, count(*) AS n FROM purse p JOIN grp g ON g.g = p.g GROUP BY g.name) x'], want => '0|600' },
	{ kind => 'key lookup', sql => ['SELECT sum(x.coins), count(*) FROM here CROSS JOIN LATERAL (SELECT coins FROM purse p WHERE p.id = here.id OFFSET 0) x'], want => '0|600' },
	{ kind => 'two rows', sql => ['SELECT (SELECT coins FROM purse WHERE id = %1$s) + (SELECT coins FROM purse WHERE id = %2$s)'], want => '0' },
	{ kind => 'one row', only => 1, sql => ['SELECT count(*) FROM purse WHERE id = %1$s'], want => '1' },
	{ kind => 'copies', any => 1, sql => ['SELECT sum(v), count(*) FROM copies'], want => '0|100' },
	{ kind => 'join with copies', sql => ['SELECT sum(p.coins), count(*) FROM purse p JOIN copies c ON c.id = p.g + 1'], want => '0|600' },
	{ kind => 'UPDATE', sql => [ 'BEGIN', 'UPDATE seen SET coins = p.coins FROM purse p WHERE p.id = seen.id', 'SELECT sum(coins), count(*) FROM seen', 'ROLLBACK' ], want => '0|600' },
	{ kind => 'UPDATE by rows', sql => [ 'BEGIN', 'UPDATE seen SET coins = p.coins FROM purse p WHERE p.id = seen.id AND random() >= 0', 'SELECT sum(coins), count(*) FROM seen', 'ROLLBACK' ], want => '0|600' },
	{ kind => 'UPDATE of copies', sql => [ 'BEGIN', 'UPDATE copies SET v = 1', 'SELECT sum(v), count(*) FROM copies', 'ROLLBACK' ], want => '100|100' },
	{ kind => 'UPDATE of copies by rows', sql => [ 'BEGIN', 'UPDATE copies SET v = p.coins FROM purse p WHERE p.id = copies.id AND random() >= 0 AND p.g > 90', 'SELECT count(*) FROM copies', 'ROLLBACK' ], want => '100' },
	{ kind => 'UPDATE of the key', sql => [ 'BEGIN', 'UPDATE seen SET id = -id WHERE id > 500', 'SELECT count(*), count(DISTINCT id) FROM seen', 'ROLLBACK' ], want => '600|600' },
	{ kind => 'commit of both', sql => [ 'BEGIN', 'INSERT INTO pair SELECT i FROM generate_series(1, 20) i', 'COMMIT', 'SELECT count(*) % 20 FROM pair' ], want => '0' },
	{ kind => 'locked', sql => [ 'BEGIN', 'SELECT sum(coins), count(*) FROM (SELECT coins FROM seen ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED) x', 'ROLLBACK' ], want => '0|20' },
	{ kind => 'DELETE', sql => [ 'BEGIN', 'DELETE FROM seen WHERE id > 500', 'SELECT count(*) FROM seen', 'ROLLBACK' ], want => '500' },
	{ kind => 'DELETE by rows', sql => [ 'BEGIN', 'DELETE FROM seen WHERE id > 500 AND random() >= 0', 'SELECT count(*) FROM seen', 'ROLLBACK' ], want => '500' },
	{ kind => 'TRUNCATE', sql => [ 'BEGIN', 'TRUNCATE seen', 'SELECT count(*) FROM seen', 'ROLLBACK' ], want => '0' },
	{ kind => 'INSERT SELECT', exchange => 1, sql => [ 'BEGIN', 'INSERT INTO log SELECT g, coins FROM purse', 'SELECT sum(coins), count(*) FROM log', 'ROLLBACK' ], want => '0|600' },
	{ kind => 'INSERT of rows', sql => [ 'BEGIN', 'INSERT INTO log SELECT id, coins FROM purse WHERE random() >= 0', 'SELECT sum(coins), count(*) FROM log', 'ROLLBACK' ], want => '0|600' },
	{ kind => 'COPY', sql => [ 'BEGIN', 'COPY log FROM STDIN', 'SELECT sum(coins), count(*) FROM log', 'ROLLBACK' ], copy => join('', map { "$_\t0\n" } 1 .. 300), want => '0|300' },
	{ kind => 'cursor', sql => [ 'BEGIN', 'DECLARE c CURSOR FOR SELECT sum(coins) OVER (), count(*) OVER () FROM purse ORDER BY id', 'FETCH 1 FROM c', 'SELECT count(*) FROM grp', 'MOVE ABSOLUTE 599 IN c', 'FETCH 1 FROM c', 'COMMIT' ], want => '0|600;100;0|600' },
	{ kind => 'cursor of rows', sql => ['SELECT * FROM by_cursor()'], want => '0|600' },
	{ kind => 'prepared', sql => [ 'PREPARE q(int) AS SELECT sum(coins), count(*) FROM purse WHERE id > $1', 'EXECUTE q(0)', 'EXECUTE q(0)' ], want => '0|600;0|600' },
	{ kind => 'function', sql => ['SELECT sum(coins), count(*), max(inner_sum()) FROM (SELECT * FROM purse OFFSET 0) x'], want => '0|600|0' },
	{ kind => 'caught', caught => 1, sql => ['SELECT twice()'], want => '0' },
	{ kind => 'savepoint', sql => [ 'BEGIN', 'SELECT count(*) FROM grp', 'SAVEPOINT s', 'SELECT sum(coins), count(*) FROM purse', 'RELEASE s', 'SELECT sum(coins), count(*) FROM purse', 'COMMIT' ], want => '100;0|600;0|600' });

sub ask
{
	my ($port, $sql, %args) = @_;
	my $wire = Wire->connect(port => $port, deadline => time() + 60, name => 'refuse') // die "refuse: $Wire::why\n";
	my $r = $wire->query($sql, deadline => time() + 120);

	die "refuse: " . ($r->{error} ? "$r->{error}{M} in $sql" : 'no answer') . "\n" if $r->{error} || $r->{lost} || $r->{late};
	$wire->close;
	return $r->{rows};
}

sub new
{
	my ($class, %args) = @_;
	my $self = bless { port => $args{port}, said => {} }, $class;
	my $co = $args{port}{co};

	$self->{proxy} = Refuse::Proxy->start({ map { $_ => $args{port}{$_} } qw(n1 n2) });
	ask($args{port}{$_}, 'CREATE EXTENSION IF NOT EXISTS rdma_fdw') foreach qw(n1 n2 co);
	ask($co, join('', map { my ($node, $to) = @$_;
		"CREATE SERVER $node FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$to', dbname 'postgres');
		CREATE USER MAPPING FOR postgres SERVER $node OPTIONS (user 'postgres');" }
		[ n1 => $self->{proxy}->port('n1') ], [ n2 => $self->{proxy}->port('n2') ], [ d1 => $args{port}{n1} ], [ d2 => $args{port}{n2} ]));
	ask($co, "CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2')");
	ask($co, "SET client_min_messages = warning;
		CREATE TABLE purse AS SELECT i AS id, i % 100 AS g, 0 AS coins, $body AS body FROM generate_series(1, 600) i;
		CREATE TABLE seen AS SELECT i AS id, 0 AS coins FROM generate_series(1, 600) i;
		CREATE TABLE log (k int, coins int);
		CREATE TABLE pair (k int);
		CREATE TABLE grp AS SELECT i AS g, 'g' || i % 7 AS name FROM generate_series(0, 99) i;
		CREATE TABLE copies AS SELECT i AS id, 0 AS v FROM generate_series(1, 100) i;
		CREATE TABLE here AS SELECT i AS id FROM generate_series(1, 600) i;
		SELECT rdma.distribute_table('purse', 'many', 'id'), rdma.distribute_table('seen', 'many', 'id'), rdma.distribute_table('log', 'many', 'k'), rdma.distribute_table('pair', 'many', 'k'),
			rdma.distribute_table('grp', 'many', 'g'), rdma.distribute_table('copies', 'many', replicated => true);
		ANALYZE purse, seen, grp, copies, here");
	ask($co, q{CREATE FUNCTION inner_sum() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(coins) FROM purse); END';
		CREATE FUNCTION by_cursor(OUT s bigint, OUT n bigint) LANGUAGE plpgsql AS
			'DECLARE r record; BEGIN s := 0; n := 0; FOR r IN SELECT coins FROM purse LOOP s := s + r.coins; n := n + 1; END LOOP; END';
		CREATE FUNCTION twice() RETURNS bigint LANGUAGE plpgsql AS
			'BEGIN RETURN (SELECT sum(coins) FROM purse); EXCEPTION WHEN OTHERS THEN RETURN (SELECT sum(coins) FROM purse); END';
		CREATE SCHEMA d1; CREATE SCHEMA d2;
		IMPORT FOREIGN SCHEMA public LIMIT TO (purse) FROM SERVER d1 INTO d1; IMPORT FOREIGN SCHEMA public LIMIT TO (purse) FROM SERVER d2 INTO d2});
	$self->{ids} = [ map { ask($args{port}{$_}, 'SELECT min(id) FROM purse')->[0][0] } qw(n1 n2) ];
	$self->begin_writer;
	return $self;
}

# It does not pass the proxy.
sub begin_writer
{
	my ($self) = @_;
	my ($one, $two) = @{ $self->{ids} };
	my $sql = "BEGIN; UPDATE d1.purse SET coins = coins - 1 WHERE id = $one; UPDATE d2.purse SET coins = coins + 1 WHERE id = $two; COMMIT";

	$self->{writer} = fork() // die "refuse: $!\n";
	return if $self->{writer};
	my $wire;
	my $over = 0;
	$SIG{TERM} = sub { $over = 1 };
	until ($over || getppid() == 1)
	{
		$wire //= Wire->connect(port => $self->{port}{co}, deadline => time() + 20, name => 'writer');
		my $r = $wire ? $wire->query($sql, deadline => time() + 60) : { lost => 1 };
		$wire = undef if $r->{lost} || $r->{late};
		sleep(0.004);
	}
	POSIX::_exit(0);
}

sub cases
{
	my ($self) = @_;
	my @cases;

	foreach my $kind (@kinds)
	{
		foreach my $isolation ('read committed', 'repeatable read')
		{
			foreach my $parallel (0, 1)
			{
				foreach my $exchange ($kind->{exchange} ? (1, 0) : 1)
				{
					push @cases, map { { %$kind, isolation => $isolation, parallel => $parallel, exchange => $exchange, warm => $_ } } (0, 1);
				}
			}
		}
	}
	return @cases;
}

sub settings
{
	my ($case) = @_;

	return "SET default_transaction_isolation = '$case->{isolation}'; SET rdma_fdw.exchange_strategy = " . ($case->{exchange} ? 'auto' : 'pull') . '; SET parallel_setup_cost = 0;
		SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = ' . ($case->{parallel} ? 2 : 0);
}

sub describe
{
	my ($case, $node, $what, $k) = @_;

	return join(', ', $case->{kind}, $case->{isolation}, $case->{parallel} ? 'parallel' : 'serial', $case->{exchange} ? () : 'pull', $case->{warm} ? 'warm' : 'cold',
		"$what $k of $node");
}

# What the statements say: rows, or the error, or why there is neither.
sub answer
{
	my ($self, $wire, $case) = @_;
	my @rows;

	foreach my $sql (@{ $case->{sql} })
	{
		my $r = $wire->query($sql =~ s{%(\d)\$s}{$self->{ids}[$1 - 1]}gr, deadline => time() + PATIENCE, copy => $case->{copy});

		return { defect => 'no answer in ' . PATIENCE . " s to $sql" } if $r->{late};
		return { defect => "the coordinator closed the connection at $sql" } if $r->{lost} || $r->{error} && $r->{error}{S} ne 'ERROR';
		return { error => $r->{error} } if $r->{error};
		push @rows, map { join('|', map { $_ // '' } @$_) } @{ $r->{rows} };
	}
	return { text => join(';', @rows) };
}

# An error has to name the node, or to say that there is no snapshot; and a node is missed by what needs it only.
sub judge
{
	my ($self, $case, $node, $what, $answer) = @_;
	my $error = $answer->{error};

	return $answer->{defect} if $answer->{defect};
	return $answer->{text} eq $case->{want} ? 'right' : "the answer is $answer->{text}" unless $error;
	my $text = join(' ', map { $error->{$_} // '' } qw(M D H));
	my $line = "$error->{C} $error->{M}" . ($error->{D} ? " ($error->{D})" : '');
	return $line if $error->{C} eq 'XX000' || $text =~ /pipeline mode|another command/;
	return "$line, which needs no other node" if $what eq 'refuse' && ($case->{any} || $case->{only} && $node eq 'n2');
	return "$line, and nothing was lost" if $what =~ /^(late|slow|dribble)$/;
	return $line unless $text =~ /\b$node\b/ || $case->{caught} && $text =~ /\bn[12]\b/;
	$self->{said}{ "$error->{C} $error->{M}" =~ s/"[^"]*"/"..."/gr }++;
	return 'error';
}

sub try
{
	my ($self, $case, $node, $what, $k) = @_;
	my $co = $self->{port}{co};
	my $wire;

	# a server that crashed comes back
	foreach (1 .. 100)
	{
		last if $wire = Wire->connect(port => $co, deadline => time() + 20, name => 'refuse');
		sleep(0.2);
	}
	die "refuse: $Wire::why\n" unless $wire;
	$wire->query(settings($case), deadline => time() + 20);
	$wire->query('SELECT sum(coins), count(*) FROM purse', deadline => time() + PATIENCE) if $case->{warm};
	$self->{proxy}->plan($node, $what, $k);
	my $answer = $self->answer($wire, $case);
	my $struck = $self->{proxy}->struck;
	my $verdict = $self->judge($case, $node, $what, $answer);

	# the session goes on
	if ($verdict eq 'error')
	{
		$wire->query('ROLLBACK', deadline => time() + PATIENCE);
		my $after = $self->answer($wire, { sql => ['SELECT sum(coins), count(*), (SELECT count(*) % 20 FROM pair) FROM purse'] });
		my $text = $after->{text} // $after->{defect} // "$after->{error}{C} $after->{error}{M}";
		$verdict = "the next statement: $text" unless $text eq '0|600|0';
	}
	$answer->{defect} ? $wire->drop : $wire->close;
	return ($struck, $verdict);
}

sub said { return $_[0]{said}; }

sub end
{
	my ($self) = @_;

	kill 'TERM', $self->{writer};
	waitpid($self->{writer}, 0);
	$self->{proxy}->end;
	return abs(ask($self->{port}{n1}, "SELECT coins FROM purse WHERE id = $self->{ids}[0]")->[0][0]);
}

1;
