/* src/sql/70_transactions.sql: Transactions over several nodes. */

-- Transactions that commit on several nodes, or on none.
CREATE TABLE rdma.decisions (
  gid text NOT NULL,
  server oid NOT NULL,
  usr oid NOT NULL,
  node bigint NOT NULL,
  decided timestamptz NOT NULL);
COMMENT ON TABLE rdma.decisions IS
    'parts of transactions over several nodes that have committed and are not known to be finished; a part '
    'that is prepared and has no row is rolled back';
COMMENT ON COLUMN rdma.decisions.gid IS 'name of the prepared transaction';
COMMENT ON COLUMN rdma.decisions.server IS 'foreign server by which it was prepared';
COMMENT ON COLUMN rdma.decisions.usr IS 'whose user mapping was used';
COMMENT ON COLUMN rdma.decisions.node IS 'system identifier of the node';
COMMENT ON COLUMN rdma.decisions.decided IS 'when the commit began';

CREATE FUNCTION rdma_internal.transactions(
  OUT gid text, OUT server_name text, OUT user_name text, OUT decision text, OUT since timestamptz, OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_transactions' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;

CREATE VIEW rdma.transactions AS SELECT * FROM rdma_internal.transactions();
COMMENT ON VIEW rdma.transactions IS
    'one row per node on which a transaction of this database is decided and not finished; it is finished in the '
    'background once the node can be asked';
COMMENT ON COLUMN rdma.transactions.gid IS
    'name of the transaction in pg_prepared_xacts there; NULL: the node could not be asked since the server started, '
    'and may have some';
COMMENT ON COLUMN rdma.transactions.server_name IS 'foreign server';
COMMENT ON COLUMN rdma.transactions.user_name IS 'whose user mapping was used';
COMMENT ON COLUMN rdma.transactions.decision IS 'commit or rollback';
COMMENT ON COLUMN rdma.transactions.since IS 'when that was decided, or when the node was first found not to answer';
COMMENT ON COLUMN rdma.transactions.problem IS 'why it could not be finished; NULL: nobody has tried';
REVOKE ALL ON FUNCTION rdma_internal.transactions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma_internal.transactions() TO pg_read_all_stats;
GRANT SELECT ON rdma.transactions TO pg_read_all_stats;
COMMENT ON FUNCTION rdma_internal.transactions() IS
    'transactions over several nodes that are decided and not finished on a node';

CREATE FUNCTION rdma.resolve(server name, forget boolean DEFAULT false)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_resolve' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.resolve(name, boolean) IS
    'finishes on a server what transactions left there, with the caller''s user mapping; with forget, gives it up '
    'because the server will never come back; how many';
REVOKE ALL ON FUNCTION rdma.resolve(name, boolean) FROM PUBLIC;

-- Points to which all nodes can be recovered together
CREATE TABLE rdma.restore_points (
  name text PRIMARY KEY,
  made timestamptz NOT NULL DEFAULT pg_catalog.now(),
  lsn pg_lsn);
COMMENT ON TABLE rdma.restore_points IS
    'names that rdma.create_restore_point has used, on the coordinator and on its nodes';
COMMENT ON COLUMN rdma.restore_points.name IS 'for recovery_target_name';
COMMENT ON COLUMN rdma.restore_points.made IS 'when it was about to be created, by this server''s clock';
COMMENT ON COLUMN rdma.restore_points.lsn IS
    'where it is in this server''s WAL; NULL: this server does not have it, or it was not confirmed';
GRANT SELECT ON rdma.restore_points TO pg_read_all_stats;

CREATE FUNCTION rdma.create_restore_point(name text, OUT server_name name, OUT lsn pg_lsn)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_create_restore_point' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 4;
COMMENT ON FUNCTION rdma.create_restore_point(text) IS
    'creates a named restore point here and on the nodes of all servers, such that recovery to it has each transaction '
    'on all of them or on none; a row for each server, and one without a name for this one';
REVOKE ALL ON FUNCTION rdma.create_restore_point(text) FROM PUBLIC;

-- Snapshots of several nodes, while other coordinators commit there
CREATE FUNCTION rdma_internal.other_parts_age(coordinator bigint)
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_other_parts_age' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.other_parts_age(bigint) IS
    'microseconds since a transaction of another coordinator was committed here';

CREATE FUNCTION rdma_internal.unseen_parts(coordinator bigint, statement bigint, OUT part bigint, OUT age bigint,
    OUT owner bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_unseen_parts' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION rdma_internal.unseen_parts(bigint, bigint) IS
    'transactions of other coordinators that the snapshot of a statement does not see here';

CREATE FUNCTION rdma_internal.seen_parts(statement bigint, parts bigint[], ages bigint[])
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_seen_parts' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.seen_parts(bigint, bigint[], bigint[]) IS
    'may the snapshot of a statement see one of these transactions here?';

-- The gate between commits and snapshots of several nodes
CREATE FUNCTION rdma_internal.stat_gate(
	OUT commits bigint, OUT commit_waits bigint, OUT commit_wait_us bigint,
	OUT snapshots bigint, OUT snapshot_waits bigint, OUT snapshot_wait_us bigint, OUT snapshots_renewed bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_gate' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 1;

CREATE VIEW rdma.stat_gate AS SELECT * FROM rdma_internal.stat_gate();
COMMENT ON VIEW rdma.stat_gate IS
    'one row: commits on nodes and common snapshots of several nodes, of all databases since the server started, and '
    'how they waited for each other';
COMMENT ON COLUMN rdma.stat_gate.commits IS 'transactions that wrote on nodes, one or several, and began to commit';
COMMENT ON COLUMN rdma.stat_gate.commit_waits IS 'those that waited for others to take snapshots';
COMMENT ON COLUMN rdma.stat_gate.commit_wait_us IS 'how long in total';
COMMENT ON COLUMN rdma.stat_gate.snapshots IS 'times that snapshots of several nodes were taken as one';
COMMENT ON COLUMN rdma.stat_gate.snapshot_waits IS 'times that this waited for commits';
COMMENT ON COLUMN rdma.stat_gate.snapshot_wait_us IS 'how long in total';
COMMENT ON COLUMN rdma.stat_gate.snapshots_renewed IS
    'of snapshots, those taken in place of others of the same transaction';
REVOKE ALL ON FUNCTION rdma_internal.stat_gate() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma_internal.stat_gate() TO pg_read_all_stats;
GRANT SELECT ON rdma.stat_gate TO pg_read_all_stats;
COMMENT ON FUNCTION rdma_internal.stat_gate() IS
    'commits on nodes and common snapshots of several, of all databases, and how they waited for each other';

CREATE FUNCTION rdma_internal.locks(
  OUT server_name text, OUT waiting_pid integer, OUT blocking_pid integer, OUT waiting_backend integer,
      OUT blocking_backend integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_locks' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;

CREATE VIEW rdma.locks AS SELECT * FROM rdma_internal.locks();
COMMENT ON VIEW rdma.locks IS
    'one row per process that waits for a lock and process that it waits for, here and on the nodes that sessions of '
    'this database are connected with; nodes are asked with the caller''s user mappings';
COMMENT ON COLUMN rdma.locks.server_name IS 'foreign server on whose node they wait; NULL: here';
COMMENT ON COLUMN rdma.locks.waiting_pid IS 'process of that server that waits';
COMMENT ON COLUMN rdma.locks.blocking_pid IS 'process of that server that it waits for';
COMMENT ON COLUMN rdma.locks.waiting_backend IS 'process here that the first serves, or that it is; NULL: none';
COMMENT ON COLUMN rdma.locks.blocking_backend IS 'the same of the second';
REVOKE ALL ON FUNCTION rdma_internal.locks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma_internal.locks() TO pg_read_all_stats;
GRANT SELECT ON rdma.locks TO pg_read_all_stats;
COMMENT ON FUNCTION rdma_internal.locks() IS
    'who waits for whose locks, here and on the nodes that sessions of this database are connected with';
