# Faults.pm: the injector. The seed and a fault's number decide its kind and what it does, so a seed
# gives the same faults in the same order, aimed at the processes of that moment. Each fault is a line of
# faults.log, and so is its end.
#
#   my $faults = Faults->new(seed => 1, nodes => {...}, proxy => $proxy, dir => $dir, longest => 20, only => ['stop'], without => ['limit'])
#   $faults->step                  # all that is due: the ends of faults, and perhaps a new one
#   $faults->settle                # all of them end; everything runs as it was set up, or it says what does not
#   $faults->{counts}              # kind => number
#   $faults->{killed}              # process => time, of those that got SIGKILL
#   $faults->{down}                # [ from, to ] of times at which sessions of the coordinator were ended by a fault
#
# The file "paused" in its folder has the seconds during which something stood still or was down:
# what a statement may take longer.
package Faults;

use strict;
use warnings;
use POSIX qw(WNOHANG);
use Time::HiRes qw(time sleep);

# kind => [ weight, sub ]; cheap ones often, those after which a cluster starts again less so
my %kinds = (
	cancel    => [ 16, \&cancel ],
	terminate => [ 9, \&terminate ],
	kill      => [ 5, \&kill_one ],
	engine    => [ 4, \&end_engine ],
	stop      => [ 14, \&stop_one ],
	freeze    => [ 3, \&stop_tree ],
	restart   => [ 3, \&restart ],
	crash     => [ 1, \&kill_postmaster ],
	link      => [ 18, \&break_link ],
	settings  => [ 10, \&change_settings ],
	quoting   => [ 2, \&change_quoting ],
	options   => [ 5, \&change_options ],
	upkeep    => [ 8, \&upkeep ],
	limit     => [ 3, \&limit ],
	pools     => [ 1, \&tiny_pools ]);

sub kinds { return sort keys %kinds; }

