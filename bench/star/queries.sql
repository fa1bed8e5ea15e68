-- queries.sql: forty questions of a retailer to schema.sql's tables. Rows and their order are the same wherever they run.

-- customers who brought back more than their shop's usual: an aggregate used twice
-- S1
WITH back AS (
	SELECT sr_customer AS customer, sr_shop AS shop, sum(sr_amount) AS total
	FROM shop_return, day WHERE sr_day = d_id AND d_year = 2022 AND d_quarter = 1 GROUP BY sr_customer, sr_shop
)
SELECT c_code, s_name, total FROM back b1, shop, customer
WHERE total > (SELECT avg(total) * 1.2 FROM back b2 WHERE b1.shop = b2.shop)
	AND s_id = b1.shop AND s_state = 'BB' AND c_id = b1.customer
ORDER BY c_code, s_name, total LIMIT 100;

-- sales by weekday, each week to the same week of the next year
-- S2
WITH sold AS (
	SELECT ws_day AS day, ws_paid AS paid FROM web_sale UNION ALL SELECT ms_day, ms_paid FROM mail_sale
), weeks AS (
	SELECT d_week_count AS week, sum(CASE d_name WHEN 'Mon' THEN paid END) AS mon, sum(CASE d_name WHEN 'Wed' THEN paid END) AS wed,
		sum(CASE d_name WHEN 'Sat' THEN paid END) AS sat, sum(paid) FILTER (WHERE d_name = 'Sun') AS sun
	FROM sold, day WHERE d_id = sold.day GROUP BY d_week_count
)
SELECT a.week, round(a.mon / b.mon, 2) AS mon, round(a.wed / b.wed, 2) AS wed, round(a.sat / b.sat, 2) AS sat, round(a.sun / b.sun, 2) AS sun
FROM weeks a, weeks b
WHERE a.week = b.week - 52 AND a.week IN (SELECT d_week_count FROM day WHERE d_year = 2022)
ORDER BY 1, 2, 3, 4, 5;

-- brands of a manager's items in November, by year
-- S3
SELECT d_year, i_brand, sum(ss_coupon) AS coupons, sum(ss_paid) AS paid FROM day, shop_sale, item
WHERE d_id = ss_day AND ss_item = i_id AND i_manager IN (3, 17) AND d_month = 11
GROUP BY d_year, i_brand ORDER BY 1, 4 DESC, 2, 3 LIMIT 100;

-- customers whose spending in the web grew more than that in shops
-- S4
WITH shops AS (
	SELECT c_id, c_code, c_last, sum(CASE d_year WHEN 2021 THEN ss_list * ss_quantity - ss_coupon END) AS first, sum(CASE d_year WHEN 2022 THEN ss_list * ss_quantity - ss_coupon END) AS second
	FROM customer, shop_sale, day WHERE c_id = ss_customer AND ss_day = d_id GROUP BY c_id, c_code, c_last
), web AS (
	SELECT c_id, sum(CASE d_year WHEN 2021 THEN ws_list * ws_quantity - ws_discount END) AS first, sum(CASE d_year WHEN 2022 THEN ws_list * ws_quantity - ws_discount END) AS second
	FROM customer, web_sale, day WHERE c_id = ws_customer AND ws_day = d_id GROUP BY c_id
)
SELECT c_code, c_last, s.first, s.second, w.first, w.second FROM shops s JOIN web w USING (c_id)
WHERE s.first > 0 AND w.first > 0 AND w.second / w.first > s.second / s.first
ORDER BY 1, 2, 3, 4, 5, 6 LIMIT 100;

-- sales, returns and profit of each outlet of each channel in three weeks, with subtotals
-- S5
WITH shops AS (
	SELECT s_name AS outlet, sum(sales) AS sales, sum(profit) AS profit, sum(amount) AS amount, sum(loss) AS loss
	FROM (SELECT ss_shop AS id, ss_day AS day, ss_paid AS sales, ss_profit AS profit, 0 AS amount, 0 AS loss FROM shop_sale
		UNION ALL SELECT sr_shop, sr_day, 0, 0, sr_amount, sr_loss FROM shop_return) m, day, shop
	WHERE m.day = d_id AND d_date BETWEEN '2022-08-04' AND '2022-08-25' AND id = s_id GROUP BY s_name
), sites AS (
	SELECT x_name AS outlet, sum(sales) AS sales, sum(profit) AS profit, sum(amount) AS amount, sum(loss) AS loss
	FROM (SELECT ws_site AS id, ws_day AS day, ws_paid AS sales, ws_profit AS profit, 0 AS amount, 0 AS loss FROM web_sale
		UNION ALL SELECT ws_site, wr_day, 0, 0, wr_amount, wr_loss FROM web_return LEFT JOIN web_sale ON wr_order = ws_order AND wr_line = ws_line) m, day, site
	WHERE m.day = d_id AND d_date BETWEEN '2022-08-04' AND '2022-08-25' AND id = x_id GROUP BY x_name
), centres AS (
	SELECT k_name AS outlet, sum(sales) AS sales, sum(profit) AS profit, sum(amount) AS amount, sum(loss) AS loss
	FROM (SELECT ms_call_centre AS id, ms_day AS day, ms_paid AS sales, ms_profit AS profit, 0 AS amount, 0 AS loss FROM mail_sale
		UNION ALL SELECT mr_call_centre, mr_day, 0, 0, mr_amount, mr_loss FROM mail_return) m, day, call_centre
	WHERE m.day = d_id AND d_date BETWEEN '2022-08-04' AND '2022-08-25' AND id = k_id GROUP BY k_name
)
SELECT channel, outlet, sum(sales) AS sales, sum(amount) AS amount, sum(profit - loss) AS profit
FROM (SELECT 'shops' AS channel, * FROM shops UNION ALL SELECT 'sites', * FROM sites UNION ALL SELECT 'centres', * FROM centres) all_channels
GROUP BY ROLLUP (channel, outlet) ORDER BY 1, 2, 3, 4, 5;

