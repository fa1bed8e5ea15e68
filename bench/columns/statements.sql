-- statements.sql: statements that scans on columns should win, or at least not lose; "-- NAME" begins each.
-- count
SELECT count(*) FROM lineitem;
-- count_all_pass
SELECT count(*) FROM lineitem WHERE l_quantity > 0;
-- count_none
SELECT count(*) FROM lineitem WHERE l_orderkey < 0;
-- last_text
SELECT count(*) FROM lineitem WHERE l_comment = 'nothing';
-- kept_aggregate
SELECT max(l_comment) FROM lineitem WHERE l_linestatus = 'O';
-- kept_aggregate_all_pass
SELECT max(l_comment COLLATE "C") FROM lineitem WHERE l_receiptdate > '1990-01-01';
-- no_condition_kept
SELECT l_shipmode, min(l_comment) FROM lineitem GROUP BY l_shipmode;
-- top
SELECT l_orderkey FROM lineitem WHERE l_shipdate > '1995-03-15' ORDER BY l_extendedprice DESC, l_orderkey LIMIT 10;
-- whole_rows_all_pass
SELECT count(l) FROM (SELECT * FROM lineitem WHERE l_tax >= 0 OFFSET 0) l;
-- wide_output
SELECT * FROM lineitem WHERE l_suppkey < 50 OFFSET 1000000;
-- all_output
SELECT * FROM lineitem WHERE l_suppkey > 0 OFFSET 1000000;
-- all_output_late
SELECT * FROM lineitem WHERE l_receiptdate > '1990-01-01' OFFSET 1000000;
-- half_output_late
SELECT * FROM lineitem WHERE l_receiptdate > '1995-01-01' OFFSET 1000000;
-- one_output_late
SELECT l_orderkey FROM lineitem WHERE l_receiptdate > '1990-01-01' OFFSET 1000000;
-- kept_behind
SELECT count(*) FROM lineitem WHERE l_receiptdate > '1990-01-01' AND l_partkey % 2 = 0;
-- many_groups
SELECT l_orderkey, sum(l_quantity) FROM lineitem GROUP BY l_orderkey OFFSET 1000000;
-- unique_groups
SELECT l_orderkey, l_linenumber, sum(l_quantity) FROM lineitem GROUP BY 1, 2 OFFSET 1000000;
-- unknown_groups
SELECT l_orderkey * 8 + l_linenumber, count(*) FROM lineitem GROUP BY 1 OFFSET 1000000;
-- distinct_key
SELECT DISTINCT l_suppkey FROM lineitem OFFSET 1000000;
-- long_keys
SELECT p_name, count(*) FROM part GROUP BY p_name OFFSET 1000000;
-- nulls
SELECT count(a), sum(b), max(d) FROM nulls WHERE c >= 0;
-- nulls_output
SELECT * FROM nulls WHERE c >= 0 OFFSET 1000000;
-- floats
SELECT g, sum(f), min(f), max(f) FROM floats GROUP BY g;
-- floats_condition
SELECT count(*) FROM floats WHERE f > 0.5 AND f < 0.75;
-- long_numerics
SELECT count(*) FROM longs WHERE n > 0;
-- long_numerics_sum
SELECT sum(n) FROM longs;
-- long_numerics_groups
SELECT g, sum(n), min(n) FROM longs GROUP BY g;
-- long_numerics_output
SELECT * FROM longs WHERE n > 0 OFFSET 1000000;
-- toasted
SELECT count(*) FROM toasted WHERE t = 'nothing';
-- hash_join
SELECT count(*), sum(l_quantity), sum(o_totalprice) FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE o_totalprice > 0 AND l_quantity > 0;
-- early_ends
SELECT count(*) FROM generate_series(1, 2000) g WHERE (SELECT l_orderkey FROM lineitem WHERE l_quantity > g % 40 LIMIT 1) > 0;
-- early_exists
SELECT count(*) FROM generate_series(1, 2000) g WHERE EXISTS (SELECT FROM orders WHERE o_orderdate > '1992-01-01'::date + g % 3 OFFSET 0);
-- limit
SELECT l_orderkey FROM lineitem WHERE l_quantity > 20 LIMIT 10;
-- small_table
SELECT sum((SELECT count(*) FROM small WHERE a > g)) FROM generate_series(1, 50) g;
-- small_table_output
SELECT count((SELECT max(t) FROM small WHERE a > g)) FROM generate_series(1, 50) g;
-- small_statements
DO $$ BEGIN FOR i IN 1..50 LOOP PERFORM count(*) FROM small WHERE a > i; END LOOP; END $$;
-- small_statements_none
DO $$ BEGIN FOR i IN 1..50 LOOP PERFORM t FROM small WHERE a < 0; END LOOP; END $$;
-- tiny_statements
DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM count(*) FROM region WHERE r_regionkey > 1; END LOOP; END $$;
-- by_key
DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM o_totalprice FROM orders WHERE o_orderkey = i; END LOOP; END $$;
-- by_key_planned
DO $$ BEGIN FOR i IN 1..2000 LOOP EXECUTE 'SELECT o_totalprice FROM orders WHERE o_orderkey = ' || i; END LOOP; END $$;
-- by_key_joined
DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM count(*), sum(l_quantity) FROM orders JOIN lineitem ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey WHERE o_orderkey = i; END LOOP; END $$;
-- update
UPDATE nulls SET a = a WHERE c = 5;
-- case
SELECT sum(CASE WHEN l_shipmode = 'AIR' THEN 1 ELSE 0 END), count(*) FILTER (WHERE l_tax > 0.04) FROM lineitem;
-- in_list
SELECT count(*) FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate;
-- or
SELECT sum(l_quantity) FROM lineitem WHERE l_quantity < 5 OR l_discount > 0.09;
-- like
SELECT count(*) FROM orders WHERE o_comment NOT LIKE '%special%requests%';
-- like_prefix
SELECT count(*), sum(p_size) FROM part WHERE p_type LIKE 'PROMO%';
