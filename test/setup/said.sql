\set ECHO none
-- said.sql: a function that runs a statement and returns its one value, or its error as SQLSTATE, message, detail and hint, so
-- that a test can take out what differs from run to run.
CREATE FUNCTION said(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text; hint text; answer text;
BEGIN
  EXECUTE statement INTO answer;
  RETURN answer;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN concat_ws(E'\n', sqlstate || ': ' || sqlerrm, detail, hint);
END $$;
\set ECHO all
