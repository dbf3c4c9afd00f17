-- A row is a function whose warps run with few of their threads.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'divergence' AS rule,
    'medium' AS severity,
    'divergence' AS category,
    {{functionname "r"}} AS subject,
    concat('On average ', toString(round(32 * value, 1)),
        ' of 32 threads of a warp do work. Give neighbouring threads the same path: sort or pad the work, move conditions out of{{" " -}}
        inner loops.') AS message,
    'thread_efficiency' AS metric,
    r.threads / (32 * r.inst) AS value,
    0.75 AS threshold,
    if(t.inst = 0, NULL, r.inst / t.inst) AS share,
    map('inst_executed', toFloat64(r.inst), 'thread_inst_executed', toFloat64(r.threads)) AS numbers
FROM (
    SELECT
        tenant, session_id, function, if(function = '', function_id, 0) AS id,
        sumIf(metric_value, metric_name = 'smsp__sass_inst_executed') AS inst,
        sumIf(metric_value, metric_name = 'smsp__sass_thread_inst_executed') AS threads
    FROM ({{template "profile_metrics_base"}})
    GROUP BY tenant, session_id, function, id
    HAVING inst > 0 AND threads > 0 AND threads < 24 * inst
) AS r
ANY LEFT JOIN (
    SELECT tenant, session_id, sum(metric_value) AS inst FROM ({{template "profile_metrics_base"}})
        WHERE metric_name = 'smsp__sass_inst_executed' GROUP BY tenant, session_id
) AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id
