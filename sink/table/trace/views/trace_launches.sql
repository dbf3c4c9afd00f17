-- A row is a launch in a trace: a call on the host, and the work of the GPU that has its correlation.
-- delay_ns is how long the work waited after the call had returned, 0 where it began earlier. inverted is 1 where it began before the call.
SELECT
    tenant, session_id, correlation, call, name AS kernel, call_ns AS cpu_ns, duration_ns AS gpu_ns,
    toUInt64(greatest(toUnixTimestamp64Nano(started_at) - toUnixTimestamp64Nano(call_at) - toInt64(call_ns), 0)) AS delay_ns,
    inverted, call_at AS launched_at, started_at, device_id, stream_id, kind
FROM {{db}}.trace_gpu
WHERE launched = 1