sub new
{
	my ($class, %args) = @_;
	my $self = bless { counts => {}, killed => {}, down => [], undo => [], stopped => {}, busy => {}, jobs => {}, paused => 0, number => 0,
		drawn => 0, next => 0, rate => 1, longest => 20, wrong => [], %args }, $class;
	my %only = map { $_ => 1 } @{ $args{only} // [] };
	my %without = map { $_ => 1 } @{ $args{without} // [] };

	foreach my $name (keys %only, keys %without)
	{
		die "no such fault: $name; there are: " . join(' ', kinds()) . "\n" unless $kinds{$name};
	}
	foreach my $kind (kinds())
	{
		next if %only ? !$only{$kind} : $without{$kind};
		push @{ $self->{choice} }, ($kind) x $kinds{$kind}[0];
	}
	open($self->{log}, '>>', "$args{dir}/faults.log") or die "faults.log: $!\n";
	$self->{log}->autoflush(1);
	$self->{last} = time();
	$self->note_pause;
	return $self;
}

sub say
{
	my ($self, $text) = @_;
	print { $self->{log} } sprintf("%.3f %s\n", time(), $text);
	return;
}

sub pick { my (@list) = @_; return $list[ int(rand(@list)) ]; }

# Most pauses are short; some go to the limit.
sub duration
{
	my ($self) = @_;
	return 0.2 + ($self->{longest} - 0.2) * rand()**3;
}

sub note_pause
{
	my ($self) = @_;
	my $now = time();
	$self->{paused} += $now - $self->{last} if @{ $self->{undo} } || %{ $self->{jobs} };
	$self->{last} = $now;
	open(my $f, '>', "$self->{dir}/paused.new") or die "paused: $!\n";
	print $f "$self->{paused}\n";
	close($f);
	rename("$self->{dir}/paused.new", "$self->{dir}/paused");
	return;
}

sub later
{
	my ($self, $seconds, $what, $sub) = @_;
	push @{ $self->{undo} }, { at => time() + $seconds, what => $what, sub => $sub };
	return;
}

# What may take its time, like a restart, is done by a process of its own; nothing else is done to
# that cluster meanwhile.
sub background
{
	my ($self, $node, $what, $sub) = @_;
	my $pid = fork() // die "fork: $!\n";

	if (!$pid)
	{
		my $ok = eval { $sub->() };
		$self->say("  $what: " . ($ok ? 'done' : 'failed ' . ($@ || $node->{why} || '')));
		POSIX::_exit($ok ? 0 : 1);
	}
	$self->{jobs}{$pid} = { what => $what, node => $node };
	return $pid;
}

sub reap
{
	my ($self) = @_;
	foreach my $pid (keys %{ $self->{jobs} })
	{
		next unless waitpid($pid, WNOHANG) == $pid;
		my $job = delete $self->{jobs}{$pid};
		my $name = $job->{node}->name;
		delete $self->{busy}{$name} if ($self->{busy}{$name} // 0) == $pid;
		$job->{down}[1] = time() if $job->{down};
	}
	return;
}

sub step
{
	my ($self) = @_;
	my $now = time();

	$self->reap;
	foreach my $undo (grep { $_->{at} <= $now } @{ $self->{undo} })
	{
		$self->say("  end of $undo->{what}");
		$undo->{sub}->();
	}
	@{ $self->{undo} } = grep { $_->{at} > $now } @{ $self->{undo} };
	$self->note_pause;
	return if $now < $self->{next};
	# With more than a few at once nothing would be left to break.
	return if @{ $self->{undo} } > 6;
	srand(($self->{seed} * 100_003 + $self->{drawn}++) % 4_294_967_291);
	$self->{next} = $now + rand(2 / $self->{rate});
	my $kind = pick(@{ $self->{choice} });
	my $what = $kinds{$kind}[1]->($self) // return;
	$self->{number}++;
	$self->{counts}{$kind}++;
	$self->say("#$self->{number} $kind $what");
	return;
}

# ---- processes

# A node that is not being restarted; those with work are met more often than by chance alone.
sub some_node
{
	my ($self, @names) = @_;
	@names = qw(co n1 n2) unless @names;
	@names = grep { !$self->{busy}{$_} } @names;
	return @names ? $self->{nodes}{ pick(@names) } : undef;
}

sub some_process
{
	my ($self, $node, @kinds) = @_;
	my %wanted = map { $_ => 1 } @kinds;
	my @found = grep { $wanted{ $_->{kind} } } $node->processes;
	my @working = grep { $_->{title} !~ /idle$/ } @found;

	@found = @working if @working && rand() < 0.8;
	return @found ? pick(@found) : undef;
}

sub cancel
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $p = $self->some_process($node, 'backend', 'backend', 'parallel') // return;
	kill 'INT', $p->{pid};
	return $node->name . " $p->{pid} $p->{title}";
}

sub terminate
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $p = $self->some_process($node, qw(backend backend parallel autovacuum other)) // return;
	$self->co_down($node);
	kill 'TERM', $p->{pid};
	return $node->name . " $p->{pid} $p->{title}";
}

sub kill_one
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $p = $self->some_process($node, qw(backend parallel autovacuum other)) // return;
	$self->kill_process($node, $p->{pid});
	return $node->name . " $p->{pid} $p->{title}";
}

sub end_engine
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $pid = $node->engine // return;
	my $signal = pick('TERM', 'KILL');
	if ($signal eq 'KILL') { $self->kill_process($node, $pid); }
	else { kill 'TERM', $pid; }
	return $node->name . " $pid SIG$signal";
}

sub kill_process
{
	my ($self, $node, $pid) = @_;
	$self->co_down($node);
	$self->{killed}{$pid} = time();
	kill 'KILL', $pid;
	return;
}

# Sessions of the coordinator may be lost from now until a little later: the crash of one backend
# ends them all.
sub co_down
{
	my ($self, $node) = @_;
	push @{ $self->{down} }, [ time(), time() + 30 ] if $node->name eq 'co';
	return;
}

sub stop_one
{
	my ($self) = @_;
	my $seconds = $self->duration;
	my $node = $self->some_node // return;
	my $p = $self->some_process($node, pick([qw(engine)], [qw(backend)], [qw(backend)], [qw(parallel backend)], [qw(other autovacuum)])->@*) // return;
	kill 'STOP', $p->{pid};
	$self->{stopped}{ $p->{pid} } = 1;
	$self->later($seconds, "stop of $p->{pid}", sub { kill 'CONT', $p->{pid}; delete $self->{stopped}{ $p->{pid} }; });
	return sprintf('%s %d %s for %.1f s', $node->name, $p->{pid}, $p->{title}, $seconds);
}

sub stop_tree
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $seconds = $self->duration;
	my @pids = map { $_->{pid} } $node->processes;
	kill 'STOP', @pids;
	$self->{stopped}{$_} = 1 foreach @pids;
	$self->later($seconds, 'freeze of ' . $node->name, sub { kill 'CONT', @pids; delete @{ $self->{stopped} }{@pids}; });
	return sprintf('%s, %d processes for %.1f s', $node->name, scalar(@pids), $seconds);
}

