# Remote transactions that are void, or might be: a COMMIT never succeeds without what it is to commit, and what concerns a savepoint only voids no more than
# that. Greetings that were interrupted, too: their session goes on.
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
		CREATE SEQUENCE seq;
		CREATE VIEW numbers AS SELECT nextval('seq') AS n;
		-- what has waited for a while leaves when the next row is there
		CREATE VIEW fails AS SELECT g AS id, CASE WHEN g > 1 THEN pg_sleep(0.3)::text END AS s, 1 / (4 - g) AS t FROM generate_series(1, 4) g;
		CREATE VIEW slow AS SELECT g AS id, CASE WHEN g > 1 THEN pg_sleep(2)::text END AS s FROM generate_series(1, 10) g;
		-- a greeting that is not told that it was cancelled
		CREATE FUNCTION stubborn(bytea) RETURNS bytea LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_sleep(60);
			RETURN NULL;
		EXCEPTION WHEN query_canceled THEN
			RETURN rdma_internal.hello_away($1);
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

	return "SELECT dblink_exec('$dblink', 'ALTER FUNCTION rdma_internal.$from(bytea) RENAME TO $to');";
}
$coord->safe_psql('postgres', 'CREATE EXTENSION dblink');

# until the node's statement of the cursor has failed, by itself or by a cancel
my $failed = "DO \$\$ BEGIN
	WHILE NOT (SELECT n FROM dblink('$dblink', 'SELECT count(*) > 0 FROM pg_stat_activity WHERE state = ''idle in transaction (aborted)''') t(n bool)) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END \$\$;";
my $cursor = q{SET rdma_fdw.inline_limit = 0; DECLARE c CURSOR FOR SELECT id, s, t FROM n1.fails; FETCH 1 FROM c;};

my ($status, $out, $err);

# The errors of a transaction with that cursor.
sub with_cursor
{
	my ($before, $after) = @_;
	my (undef, $rows, $errors) =
		$coord->psql('postgres', "SET statement_timeout = '60s'; BEGIN$before $cursor $failed $after COMMIT;", on_error_stop => 0);

	like($rows, qr/^1\|\|0$/m, 'a cursor has its first row');
	return $errors;
}

# ---- a scan that is not read any more fails
$err = with_cursor('; UPDATE n2.w SET v = 1; UPDATE n1.w SET v = 1;', '');
like($err, qr/division by zero/, 'the error of a cursor\'s scan that voids a write is the error of COMMIT');
is(written(), '0 0', 'and nothing is committed, on no server');
$err = with_cursor('; INSERT INTO n1.w VALUES (11, 1);', '');
like($err, qr/division by zero/, 'the same for rows that were loaded');
is(written(), '0 0', 'which are not there');
$err = with_cursor('; SELECT n FROM n1.numbers;', '');
like($err, qr/division by zero/, 'and for a scan that wrote');
$err = with_cursor(' ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM n1.w;', '');
like($err, qr/division by zero/, 'and for a transaction that must be serializable');
$err = with_cursor('; UPDATE n2.w SET v = 1; SELECT count(*) FROM n1.w;', '');
is($err, '', 'where only scans ran nothing is lost');
is(written(), '0 10', 'and the other server commits');
$err = with_cursor('; UPDATE n1.w SET v = 1; SAVEPOINT s;', 'ROLLBACK TO s; UPDATE n2.w SET v = 1;');
is($err, '', 'a savepoint that is rolled back takes the failed scan along');
is(written(), '10 10', 'and no more');
$err = with_cursor('; UPDATE n1.w SET v = 1;', 'CLOSE c; SAVEPOINT s; SELECT count(*) FROM n1.w; ROLLBACK TO s;');
like($err, qr/division by zero.*is aborted/s, 'an error that was told in a savepoint is remembered');
is(written(), '0 0', 'and COMMIT does not succeed');

# ---- a scan that has no next row yet when the transaction ends
is($coord->safe_psql('postgres', 'BEGIN; UPDATE n1.w SET v = 1; SET rdma_fdw.inline_limit = 0; DECLARE c CURSOR FOR SELECT id, s FROM n1.slow; FETCH 1 FROM c; COMMIT'), '1|',
	'a scan that looks for its next row is not cancelled where that would void a write');
is(written(), '10 0', 'which is committed');

# ---- greetings
($status, $out, $err) = $coord->psql('postgres',
	"BEGIN; UPDATE n1.w SET v = 1; SAVEPOINT s;\n" . rename_sql('hello', 'hello_away') . "\nSELECT count(*) FROM n1.w WHERE v + random() > 0;\nROLLBACK TO s;\n" .
	rename_sql('hello_away', 'hello') . "\nUPDATE n1.w SET v = v + 1; COMMIT;", on_error_stop => 0);
like($err, qr/does not have the extension/, 'a greeting that fails in a savepoint');
is(written(), '20 0', 'voids that savepoint only');

$n1->safe_psql('postgres', 'ALTER FUNCTION rdma_internal.hello(bytea) RENAME TO hello_away; ALTER FUNCTION stubborn(bytea) SET SCHEMA rdma_internal; ALTER FUNCTION rdma_internal.stubborn(bytea) RENAME TO hello');
($status, $out, $err) = $coord->psql('postgres',
	"SET statement_timeout = '1s'; SELECT count(*) FROM n1.w WHERE v + random() > -1; RESET statement_timeout;\n" .
	rename_sql('hello', 'stubborn') . "\n" . rename_sql('hello_away', 'hello') .
	"\nSELECT count(*) FROM n1.w WHERE v + random() > -1", on_error_stop => 0);
like($err, qr/statement timeout/, 'a greeting is cancelled');
unlike($err, qr/already exists/, 'the statement it prepared nevertheless is in nobody\'s way');
like($out, qr/10$/, 'and the session goes on');

done_testing();
