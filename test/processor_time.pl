#!/usr/bin/perl
# processor_time.pl FILE COMMAND...: runs COMMAND, ends with its exit status, and writes the seconds of processor time, in user
# mode and in the kernel, of COMMAND and of everything that it started into FILE. A machine that is busy with something else
# changes how long a test takes, but hardly this.
#
# A PostgreSQL server outlives the pg_ctl that started it, and its new parent is init. Therefore this process asks the kernel
# to be the parent of such orphans: prctl(PR_SET_CHILD_SUBREAPER). Where the call's number is unknown, servers are not counted.
use strict;
use warnings;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(usleep);

my ($file, @command) = @ARGV;
my %prctl = (x86_64 => 157, aarch64 => 167);
my $number = $prctl{ (POSIX::uname())[4] };
syscall($number, 36, 1, 0, 0, 0) if $number;

my $main = fork() // die "fork: $!\n";
if ($main == 0)
{
	exec { $command[0] } @command or die "$command[0]: $!\n";
}
my $status;
while ((my $pid = wait()) > 0)
{
	next if $pid != $main;
	$status = $?;
	last;
}
# Servers that were told to stop are about to end. Those that were not keep running, and are not counted.
for (1 .. 40)
{
	my $pid = waitpid(-1, WNOHANG);
	last if $pid < 0;
	usleep(50_000) if $pid == 0;
}
my (undef, undef, $user, $system) = times;
if (open(my $out, '>', $file))
{
	printf $out "%.1f\n", $user + $system;
	close $out;
}
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
