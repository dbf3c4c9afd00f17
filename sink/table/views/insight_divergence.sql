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
    if(r.session_inst = 0, NULL, r.inst / r.session_inst) AS share,
    map('inst_executed', toFloat64(r.inst), 'thread_inst_executed', toFloat64(r.threads)) AS numbers
FROM (
    SELECT tenant, session_id, f.1 AS function, f.2 AS id, f.3 AS inst, f.4 AS threads, session_inst
    FROM (
        SELECT
            tenant, session_id, sum(g.inst) AS session_inst,
            groupArrayIf((function, id, g.inst, g.threads), g.inst > 0 AND g.threads > 0 AND g.threads < 24 * g.inst) AS functions
        FROM (
            SELECT
                tenant, session_id, function, if(function = '', function_id, 0) AS id,
                sumIf(p.metric_value, p.metric_name = 'smsp__sass_inst_executed') AS inst,
                sumIf(p.metric_value, p.metric_name = 'smsp__sass_thread_inst_executed') AS threads
            FROM ({{template "profile_metrics_rows"}}) AS p
            GROUP BY tenant, session_id, function, id
        ) AS g
        GROUP BY tenant, session_id
    )
    ARRAY JOIN functions AS f
) AS r
