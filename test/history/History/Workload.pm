# Workload.pm: tables, and a client that makes a history in them.
#
#   my @parts = setup(keys => 2400, n1 => $port, n2 => $port);      # [ 'co' | 'n1' | 'n2', sql ] in their order
#   client(port => $port, seed => 7, number => 0, count => 500, file => $file, mode => 'common');   # returns at its end
#   my ($final, $journal, $total) = final_state(\%port);
#
# Lists are rows of n1.l and n2.l, which lie on a node each, and of d, which lies on both. Three lists that follow each other by
# number are one of each; which are used moves on, so that they stay short. The bank is a table over both nodes and a local one.
package History::Workload;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use Time::HiRes qw(time sleep);
use Wire;

our @EXPORT_OK = qw(setup client final_state SLOTS WINDOW ACCOUNTS);

use constant SLOTS => 15;		# lists that are used at a time
use constant WINDOW => 60;		# transactions of a client until it uses others
use constant ACCOUNTS => 60;
use constant LATE => 90;

my @tables = ('n1.l', 'n2.l', 'd');

sub setup
{
	my (%args) = @_;
	my $lists = "INSERT INTO %s SELECT g, '{}' FROM generate_series(0, $args{keys} - 1) g WHERE g %% 3 = %d;";
	my @parts = map { [ $_, 'CREATE EXTENSION IF NOT EXISTS rdma_fdw; CREATE TABLE l (k int PRIMARY KEY, v int[] NOT NULL);' . sprintf($lists, 'l', $_ eq 'n1' ? 0 : 1) ] } qw(n1 n2);
	my $sql = 'CREATE EXTENSION IF NOT EXISTS rdma_fdw;';

	foreach my $name (qw(n1 n2))
	{
		$sql .= "CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$args{$name}', dbname 'postgres');
			CREATE USER MAPPING FOR postgres SERVER $name OPTIONS (user 'postgres');
			CREATE SCHEMA $name; CREATE FOREIGN TABLE $name.l (k int, v int[]) SERVER $name OPTIONS (schema_name 'public', table_name 'l');";
	}
	$sql .= "CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
		CREATE TABLE d (k int PRIMARY KEY, v int[] NOT NULL);" . sprintf($lists, 'd', 2) . "
		CREATE TABLE acc (id int PRIMARY KEY, balance bigint NOT NULL);
		INSERT INTO acc SELECT i, 100 FROM generate_series(1, @{[ACCOUNTS]}) i;
		CREATE TABLE journal (id text NOT NULL);
		CREATE TABLE till (id int PRIMARY KEY, balance bigint NOT NULL);
		INSERT INTO till SELECT i, 100 FROM generate_series(1, 10) i;";
	push @parts, [ 'co', $sql ], map { [ 'co', "SET client_min_messages = warning; SELECT rdma.distribute_table($_); ANALYZE" ] } "'d', 'many', 'k'", "'acc', 'many', 'id'";
	return @parts;
}

# ---------- what a transaction does ----------

sub pick { return $_[ int(rand(scalar @_)) ]; }

sub table_of { my ($key) = @_; return $tables[ $key % 3 ]; }

sub values_of { my ($text) = @_; return [ split(/,/, substr($text, 1, -1)) ]; }

# One statement that reads some lists.
sub read_sql
{
	my (@keys) = @_;
	my %by_table;

	push @{ $by_table{ table_of($_) } }, $_ foreach @keys;
	if (@keys == 2 && rand() < 0.5)
	{
		my ($a, $b) = @keys;

		return sprintf('SELECT a.k, a.v, b.k, b.v FROM %s a, %s b WHERE a.k = %d AND b.k = %d', table_of($a), table_of($b), $a, $b);
	}
	if (keys %by_table == 1 && $by_table{d} && rand() < 0.3)
	{
		my ($low, $high) = (sort { $a <=> $b } @keys)[ 0, -1 ];

		return "SELECT a.k, a.v FROM d a JOIN d b ON b.k = $low + $high - a.k WHERE a.k IN (" . join(', ', @keys) . ", $low, $high)" if @keys <= 2;
	}
	return join(' UNION ALL ', map { "SELECT k, v FROM $_ WHERE k IN (" . join(', ', @{ $by_table{$_} }) . ')' } sort keys %by_table);
}

