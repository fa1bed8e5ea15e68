-- The coordinator: psql -d shop -v password=... -v nodes='node1 node2' -f coordinator.sql; a name may have a port: node1:5434
CREATE EXTENSION rdma_fdw;
SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)', 'node' || n,
    split_part(host, ':', 1), coalesce(nullif(split_part(host, ':', 2), ''), '5432'), current_database()),
  format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I OPTIONS (user %L, password %L)', 'node' || n, 'app', :'password')
FROM regexp_split_to_table(:'nodes', ' +') WITH ORDINALITY AS h(host, n) ORDER BY n \gexec
SELECT format('CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes %L)', string_agg('node' || n, ', ' ORDER BY n))
FROM regexp_split_to_table(:'nodes', ' +') WITH ORDINALITY AS h(host, n) \gexec
