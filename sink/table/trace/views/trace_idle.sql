-- A row is a stream in a trace: why it was idle between two pieces of work, in ns.
-- It waited for the host when the next work was launched after the work before had ended, else for the next kernel when the gap is shorter
-- than 30 us, else for something else.
SELECT
    tenant, session_id, device_id, stream_id,
    sumIf(gap, waited = 'host') AS host_wait_ns,
    sumIf(gap, waited = 'kernel') AS kernel_wait_ns,
    sumIf(gap, waited = 'other') AS other_ns
FROM (
    SELECT
        tenant, session_id, device_id, stream_id, toUInt64(greatest(at - before, 0)) AS gap,
        multiIf(gap = 0, '', launched = 1 AND toUnixTimestamp64Nano(call_at) > before, 'host', gap < 30000, 'kernel', 'other') AS waited
    FROM (
        SELECT
            tenant, session_id, device_id, stream_id, launched, call_at, toUnixTimestamp64Nano(started_at) AS at,
            at + toInt64(duration_ns) AS till,
            max(till) OVER (PARTITION BY tenant, session_id, device_id, stream_id ORDER BY at, till
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier,
            row_number() OVER (PARTITION BY tenant, session_id, device_id, stream_id ORDER BY at, till) AS nth,
            if(nth = 1, at, earlier) AS before
        FROM {{db}}.trace_gpu
        WHERE astray = 0
    )
)
GROUP BY tenant, session_id, device_id, stream_id
