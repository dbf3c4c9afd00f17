-- A row is something that happened around a time. Events, alerts, markers and out-of-memory errors from window_ns before the time to
-- window_ns after it, the surest and nearest first. If a session, job or rank is named ('' and -1 name none), only what belongs to it is
-- shown. confidence is high for what shares the session, or in scope distributed the job, and low for what shares only the time.
SELECT
    tenant, session_id, job_id, rank, world_size, kind, title, severity, started_at, ended_at,
    if({session_id:String} != '' OR ({scope:String} = 'distributed' AND {job_id:String} != ''), 'high', 'low') AS confidence,
    multiIf({session_id:String} != '', ['overlaps_anchor_window', 'same_session', 'same_rank_or_rank_agnostic'],
        confidence = 'high', ['overlaps_anchor_window', 'same_job_distributed', 'same_rank_or_rank_agnostic'],
        ['overlaps_anchor_window', 'time_only_missing_shared_identifier']) AS reasons,
    toUInt64(multiIf({at_ns:Int64} < toUnixTimestamp64Nano(started_at), toUnixTimestamp64Nano(started_at) - {at_ns:Int64},
        {at_ns:Int64} > toUnixTimestamp64Nano(ended_at), {at_ns:Int64} - toUnixTimestamp64Nano(ended_at), 0)) AS distance_ns,
    event_type, context, metadata
FROM (
    SELECT
        toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, rank, world_size, k.1 AS kind,
        k.2 AS title, k.3 AS severity, at AS started_at, at AS ended_at,
        toString(event_type) AS event_type, ifNull(context, '') AS context, metadata
    FROM {{db}}.memory_events
    ARRAY JOIN arrayFilter(k -> k.1 != '', [
        ('telemetry_event', concat(event_type, ' telemetry event'), ''),
        if({{warns "event_type" "metadata"}}, ('alert', concat('Alert: ', event_type),
            multiIf({{string "metadata" "severity"}} != '', {{normal (string "metadata" "severity")}},
            event_type IN ('critical', 'error'), 'critical', event_type = 'warning', 'warning', 'info')), ('', '', ''))]) AS k
    UNION ALL
    SELECT tenant, session_id, job_id, rank, world_size, 'timeline_marker', label, severity, started_at, ended_at, event_type, '', metadata
    FROM {{db}}.memory_markers
    UNION ALL
    SELECT tenant, session_id, job_id, rank, toInt64(0), 'oom', concat('Out of memory', if(reason = '', '', concat(': ', reason))),
        'critical', at, at, 'error', context, ''
    FROM {{db}}.memory_ooms
)
WHERE tenant = {tenant:String} AND ({session_id:String} = '' OR session_id = {session_id:String})
    AND ({job_id:String} = '' OR job_id = {job_id:String})
    AND ({rank:Int64} < 0 OR rank = {rank:Int64})
    AND started_at <= fromUnixTimestamp64Nano(toInt64(least(toInt128({at_ns:Int64}) + {window_ns:UInt64}, 9223372036854775807)), 'UTC')
    AND ended_at >= fromUnixTimestamp64Nano(toInt64(greatest(toInt128({at_ns:Int64}) - {window_ns:UInt64}, 0)), 'UTC')
ORDER BY confidence, distance_ns, kind, title, session_id, rank
