# Client.pm: the tables, and a client that transfers between them, adds them up, finishes what others left, or moves rows between nodes.
#
#   setup({ co, n1, n2, n3 }, { n1, n2, n3 })      # ports of the servers, and ports by which the coordinator reaches the nodes
#   writer(port => $port, seed => 7, number => 0, file => $file, stop => $file)      # returns some time after the file `stop` is there, or the parent is not
#   reader(...), administrator(...), mover(...)    # likewise
#
# A transfer writes on two or three nodes, or on one or two and here: it moves money between an account on each, and leaves a line in
# the journal of each. So each transfer by itself can be looked for everywhere afterwards. Some change two rows of a distributed table
# besides, whose number and sum stay, on whichever nodes a mover has put them. A writer's file has a line for each:
# { id, parts, outcome: ok, fail or unknown, why }. A reader's has one for each sum that was wrong, and its counts at the end.
package CommitFaults::Client;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use Time::HiRes qw(time sleep);
use Wire;

our @EXPORT_OK = qw(setup writer reader administrator mover NODES BETWEEN MONEY TOTAL SPREAD);

use constant NODES => qw(n1 n2 n3);
use constant ACCOUNTS => 30;		# of each node
use constant BETWEEN => 20;			# the first ones are for transfers between nodes, so their sum over all nodes stays
use constant MONEY => 3 * 100 * BETWEEN;
use constant TOTAL => 3 * 100 * ACCOUNTS + 1000;
use constant SPREAD => 300;			# rows of the distributed table, whose values are their numbers at first
use constant LATE => 60;

sub pick { return $_[ int(rand(scalar @_)) ]; }