-- states whose customers buy what is dear in its category, in the month of a day
-- S6
SELECT a_state, count(*) FROM address, customer, shop_sale, day, item i
WHERE a_id = c_address AND c_id = ss_customer AND ss_day = d_id AND ss_item = i.i_id
	AND d_month_count = (SELECT DISTINCT d_month_count FROM day WHERE d_year = 2022 AND d_month = 5)
	AND i.i_price > 1.2 * (SELECT avg(j.i_price) FROM item j WHERE j.i_category = i.i_category)
GROUP BY a_state HAVING count(*) >= 10 ORDER BY 2, 1;

-- what a customer bought of an item in the channels and never brought back
-- S7
WITH shops AS (
	SELECT ss_item AS item, ss_customer AS customer, sum(ss_quantity) AS quantity, sum(ss_paid) AS paid
	FROM shop_sale LEFT JOIN shop_return ON sr_ticket = ss_ticket AND sr_line = ss_line JOIN day ON ss_day = d_id
	WHERE sr_ticket IS NULL AND d_year = 2022 GROUP BY ss_item, ss_customer
), web AS (
	SELECT ws_item AS item, ws_customer AS customer, sum(ws_quantity) AS quantity, sum(ws_paid) AS paid
	FROM web_sale LEFT JOIN web_return ON wr_order = ws_order AND wr_line = ws_line JOIN day ON ws_day = d_id
	WHERE wr_order IS NULL AND d_year = 2022 GROUP BY ws_item, ws_customer
), mail AS (
	SELECT ms_item AS item, ms_customer AS customer, sum(ms_quantity) AS quantity, sum(ms_paid) AS paid
	FROM mail_sale LEFT JOIN mail_return ON mr_order = ms_order AND mr_line = ms_line JOIN day ON ms_day = d_id
	WHERE mr_order IS NULL AND d_year = 2022 GROUP BY ms_item, ms_customer
)
SELECT s.item, s.customer, s.quantity, s.paid, coalesce(w.quantity, 0) + coalesce(m.quantity, 0) AS other_quantity, coalesce(w.paid, 0) + coalesce(m.paid, 0) AS other_paid
FROM shops s LEFT JOIN web w ON w.item = s.item AND w.customer = s.customer LEFT JOIN mail m ON m.item = s.item AND m.customer = s.customer
WHERE coalesce(w.quantity, 0) > 0 OR coalesce(m.quantity, 0) > 0
ORDER BY 4 DESC, 1, 2, 3, 5, 6 LIMIT 100;

-- profit of shops in zip codes where preferred customers live, too
-- S8
SELECT s_name, sum(ss_profit) FROM shop_sale, day, shop,
	(SELECT zip FROM (SELECT substr(a_zip, 1, 4) AS zip FROM address WHERE a_zip LIKE '%1%'
		INTERSECT SELECT substr(a_zip, 1, 4) FROM address, customer WHERE a_id = c_address AND c_preferred GROUP BY substr(a_zip, 1, 4) HAVING count(*) > 3) z) zips
WHERE ss_shop = s_id AND ss_day = d_id AND d_quarter = 2 AND d_year = 2022 AND substr(s_zip, 1, 4) = zip
GROUP BY s_name ORDER BY 1, 2;

-- buckets of quantity: the one or the other average
-- S9
SELECT CASE WHEN (SELECT count(*) FROM shop_sale WHERE ss_quantity BETWEEN 1 AND 20) > 1000
		THEN (SELECT round(avg(ss_coupon), 2) FROM shop_sale WHERE ss_quantity BETWEEN 1 AND 20)
		ELSE (SELECT round(avg(ss_paid), 2) FROM shop_sale WHERE ss_quantity BETWEEN 1 AND 20) END AS bucket1,
	CASE WHEN (SELECT count(*) FROM shop_sale WHERE ss_quantity BETWEEN 21 AND 40) > 10000000
		THEN (SELECT round(avg(ss_coupon), 2) FROM shop_sale WHERE ss_quantity BETWEEN 21 AND 40)
		ELSE (SELECT round(avg(ss_paid), 2) FROM shop_sale WHERE ss_quantity BETWEEN 21 AND 40) END AS bucket2,
	CASE WHEN (SELECT count(*) FROM shop_sale WHERE ss_quantity BETWEEN 41 AND 60) > 1000
		THEN (SELECT round(avg(ss_coupon), 2) FROM shop_sale WHERE ss_quantity BETWEEN 41 AND 60)
		ELSE (SELECT round(avg(ss_paid), 2) FROM shop_sale WHERE ss_quantity BETWEEN 41 AND 60) END AS bucket3
FROM reason WHERE r_id = 1;

