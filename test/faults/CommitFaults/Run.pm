# Run.pm: one seed on running servers, and what must hold afterwards.
#
#   my $result = run_seed(nodes => { co, n1, n2, n3 }, proxy => $proxy, seed => 7, directory => $dir);
#   { plan => text, wrong => [ text ... ], reached => [ step ... ], missed => [ step ... ], clean => seconds, count => { ok, fail, unknown, sums, refused, moves, unmoved } }
#
# clean: when nothing was prepared or in doubt any more, after everybody was up. nodes are of Node.pm; the coordinator reaches the nodes by the proxy's links of their names. All are up when it returns.
package CommitFaults::Run;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use POSIX qw(:sys_wait_h _exit);
use Time::HiRes qw(time sleep);
use CommitFaults::Client qw(writer reader administrator mover NODES MONEY TOTAL SPREAD);
use CommitFaults::Plan qw(plan);
use Wire;

our @EXPORT_OK = qw(run_seed);

use constant REACH => 6;		# seconds in which a process comes to a step
use constant UP => 90;			# seconds in which servers start
use constant NEVER => 120;		# what is not clean by then, stays so

sub pick { return $_[ int(rand(scalar @_)) ]; }

# ---------- orders ----------

sub order_file { my ($node, $step) = @_; return $node->data . "/commit_faults/$step"; }

sub give_order
{
	my ($node, $step, $word) = @_;
	my $file = order_file($node, $step);

	mkdir($node->data . '/commit_faults');
	open(my $out, '>', "$file.new") or die "$file: $!\n";
	print $out "$word\n";
	close $out;
	rename("$file.new", $file) or die "$file: $!\n";
	return;
}

# The process at the step; undef: nobody came in time. again: a fault that strikes whenever it can meanwhile.
sub await_order
{
	my ($self, $node, $step, $seconds, $again) = @_;
	my $file = order_file($node, $step) . '.taken';
	my $end = time() + $seconds;

	while (time() < $end)
	{
		$self->look_after_clients;
		if (open(my $in, '<', $file))
		{
			my $pid = <$in>;

			return $1 if defined $pid && $pid =~ /^(\d+)\n/;
		}
		if ($again && -e order_file($self->{nodes}{ $again->{at} }, $again->{step}) . '.taken')
		{
			end_order($self->{nodes}{ $again->{at} }, $again->{step});
			give_order($self->{nodes}{ $again->{at} }, $again->{step}, $again->{order});
		}
		sleep(0.005);
	}
	return undef;
}

sub end_order
{
	my ($node, $step) = @_;
	my $file = order_file($node, $step);

	unlink($file);
	unlink("$file.taken", glob("$file.[0-9]*"));
	return;
}

# ---------- clients ----------