sub setup
{
	my ($port, $reached) = @_;
	my %sql = map { $_ => 'CREATE EXTENSION rdma_fdw; CREATE TABLE acc (id int PRIMARY KEY, balance bigint NOT NULL);
		INSERT INTO acc SELECT i, 100 FROM generate_series(1, ' . ACCOUNTS . ') i; CREATE TABLE journal (id text, amount int)' } NODES;

	$sql{co} = 'CREATE EXTENSION rdma_fdw; CREATE SCHEMA co; CREATE TABLE co.acc (id int PRIMARY KEY, balance bigint NOT NULL);
		INSERT INTO co.acc SELECT i, 100 FROM generate_series(1, 10) i; CREATE TABLE co.journal (id text, amount int)';
	$sql{co} .= "; CREATE SERVER $_ FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$reached->{$_}', dbname 'postgres');
		CREATE USER MAPPING FOR postgres SERVER $_ OPTIONS (user 'postgres');
		CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_" foreach NODES;
	$sql{co} .= "; CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '" . join(', ', NODES) . "'); CREATE SCHEMA spread; CREATE TABLE spread.t AS
		SELECT i AS id, i::bigint AS v FROM generate_series(1, " . SPREAD . ") i; SELECT rdma.distribute_table('spread.t', 'many', 'id')";
	foreach my $name (NODES, 'co')
	{
		my $wire = Wire->connect(port => $port->{$name}, deadline => time() + LATE) // die "$name: $Wire::why\n";
		my $r = $wire->query($sql{$name}, deadline => time() + LATE);

		die "$name: " . ($r->{error} ? $r->{error}{M} : 'lost') . "\n" if $r->{error} || $r->{lost} || $r->{late};
		$wire->close;
	}
	return;
}

# Dies with { lost, why } or { why }.
sub statement
{
	my ($self, $sql) = @_;
	my $r = $self->{wire}->query($sql, deadline => time() + LATE);

	if ($r->{lost} || $r->{late} || ($r->{error} && ($r->{error}{S} // 'FATAL') eq 'FATAL'))
	{
		$self->{wire}->drop;
		$self->{wire} = undef;
		die { lost => 1, why => $r->{error} ? "$r->{error}{C} $r->{error}{M}" : $r->{late} ? 'late' : 'lost' };
	}
	die { why => "$r->{error}{C} $r->{error}{M}" } if $r->{error};
	return $r;
}

# Several in a file: each is there as soon as it is known.
sub note { my ($self, $line) = @_; syswrite($self->{out}, encode_json($line) . "\n"); return; }

sub begin
{
	my (%args) = @_;

	srand($args{seed} * 100 + $args{number});
	open(my $out, '>', $args{file}) or die "$args{file}: $!\n";
	return bless { %args, out => $out, done => 0, parent => getppid() };
}

sub connected
{
	my ($self) = @_;

	$self->{wire} //= Wire->connect(port => $self->{port}, deadline => time() + 20, name => "client $self->{number}");
	sleep(0.05) unless $self->{wire};
	return $self->{wire};
}

sub transfer
{
	my ($self) = @_;
	my @nodes = sort { rand() <=> 0.5 } NODES;
	my $here = rand() < 0.4;
	my @parts = sort(@nodes[ 0 .. ($here ? 0 : 1) + (rand() < 0.4 ? 1 : 0) ]);
	my %t = (id => "$self->{seed}.$self->{number}." . ++$self->{done}, outcome => 'fail');
	my ($sum, $committing) = (0, 0);

	# here first or last
	@parts = rand() < 0.5 ? ('co', @parts) : (@parts, 'co') if $here;
	$t{parts} = [@parts];
	eval {
		$self->statement('BEGIN' . (rand() < 0.3 ? ' ISOLATION LEVEL REPEATABLE READ' : '') . (rand() < 0.3 ? '; SET LOCAL synchronous_commit = off' : ''));
		foreach my $part (@parts)
		{
			my $amount = $part eq $parts[-1] ? -$sum : 1 + int(rand(9));
			my $account = !$here ? 1 + int(rand(BETWEEN)) : $part eq 'co' ? 1 + int(rand(10)) : BETWEEN + 1 + int(rand(ACCOUNTS - BETWEEN));

			$sum += $amount;
			$self->statement("UPDATE $part.acc SET balance = balance + $amount WHERE id = $account");
			$self->statement("INSERT INTO $part.journal VALUES ('$t{id}', $amount)");
		}
		if (rand() < 0.3)
		{
			my @rows = sort { $a <=> $b } map { 1 + int(rand(SPREAD)) } 1 .. 2;

			$self->statement("UPDATE spread.t SET v = v + 1 WHERE id = $rows[0]; UPDATE spread.t SET v = v - 1 WHERE id = $rows[1]");
		}
		$committing = 1;
		$t{outcome} = 'ok' if $self->statement('COMMIT')->{tags}[0] eq 'COMMIT';
		1;
	} or do {
		my $error = $@;

		die $error unless ref $error;
		$t{why} = $error->{why};
		$t{outcome} = 'unknown' if $committing && $error->{lost};
		eval { $self->statement('ROLLBACK'); } if $self->{wire};
	};
	$self->note(\%t);
	return;
}

sub writer
{
	my $self = begin(@_);

	while (!-e $self->{stop} && getppid() == $self->{parent})
	{
		$self->transfer if $self->connected;
	}
	return;
}

sub sum
{
	my ($self, @nodes) = @_;

	return $self->statement('SELECT sum(balance) FROM (' .
		join(' UNION ALL ', map { "SELECT balance FROM $_.acc WHERE id <= " . BETWEEN } @nodes) . ') every')->{rows}[0][0];
}

sub reader
{
	my $self = begin(@_);
	my %count = (sums => 0, refused => 0);

	while (!-e $self->{stop} && getppid() == $self->{parent})
	{
		next unless $self->connected;
		eval {
			my $block = rand() < 0.4;
			my $sum;

			$self->statement('BEGIN ISOLATION LEVEL REPEATABLE READ') if $block;
			if ($block && rand() < 0.5)
			{
				my @nodes = sort { rand() <=> 0.5 } NODES;
				my $first = $self->sum(@nodes[ 0, 1 ]);

				$sum = $first + $self->sum($nodes[2]);
			}
			else { $sum = $self->sum(NODES); }
			$self->statement('COMMIT') if $block;
			$count{sums}++;
			$self->note({ torn => $sum }) if $sum != MONEY;
			$sum = $self->statement('SELECT count(*) || \'/\' || sum(v) FROM spread.t')->{rows}[0][0];
			$self->note({ torn => $sum }) if $sum ne SPREAD . '/' . SPREAD * (SPREAD + 1) / 2;
			1;
		} or do {
			my $error = $@;

			die $error unless ref $error;
			$count{refused}++;
			$self->note({ late => 1 }) if $error->{why} eq 'late';
			eval { $self->statement('ROLLBACK'); } if $self->{wire};
		};
		sleep(0.02);
	}
	$self->note(\%count);
	return;
}

# rdma.resolve beside the resolver, and what it has finished is not in the transaction that called it
sub administrator
{
	my $self = begin(@_);

	while (!-e $self->{stop} && getppid() == $self->{parent})
	{
		next unless $self->connected;
		eval {
			my $sql = q{SELECT rdma.resolve('} . pick(NODES) . q{')};

			$self->statement(rand() < 0.5 ? $sql : "BEGIN; $sql; ROLLBACK");
			1;
		} or do {
			my $error = $@;

			die $error unless ref $error;
			$self->note({ late => 1 }) if $error->{why} eq 'late';
			eval { $self->statement('ROLLBACK'); } if $self->{wire};
		};
		sleep(rand(0.5));
	}
	return;
}

# some buckets of one node to another
sub mover
{
	my $self = begin(@_);
	my %count = (moves => 0, unmoved => 0);

	while (!-e $self->{stop} && getppid() == $self->{parent})
	{
		next unless $self->connected;
		eval {
			my ($source, $target) = sort { rand() <=> 0.5 } NODES;

			$self->statement("SELECT rdma.move_buckets('many', '$source', '$target', ARRAY(SELECT number::int - 1 FROM unnest(rdma.buckets('many')) WITH ORDINALITY b(place, number)
				JOIN rdma.nodes('many') n USING (place) WHERE n.node = '$source' ORDER BY random() LIMIT " . (1 + int(rand(60))) . '), 1000)');
			$count{moves}++;
			1;
		} or do {
			my $error = $@;

			die $error unless ref $error;
			$count{unmoved}++;
			$self->note({ late => 1 }) if $error->{why} eq 'late';
		};
		sleep(rand(0.1));
	}
	$self->note(\%count);
	return;
}

1;
