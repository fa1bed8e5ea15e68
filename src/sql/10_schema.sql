/* src/sql/10_schema.sql: What everything else is made in, and the foreign data wrapper. */

\echo Use "CREATE EXTENSION rdma_fdw" to load this file. \quit

-- Made here, not named in the control file, so that DROP EXTENSION takes it along.
CREATE SCHEMA rdma;
COMMENT ON SCHEMA rdma IS 'functions and views of the extension rdma_fdw';
GRANT USAGE ON SCHEMA rdma TO PUBLIC;

-- Nodes, views and public functions call these with the rights of any role, so the schema is open
-- to all; 90_access.sql and the functions' own privileges say which of them a role may call.
CREATE SCHEMA rdma_internal;
COMMENT ON SCHEMA rdma_internal IS 'functions that nodes, views and other functions of the extension rdma_fdw call';
GRANT USAGE ON SCHEMA rdma_internal TO PUBLIC;

CREATE FUNCTION rdma_internal.rdma_fdw_handler()
RETURNS fdw_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma_internal.rdma_fdw_handler() IS 'foreign data wrapper routines of rdma_fdw';

CREATE FUNCTION rdma_internal.rdma_fdw_validator(text[], oid)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma_internal.rdma_fdw_validator(text[], oid) IS
    'checks the options of rdma_fdw servers, user mappings, tables and columns';

CREATE FOREIGN DATA WRAPPER rdma_fdw
  HANDLER rdma_internal.rdma_fdw_handler
  VALIDATOR rdma_internal.rdma_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER rdma_fdw IS 'tables of other PostgreSQL servers, pulled as columns over RDMA';
