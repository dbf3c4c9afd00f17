-- A row is a collective operation of a job: the kernels of all its ranks that belong together.
-- Those of one process group with one Seq do; where kernels have no Seq, the first of a name in each rank do, the second, and so on.
-- skew_ns is from the first rank's start to that of the last, which is late_rank; transfer_ns from there to the first rank's end. Ranks of
-- a job are sessions with one run_id; a session without is a job by itself.
SELECT
    tenant, job AS run_id, process_group, any(title) AS name, if(has_seq, toInt64(nth), -1) AS seq, if(has_seq, 0, nth) AS ordinal,
    count() AS ranks, fromUnixTimestamp64Nano(min(at), 'UTC') AS started_at,
    toUInt64(max(at) - min(at)) AS skew_ns,
    toUInt64(greatest(min(till) - max(at), 0)) AS transfer_ns,
    argMax(r, (at, -r)) AS late_rank
FROM (
    SELECT
        k.tenant AS tenant, if(s.run_id = '', k.session_id, s.run_id) AS job, s.r AS r, k.process_group AS process_group,
        k.has_seq AS has_seq, k.nth AS nth, k.key AS key, any(k.name) AS title, min(k.at) AS at, max(k.till) AS till
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
    GROUP BY tenant, job, r, k.session_id, process_group, has_seq, nth, key
)
GROUP BY tenant, job, process_group, has_seq, nth, key
