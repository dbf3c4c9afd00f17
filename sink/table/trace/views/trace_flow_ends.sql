-- A row is an end of an arrow as the trace has it, and the slice that it stands on.
-- That is the slice that stood just before it in the trace, if it has its thread and time; else the shortest that begins there, and else
-- the last begun that ends there. slice_name is '' where there is none. Arrows of launches are in trace_flows by their correlation, and
-- here without such a search.
SELECT
    e.tenant AS tenant, e.session_id AS session_id, e.category AS category, e.name AS name, e.flow_id AS flow_id, e.phase AS phase,
    e.at AS at, e.pid AS pid, e.tid AS tid,
    multiIf(e.slice_name != '', e.slice_name, b.found > 0, b.title, d.title) AS slice_name,
    if(e.slice_name != '' OR b.found > 0 OR d.found = 0, e.at, d.started) AS slice_started_at,
    multiIf(e.slice_name != '', e.slice_duration_ns, b.found > 0, b.took, d.took) AS slice_duration_ns,
    e.received_at AS received_at, e.retention_days AS retention_days
FROM {{db}}.trace_flow_ends_data AS e
ANY LEFT JOIN (
    SELECT
        tenant, session_id, pid, tid, started_at AS begun, argMin(s.name, s.duration_ns) AS title,
        min(s.duration_ns) AS took,
        count() AS found
    FROM {{db}}.trace_slices_data AS s
    WHERE phase IN ('X', 'BE') AND (tenant, session_id, pid, tid, started_at) IN (
        SELECT tenant, session_id, pid, tid, at FROM {{db}}.trace_flow_ends_data WHERE slice_name = '' AND category NOT IN {{launchflows}}
    )
    GROUP BY tenant, session_id, pid, tid, begun
) AS b
    ON e.tenant = b.tenant AND e.session_id = b.session_id AND e.pid = b.pid AND e.tid = b.tid AND e.at = b.begun AND e.slice_name = ''
ANY LEFT JOIN (
    SELECT
        tenant, session_id, pid, tid, addNanoseconds(s.started_at, s.duration_ns) AS ended, argMax(s.name, s.started_at) AS title,
        argMax(s.duration_ns, s.started_at) AS took, max(s.started_at) AS started, count() AS found
    FROM {{db}}.trace_slices_data AS s
    WHERE phase IN ('X', 'BE') AND (tenant, session_id, pid, tid, addNanoseconds(s.started_at, s.duration_ns)) IN (
        SELECT tenant, session_id, pid, tid, at FROM {{db}}.trace_flow_ends_data WHERE slice_name = '' AND category NOT IN {{launchflows}}
    )
    GROUP BY tenant, session_id, pid, tid, ended
) AS d
    ON e.tenant = d.tenant AND e.session_id = d.session_id AND e.pid = d.pid AND e.tid = d.tid AND e.at = d.ended AND e.slice_name = ''
