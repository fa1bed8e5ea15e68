-- rdma.metrics in Prometheus' text exposition format, for whatever serves files or standard output, such as the textfile collector of
-- node_exporter:
--   psql -XAt -d demo -f exposition.sql > rdma_fdw.prom.new && mv rdma_fdw.prom.new rdma_fdw.prom
SELECT concat(CASE WHEN row_number() OVER metric = 1 THEN format(E'# HELP %s %s\n# TYPE %s %s\n', name, replace(replace(help, E'\\', E'\\\\'), E'\n', E'\\n'), name, type) END,
    name, '{' || l.list || '}', ' ', CASE value WHEN 'Infinity' THEN '+Inf' WHEN '-Infinity' THEN '-Inf' ELSE value::text END)
  FROM rdma.metrics,
    LATERAL (SELECT string_agg(format('%s="%s"', key, replace(replace(replace(value, E'\\', E'\\\\'), '"', E'\\"'), E'\n', E'\\n')), ',' ORDER BY key) AS list
      FROM jsonb_each_text(labels)) l
  WINDOW metric AS (PARTITION BY name ORDER BY l.list)
  ORDER BY name, l.list;
