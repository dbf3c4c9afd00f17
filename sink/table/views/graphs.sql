-- A row is a launch of a CUDA graph.
SELECT
    tenant, session_id, started_at, addNanoseconds(started_at, duration_ns) AS ended_at, duration_ns, graph_id, device_id,
    stream_id, corr_id, graph_exec_key, pid, app, received_at, retention_days
FROM {{db}}.graphs_data
