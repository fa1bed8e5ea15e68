# What engines send each other over TCP, seen and changed by somebody on the way: nothing can be read, nothing that was changed, dropped,
# repeated or exchanged becomes a row, and nobody can talk two nodes out of encryption.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tcp = "rdma_fdw.provider = tcp\nrdma_fdw.engine_lanes = 2\n";
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'tcp', Listen => 64) or die "listen: $!";
my $n1 = rdma_node('n1', conf => $tcp . "rdma_fdw.engine_address = '127.0.0.1:" . $listener->sockport . "'\n");
my $coord = rdma_node('coord', conf => $tcp);
rdma_connect($coord, n1 => $n1, options => "inline_limit '0'");
$n1->safe_psql('postgres', q{
	CREATE TABLE t AS SELECT i, 'secret note ' || i AS note FROM generate_series(1, 50000) i;
	CREATE TABLE w (i int, note text);
});
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (t, w) FROM SERVER n1 INTO public');
my $query = 'SELECT count(note), sum(i), md5(string_agg(note, NULL ORDER BY i)) FROM (SELECT * FROM t OFFSET 0) x';
my $right = $n1->safe_psql('postgres', $query);
my $store = q{INSERT INTO w SELECT i, 'secret letter ' || i FROM generate_series(1, 50000) i};
my $transports = 'SELECT DISTINCT transport, encryption FROM rdma.stat_peers WHERE state = \'connected\'';
my $seen = PostgreSQL::Test::Utils::tempdir() . '/seen';
my $target = $n1->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');
my $forwarder;
# The first 8 bytes of a slot and the 16 of a message's header (wire.h). Their first 4 alone are no proof: of some megabytes of cipher
# text, one in a thousand has any 4 bytes somewhere.
my $slot = qr/RSLT[\0-\x07]\0{3}/;
my $control = qr/RDF1[\x01-\x1f]\0.{6}\0{4}/s;

use constant { HEADER => 16, ATTACH => 72, ATTACHED => 48, HELLO_ENCRYPTION => 16 + 152 };

sub read_whole
{
	my ($from, $length) = @_;
	my $bytes = '';
	while (length($bytes) < $length)
	{
		sysread($from, $bytes, $length - length($bytes), length($bytes)) or die "closed\n";
	}
	return $bytes;
}

sub write_whole
{
	my ($to, $bytes) = @_;
	while (length($bytes) > 0)
	{
		my $part = syswrite($to, $bytes) or die "closed\n";
		substr($bytes, 0, $part, '');
	}
	return;
}

# A process that passes bytes of one direction, and changes those from the 300,000th on of what a data node sends of its rows.
sub pump
{
	my ($from, $to, $mode) = @_;
	my $pid = fork() // die "fork: $!";
	return if $pid != 0;
	my $total = 0;
	my $done = 0;
	my $kept;

	open(my $file, '>>', $seen) or POSIX::_exit(1);
	$file->autoflush(1);
	while (sysread($from, my $bytes, 8192))
	{
		print $file $bytes;
		$total += length($bytes);
		if (!$done && $mode ne 'pass' && $total > 300_000)
		{
			if ($mode eq 'exchange' && !defined $kept) { $kept = $bytes; next; }
			$done = 1;
			if ($mode eq 'flip') { substr($bytes, length($bytes) / 2, 1) ^= "\x04"; }
			elsif ($mode eq 'drop') { substr($bytes, 0, 100, ''); }
			elsif ($mode eq 'repeat') { $bytes .= $bytes; }
			elsif ($mode eq 'exchange') { $bytes .= $kept; }
		}
		eval { write_whole($to, $bytes); 1 } or last;
	}
	shutdown($to, 1);
	POSIX::_exit(0);
}

# One client that has come; it may have gone again.
my @lanes;
sub take
{
	my ($client, $server, $mode) = @_;
	my $first = read_whole($client, HEADER);
	my $type = unpack('x4v', $first);

	if ($type == 1 && $mode eq 'downgrade')
	{
		$first .= read_whole($client, HELLO_ENCRYPTION + 8 - HEADER);
		substr($first, HELLO_ENCRYPTION, 4) = pack('V', 0);
	}
	if ($type == 6 && $mode eq 'lanes')
	{
		$first .= read_whole($client, ATTACH - HEADER);
		write_whole($server, $first);
		push @lanes, [ $client, $server ];
		return if @lanes < 2;
		write_whole($$_[0], read_whole($$_[1], ATTACHED)) foreach @lanes;
		foreach my $i (0, 1)
		{
			pump($lanes[$i][0], $lanes[1 - $i][1], 'pass');
			pump($lanes[1 - $i][1], $lanes[$i][0], 'pass');
		}
		@lanes = ();
		return;
	}
	open(my $file, '>>', $seen) or die;
	print $file $first;
	close($file);
	write_whole($server, $first);
	pump($client, $server, 'pass');
	pump($server, $client, $mode);
	return;
}

