-- A row is a kernel that keeps values in local memory because it lacks registers.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'spill' AS rule,
    'medium' AS severity,
    'memory' AS category,
    {{kernelname "r"}} AS subject,
    concat('Spills ', toString(r.most), ' bytes a thread to local memory. Use fewer registers a thread, or allow more: smaller{{" " -}}
        tiles, less unrolling, a higher -maxrregcount.') AS message,
    'local_mem_per_thread_bytes' AS metric,
    toFloat64(r.most) AS value,
    0. AS threshold,
    {{template "share"}} AS share,
    map('registers', toFloat64(r.registers), 'local_mem_total_bytes', toFloat64(r.total), 'kernel_ns', toFloat64(t.ns)) AS numbers
FROM (
    SELECT
        tenant, session_id, kernel, if(kernel = '', kernel_id, 0) AS id, max(local_mem_per_thread_bytes) AS most,
        argMax(l.registers, local_mem_per_thread_bytes) AS registers, argMax(local_mem_total_bytes, local_mem_per_thread_bytes) AS total
    FROM {{template "launched"}} AS l
    GROUP BY tenant, session_id, kernel, id
    HAVING most > 0
) AS r
ANY LEFT JOIN {{template "kernel_time"}} AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id AND r.kernel = t.kernel
