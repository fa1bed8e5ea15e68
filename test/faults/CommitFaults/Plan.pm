# Plan.pm: what a seed does.
#
#   my $plan = plan(7);
#   { faults => [ { step, at, order => hold or error, strikes => [ { kind, victim, seconds, after } ... ], again } ... ], pause, writers, administrator, mover }
#
# A fault waits until a process of the server `at` comes to its step, and strikes then, or some seconds after it let that process go on
# (after). The second one, where there is one, is at a
# step of the resolver, for which the first one has left something, or of a rollback, for which the first one is an error, again and
# again until the second one is reached.
package CommitFaults::Plan;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(plan steps);

sub pick { return $_[ int(rand(scalar @_)) ]; }

sub numbered { my ($numbers, @steps) = @_; return map { my $step = $_; map { "$step.$_" } @$numbers } @steps; }

# Names are those of include/rdma_fdw/steps.h and test/modules/commit_faults. The third part is of transfers over three nodes only.
my @before = (numbered([ 1, 2, 3 ], qw(prepare prepare_sent prepared)), qw(rows_written commit_gate));
my @after = ('decided', numbered([ 1, 2, 3 ], qw(commit_prepared commit_sent)), qw(committed commit_left));
my @snapshot = qw(snapshot_gate snapshots_taken);
my @on_node = qw(node_began node_prepare node_prepared node_commit node_committed);
my @rollback = qw(node_rollback node_rolled_back);
my @resolver = qw(resolver recover_listed recover_inactive recover_rows recover_finish recover_finished recover_delete recover_deleted resolver_rows);
my @move = map { "move_$_" } qw(preparing copying deleting recording committing);
my %no_error = map { $_ => 1 } @after, 'snapshots_taken', qw(node_began node_prepared node_committed node_rolled_back);

sub steps { return (@before, @after, @snapshot, @on_node, @rollback, @resolver, @move); }

# Those of the coordinator, and of a node; "held" is the process at the step, "partner" the one at the other end of its connection.
my @kinds = ('kill held', 'kill partner', 'crash co', 'slay co', 'crash node', 'slay node', 'stop held', 'stop partner', 'freeze node', 'cut node', 'stall node', 'hang node',
	'terminate held', 'cancel held', 'engine any', 'nothing');

sub strike
{
	my ($kind) = @_;
	my ($what, $whom) = (split(/ /, $kind), '');

	# longer than a commit waits for a node, now and then
	return { kind => $what, victim => $whom eq 'node' ? pick(qw(n1 n2 n3)) : $whom eq 'any' ? pick(qw(co n1 n2 n3)) : $whom, seconds => rand() < 0.04 ? 11 : 0.2 + rand(1.5) };
}

sub strikes
{
	my @strikes = (strike(pick(@kinds)));

	push @strikes, { %{ strike(pick(grep { /node/ || /co/ } @kinds)) }, after => rand() < 0.5 ? rand(0.5) : undef } if rand() < 0.4;
	return \@strikes;
}

sub fault
{
	my ($step) = @_;
	my %fault = (step => $step, at => $step =~ /^node/ ? pick(qw(n1 n2 n3)) : 'co', order => !$no_error{$step} && rand() < 0.15 ? 'error' : 'hold');

	$fault{strikes} = $fault{order} eq 'error' ? [] : strikes();
	return \%fault;
}

sub plan
{
	my ($seed) = @_;

	srand($seed);
	my $step = pick(steps());
	my %plan = (faults => [ fault($step) ], pause => rand() < 0.15 ? rand(4) : 0, writers => 2 + int(rand(3)));

	if ((grep { $_ eq $step } @resolver) && ($step ne 'resolver_rows' || rand() < 0.5))
	{
		# something for it to do: of what is decided and of what is not
		my @first = qw(prepared.2 rows_written commit_gate decided commit_prepared.1 commit_prepared.2);

		push @first, qw(commit_sent.2 committed) if $step !~ /recover_finish/;
		unshift @{ $plan{faults} }, { step => pick(@first), at => 'co', order => 'hold', strikes => [ strike(pick('kill held', 'crash co', 'slay co')) ] };
	}
	if (grep { $_ eq $step } @rollback)
	{
		# until it is on that node
		unshift @{ $plan{faults} }, { step => pick(qw(prepared.2 rows_written commit_gate)), at => 'co', order => 'error', strikes => [], again => 1 };
	}
	$plan{administrator} = rand() < 0.3;
	$plan{mover} = rand() < 0.3 || $step =~ /^move_/;
	return \%plan;
}

1;
