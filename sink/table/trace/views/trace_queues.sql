-- A row is a change of a stream's queue in a trace: at its time work was launched, or began, and length is how much was waiting then.
-- Only work whose launch is known counts, and none that began before it was launched. Of changes at one time launches come first.
SELECT
    tenant, session_id, device_id, stream_id, fromUnixTimestamp64Nano(at, 'UTC') AS at,
    sum(step) OVER (PARTITION BY tenant, session_id, device_id, stream_id ORDER BY q.at, step DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS length
FROM (
    SELECT
        tenant, session_id, device_id, stream_id,
        arrayJoin([(toUnixTimestamp64Nano(call_at), 1), (toUnixTimestamp64Nano(started_at), -1)]) AS edge, edge.1 AS at, edge.2 AS step
    FROM {{db}}.trace_gpu
    WHERE launched = 1 AND inverted = 0
) AS q