-- customers of a county who bought in a shop and in the web or by catalogue
-- S10
SELECT g_gender, g_marital, g_education, count(*), min(g_dependants), max(g_dependants), round(avg(g_dependants), 2)
FROM customer c, address, demographics
WHERE c.c_address = a_id AND a_county IN ('county 1', 'county 12', 'county 23') AND g_id = c.c_demographics
	AND EXISTS (SELECT FROM shop_sale, day WHERE c.c_id = ss_customer AND ss_day = d_id AND d_year = 2022 AND d_quarter < 4)
	AND (EXISTS (SELECT FROM web_sale, day WHERE c.c_id = ws_customer AND ws_day = d_id AND d_year = 2022 AND d_quarter < 4)
		OR EXISTS (SELECT FROM mail_sale, day WHERE c.c_id = ms_customer AND ms_day = d_id AND d_year = 2022 AND d_quarter < 4))
GROUP BY g_gender, g_marital, g_education ORDER BY 1, 2, 3 LIMIT 100;

-- an item's share of its class
-- S11
SELECT i_code, i_category, i_class, sum(ms_paid) AS paid, round(sum(ms_paid) * 100 / sum(sum(ms_paid)) OVER (PARTITION BY i_class), 3) AS share
FROM mail_sale, item, day
WHERE ms_item = i_id AND i_category IN ('sports', 'books', 'home') AND ms_day = d_id AND d_date BETWEEN '2022-02-22' AND '2022-03-24'
GROUP BY i_code, i_category, i_class ORDER BY 2, 3, 5 DESC, 1, 4 LIMIT 100;

-- averages where one of several pairs of conditions holds
-- S12
SELECT count(*), round(avg(ss_quantity), 2), round(avg(ss_price), 2), sum(ss_cost) FROM shop_sale, shop, demographics, household, address, day
WHERE s_id = ss_shop AND ss_day = d_id AND d_year = 2022 AND ss_household = h_id AND g_id = ss_demographics AND ss_address = a_id
	AND ((g_marital = 'M' AND g_education = 'advanced' AND ss_price BETWEEN 10 AND 60 AND h_dependants = 3)
		OR (g_marital = 'S' AND g_education = 'college' AND ss_price BETWEEN 5 AND 100 AND h_dependants = 1)
		OR (g_marital = 'W' AND ss_price BETWEEN 1 AND 200 AND h_dependants > 4))
	AND ((a_state IN ('AA', 'CC') AND ss_profit BETWEEN 0 AND 2000) OR (a_state IN ('BB', 'DD', 'EE') AND ss_profit BETWEEN -3000 AND 3000)
		OR (a_zone = -1 AND ss_profit < 500));

-- what sells above the average, of brands that all channels sell
-- S13
WITH common AS (
	SELECT i_id FROM item, (
		SELECT i_brand AS brand, i_class AS class FROM shop_sale, item, day WHERE ss_item = i_id AND ss_day = d_id AND d_year BETWEEN 2021 AND 2023 AND ss_quantity > 90
		INTERSECT SELECT i_brand, i_class FROM mail_sale, item, day WHERE ms_item = i_id AND ms_day = d_id AND d_year BETWEEN 2021 AND 2023 AND ms_quantity > 90
		INTERSECT SELECT i_brand, i_class FROM web_sale, item, day WHERE ws_item = i_id AND ws_day = d_id AND d_year BETWEEN 2021 AND 2023 AND ws_quantity > 90) b
	WHERE i_brand = brand AND i_class = class
), usual AS (
	SELECT avg(quantity * list) AS sale FROM (
		SELECT ss_quantity AS quantity, ss_list AS list FROM shop_sale, day WHERE ss_day = d_id AND d_year = 2022
		UNION ALL SELECT ms_quantity, ms_list FROM mail_sale, day WHERE ms_day = d_id AND d_year = 2022
		UNION ALL SELECT ws_quantity, ws_list FROM web_sale, day WHERE ws_day = d_id AND d_year = 2022) x
)
SELECT channel, brand, class, sum(sales) AS sales, sum(number) AS number FROM (
	SELECT 'shop' AS channel, i_brand AS brand, i_class AS class, sum(ss_quantity * ss_list) AS sales, count(*) AS number FROM shop_sale, item, day
	WHERE ss_item IN (SELECT i_id FROM common) AND ss_item = i_id AND ss_day = d_id AND d_year = 2023 AND d_month = 11
	GROUP BY i_brand, i_class HAVING sum(ss_quantity * ss_list) > (SELECT sale FROM usual)
	UNION ALL
	SELECT 'mail', i_brand, i_class, sum(ms_quantity * ms_list), count(*) FROM mail_sale, item, day
	WHERE ms_item IN (SELECT i_id FROM common) AND ms_item = i_id AND ms_day = d_id AND d_year = 2023 AND d_month = 11
	GROUP BY i_brand, i_class HAVING sum(ms_quantity * ms_list) > (SELECT sale FROM usual)
	UNION ALL
	SELECT 'web', i_brand, i_class, sum(ws_quantity * ws_list), count(*) FROM web_sale, item, day
	WHERE ws_item IN (SELECT i_id FROM common) AND ws_item = i_id AND ws_day = d_id AND d_year = 2023 AND d_month = 11
	GROUP BY i_brand, i_class HAVING sum(ws_quantity * ws_list) > (SELECT sale FROM usual)) y
GROUP BY ROLLUP (channel, brand, class) ORDER BY 1, 2, 3, 4, 5 LIMIT 100;

-- customers of some states who bought in a shop, but not in the web or by catalogue
-- S14
SELECT g_gender, g_marital, g_credit, count(*) FROM customer c, address, demographics
WHERE c.c_address = a_id AND a_state IN ('AA', 'DD', 'GG') AND g_id = c.c_demographics
	AND EXISTS (SELECT FROM shop_sale, day WHERE c.c_id = ss_customer AND ss_day = d_id AND d_year = 2022 AND d_month BETWEEN 4 AND 6)
	AND NOT EXISTS (SELECT FROM web_sale, day WHERE c.c_id = ws_customer AND ws_day = d_id AND d_year = 2022 AND d_month BETWEEN 4 AND 6)
	AND NOT EXISTS (SELECT FROM mail_sale, day WHERE c.c_id = ms_customer AND ms_day = d_id AND d_year = 2022 AND d_month BETWEEN 4 AND 6)
