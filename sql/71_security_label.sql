-- SECURITY LABEL without FOR means what it means without rdma_fdw, whose provider is used where it is named.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE TABLE labelled (a int);
\c
SECURITY LABEL ON TABLE labelled IS 'page_shipping';
SECURITY LABEL FOR nobody ON TABLE labelled IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE labelled IS 'page_shipping';
SECURITY LABEL ON TABLE labelled IS NULL;
SELECT provider, label FROM pg_seclabels WHERE objoid = 'labelled'::regclass;
SECURITY LABEL FOR rdma_fdw ON TABLE labelled IS 'something else';
SECURITY LABEL FOR rdma_fdw ON TABLE labelled IS NULL;
SELECT provider, label FROM pg_seclabels WHERE objoid = 'labelled'::regclass;
DROP TABLE labelled;
