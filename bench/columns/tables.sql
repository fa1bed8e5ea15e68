-- tables.sql: tables of bench/columns beside those of TPC-H, of so many rows
CREATE TABLE nulls AS SELECT CASE WHEN g % 3 > 0 THEN g END AS a, CASE WHEN g % 5 > 0 THEN g % 100 END AS b, g % 10 AS c, CASE WHEN g % 2 > 0 THEN '2000-01-01'::date + g % 1000 END AS d,
	CASE WHEN g % 7 > 0 THEN 'text ' || g END AS e FROM generate_series(1, :rows) g;
CREATE TABLE floats AS SELECT g % 10 AS g, random() AS f FROM generate_series(1, :rows) g;
CREATE TABLE longs AS SELECT g % 10 AS g, (g * 1234567890123456789012.1234567)::numeric(38,7) AS n FROM generate_series(1, :rows) g;
CREATE TABLE toasted AS SELECT g, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 100) i) AS t FROM generate_series(1, :rows / 30) g;
CREATE TABLE small AS SELECT g AS a, 'text ' || g AS t FROM generate_series(1, 9000) g;
