# Workload.pm: one client, a process of its own. It asks what it knows the answers of and writes
# rows that it keeps the books of, in sessions of random settings, until it gets SIGTERM. What it
# sees goes to client.N.log, a line per event:
#
#   TIME right NAME          TIME error SQLSTATE text          TIME lost text          TIME WRONG text          TIME did TAG: statement
#
# Wrong is: another answer; an error of a class that no fault explains, or that does not say whose
# fault it is; a statement that takes longer than its statement_timeout and what cleaning up may
# take; rows that are there and should not be, or the other way round.
package Workload;

use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(time sleep);
use Setup;
use Shapes;
use Wire;

# What a fault may show as: connections, operator intervention, resources, rollbacks, objects in
# use, states of transactions. No client goes on in a failed transaction, so 25P02 is a data node's
# whose transaction failed without the coordinator's.
our $allowed = qr/^(08|57|53|40|55|25(?!P02))/;
# The injector makes serializable the default, and some statements use both nodes.
our $refused = qr/a SERIALIZABLE transaction cannot use several nodes/;
# Cleaning up a session on a data node waits 30 s for the cancel and 30 s for the abort, as
# postgres_fdw does; the rest is for load.
our $cleaning = 60;
our $margin = 30;

sub new
{
	my ($class, %args) = @_;			# co, dir, number, home (node of its rows: 1 or 2), pace, seed
	my $self = bless { batches => {}, next_batch => 1, paused => 0, right => 0, %args }, $class;
	return $self;
}

sub run
{
	my ($self) = @_;
	my $stop = 0;

	srand($self->{seed});
	$SIG{TERM} = sub { $stop = 1; };
	$SIG{PIPE} = 'IGNORE';
	open($self->{log}, '>>', "$self->{dir}/client.$self->{number}.log") or die "$!\n";
	$self->{log}->autoflush(1);
	$self->{paused} = $self->paused;
	while (!$stop)
	{
		$self->session(sub { $stop });
	}
	$self->{connection}->close if $self->{connection};
	$self->save;
	return;
}

sub note
{
	my ($self, $kind, $text) = @_;
	$text =~ s/\s*\n\s*/ ~ /g;
	print { $self->{log} } sprintf("%.3f %s %s\n", time(), $kind, $text);
	return;
}

sub pick { my (@list) = @_; return $list[ int(rand(@list)) ]; }

sub paused
{
	my ($self) = @_;
	open(my $f, '<', "$self->{dir}/paused") or return $self->{paused};
	my $seconds = <$f>;
	return defined $seconds && $seconds =~ /^([\d.]+)$/ ? $1 : $self->{paused};
}

# ---- sessions

my @settings = (
	[ 'rdma_fdw.receive_buffers', 1, 2, 4, 16 ], [ 'rdma_fdw.receive_buffer_size', '4kB', '4kB', '8kB', '32kB', '256kB', '1MB' ],
	[ 'rdma_fdw.inline_limit', '0', '1kB', '64kB', '1MB' ], [ 'rdma_fdw.exchange_strategy', qw(auto auto colocated repartition_one repartition_both replicate pull) ],
	[ 'rdma_fdw.disable', '', qw(exchange_filters exchange_filter_costs partitions local_rows decorrelation decorrelation_costs),
		'exchange_filter_costs, decorrelation_costs', 'exchange_filters, partitions, local_rows', 'receive_pool', 'receive_pool_costs, receive_claims' ],
	[ 'rdma_fdw.buffer_wait', '0', '500ms', '5s' ], [ 'rdma_fdw.connect_timeout', '500ms', '3s', '10s' ],
	[ 'rdma_fdw.measured_costs', qw(on off) ], [ 'rdma_fdw.flow_weight', 1, 100 ], [ 'work_mem', '64kB', '1MB', '16MB' ],
	[ 'lock_timeout', '0', '0', '200ms' ], [ 'plan_cache_mode', qw(auto force_generic_plan force_custom_plan) ],
	[ 'enable_hashjoin', qw(on off) ], [ 'enable_mergejoin', qw(on off) ], [ 'enable_nestloop', qw(on on off) ], [ 'enable_hashagg', qw(on off) ],
	[ 'enable_partitionwise_join', qw(on off) ], [ 'enable_partitionwise_aggregate', qw(on off) ], [ 'enable_async_append', qw(on on off) ],
	[ 'max_parallel_workers_per_gather', 0, 2 ], [ 'default_transaction_isolation', "'read committed'", "'repeatable read'" ]);

