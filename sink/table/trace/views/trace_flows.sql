-- A row is an arrow from one slice to another: from a call to what it launched (kind launch), or of the kind that the trace says.
-- A launch is a runtime or driver call, and what it launched has its correlation: kernels, copies, memsets, and waits as the GPU's row
-- shows them. Other arrows are those of the trace, from the latest start of their id to each step and end. from_name is '' where the trace
-- does not say which slice it starts on. A correlation that several calls have, as in merged traces, makes no arrow: trace_gpu counts those
-- as ambiguous.
SELECT
    c.tenant AS tenant, c.session_id AS session_id, 'launch' AS kind, c.correlation AS correlation,
    c.name AS from_name, c.started_at AS from_started_at, c.duration_ns AS from_duration_ns,
    g.name AS to_name, g.started_at AS to_started_at, g.duration_ns AS to_duration_ns
FROM (
    SELECT tenant, session_id, correlation, name, started_at, duration_ns FROM {{db}}.trace_slices_data
    WHERE correlation != 0 AND kind IN ('kernel', 'memcpy', 'memset', 'sync')
) AS g
INNER JOIN (
    SELECT
        tenant, session_id, correlation, any(s.name) AS name, any(s.started_at) AS started_at, any(s.duration_ns) AS duration_ns
    FROM {{db}}.trace_slices_data AS s
    WHERE correlation != 0 AND kind IN ('runtime', 'driver')
    GROUP BY tenant, session_id, correlation
    HAVING count() = 1
) AS c
    ON c.tenant = g.tenant AND c.session_id = g.session_id AND c.correlation = g.correlation
UNION ALL
SELECT
    e.tenant, e.session_id, e.category, e.flow_id, start.3, start.2, start.4, e.slice_name, e.slice_started_at, e.slice_duration_ns
FROM (
    SELECT
        e.tenant AS tenant, e.session_id AS session_id, e.category AS category, e.flow_id AS flow_id, e.slice_name AS slice_name,
        e.slice_started_at AS slice_started_at, e.slice_duration_ns AS slice_duration_ns,
        arrayLastIndex(x -> x.1 < e.at OR x.1 = e.at AND e.phase = 'f', starts) AS before,
        starts[greatest(before, 1)] AS start
    FROM {{db}}.trace_flow_ends AS e
    INNER JOIN (
        SELECT
            tenant, session_id, category, name, flow_id,
            arraySort(groupArray((s.at, s.slice_started_at, s.slice_name, s.slice_duration_ns))) AS starts
        FROM {{db}}.trace_flow_ends AS s
        WHERE phase IN ('s', 't') AND category NOT IN {{launchflows}}
        GROUP BY tenant, session_id, category, name, flow_id
        HAVING countIf(phase = 's') > 0
    ) AS s
        ON e.tenant = s.tenant AND e.session_id = s.session_id AND e.category = s.category AND e.name = s.name AND e.flow_id = s.flow_id
    WHERE e.phase IN ('t', 'f')
) AS e
