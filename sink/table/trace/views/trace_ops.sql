-- A row is an op of a trace: how often it was called, and the work of GPUs that was launched in it and in no op within it.
-- kernels are kernels alone, gpu_ns is the time of kernels, copies and memsets.
SELECT
    tenant, session_id, op, sum(called) AS calls, sum(ran) AS kernels, sum(copied) AS copies, sum(took) AS gpu_ns
FROM (
    SELECT
        tenant, session_id, place, called, ran, copied, took, deep,
        assumeNotNull(anyLast(if(place = 1, title, NULL)) OVER (PARTITION BY tenant, session_id, pid, tid, deep ORDER BY at, place, down, id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS op
    FROM (
        -- place orders what is at one time: 0 the end of an op, 1 its begin, 2 a launch. Of two ops that begin at once the longer one is
        -- outside, and of equal ones that which was numbered first.
        SELECT
            tenant, session_id, pid, tid, place, at, down, id, title, called, ran, copied, took,
            sum(step) OVER (PARTITION BY tenant, session_id, pid, tid ORDER BY at, place, down, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS deep
        FROM (
            SELECT
                tenant, session_id, pid, tid, edge.1 AS place, edge.2 AS at, edge.3 AS step, -toInt64(duration_ns) AS down,
                external_id AS id, CAST(name, 'Nullable(String)') AS title, toUInt64(edge.1) AS called, toUInt64(0) AS ran,
                toUInt64(0) AS copied, toUInt64(0) AS took
            FROM {{db}}.trace_slices_data
            ARRAY JOIN [
                (1, toUnixTimestamp64Nano(started_at), 1), (0, toUnixTimestamp64Nano(started_at) + toInt64(duration_ns), -1)] AS edge
            WHERE kind = 'op' AND duration_ns > 0
            UNION ALL
            SELECT
                tenant, session_id, call_pid, call_tid, 2, toUnixTimestamp64Nano(call_at), 0, 0, 0, NULL, 0,
                toUInt64(kind = 'kernel'), toUInt64(kind != 'kernel'), duration_ns
            FROM {{db}}.trace_gpu
            WHERE launched = 1
        )
    )
    WHERE place > 0
)
WHERE deep > 0
GROUP BY tenant, session_id, op
