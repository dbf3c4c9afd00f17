-- A row is a function and a reason for which its warps wait in more than 40 % of its samples.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'stall' AS rule,
    'medium' AS severity,
    'stalls' AS category,
    {{functionname "r"}} AS subject,
    concat({{percent "value"}}, ' of its samples are ', replaceOne(r.reason, 'smsp__pcsamp_warps_issue_stalled_', ''), '. ', x.meaning,
        if(x.meaning = '', '', ' '), if(x.remedy = '', 'See where in source_profile.', x.remedy)) AS message,
    r.reason AS metric,
    r.samples / r.all AS value,
    0.4 AS threshold,
    CAST(r.all / r.session_samples, 'Nullable(Float64)') AS share,
    map('samples', toFloat64(r.samples), 'function_samples', toFloat64(r.all), 'session_samples', toFloat64(r.session_samples)) AS numbers
FROM (
    SELECT tenant, session_id, f.1 AS function, f.2 AS id, f.3 AS all, w.1 AS reason, w.2 AS samples, session_samples
    FROM (
        SELECT tenant, session_id, sum(g.all) AS session_samples, groupArrayIf((function, id, g.all, heavy), notEmpty(heavy)) AS functions
        FROM (
            SELECT
                tenant, session_id, function, id, sum(n) AS all,
                arrayFilter(x -> x.2 * 10 > all * 4 AND NOT endsWith(x.1, '_stalled_selected')
                    AND NOT endsWith(x.1, '_stalled_not_selected'), groupArray((reason, n))) AS heavy
            FROM (
                SELECT
                    tenant, session_id, toString(p.function) AS function, if(function = '', function_id, 0) AS id,
                    toString(p.stall_reason) AS reason, sum(p.samples) AS n
                FROM ({{template "pc_flight_rows"}}) AS p
                WHERE p.reason_kind = 'stall'
                GROUP BY tenant, session_id, function, id, reason
                UNION ALL
                SELECT
                    tenant, session_id, if(max(p.demangled) = '', toString(p.function), max(p.demangled)) AS function, 0 AS id,
                    toString(p.stall_reason) AS reason, sum(p.samples) AS n
                FROM ({{template "pc_bucket_rows"}}) AS p
                WHERE p.reason_kind = 'stall'
                GROUP BY tenant, session_id, p.function, reason
            )
            GROUP BY tenant, session_id, function, id
        ) AS g
        GROUP BY tenant, session_id
    )
    ARRAY JOIN functions AS f
    ARRAY JOIN f.4 AS w
) AS r
ANY LEFT JOIN {{db}}.stall_reasons AS x
    ON x.name = r.reason
