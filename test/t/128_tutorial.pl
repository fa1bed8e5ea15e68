# docs/tutorial.md as someone new would run it: every block of SQL in its order, "sql node" on both nodes. A block without a
# language that follows is what the last statement prints.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %nodes = map { $_ => rdma_node($_, auth => 'scram') } qw(node1 node2);
my $coord = rdma_node('coord');

$_->safe_psql('postgres', 'CREATE DATABASE shop') foreach $coord, values %nodes;

# Runs a block as psql prints it; returns its output and whether it succeeded.
sub run_block
{
	my ($node, $block) = @_;
	my $out = '';

	$block =~ s/host '(node\d)'/"host '127.0.0.1', port '" . $nodes{$1}->port . "'"/ge;
	my $ok = IPC::Run::run([ $node->installed_command('psql'), '-Xq', '-v', 'ON_ERROR_STOP=1', '-P', 'pager=off',
		'-d', $node->connstr('shop') ], '<', \$block, '>', \$out, '2>', '/dev/null');

	return ($out, $ok);
}

my $text = slurp_file("$FindBin::Bin/../../docs/tutorial.md");
my $count = 0;
my $last = '';

while ($text =~ /^```([a-z ]*)\n(.*?)^```/msg)
{
	my ($language, $block) = ($1, $2);

	if ($language =~ /^sql/)
	{
		my @on = $language eq 'sql node' ? @nodes{qw(node1 node2)} : ($coord);

		foreach my $node (@on)
		{
			($last, my $ok) = run_block($node, $block);
			ok($ok, 'on ' . $node->name . ': ' . $block =~ s/\n.*//sr);
		}
		$count++;
	}
	# not the picture
	elsif ($block =~ / rows?\)$/m)
	{
		like($last, qr/\Q$block\E\s*\z/, 'as it is shown');
		$count++;
	}
}
cmp_ok($count, '>', 12, 'blocks are found');
done_testing();
