SELECT
    tenant, session_id, at, scope, signature, launch_count, distinct_kernels
FROM {{db}}.execution_signatures_data
