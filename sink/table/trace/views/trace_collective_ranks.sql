-- A row is the part of one rank in a collective operation: the kernels of a process group with one Seq, or where kernels have no Seq, one
-- of a name, counted from the first in each rank on.
-- has_seq says which: nth is Seq, or that count. run_id is the job; a session without one is a job by itself.
SELECT
    k.tenant AS tenant, k.session_id AS session_id, if(s.run_id = '', k.session_id, s.run_id) AS run_id, s.r AS rank,
    k.process_group AS process_group, any(k.name) AS name, k.has_seq AS has_seq, k.nth AS nth, k.key AS key,
    fromUnixTimestamp64Nano(min(k.at), 'UTC') AS started_at, fromUnixTimestamp64Nano(max(k.till), 'UTC') AS ended_at
FROM (
    SELECT
        tenant, session_id, name, toUnixTimestamp64Nano(started_at) AS at, at + toInt64(duration_ns) AS till,
        JSONExtractString(args, 'Process Group Name') AS process_group, JSONHas(args, 'Seq') AS has_seq, if(has_seq, '', name) AS key,
        if(has_seq, JSONExtractUInt(args, 'Seq'), row_number() OVER (PARTITION BY tenant, session_id, process_group, name, has_seq
            ORDER BY at, till)) AS nth
    FROM {{db}}.trace_gpu
    WHERE work = 'communication' AND astray = 0
) AS k
INNER JOIN (
    SELECT tenant, session_id, max(d.run_id) AS run_id, toInt64(max(d.place)) - 1 AS r
    FROM {{db}}.sessions_data AS d
    GROUP BY tenant, session_id
) AS s
    ON k.tenant = s.tenant AND k.session_id = s.session_id
GROUP BY tenant, k.session_id, run_id, rank, process_group, has_seq, nth, key
