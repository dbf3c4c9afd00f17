-- A row is a signature of what a scope ran in one pass: equal ones may be compared across passes.
SELECT
    tenant, session_id, at, scope, signature, launch_count, distinct_kernels
FROM {{db}}.execution_signatures_data
