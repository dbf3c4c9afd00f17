-- A row is a node of a CUDA graph.
SELECT
    tenant, session_id, graph_exec_key, node_index, node_type, dependency_count
FROM {{db}}.graph_nodes_data FINAL
