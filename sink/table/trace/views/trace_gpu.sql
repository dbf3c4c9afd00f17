-- A row is work of a GPU in a trace: a kernel, a copy or a memset, with the call that launched it.
-- work is communication for kernels of NCCL, RCCL and HCCL, memory for copies and memsets, else compute. launched is 0 where the trace has
-- no call with its correlation, or several (ambiguous), as when the traces of several processes were merged. inverted is 1 where it begins
-- before its call, and astray where it does so by more than a second: such work is in no breakdown, since its time cannot be right.
SELECT
    g.tenant AS tenant, g.session_id AS session_id, g.device_id AS device_id, g.stream_id AS stream_id,
    g.started_at AS started_at, addNanoseconds(g.started_at, g.duration_ns) AS ended_at, g.duration_ns AS duration_ns,
    g.kind AS kind, g.name AS name,
    multiIf(g.kind != 'kernel', 'memory', match(g.name, '^(nccl|rccl|hccl)|ncclKernel|ncclDevKernel'), 'communication', 'compute') AS work,
    g.correlation AS correlation, toUInt8(c.calls = 1) AS launched, c.call AS call, c.call_at AS call_at, c.call_ns AS call_ns,
    c.call_pid AS call_pid, c.call_tid AS call_tid,
    toUInt8(c.calls = 1 AND g.started_at < c.call_at) AS inverted,
    toUInt8(c.calls = 1 AND addSeconds(g.started_at, 1) < c.call_at) AS astray,
    toUInt8(c.calls > 1) AS ambiguous,
    g.args AS args
FROM (
    SELECT * FROM {{db}}.trace_slices_data WHERE kind IN ('kernel', 'memcpy', 'memset')
) AS g
ANY LEFT JOIN (
    SELECT
        tenant, session_id, correlation, count() AS calls, min(s.started_at) AS call_at, argMin(s.name, s.started_at) AS call,
        argMin(s.duration_ns, s.started_at) AS call_ns, argMin(s.pid, s.started_at) AS call_pid, argMin(s.tid, s.started_at) AS call_tid
    FROM {{db}}.trace_slices_data AS s
    WHERE correlation != 0 AND kind IN ('runtime', 'driver')
    GROUP BY tenant, session_id, correlation
) AS c
    ON g.tenant = c.tenant AND g.session_id = c.session_id AND g.correlation = c.correlation