GROUP BY g_gender, g_marital, g_credit ORDER BY 1, 2, 3, 4;

-- orders that several warehouses shipped and of which nothing came back
-- S15
SELECT count(DISTINCT ws_order), sum(ws_freight), sum(ws_profit) FROM web_sale w1, day, address, site
WHERE d_date BETWEEN '2022-02-01' AND '2022-06-01' AND w1.ws_ship_day = d_id AND w1.ws_address = a_id AND a_state IN ('AA', 'BB', 'CC')
	AND w1.ws_site = x_id AND x_company = 'company 1'
	AND EXISTS (SELECT FROM web_sale w2 WHERE w1.ws_order = w2.ws_order AND w1.ws_warehouse <> w2.ws_warehouse)
	AND NOT EXISTS (SELECT FROM web_return WHERE w1.ws_order = wr_order);

-- bought in a shop, brought back, ordered again by catalogue
-- S16
SELECT i_code, s_name, count(*), round(avg(ss_quantity), 2) AS bought, round(stddev_samp(ss_quantity), 2) AS deviation, sum(sr_quantity) AS back, sum(ms_quantity) AS again
FROM shop_sale, shop_return, mail_sale, day d1, day d2, day d3, shop, item
WHERE d1.d_year IN (2021, 2022) AND d1.d_id = ss_day AND i_id = ss_item AND s_id = ss_shop AND ss_ticket = sr_ticket AND ss_line = sr_line
	AND sr_day = d2.d_id AND d2.d_year IN (2021, 2022) AND sr_customer = ms_customer AND sr_item = ms_item AND ms_day = d3.d_id AND d3.d_year BETWEEN 2021 AND 2023
GROUP BY i_code, s_name ORDER BY 1, 2, 3, 4, 5, 6, 7 LIMIT 100;

-- averages by state, county and item with subtotals
-- S17
SELECT i_category, a_state, a_county, count(*), round(avg(ms_quantity), 2), round(avg(ms_list), 2), round(avg(c_birth_year), 2)
FROM mail_sale, demographics, customer, address, day, item
WHERE ms_day = d_id AND d_year = 2021 AND ms_item = i_id AND ms_demographics = g_id AND g_gender = 'F' AND ms_customer = c_id
	AND c_birth_month IN (1, 6, 8, 9, 12) AND c_address = a_id AND a_state IN ('AA', 'BB', 'EE', 'HH')
GROUP BY ROLLUP (i_category, a_state, a_county) ORDER BY 1, 2, 3, 4, 5, 6, 7 LIMIT 200;

-- stock before and after a day
-- S18
SELECT w_name, i_code, sum(CASE WHEN d_date < '2022-03-11' THEN st_quantity ELSE 0 END) AS before,
	sum(CASE WHEN d_date >= '2022-03-11' THEN st_quantity ELSE 0 END) AS after
FROM stock, warehouse, item, day
WHERE i_price BETWEEN 20 AND 60 AND i_id = st_item AND st_warehouse = w_id AND st_day = d_id AND d_date BETWEEN date '2022-03-11' - 60 AND date '2022-03-11' + 60
GROUP BY w_name, i_code
HAVING sum(CASE WHEN d_date < '2022-03-11' THEN st_quantity ELSE 0 END) > 0
	AND sum(CASE WHEN d_date >= '2022-03-11' THEN st_quantity ELSE 0 END) * 3 BETWEEN 2 * sum(CASE WHEN d_date < '2022-03-11' THEN st_quantity ELSE 0 END)
		AND sum(CASE WHEN d_date < '2022-03-11' THEN st_quantity ELSE 0 END) * 4
ORDER BY 1, 2, 3, 4 LIMIT 100;

-- mean stock by category, class, brand and item, with subtotals
-- S19
SELECT i_category, i_class, i_brand, i_name, round(avg(st_quantity), 2) AS mean FROM stock, day, item
WHERE st_day = d_id AND st_item = i_id AND d_month_count BETWEEN 6 AND 18
GROUP BY ROLLUP (i_category, i_class, i_brand, i_name) ORDER BY 5, 1, 2, 3, 4 LIMIT 100;

-- what the best customers of shops order elsewhere of what is often sold
-- S20
WITH often AS (
	SELECT ss_item AS item FROM shop_sale, day WHERE ss_day = d_id AND d_year IN (2021, 2022) GROUP BY ss_item, d_month_count HAVING count(*) > 15
), spent AS (
	SELECT ss_customer AS customer, sum(ss_quantity * ss_price) AS total FROM shop_sale WHERE ss_customer IS NOT NULL GROUP BY ss_customer
), best AS (
	SELECT customer FROM spent WHERE total > (SELECT 0.3 * max(total) FROM spent)
)
SELECT c_last, c_first, sum(sales) AS sales FROM (
	SELECT ms_customer AS id, ms_quantity * ms_list AS sales FROM mail_sale, day
	WHERE d_year = 2022 AND ms_day = d_id AND ms_item IN (SELECT item FROM often) AND ms_customer IN (SELECT customer FROM best)
	UNION ALL
	SELECT ws_customer, ws_quantity * ws_list FROM web_sale, day
	WHERE d_year = 2022 AND ws_day = d_id AND ws_item IN (SELECT item FROM often) AND ws_customer IN (SELECT customer FROM best)) x, customer