sub session
{
	my ($self, $stop) = @_;
	my $c = $self->{connection} = Wire->connect(port => $self->{co}->port, deadline => time() + 60, name => "chaos client $self->{number}");

	if (!$c)
	{
		# The coordinator is down, or starts; for how long is judged when all faults are over.
		$self->note('lost', "no connection: $Wire::why");
		sleep(0.3);
		return;
	}
	$self->{schema} = pick(@Setup::SCHEMAS);
	$self->{timeout} = $self->{pace} * pick(0.1, 0.5, 3, 10, 20, 20);
	my $sql = Shapes::session($self->{schema}) . sprintf('; SET statement_timeout = %d', 1000 * $self->{timeout});
	foreach my $setting (@settings)
	{
		next if rand() < 0.6;
		my ($name, @values) = @$setting;
		my $value = pick(@values);
		$sql .= "; SET $name = " . ($value =~ /^'/ ? $value : "'$value'");
	}
	# rows and batches in pieces, read by scans that take turns on a session
	$self->{shapes} = \@Shapes::list;
	if (rand() < 0.2)
	{
		$sql .= "; SET rdma_fdw.receive_buffer_size = '4kB'; SET rdma_fdw.exchange_strategy = pull; SET rdma_fdw.disable = partitions";
		$self->{shapes} = [ grep { $_->{name} =~ /join|fat|_at_once/ } @Shapes::list ];
	}
	$sql .= '; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0' if rand() < 0.4;
	$self->ask($sql) or return;
	for (1 .. 1 + int(rand(25)))
	{
		last if $stop->() || !$self->{connection};
		my $what = rand();
		if ($what < 0.55) { $self->read_shape; }
		elsif ($what < 0.62) { $self->read_cursors; }
		elsif ($what < 0.68) { $self->read_prepared; }
		elsif ($what < 0.95) { $self->write_batches; }
		elsif ($what < 0.98) { $self->check_batches; }
		else { $self->leave; }
	}
	return unless $self->{connection};
	$self->{connection}->close;
	$self->{connection} = undef;
	return;
}

# A client that dies while the server works for it
sub leave
{
	my ($self) = @_;
	$self->{connection}->drop(pick(@Shapes::list)->{sql});
	$self->{connection} = undef;
	return;
}

# One query. The result without an error, or undef after noting what it was; $self->{sqlstate} has
# it.
sub ask
{
	my ($self, $sql, %args) = @_;
	my $began = time();
	my $seconds = $self->{timeout} + $cleaning + $margin * ($self->{pace} < 1 ? 1 : $self->{pace});
	my $c = $self->{connection};
	my $r = $c->query($sql, deadline => $began + $seconds, copy => $args{copy}, more => sub {
		my $before = $self->{paused};
		$self->{paused} = $self->paused;
		return $self->{paused} - $before;
	});

	$self->{paused} = $self->paused;
	$self->{sqlstate} = '';
	if (my $e = $r->{error})
	{
		$self->{sqlstate} = $e->{C};
		my $text = join(' / ', map { $e->{$_} // () } qw(M D H W));
		$self->note('error', "$e->{C} $text");
		sleep(0.2) if $e->{C} =~ /^08/;				# a peer is down; other statements need the processor
		if ($e->{C} !~ $allowed && $text !~ $refused && !($args{also} && $e->{C} =~ $args{also})) { $self->wrong("an error that no fault explains: $e->{C} $text", $sql); }
		elsif ($e->{C} =~ $allowed && !says_whose($e)) { $self->wrong("an error that does not say whose: $e->{C} $text", $sql); }
		if ($e->{S} eq 'FATAL')
		{
			$c->drop;
			$self->{connection} = undef;
		}
		return undef;
	}
	if ($r->{lost})
	{
		$self->note('lost', "in $sql");
		$c->drop;
		$self->{connection} = undef;
		return undef;
	}
	if ($r->{late})
	{
		$self->wrong(sprintf('no end after %.0f s, with statement_timeout %.1f s', time() - $began, $self->{timeout}), $sql);
		$self->{late}->($c->pid) if $self->{late};
		$c->drop;
		$self->{connection} = undef;
		return undef;
	}
	$self->note('did', join(' ', @{ $r->{tags} }) . ': ' . substr($sql, 0, 150)) unless $sql =~ /^(SELECT|FETCH|EXECUTE)/;
	return $r;
}

sub wrong
{
	my ($self, $what, $sql) = @_;
	$self->note('WRONG', "$what; schema $self->{schema}: $sql");
	return;
}

# The message or its detail has the peer, the setting or the event. Contexts do not count.
sub says_whose
{
	my ($e) = @_;
	my $text = join("\n", map { $e->{$_} // () } qw(M D H));

	return 0 if $text =~ /internal error|damaged|unexpected\s(message|answer|result|state|status)/;
	return $text =~ /\bn[12]\b|127\.0\.0\.1|rdma_fdw\.\w+|engine|terminat|postmaster|parallel\sworker|canceling\sstatement|starting\sup|shutting\sdown|recovery|time-?out|not\syet\saccepting
		|too\smany|remaining\sconnection\sslots|limit\b|lock\stimeout|obtain\slock|deadlock|read-only|serializ|memory/xi;
}

# ---- reading

sub compare
{
	my ($self, $name, $sql, $rows, $answer) = @_;
	my $got = Shapes::text($rows);

	if ($got eq $answer)
	{
		$self->note('right', $name);
		return 1;
	}
	my ($g, $a) = map { length($_) > 400 ? substr($_, 0, 400) . '... (' . (tr/\n// + 1) . ' rows)' : $_ } ($got, $answer);
	$self->wrong("wrong answer of $name: got $g ; right is $a", $sql);
	return 0;
}

sub read_shape
{
	my ($self) = @_;
	my $shape = pick(@{ $self->{shapes} });
	my $r = $self->ask($shape->{sql}) or return;
	$self->compare($shape->{name}, $shape->{sql}, $r->{rows}, $shape->{answer});
	return;
}

sub give_up
{
	my ($self) = @_;
	$self->ask('ROLLBACK') if $self->{connection};
	return;
}

# Two cursors over the same server, read in turns and closed early
sub read_cursors
{
	my ($self) = @_;
	my %at = (a => 0, b => 0);
	my %step = (a => pick(1, 10, 500), b => pick(7, 300));

	$self->ask('BEGIN') or return;
	$self->ask('DECLARE a CURSOR FOR SELECT n, s FROM item ORDER BY n') && $self->ask('DECLARE b CURSOR FOR SELECT n, s FROM item WHERE stay(n) % 2 = 0 ORDER BY n')
	  or return $self->give_up;
	for (1 .. 2 + int(rand(8)))
	{
		my $cursor = pick('a', 'b');
		my $r = $self->ask("FETCH $step{$cursor} FROM $cursor") or return $self->give_up;
		my $every = $cursor eq 'a' ? 1 : 2;
		my @right = map { $at{$cursor} + $_ * $every } 1 .. scalar(@{ $r->{rows} });
		$at{$cursor} += $every * @{ $r->{rows} };
		my @got = map { $_->[0] } @{ $r->{rows} };
		my $some = $at{$cursor} < 20000 * $self->{size} ? $step{$cursor} : scalar(@got);
		if ("@got" ne "@right" || @got != $some)
		{
			$self->wrong("wrong rows of cursor $cursor: got " . @got . " rows of which the first is $got[0], right are $some from $right[0] on", 'FETCH');
			last;
		}
		$self->note('right', 'cursor');
	}
	$self->ask(pick('COMMIT', 'ROLLBACK', 'CLOSE a; COMMIT'));
	return;
}

sub read_prepared
{
	my ($self) = @_;

	$self->ask('PREPARE p (int, int) AS SELECT count(*), sum(n), bool_and(s = md5((n * 3)::text)) FROM (SELECT * FROM item WHERE n > $1 AND n <= $2 OFFSET 0) x') or return;
	for (1 .. 2 + int(rand(8)))
	{
		my $from = int(rand(15000 * $self->{size}));
		my $rows = 1 + int(rand(pick(5, 4000) * $self->{size}));
		my $r = $self->ask("EXECUTE p($from, " . ($from + $rows) . ')') or next;
		$self->compare('prepared', "EXECUTE p($from, " . ($from + $rows) . ')', $r->{rows}, "$rows|" . ($rows * $from + $rows * ($rows + 1) / 2) . '|t');
	}
	continue
	{
		return unless $self->{connection};
	}
	$self->ask('DEALLOCATE p');
	return;
}

# ---- writing
#
# A batch is known by its rows and their sum: { may => [ 'rows sum', ... ] }, '0 0' when it is not
# there. More than one possibility means that a COMMIT ended with an error, which may have come
# before or after the data node's; such a batch is left alone from then on, and must be one of the
# two whenever it is looked at.

my @ways = qw(select select remote values copy returning);

sub write_batches
{
	my ($self) = @_;
	my $table = pick("direct.w$self->{home}", 'many.w', $self->{schema} eq 'async' ? 'async.w' : 'two.w');
	my $alone = rand() < 0.3;
	my %new;			# batch => what it would be
	my ($failed, $tried);

	if (!$alone)
	{
		$self->ask('BEGIN') or return;
	}
	for (1 .. ($alone ? 1 : 1 + int(rand(4))))
	{
		my $savepoint = !$alone && rand() < 0.25;
		if ($savepoint && !$self->ask('SAVEPOINT s')) { $failed = 1; last; }
		my ($batch, $after) = $self->change($table, \%new);
		next unless defined $batch;
		if (!defined $after)
		{
			# What it could have become counts where it was its own transaction.
			$tried = $self->{tried};
			$failed = 1;
			if ($savepoint && $self->{connection} && $self->ask('ROLLBACK TO s')) { $failed = 0; next; }
			last;
		}
		if ($savepoint && rand() < 0.4)
		{
			if (!$self->ask('ROLLBACK TO s')) { $failed = 1; last; }
			next;
		}
		$new{$batch} = $after;
		if (!$alone && rand() < 0.3 && !$self->own_write($table, $batch, $after)) { $failed = 1; last; }
	}
	if ($alone)
	{
		$self->settle_batches({ %new, $failed ? %$tried : () }, $failed);
		return;
	}
	if ($failed)
	{
		$self->give_up;
		return;
	}
	if (rand() < 0.2)
	{
		$self->ask('ROLLBACK');
		return;
	}
	# A scan that the transaction leaves open, and that fails when it is not read any more: its
	# writes are committed, or there is an error.
	if (rand() < 0.15)
	{
		my $cursor = 'DECLARE open CURSOR FOR SELECT n FROM ' . pick('bad', 'slow', 'item');
		$self->ask($cursor) && $self->ask('FETCH 1 FROM open', also => qr/22012/) or return $self->give_up;
	}
	my $r = $self->ask('COMMIT', also => qr/22012/);
	return if $r && $r->{tags}[0] eq 'ROLLBACK';
	$self->settle_batches(\%new, !$r);
	return;
}

sub settle_batches
{
	my ($self, $new, $ambiguous) = @_;
	foreach my $batch (keys %$new)
	{
		my $old = $self->{batches}{$batch} // { may => ['0 0'] };
		my %may = map { $_ => 1 } ($ambiguous ? @{ $old->{may} } : ()), $new->{$batch};
		$self->{batches}{$batch} = { may => [ sort keys %may ] };
	}
	return;
}

# Change one batch. Its number and what it is afterwards; undef instead when it failed, with { batch
# => what } in $self->{tried}.
sub change
{
	my ($self, $table, $new) = @_;
	my @known = grep { @{ $self->{batches}{$_}{may} } == 1 && $self->{batches}{$_}{may}[0] ne '0 0' && !exists $new->{$_} } sort { $a <=> $b } keys %{ $self->{batches} };
	my $client = $self->{number};
	my ($batch, $after, $sql, $tag, $copy);

	if (@known < 3 || (@known < 12 && rand() < 0.5))
	{
		$batch = $self->{next_batch}++;
		my $way = pick(@ways);
		my $rows = $way eq 'values' || $way eq 'returning' ? 1 + int(rand(5)) : pick(1, 20, 500, 3000);
		$rows = 1 + int($rows * $self->{size});
		my $pad = rand() < 0.1 && $rows <= 20 ? 3000 : 1;
		my $row = "$client, $batch, i, i * 3, repeat(md5('$batch:' || i), $pad)";
		$after = "$rows " . 3 * $rows * ($rows + 1) / 2;
		$tag = $way eq 'copy' ? "COPY $rows" : "INSERT 0 $rows";
		if ($way eq 'select' || $way eq 'returning') { $sql = "INSERT INTO $table SELECT $row FROM generate_series(1, $rows) i" . ($way eq 'returning' ? ' RETURNING id' : ''); }
		elsif ($way eq 'remote') { $sql = "INSERT INTO $table SELECT $client, $batch, n, n * 3, repeat(md5('$batch:' || n), $pad) FROM item WHERE n <= $rows"; }
		elsif ($way eq 'values') { $sql = "INSERT INTO $table VALUES " . join(', ', map { my $i = $_; my $one = $row; $one =~ s/\bi\b/$i/g; "($one)" } 1 .. $rows); }
		else
		{
			require Digest::MD5;
			$sql = "COPY $table FROM STDIN";
			$copy = join('', map { join("\t", $client, $batch, $_, $_ * 3, Digest::MD5::md5_hex("$batch:$_") x $pad) . "\n" } 1 .. $rows);
		}
	}
	else
	{
		$batch = pick(@known);
		my ($rows, $sum) = split(/ /, $self->{batches}{$batch}{may}[0]);
		my $where = "WHERE client = $client AND batch = $batch";
		my $how = rand();
		if ($how < 0.3) { $sql = "UPDATE $table SET v = v + 1 $where"; }
		elsif ($how < 0.6) { $sql = "UPDATE $table SET v = v + stay(1) $where AND stay(id) > 0"; }
		elsif ($how < 0.7) { $sql = "UPDATE $table SET v = v + 1 $where RETURNING id"; }
		elsif ($how < 0.85) { $sql = "DELETE FROM $table $where"; }
		else { $sql = "DELETE FROM $table $where AND stay(id) > 0"; }
		my $update = $sql =~ /^UPDATE/;
		$after = $update ? "$rows " . ($sum + $rows) : '0 0';
		$tag = ($update ? 'UPDATE' : 'DELETE') . " $rows";
	}
	$self->{tried} = { $batch => $after };
	my $r = $self->ask($sql, copy => $copy) or return ($batch, undef);
	$self->wrong("$r->{tags}[0] instead of $tag", $sql) if $r->{tags}[0] ne $tag;
	$self->note('right', 'write');
	return ($batch, $after);
}

our $look = 'SELECT batch, count(*) || \' \' || sum(v), bool_and(left(pad, 32) = md5(batch || \':\' || id) AND length(pad) IN (32, 96000)) FROM %s WHERE client = %d GROUP BY batch';

# A transaction sees its own rows.
sub own_write
{
	my ($self, $table, $batch, $after) = @_;
	my $sql = "SELECT count(*) || ' ' || coalesce(sum(v), 0) FROM $table WHERE client = $self->{number} AND batch = $batch";
	my $r = $self->ask($sql) or return 0;
	$self->compare('own write', $sql, $r->{rows}, $after);
	return 1;
}

sub check_batches
{
	my ($self) = @_;
	my $table = pick("direct.w$self->{home}", 'many.w', 'two.w', "(SELECT * FROM many.w OFFSET 0) x");
	my $r = $self->ask(sprintf($look, $table, $self->{number})) or return;
	my $what = books($self->{batches}, $r->{rows});

	return $self->note('right', 'batches') unless $what;
	$self->wrong($what, sprintf($look, $table, $self->{number}));
	return;
}

# What differs between rows and books; what was seen to be there stays so.
sub books
{
	my ($batches, $rows) = @_;
	my %got = map { $_->[0] => "$_->[1]" . ($_->[2] eq 't' ? '' : ' with wrong pads') } @$rows;
	my @wrong;

	foreach my $batch (sort { $a <=> $b } keys %$batches)
	{
		my $is = delete $got{$batch} // '0 0';
		push @wrong, "batch $batch is ($is), not (" . join(') or (', @{ $batches->{$batch}{may} }) . ')' unless grep { $_ eq $is } @{ $batches->{$batch}{may} };
	}
	push @wrong, map { "batch $_ is ($got{$_}), and should not be" } sort keys %got;
	return @wrong ? 'wrong rows of a writer: ' . join('; ', @wrong[ 0 .. ($#wrong < 4 ? $#wrong : 4) ]) : undef;
}

# Its books, for the check at the end
sub save
{
	my ($self) = @_;
	open(my $f, '>', "$self->{dir}/client.$self->{number}.books") or die "$!\n";
	print $f "$_\t" . join("\t", @{ $self->{batches}{$_}{may} }) . "\n" foreach sort { $a <=> $b } keys %{ $self->{batches} };
	close($f);
	return;
}

sub load
{
	my ($dir, $number) = @_;
	my %batches;
	open(my $f, '<', "$dir/client.$number.books") or return undef;
	while (my $line = <$f>)
	{
		chomp($line);
		my ($batch, @may) = split(/\t/, $line);
		$batches{$batch} = { may => \@may };
	}
	return \%batches;
}

1;
