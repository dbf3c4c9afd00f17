-- A row is a scope of a run, put together over the run's segments.
SELECT
    s.tenant AS tenant,
    r.run_id AS run_id,
    s.instance_id AS instance_id,
    s.name AS name,
    argMin(s.path, s.started_at) AS path,
    min(s.depth) AS depth,
    min(s.started_at) AS started_at,
    max(s.ended_at) AS ended_at,
    sum(s.duration_ns) AS duration_ns,
    toUInt8(min(s.matched) = 1 AND argMin(s.continued, (s.started_at, s.ended_at)) = 0 AND argMax(s.cut, (s.ended_at, s.started_at)) = 0)
        AS matched,
    count() AS parts,
    argMin(s.session_id, s.started_at) AS first_session_id,
    argMax(s.session_id, s.ended_at) AS last_session_id,
    max(s.repeat) AS repeat,
    max(s.warmup) AS warmup
FROM {{db}}.scopes AS s
INNER JOIN (
    SELECT tenant, session_id, max(run_id) AS run_id FROM {{db}}.sessions_data GROUP BY tenant, session_id HAVING run_id != ''
) AS r ON s.tenant = r.tenant AND s.session_id = r.session_id
GROUP BY s.tenant, r.run_id, s.instance_id, s.name, if(s.name IN ('', {{more}}), s.name_id, 0),
    if(s.matched = 1 AND s.continued = 0 AND s.cut = 0, (s.session_id, s.started_at), ('', toDateTime64(0, 9, 'UTC')))