WHERE c_id = id GROUP BY c_last, c_first ORDER BY 1, 2, 3 LIMIT 100;

-- customers of all channels, and of shops only
-- S21
SELECT (SELECT count(*) FROM (
		SELECT DISTINCT c_last, c_first, d_date FROM shop_sale, day, customer WHERE ss_day = d_id AND ss_customer = c_id AND d_year = 2022
		INTERSECT SELECT DISTINCT c_last, c_first, d_date FROM mail_sale, day, customer WHERE ms_day = d_id AND ms_customer = c_id AND d_year = 2022) a) AS both_channels,
	(SELECT count(*) FROM (
		SELECT c_last, c_first FROM shop_sale, day, customer WHERE ss_day = d_id AND ss_customer = c_id AND d_year = 2022
		EXCEPT SELECT c_last, c_first FROM mail_sale, day, customer WHERE ms_day = d_id AND ms_customer = c_id AND d_year = 2022
		EXCEPT SELECT c_last, c_first FROM web_sale, day, customer WHERE ws_day = d_id AND ws_customer = c_id AND d_year = 2022) b) AS shops_only;

-- buckets of quantity: averages and how many prices there are
-- S22
SELECT * FROM (SELECT round(avg(ss_list), 2) AS mean1, count(ss_list) AS number1, count(DISTINCT ss_list) AS prices1 FROM shop_sale
		WHERE ss_quantity BETWEEN 0 AND 5 AND (ss_list BETWEEN 8 AND 18 OR ss_coupon BETWEEN 4 AND 100 OR ss_cost BETWEEN 5 AND 25)) a,
	(SELECT round(avg(ss_list), 2) AS mean2, count(ss_list) AS number2, count(DISTINCT ss_list) AS prices2 FROM shop_sale
		WHERE ss_quantity BETWEEN 6 AND 10 AND (ss_list BETWEEN 90 AND 100 OR ss_coupon BETWEEN 20 AND 300 OR ss_cost BETWEEN 30 AND 50)) b,
	(SELECT round(avg(ss_list), 2) AS mean3, count(ss_list) AS number3, count(DISTINCT ss_list) AS prices3 FROM shop_sale
		WHERE ss_quantity BETWEEN 11 AND 15 AND (ss_list BETWEEN 140 AND 150 OR ss_coupon BETWEEN 60 AND 700 OR ss_cost BETWEEN 80 AND 100)) c;

-- discounts above 1.3 times the item's usual one in the same quarter
-- S23
SELECT count(*), sum(ms_discount) FROM mail_sale m, item, day d
WHERE i_maker BETWEEN 50 AND 70 AND i_id = m.ms_item AND d.d_date BETWEEN '2022-01-27' AND '2022-04-27' AND d.d_id = m.ms_day
	AND m.ms_discount > (SELECT 1.3 * avg(ms_discount) FROM mail_sale, day
		WHERE ms_item = i_id AND d_date BETWEEN '2022-01-27' AND '2022-04-27' AND d_id = ms_day);

-- makers of the items of a category, over all channels
-- S24
WITH shops AS (
	SELECT i_maker, sum(ss_paid) AS paid FROM shop_sale, day, address, item
	WHERE i_maker IN (SELECT i_maker FROM item WHERE i_category = 'electronics') AND ss_item = i_id AND ss_day = d_id AND d_year = 2022 AND d_month = 5
		AND ss_address = a_id AND a_zone = -2 GROUP BY i_maker
), mail AS (
	SELECT i_maker, sum(ms_paid) AS paid FROM mail_sale, day, address, item
	WHERE i_maker IN (SELECT i_maker FROM item WHERE i_category = 'electronics') AND ms_item = i_id AND ms_day = d_id AND d_year = 2022 AND d_month = 5
		AND ms_address = a_id AND a_zone = -2 GROUP BY i_maker
), web AS (
	SELECT i_maker, sum(ws_paid) AS paid FROM web_sale, day, address, item
	WHERE i_maker IN (SELECT i_maker FROM item WHERE i_category = 'electronics') AND ws_item = i_id AND ws_day = d_id AND d_year = 2022 AND d_month = 5
		AND ws_address = a_id AND a_zone = -2 GROUP BY i_maker
)
SELECT i_maker, sum(paid) AS total FROM (SELECT * FROM shops UNION ALL SELECT * FROM mail UNION ALL SELECT * FROM web) x
GROUP BY i_maker ORDER BY 2, 1 LIMIT 100;

-- customers with tickets of many lines
-- S25
SELECT c_last, c_first, c_preferred, ticket, number FROM (
	SELECT ss_ticket AS ticket, ss_customer AS customer, count(*) AS number FROM shop_sale, day, shop, household
	WHERE ss_day = d_id AND ss_shop = s_id AND ss_household = h_id AND (extract(day FROM d_date) BETWEEN 1 AND 3 OR extract(day FROM d_date) BETWEEN 25 AND 28)
		AND (h_potential = 'over 10000' OR h_potential = 'unknown') AND h_vehicles > 0 AND h_dependants * 10 / h_vehicles > 12 AND d_year IN (2021, 2022, 2023)
		AND s_county IN ('county 1', 'county 2') GROUP BY ss_ticket, ss_customer) t, customer
WHERE customer = c_id AND number BETWEEN 5 AND 20 ORDER BY 1, 2, 3 DESC, 4, 5 LIMIT 200;

