# Proxy.pm: a node that lies. It forwards PostgreSQL's protocol between a coordinator and a node, tells which of the questions of
# Lying::Questions pass, and answers one of them in its own way.
#
#   my $proxy = Lying::Proxy->start($real_port);      # a process; returns after it listens
#   $proxy->port
#   $proxy->tell('key', 'null');                      # lies like this from now on: see %lies; tell() without arguments: the truth
#   my ($seen, $unknown, $lies) = $proxy->heard;      # since the last call: keys of questions (hash), texts of none (hash), how many lies
#   $proxy->tell('key', 'ask_number');                # the same for the questions themselves: see %asks
#   $proxy->end
#
# It looks at messages of the client to know which statement the next answer is to: simple queries, and the extended protocol, also in
# pipelines and with prepared statements. Only answers of the statement that is lied about are changed.
package Lying::Proxy;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Socket;
use Time::HiRes qw(time);
use Lying::Questions;

use constant ROOM => 4 << 20;    # bytes that wait in one direction of a connection

my ($lie_key, $lie, $told) = ('', 'honest', 0);

# ---------- lies: what becomes of the messages of one answer ----------

# A message of the protocol.
sub message
{
	my ($type, $body) = @_;
	return $type . pack('N', length($body) + 4) . $body;
}

sub fields_of
{
	my ($body) = @_;
	my ($count, $at, @fields) = (unpack('n', $body), 2);
	for (1 .. $count)
	{
		my $length = unpack('N', substr($body, $at, 4));
		$at += 4;
		if ($length == 0xffffffff) { push @fields, undef; next; }
		push @fields, substr($body, $at, $length);
		$at += $length;
	}
	return @fields;
}

sub row_of
{
	return message('D', pack('n', scalar @_) . join('', map { defined $_ ? pack('N', length $_) . $_ : pack('N', 0xffffffff) } @_));
}

# Names, and what is behind each name.
sub columns_of
{
	my ($body) = @_;
	my ($count, @columns) = (unpack('n', $body));
	my $rest = substr($body, 2);
	push @columns, [ $1, $2 ] while $rest =~ /\G([^\0]*\0)(.{18})/gs;
	return @columns;
}

sub head_of
{
	return message('T', pack('n', scalar @_) . join('', map { $_->[0] . $_->[1] } @_));
}

sub error
{
	my (%fields) = @_;
	return message('E', join('', map { "$_$fields{$_}\0" } sort keys %fields) . "\0");
}

my $canary = $Lying::Questions::canary;
my @texts = ('', ' ', '-1', '0', '1', '2', '1.5', ' 1', '1 ', '+1', '1e3', '0x10', 'NaN', 'Infinity', '-Infinity', '2147483647', '2147483648', '-2147483649', '9223372036854775807', '9223372036854775808',
	'-9223372036854775809', '99999999999999999999999999', 't', 'f', 'true', 'null', 'NULL', '{}', '{', '{NULL}', '{1,2}', '{{1,2},{3,4}}', '[5:6]={1,2}', '[0:9999999]={1}', '{{{{{{{1}}}}}}}', '{"x"}', '[]', '[null]', '[[]]',
	'{"a":1}', '[1]', '["x","y"]', '[["x","y",[["z","O"]]]]', '[{"name":null}]', '"x"', 'x', "\xff\xfe", "a\x01b", '0/0', 'FFFFFFFF/FFFFFFFF', '2020-01-01', '294277-01-01', '-infinity', 'pg_catalog.int4', 'int4[]', 'record', 'regclass', 'nothing',
	'00000000-0000-0000-0000-000000000000', '\\x', '\\x00', '\\xff', "'", "''", '"', '\\', '$1', '%s', '%n%n%n', '--', '/*', "');$canary;--", "'; $canary; --", "1; $canary", "x\"; $canary; --", "1}'); $canary; --", "\$\$; $canary; --", "x) FROM y; $canary",
	'(' x 20000, '[' x 20000, 'x' x 1_000_000, '1,' x 50_000, 'A' x 64, "\xe2\x82" );

