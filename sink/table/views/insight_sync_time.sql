-- A row is a place in a program where the host waits for a large part of the session.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'sync_time' AS rule,
    if(value > 0.5, 'high', 'medium') AS severity,
    'synchronisation' AS category,
    {{callsite "r"}} AS subject,
    concat('The host waits here for ', {{percent "value"}}, ' of the session, in ', toString(r.calls),
        if(r.calls = 1, ' call', ' calls'), '. Wait later or for less: events instead of the whole device, results copied{{" " -}}
        asynchronously, fewer reads of them on the host.') AS message,
    'sync_share_of_wall' AS metric,
    r.ns / w.wall_ns AS value,
    if(value > 0.5, 0.5, 0.1) AS threshold,
    CAST(NULL, 'Nullable(Float64)') AS share,
    map('calls', toFloat64(r.calls), 'total_ns', toFloat64(r.ns), 'max_ns', toFloat64(r.longest), 'wall_ns', toFloat64(w.wall_ns))
        AS numbers
FROM (
    SELECT
        tenant, session_id, toString(s.stack_trace) AS stack_trace, if(stack_trace = '', s.function_id, 0) AS id,
        toString(any(s.sync_type)) AS type,
        sum(s.calls) AS calls, sum(s.total_ns) AS ns, max(s.max_ns) AS longest
    FROM {{db}}.sync_stats AS s
    GROUP BY tenant, session_id, stack_trace, id
) AS r
INNER JOIN (
    SELECT tenant, session_id, toUnixTimestamp64Nano(greatest(ended_at, last_event_at)) - toUnixTimestamp64Nano(started_at) AS wall_ns
    FROM {{db}}.sessions
    WHERE toUnixTimestamp64Nano(started_at) > 0 AND wall_ns > 0
) AS w
    ON r.tenant = w.tenant AND r.session_id = w.session_id
WHERE value > 0.1