-- margins by category and class, ranked within their level
-- S26
SELECT round(sum(ss_profit) / sum(ss_paid), 4) AS margin, i_category, i_class, grouping(i_category) + grouping(i_class) AS level,
	rank() OVER (PARTITION BY grouping(i_category) + grouping(i_class), CASE WHEN grouping(i_class) = 0 THEN i_category END
		ORDER BY round(sum(ss_profit) / sum(ss_paid), 4)) AS place
FROM shop_sale, day, item, shop
WHERE d_year = 2022 AND d_id = ss_day AND i_id = ss_item AND s_id = ss_shop AND s_state IN ('AA', 'CC', 'DD')
GROUP BY ROLLUP (i_category, i_class)
ORDER BY level DESC, CASE WHEN grouping(i_category) + grouping(i_class) = 0 THEN i_category END, place, i_category, i_class LIMIT 100;

-- items whose stock varies much in two months that follow each other
-- S27
WITH spread AS (
	SELECT w_name, i_id, d_quarter, round(stddev_samp(st_quantity), 4) AS deviation, round(avg(st_quantity), 4) AS mean
	FROM stock, item, warehouse, day WHERE st_item = i_id AND st_warehouse = w_id AND st_day = d_id AND d_year = 2022 GROUP BY w_name, i_id, d_quarter
	HAVING avg(st_quantity) > 0 AND stddev_samp(st_quantity) / avg(st_quantity) > 0.8
)
SELECT a.w_name, a.i_id, a.d_quarter, a.mean, a.deviation, b.d_quarter, b.mean, b.deviation FROM spread a, spread b
WHERE a.i_id = b.i_id AND a.w_name = b.w_name AND a.d_quarter = 1 AND b.d_quarter = 2 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8 LIMIT 100;

-- sales of warehouses less returns, before and after a day
-- S28
SELECT w_state, i_code, sum(CASE WHEN d_date < '2022-05-11' THEN ms_paid - coalesce(mr_amount, 0) ELSE 0 END) AS before,
	sum(CASE WHEN d_date >= '2022-05-11' THEN ms_paid - coalesce(mr_amount, 0) ELSE 0 END) AS after
FROM mail_sale LEFT JOIN mail_return ON ms_order = mr_order AND ms_line = mr_line, warehouse, item, day
WHERE i_price BETWEEN 10 AND 90 AND i_id = ms_item AND ms_warehouse = w_id AND ms_day = d_id AND d_date BETWEEN date '2022-05-11' - 30 AND date '2022-05-11' + 30
GROUP BY w_state, i_code ORDER BY 1, 2, 3, 4 LIMIT 100;

-- items of makers who have others of some kinds
-- S29
SELECT DISTINCT i_name FROM item i1
WHERE i_maker BETWEEN 70 AND 110 AND (SELECT count(*) FROM item
	WHERE i_maker = i1.i_maker AND ((i_category = 'women' AND i_colour IN ('plum', 'olive') AND i_unit IN ('box', 'each', 'case'))
		OR (i_category = 'men' AND i_colour IN ('ivory', 'navy') AND i_size IN ('petite', 'large')) OR (i_category = 'shoes' AND i_unit = 'pound'))) > 0
ORDER BY 1 LIMIT 100;

-- the ten best and the ten worst items of a shop, by mean profit
-- S30
SELECT good.place, g.i_name AS best, b.i_name AS worst FROM
	(SELECT item, rank() OVER (ORDER BY mean DESC, item) AS place FROM (SELECT ss_item AS item, avg(ss_profit) AS mean FROM shop_sale WHERE ss_shop = 4 GROUP BY ss_item
		HAVING avg(ss_profit) > 0.9 * (SELECT avg(ss_profit) FROM shop_sale WHERE ss_shop = 4 AND ss_promotion IS NULL)) v1) good,
	(SELECT item, rank() OVER (ORDER BY mean, item) AS place FROM (SELECT ss_item AS item, avg(ss_profit) AS mean FROM shop_sale WHERE ss_shop = 4 GROUP BY ss_item
		HAVING avg(ss_profit) < (SELECT avg(ss_profit) FROM shop_sale WHERE ss_shop = 4 AND ss_promotion IS NULL)) v2) bad, item g, item b
WHERE good.place = bad.place AND good.place < 11 AND g.i_id = good.item AND b.i_id = bad.item ORDER BY 1, 2, 3;

-- web sales to some zip codes or of some items
-- S31
SELECT a_zip, a_city, sum(ws_paid) FROM web_sale, customer, address, day, item
WHERE ws_customer = c_id AND c_address = a_id AND ws_item = i_id AND ws_day = d_id AND d_quarter = 2 AND d_year = 2022
	AND (substr(a_zip, 3, 3) IN ('123', '219', '301', '117') OR i_code IN (SELECT i_code FROM item WHERE i_id IN (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)))
GROUP BY a_zip, a_city ORDER BY 1, 2, 3 LIMIT 100;

-- tickets bought in another city than the customer's
-- S32
SELECT c_last, c_first, live.a_city, city, ticket, coupons, profit FROM (
	SELECT ss_ticket AS ticket, ss_customer AS customer, a_city AS city, sum(ss_coupon) AS coupons, sum(ss_profit) AS profit
	FROM shop_sale, day, shop, household, address
	WHERE ss_day = d_id AND ss_shop = s_id AND ss_household = h_id AND ss_address = a_id AND (h_dependants = 4 OR h_vehicles = 3)
		AND d_weekday IN (6, 7) AND d_year IN (2021, 2022, 2023) AND s_county IN ('county 1', 'county 3') GROUP BY ss_ticket, ss_customer, a_city) t,
	customer, address live
