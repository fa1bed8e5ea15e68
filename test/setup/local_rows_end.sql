-- local_rows_end.sql: removes what local_rows.sql and two_nodes.sql made. To be included with ECHO none.
SET client_min_messages = warning;
DROP SCHEMA lr, lr_here CASCADE;
DROP SERVER lr, lr1, lr2, "lr 3" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA lr CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA lr CASCADE;
DROP DATABASE lr_third;
