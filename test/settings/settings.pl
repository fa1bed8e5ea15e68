#!/usr/bin/perl
# settings.pl: the answers of the SQL inputs are the same under all settings; see README.md. check.sh calls it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use List::Util qw(shuffle min);
use Settings::Items qw(items packs together);
use Settings::Output qw(normal exceptions);

my ($work, $tree) = @ENV{qw(RF_WORK RF_TREE)};
my $seed = $ENV{SEED} || time() % 1_000_000;
srand($seed);
my @inputs = $ENV{TESTS} ? split(' ', $ENV{TESTS}) : map { m{([^/]+)\.sql$} } sort glob("$tree/sql/[0-9]*.sql");
my $exceptions = exceptions("$FindBin::Bin/differs");
my ($differences, $runs) = (0, 0);
my %input;

$| = 1;
sub lines_of { my ($file) = @_; open(my $in, '<', $file) or return []; my @lines = <$in>; chomp(@lines); return \@lines; }

# result(VERDICT, NAME, REASON): as rf_result of test/results.sh
sub result
{
	my ($verdict, $name, $reason) = @_;
	my $line = sprintf("%-4s %s%s\n", $verdict, $name, $reason ? "  ($reason)" : '');
	print $line;
	open(my $out, '>>', $ENV{RF_RESULTS} // '/dev/null') or die;
	print $out $line;
	$differences++ if $verdict eq 'FAIL';
}

my %running;
$SIG{$_} = sub { kill('TERM', keys %running); exit(1); } foreach qw(INT TERM);

# start(NAME, PACK, INPUTS): a process that runs them in a folder of that name
sub start
{
	my ($name, $pack, @of) = @_;
	my $pid = fork() // die "fork: $!\n";

	$runs++;
	$running{$pid} = 1 if $pid;
	return { name => $name, pid => $pid, inputs => \@of } if $pid;
	$SIG{$_} = 'DEFAULT' foreach qw(INT TERM);
	# More memory for the largest buffers; a statement that hangs is an answer that differs.
	$ENV{SETTINGS} = join(' ', 'rdma_fdw.buffer_memory=512MB', 'statement_timeout=' . ($ENV{RF_STATEMENT_TIMEOUT} // '300s'), $ENV{SETTINGS} // (),
		together(@$pack));
	open(STDOUT, '>', "$work/$name.said") or die;
	exec("$FindBin::Bin/trio.sh", "$work/$name", @of) or die "trio.sh: $!\n";
}

# finish(RUN): {out => {input => lines}}, and what is said of crashes. The folder stays.
sub finish
{
	my ($run) = @_;
	waitpid($run->{pid}, 0);
	delete $running{ $run->{pid} };
	my @said = @{ lines_of("$work/$run->{name}.said") };
	my $failed = $? ? join(' ', 'servers do not start:', @said) : undef;
	return { failed => $failed, crashes => [ $failed ? () : @said ],
		out => { map { $_ => [ normal(lines_of("$work/$run->{name}/out/results/$_.out"), $input{$_}, [ @{ $exceptions->{$_} // [] }, @{ $exceptions->{'*'} // [] } ]) ] } @{ $run->{inputs} } } };
}

my %wanted;
# The first lines of a difference, or undef
sub difference
{
	my ($input, $lines) = @_;
	return undef if "@{ $wanted{$input} }" eq "@$lines";
	my @name = map { "$work/$input.$_" } qw(default other);
	foreach my $i (0, 1)
	{
		open(my $out, '>', $name[$i]) or die;
		print $out map { "$_\n" } @{ ($wanted{$input}, $lines)[$i] };
		close($out);
	}
	return join('', grep { !/^(---|\+\+\+) / } (`diff -u @name`)) || undef;
}

sub names { return join(' ', map { $_->{name} } @_); }

# The fewest items of a pack under which the input differs
sub narrow
{
	my ($input, @pack) = @_;
	my $last;
	my $differs = sub { my $run = finish(start('narrow', [@_], $input)); my $how = difference($input, $run->{out}{$input}); $last = $how if defined $how; return defined $how; };

	return if !$differs->(@pack);
	while (@pack > 1)
	{
		my @half = (splice(@{ [@pack] }, 0, @pack / 2));
		my @other = @pack[ scalar(@half) .. $#pack ];
		if ($differs->(@half)) { @pack = @half; }
		elsif ($differs->(@other)) { @pack = @other; }
		else { last; }
	}
	return ($last, @pack);
}

@inputs = sort +(shuffle(@inputs))[ 0 .. min($ENV{FEW}, scalar(@inputs)) - 1 ] if $ENV{FEW};
$input{$_} = lines_of("$tree/sql/$_.sql") foreach @inputs;
mkdir "$tree/expected";
foreach my $name (@inputs)
{
	next if -e "$tree/expected/$name.out";
	open(my $out, '>', "$tree/expected/$name.out") or die;
}
chomp(my $pkglibdir = `$ENV{RF_PREFIX}/bin/pg_config --pkglibdir`);
my @items = items(sub { my ($sql) = @_; return map { chomp; [ split(/\|/, $_, -1) ] } `$FindBin::Bin/ask.sh "$sql"`; }, $pkglibdir, "$tree/src/guc.c");
die "the server cannot be asked for its settings\n" if !@items;
@items = grep { $_->{name} =~ /$ENV{ONLY}/ } @items if $ENV{ONLY};
my @packs = $ENV{EACH} ? map { [$_] } @items : packs($ENV{PACKS} || 8, @items);
@packs = @packs[ 0 .. min(2, scalar(@packs)) - 1 ] if $ENV{FEW};
printf("seed %d: %d settings in %d packs, %d inputs\n", $seed, scalar(@items), scalar(@packs), scalar(@inputs));

my $default = finish(start('default', [], @inputs));
die "$default->{failed}\n" if $default->{failed};
%wanted = %{ $default->{out} };
result('FAIL', 'settings/default', $_) foreach @{ $default->{crashes} };
# The same twice shows which answers are a matter of chance.
unshift @packs, [] if !$ENV{ONCE};
my @started;
foreach my $number (0 .. $#packs)
{
	push @started, start('pack' . @started, $packs[@started], @inputs) while @started < @packs && @started < $number + ($ENV{JOBS} || 2);
	my @pack = @{ $packs[$number] };
	my $name = @pack ? 'settings/pack ' . ($number + !!$ENV{ONCE}) : 'settings/default again';
	print "== $name: ", names(@pack), "\n";
	my $run = finish($started[$number]);
	if ($run->{failed}) { result('FAIL', $name, $run->{failed}); next; }
	result('FAIL', $name, $_) foreach @{ $run->{crashes} };
	my $agree = 0;
	foreach my $input (@inputs)
	{
		my $how = difference($input, $run->{out}{$input});
		if (!defined $how) { $agree++; next; }
		my ($less, @few) = $ENV{FAST} ? () : @pack > 1 ? narrow($input, @pack) : ($how, @pack);
		my $under = defined $less ? names(@few) || 'the same settings' : ("pack " . ($number + !!$ENV{ONCE}) . ($ENV{FAST} ? '' : ', but not when it runs by itself'));
		result('FAIL', "settings/$input", "differs under $under");
		my @lines = split(/^/, $less // $how);
		print map { "    $_" } @lines[ 0 .. ($#lines > 40 ? 40 : $#lines) ];
	}
	result('ok', $name, "$agree inputs agree") if $agree == @inputs && !@{ $run->{crashes} };
}
print "$runs runs, $differences differences\n";
exit($differences ? 1 : 0);
