-- A data node: psql -d shop -v password=... -f node.sql
CREATE EXTENSION rdma_fdw;
CREATE ROLE app LOGIN PASSWORD :'password';
SELECT rdma.grant_access('app', 'write', 'exchange');
SELECT format('GRANT CREATE ON DATABASE %I TO app', current_database()) \gexec
GRANT CREATE ON SCHEMA public TO app;
