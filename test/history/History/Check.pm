# Check.pm: what went wrong in a history of transactions that append to lists and read them.
#
#   my @anomalies = check($history);                # [ name, text ] each; none: it is a history of snapshot isolation
#   $history = { transactions => [ ... ], final => { key => [ values ] }, real_time => 1 }
#
# A transaction is { id, client, level, start, finish, outcome, ops }. level: 'rr' has one snapshot, 'rc' one for each read.
# start and finish are times of the client. outcome: 'ok', 'fail' (rolled back for certain), 'info' (nobody knows). An op is
# [ 'a', key, value ] or [ 'r', { key => [ values ] } ], which is one statement. Each value is appended once.
#
# The final lists give the order of versions, so all dependencies are known: ww from a version's writer to the next one's, wr
# from a version's writer to who read it, rw from who read a version to the next one's writer, and with real_time rt from a
# transaction to those that began after the client had heard of its end. Under snapshot isolation all but rw mean that the first
# had committed before the second began (or, for writers that have a snapshot for each statement, committed), and rw that the
# first began before the second committed. So no circle exists in which no two rw follow each other; each such circle is an
# anomaly, and there are no others of reads and writes of single keys.
package History::Check;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(check);

use constant SHOWN => 5;	# circles that are looked for in one strongly connected component

sub check
{
	my ($history) = @_;
	my %found = (list => [], count => {});
	my $writers = index_writers($history, \%found);

	check_final($history, $writers, \%found);
	my $graph = build_graph($history, $writers, \%found);
	find_circles($graph, \%found);
	return @{ $found{list} };
}

sub report
{
	my ($found, $name, $text) = @_;

	push @{ $found->{list} }, [ $name, $text ];
	return;
}

# Who appended a value, and which of the transaction's appends to the key it was.
sub index_writers
{
	my ($history, $found) = @_;
	my %writers;

	foreach my $t (@{ $history->{transactions} })
	{
		my %count;

		foreach my $op (grep { $_->[0] eq 'a' } @{ $t->{ops} })
		{
			my (undef, $key, $value) = @$op;

			report($found, 'bad history', "value $value is appended twice") if $writers{$value};
			$writers{$value} = { t => $t, key => $key, number => ++$count{$key} };
		}
		$t->{appended} = \%count;
	}
	return \%writers;
}

# All or nothing, and nothing lost: what the lists have in the end. What nobody knew is known then.
sub check_final
{
	my ($history, $writers, $found) = @_;
	my (%there, %times);

	foreach my $key (keys %{ $history->{final} })
	{
		foreach my $value (@{ $history->{final}{$key} })
		{
			my $w = $writers->{$value};

			report($found, 'value from nowhere', "$value in list $key") if !$w || $w->{key} ne $key;
			report($found, 'written twice', "$value in list $key") if $there{$value}++;
		}
	}
	foreach my $t (@{ $history->{transactions} })
	{
		my @values = map { $_->[2] } grep { $_->[0] eq 'a' } @{ $t->{ops} };
		my $count = grep { $there{$_} } @values;

		if ($t->{outcome} eq 'ok' && $count == 0 && @values) { report($found, 'lost update', "$t->{id} committed, and nothing of it is there"); }
		elsif ($t->{outcome} eq 'fail' && $count > 0) { report($found, 'G1a (aborted read)', "$t->{id} was rolled back, and $count of its values are there"); }
		elsif ($count > 0 && $count < @values)
		{
			my @lost = grep { !$there{$_} } @values;
			my $name = $t->{outcome} eq 'ok' ? 'lost update' : 'half a commit';

			report($found, $name, "$t->{id}: of its values " . join(' ', @lost) . ' are not there, others are');
		}
		$t->{committed} = $t->{outcome} eq 'ok' || ($t->{outcome} eq 'info' && $count > 0) ? 1 : 0;
	}
	return;
}

# ---------- dependencies ----------

sub node
{
	my ($graph, $t, $label) = @_;

	push @{ $graph->{nodes} }, { t => $t, label => $label, edges => [] };
	return $#{ $graph->{nodes} };
}

# The first reason for an edge of a kind is kept.
sub edge
{
	my ($graph, $from, $to, $kind, $why) = @_;

	return if $from == $to || $graph->{seen}{"$from $to $kind"}++;
	push @{ $graph->{nodes}[$from]{edges} }, [ $to, $kind, $why ];
	return;
}

