# Shapes.pm: the queries that clients ask. Each is one text, with its parameters filled in once per
# run, and one answer, which the ordinary tables of schema "here" give before anything breaks.
#
#   Shapes::answer($co)      # computes the answers; afterwards @Shapes::list has { name, sql, answer }
#   Shapes::text($rows)      # rows as they are compared: in any order
package Shapes;

use strict;
use warnings;

our @list;

sub number { my ($from, $to) = @_; return $from + int(rand($to - $from + 1)); }

# OFFSET 0 and stay() keep work on the coordinator, so that rows cross. sum(hashtext()) sees every
# byte of every row.
sub shapes
{
	my ($size) = @_;
	my ($items, $orders) = (int(20000 * $size), int(4000 * $size));
	my ($k, $from) = (number(1, $orders), number(1, $items));
	my $to = $from + number(1, 3000);

	return (
		count       => 'SELECT count(*), sum(k), min(s), max(s) FROM item',
		pull        => 'SELECT count(*), sum(n), sum(v), sum(hashtext(s)::bigint), bool_and(s = md5((n * 3)::text)) FROM (SELECT * FROM item OFFSET 0) x',
		part        => "SELECT count(*), sum(n), bool_and(s = md5((n * 3)::text)) FROM (SELECT * FROM item WHERE n BETWEEN $from AND $to OFFSET 0) x",
		filter      => 'SELECT count(*), sum(n), sum(hashtext(s)::bigint) FROM item WHERE stay(k) % 7 = 0',
		big         => 'SELECT count(*), sum(a), sum(b) FROM (SELECT * FROM big OFFSET 0) x',
		big_text    => 'SELECT sum(hashtext(a::text || b)::bigint) FROM (SELECT * FROM big OFFSET 0) x',
		fat         => 'SELECT count(*), sum(length(t)), bool_and(t = repeat(md5(id::text), id * 977 % 10000)) FROM (SELECT * FROM fat OFFSET 0) x',
		one_fat     => 'SELECT id, md5(t) FROM fat WHERE id = ' . number(1, 48),
		fat_rows    => 'SELECT id, md5(t) FROM (SELECT * FROM fat OFFSET 0) x WHERE id % 3 = 0',
		slow        => 'SELECT count(*), sum(n), bool_and(s = md5((n * 3)::text)) FROM (SELECT * FROM slow OFFSET 0) x',
		slow_part   => "SELECT count(*), sum(n) FROM (SELECT * FROM slow WHERE n BETWEEN $from AND $to OFFSET 0) x",
		slow_reader => "SELECT count(*), sum(n) FROM (SELECT * FROM item OFFSET 0) x WHERE nap(n, 0.01)",
		limit       => 'SELECT count(*), bool_and(s = md5((n * 3)::text)) FROM (SELECT * FROM item WHERE stay(k) > 0 LIMIT ' . number(1, 5000) . ') x',
		limit_fat   => 'SELECT count(*), bool_and(t = repeat(md5(id::text), id * 977 % 10000)) FROM (SELECT * FROM fat WHERE stay(id) > 0 LIMIT ' . number(1, 47) . ') x',
		top         => 'SELECT k, n, s FROM item ORDER BY n DESC LIMIT ' . number(1, 50),
		sorted      => 'SELECT count(*), bool_and(n > coalesce(before, 0)) FROM (SELECT n, lag(n) OVER () AS before FROM (SELECT * FROM item ORDER BY n OFFSET 0) x) y',
		lookup      => "SELECT s FROM ord WHERE k = $k",
		lookups     => "SELECT count(*), sum((SELECT max(n) FROM item i WHERE i.k = g)) FROM generate_series($k, " . ($k + 25) . ') g',
		no_rows     => 'SELECT count(*) FROM (SELECT * FROM nothing OFFSET 0) x',
		quoted      => "SELECT count(*), min(s) FROM ord WHERE t = E'back\\\\slash'",
		quoted_more => "SELECT t, count(*) FROM ord WHERE t IN ('it''s', E'two\\nlines', '', '\$1 %s ?') GROUP BY t",
		kinds       => 'SELECT count(*), ' . join(', ', map { "sum(hashtext($_\::text)::bigint)" } qw(i2 f n d ts b a ta j r u x c iv ip)) . ' FROM (SELECT * FROM kinds OFFSET 0) x',
		some_kinds  => 'SELECT id, a, ta, j, r, d, ts, iv FROM kinds WHERE id BETWEEN ' . join(' AND ', map { $_, $_ + 40 } number(1, 900)),
		dates       => "SELECT count(*), max(id) FROM kinds WHERE d < date '2021-02-01' AND ts > timestamp '2020-01-01 05:06:07' AND iv < interval '10 minutes'",
		join        => 'SELECT count(*), sum(i.n), bool_and(o.s = md5(i.k::text) AND i.s = md5((i.n * 3)::text)) FROM item i JOIN ord o USING (k)',
		join_rows   => "SELECT i.n, o.s, i.s FROM item i JOIN ord o ON i.k = o.k AND o.p = 3 WHERE i.n < $from AND i.n % 11 = 0",
		join_group  => 'SELECT o.p, count(*), sum(i.v), max(i.s) FROM item i JOIN ord o USING (k) GROUP BY o.p',
		join_away   => 'SELECT count(*), sum(a.n), sum(b.n) FROM item a JOIN item b ON a.v = b.k WHERE a.n % 5 = 0',
		join_three  => 'SELECT count(*), sum(i.n), sum(length(z.s)) FROM item i JOIN ord o USING (k) JOIN small z ON z.id = o.p * 10 + 1',
		join_fat    => 'SELECT count(*), count(DISTINCT f.id), bool_and(t = repeat(md5(f.id::text), f.id * 977 % 10000)) FROM fat f JOIN small z ON stay(f.id) = stay(z.id)',
		join_here   => 'SELECT count(*), sum(i.n) FROM item i JOIN here.ord o ON i.k = o.k AND o.p = 5',
		left_join   => 'SELECT count(*), count(o.k), sum(i.n), sum(hashtext(coalesce(o.s, i.s))::bigint) FROM item i LEFT JOIN ord o ON o.k = i.k AND o.p < 4',
		full_join   => 'SELECT count(*), count(a.id), count(b.k), sum(a.id), sum(b.k) FROM small a FULL JOIN ord b ON a.id = b.k AND b.p = 1',
		anti_join   => 'SELECT count(*), sum(k) FROM ord o WHERE NOT EXISTS (SELECT FROM item i WHERE i.k = o.k AND i.v % 3 = 0)',
		semi_join   => 'SELECT count(*), sum(k) FROM ord WHERE k IN (SELECT v FROM item WHERE n % 9 = 0)',
		except      => 'SELECT count(*), sum(k) FROM (SELECT k FROM item EXCEPT SELECT k FROM ord WHERE p = 2) x',
		union       => 'SELECT count(*), sum(k) FROM (SELECT k FROM item WHERE n % 3 = 0 UNION SELECT id FROM small) x',
		union_all   => 'SELECT count(*), sum(k) FROM (SELECT k, s FROM item UNION ALL SELECT k, s FROM ord OFFSET 0) x',
		distinct    => 'SELECT count(*), sum(v) FROM (SELECT DISTINCT v FROM item) x',
		window      => 'SELECT count(*), sum(r * n) FROM (SELECT n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM item) x',
		averages    => 'SELECT p, avg(k)::numeric(20, 4), stddev(k)::numeric(20, 6), array_length(array_agg(k), 1) FROM ord GROUP BY p',
		rollup      => 'SELECT p, k % 3, count(*), sum(k) FROM ord GROUP BY ROLLUP (p, k % 3)',
		more_than   => 'SELECT count(*), sum(n) FROM item i WHERE n % 100 = 1 AND v > (SELECT avg(v) FROM item j WHERE j.k = i.k)',
		strings     => "SELECT p, md5(string_agg(s, ',' ORDER BY k)) FROM ord GROUP BY p",
		nest        => "SELECT count(*), sum(o.k) FROM (SELECT * FROM small WHERE id < 12 OFFSET 0) z JOIN ord o ON stay(o.p) = stay(z.id)",
		two_at_once => 'SELECT a.c, b.c FROM (SELECT count(*) AS c FROM (SELECT * FROM item OFFSET 0) x) a, (SELECT sum(n) AS c FROM (SELECT * FROM item OFFSET 0) y) b');
}

sub text
{
	my ($rows) = @_;
	return join("\n", sort map { join('|', map { $_ // '\N' } @$_) } @$rows);
}

# So that values have one text under any settings of the server
sub session
{
	my ($schema) = @_;
	return "SET search_path = $schema, public; SET datestyle = iso, mdy; SET intervalstyle = postgres; SET bytea_output = hex; SET extra_float_digits = 1; "
	  . 'SET timezone = UTC; SET transform_null_equals = off; SET client_min_messages = error; SET jit = off';
}

sub answer
{
	my ($co, $size) = @_;
	my @shapes = shapes($size);

	@list = ();
	while (my ($name, $sql) = splice(@shapes, 0, 2))
	{
		my $rows = $co->ask(session('here') . "; $sql", 120) or die "$name: $co->{why}\n";
		push @list, { name => $name, sql => $sql, answer => text($rows) };
	}
	return;
}

1;