WHERE customer = c_id AND c_address = live.a_id AND live.a_city <> city ORDER BY 1, 2, 3, 4, 5, 6, 7 LIMIT 100;

-- brands' months that differ from the year's mean, beside the months before and after
-- S33
WITH months AS (
	SELECT i_category, i_brand, s_name, d_year, d_month, sum(ss_paid) AS paid, avg(sum(ss_paid)) OVER (PARTITION BY i_category, i_brand, s_name, d_year) AS mean,
		rank() OVER (PARTITION BY i_category, i_brand, s_name ORDER BY d_year, d_month) AS place
	FROM item, shop_sale, day, shop
	WHERE ss_item = i_id AND ss_day = d_id AND ss_shop = s_id AND (d_year = 2022 OR (d_year = 2021 AND d_month = 12) OR (d_year = 2023 AND d_month = 1))
	GROUP BY i_category, i_brand, s_name, d_year, d_month
)
SELECT m.i_category, m.i_brand, m.s_name, m.d_month, round(m.mean, 2) AS mean, m.paid, p.paid AS previous, n.paid AS next FROM months m, months p, months n
WHERE m.i_category = p.i_category AND m.i_brand = p.i_brand AND m.s_name = p.s_name AND m.i_category = n.i_category AND m.i_brand = n.i_brand AND m.s_name = n.s_name
	AND m.place = p.place + 1 AND m.place = n.place - 1 AND m.d_year = 2022 AND m.mean > 0 AND abs(m.paid - m.mean) / m.mean > 0.1
ORDER BY m.paid - m.mean, 1, 2, 3, 4, 5, 6, 7, 8 LIMIT 100;

-- the items that come back most, by channel
-- S34
SELECT channel, item, ratio, by_number, by_money FROM (
	SELECT 'web' AS channel, item, ratio, rank() OVER (ORDER BY ratio, item) AS by_number, rank() OVER (ORDER BY money, item) AS by_money FROM (
		SELECT ws_item AS item, round(sum(coalesce(wr_quantity, 0))::numeric / sum(ws_quantity), 4) AS ratio, round(sum(coalesce(wr_amount, 0)) / sum(ws_paid), 4) AS money
		FROM web_sale LEFT JOIN web_return ON ws_order = wr_order AND ws_line = wr_line, day
		WHERE ws_profit > 1 AND ws_paid > 0 AND ws_day = d_id AND d_year = 2022 AND d_month = 12 GROUP BY ws_item) w
	UNION
	SELECT 'mail', item, ratio, rank() OVER (ORDER BY ratio, item), rank() OVER (ORDER BY money, item) FROM (
		SELECT ms_item AS item, round(sum(coalesce(mr_quantity, 0))::numeric / sum(ms_quantity), 4) AS ratio, round(sum(coalesce(mr_amount, 0)) / sum(ms_paid), 4) AS money
		FROM mail_sale LEFT JOIN mail_return ON ms_order = mr_order AND ms_line = mr_line, day
		WHERE ms_profit > 1 AND ms_paid > 0 AND ms_day = d_id AND d_year = 2022 AND d_month = 12 GROUP BY ms_item) m
	UNION
	SELECT 'shop', item, ratio, rank() OVER (ORDER BY ratio, item), rank() OVER (ORDER BY money, item) FROM (
		SELECT ss_item AS item, round(sum(coalesce(sr_quantity, 0))::numeric / sum(ss_quantity), 4) AS ratio, round(sum(coalesce(sr_amount, 0)) / sum(ss_paid), 4) AS money
		FROM shop_sale LEFT JOIN shop_return ON ss_ticket = sr_ticket AND ss_line = sr_line, day
		WHERE ss_profit > 1 AND ss_paid > 0 AND ss_day = d_id AND d_year = 2022 AND d_month = 12 GROUP BY ss_item) s) x
WHERE by_number <= 10 OR by_money <= 10 ORDER BY 1, 4, 5, 2, 3 LIMIT 100;

-- how long parcels took, and how long it took until things came back
-- S35
SELECT x_name, w_name, m_kind, sum(CASE WHEN ws_ship_day - ws_day <= 30 THEN 1 ELSE 0 END) AS days30, sum(CASE WHEN ws_ship_day - ws_day BETWEEN 31 AND 60 THEN 1 ELSE 0 END) AS days60,
	count(*) FILTER (WHERE ws_ship_day - ws_day > 60) AS more, sum(CASE WHEN wr_day - ws_ship_day <= 30 THEN 1 ELSE 0 END) AS back30, count(wr_order) AS back
FROM web_sale LEFT JOIN web_return ON ws_order = wr_order AND ws_line = wr_line, warehouse, shipping, site, day
WHERE ws_ship_day = d_id AND d_month_count BETWEEN 12 AND 23 AND ws_warehouse = w_id AND ws_shipping = m_id AND ws_site = x_id
GROUP BY x_name, w_name, m_kind ORDER BY 1, 2, 3, 4, 5, 6, 7, 8 LIMIT 200;