sub forward
{
	my ($mode) = @_;

	$SIG{CHLD} = 'IGNORE';
	$SIG{PIPE} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $target, Proto => 'tcp') or next;
		eval { take($client, $server, $mode) };
	}
	return;
}

sub stop_forwarder
{
	return unless defined $forwarder;
	kill 'KILL', -$forwarder;
	waitpid($forwarder, 0);
	undef $forwarder;
	return;
}

# Everything that was connected is cut, and what comes next goes through a forwarder of that kind.
sub forward_as
{
	my ($mode) = @_;

	stop_forwarder();
	ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_peers WHERE state IN (\'connected\', \'closing\', \'connecting\')', 60), 'both nodes know that the connection is cut') foreach ($coord, $n1);
	unlink $seen;
	$forwarder = fork() // die "fork: $!";
	return if $forwarder != 0;
	POSIX::setpgid(0, 0);
	eval { forward($mode) };
	POSIX::_exit(0);
}

sub settings
{
	my (%conf) = @_;

	stop_forwarder();
	foreach my $name (sort keys %conf)
	{
		my $node = $name eq 'n1' ? $n1 : $coord;
		$node->append_conf('postgresql.conf', $conf{$name});
		$node->restart;
	}
	ok(rdma_wait($n1, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), 'the engine is there again');
	$target = $n1->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');
	forward_as('pass');
	return;
}

sub seen { return -e $seen ? slurp_file($seen) : ''; }

END { my $status = $?; stop_forwarder(); $? = $status; }

# ---- nothing is read
forward_as('pass');
is($coord->safe_psql('postgres', $query), $right, 'rows come');
is($coord->safe_psql('postgres', $transports), 'tcp|TLS 1.3 AES-256-GCM', 'encrypted, unless settings say otherwise');
like($coord->safe_psql('postgres', "EXPLAIN (ANALYZE, VERBOSE) $query"), qr/^ *Encryption: TLS 1\.3 AES-256-GCM$/m, 'which EXPLAIN shows');
is($coord->safe_psql('postgres', "SELECT item, status, value, fix FROM rdma.check('n1') WHERE item = 'encryption'"), 'encryption|ok|TLS 1.3 AES-256-GCM|', 'and rdma.check');
is($n1->safe_psql('postgres', $transports), 'tcp|TLS 1.3 AES-256-GCM', 'which both nodes say');
$coord->safe_psql('postgres', "$store; DELETE FROM w WHERE i < 0");
is($n1->safe_psql('postgres', 'SELECT count(*), max(length(note)) FROM w'), '50000|19', 'rows go');
my $bytes = seen();
cmp_ok(length($bytes), '>', 1_500_000, 'all of it was seen on the way');
unlike($bytes, qr/secret/, 'but no row');
unlike($bytes, $slot, 'and no slot');
my $messages = () = $bytes =~ /$control/g;
is($messages, 8, 'and no more of the control protocol than HELLO, CHALLENGE, PROOF, WELCOME, and ATTACH and ATTACHED for each lane');

# ---- nothing that was changed arrives
foreach my $mode ('flip', 'drop', 'repeat', 'exchange')
{
	forward_as($mode);
	my ($status, $out, $err) = $coord->psql('postgres', $query);
	isnt($status, 0, "$mode: an error");
	like($err, qr/lost the connection to the engine/, "$mode: which says that the connection was lost");
	is($out, '', "$mode: and no row");
}

# ---- nothing is talked out of it
forward_as('downgrade');
my ($status, $out, $err) = $coord->psql('postgres', $query);
isnt($status, 0, 'who changes the policy on the way');
like($err, qr/could not connect to the engine|refused the connection/, 'gets no connection');
unlike(seen(), qr/secret/, 'and no row');
forward_as('lanes');
($status, $out, $err) = $coord->psql('postgres', $query);
isnt($status, 0, 'sockets of two lanes that take the place of each other');
like($err, qr/could not connect to the engine|lost the connection/, 'are no connection');
forward_as('pass');
is($coord->safe_psql('postgres', $query), $right, 'without all that rows come again');