sub start_clients
{
	my ($self, $plan) = @_;
	my @clients = (\&reader, (\&writer) x $plan->{writers}, $plan->{administrator} ? \&administrator : (), $plan->{mover} ? \&mover : ());

	unlink($self->{stop} = "$self->{directory}/stop");
	foreach my $number (0 .. $#clients)
	{
		my $file = "$self->{directory}/client$number.json";
		my $pid = fork() // die "fork: $!\n";

		if (!$pid)
		{
			my %args = (port => $self->{nodes}{co}->port, seed => $self->{seed}, number => $number, file => $file, stop => $self->{stop});
			my $done = eval { $clients[$number]->(%args); 1; };

			print STDERR "client $number: $@" unless $done;
			_exit($done ? 0 : 1);
		}
		$self->{clients}{$pid} = $number;
		push @{ $self->{files} }, $file;
	}
	return;
}

sub look_after_clients
{
	my ($self) = @_;

	while (%{ $self->{clients} })
	{
		my $gone = waitpid(-1, WNOHANG);

		last if $gone <= 0;
		my $number = delete $self->{clients}{$gone} // next;
		push @{ $self->{wrong} }, "client $number died" if $?;
	}
	return;
}

sub stop_clients
{
	my ($self) = @_;
	my $end = time() + 90;

	open(my $out, '>', $self->{stop}) or die "$self->{stop}: $!\n";
	close $out;
	while (%{ $self->{clients} })
	{
		$self->look_after_clients;
		last unless %{ $self->{clients} };
		if (time() > $end)
		{
			push @{ $self->{wrong} }, 'clients do not end';
			kill 'KILL', keys %{ $self->{clients} };
			$end += 90;
		}
		sleep(0.01);
	}
	return;
}

# ---------- faults ----------

sub value { my ($node, $sql) = @_; return $node->value($sql, 10); }

# The other ends of the connections of a process: all of a session's of the coordinator, or the one of a node's.
sub partners
{
	my ($self, $at, $held) = @_;

	if ($at eq 'co')
	{
		my $name = pick(NODES);
		my $rows = $self->{nodes}{$name}->ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'of $held'", 5) // [];

		return map { [ $name, $_->[0] ] } @$rows;
	}
	my $name = value($self->{nodes}{$at}, "SELECT application_name FROM pg_stat_activity WHERE pid = $held") // '';

	return $name =~ /^of (\d+)$/ ? ([ 'co', $1 ]) : ();
}

sub first_child
{
	my ($node) = @_;
	my ($one) = map { $_->{pid} } grep { $_->{title} =~ /checkpointer/ } $node->processes;

	return $one // 0;
}

# A server whose process was killed ends all of its others, and starts again by itself.
sub kill_process
{
	my ($self, $name, $pid) = @_;
	my $node = $self->{nodes}{$name};
	my $old = first_child($node);

	return unless kill 'KILL', $pid;
	$self->{restarting}{$name} = $old if $old;
	return;
}

# as when the machine goes down
sub slay
{
	my ($self, $name) = @_;
	my $node = $self->{nodes}{$name};
	my @all = map { $_->{pid} } $node->processes;
	my $end = time() + 20;

	kill 'KILL', @all;
	# a process that was being started when the others were listed
	while (time() < $end && grep { kill 0, $_ } @all)
	{
		sleep(0.01);
	}
	$node->forget;
	$self->{down}{$name} = 1;
	return;
}

sub strike
{
	my ($self, $strike, $at, $held) = @_;
	my ($kind, $victim) = @$strike{qw(kind victim)};
	my $node = $self->{nodes}{$victim};

	return if $kind eq 'nothing';
	return if $node && $self->{down}{$victim};
	if ($kind eq 'crash')
	{
		$node->go_on;
		$node->ctl('stop', '-m', 'immediate') or push @{ $self->{wrong} }, "$victim did not stop";
		$self->{down}{$victim} = 1;
	}
	elsif ($kind eq 'slay') { $self->slay($victim); }
	elsif ($kind eq 'engine') { $self->kill_process($victim, $node->engine) if $node->engine; }
	elsif ($kind eq 'freeze')
	{
		my @all = map { $_->{pid} } $node->processes;

		kill 'STOP', @all;
		push @{ $self->{stopped} }, @all;
		$self->{stay} = $strike->{seconds};
	}
	elsif ($kind eq 'cut') { $self->{proxy}->tell($victim, 'cut'); }
	elsif ($kind eq 'stall')
	{
		$self->{proxy}->tell($victim, 'stall');
		$self->{stalled}{$victim} = pick('cut', 'pass');
		$self->{stay} = $strike->{seconds};
	}
	elsif ($kind eq 'hang')
	{
		$self->{proxy}->tell($victim, 'hang');
		$self->{hanging}{$victim} = 1;
	}
	else
	{
		my @victims = $victim eq 'held' ? ([ $at, $held ]) : $self->partners($at, $held);

		foreach my $one (@victims)
		{
			if ($kind eq 'kill') { $self->kill_process(@$one); }
			elsif ($kind eq 'stop')
			{
				kill 'STOP', $one->[1];
				push @{ $self->{stopped} }, $one->[1];
				$self->{stay} = $strike->{seconds};
			}
			else { kill $kind eq 'cancel' ? 'INT' : 'TERM', $one->[1]; }
		}
	}
	return;
}

# Everybody is up again; true if so.
sub bring_up
{
	my ($self, $pause) = @_;

	kill 'CONT', @{ $self->{stopped} };
	$self->{stopped} = [];
	$self->{proxy}->tell($_, $self->{stalled}{$_}) foreach keys %{ $self->{stalled} };
	$self->{stalled} = {};
	foreach my $name (sort { rand() <=> 0.5 } keys %{ $self->{down} })
	{
		$self->{nodes}{$name}->ctl('start') or push @{ $self->{wrong} }, "$name does not start";
		sleep($pause) if $pause > 0 && keys %{ $self->{down} } > 1;
	}
	# what was said to a node before, and was not heard, is heard now that others have been there
	if (%{ $self->{hanging} })
	{
		sleep(rand(4));
		$self->{proxy}->tell($_, 'pass') foreach keys %{ $self->{hanging} };
		$self->{hanging} = {};
	}
	my $end = time() + UP;
	foreach my $name (keys %{ $self->{nodes} })
	{
		my $node = $self->{nodes}{$name};
		my $old = $self->{down}{$name} ? undef : $self->{restarting}{$name};

		sleep(0.01) while defined $old && first_child($node) == $old && time() < $end;
		while (!defined value($node, 'SELECT 1'))
		{
			push(@{ $self->{wrong} }, "$name does not come back"), return if time() > $end;
			sleep(0.02);
		}
	}
	$self->{down} = {};
	$self->{restarting} = {};
	return;
}

# ---------- afterwards ----------

# Seconds from when all were up until nothing is prepared and nothing in doubt; undef: it still is.
sub settle
{
	my ($self, $up) = @_;
	my $co = $self->{nodes}{co};

	while (1)
	{
		my $clean = (value($co, 'SELECT count(*) FROM rdma.transactions') // 1) == 0;

		$clean &&= (value($self->{nodes}{$_}, 'SELECT count(*) FROM pg_prepared_xacts') // 1) == 0 foreach NODES;
		return time() - $up if $clean;
		return undef if time() - $up > NEVER;
		sleep(0.02);
	}
}

sub whole_table
{
	my ($node, $sql) = @_;
	my $rows = $node->ask($sql, 30) // die $node->name . ": $node->{why}\n";

	return @$rows;
}

# All of a transfer is there, or nothing; what its client knows is so.
sub check_books
{
	my ($self) = @_;
	my (%found, %count, $money);
	my %count_of = map { $_ => 0 } qw(ok fail unknown sums refused moves unmoved);

	foreach my $name (NODES, 'co')
	{
		my $table = $name eq 'co' ? 'co.' : '';

		$found{ $_->[0] }{$name} = $_->[1] foreach whole_table($self->{nodes}{$name}, "SELECT id, count(*) FROM ${table}journal GROUP BY 1");
		$money += (whole_table($self->{nodes}{$name}, "SELECT sum(balance) FROM ${table}acc"))[0][0];
		whole_table($self->{nodes}{$name}, "TRUNCATE ${table}journal");
	}
	push @{ $self->{wrong} }, "the money is $money" if $money != TOTAL;
	foreach my $file (@{ $self->{files} })
	{
		open(my $in, '<', $file) or die "$file: $!\n";
		foreach my $t (map { decode_json($_) } <$in>)
		{
			push @{ $self->{wrong} }, "torn read: the sum was $t->{torn}, not " . ($t->{torn} =~ m{/} ? SPREAD . ' rows of ' . SPREAD * (SPREAD + 1) / 2 : MONEY) if exists $t->{torn};
			push @{ $self->{wrong} }, 'a client waited for longer than a minute' if $t->{late} || ($t->{why} // '') eq 'late';
			$count_of{$_} += $t->{$_} // 0 foreach qw(sums refused moves unmoved);
			next unless exists $t->{id};
			my $there = delete $found{ $t->{id} } // {};
			my @there = sort keys %$there;

			$count_of{ $t->{outcome} }++;
			my $expected = $t->{outcome} eq 'ok' || ($t->{outcome} eq 'unknown' && @there) ? join(' ', sort @{ $t->{parts} }) : '';
			push @{ $self->{wrong} }, "transfer $t->{id} ($t->{outcome}: " . ($t->{why} // '') . ") is on (@there), not on ($expected)" if $expected ne "@there";
			push @{ $self->{wrong} }, "transfer $t->{id} is there twice" if grep { $_ != 1 } values %$there;
		}
		close $in;
	}
	push @{ $self->{wrong} }, "transfer $_ is of nobody" foreach sort keys %found;
	return \%count_of;
}

# Each row of the distributed table is there once, where it belongs, and found by its key.
sub check_spread
{
	my ($self) = @_;
	my $co = $self->{nodes}{co};
	my %look = ('rows' => 'SELECT count(*) || $$/$$ || sum(v) FROM spread.t',
		'keys found' => 'SELECT count(x.id) || $$/$$ || sum(x.v) FROM generate_series(1, ' . SPREAD . ') g LEFT JOIN LATERAL (SELECT * FROM spread.t WHERE t.id = g OFFSET 0) x ON true');

	foreach my $what (sort keys %look)
	{
		my $found = (whole_table($co, $look{$what}))[0][0];

		push @{ $self->{wrong} }, "$what of spread.t: $found" if $found ne SPREAD . '/' . SPREAD * (SPREAD + 1) / 2;
	}
	my $misplaced = (whole_table($co, q{SELECT sum(misplaced) FROM rdma.check_distribution('spread.t')}))[0][0];
	my $there = 0;

	$there += (whole_table($self->{nodes}{$_}, 'SELECT count(*) FROM spread.t'))[0][0] foreach NODES;
	push @{ $self->{wrong} }, "$misplaced rows of spread.t are on a wrong node, $there rows on all nodes" if $misplaced != 0 || $there != SPREAD;
	return;
}

# Locks are free: a writer of all rows goes through; and nobody is in the gate.
sub check_locks
{
	my ($self) = @_;
	my $co = $self->{nodes}{co};
	my $all = join('; ', (map { "UPDATE $_.acc SET balance = balance" } NODES, 'co'), 'UPDATE spread.t SET v = v');

	push @{ $self->{wrong} }, 'a writer of all rows fails: ' . ($co->{why} // '')
	  unless $co->ask("SET lock_timeout = '5s'; BEGIN; $all; COMMIT", 30);
	my $gate = $co->value(q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}) // 1;
	push @{ $self->{wrong} }, "somebody holds the gate" if $gate != 0;
	return;
}

sub run_seed
{
	my (%args) = @_;
	my $plan = plan($args{seed});
	my $self = bless { %args, wrong => [], clients => {}, files => [], down => {}, restarting => {}, stopped => [], stalled => {}, hanging => {} };
	my (@reached, @missed, $again, $up);
	my $text = join('; ', map {
		"$_->{order} at $_->{step} of $_->{at}" . join('', map { (defined $_->{after} ? sprintf(', %.1f s after it', $_->{after}) : ',') . " $_->{kind} $_->{victim}" . ($_->{kind} =~ /stop|freeze|stall/ ? sprintf(' %.1f s', $_->{seconds}) : '') } @{ $_->{strikes} }) } @{ $plan->{faults} });

	$text .= '; rdma.resolve' if $plan->{administrator};
	$text .= '; moves' if $plan->{mover};
	$self->start_clients($plan);
	foreach my $fault (@{ $plan->{faults} })
	{
		my $node = $self->{nodes}{ $fault->{at} };

		give_order($node, $fault->{step}, $fault->{order});
		# what it wants to happen, e.g. to the resolver, may need those to be up that the one before has struck
		$up = $self->bring_up($plan->{pause}) if %{ $self->{down} } || %{ $self->{restarting} } || @{ $self->{stopped} } || %{ $self->{stalled} } || %{ $self->{hanging} };
		my $held = $self->await_order($node, $fault->{step}, REACH, $again);

		push @{ defined $held ? \@reached : \@missed }, $fault->{step};
		if (defined $held)
		{
			$self->{stay} = rand(0.2);
			$self->strike($_, $fault->{at}, $held) foreach grep { !defined $_->{after} } @{ $fault->{strikes} };
			# who is stopped stays so for a while when the others go on
			end_order($node, $fault->{step});
			foreach my $strike (grep { defined $_->{after} } @{ $fault->{strikes} })
			{
				sleep($strike->{after});
				$self->strike($strike, $fault->{at}, $held);
			}
			sleep($self->{stay});
		}
		end_order($node, $fault->{step});
		$again = $fault->{again} ? $fault : undef;
		give_order($node, $fault->{step}, $fault->{order}) if $again;
	}
	end_order($self->{nodes}{ $_->{at} }, $_->{step}) foreach @{ $plan->{faults} };
	$self->bring_up($plan->{pause});
	$up = time();
	sleep(0.1 + rand(0.3));
	$self->stop_clients;
	my $clean = $self->settle($up);
	push @{ $self->{wrong} }, 'something is prepared or in doubt ' . NEVER . ' s after everybody was up' unless defined $clean;
	my $count = eval { $self->check_spread; $self->check_books } // {};
	push @{ $self->{wrong} }, "cannot look: $@" if $@;
	$self->check_locks;
	return { plan => $text, wrong => $self->{wrong}, reached => \@reached, missed => \@missed, clean => $clean, count => $count };
}

1;
