#!/usr/bin/env perl
# sql_text.pl [FOLDER]: what another server says gets into the text of a statement only by include/rdma_fdw/sql_text.h or
# PostgreSQL's own quoting functions.
#
# Follows, in the text of all C files of src, what libpq's functions return: into variables, fields of structures, arguments,
# results and what is written through pointers. Prints a line for each place where it gets into a text that is put together or sent,
# unless it went through one of the functions of %clean before. Text for people is marked by rf_message_text(). Numbers count as
# harmless. Also prints each use of PQsendQuery() and rf_session_start(), which run several statements, outside of the files that
# are known to put in numbers only; each place outside of src/base/as_role.c that switches users; and each background worker that keeps the
# settings of its database; and each function of the install scripts that is SECURITY DEFINER without a search_path of its own.
# Exit status 1 when there is such a place.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Functions qw(arguments c_code c_files c_functions slurp);

my $verbose = @ARGV && $ARGV[0] eq '-v' && shift;
chdir($ARGV[0] // '.') or die "$ARGV[0]: $!\n";

# What other servers say.
my $source = qr/\b(?:PQgetvalue|PQparameterStatus|PQresultErrorField|PQresultErrorMessage|PQerrorMessage|PQcmdStatus|PQfname|PQunescapeBytea)\b/;

# What comes out of these is harmless in a statement, or goes into none.
my %clean = map { $_ => 1 } qw(quote_literal_cstr quote_identifier quote_qualified_identifier rf_append_literal rf_append_type
  rf_append_expression rf_append_array_member rf_append_text_array rf_answer_int64 rf_answer_double rf_answer_is_true
  rf_message_text rf_placement_timeline
  strcmp strncmp strlen strspn atoi strtod strtof strtol strtoll strtoul strtoull sscanf
  ereport errmsg errmsg_internal errdetail errdetail_internal errhint errcontext elog sizeof PQntuples PQnfields PQresultStatus PQgetisnull
  PQclear PQgetlength rf_gid_parse rf_find_column rf_session_raise rf_raise DirectFunctionCall1 OidFunctionCall3 InputFunctionCall CStringGetDatum CStringGetTextDatum);

# Statements are put together and sent by these.
my %sink = (    # with the places of their arguments that are, or go into, a text
	(map { $_ => [ 1 .. 20 ] } qw(appendStringInfo appendStringInfoString appendStringInfoChar appendBinaryStringInfo sprintf strcat strlcat)),
	psprintf => [ 0 .. 20 ], snprintf => [ 2 .. 20 ],
	(map { $_ => [1] } qw(rf_session_query rf_session_execute rf_session_send rf_session_command_deadline rf_command_create
		rf_session_start rf_commit_send_end PQsendQuery PQsendQueryParams PQexec PQexecParams)),
	rf_sessions_execute => [2], PQprepare => [2], PQsendPrepare => [2],
	(map { $_ => [0] } qw(SPI_execute SPI_execute_with_args SPI_execute_extended SPI_exec SPI_prepare)));
my $few_statements = qr{^src/remote/(?:query|snapshot|transaction|commit|wait)\.c$};

my (%function, %field);    # "name" or "file:name" -> what is known of it; "file:field" -> tainted
my $bad = 0;

sub lookup
{
	my ($file, $name) = @_;
	return $function{"$file:$name"} // $function{$name};
}

# Without the calls whose results are harmless, numbers of our own functions among them.
sub cleaned
{
	my ($file, $text) = @_;
	my $out = '';
	while ($text =~ /\b(\w+)\s*(?=\()/g)
	{
		my ($name, $start, $open) = ($1, $-[0], pos $text);
		my $known = lookup($file, $name);
		next unless $clean{$name} || ($known && $known->{number});
		my ($length) = arguments(substr($text, $open));
		$out .= substr($text, 0, $start) . '0';
		$text = substr($text, $open + $length);
		pos($text) = 0;
	}
	return $out . $text;
}

sub is_tainted
{
	my ($at, $text) = @_;
	$text = cleaned($at->{file}, $text);
	# not what decides which of two values it is, and no truth value
	$text =~ s/^[^{?]*\?//s;
	return 0 if $text =~ /^[^{]*(?:==|!=|&&|\|\|)/s;
	return 1 if $text =~ $source;
	for my $name (keys %{ $at->{variables} })
	{
		return 1 if $text =~ /(?<![\w.>])\Q$name\E\b(?!\s*(?:->|\.|\())/;
	}
	while ($text =~ /(?:->|\.)(\w+)\b/g)
	{
		return 1 if $field{"$at->{file}:$1"};
	}
	while ($text =~ /\b(\w+)\s*\(/g)
	{
		my $called = lookup($at->{file}, $1);
		return 1 if $called && $called->{returns};
	}
	return 0;
}

my $changed;
sub mark
{
	my ($where, $key) = @_;
	$changed ||= !$where->{$key};
	$where->{$key} = 1;
	return;
}

# What is assigned to becomes tainted.
sub taint
{
	my ($at, $left) = @_;
	$left =~ s/\[.*?\]//g;
	if ($left =~ /(?:->|\.)(\w+)\W*$/) { mark(\%field, "$at->{file}:$1"); }
	elsif ($left =~ /(\w+)\W*$/)
	{
		my $name = $1;
		mark($at->{variables}, $name);
		my ($place) = grep { $at->{parameters}[$_] eq $name } 0 .. $#{ $at->{parameters} };
		mark($at->{out}, $place) if defined $place && $left =~ /^\s*\(?\*/;
	}
	return;
}

sub look
{
	my ($at, $report) = @_;
	my $line = $at->{line};
	for my $statement (split /(?<=[;{}])/, $at->{body})
	{
		my $first = $line + ($statement =~ /^(\s*)/ ? ($1 =~ tr/\n//) : 0);
		$line += $statement =~ tr/\n//;
		# an initializer's braces end no statement: its values are looked at as what they are in
		if ($statement =~ /^\s*(?:[\w\s*]*?[\s*])?([\w.>\[\]()*\- +]+?)\s*(?<![=!<>])\+?=(?!=)(.*)$/s)
		{
			my ($left, $right) = ($1, $2);
			$left = (split /[\s*]+(?=\w+(?:\[.*)?$)/, $left)[-1] if $left !~ /^\s*\(?\*/ && $left !~ /->|\./;
			$left = "*$left" if $statement =~ /^\s*\(?\*/;
			taint($at, $left) if is_tainted($at, $right);
		}
		mark($at, 'returns') if $statement =~ /^\s*(?:.*\n)?\s*return\b(.*)$/s && $at->{pointer} && is_tainted($at, $1);
		while ($statement =~ /\b(\w+)\s*(?=\()/g)
		{
			my $name = $1;
			my (undef, @list) = arguments(substr($statement, pos $statement));
			my $known = lookup($at->{file}, $name);
			if ($name =~ /^(?:strlcpy|strcpy|strncpy|memcpy)$/ && $name ne 'memcpy' && is_tainted($at, $list[1])) { taint($at, $list[0]); }
			for my $i (0 .. $#list)
			{
				if ($known && $known->{out}{$i} && $list[$i] =~ /^\s*&?\s*([\w.>\-]+)\s*$/) { taint($at, $1); }
				next unless is_tainted($at, $list[$i]);
				if ($known && defined $known->{parameters}[$i] && !$clean{$name}) { mark($known->{variables}, $known->{parameters}[$i]); }
				next unless $report && $sink{$name} && grep { $_ == $i } @{ $sink{$name} };
				print "$at->{file}:$first: $name() in $at->{name}() puts what another server says into a text: see include/rdma_fdw/sql_text.h\n";
				$bad++;
				last;
			}
		}
	}
	return;
}

# ---------- the files ----------
my @functions;
for my $file (grep { $_ ne 'src/base/sql_text.c' } c_files())
{
	my $text = c_code($file);
	for my $at (c_functions($file, $text))
	{
		$at->{$_} = {} for qw(out variables);
		push @functions, $at;
		$function{ $at->{static} ? "$file:$at->{name}" : $at->{name} } = $at;
	}
	if ($file ne 'src/base/as_role.c' && $text =~ /\bSetUserIdAndSecContext\s*\(/)
	{
		print "$file: SetUserIdAndSecContext() keeps the caller's search_path: use rf_role_begin()\n";
		$bad++;
	}
	if ($text =~ /\bBackgroundWorkerInitializeConnection(?:ByOid)?\s*\((?!NULL, NULL)[^;]*;(?!\s*rf_worker_settings\(\);)/)
	{
		print "$file: a background worker has its database's search_path: call rf_worker_settings() at once\n";
		$bad++;
	}
	next if $file =~ $few_statements || $text !~ /\b(PQsendQuery|rf_session_start)\s*\(/;
	print "$file: $1() runs all statements of a text: use rf_session_send()\n";
	$bad++;
}
foreach my $file (glob 'src/sql/*.sql')
{
	my $text = slurp($file);
	while ($text =~ /^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (\S+?)\((?:(?!^CREATE|\bAS\b).)*?\bSECURITY DEFINER\b(.*?)\bAS\b/gms)
	{
		next if "$2" =~ /SET search_path = pg_catalog, pg_temp\b/;
		print "$file: $1() is SECURITY DEFINER without SET search_path = pg_catalog, pg_temp\n";
		$bad++;
	}
}
do
{
	$changed = 0;
	look($_, 0) for @functions;
} while ($changed);
if ($verbose)
{
	print "$_->{file}: $_->{name}: ", join(' ', sort keys %{ $_->{variables} }), $_->{returns} ? ' and its result' : '', "\n"
	  for grep { %{ $_->{variables} } || $_->{returns} } @functions;
	print "field $_\n" for sort keys %field;
}
look($_, 1) for @functions;
printf "%d functions, %d wrong\n", scalar @functions, $bad if $verbose || $bad;
exit($bad ? 1 : 0);
