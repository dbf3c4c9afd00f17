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
    CAST(r.all / t.all, 'Nullable(Float64)') AS share,
    map('samples', toFloat64(r.samples), 'function_samples', toFloat64(r.all), 'session_samples', toFloat64(t.all)) AS numbers
FROM (
    SELECT tenant, session_id, function, id, all, reason, samples
    FROM (
        SELECT tenant, session_id, function, if(function = '', function_id, 0) AS id, sum(p.samples) AS all,
            sumMap(map(toString(p.stall_reason), p.samples)) AS stalls
        FROM ({{template "pc_samples_base"}}) AS p
        WHERE reason_kind = 'stall'
        GROUP BY tenant, session_id, function, id
    )
    ARRAY JOIN mapKeys(stalls) AS reason, mapValues(stalls) AS samples
    WHERE samples * 10 > all * 4 AND NOT endsWith(reason, '_stalled_selected') AND NOT endsWith(reason, '_stalled_not_selected')
) AS r
ANY LEFT JOIN (
    SELECT tenant, session_id, sum(p.samples) AS all FROM ({{template "pc_samples_base"}}) AS p WHERE reason_kind = 'stall'
        GROUP BY tenant, session_id
) AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id
ANY LEFT JOIN {{db}}.stall_reasons AS x
    ON x.name = r.reason