# ---- the stricter of two nodes' settings holds
settings(coord => "rdma_fdw.encryption = off\n", n1 => "rdma_fdw.encryption = require\n");
is($coord->safe_psql('postgres', $query), $right, 'one wants no encryption, the other requires it');
is($coord->safe_psql('postgres', $transports), 'tcp|TLS 1.3 AES-256-GCM', 'then there is');
unlike(seen(), qr/secret/, 'and nothing is read');
settings(n1 => "rdma_fdw.encryption = auto\n");
is($coord->safe_psql('postgres', $query), $right, 'one wants no encryption, the other does not say');
is($coord->safe_psql('postgres', $transports), 'tcp|TLS 1.3 AES-256-GCM', 'then there is');
settings(n1 => "rdma_fdw.encryption = off\n");
is($coord->safe_psql('postgres', $query), $right, 'both want none');
is($coord->safe_psql('postgres', $transports), 'tcp|none', 'then there is none');
like(seen(), qr/secret note 4242/, 'and who is on the way reads the rows');
like(seen(), $slot, 'in slots');
like($coord->safe_psql('postgres', "EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) $query"), qr/"Encryption": "none"/, 'which EXPLAIN shows');
like($coord->safe_psql('postgres', "SELECT item, status, value, fix FROM rdma.check('n1') WHERE item = 'encryption'"), qr/^encryption\|info\|none\|.*rdma_fdw\.encryption = auto/, 'and rdma.check, with what to do');

# ---- a server whose rows must not go in clear, and one whose database connection is encrypted
$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (ADD encryption 'require')});
foreach my $sql ($query, "INSERT INTO w SELECT i, 'x' FROM generate_series(1, 50000) i")
{
	($status, $out, $err) = $coord->psql('postgres', $sql);
	is($status, 3, 'option encryption refuses rows in clear');
	like($err, qr/ERROR:  rows are not encrypted between this node and server "n1".*rdma_fdw\.encryption = off/s, 'and says which setting lets them');
	is($out, '', 'none comes');
}
is($n1->safe_psql('postgres', 'SELECT count(*) FROM w'), '50000', 'and none goes');
isnt(($coord->psql('postgres', q{ALTER SERVER n1 OPTIONS (SET encryption 'off')}))[0], 0, 'it cannot be off');
$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (SET encryption 'auto')});
($status, $out, $err) = $coord->psql('postgres', $query);
is("$out$err", $right, 'without it they come, without a word where nobody encrypts anything');

settings(coord => "rdma_fdw.trusted_networks = '10.0.0.0/8, 127.0.0.0/8'\n", n1 => "rdma_fdw.encryption = off\n");
$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (SET encryption 'require')});
is($coord->safe_psql('postgres', $query), $right, 'nor over a network that is trusted');
is($coord->safe_psql('postgres', $transports), 'tcp|trusted network', 'which both nodes may see otherwise');
is($n1->safe_psql('postgres', $transports), 'tcp|none', 'each by its own list');
like($coord->safe_psql('postgres', "SELECT status, value FROM rdma.check('n1') WHERE item = 'encryption'"), qr/^ok\|trusted network$/, 'and nothing to complain of');
isnt(($coord->psql('postgres', q{ALTER SYSTEM SET rdma_fdw.trusted_networks = '10.0.0.0/8, somewhere'}))[0], 0, 'a list of networks has no names');
$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (SET encryption 'auto')});
settings(coord => "rdma_fdw.trusted_networks = ''\n");

SKIP:
{
	my $directory = $n1->data_dir;
	my @make = ('openssl', 'req', '-new', '-x509', '-days', '2', '-nodes', '-subj', '/CN=localhost', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
		'-out', "$directory/server.crt", '-keyout', "$directory/server.key");

	skip 'no openssl to make a certificate with', 6 if system("@make >/dev/null 2>&1") != 0;
	chmod(0600, "$directory/server.key");
	settings(n1 => "ssl = on\n");
	$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (ADD sslmode 'require')});
	my $twice = "$query; $query";
	($status, $out, $err) = $coord->psql('postgres', $twice);
	is($out, "$right\n$right", 'rows come in clear beside an encrypted database connection');
	my $warnings = () = $err =~ /WARNING:  rows are not encrypted between this node and server "n1"/g;
	is($warnings, 1, 'with one warning');
	like($coord->safe_psql('postgres', "SELECT status FROM rdma.check('n1') WHERE item = 'encryption'"), qr/^problem$/, 'and a problem in rdma.check');
	settings(n1 => "rdma_fdw.encryption = auto\n");
	($status, $out, $err) = $coord->psql('postgres', $query);
	is("$out$err", $right, 'both encrypted: nothing to warn of');
	$coord->safe_psql('postgres', q{ALTER SERVER n1 OPTIONS (SET encryption 'require')});
	is($coord->safe_psql('postgres', $query), $right, 'nor to refuse');
	unlike(seen(), qr/secret/, 'and nothing is read');
}

done_testing();
