-- A row is a scope that was entered.
SELECT
    s.tenant AS tenant,
    s.session_id AS session_id,
    s.instance_id AS instance_id,
    {{named "if(s.name = '', n.value, s.name)" "s" "s.name_id"}} AS name,
    if(s.name = '', concat(s.path, name), s.path) AS path,
    s.depth AS depth,
    s.started_at AS started_at,
    addNanoseconds(s.started_at, s.duration_ns) AS ended_at,
    s.duration_ns AS duration_ns,
    s.matched AS matched,
    s.name_id AS name_id,
    s.repeat AS repeat,
    s.warmup AS warmup,
    s.continued AS continued,
    s.cut AS cut,
    s.received_at AS received_at,
    s.retention_days AS retention_days
FROM {{db}}.scopes_data AS s
ANY LEFT JOIN {{late "scope_name_dict"}} AS n
    ON s.tenant = n.tenant AND s.session_id = n.session_id AND s.name_id = n.id AND s.name = ''
