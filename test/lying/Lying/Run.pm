# Run.pm: tables, statements, and one trial: a statement while a node lies about one question.
#
#   my $run = Lying::Run->new(port => { co, n1, n2 });       # makes the tables; n1 will lie
#   my %asked = $run->learn;                                 # each statement once with the truth: key of a question => names of statements
#   my ($lies, $verdict, $what) = $run->try($name, $key, 'null', $seed);     # $verdict: 'right', 'error', or a defect in words
#   $run->end
package Lying::Run;

use strict;
use warnings;
use Lying::Proxy;
use Time::HiRes qw(time sleep);
use Wire;

use constant SHORT => 2;        # seconds: statement_timeout where a node keeps silent
use constant PATIENCE => 45;    # more than statement_timeout: the deadlines of what ends a statement

my $join = 'SELECT count(*) FROM seed JOIN other ON seed.b = other.a WHERE seed.a < 8';
# Whatever is written is rolled back, also when the server commits in between.
sub undone { return [ 'BEGIN', @_, 'ROLLBACK' ]; }

# name => statements; the answers are what they are with the truth, unless any: the statement says what the node says
my %statement = (
	scan => { sql => ['SELECT sum(a) FROM seed'] },
	snapshot => { sql => [ 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT sum(a) FROM seed', 'SELECT count(*) FROM copies', 'COMMIT' ] },
	cursor => { sql => [ 'BEGIN', 'DECLARE c CURSOR FOR SELECT a FROM seed ORDER BY a', 'FETCH 2 FROM c', 'SELECT sum(b) FROM seed', 'MOVE 90 IN c', 'FETCH 1 FROM c', 'COMMIT' ] },
	serializable => { sql => [ 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'SELECT count(*) FROM grow', 'COMMIT' ] },
	each_node => { sql => [ 'SET rdma_fdw.snapshot = each_node', 'SELECT sum(a) FROM seed' ] },
	join => { sql => [ 'SET rdma_fdw.exchange_strategy = repartition_one', $join ] },
	shared_join => { sql => [ 'SET rdma_fdw.exchange_strategy = replicate', $join ] },
	explain_join => { any => 1, sql => [ 'SET rdma_fdw.exchange_strategy = repartition_one', "EXPLAIN (ANALYZE, VERBOSE) $join" ] },
	explain_nodes => { any => 1, sql => [ 'SET rdma_fdw.explain_nodes = on', 'EXPLAIN (VERBOSE) SELECT sum(a) FROM seed' ] },
	estimate => { any => 1, sql => ['EXPLAIN SELECT * FROM asked WHERE a > 5'] },
	copies => { sql => ['SELECT sum(id) FROM copies'] },
	insert => { sql => undone('INSERT INTO seed SELECT g, 0 FROM generate_series(1001, 1200) g', 'SELECT sum(a) FROM seed') },
	insert_one => { sql => undone('INSERT INTO grow VALUES (1)', 'INSERT INTO grow VALUES (2) RETURNING a') },
	insert_many => { sql => undone('INSERT INTO grow SELECT generate_series(1, 300)', 'SELECT count(*) FROM grow') },
	update => { sql => undone('UPDATE seed SET b = b + 1', 'SELECT sum(b) FROM seed') },
	update_rows => { sql => undone('UPDATE seed SET b = b + 1 WHERE random() >= 0', 'SELECT sum(b) FROM seed') },
	update_key => { sql => undone('UPDATE seed SET a = a + 1000 WHERE a < 10', 'SELECT sum(a) FROM seed') },
	delete_rows => { sql => undone('DELETE FROM seed WHERE a > 50 AND random() >= 0', 'SELECT sum(a) FROM seed') },
	locks => { sql => undone('SELECT a FROM seed ORDER BY a LIMIT 2 FOR UPDATE') },
	truncate => { sql => undone('TRUNCATE seed', 'SELECT count(*) FROM seed') },
	savepoint => { sql => [ 'BEGIN', 'UPDATE seed SET b = b', 'SAVEPOINT s', 'UPDATE seed SET b = b', 'ROLLBACK TO s', 'SAVEPOINT s2', 'UPDATE seed SET b = b', 'RELEASE s2', 'SELECT sum(a) FROM seed', 'ROLLBACK' ] },
	caught => { sql => ['SELECT caught()'] },
	commit => { writes => 1, sql => [ 'BEGIN', 'UPDATE seed SET b = b', 'COMMIT', 'SELECT sum(a) FROM seed' ] },
	commit_one => { writes => 1, sql => [ 'BEGIN', 'UPDATE grow SET a = a', 'SELECT count(*) FROM lone', 'COMMIT' ] },
	analyze => { any => 1, sql => [ 'ANALYZE seed', 'ANALYZE asked', 'SELECT count(*) FROM seed WHERE a < 10' ] },
	sampled => { any => 1, sql => [ 'ANALYZE sampled', 'SELECT count(*) FROM sampled WHERE a < 10' ] },
	statistics => { any => 1, sql => [ "SELECT rdma.import_statistics('facts')", 'SELECT count(*) FROM facts WHERE a = 1 AND b @> \'{1}\'' ] },
	import => { any => 1, sql => undone('CREATE SCHEMA taken', 'IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO taken') },
	# it may end a step on each of two nodes
	check => { any => 1, patience => 75, sql => [ "SELECT rdma.check('n1')", "SELECT rdma.check('many')" ] },
	bench => { any => 1, sql => ["SELECT * FROM rdma.bench('n1', 1)"] },
	run_on => { any => 1, sql => ["SELECT * FROM rdma.run_on('many', 'SELECT 7')"] },
	distribute => { any => 1, sql => undone('CREATE TABLE more (a int PRIMARY KEY, b int, c text DEFAULT \'x\')', 'INSERT INTO more SELECT g, g FROM generate_series(1, 50) g', "SELECT rdma.distribute_table('more', 'many', 'a')", 'SELECT sum(a) FROM more') },
	undistribute => { any => 1, sql => undone("SELECT rdma.undistribute_table('parts')", 'SELECT count(*) FROM parts') },
	undistribute_two => { any => 1, sql => undone("SELECT * FROM rdma.undistribute_tables(ARRAY['mother', 'child']::regclass[])") },
	redistribute => { any => 1, sql => undone("SELECT rdma.alter_distribution('mother', replicated => true, force => true)", 'SELECT count(*) FROM mother') },
	add_node => { any => 1, sql => undone("SELECT rdma.add_node('single', 'n2')") },
	add_liar => { any => 1, sql => undone("SELECT rdma.add_node('second', 'n1')") },
	move_from => { any => 1, sql => undone("SELECT rdma.move_buckets('many', 'n1', 'n2', ARRAY[0, 2, 4])", 'SELECT sum(a) FROM seed') },
	move_to => { any => 1, sql => undone("SELECT rdma.move_buckets('many', 'n2', 'n1', ARRAY[1, 3, 5])", 'SELECT sum(a) FROM seed') },
	rebalance => { any => 1, sql => [ "CALL rdma.rebalance('many')", "SELECT rdma_internal.move_size('many', 'n1', NULL, NULL, 300)" ] },
	bucket_index => { any => 1, sql => [ "CALL rdma_internal.index_buckets('many', 'n1', 0)", "CALL rdma_internal.index_buckets('many', 'n1', NULL)" ] },
	remove_node => { any => 1, sql => undone("SELECT rdma.remove_node('emptied', 'n1')") },
	enroll => { any => 1, sql => undone("SELECT rdma.enroll_nodes('many')", "SELECT rdma.replace_node('many', 'n1')") },
	placement => { any => 1, sql => undone("SELECT rdma.read_placement('many')") },
	distribution => { any => 1, sql => [ "SELECT * FROM rdma.check_distribution('seed')", "SELECT * FROM rdma.check_distribution('copies')", "SELECT rdma_internal.sample_tables('many')", "SELECT * FROM rdma_internal.column_differences('many')" ] },
	sizes => { any => 1, sql => ["SELECT * FROM rdma.table_sizes('seed')"] },
	protect => { any => 1, sql => undone("SELECT rdma.protect_table('seed')") },
	alter => { any => 1, sql => undone('ALTER FOREIGN TABLE seed ADD COLUMN added int DEFAULT 7', 'CREATE SCHEMA elsewhere', 'ALTER FOREIGN TABLE seed SET SCHEMA elsewhere', 'DROP FOREIGN TABLE other') },
	upsert => { any => 1, sql => undone("SELECT rdma.upsert('mother', 'SELECT 1 AS a', ARRAY['a'])", "SELECT rdma.upsert('mother', 'SELECT 1 AS a', ARRAY['a'], 'a = excluded.a')", "SELECT rdma.upsert('copies', 'SELECT 1 AS id', ARRAY['id'])") },
	restore_point => { any => 1, writes => 1, sql => ["SELECT * FROM rdma.create_restore_point('lying' || clock_timestamp())"] },
	resolve => { any => 1, sql => [ "SELECT * FROM rdma.transactions", "SELECT * FROM rdma.resolve('n1')" ] },
	keys => { sql => ['SELECT count(*) FROM lone JOIN seed ON seed.a = lone.a'] },
	deadlock => { any => 1, blocked => 1, sql => undone('SELECT count(*) FROM grow', 'UPDATE grow SET a = a') });

# Answers that are rows of the user's table: how many there are and what is in them is the node's own business.
my %rows = map { $_ => 1 } qw(late_lock write_row);

sub names { return sort keys %statement; }

sub ask
{
	my ($port, $sql) = @_;
	my $wire = Wire->connect(port => $port, deadline => time() + 60, name => 'lying') // die "lying: $Wire::why\n";
	my $r = $wire->query($sql, deadline => time() + 120);

	die "lying: " . ($r->{error} ? "$r->{error}{M} " . ($r->{error}{D} // '') . " in $sql" : 'no answer') . "\n" if $r->{error} || $r->{lost} || $r->{late};
	$wire->close;
	return $r->{rows};
}

sub new
{
	my ($class, %args) = @_;
	my $self = bless { port => $args{port}, said => {} }, $class;
	my $co = $args{port}{co};

	$self->{proxy} = Lying::Proxy->start($args{port}{n1});
	ask($args{port}{$_}, 'CREATE EXTENSION IF NOT EXISTS rdma_fdw; CREATE TABLE ledger (a int)') foreach qw(n1 n2 co);
	ask($co, join('', map { "CREATE SERVER $_->[0] FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$_->[1]', dbname 'postgres', sslmode 'disable', gssencmode 'disable');
		CREATE USER MAPPING FOR postgres SERVER $_->[0] OPTIONS (user 'postgres');" } [ n1 => $self->{proxy}->port ], [ n2 => $args{port}{n2} ]));
	ask($args{port}{$_}, 'CREATE SCHEMA s1; CREATE SCHEMA s2; CREATE SCHEMA s3') foreach qw(n1 n2 co);
	ask($co, "SET client_min_messages = warning;
		CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2'); CREATE SERVER single FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1');
		CREATE SERVER second FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n2'); CREATE SERVER emptied FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
		CREATE TABLE seed (a int, b int); INSERT INTO seed SELECT g, g % 7 FROM generate_series(1, 100) g;
		CREATE TABLE other (a int, b int); INSERT INTO other SELECT g % 7, g FROM generate_series(1, 100) g;
		CREATE TABLE copies (id int PRIMARY KEY); INSERT INTO copies SELECT generate_series(1, 20);
		CREATE TABLE mother (a int PRIMARY KEY); INSERT INTO mother SELECT generate_series(1, 20);
		CREATE TABLE child (a int REFERENCES mother ON DELETE CASCADE DEFERRABLE, b int); INSERT INTO child SELECT g, g FROM generate_series(1, 20) g;
		CREATE TABLE parts (a int PRIMARY KEY, b text CHECK (b <> 'x')) PARTITION BY RANGE (a); CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (50); CREATE TABLE parts2 PARTITION OF parts DEFAULT;
		CREATE INDEX ON parts (lower(b)); CREATE STATISTICS parts_s ON a, b FROM parts; INSERT INTO parts SELECT g, g FROM generate_series(1, 100) g;
		CREATE TABLE s1.t (a int PRIMARY KEY, b int CHECK (b > 0)); INSERT INTO s1.t SELECT g, g FROM generate_series(1, 20) g; CREATE TABLE s1.r (id int PRIMARY KEY REFERENCES s1.t);
		CREATE TABLE s2.t (a int PRIMARY KEY); CREATE TABLE s3.t (a int);
		SELECT rdma.distribute_table('seed', 'many', 'a'), rdma.distribute_table('other', 'many', 'b'), rdma.distribute_table('copies', 'many', replicated => true), rdma.distribute_table('parts', 'many', 'a'),
			rdma.distribute_table('s2.t', 'second', 'a'), rdma.distribute_table('s3.t', 'emptied', 'a');
		SELECT * FROM rdma.distribute_tables('many', ARRAY['mother', 'child']::regclass[], ARRAY['a', 'a']); SELECT * FROM rdma.distribute_tables('single', ARRAY['s1.t', 's1.r']::regclass[], ARRAY['a', 'id']);
		CREATE TABLE lone AS SELECT generate_series(1, 10) AS a");
	ask($co, "CALL rdma.drain_node('emptied', 'n1', rest => 0)");
	ask($args{port}{n1}, "CREATE TABLE grow (a int); CREATE TABLE facts (a int, b int[]); INSERT INTO facts SELECT g % 3, ARRAY[g % 3] FROM generate_series(1, 300) g; CREATE INDEX ON facts (a); ANALYZE facts;
		CREATE TABLE sampled AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 20000) g; ANALYZE sampled");
	ask($co, "CREATE FOREIGN TABLE grow (a int) SERVER n1; CREATE FOREIGN TABLE facts (a int, b int[]) SERVER n1; CREATE FOREIGN TABLE sampled (a int, b text) SERVER n1 OPTIONS (analyze_sampling 'auto');
		CREATE FOREIGN TABLE asked (a int, b int[]) SERVER n1 OPTIONS (table_name 'facts', use_remote_estimate 'true');
		CREATE FUNCTION caught() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN INSERT INTO grow VALUES (1); PERFORM 1 / (SELECT 0 FROM grow LIMIT 1); RETURN 0; EXCEPTION WHEN division_by_zero THEN RETURN (SELECT sum(a) FROM seed); END'");
	$self->{right} = {};
	$self->{watch} = { map { $_ => Wire->connect(port => $args{port}{$_}, deadline => time() + 30, name => 'watch') } qw(n2 co) };
	return $self;
}

# One statement in a new session: its answers as text, and the error.
sub run
{
	my ($self, $name, $timeout) = @_;
	my $patience = $statement{$name}{patience} // PATIENCE;
	my $end = time() + $timeout + $patience;
	my $wire = Wire->connect(port => $self->{port}{co}, deadline => $end, name => 'lying') // return (undef, { M => "no session: $Wire::why", lost => 1 });
	my (@rows, $error);
	my $holder;

	# the deadlock worker asks while the statement waits; it ends by itself
	if ($statement{$name}{blocked})
	{
		$holder = Wire->connect(port => $self->{port}{n1}, deadline => $end, name => 'holder') // return (undef, { M => 'no session on n1', lost => 1 });
		$holder->query('BEGIN; LOCK TABLE grow IN EXCLUSIVE MODE', deadline => $end);
		$timeout = 3;
	}
	foreach my $sql ("SET statement_timeout = '${timeout}s'", @{ $statement{$name}{sql} })
	{
		my $r = $wire->query($sql, deadline => $end);
		push @rows, map { join('|', map { $_ // '' } @$_) } @{ $r->{rows} };
		$error //= $r->{error} if $r->{error};
		$error = { M => 'the session was lost', lost => 1 } if $r->{lost};
		$error = { M => "no end within $patience s of $sql", late => 1 } if $r->{late};
		last if $r->{lost} || $r->{late};
	}
	$error && ($error->{late} || $error->{lost}) ? $wire->drop : $wire->close;
	$holder->close if $holder;
	return (join(';', @rows), $error);
}

sub learn
{
	my ($self) = @_;
	my (%asked, %unknown);

	$self->{proxy}->tell;
	$self->{proxy}->heard;
	foreach my $name (names())
	{
		my ($rows, $error) = $self->run($name, 60);
		if ($error && !$statement{$name}{blocked}) { print "lying: $name: $error->{M} " . ($error->{D} // "") . "\n"; $self->{failed}++; next; }
		$self->{right}{$name} = $rows;
		my ($seen, $unknown) = $self->{proxy}->heard;
		push @{ $asked{$_} }, $name foreach keys %$seen;
		$unknown{$_} = $name foreach keys %$unknown;
	}
	$self->{unknown} = \%unknown;
	return %asked;
}

# The coordinator is there again, and a session that was given up is gone.
sub await_end
{
	my ($self) = @_;
	my $end = time() + 60;

	delete $self->{watch}{co};
	while (time() < $end)
	{
		$self->{watch}{co} = Wire->connect(port => $self->{port}{co}, deadline => time() + 10, name => 'watch') and return;
		sleep(0.2);
	}
	return;
}

sub try
{
	my ($self, $name, $key, $lie, $seed) = @_;

	$self->{proxy}->tell($key, $lie, $seed);
	my $began = time();
	my ($rows, $error) = $self->run($name, Lying::Proxy::is_silent($lie) ? SHORT : 40);
	my $took = time() - $began;
	$self->{proxy}->tell;
	my (undef, undef, $lies) = $self->{proxy}->heard;
	my $what = $error ? join(' ', map { $error->{$_} // () } qw(C M D)) : $rows;

	if ($error && ($error->{late} || $error->{lost}))
	{
		$self->await_end;
		return ($lies, $error->{M}, $what);
	}
	foreach my $node (qw(co n2), $lie =~ /^ask_/ ? 'n1' : ())
	{
		$self->{watch}{$node} //= Wire->connect(port => $self->{port}{$node}, deadline => time() + 60, name => 'watch') // die "lying: $Wire::why\n";
		my $r = $self->{watch}{$node}->query("SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'ledger'", deadline => time() + 30);
		delete $self->{watch}{$node} if $r->{lost} || $r->{error} || $r->{late};
		return ($lies, "$node crashed", $what) if $r->{lost} || $r->{error};
		return ($lies, "$node does not answer", $what) if $r->{late};
		return ($lies, "$node ran what the node said", $what) if $r->{rows}[0][0] != 1 && $node ne 'n1';
	}
	if ($lie =~ /^ask_/)
	{
		# a coordinator may do on a node what the role of its mapping may, but what it leaves prepared would hold locks
		my $left = ask($self->{port}{n1}, 'SELECT gid FROM pg_catalog.pg_prepared_xacts');
		ask($self->{port}{n1}, "ROLLBACK PREPARED '" . ($_->[0] =~ s/'/''/gr) . "'") foreach @$left;
		return ($lies, 'an internal error', $what) if $error && $error->{C} eq 'XX000';
		return ($lies, $error ? 'error' : 'right', $what);
	}
	if ($error)
	{
		my $text = join(' ', map { $error->{$_} // () } qw(M D H W));
		# its server, a foreign table, or the function that asked; or a cast or the parser refuses what it says
		return ($lies, "an error that does not say what it is about", $what)
		  unless $text =~ /\bn1\b|foreign table|remote table|column "\w+"|remote SQL command|function rdma(?:_internal)?\.|"many"/ || $error->{C} =~ /^(?:57014|22|42|54)/;
		return ($lies, 'an internal error', $what) if $error->{C} eq 'XX000' && $text !~ /lie'/;
		return ($lies, 'error', $what);
	}
	# but a row that was locked has a place
	my $any = $statement{$name}{any} || ($rows{$key} && !($key eq 'late_lock' && $lie eq 'null'));
	return ($lies, 'a wrong answer', $what) if !$any && $rows ne $self->{right}{$name};
	return ($lies, 'right', $what);
}

sub end
{
	my ($self) = @_;
	$_->close foreach values %{ $self->{watch} };
	$self->{proxy}->end;
	return;
}

1;
