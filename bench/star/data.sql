-- data.sql: rows of schema.sql's tables, from -v scale=... (1: 500,000 lines in shops, 250,000 by catalogue, 125,000 in the web).
-- The same rows each time: all values are hashes of the row's number. Low numbers of items and customers are frequent. Of orders
-- and tickets with the same number, every fourth has the same customer and items, so that the channels' rows meet.
SELECT (4000 * :scale)::int AS items, (30000 * :scale)::int AS customers, (15000 * :scale)::int AS addresses,
	(500000 * :scale)::int AS shop_lines, (125000 * :scale)::int AS web_lines, (250000 * :scale)::int AS mail_lines \gset

-- 0 to n - 1: a hash of a row's number, another one for each seed
CREATE FUNCTION pick(number bigint, seed int, n bigint) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql
	RETURN ((hashint8extended(number, seed) & 9223372036854775807) % n)::int;
-- 1 to n, density falling with the root
CREATE FUNCTION skew(number bigint, seed int, n bigint) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql
	RETURN (1 + ((pick(number, seed, 1048576)::bigint * pick(number, seed, 1048576) * n) >> 40))::int;
-- NULL once in 25
CREATE FUNCTION gap(number bigint, seed int, value int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql
	RETURN CASE WHEN pick(number, seed, 25) > 0 THEN value END;
-- a day of 2021 to 2023, a quarter of them in November and December
CREATE FUNCTION some_day(number bigint, seed int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql
	RETURN CASE WHEN pick(number, seed, 4) = 0 THEN pick(number, seed + 1, 3) * 365 + 305 + pick(number, seed + 2, 60) ELSE 1 + pick(number, seed + 1, 1095) END;

INSERT INTO day
SELECT i, d, extract(year FROM d), extract(quarter FROM d), extract(month FROM d), (extract(year FROM d) - 2021) * 12 + extract(month FROM d),
	(i + 3) / 7, extract(isodow FROM d), (ARRAY['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'])[extract(isodow FROM d)::int],
	extract(month FROM d) = 12 AND extract(day FROM d) BETWEEN 24 AND 26
FROM (SELECT i, date '2020-12-31' + i AS d FROM generate_series(1, 1461) i) days;
INSERT INTO minute
SELECT i, i / 60, i % 60, (ARRAY['night', 'morning', 'afternoon', 'evening'])[1 + i / 360],
	CASE i / 60 WHEN 7 THEN 'breakfast' WHEN 8 THEN 'breakfast' WHEN 12 THEN 'lunch' WHEN 13 THEN 'lunch' WHEN 19 THEN 'dinner' END
FROM generate_series(0, 1439) i;
INSERT INTO household
SELECT i, 1 + i % 20, (ARRAY['unknown', '0-500', '501-1000', '1001-5000', '5001-10000', 'over 10000'])[1 + i % 6], i % 10, i % 7 - 1
FROM generate_series(1, 4200) i;
INSERT INTO demographics
SELECT i, (ARRAY['F', 'M'])[1 + i % 2], (ARRAY['S', 'M', 'D', 'W', 'U'])[1 + i % 5],
	(ARRAY['primary', 'secondary', 'college', '2 years', '4 years', 'advanced', 'unknown'])[1 + i % 7],
	(ARRAY['good', 'low', 'high', 'unknown'])[1 + i / 70 % 4], i / 280 % 7
FROM generate_series(1, 1960) i;
INSERT INTO income_band SELECT i, (i - 1) * 10000 + 1, i * 10000 FROM generate_series(1, 20) i;
INSERT INTO promotion
SELECT i, 'promotion ' || i, 1 + pick(i, 1, :items), pick(i, 2, 2) = 0, pick(i, 3, 10) = 0, pick(i, 4, 2) = 0
FROM generate_series(1, 300) i;
INSERT INTO shop
SELECT i, 'shop ' || chr(64 + i), 'city ' || pick(i, 1, 60), 'county ' || i % 5, (ARRAY['AA', 'BB', 'CC', 'DD'])[1 + i % 4],
	lpad(pick(i, 2, 400)::text, 5, '1'), -i % 3, 100 + pick(i, 3, 200), 1 + i % 5
FROM generate_series(1, 12) i;
INSERT INTO warehouse SELECT i, 'warehouse ' || i, 1000 * i, (ARRAY['AA', 'BB', 'CC', 'DD'])[i] FROM generate_series(1, 4) i;
INSERT INTO site SELECT i, 'site ' || i, 'company ' || i % 3 FROM generate_series(1, 8) i;
INSERT INTO page
SELECT i, (ARRAY['welcome', 'search', 'order', 'review', 'general'])[1 + i % 5], 1000 + pick(i, 1, 7000) FROM generate_series(1, 60) i;
INSERT INTO call_centre SELECT i, 'centre ' || i, 'manager ' || i % 4, 'county ' || i % 3 FROM generate_series(1, 6) i;
INSERT INTO catalogue_page
SELECT i, 1 + i / 100, 1 + i % 100, (ARRAY['monthly', 'quarterly', 'half-yearly'])[1 + i % 3] FROM generate_series(1, 1200) i;
INSERT INTO shipping
SELECT i, (ARRAY['express', 'overnight', 'regular', 'two days', 'library'])[1 + i % 5], 'carrier ' || i / 5 FROM generate_series(1, 20) i;
INSERT INTO reason SELECT i, 'reason ' || i FROM generate_series(1, 35) i;

INSERT INTO item
SELECT i, 'I' || lpad(((i + 1) / 2)::text, 8, '0'), 'item ' || i, category || ' brand ' || pick(i, 1, 12), category || ' class ' || pick(i, 2, 8), category,
	1 + pick(i, 3, 200), 1 + pick(i, 4, 40), (ARRAY['small', 'medium', 'large', 'extra large', 'petite', 'none'])[1 + pick(i, 5, 6)],
	(ARRAY['red', 'blue', 'green', 'white', 'black', 'ivory', 'plum', 'olive', 'sienna', 'navy'])[1 + pick(i, 6, 10)],
	(ARRAY['each', 'dozen', 'case', 'pound', 'box'])[1 + pick(i, 7, 5)], price, round(price * (40 + pick(i, 8, 40)) / 100, 2)
FROM (SELECT i, (ARRAY['books', 'children', 'electronics', 'home', 'jewelry', 'men', 'music', 'shoes', 'sports', 'women'])[1 + pick(i, 9, 10)] AS category,
	(50 + pick(i, 10, 30) * pick(i, 11, 1000)) / 100.0 AS price FROM generate_series(1, :items) i) items;
INSERT INTO address
SELECT i, pick(i, 1, 1000) || ' street ' || pick(i, 2, 500), 'city ' || pick(i, 3, 60), 'county ' || pick(i, 4, 40),
	(ARRAY['AA', 'BB', 'CC', 'DD', 'EE', 'FF', 'GG', 'HH', 'II', 'JJ'])[1 + pick(i, 5, 10)], lpad(pick(i, 6, 400)::text, 5, '1'), -pick(i, 7, 4),
	(ARRAY['flat', 'house', 'condominium'])[1 + pick(i, 8, 3)]
FROM generate_series(1, :addresses) i;
INSERT INTO customer
SELECT i, 'C' || lpad(i::text, 8, '0'), gap(i, 1, 1 + pick(i, 2, 1960)), gap(i, 3, 1 + pick(i, 4, 4200)), gap(i, 13, 1 + pick(i, 5, :addresses)), 'first ' || pick(i, 6, 300),
	'last ' || pick(i, 7, 2000), CASE WHEN pick(i, 8, 30) > 0 THEN pick(i, 9, 2) = 0 END, gap(i, 14, 1930 + pick(i, 10, 70)), 1 + pick(i, 11, 12),
	'country ' || pick(i, 12, 20), 'c' || i || '@example.org'
FROM generate_series(1, :customers) i;

INSERT INTO shop_sale
SELECT ticket, line, gap(ticket, 22, some_day(ticket, 10)), gap(ticket, 23, 480 + pick(ticket, 13, 780)), item, gap(ticket, 24, skew(ticket, 20, :customers)),
	gap(ticket, 25, 1 + pick(ticket, 14, 1960)), gap(ticket, 26, 1 + pick(ticket, 15, 4200)), gap(ticket, 27, 1 + pick(ticket, 16, :addresses)),
	gap(ticket, 28, 1 + pick(ticket, 17, 12)), CASE WHEN pick(id, 18, 2) = 0 THEN 1 + pick(id, 19, 300) END, quantity, cost, list, price, coupon,
	price * quantity - coupon, price * quantity - coupon - cost * quantity
FROM (SELECT i, i AS id, 1 + (i - 1) / 5 AS ticket, 1 + (i - 1) % 5 AS line, skew(i, 21, :items) AS item, 1 + pick(i, 30, 100) AS quantity,
	(100 + pick(i, 31, 9900)) / 100.0 AS cost FROM generate_series(1, :shop_lines) i) lines,
	LATERAL (SELECT round(cost * (110 + pick(id, 32, 90)) / 100, 2) AS list) l,
	LATERAL (SELECT round(list * (30 + pick(id, 33, 70)) / 100, 2) AS price) p,
	LATERAL (SELECT CASE WHEN pick(id, 34, 5) = 0 THEN round(price * quantity * pick(id, 35, 50) / 100, 2) ELSE 0 END AS coupon) c;
INSERT INTO shop_return
SELECT ss_ticket, ss_line, coalesce(ss_day, 1) + 1 + pick(id, 1, 150), ss_item, gap(id, 2, ss_customer), gap(id, 3, ss_shop), 1 + pick(id, 4, 35), quantity,
	round(ss_price * quantity, 2), round(ss_price * quantity / 10, 2) + pick(id, 5, 100)
FROM (SELECT *, ss_ticket * 8 + ss_line AS id FROM shop_sale) s, LATERAL (SELECT 1 + pick(id, 6, ss_quantity) AS quantity) q
WHERE pick(id, 7, 10) = 0;

INSERT INTO mail_sale
SELECT o, line, gap(o, 51, day), gap(o, 51, day + 2 + pick(id, 44, 118)), skew(id, CASE WHEN o % 4 = 0 THEN 21 ELSE 40 END, :items),
	gap(o, 52, skew(o, CASE WHEN o % 4 = 0 THEN 20 ELSE 41 END, :customers)), gap(o, 53, 1 + pick(o, 45, 1960)), gap(o, 54, 1 + pick(o, 46, 4200)),
	gap(o, 55, 1 + pick(o, 47, :addresses)), gap(o, 56, 1 + pick(o, 48, 6)), gap(id, 57, 1 + pick(id, 49, 1200)), gap(id, 58, 1 + pick(id, 50, 20)),
	gap(id, 59, 1 + pick(id, 60, 4)), CASE WHEN pick(id, 61, 2) = 0 THEN 1 + pick(id, 62, 300) END, quantity, cost, list, price, (list - price) * quantity,
	price * quantity, round(price * quantity * pick(id, 63, 50) / 100, 2), (price - cost) * quantity
FROM (SELECT i AS id, 1 + (i - 1) / 5 AS o, 1 + (i - 1) % 5 AS line, some_day(1 + (i - 1) / 5, 42) AS day, 1 + pick(i, 64, 100) AS quantity,
	(100 + pick(i, 65, 9900)) / 100.0 AS cost FROM generate_series(1, :mail_lines) i) lines,
	LATERAL (SELECT round(cost * (110 + pick(id, 66, 190)) / 100, 2) AS list) l,
	LATERAL (SELECT round(list * (30 + pick(id, 67, 70)) / 100, 2) AS price) p;
INSERT INTO mail_return
SELECT ms_order, ms_line, coalesce(ms_ship_day, 1) + 1 + pick(id, 1, 150), ms_item, gap(id, 2, ms_customer), gap(id, 3, ms_address), ms_call_centre, ms_page,
	1 + pick(id, 4, 35), quantity, round(ms_price * quantity, 2), round(ms_price * quantity / 10, 2) + pick(id, 5, 100)
FROM (SELECT *, ms_order * 8 + ms_line + 1 AS id FROM mail_sale) s, LATERAL (SELECT 1 + pick(id, 6, ms_quantity) AS quantity) q
WHERE pick(id, 8, 10) = 0;

INSERT INTO web_sale
SELECT o, line, gap(o, 81, day), gap(o, 81, day + 1 + pick(id, 74, 118)), gap(o, 82, pick(o, 75, 1440)), skew(id, CASE WHEN o % 4 = 0 THEN 21 ELSE 70 END, :items),
	gap(o, 83, skew(o, CASE WHEN o % 4 = 0 THEN 20 ELSE 71 END, :customers)), gap(o, 84, 1 + pick(o, 76, 4200)), gap(o, 85, 1 + pick(o, 77, :addresses)),
	gap(o, 86, 1 + pick(o, 78, 8)), gap(id, 87, 1 + pick(id, 79, 60)), gap(id, 88, 1 + pick(id, 80, 20)), gap(id, 89, 1 + pick(id, 90, 4)),
	CASE WHEN pick(id, 91, 2) = 0 THEN 1 + pick(id, 92, 300) END, quantity, cost, list, price, (list - price) * quantity, price * quantity,
	round(price * quantity * pick(id, 93, 50) / 100, 2), (price - cost) * quantity
FROM (SELECT i AS id, 1 + (i - 1) / 5 AS o, 1 + (i - 1) % 5 AS line, some_day(1 + (i - 1) / 5, 72) AS day, 1 + pick(i, 94, 100) AS quantity,
	(100 + pick(i, 95, 9900)) / 100.0 AS cost FROM generate_series(1, :web_lines) i) lines,
	LATERAL (SELECT round(cost * (110 + pick(id, 96, 190)) / 100, 2) AS list) l,
	LATERAL (SELECT round(list * (30 + pick(id, 97, 70)) / 100, 2) AS price) p;
INSERT INTO web_return
SELECT ws_order, ws_line, coalesce(ws_ship_day, 1) + 1 + pick(id, 1, 150), ws_item, gap(id, 2, ws_customer), gap(id, 3, ws_address), ws_page,
	1 + pick(id, 4, 35), quantity, round(ws_price * quantity, 2), round(ws_price * quantity / 10, 2) + pick(id, 5, 100)
FROM (SELECT *, ws_order * 8 + ws_line + 2 AS id FROM web_sale) s, LATERAL (SELECT 1 + pick(id, 6, ws_quantity) AS quantity) q
WHERE pick(id, 9, 10) = 0;

-- every four weeks for two years
INSERT INTO stock
SELECT i, w, 1 + 28 * week, gap(id, 1, pick(id, 2, 1 + pick(i, 3, 1000)))
FROM (SELECT i, w, week, (i * 4 + w) * 32 + week AS id FROM generate_series(1, :items) i, generate_series(1, 4) w, generate_series(0, 24) week) s;

DROP FUNCTION some_day, gap, skew, pick;
