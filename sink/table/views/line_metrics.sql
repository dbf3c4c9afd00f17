-- A row is a line of source: its samples, stalls, counters, and what follows from them.
SELECT
    tenant, session_id, file, line,
    {{template "derived"}},
    functions
FROM (
    SELECT
        tenant, session_id, file, line, functions, samples,
        {{uncoded "coded" "other" "stall"}} AS stalls,
        {{uncoded "coded" "other" "not issued"}} AS stalls_not_issued,
        {{uncoded "coded" "other" "metric"}} AS metrics
    FROM (
        SELECT
            tenant, session_id, g.place.1 AS file, g.place.2 AS line, groupUniqArray(100)(g.function) AS functions,
            sum(g.samples) AS samples, sumMap(g.coded) AS coded, sumMap(g.other) AS other
        FROM ({{template "instructions_coded"}}) AS g
        WHERE line > 0
        GROUP BY tenant, session_id, file, line
    )
    UNION ALL
    SELECT
        tenant, session_id, g.place.1 AS file, g.place.2 AS line, groupUniqArray(100)(g.function) AS functions,
        sum(g.samples) AS samples, sumMap(g.stalls) AS stalls, sumMap(g.stalls_not_issued) AS stalls_not_issued,
        sumMap(g.metrics) AS metrics
    FROM ({{template "instructions_bucket"}}) AS g
    WHERE line > 0
    GROUP BY tenant, session_id, file, line
)