sub statement
{
	my ($self, $sql) = @_;
	my $r = $self->{wire}->query($sql, deadline => time() + LATE);

	if ($r->{lost} || $r->{late} || ($r->{error} && ($r->{error}{S} // 'FATAL') eq 'FATAL'))
	{
		$self->{wire}->drop;
		$self->{wire} = undef;
		$self->{late}++ if $r->{late};
		die { lost => 1, why => $r->{error} ? "$r->{error}{C} $r->{error}{M}" : $r->{late} ? 'late' : 'lost' };
	}
	die { why => "$r->{error}{C} $r->{error}{M}", state => $r->{error}{C} } if $r->{error};
	return $r;
}

sub reads
{
	my ($self, $ops, @keys) = @_;
	my $sql = read_sql(@keys);
	my %read;

	foreach my $row (@{ $self->statement($sql)->{rows} })
	{
		$read{ $row->[0] } = values_of($row->[1]);
		$read{ $row->[2] } = values_of($row->[3]) if @$row > 2;
	}
	foreach my $key (@keys)
	{
		die "no list $key: $sql\n" unless $read{$key};
	}
	push @$ops, [ 'r', \%read ];
	return \%read;
}

# In REPEATABLE READ half of them write the list that they have read.
sub append
{
	my ($self, $ops, $key, $level) = @_;
	my $value = $self->{next_value}++;
	my $table = table_of($key);
	my $new = "v || $value";

	$new = "'{" . join(',', @{ $self->reads($ops, $key)->{$key} }, $value) . "}'" if $level eq 'rr' && rand() < 0.5;
	# before it is sent: nobody knows what becomes of it if the connection is lost
	push @$ops, [ 'a', $key, $value ];
	$self->statement("UPDATE $table SET v = $new WHERE k = $key");
	return;
}

# Those that are used now begin with it.
sub first_list { my ($self) = @_; return SLOTS * int($self->{done} / WINDOW); }

sub lists
{
	my ($self, $t) = @_;
	my @keys = map { $self->first_list + $_ } 0 .. SLOTS - 1;
	my @steps = map { rand() < 0.5 ? [ 'a', pick(@keys) ] : [ 'r', pick(@keys) ] } 1 .. 1 + int(rand(5));
	my @appends = map { $_->[1] } grep { $_->[0] eq 'a' } @steps;

	# mostly in one order, so that not too many wait for each other in a circle
	@appends = sort { $a <=> $b } @appends if rand() < 0.9;
	foreach my $step (@steps)
	{
		if ($step->[0] eq 'a') { $self->append($t->{ops}, shift @appends, $t->{level}); next; }
		my %keys = map { $_ => 1 } $step->[1], map { pick(@keys) } 1 .. int(rand(4));
		$self->reads($t->{ops}, sort { $a <=> $b } keys %keys);
	}
	return;
}

my @sums = (
	'SELECT sum(balance) FROM acc',
	'SELECT sum(a.balance) FROM acc a JOIN acc b USING (id, balance)',
	'SELECT sum(a.balance) FROM acc a JOIN acc b ON a.id = ' . (ACCOUNTS + 1) . ' - b.id');

sub bank
{
	my ($self, $t) = @_;

	if (rand() < 0.5)
	{
		my $sum = $self->statement(pick(@sums))->{rows}[0][0];

		$t->{sums} = [$sum];
		push @{ $t->{sums} }, $self->statement(pick(@sums))->{rows}[0][0] if $t->{block} && rand() < 0.5;
		return;
	}
	my ($from, $to) = sort { $a <=> $b } map { 1 + int(rand(ACCOUNTS)) } 1, 2;
	my $sum = 1 + int(rand(9));

	$self->statement("UPDATE acc SET balance = balance - $sum WHERE id = $from");
	$self->statement("UPDATE acc SET balance = balance + $sum WHERE id = $to");
	return;
}

# From the coordinator to a node or back, or between nodes in a transaction that notes itself at the coordinator.
sub tills
{
	my ($self, $t) = @_;
	my ($account, $till, $sum) = (1 + int(rand(ACCOUNTS)), 1 + int(rand(10)), 1 + int(rand(9)));

	# there and back again: sums over nodes are the same for who sees all of it
	$self->statement("UPDATE acc SET balance = balance - $sum WHERE id = $account");
	$self->statement("UPDATE till SET balance = balance + $sum WHERE id = $till");
	$self->statement("UPDATE till SET balance = balance - $sum WHERE id = $till");
	$self->statement('UPDATE acc SET balance = balance + ' . $sum . ' WHERE id = ' . (1 + int(rand(ACCOUNTS))));
	return;
}

# One statement without a block
sub alone
{
	my ($self, $t, $kind) = @_;
	my @keys = map { $self->first_list + int(rand(SLOTS)) } 1 .. 1 + int(rand(4));
	my %keys = map { $_ => 1 } @keys;

	if ($kind eq 'bank') { $t->{sums} = [ $self->statement(pick(@sums))->{rows}[0][0] ]; }
	elsif (defined $self->{follows})
	{
		$self->append($t->{ops}, delete $self->{follows}, 'rc');
	}
	elsif (rand() < 0.5) { $self->reads($t->{ops}, sort { $a <=> $b } keys %keys); }
	else
	{
		# the next transaction is one on the other node: nobody may see it without this one
		$self->append($t->{ops}, $keys[0], 'rc');
		$self->{follows} = $keys[0] % 3 == 0 ? $keys[0] + 1 : $keys[0] - $keys[0] % 3;
	}
	return;
}

# One transaction, with all that the checker needs of it.
sub transaction
{
	my ($self) = @_;
	my $follows = defined $self->{follows};
	my $kind = $follows || rand() < 0.75 ? 'lists' : rand() < 0.8 ? 'bank' : 'tills';
	my %t = (id => "T$self->{number}.$self->{done}", client => $self->{number}, level => !$follows && rand() < 0.5 ? 'rr' : 'rc', ops => [], outcome => 'fail');
	my $sent = 0;

	# a statement by itself is a transaction, too
	$t{block} = !$follows && ($t{level} eq 'rr' || $kind eq 'tills' || rand() < 0.6) ? 1 : 0;
	$t{start} = time();
	eval {
		$self->statement($t{level} eq 'rr' ? 'BEGIN ISOLATION LEVEL REPEATABLE READ' : 'BEGIN') if $t{block};
		if (!$t{block})
		{
			$sent = 1;
			$self->alone(\%t, $kind);
			$t{outcome} = 'ok';
		}
		else
		{
			$self->$kind(\%t);
			if ($kind eq 'lists' && rand() < 0.1)
			{
				$t{journal} = 1;
				$self->statement("INSERT INTO journal VALUES ('$t{id}')");
			}
			if (rand() < 0.04) { $self->statement('ROLLBACK'); $t{why} = 'on purpose'; }
			else
			{
				$sent = 1;
				$t{outcome} = 'ok' if $self->statement('COMMIT')->{tags}[0] eq 'COMMIT';
			}
		}
		1;
	} or do {
		my $error = $@;

		die $error unless ref $error;
		$t{why} = $error->{why};
		$t{outcome} = 'info' if $sent && $error->{lost};
		eval { $self->statement('ROLLBACK'); } if $self->{wire} && $t{block};
	};
	$t{finish} = time();
	return \%t;
}

sub client
{
	my (%args) = @_;
	my $self = bless { %args, done => 0, next_value => 1 + $args{number} * 10_000_000 }, __PACKAGE__;
	my $end = time() + LATE;

	srand($args{seed} * 1000 + $args{number});
	open(my $out, '>', $args{file}) or die "$args{file}: $!\n";
	while ($self->{done} < $args{count})
	{
		$self->{wire} //= Wire->connect(port => $args{port}, deadline => time() + 20, name => 'history');
		if ($self->{wire} && !$self->{set})
		{
			$self->{set} = eval { $self->statement("SET rdma_fdw.snapshot = $args{mode}"); 1; };
		}
		if (!$self->{wire})
		{
			$self->{set} = 0;
			die "no connection: $Wire::why\n" if time() > $end;
			sleep(0.1);
			next;
		}
		$end = time() + 3 * LATE;
		$self->{done}++;
		print $out encode_json($self->transaction) . "\n";
		$self->{set} = 0 unless $self->{wire};
	}
	close $out;
	return;
}

# ---------- afterwards ----------

sub final_state
{
	my ($port) = @_;
	my %final;
	my %wire = map { $_ => Wire->connect(port => $port->{$_}, deadline => time() + 60, name => 'history end') // die "$_: $Wire::why\n" } qw(co n1 n2);
	my $ask = sub { my $r = $wire{ $_[0] }->query($_[1], deadline => time() + 120); die "$_[1]: $r->{error}{M}\n" if $r->{error}; return @{ $r->{rows} }; };

	foreach my $row (map { $ask->($_, "SELECT k, v FROM l WHERE v <> '{}' UNION ALL SELECT k, v FROM d WHERE v <> '{}'") } qw(n1 n2))
	{
		$final{ $row->[0] } = values_of($row->[1]);
	}
	my %journal;
	$journal{ $_->[0] }++ foreach $ask->('co', 'SELECT id FROM journal');
	my ($total) = $ask->('co', 'SELECT (SELECT sum(balance) FROM acc) + (SELECT sum(balance) FROM till)');
	$_->close foreach values %wire;
	return (\%final, \%journal, $total->[0]);
}

1;
