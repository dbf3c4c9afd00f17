-- A row is a path of nested scopes in a session.
SELECT
    tenant, session_id, p.1 AS path, max(depth - p.5) AS depth, sum(p.2) AS calls, sum(p.3) AS total_ns,
    toUInt64(if(sum(p.3) > sum(p.4), sum(p.3) - sum(p.4), 0)) AS self_ns,
    sum((1 - matched) * (1 - p.5)) AS unmatched
FROM (
    SELECT
        tenant, session_id, depth, matched,
        arrayJoin(if(position(path, '|') = 0,
            [(toString(path), toUInt64(matched), duration_ns, toUInt64(0), 0)],
            [(toString(path), toUInt64(matched), duration_ns, toUInt64(0), 0),
             (substring(path, 1, length(path) - position(reverse(path), '|')), toUInt64(0), toUInt64(0), duration_ns, 1)])) AS p
    FROM {{db}}.scopes
)
GROUP BY tenant, session_id, path
HAVING calls + unmatched > 0
