# How many nodes may be connected by tokens of one role: its share, of which those that nothing uses give way.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaEngine;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# one percent of 256 places
my $n1 = rdma_node('n1', conf => "rdma_fdw.role_share = 1\n");
my $co = rdma_node('co');
rdma_connect($co, n1 => $n1);
$n1->safe_psql('postgres', q{
	CREATE ROLE joe LOGIN PASSWORD 'secret'; SELECT rdma.grant_access('joe', 'read');
	CREATE VIEW endless AS SELECT generate_series(1, 1000000000) AS g; GRANT SELECT ON endless TO joe;
});

my $ends = qr/nothing used it, and a node of the same role takes its place/;
sub ended { my $count = () = slurp_file($n1->logfile) =~ /$ends/g; return $count; }
my @engines = map { RdmaEngine->new($n1, $_) } 'a' .. 'd';
sub comes
{
	my ($engine, $role) = @_;
	my ($id, $secret) = $engine->token($role);

	$engine->{socket} = $engine->connect;
	return $engine->proof($engine->{socket}, $id, $secret);
}

is(comes($_, 'joe'), 'welcome', "an engine with the role's token") foreach @engines[ 0, 1 ];
is(ended(), 0, 'both stay');
is(comes($engines[2], 'joe'), 'welcome', 'one more');
is(ended(), 1, "and one of the role's own gives way");
ok(closed($engines[0]{socket}), 'the oldest');
is(comes($engines[3]), 'welcome', "a superuser's is welcome");
is(ended(), 1, 'and nothing gives way to it');
close($_->{socket}) foreach @engines;

# Connections that streams use stay: the role's two are a coordinator's and another one's that read.
my @readers;
foreach my $reader (rdma_node('r1'), rdma_node('r2'))
{
	rdma_connect($reader, n1 => $n1, options => "receive_buffers '2', receive_buffer_size '64'", mapping => "user 'joe', password 'secret', password_required 'false'");
	$reader->safe_psql('postgres', 'CREATE FOREIGN TABLE endless (g int) SERVER n1');
	my $session = $reader->background_psql('postgres');
	$session->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT g FROM endless; MOVE 1 FROM c');
	push @readers, [ $reader, $session ];
}
is(comes($engines[0], 'joe'), 'refused', 'no engine of the role is welcome while streams use its connections');
like($engines[0]{said}, qr/rdma_fdw\.role_share/, 'and it is told why');
is($_->[1]->query_safe('MOVE 10000 FROM c; SELECT 1'), 1, 'the streams go on') foreach @readers;
is($co->safe_psql('postgres', 'CREATE FOREIGN TABLE endless (g int) SERVER n1; SELECT count(*) FROM (SELECT g FROM endless LIMIT 10000) s'), 10000, "and another role's");
$_->[1]->quit foreach @readers;
ok(rdma_wait($n1, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'the streams end');
is(comes($engines[0], 'joe'), 'welcome', 'then it is');
close($engines[0]{socket});
$_->stop foreach ($co, map { $_->[0] } @readers), $n1;
done_testing();
