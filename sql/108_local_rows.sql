-- Rows of this node go to the data nodes with the statement that joins them: what the nodes do with them, and that the rows of the
-- result are those of local tables. Many rows go by flow: 131_local_rows_flow.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name lr
\set third lr_third
\i :two_nodes
\set local_rows :tree '/test/setup/local_rows.sql'
\i :local_rows
\set ECHO none
-- The same for joins by these columns, which have the same name in both tables: where they are done, by what, and the rows.
CREATE FUNCTION lr.joined(VARIADIC columns text[]) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT concat_ws(': ', c, string_agg(coalesce(substring(line FROM 'JOIN lr.big r2 (ON .*) (?:GROUP|ORDER) BY'), trim(line)), ', '))
    FROM unnest(columns) WITH ORDINALITY u(c, place), LATERAL lr.planned(format('SELECT s.id, count(*) FROM small s JOIN big b ON b.%1$I = s.%1$I GROUP BY 1', c)) line
    WHERE line !~ 'Strategy' GROUP BY c, place ORDER BY place;
$$;
-- Does a statement send rows?
CREATE FUNCTION lr.sends(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean := false;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    found := found OR line ~ 'Local Rows';
  END LOOP;
  RETURN found;
END $$;
\set ECHO all

-- every kind of join
SELECT lr.planned('SELECT s.t, b.x FROM small s JOIN big b USING (id)');
SELECT lr.planned('SELECT s.t, b.x FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, s.t, b.x FROM small s LEFT JOIN big b ON b.id = s.id AND b.grp > s.grp');
SELECT lr.planned('SELECT b.id, s.t FROM big b LEFT JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT b.id AS bid, s.id FROM big b FULL JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT s.id FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.id = s.id AND b.grp > 2)');
SELECT lr.planned('SELECT s.id FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x = 2)');
SELECT lr.planned('SELECT b.id FROM big b WHERE b.grp IN (SELECT grp FROM small WHERE id < 20)');
SELECT lr.planned('SELECT b.id FROM big b WHERE NOT EXISTS (SELECT FROM small s WHERE s.grp = b.grp)');
SELECT lr.planned('SELECT b.id FROM big b WHERE b.grp NOT IN (SELECT grp FROM small WHERE grp IS NOT NULL)');
SELECT lr.planned('SELECT s.id, b.id AS bid FROM small s JOIN big b ON b.grp BETWEEN s.id AND s.id + 1');
SELECT lr.planned('SELECT s.grp, count(b.id), sum(b.x) FROM small s LEFT JOIN big b ON b.id = s.id AND b.grp > s.grp GROUP BY 1');
SELECT lr.planned('SELECT b.x, count(s.id), min(s.t) FROM big b LEFT JOIN small s ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT count(*), count(b.id), count(s.id), sum(b.x) FROM big b FULL JOIN small s ON b.grp = s.id');
SELECT lr.planned('SELECT count(*), sum(s.id) FROM small s WHERE EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x > s.grp)');
SELECT lr.planned('SELECT count(*), sum(s.id) FROM small s WHERE NOT EXISTS (SELECT FROM big b WHERE b.grp = s.id AND b.x > s.grp)');
SELECT lr.planned('SELECT count(*) FROM big b WHERE b.grp NOT IN (SELECT grp FROM small WHERE grp IS NOT NULL)');
SELECT lr.planned('SELECT count(*), sum(b.x * s.id) FROM big b CROSS JOIN small s');
SELECT lr.planned('SELECT count(*), sum(b.x * s.id) FROM big b JOIN small s ON b.grp BETWEEN s.id AND s.id + 1');
-- what comes of it
SELECT lr.planned('SELECT s.t, count(*), sum(b.x) FROM small s JOIN big b USING (grp) GROUP BY s.t');
-- nodes of the same major send states of it
SELECT p FROM lr.planned('SELECT s.t, count(*), sum(b.n) FROM small s JOIN big b USING (grp) GROUP BY s.t') p WHERE p ~ ' rows';
SELECT lr.planned('SELECT count(*), min(s.id), max(b.n) FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT b.id, count(*) FROM small s JOIN big b USING (grp) GROUP BY b.id HAVING count(*) > 1');
SELECT lr.planned('SELECT DISTINCT s.id, b.x FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, b.id AS bid FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5');
SELECT lr.planned('SELECT b.id, rank() OVER (PARTITION BY b.id ORDER BY s.id) FROM small s JOIN big b USING (grp)');
SELECT lr.planned('SELECT s.id, b.x, count(*) FROM small s JOIN big b USING (grp) GROUP BY ROLLUP (s.id, b.x)');
-- with tables of the nodes: co-located, moved, on every node
SELECT lr.planned('SELECT s.t, d.name, count(*) FROM small s JOIN big b USING (grp) JOIN dim d ON d.id = b.id GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, d.name, count(*) FROM small s JOIN big b USING (grp) JOIN dim d ON d.id = b.x GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, r.name, count(*) FROM small s JOIN big b USING (grp) JOIN ref r ON r.id = b.x GROUP BY 1, 2');
SELECT lr.planned('SELECT s.t, r.name FROM small s JOIN ref r USING (id)');
SELECT lr.planned('SELECT s.t, o.t AS ot FROM small s JOIN one o USING (id)');
-- several of them, and of other kinds
SELECT lr.planned('SELECT s.t, o.kind, count(*) FROM small s JOIN big b ON b.id = s.id JOIN other o ON o.grp = b.grp GROUP BY 1, 2');
SELECT lr.planned('SELECT v.name, count(*) FROM (VALUES (1, ''one''), (2, ''two'')) v(grp, name) JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('SELECT g, count(*) FROM generate_series(3, 5) g JOIN big b ON b.grp = g GROUP BY 1');
SELECT lr.planned('WITH w AS MATERIALIZED (SELECT grp, count(*) AS n FROM small GROUP BY grp) SELECT w.n, count(*) FROM w JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('WITH w AS MATERIALIZED (SELECT grp, sum(x) AS s FROM big GROUP BY grp) SELECT count(*) FROM big b JOIN w USING (grp) WHERE b.x > w.s / 300');
SELECT lr.planned('SELECT l.grp, count(*) FROM (SELECT grp, min(id) AS id FROM small GROUP BY grp ORDER BY grp LIMIT 5) l JOIN big b USING (grp) GROUP BY 1');
SELECT lr.planned('SELECT f.t, count(*) FROM far f JOIN big b ON b.grp = f.id GROUP BY 1');
-- not of sub-selects in FROM
SELECT lr.planned('SELECT l.grp, count(*) FROM (SELECT grp, (SELECT max(id) FROM other) AS id FROM small GROUP BY grp ORDER BY grp LIMIT 5) l JOIN big b USING (grp) GROUP BY 1');
-- a sort key that is only equal to a column that is sent
SET enable_hashagg = off;
SELECT lr.planned('SELECT DISTINCT s.t, b.x FROM small s JOIN big b USING (grp) WHERE s.t = s.v');
RESET enable_hashagg;
-- nothing and one
SELECT lr.planned('SELECT count(*), count(e.id) FROM big b LEFT JOIN empty e USING (grp)');
SELECT lr.planned('SELECT b.id FROM big b JOIN empty e USING (grp)');
-- types: as they are here, text that is an enum there, and what cannot be sent
SELECT lr.planned('SELECT s.id, s.f, s.n, s.tz, s.by, s.bp, s.d, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1, 2, 3, 4, 5, 6, 7');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.t = s.t GROUP BY 1');
SELECT lr.joined(VARIADIC '{c,v,bp,d,n,f,tz,u,by,en}');
SELECT lr.planned('SELECT s.dm, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT s.arr, count(*) FROM small s JOIN big b ON b.grp = s.id GROUP BY 1');
SELECT lr.planned('SELECT s.id, count(*) FROM small s JOIN big b ON b.t > s.t AND b.grp = s.grp GROUP BY 1');

-- rows are read again where what they depend on has changed, and not where it has not
SET search_path = lr, public;
SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE s.grp = o) l;
SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE b.x = o) l;
SET plan_cache_mode = force_generic_plan;
PREPARE p AS SELECT count(*), sum(b.x) FROM small s JOIN big b USING (grp) WHERE s.grp < $1 AND b.x > $2;
EXECUTE p(5, 1);
EXECUTE p(8, 3);
DEALLOCATE p;
RESET plan_cache_mode;
BEGIN;
DECLARE c CURSOR FOR SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id;
FETCH 2 FROM c;
UPDATE lr_here.small SET grp = 0;
FETCH 2 FROM c;
ROLLBACK;
INSERT INTO lr.dim SELECT b.id + 1000, s.t FROM small s JOIN big b USING (grp) WHERE b.x = 5 AND s.id < 10;
SELECT count(*), min(id), max(id) FROM dim WHERE id > 1000;
DELETE FROM dim WHERE id > 1000;

-- not: rows that are locked or written, those behind a security barrier, without the setting, and in statements within others
SELECT sends('SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5') AS plain,
  sends('SELECT s.id, b.id FROM lr_here.small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5 FOR UPDATE OF s') AS locks,
  sends('UPDATE big b SET x = 1 FROM small s WHERE s.grp = b.grp') AS updates;
CREATE VIEW hidden WITH (security_barrier) AS SELECT * FROM lr_here.small WHERE grp > 2;
SELECT sends('SELECT s.id, b.id FROM hidden s JOIN big b USING (grp) WHERE s.t < ''t3'' ORDER BY s.id, b.id LIMIT 5') AS behind_barrier;
SET rdma_fdw.disable = local_rows;
SELECT sends('SELECT s.id, b.id FROM small s JOIN big b USING (grp) ORDER BY s.id, b.id LIMIT 5') AS off;
RESET rdma_fdw.disable;
-- what comes of such a statement is itself sent to the next one
SELECT lr.planned('SELECT d.name, count(*) FROM (SELECT b.x, s.grp, count(*) AS n FROM small s JOIN big b USING (grp) GROUP BY 1, 2) q JOIN dim d ON d.id = q.n GROUP BY 1');
SET rdma_fdw.disable = lookahead;
SELECT lr.planned('SELECT count(*) FROM big b WHERE b.x > (SELECT avg(c.x) FROM big c JOIN small s ON s.grp = c.grp WHERE c.grp = b.grp)');
RESET rdma_fdw.disable;

-- rights: who may not read the table may not have it sent
CREATE ROLE lr_reader;
GRANT USAGE ON SCHEMA lr, lr_here TO lr_reader;
GRANT SELECT ON lr.big TO lr_reader;
CREATE USER MAPPING FOR lr_reader SERVER lr1 OPTIONS (user 'postgres', password_required 'false');
CREATE USER MAPPING FOR lr_reader SERVER lr2 OPTIONS (user 'postgres', password_required 'false');
SET ROLE lr_reader;
SELECT count(*) FROM lr_here.small s JOIN lr.big b USING (grp);
SELECT count(*), sum(q.n) FROM generate_series(1, 10) m JOIN (SELECT grp, count(*) AS n FROM lr.big GROUP BY grp) q ON q.grp = m;
SELECT count(*), sum(q.n) FROM generate_series(1, 10) m JOIN (SELECT id AS grp, count(*) AS n FROM lr.dim GROUP BY id) q ON q.grp = m;
SELECT count(*) FROM generate_series(1, 10) m JOIN lr.big b ON b.grp = m JOIN (SELECT id, count(*) AS n FROM lr.dim GROUP BY id) q ON q.id = b.id;
RESET ROLE;

\set ECHO none
DROP OWNED BY lr_reader;
DROP ROLE lr_reader;
\set local_rows_end :tree '/test/setup/local_rows_end.sql'
\i :local_rows_end
