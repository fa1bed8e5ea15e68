\set ECHO none
-- guest_code.sql: role regress_def_guest and its schema guest, with functions, operators, types and casts that make it a superuser when
-- a superuser runs them. The session is connected as a superuser.
CREATE ROLE regress_def_guest;
CREATE SCHEMA guest AUTHORIZATION regress_def_guest;
SET ROLE regress_def_guest;
CREATE FUNCTION guest.rise() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE regress_def_guest SUPERUSER; END IF; RETURN true; END $$;
CREATE FUNCTION guest.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN $1; END $$;
CREATE FUNCTION guest.ok(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN guest.rise(); END $$;
CREATE FUNCTION guest.eq(int, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN $1 = $2; END $$;
CREATE OPERATOR guest.## (RIGHTARG = int, FUNCTION = guest.f);
CREATE OPERATOR guest.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = guest.eq, COMMUTATOR = OPERATOR(guest.===));
CREATE DOMAIN guest.odd AS int CHECK (guest.ok(value));
CREATE TYPE guest.pair AS (a guest.odd, b int);
CREATE TYPE guest.mood AS ENUM ('bad', 'good');
CREATE FUNCTION guest.as_text(guest.mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN 'x'; END $$;
CREATE FUNCTION guest.as_json(guest.mood) RETURNS json IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN '1'; END $$;
CREATE CAST (guest.mood AS text) WITH FUNCTION guest.as_text;
CREATE CAST (guest.mood AS json) WITH FUNCTION guest.as_json;
RESET ROLE;
\set ECHO all