# A list without the reader's own values at its end; what is wrong with it in itself is reported.
sub others_part
{
	my ($t, $key, $list, $own, $writers, $final, $found) = @_;
	my @others = @$list;

	foreach my $value (reverse @$own)
	{
		if (!@others || $others[-1] ne $value)
		{
			report($found, 'own write not seen', "$t->{id} read list $key as [@$list] after appending [@$own]");
			return undef;
		}
		pop @others;
	}
	foreach my $i (0 .. $#others)
	{
		my $w = $writers->{ $others[$i] };

		if (!$w) { report($found, 'value from nowhere', "$t->{id} read $others[$i] in list $key"); return undef; }
		if ($w->{t}{outcome} eq 'fail' || ($w->{t}{outcome} eq 'info' && !$w->{t}{committed}))
		{
			report($found, 'G1a (aborted read)', "$t->{id} read $others[$i] of $w->{t}{id} in list $key");
			return undef;
		}
		next if $i < $#$final + 1 && $others[$i] eq $final->[$i];
		report($found, 'lost update', "$t->{id} read list $key as [@$list], and in the end it is [@$final]");
		return undef;
	}
	return \@others;
}

sub add_read
{
	my ($graph, $at, $t, $read, $own, $history, $writers, $found) = @_;

	foreach my $key (sort keys %$read)
	{
		my $final = $history->{final}{$key} // [];
		my $others = others_part($t, $key, $read->{$key}, $own->{$key} // [], $writers, $final, $found) // next;
		my $next = $final->[@$others];
		my $last = @$others ? $writers->{ $others->[-1] } : undef;

		if ($last)
		{

			report($found, 'G1b (intermediate read)', "$t->{id} read $others->[-1] of $last->{t}{id} in list $key")
			  if $last->{number} < $last->{t}{appended}{$key};
			edge($graph, $last->{t}{node}, $at, 'wr', "list $key, value $others->[-1]");
		}
		my $w = defined $next ? $writers->{$next} // next : next;
		next if $w->{t} == $t || ($last && $w->{t} == $last->{t});
		edge($graph, $at, $w->{t}{node}, 'rw', "list $key, value $next");
	}
	return;
}

sub build_graph
{
	my ($history, $writers, $found) = @_;
	my %graph = (nodes => [], seen => {});
	my @committed = grep { $_->{committed} || ($_->{outcome} eq 'ok') } @{ $history->{transactions} };

	$_->{node} = node(\%graph, $_, $_->{id}) foreach @committed;
	foreach my $t (@committed)
	{
		my (%own, $reads);

		$t->{nodes} = [ $t->{node} ];
		foreach my $op (@{ $t->{ops} })
		{
			if ($op->[0] eq 'a') { push @{ $own{ $op->[1] } }, $op->[2]; next; }
			my $at = $t->{node};

			if ($t->{level} eq 'rc')
			{
				$at = node(\%graph, $t, "$t->{id}, read " . ++$reads);
				push @{ $t->{nodes} }, $at;
			}
			add_read(\%graph, $at, $t, $op->[1], \%own, $history, $writers, $found);
		}
	}
	foreach my $key (keys %{ $history->{final} })
	{
		my @list = grep { $writers->{$_} && defined $writers->{$_}{t}{node} } @{ $history->{final}{$key} };

		foreach my $i (1 .. $#list)
		{
			edge(\%graph, $writers->{ $list[ $i - 1 ] }{t}{node}, $writers->{ $list[$i] }{t}{node}, 'ww', "list $key, value $list[$i]");
		}
	}
	add_real_time(\%graph, \@committed) if $history->{real_time};
	return \%graph;
}

# From each client's last transaction that had ended when another one began; earlier ones follow from that. What nobody knew the
# end of has none.
sub add_real_time
{
	my ($graph, $transactions) = @_;
	my @begin = sort { $a->{start} <=> $b->{start} } @$transactions;
	my @end = sort { $a->{finish} <=> $b->{finish} } grep { $_->{outcome} eq 'ok' } @$transactions;
	my %last;

	foreach my $t (@begin)
	{
		while (@end && $end[0]{finish} < $t->{start})
		{
			my $ended = shift @end;
			$last{ $ended->{client} } = $ended;
		}
		foreach my $before (values %last)
		{
			foreach my $from (@{ $before->{nodes} })
			{
				edge($graph, $from, $_, 'rt', 'it had ended') foreach @{ $t->{nodes} };
			}
		}
	}
	return;
}

# ---------- circles ----------

# A place in the walk is a node and whether it was come to by rw: then it is not left by rw.
sub successors
{
	my ($graph, $place) = @_;
	my ($node, $by_rw) = ($place >> 1, $place & 1);

	return map { [ $_->[0] << 1 | ($_->[1] eq 'rw' ? 1 : 0), $_ ] } grep { !($by_rw && $_->[1] eq 'rw') } @{ $graph->{nodes}[$node]{edges} };
}

# Tarjan's strongly connected components, without recursion; those of more than one place.
sub components
{
	my ($graph) = @_;
	my (%index, %low, %on, @stack, @components);
	my $count = 0;

	foreach my $root (0 .. 2 * @{ $graph->{nodes} } - 1)
	{
		next if defined $index{$root};
		my @work = ([ $root, undef, 0 ]);

		while (@work)
		{
			my $frame = $work[-1];
			my $place = $frame->[0];

			if (!defined $frame->[1])
			{
				$index{$place} = $low{$place} = $count++;
				push @stack, $place;
				$on{$place} = 1;
				$frame->[1] = [ map { $_->[0] } successors($graph, $place) ];
			}
			if ($frame->[2] < @{ $frame->[1] })
			{
				my $next = $frame->[1][ $frame->[2]++ ];

				if (!defined $index{$next}) { push @work, [ $next, undef, 0 ]; }
				elsif ($on{$next} && $index{$next} < $low{$place}) { $low{$place} = $index{$next}; }
				next;
			}
			pop @work;
			$low{ $work[-1][0] } = $low{$place} if @work && $low{$place} < $low{ $work[-1][0] };
			next if $low{$place} != $index{$place};
			my @component;
			my $member;
			do
			{
				$member = pop @stack;
				$on{$member} = 0;
				push @component, $member;
			} while ($member != $place);
			push @components, \@component if @component > 1;
		}
	}
	return @components;
}

# The shortest way from a place back to it, within a component: edges with the nodes that they lead from.
sub shortest
{
	my ($graph, $start, $inside) = @_;
	my %from = ();
	my @queue = ($start);

	while (@queue)
	{
		my $place = shift @queue;

		foreach my $step (successors($graph, $place))
		{
			my ($next, $edge) = @$step;

			next if !$inside->{$next} || $from{$next};
			$from{$next} = [ $place, $edge ];
			push @queue, $next;
			next if $next != $start;
			my @way;
			do
			{
				unshift @way, [ $from{$next}[0] >> 1, $from{$next}[1] ];
				$next = $from{$next}[0];
			} while ($next != $start);
			return @way;
		}
	}
	return;
}

sub name_of
{
	my (@way) = @_;
	my %kinds;

	$kinds{ $_->[1][1] }++ foreach @way;
	my $rw = $kinds{rw} // 0;
	my %keys = map { /^(list \S+),/ ? ($1 => 1) : () } map { $_->[1][2] } @way;
	my $name = $rw > 1 ? 'long fork'
	  : $rw == 1 && @way == 2 && $kinds{wr} ? 'torn read'
	  : $rw == 1 && @way == 2 && keys %keys == 1 ? 'lost update'
	  : $rw == 1 ? 'G-single (read skew)'
	  : $kinds{wr} ? 'G1c (circular information flow)'
	  : 'G0 (write cycle)';

	# without what the client's clock says it would be none
	$name = $rw ? 'stale read' : 'commits out of order' if $kinds{rt};
	return $name;
}

sub find_circles
{
	my ($graph, $found) = @_;
	my %told;

	foreach my $component (components($graph))
	{
		my %inside = map { $_ => 1 } @$component;
		my @ways = sort { @$a <=> @$b } grep { @$_ } map { [ shortest($graph, $_, \%inside) ] } @{$component}[ 0 .. ($#$component < 200 ? $#$component : 200) ];
		my $shown = 0;

		foreach my $way (@ways)
		{
			my $key = join(' ', sort { $a <=> $b } map { $_->[0] } @$way);

			next if $told{$key}++ || $shown++ >= SHOWN;
			report($found, name_of(@$way), join('; ', map { "$graph->{nodes}[$_->[0]]{label} -$_->[1][1]-> $graph->{nodes}[$_->[1][0]]{label} ($_->[1][2])" } @$way));
		}
	}
	return;
}

1;
