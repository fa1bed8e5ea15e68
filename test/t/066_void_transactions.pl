# Remote transactions that are void, or might be: what concerns a savepoint only voids no more than that. Greetings that were interrupted, too: their session
# goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();

foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE w (id int, v int);
		INSERT INTO w SELECT g, 0 FROM generate_series(1, 10) g;
		-- a greeting that is not told that it was cancelled
		CREATE FUNCTION stubborn(bytea) RETURNS bytea LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_sleep(60);
			RETURN NULL;
		EXCEPTION WHEN query_canceled THEN
			RETURN rdma.hello_away($1);
		END $$;
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');

# What both nodes have now, by themselves; then nothing was written.
sub written
{
	my @sums = map { $_->safe_psql('postgres', 'SELECT sum(v) FROM w') } ($n1, $n2);

	$_->safe_psql('postgres', 'UPDATE w SET v = 0') foreach ($n1, $n2);
	return "@sums";
}

# how a session of the coordinator reaches the first node without our extension
my $dblink = sprintf('host=%s port=%d dbname=postgres', $n1->host, $n1->port);

sub rename_sql
{
	my ($from, $to) = @_;

	return "SELECT dblink_exec('$dblink', 'ALTER FUNCTION rdma.$from(bytea) RENAME TO $to');";
}
$coord->safe_psql('postgres', 'CREATE EXTENSION dblink');

my ($status, $out, $err);

# ---- greetings
($status, $out, $err) = $coord->psql('postgres',
	"BEGIN; UPDATE n1.w SET v = 1; SAVEPOINT s;\n" . rename_sql('hello', 'hello_away') . "\nSELECT count(*) FROM n1.w WHERE v + random() > 0;\nROLLBACK TO s;\n" .
	rename_sql('hello_away', 'hello') . "\nUPDATE n1.w SET v = v + 1; COMMIT;", on_error_stop => 0);
like($err, qr/does not have the extension/, 'a greeting that fails in a savepoint');
is(written(), '20 0', 'voids that savepoint only');

$n1->safe_psql('postgres', 'ALTER FUNCTION rdma.hello(bytea) RENAME TO hello_away; ALTER FUNCTION stubborn(bytea) SET SCHEMA rdma; ALTER FUNCTION rdma.stubborn(bytea) RENAME TO hello');
($status, $out, $err) = $coord->psql('postgres',
	"SET statement_timeout = '1s'; SELECT count(*) FROM n1.w WHERE v + random() > -1; RESET statement_timeout;\n" .
	rename_sql('hello', 'stubborn') . "\n" . rename_sql('hello_away', 'hello') .
	"\nSELECT count(*) FROM n1.w WHERE v + random() > -1", on_error_stop => 0);
like($err, qr/statement timeout/, 'a greeting is cancelled');
unlike($err, qr/already exists/, 'the statement it prepared nevertheless is in nobody\'s way');
like($out, qr/10$/, 'and the session goes on');

done_testing();