# name => sub (what is left to say of this answer: array of [type, body]) -> messages as text, or a hash with more
my %lies = (
	honest => sub { return join('', map { message(@$_) } @_); },
	null => sub { return each_row(\@_, sub { map { undef } @_ }); },
	empty => sub { return each_row(\@_, sub { map { '' } @_ }); },
	none => sub { return join('', map { message(@$_) } grep { $_->[0] ne 'D' } @_); },
	twice => sub { return join('', map { message(@$_) x ($_->[0] eq 'D' ? 2 : 1) } @_); },
	backwards => sub { return each_row(\@_, sub { reverse @_ }); },
	no_columns => sub { return each_column(\@_, sub { () }); },
	one_column => sub { return each_column(\@_, sub { $_[0] }); },
	fewer_columns => sub { return each_column(\@_, sub { @_[ 0 .. $#_ - 1 ] }); },
	more_columns => sub { return each_column(\@_, sub { (@_, $_[-1]) }); },
	short_rows => sub { return each_row(\@_, sub { @_[ 0 .. $#_ - 1 ] }); },
	rows_without_head => sub { return join('', map { message(@$_) } grep { $_->[0] ne 'T' } @_); },
	head_twice => sub { return join('', map { message(@$_) x ($_->[0] eq 'T' ? 2 : 1) } @_); },
	binary => sub { return join('', map { message($_->[0], $_->[0] eq 'T' ? pack('n', unpack('n', $_->[1])) . join('', map { $_->[0] . substr($_->[1], 0, 16) . pack('n', 1) } columns_of($_->[1])) : $_->[1]) } @_); },
	tag => sub { return join('', map { message($_->[0], $_->[0] eq 'C' ? (('', 'x', 'INSERT 0 99999999999999999999', "SELECT -1; $canary", 'DELETE 1', 'ROLLBACK', 'COMMIT')[ rand 7 ]) . "\0" : $_->[1]) } @_); },
	no_tag => sub { return join('', map { message(@$_) } grep { $_->[0] ne 'C' } @_) . message('I', ''); },
	error => sub { return { text => error(S => 'ERROR', V => 'ERROR', C => (qw(40001 42883 57014 XX000 00000 25P02 08006 3F000 55P03 40P01 42501 0A000 55000 XXXXX))[ rand 14 ], M => "lie'; $canary; --", D => '%s%n', H => "\$1\n", q => $canary), skip => 1 }; },
	bare_error => sub { return { text => error((C => 'XX')), skip => 1 }; },
	fatal => sub { return { text => error(S => 'FATAL', V => 'FATAL', C => '57P01', M => 'gone'), close => 1 }; },
	notices => sub { return (message('N', "SNOTICE\0VNOTICE\0C00000\0M$canary %s\0\0") . message('S', "server_version\0007.0\0") . message('S', "client_encoding\0SQL_ASCII\0") . message('S', "rdma_fdw.store\0x 99999999999 ffffffffffffffffff\0")
		. message('A', pack('N', 1) . "x\0y\0")) . join('', map { message(@$_) } @_); },
	encoding => sub { return message('S', "client_encoding\0SJIS\0") . message('S', "standard_conforming_strings\0off\0") . join('', map { message(@$_) } @_); },
	close => sub { return { text => '', close => 1 }; },
	half => sub { my $text = join('', map { message(@$_) } @_); return { text => substr($text, 0, length($text) / 2), close => 1 }; },
	silent => sub { return { text => '', silent => 1 }; },
	length => sub { return { text => 'D' . pack('N', 0x3fffffff) . pack('n', 1), silent => 1 }; },
	negative => sub { return { text => 'D' . pack('N', 2) . 'xxxx', silent => 1 }; },
	field => sub { return { text => join('', map { $_->[0] eq 'T' ? message(@$_) : () } @_) . message('D', pack('n', 1) . pack('N', 0x7fffffff) . 'x'), silent => 1 }; },
	strange => sub { return join('', map { message(@$_) } @_) . message('z', 'x' x 10); },
	copy => sub { return { text => message('G', pack('Cn', 0, 0)), silent => 1 }; },
	copy_out => sub { return message('H', pack('Cn', 0, 0)) . message('d', "x\n") x 100 . message('c', '') . join('', map { message(@$_) } grep { $_->[0] eq 'C' } @_); },
	late => sub { return { text => join('', map { message(@$_) } @_), delay => 1 }; },
	endless => sub { my ($head) = grep { $_->[0] eq 'T' } @_; my ($row) = grep { $_->[0] eq 'D' } @_; return $row ? { text => $head ? message(@$head) : '', endless => message(@$row) } : join('', map { message(@$_) } @_); },
	many => sub { return join('', map { message(@$_) x ($_->[0] eq 'D' ? 5000 : 1) } @_); },
	(map { my $text = $texts[$_]; ("text$_" => sub { return each_row(\@_, sub { map { $text } @_ }); },
			"first$_" => sub { return each_row(\@_, sub { my @f = @_; $f[0] = $text if @f; @f }); }, "last$_" => sub { return each_row(\@_, sub { my @f = @_; $f[-1] = $text if @f; @f }); },
			"one$_" => sub { my $at = rand; return each_row(\@_, sub { my @f = @_; $f[ @f * $at ] = $text if @f; @f }); }) } 0 .. $#texts),
	flip => sub { my $at = rand; my $with = int(rand 256); return each_row(\@_, sub { map { my $f = $_; substr($f, length($f) * $at, 1) = chr($with) if defined $f && length $f; $f } @_ }); },
	cut => sub { my $at = rand; return each_row(\@_, sub { map { defined $_ ? substr($_, 0, length($_) * $at) : undef } @_ }); },
	longer => sub { return each_row(\@_, sub { map { defined $_ ? "$_$_" : undef } @_ }); },
	null_one => sub { my $at = rand; return each_row(\@_, sub { my @f = @_; $f[ @f * $at ] = undef if @f; @f }); },
	digits => sub { my $d = int(rand 10); return each_row(\@_, sub { map { defined $_ ? s/[0-9]/$d/gr : undef } @_ }); },
	bool => sub { return each_row(\@_, sub { map { !defined $_ ? undef : $_ eq 't' ? 'f' : $_ eq 'f' ? 't' : $_ } @_ }); });

sub lies { return sort keys %lies; }
sub texts { return @texts; }

# After these there is no answer, or none soon.
sub is_silent { return $_[0] =~ /^(?:silent|length|negative|field|copy|late|endless)$/; }

sub each_row
{
	my ($messages, $change) = @_;
	return join('', map { $_->[0] eq 'D' ? row_of($change->(fields_of($_->[1]))) : message(@$_) } @$messages);
}

sub each_column
{
	my ($messages, $change) = @_;
	return join('', map { $_->[0] eq 'D' ? row_of($change->(fields_of($_->[1]))) : $_->[0] eq 'T' ? head_of($change->(columns_of($_->[1]))) : message(@$_) } @$messages);
}

# ---------- lies of a coordinator: what becomes of the text of a question, or of its parameters ----------

sub one_of { return $_[ rand @_ ]; }

# A place in a text, as one of the matches of an expression, with something else.
sub elsewhere
{
	my ($text, $what, $with) = @_;
	my @at;
	push @at, [ $-[0], $+[0] - $-[0] ] while $text =~ /$what/g;
	my $place = $at[ rand @at ] // return $text;
	substr($text, $place->[0], $place->[1]) = $with->(substr($text, $place->[0], $place->[1]));
	return $text;
}

my @numbers = qw(-1 0 1 2 7 255 65535 65536 2147483647 -2147483648 4294967295 9223372036854775807 99999999999999999999);
my @harmless = grep { !/DROP/ && length() < 100_000 } @texts;
my $literal = qr/'(?:[^'\\]|'')*'/;
my %change = (    # of a text, or of a parameter
	flip => sub { my ($t) = @_; substr($t, rand length $t, 1) = chr(rand 255) if length $t; return $t; },
	word => sub { my ($t) = @_; substr($t, 4 * int(rand(length($t) / 4)), 4) = one_of("\xff\xff\xff\xff", "\0\0\0\0", "\xff\xff\xff\x7f", "\1\0\0\0", pack('V', rand(2**32))) if length $t >= 4; return $t; },
	cut => sub { return substr($_[0], 0, length($_[0]) * rand()); },
	longer => sub { return $_[0] x 2; },
	number => sub { return elsewhere($_[0], qr/-?\d+/, sub { one_of(@numbers) }); },
	value => sub { my ($t) = @_; return $t =~ $literal ? elsewhere($t, $literal, sub { "'" . (one_of(@harmless) =~ s/'/''/gr) . "'" }) : one_of(@harmless); },
	inner => sub { return elsewhere($_[0], qr/\w+/, sub { one_of(@numbers, qw(x public.seed rdma.placement pg_authid hash replicate NULL)) }); },
	nothing => sub { return undef; });
my %asks = map { ("ask_$_" => $change{$_}) } keys %change;

sub asks { return sort keys %asks; }

# A text has no zero bytes and is no NULL.
sub changed_text { my ($text) = @_; return ($asks{$lie}->($text) // '') =~ s/\0.*//sr; }

# One of the parameters of Bind, or their number.
sub changed_bind
{
	my ($body) = @_;
	my ($names) = $body =~ /^([^\0]*\0[^\0]*\0)/;
	my $at = length $names;
	my $formats = 2 + 2 * unpack('n', substr($body, $at, 2));
	my $head = substr($body, 0, $at + $formats);
	my ($count, @values) = unpack('n', substr($body, $at + $formats, 2));
	$at += $formats + 2;
	for (1 .. $count)
	{
		my $length = unpack('l>', substr($body, $at, 4));
		push @values, $length < 0 ? undef : substr($body, $at + 4, $length);
		$at += 4 + ($length > 0 ? $length : 0);
	}
	if (@values)
	{
		my $which = int(rand @values);
		$values[$which] = $asks{$lie}->($values[$which] // '');
		pop @values if rand() < 0.03;
	}
	return $head . pack('n', scalar @values) . join('', map { defined $_ ? pack('N', length $_) . $_ : pack('N', 0xffffffff) } @values) . substr($body, $at);
}

# ---------- the process ----------

sub start
{
	my ($class, $real) = @_;
	my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die "proxy: $!\n";

	socketpair(my $mine, my $its, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "proxy: $!\n";
	my $pid = fork() // die "proxy: $!\n";
	if (!$pid)
	{
		close($mine);
		$SIG{PIPE} = 'IGNORE';
		$SIG{INT} = $SIG{TERM} = 'DEFAULT';
		$its->autoflush(1);
		eval { serve($its, $listen, $real); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);
	}
	close($its);
	$mine->autoflush(1);
	my $port = $listen->sockport;
	close($listen);
	return bless { pid => $pid, control => $mine, port => $port }, $class;
}

sub port { return $_[0]{port}; }

sub ask
{
	my ($self, $command) = @_;
	print { $self->{control} } "$command\n";
	my $answer = readline($self->{control});
	die "the proxy is gone\n" unless defined $answer;
	return JSON::PP->new->latin1->decode($answer);
}

sub tell { my ($self, $key, $lie, $seed) = @_; $self->ask(defined $key ? "lie\t$key\t$lie\t" . ($seed // 0) : 'truth'); return; }
sub heard { my ($self) = @_; my $r = $self->ask('heard'); return ($r->{seen}, $r->{unknown}, $r->{lies}); }

sub end
{
	my ($self) = @_;
	close($self->{control});
	waitpid($self->{pid}, 0);
	return;
}

my (%seen, %unknown);

sub command
{
	my ($control, $line) = @_;
	my ($what, @words) = split /\t/, $line;
	if ($what eq 'lie') { ($lie_key, $lie) = @words; srand($words[2]); $told = 0; }
	elsif ($what eq 'truth') { ($lie_key, $lie) = ('', 'honest'); }
	my $answer = { seen => {%seen}, unknown => {%unknown}, lies => $told };
	(%seen, %unknown) = () if $what eq 'heard';
	print $control JSON::PP->new->latin1->encode($answer), "\n";
	return;
}

sub serve
{
	my ($control, $listen, $real) = @_;
	my (%pair, $commands);

	$listen->blocking(0);
	$control->blocking(0);
	for (;;)
	{
		my (%read, @write);
		my $soon = 10;
		foreach my $side (values %pair)
		{
			my $c = $side->{c};
			$read{ fileno $side->{socket} } = $side->{socket} if length($side->{other}{out}) < ROOM && !$side->{eof};
			push @write, $side->{socket} if length $side->{out};
			$soon = 0.05 if @{ $c->{late} };
		}
		my ($ready, $writable) = IO::Select::select(IO::Select->new($listen, $control, values %read), @write ? IO::Select->new(@write) : undef, undef, $soon);
		foreach my $socket (@{ $ready // [] })
		{
			if ($socket == $control)
			{
				my $got = sysread($control, $commands, 65536, length($commands // ''));
				return if defined $got && $got == 0;
				command($control, $1) while $commands =~ s/^(.*)\n//;
			}
			elsif ($socket == $listen)
			{
				while (my $client = $listen->accept)
				{
					my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $real) or do { close($client); next; };
					$_->blocking(0) foreach $client, $server;
					my %c = (queue => [], statement => {}, late => [], endless => undef, answer => []);
					my %from = (socket => $client, out => '', in => '', started => 0, client => 1, c => \%c);
					my %to = (socket => $server, out => '', in => '', client => 0, c => \%c);
					@from{'other'} = \%to;
					@to{'other'} = \%from;
					@c{qw(client server)} = (\%from, \%to);
					$pair{ fileno $client } = \%from;
					$pair{ fileno $server } = \%to;
				}
			}
			elsif (my $side = $pair{ fileno($socket) // -1 })
			{
				my $got = sysread($socket, $side->{in}, 65536, length $side->{in});
				if (!defined $got) { next if $!{EAGAIN} || $!{EINTR}; $got = 0; }
				if ($got == 0) { $side->{eof} = 1; drop(\%pair, $side) unless !$side->{client} && length $side->{other}{out}; next; }
				$side->{client} ? from_client($side) : from_server($side);
			}
		}
		foreach my $side (values %pair)
		{
			my $c = $side->{c};
			next unless $side->{client};
			while (@{ $c->{late} } && $c->{late}[0][0] <= time) { $side->{out} .= (shift @{ $c->{late} })->[1]; }
			$side->{out} .= $c->{endless} x 100 if defined $c->{endless} && length($side->{out}) < ROOM / 4;
		}
		foreach my $side (map { $pair{ fileno($_) // -1 } } @{ $writable // [] })
		{
			next unless $side && length $side->{out};
			my $sent = syswrite($side->{socket}, $side->{out}, 262144);
			if (defined $sent) { substr($side->{out}, 0, $sent) = ''; }
			elsif (!$!{EAGAIN} && !$!{EINTR}) { drop(\%pair, $side); next; }
			drop(\%pair, $side) if $side->{client} && $side->{out} eq '' && ($side->{c}{close} || $side->{other}{eof});
		}
		foreach my $side (values %pair)
		{
			drop(\%pair, $side) if $side->{client} && $side->{c}{close} && $side->{out} eq '';
		}
	}
}

sub drop
{
	my ($pair, $side) = @_;
	foreach my $socket ($side->{socket}, $side->{other}{socket})
	{
		next unless defined fileno $socket;
		delete $pair->{ fileno $socket };
		close($socket);
	}
	$_->{other} = { out => '' } foreach $side, $side->{other};
	return;
}

# Takes whole messages of the client apart, and forwards all.
sub from_client
{
	my ($side) = @_;
	my $c = $side->{c};
	while (length $side->{in} >= 4)
	{
		my $head = $side->{started} ? 5 : 4;
		last if length $side->{in} < $head;
		my $length = $head - 4 + unpack('N', substr($side->{in}, $head - 4, 4));
		last if length $side->{in} < $length;
		my $message = substr($side->{in}, 0, $length, '');
		if (!$side->{started}) { $side->{other}{out} .= $message; $side->{started} = unpack('N', substr($message, 4, 4)) == 196608; next; }
		my ($type, $body) = (substr($message, 0, 1), substr($message, 5));
		$side->{other}{out} .= $asks{$lie} ? changed($c, $type, $body) : $message;
		if ($type eq 'Q') { ask_of($c, $body =~ s/\0.*//sr, 1); }
		elsif ($type eq 'P') { my ($name, $text) = split /\0/, $body; $c->{statement}{$name} = $text; }
		elsif ($type eq 'B') { my (undef, $name) = split /\0/, $body, 3; $c->{bound} = $c->{statement}{$name} // ''; }
		elsif ($type eq 'E') { ask_of($c, $c->{bound}, 0); }
		elsif ($type eq 'S') { push @{ $c->{queue} }, { sync => 1 }; }
	}
	return;
}

# A message of a coordinator that lies.
sub changed
{
	my ($c, $type, $body) = @_;
	my $is = sub { return grep { $_ eq $lie_key } Lying::Questions::keys_of($_[0]); };

	if ($type eq 'Q' && $is->($body =~ s/\0.*//sr)) { $told++; $body = changed_text($body =~ s/\0.*//sr) . "\0"; }
	elsif ($type eq 'P')
	{
		my ($name, $text, $types) = $body =~ /^([^\0]*\0)([^\0]*)(\0.*)$/s;
		if ($is->($text) && $text =~ /\d|$literal/ && rand() < 0.5) { $told++; $body = $name . changed_text($text) . $types; }
	}
	elsif ($type eq 'B')
	{
		my (undef, $name) = split /\0/, $body, 3;
		if ($is->($c->{statement}{$name} // '')) { $told++; $body = changed_bind($body); }
	}
	return message($type, $body);
}

sub ask_of
{
	my ($c, $text, $simple) = @_;
	my @keys = Lying::Questions::keys_of($text);
	$seen{$_}++ foreach @keys;
	$unknown{$text}++ unless @keys;
	push @{ $c->{queue} }, { text => $text, simple => $simple, lie => $lies{$lie} && scalar grep { $_ eq $lie_key } @keys };
	return;
}

sub from_server
{
	my ($side) = @_;
	my ($c, $client) = ($side->{c}, $side->{other});
	while (length $side->{in} >= 1)
	{
		last if length $side->{in} < 5;
		my $length = 1 + unpack('N', substr($side->{in}, 1, 4));
		last if length $side->{in} < $length;
		my $message = substr($side->{in}, 0, $length, '');
		my ($type, $body) = (substr($message, 0, 1), substr($message, 5));
		my $unit = $c->{queue}[0];

		next if $c->{deaf};
		if ($unit && !$unit->{sync} && $unit->{lie} && $type =~ /[TDC]/)
		{
			push @{ $c->{answer} }, [ $type, $body ];
			next unless $type eq 'C';
			say_lie($c, $client, splice @{ $c->{answer} });
			shift @{ $c->{queue} } unless $unit->{simple};
			next;
		}
		if ($c->{skipping}) { next unless $type eq 'Z'; $c->{skipping} = 0; }
		if ($c->{late_until}) { push @{ $c->{late} }, [ $c->{late_until}, $message ]; $c->{late_until} = 0 if $type eq 'Z'; }
		else { $client->{out} .= $message; }
		if ($type eq 'E') { shift @{ $c->{queue} } while @{ $c->{queue} } && !$c->{queue}[0]{sync} && !$c->{queue}[0]{simple}; }
		elsif ($type eq 'Z')
		{
			shift @{ $c->{queue} } while @{ $c->{queue} } && !$c->{queue}[0]{sync} && !$c->{queue}[0]{simple};
			shift @{ $c->{queue} };
		}
		elsif ($type =~ /[CIs]/ && $unit && !$unit->{sync} && !$unit->{simple}) { shift @{ $c->{queue} }; }
	}
	return;
}

sub say_lie
{
	my ($c, $client, @answer) = @_;
	my $said = $lies{$lie}->(@answer);
	$told++;
	$said = { text => $said } unless ref $said;
	if ($said->{delay})
	{
		$c->{late_until} = time + 3;
		push @{ $c->{late} }, [ $c->{late_until}, $said->{text} ];
		return;
	}
	$client->{out} .= $said->{text};
	$c->{endless} = $said->{endless};
	$c->{skipping} = 1 if $said->{skip};
	$c->{deaf} = 1 if $said->{silent} || defined $said->{endless} || $said->{close};
	$c->{close} = 1 if $said->{close};
	return;
}

1;