# ---- whole servers

sub restart
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $mode = pick('fast', 'immediate');
	$self->restarting($node, "restart of " . $node->name, sub { $node->ctl('restart', '-m', $mode) });
	return $node->name . " $mode";
}

sub restarting
{
	my ($self, $node, $what, $sub) = @_;
	my $name = $node->name;
	# pg_ctl would wait for what is stopped
	$node->go_on(keys %{ $self->{stopped} });
	my $down = $name eq 'co' ? [ time(), time() + 300 ] : undef;
	push @{ $self->{down} }, $down if $down;
	my $pid = $self->background($node, $what, $sub);
	$self->{busy}{$name} = $pid;
	$self->{jobs}{$pid}{down} = $down;
	return;
}

sub kill_postmaster
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $pid = $node->postmaster // return;
	my @children = map { $_->{pid} } $node->processes;
	$self->{killed}{$pid} = time();
	$node->go_on(keys %{ $self->{stopped} });
	$self->co_down($node);
	kill 'KILL', $pid;
	$self->restarting($node, 'start of ' . $node->name, sub { start_after_crash($node, @children) });
	return $node->name . " $pid";
}

# A server does not start while a process of the one before lives. All of them have to notice by
# themselves that it is gone.
sub start_after_crash
{
	my ($node, @pids) = @_;
	my $postmaster = shift @pids;
	my $gone = $node->wait_until(60, sub { !grep { runs($_) } $postmaster, @pids });
	my @left = grep { runs($_) } @pids;
	kill 'KILL', @left;
	# Where no parent reaps a process, its number is still in use and the server would not start.
	$node->forget unless runs($postmaster);
	$node->ctl('start') or die "it does not start\n";
	die "its processes @left did not end within 60 s after its postmaster\n" unless $gone;
	return 1;
}

sub runs
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/stat") or return 0;
	return (<$f> // ') Z ') !~ /\) [ZX] /;
}

# ---- the network

sub break_link
{
	my ($self) = @_;
	my $link = pick($self->{proxy}->links);
	my $how = pick(qw(stall stall cut cut half trickle slow deaf refuse));
	$self->{proxy}->tell($link, $how);
	return "$link $how" if $how eq 'cut' || $how eq 'half';
	my $seconds = $self->duration;
	$self->later($seconds, "$how of $link", sub { $self->{proxy}->tell($link, 'pass') });
	return sprintf('%s %s for %.1f s', $link, $how, $seconds);
}

# ---- settings, objects, limits

# Of engines and of sessions on data nodes; on the coordinator its clients have set their own.
my @settings = (
	[ 'rdma_fdw.peer_timeout', '1s', '2s', '60s' ], [ 'rdma_fdw.polling_mode', qw(adaptive busy) ],
	[ 'rdma_fdw.admission_window', '64kB', '0' ],
	[ 'rdma_fdw.receive_buffers', '1', '16' ],
	[ 'rdma_fdw.receive_buffer_size', '4kB', '1MB' ],
	[ 'rdma_fdw.inline_limit', '0', '1MB' ], [ 'rdma_fdw.buffer_wait', '0', '200ms' ],
	[ 'rdma_fdw.flush_time', '0', '1ms' ], [ 'rdma_fdw.disable', 'value_memory', 'value_costs', 'receive_pool', 'receive_pool_costs', 'receive_pool_costs, receive_claims' ],
	[ 'rdma_fdw.exchange_hosts', 'all' ], [ 'rdma_fdw.connect_timeout', '200ms' ],
	[ 'statement_timeout', '100ms', '1s' ], [ 'lock_timeout', '50ms' ], [ 'idle_in_transaction_session_timeout', '300ms' ],
	[ 'work_mem', '64kB', '64MB' ], [ 'temp_file_limit', '64kB' ], [ 'default_transaction_read_only', 'on' ],
	[ 'default_transaction_isolation', 'serializable' ], [ 'max_parallel_workers_per_gather', '0', '2' ], [ 'max_parallel_workers', '0' ],
	[ 'log_min_messages', 'debug2' ], [ 'log_statement', 'all' ], [ 'enable_hashjoin', 'off' ], [ 'enable_seqscan', 'off' ], [ 'jit', 'on' ]);

