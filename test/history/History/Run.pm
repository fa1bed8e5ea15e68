# Run.pm: a history from its clients to the verdict.
#
#   prepare(port => { co, n1, n2 }, count => 3000, clients => 6, again => 0);
#   my $result = run(port => { co, n1, n2 }, directory => $dir, seed => 7, clients => 6, count => 3000, mode => 'common',
#       faults => sub { ... });
#   $result = { anomalies => [ [ name, text ] ... ], count => { committed, failed, unknown, reads }, errors => { text => number }, seconds }
#
# prepare makes the tables for count transactions of so many clients; again: in place of others. count is of transactions of all
# clients together. faults is called again and again, while clients work, and says how many
# seconds later it wants to be. `mode` is the value of rdma_fdw.snapshot.
package History::Run;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use POSIX qw(:sys_wait_h _exit);
use Time::HiRes qw(time sleep);
use History::Check qw(check);
use History::Workload qw(setup client final_state SLOTS WINDOW ACCOUNTS);
use Wire;

our @EXPORT_OK = qw(prepare run);

sub ask
{
	my ($port, $sql) = @_;
	my $wire = Wire->connect(port => $port, deadline => time() + 60, name => 'history check') // return undef;
	my $r = $wire->query($sql, deadline => time() + 60);

	$wire->close;
	return $r->{error} || $r->{lost} || $r->{late} || !@{ $r->{rows} } ? undef : $r->{rows}[0][0];
}

sub prepare
{
	my (%args) = @_;
	my $keys = SLOTS * (2 + int($args{count} / $args{clients} / WINDOW));
	my @parts = setup(keys => $keys, %{ $args{port} });

	# what another history has left
	unshift @parts, [ 'co', 'DROP EXTENSION rdma_fdw CASCADE; DROP SCHEMA n1, n2; DROP TABLE journal, till' ],
	  map { [ $_, 'DROP TABLE l, d, acc; DROP EXTENSION rdma_fdw CASCADE' ] } qw(n1 n2) if $args{again};
	foreach my $part (@parts)
	{
		my ($name, $sql) = @$part;
		my $wire = Wire->connect(port => $args{port}{$name}, deadline => time() + 60) // die "$name: $Wire::why\n";
		my $r = $wire->query($sql, deadline => time() + 300);

		die "$name: $r->{error}{M}\n" if $r->{error};
		die "$name: lost\n" if $r->{lost} || $r->{late};
		$wire->close;
	}
	return;
}

# Nothing is prepared or in doubt any more. False: it still is.
sub settle
{
	my ($port) = @_;
	my $end = time() + 120;

	while (time() < $end)
	{
		return 1 if (ask($port->{co}, 'SELECT (SELECT count(*) FROM rdma.transactions) + (SELECT count(*) FROM rdma.decisions)') // 1) == 0
		  && !grep { (ask($port->{$_}, 'SELECT count(*) FROM pg_prepared_xacts') // 1) != 0 } qw(n1 n2);
		sleep(0.2);
	}
	return 0;
}

sub work
{
	my (%args) = @_;
	my %pid;
	my @files = map { "$args{directory}/client$_.json" } 0 .. $args{clients} - 1;

	foreach my $number (0 .. $args{clients} - 1)
	{
		my $pid = fork() // die "fork: $!\n";

		if (!$pid)
		{
			my $done = eval { client(port => $args{port}{co}, seed => $args{seed}, number => $number, count => int($args{count} / $args{clients}), file => $files[$number], mode => $args{mode}); 1; };
			print STDERR "client $number: $@" unless $done;
			_exit($done ? 0 : 1);
		}
		$pid{$pid} = $number;
	}
	my $next = time() + 2;
	my $failed = 0;
	while (%pid)
	{
		my $gone = waitpid(-1, WNOHANG);

		if ($gone > 0 && exists $pid{$gone}) { $failed++ if $?; delete $pid{$gone}; next; }
		$next = time() + $args{faults}->() if $args{faults} && time() >= $next;
		sleep(0.05);
	}
	die "$failed clients failed\n" if $failed;
	return @files;
}

sub run
{
	my (%args) = @_;
	my $began = time();
	my @files = work(%args);
	my $settled = settle($args{port});
	my ($final, $journal, $total) = final_state($args{port});
	my (@transactions, %errors);
	my %count = (committed => 0, failed => 0, unknown => 0, reads => 0, sums => 0);
	my %named = (ok => 'committed', fail => 'failed', info => 'unknown');

	foreach my $file (@files)
	{
		open(my $in, '<', $file) or die "$file: $!\n";
		push @transactions, map { decode_json($_) } <$in>;
		close $in;
	}
	my @anomalies = check({ transactions => \@transactions, final => $final, real_time => !$args{faults} });
	push @anomalies, [ 'not finished', 'something is prepared or in doubt after two minutes' ] unless $settled;
	foreach my $t (@transactions)
	{
		my $why = $t->{why} // '';

		$count{ $named{ $t->{outcome} } }++;
		$count{reads} += grep { $_->[0] eq 'r' } @{ $t->{ops} };
		$why =~ s/"[^"]*"/"..."/g;
		$errors{$why}++ if $why ne '';
		foreach my $sum (@{ $t->{sums} // [] })
		{
			$count{sums}++;
			push @anomalies, [ 'torn read', "$t->{id}: the sum of the bank was $sum" ] if $sum != 100 * ACCOUNTS;
		}
		next unless $t->{journal};
		my $noted = $journal->{ $t->{id} } // 0;
		my $appended = grep { $_->[0] eq 'a' } @{ $t->{ops} };

		# what nobody knew must be on all or none: here, too
		push @anomalies, [ 'half a commit', "$t->{id} ($t->{outcome}) is noted $noted times at the coordinator" ]
		  if $t->{outcome} eq 'ok' ? $noted != 1 : $t->{outcome} eq 'fail' ? $noted != 0 : $appended && $noted != $t->{committed};
	}
	my $wanted = 100 * ACCOUNTS + 1000;
	push @anomalies, [ 'lost update', "the money at the end is $total" ] if $total != $wanted;
	return { anomalies => \@anomalies, count => \%count, errors => \%errors, seconds => time() - $began, transactions => scalar @transactions };
}

1;
