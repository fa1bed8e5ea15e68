# The engine's port, seen from outside: garbage, truncated and oversized messages, slow ones, wrong and replayed tokens. Nobody gets in, nothing
# breaks, everything is counted.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaEngine;
use X25519;
use Digest::SHA qw(hmac_sha256);
use IO::Select;
use Socket;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = rdma_node('victim', conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.max_flows = 1024\n");
rdma_connect($node, self => $node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 100000) g; CREATE SCHEMA f; IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER self INTO f');
my $check = 'SELECT count(*), sum(a) FROM f.t WHERE random() >= 0';
my $expected = '100000|5000050000';
is($node->safe_psql('postgres', $check), $expected, 'works before');

my $intruder = RdmaEngine->new($node, 'k');
my ($public, $its_public) = @$intruder{ 'public', 'its_public' };
my $request = $intruder->request;
sub connect_engine { my ($from) = @_; return $intruder->connect($from); }
sub token { return $intruder->token; }
sub hello { my ($id) = @_; return $intruder->hello($id); }
sub proof { my ($s, $id, $secret) = @_; return $intruder->proof($s, $id, $secret); }

my %garbage = (
	'nothing at all' => '',
	'an HTTP request' => "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	'zeros' => "\0" x 5000,
	'random bytes' => join('', map { chr((($_ * 7919) >> 3) & 255) } 1 .. 5000),
	'a truncated header' => substr(message(hello => hello()), 0, 7),
	'a truncated hello' => substr(message(hello => hello()), 0, 60),
	'a length beyond the limit' => pack('VvvVV', MAGIC, $TYPE{hello}, VERSION, 0x7fffffff, 0) . 'x' x 1000,
	'a length of -1' => pack('VvvVV', MAGIC, $TYPE{hello}, VERSION, 0xffffffff, 0),
	'another protocol version' => pack('VvvVV', MAGIC, $TYPE{hello}, 77, length(hello()), 0) . hello(),
	'an unknown message' => message(999, 'x'),
	'an OPEN before the handshake' => message(open => "\0" x 32),
	'a PROOF before HELLO' => message(proof => "\0" x 48),
	'an ATTACH to nothing' => message(attach => "\0" x 56),
	'a hello of the wrong size' => message(hello => hello() . 'more'));
foreach my $what (sort keys %garbage)
{
	my $s = connect_engine();
	print $s $garbage{$what};
	shutdown($s, 1);
	ok(closed($s), "$what: the connection is closed");
	close($s);
}
is($node->safe_psql('postgres', $check), $expected, 'works after garbage');

my ($id, $secret) = token();
is(proof(connect_engine(), "\x55" x 16, $secret), 'refused', 'an unknown token is refused');
is(proof(connect_engine(), $id, "\x55" x 32), 'refused', 'a wrong secret is refused');
($id, $secret) = token();
my $first = connect_engine();
is(proof($first, $id, $secret), 'welcome', 'a right token is welcome');
is(proof(connect_engine(), $id, $secret), 'refused', 'but only once');
close($first);
# What SQL carries is of no use: the keys are public, and a stranger with all of it gets nowhere.
foreach my $known ($public, $its_public)
{
	($id) = token();
	is(proof(connect_engine(), $id, $known), 'refused', 'nobody gets in with what rdma_internal.hello was told and has answered');
	($id) = token();
	is(proof(connect_engine(), $id, token_secret($known, $id, $public, $its_public)), 'refused', 'nor with what can be computed of that');
}
# However often they try, the log gets 20 lines and one a second.
is(proof(connect_engine(), "\x55" x 16, "\x55" x 32), 'refused', 'refused again') foreach 1 .. 40;
my $refusals = () = slurp_file($node->logfile) =~ /refused a connection/g;
cmp_ok($refusals, '<=', 22 + time() - $^T, 'those that are refused do not fill the log');
cmp_ok($node->safe_psql('postgres', 'SELECT handshakes_refused FROM rdma.stat_engine'), '>=', 40, 'and are counted');
my $bad = $intruder->request(undef, identity("\0" x 32), "\0" x 32);
like(($node->psql('postgres', "SELECT rdma_internal.hello(decode('" . unpack('H*', $bad) . "', 'hex'))"))[2], qr/key of the other node's engine is not valid/, 'a key with which everybody would know the secret is refused');

# After the handshake: garbage on an authenticated connection closes it and nothing else.
($id, $secret) = token();
my $inside = connect_engine();
is(proof($inside, $id, $secret), 'welcome', 'inside');
print $inside 'garbage garbage garbage garbage garbage';
ok(closed($inside), 'garbage after the handshake closes the connection');

# A role that asks for one token after the other takes none away from another, and one that listens for all flows does not get all.
$node->safe_psql('postgres', q{CREATE ROLE greedy; SELECT rdma.grant_access('greedy', 'exchange')});
($id, $secret) = token();
$node->safe_psql('postgres', "SET ROLE greedy; SELECT count(rdma_internal.hello(CASE WHEN g > 0 THEN decode('" . unpack('H*', $request) . "', 'hex') END)) FROM (SELECT generate_series(1, 2000) g) s");
is(proof(connect_engine(), $id, $secret), 'welcome', "a token outlives another role's thousands");

# A group of so many producers and one consumer, all of them this node: RfGroupHeader in wire.h
my $self = substr($intruder->{reply}, 16, 16);
sub group { my ($producers) = @_; return pack('VvvVvva16VV', 0x50524752, VERSION, 3, 40 + ($producers + 1) * 16 + $producers * 16, $producers, 1, join('', map { chr(rand(256)) } 1 .. 16), 4, 4096)
	. $self x ($producers + 1) . ("\0" x 16) x $producers; }
my $listen = sub
{
	my ($groups) = @_;
	return 'SELECT array_length(rdma_internal.exchange_listen(0, ARRAY[' . join(',', map { "decode('" . unpack('H*', group(16)) . "', 'hex')" } 1 .. $groups) . ']'
		. ", array_fill(NULL::int, ARRAY[$groups]), array_fill(0, ARRAY[$groups])), 1)";
};
my ($listens, $said, $refusal) = $node->psql('postgres', 'SET rdma_fdw.disable = receive_pool; SET ROLE greedy; BEGIN; ' . $listen->(33));
like($refusal, qr/role "greedy" has 512 flows of rdma_fdw, as many as one role may have/, 'a role may have half of all flows');
like($refusal, qr/rdma_fdw\.role_share/, 'and learns which setting says so');
$node->safe_psql('postgres', 'ALTER ROLE greedy SET rdma_fdw.role_share = 100');
($listens, $said, $refusal) = $node->psql('postgres', 'SET ROLE greedy; SET rdma_fdw.role_share = 100');
like($refusal, qr/permission denied to set parameter/, 'which it may not change');

# What it listens for and nobody opens it does not keep, even if its transaction is idle, and it learns so when it goes on.
$node->append_conf('postgresql.conf', "rdma_fdw.connect_timeout = '500ms'");
$node->reload;
foreach my $pool (qw(receive_pool receive_pool_costs))
{
	my $idle = $node->background_psql('postgres', on_error_stop => 0);
	$idle->query_safe("SET rdma_fdw.disable = $pool; SET ROLE greedy; SET rdma_fdw.connect_timeout = '10min'; BEGIN");
	is($idle->query($listen->(32)), 32, "without $pool: a role listens for all flows that it may have");
	ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'which are taken back, after six times the connect_timeout of the configuration');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'}), 1, 'while its transaction is idle');
	like(slurp_file($node->logfile), qr/took \d+ streams back that nobody opened, of process \d+/, 'the log says so');
	($listens, $said, $refusal) = $node->psql('postgres', "SET rdma_fdw.disable = $pool; SET ROLE greedy; BEGIN; " . $listen->(32));
	is($said, 32, 'another session of the role has them now');
	$idle->query('\set VERBOSITY verbose');
	$idle->query('SELECT rdma_internal.exchange_open(0, ARRAY[' . join(',', map { "decode('" . unpack('H*', group(16)) . "', 'hex')" } 1 .. 32) . '])');
	like($idle->{stderr}, qr/55000: no other node has opened this session's stream in time/, 'the one that has lost them gets an error');
	like($idle->{stderr}, qr/DETAIL:  Stream \d+ of this session was to be opened within 3000 ms after it began to listen\. The other node is /, 'which names the stream and the other node');
	like($idle->{stderr}, qr/HINT:  Repeat the statement\. Increase rdma_fdw\.connect_timeout in the configuration/, 'and says what to do');
	$idle->quit;
	is($node->safe_psql('postgres', $check), $expected, 'works after that');
}
$node->append_conf('postgresql.conf', "rdma_fdw.connect_timeout = '10s'");
$node->reload;

# One that reads many streams at a time has its share of the buffers, and no more; it waits for one of its own.
$node->safe_psql('postgres', q{
	CREATE VIEW endless AS SELECT generate_series(1, 1000000000) AS g;
	IMPORT FOREIGN SCHEMA public LIMIT TO (endless) FROM SERVER self INTO f;
	GRANT USAGE ON SCHEMA f TO greedy; GRANT SELECT ON f.endless TO greedy;
	CREATE USER MAPPING FOR greedy SERVER self OPTIONS (user 'postgres', password_required 'false');
	ALTER SERVER self OPTIONS (ADD receive_buffers '4', ADD receive_buffer_size '1024');
});
my $open = 'SET rdma_fdw.buffer_wait = 100; SET ROLE greedy; BEGIN; DECLARE c CURSOR FOR SELECT g FROM f.endless; MOVE 1 FROM c';
$node->safe_psql('postgres', "ALTER ROLE postgres SET rdma_fdw.role_share = 20");
my @holders = map { my $h = $node->background_psql('postgres', on_error_stop => 0); $h->query_safe($open); $h } 1 .. 3;
(undef, undef, $refusal) = $node->psql('postgres', $open);
like($refusal, qr/no buffer memory for a stream on the reading node within 100 ms: the role has its share of it \(rdma_fdw\.role_share\)/, 'a role may have its share of the buffer memory');
is($node->safe_psql('postgres', 'SET rdma_fdw.buffer_wait = 100; SELECT count(*) FROM (SELECT g FROM f.endless LIMIT 1000) s'), 1000, 'and another one has buffers');
$holders[0]->quit;
ok(rdma_wait($node, 'SELECT count(*) <= 4 FROM rdma.stat_flows', 60), 'one stream ends');
is($node->safe_psql('postgres', "$open; FETCH 1 FROM c"), 2, 'what the role gives back it may have again');
$_->quit foreach @holders[ 1, 2 ];
$node->safe_psql('postgres', 'ALTER ROLE postgres RESET rdma_fdw.role_share; ALTER SERVER self OPTIONS (DROP receive_buffers, DROP receive_buffer_size)');

# A crowd that is larger than what there is room for, of clients that begin to speak and then do not go on, pushes out its own: an engine in the
# middle of its handshake, which has named its token, stays; so does the number of sockets.
($id, $secret) = token();
my $slow = connect_engine();
print $slow message(hello => hello($id));
my $answer = substr(read_bytes($slow, 16 + length(hello())), 16);
my $elsewhere = connect_engine('127.0.0.2');
print $elsewhere 'R';
my @mob = map { my $s = connect_engine(); print $s 'R'; $s } 1 .. 400;
ok(closed($mob[0]), 'the oldest of a crowd gives way');
ok(!IO::Select->new($elsewhere)->can_read(0), 'and not one that came before from another address');
close($elsewhere);
my $engine = $node->safe_psql('postgres', 'SELECT pid FROM rdma.stat_engine');
my @sockets = grep { (readlink($_) // '') =~ /^socket/ } glob("/proc/$engine/fd/*");
cmp_ok(scalar(@sockets), '<', 350, 'and does not grow');
print $slow message(proof => $id . hmac_sha256('initiator' . hello($id) . $answer, $secret));
is(unpack('x4v', read_bytes($slow, 16)), $TYPE{welcome}, 'an engine that has named its token stays');
# The same from a client that names none, or one that another connection has named: it is one of the crowd.
($id, $secret) = token();
my ($named, $again) = (connect_engine(), connect_engine());
foreach my $s ($named, $again)
{
	print $s message(hello => hello($id));
	$answer = substr(read_bytes($s, 16 + length(hello())), 16);
}
close($_) foreach @mob;
@mob = map { my $s = connect_engine(); print $s 'R'; $s } 1 .. 400;
ok(closed($again), 'a token keeps one connection');
close($_) foreach @mob;
print $named message(hello => '');
ok(closed($named), 'and that only as long as it says what it should');
close($slow);

# A client that connects and says nothing does not stay.
my $silent = connect_engine();
ok(closed($silent), 'a silent client is thrown out');
my @crowd = map { connect_engine() } 1 .. 100;
is($node->safe_psql('postgres', $check), $expected, 'a crowd of silent clients keeps nobody out');
close($_) foreach @crowd;

rdma_healthy($node, $check, $expected, 'after all intruders');
cmp_ok($node->safe_psql('postgres', 'SELECT handshakes_refused FROM rdma.stat_engine'), '>=', 3, 'refused handshakes are counted');
cmp_ok($node->safe_psql('postgres', 'SELECT garbage_connections FROM rdma.stat_engine'), '>=', 10, 'garbage connections are counted');

# What a role may have is that and no less once it has let go, also after a crash.
$node->safe_psql('postgres', 'ALTER ROLE greedy RESET rdma_fdw.role_share');
foreach my $when ('once', 'again', 'after a crash')
{
	is($node->safe_psql('postgres', 'SET rdma_fdw.disable = receive_pool; SET ROLE greedy; BEGIN; ' . $listen->(32)), 32, "512 flows are allowed $when");
	(undef, undef, $refusal) = $node->psql('postgres', 'SET rdma_fdw.disable = receive_pool; SET ROLE greedy; BEGIN; ' . $listen->(33));
	like($refusal, qr/role "greedy" has 512 flows of rdma_fdw, as many as one role may have/, "and one more is not $when");
	next if $when ne 'again';
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	my $victim = $holder->query_safe('SELECT pg_backend_pid()');
	$holder->query_safe('SET rdma_fdw.disable = receive_pool; SET ROLE greedy; BEGIN; ' . $listen->(20));
	kill 'KILL', $victim;
	ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'the server comes back');
	eval { $holder->quit };
	$self = pack('H*', $node->safe_psql('postgres', 'SELECT node FROM rdma.stat_engine'));
	is($node->safe_psql('postgres', $check), $expected, 'and works');
}
$node->stop;
done_testing();