# Those that change what text means
my @quoting = ([ 'standard_conforming_strings', 'off' ], [ 'backslash_quote', 'off' ], [ 'datestyle', 'sql,dmy', 'german' ], [ 'intervalstyle', 'sql_standard' ],
	[ 'bytea_output', 'escape' ], [ 'extra_float_digits', '0' ], [ 'timezone', 'Asia/Kolkata' ], [ 'search_path', 'pg_catalog' ], [ 'quote_all_identifiers', 'on' ],
	[ 'transform_null_equals', 'on' ], [ 'array_nulls', 'off' ], [ 'escape_string_warning', 'on' ]);

sub change_settings { my ($self) = @_; return $self->change(@settings); }
sub change_quoting { my ($self) = @_; return $self->change(@quoting); }

sub change
{
	my ($self, @list) = @_;
	my $node = $self->some_node // return;
	my ($setting, @values) = pick(@list)->@*;
	my $value = pick(@values);
	my $seconds = $self->duration;
	my $name = $node->name;

	$self->background($node, "$setting = $value on $name",
		sub { $node->run("ALTER SYSTEM SET $setting = " . ($setting eq 'search_path' || $setting eq 'datestyle' ? $value : "'$value'"), 'SELECT pg_reload_conf()') });
	$self->later($seconds, "$setting = $value on $name",
		sub { $self->background($node, "reset of $setting on $name", sub { $node->run("ALTER SYSTEM RESET $setting", 'SELECT pg_reload_conf()') }) });
	return sprintf("%s %s = '%s' for %.1f s", $name, $setting, $value, $seconds);
}

# Options of servers and tables, which has sessions connect again
my @options = ([ receive_buffers => '1', '16' ], [ receive_buffer_size => '4kB', '64kB', '1MB' ], [ inline_limit => '0', '1kB' ], [ read_in_place => 'false' ],
	[ parallel_scan => 'false', 'true' ], [ keep_connections => 'false' ], [ parallel_commit => 'false' ], [ parallel_abort => 'false' ],
	[ batch_size => '1' ], [ use_remote_estimate => 'true' ], [ accept_pages => 'false' ]);

sub change_options
{
	my ($self) = @_;
	my $co = $self->some_node('co') // return;
	my ($option, @values) = pick(@options)->@*;
	my $value = pick(@values);
	my $server = pick('n1', 'n2');
	my $seconds = $self->duration;

	$self->background($co, "$option '$value' of $server", sub { $co->run("ALTER SERVER $server OPTIONS (ADD $option '$value')") });
	$self->later($seconds, "$option '$value' of $server",
		sub { $self->background($co, "drop of $option of $server", sub { $co->run("ALTER SERVER $server OPTIONS (DROP $option)") }) });
	return sprintf("%s of %s = '%s' for %.1f s", $option, $server, $value, $seconds);
}

# What an administrator does meanwhile
sub upkeep
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $table = pick(qw(item ord fat small big kinds w));
	my $sql;

	if ($node->name eq 'co')
	{
		$sql = $table eq 'w' ? 'ANALYZE direct.w1' : pick("ANALYZE many.$table", "ANALYZE one.$table", "ANALYZE two.$table", "VACUUM here.$table",
			"ALTER FOREIGN TABLE many.$table OPTIONS (ADD fetch_size '10')|ALTER FOREIGN TABLE many.$table OPTIONS (DROP fetch_size)",
			"COMMENT ON FOREIGN TABLE one.$table IS 'chaos'", "SELECT * FROM rdma.\"check\"('many')", "SELECT * FROM rdma.check_distribution('many.$table')",
			"SELECT rdma.bench('n1', 4000000)", 'SELECT * FROM rdma.stat_flows, rdma.stat_peers, rdma.stat_lanes, rdma.qps', "SELECT rdma.import_statistics('one.$table')");
	}
	else
	{
		$sql = pick("VACUUM many.$table", "VACUUM FULL many.$table", "VACUUM FREEZE many.$table", "ANALYZE many.$table", "REINDEX TABLE many.$table",
			"ALTER TABLE many.$table ADD COLUMN extra$self->{number} int|ALTER TABLE many.$table DROP COLUMN extra$self->{number}",
			"CREATE INDEX chaos$self->{number} ON many.$table ((1))|DROP INDEX many.chaos$self->{number}",
			"BEGIN; LOCK TABLE many.$table IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1); COMMIT", 'CHECKPOINT', 'SELECT pg_switch_wal()');
	}
	$self->background($node, $sql, sub { $node->run(split(/\|/, $sql)) });
	return $node->name . " $sql";
}