-- days on which an item's running total in the web passes that in shops
-- S36
WITH web AS (
	SELECT ws_item AS item, d_date, sum(sum(ws_paid)) OVER (PARTITION BY ws_item ORDER BY d_date ROWS UNBOUNDED PRECEDING) AS total
	FROM web_sale, day WHERE ws_day = d_id AND d_month_count BETWEEN 13 AND 18 GROUP BY ws_item, d_date
), shops AS (
	SELECT ss_item AS item, d_date, sum(sum(ss_paid)) OVER (PARTITION BY ss_item ORDER BY d_date ROWS UNBOUNDED PRECEDING) AS total
	FROM shop_sale, day WHERE ss_day = d_id AND d_month_count BETWEEN 13 AND 18 GROUP BY ss_item, d_date
)
SELECT * FROM (
	SELECT item, d_date, web_total, shop_total, max(web_total) OVER (PARTITION BY item ORDER BY d_date ROWS UNBOUNDED PRECEDING) AS web_so_far,
		max(shop_total) OVER (PARTITION BY item ORDER BY d_date ROWS UNBOUNDED PRECEDING) AS shops_so_far
	FROM (SELECT coalesce(web.item, shops.item) AS item, coalesce(web.d_date, shops.d_date) AS d_date, web.total AS web_total, shops.total AS shop_total
		FROM web FULL JOIN shops ON web.item = shops.item AND web.d_date = shops.d_date) x) y
WHERE web_so_far > shops_so_far ORDER BY 1, 2, 3, 4, 5, 6 LIMIT 100;

-- items that were not sold in a quarter: NOT IN over two channels
-- S37
SELECT i_category, count(*), min(i_code), sum(i_price) FROM item
WHERE i_id NOT IN (SELECT ws_item FROM web_sale, day WHERE ws_day = d_id AND d_year = 2022 AND d_quarter = 3)
	AND i_id NOT IN (SELECT ms_item FROM mail_sale, day WHERE ms_day = d_id AND d_year = 2022 AND d_month = 8)
	AND i_id IN (SELECT st_item FROM stock WHERE st_quantity > 100)
GROUP BY i_category ORDER BY 1, 2, 3, 4;

-- customers with the names, sums and days of what they did elsewhere
-- S38
SELECT c_code, (SELECT a_city FROM address WHERE a_id = c_address) AS city,
	(SELECT i_name FROM item, shop_sale WHERE i_id = ss_item AND ss_customer = c_id ORDER BY ss_paid DESC, ss_ticket, ss_line LIMIT 1) AS dearest,
	(SELECT sum(ws_paid) FROM web_sale WHERE ws_customer = c_id) AS web,
	ARRAY(SELECT ms_order FROM mail_sale WHERE ms_customer = c_id AND ms_line = 1 ORDER BY ms_order) AS orders,
	(SELECT max(d_date) FROM shop_return, day WHERE sr_customer = c_id AND sr_day = d_id) AS last_return
FROM customer WHERE c_birth_year = 1970 AND c_birth_month IN (3, 4) ORDER BY 1, 2, 3, 4, 5, 6 LIMIT 100;

-- morning and evening orders, and tickets by hour
-- S39
SELECT round(mornings::numeric / evenings, 3) AS ratio, noon, late FROM
	(SELECT count(*) AS mornings FROM web_sale, household, minute, page WHERE ws_minute = t_id AND ws_household = h_id AND ws_page = y_id
		AND t_hour BETWEEN 8 AND 9 AND h_dependants = 6 AND y_characters BETWEEN 1000 AND 6000) m,
	(SELECT count(*) AS evenings FROM web_sale, household, minute, page WHERE ws_minute = t_id AND ws_household = h_id AND ws_page = y_id
		AND t_hour BETWEEN 19 AND 20 AND h_dependants = 6 AND y_characters BETWEEN 1000 AND 6000) e,
	(SELECT count(*) AS noon FROM shop_sale, household, minute, shop WHERE ss_minute = t_id AND ss_household = h_id AND ss_shop = s_id
		AND t_meal = 'lunch' AND h_income_band IN (SELECT b_id FROM income_band WHERE b_low >= 50000 AND b_high <= 120000) AND s_name = 'shop C') n,
	(SELECT count(*) AS late FROM shop_sale, household, minute, shop WHERE ss_minute = t_id AND ss_household = h_id AND ss_shop = s_id
		AND t_shift = 'evening' AND h_vehicles <= 2 AND s_name = 'shop C') l;

-- lines where something was not recorded, as a cube; and the three best items of each channel
-- S40
WITH lines AS (
	SELECT 'shop' AS channel, 'shop' AS missing, d_year, d_quarter, i_category, i_id, ss_paid AS paid FROM shop_sale, item, day WHERE ss_shop IS NULL AND ss_day = d_id AND ss_item = i_id
	UNION ALL
	SELECT 'web', 'site', d_year, d_quarter, i_category, i_id, ws_paid FROM web_sale, item, day WHERE ws_site IS NULL AND ws_day = d_id AND ws_item = i_id
	UNION ALL
	SELECT 'mail', 'address', d_year, d_quarter, i_category, i_id, ms_paid FROM mail_sale, item, day WHERE ms_address IS NULL AND ms_day = d_id AND ms_item = i_id
)
SELECT 'cube' AS part, channel, missing, d_year, i_category, count(*), sum(paid) FROM lines WHERE d_quarter = 4
GROUP BY GROUPING SETS (CUBE (channel, d_year), (channel, missing, i_category))
UNION ALL
SELECT 'best', channel, NULL, NULL, 'item ' || i_id, place, total FROM (
	SELECT channel, i_id, sum(paid) AS total, row_number() OVER (PARTITION BY channel ORDER BY sum(paid) DESC, i_id) AS place FROM lines GROUP BY channel, i_id) b
WHERE place <= 3 ORDER BY 1, 2, 3, 4, 5, 6, 7;