sub limit
{
	my ($self) = @_;
	my $node = $self->some_node('n1', 'n2') // return;
	my $most = int(rand(4));
	my $seconds = $self->duration;

	$self->background($node, 'limit', sub { $node->run("ALTER ROLE app CONNECTION LIMIT $most") });
	$self->later($seconds, 'limit of connections on ' . $node->name,
		sub { $self->background($node, 'no limit', sub { $node->run('ALTER ROLE app CONNECTION LIMIT -1') }) });
	return sprintf('%s has %d connections for %.1f s', $node->name, $most, $seconds);
}

# Until all faults end: what else is restarted meanwhile keeps it.
sub tiny_pools
{
	my ($self) = @_;
	my $node = $self->some_node // return;
	my $tiny = pick([ 'buffer_memory = 4096', 'max_flows = 16' ], [ 'buffer_memory = 6144' ],
		[ 'max_flows = 24' ], [ 'engine_lanes = 3' ]);

	$self->{tiny}{ $node->name } = 1;
	$self->restarting($node, 'restart of ' . $node->name,
		sub { $node->run(map { "ALTER SYSTEM SET rdma_fdw.$_" } @$tiny) && $node->ctl('restart', '-m', 'fast') });
	return $node->name . ' ' . join(', ', @$tiny);
}

# ---- the end

# Everything as it was set up, at the latest after a minute. What cannot be brought back is in
# $self->{wrong}.
sub settle
{
	my ($self) = @_;

	$self->say('settle');
	kill 'CONT', keys %{ $self->{stopped} };
	$self->{stopped} = {};
	$self->{proxy}->tell($_, 'pass') foreach $self->{proxy}->links;
	my $end = time() + 180;
	while (%{ $self->{jobs} } && time() < $end)
	{
		$self->reap;
		$self->note_pause;
		sleep(0.1);
	}
	push @{ $self->{wrong} }, "$_->{what} did not end within 180 s" foreach values %{ $self->{jobs} };
	kill 'KILL', keys %{ $self->{jobs} };
	foreach my $undo (@{ $self->{undo} })
	{
		$undo->{sub}->();
	}
	$self->{undo} = [];
	$end = time() + 60;
	while (%{ $self->{jobs} } && time() < $end)
	{
		$self->reap;
		sleep(0.1);
	}
	foreach my $name (qw(co n1 n2))
	{
		my $node = $self->{nodes}{$name};
		if (!$node->wait_until(60, sub { defined $node->value('SELECT 1', 5) }))
		{
			push @{ $self->{wrong} }, "$name does not answer: " . ($node->{why} // '');
			next;
		}
		my @reset = ('ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()');
		push @reset, 'ALTER ROLE app CONNECTION LIMIT -1' if $name ne 'co';
		$node->run(@reset) or push @{ $self->{wrong} }, "$name cannot be reset: $node->{why}";
		next unless delete $self->{tiny}{$name};
		$self->co_down($node);
		$node->ctl('restart', '-m', 'fast') or push @{ $self->{wrong} }, "$name does not restart";
	}
	my $co = $self->{nodes}{co};
	foreach my $row (@{ $co->ask("SELECT srvname, split_part(o, '=', 1) FROM pg_foreign_server, unnest(srvoptions) o WHERE srvname LIKE 'n_' AND o !~ '^(host|port|dbname)='") // [] })
	{
		$co->run("ALTER SERVER $row->[0] OPTIONS (DROP $row->[1])");
	}
	foreach my $row (@{ $co->ask("SELECT ftrelid::regclass FROM pg_foreign_table, unnest(ftoptions) o WHERE o ~ '^fetch_size='") // [] })
	{
		$co->run("ALTER FOREIGN TABLE $row->[0] OPTIONS (DROP fetch_size)");
	}
	# their undoing may have been what a fault hit
	foreach my $name (qw(n1 n2))
	{
		my $node = $self->{nodes}{$name};
		$node->run("ALTER TABLE $_->[0] DROP COLUMN $_->[1]")
			foreach @{ $node->ask("SELECT attrelid::regclass, attname FROM pg_attribute WHERE attname LIKE 'extra%' AND NOT attisdropped AND attrelid > 16384") // [] };
		$node->run("DROP INDEX $_->[0]") foreach @{ $node->ask("SELECT indexrelid::regclass FROM pg_index WHERE indexrelid::regclass::text ~ 'chaos'") // [] };
	}
	$self->say('settled' . (@{ $self->{wrong} } ? ': ' . join('; ', @{ $self->{wrong} }) : ''));
	return;
}

1;
