-- A row is a collective operation of a job: the kernels of all its ranks that belong together.
-- Those of one process group with one Seq do; where kernels have no Seq, the first of a name in each rank do, the second, and so on.
-- skew_ns is from the first rank's start to that of the last, which is late_rank; transfer_ns from there to the first rank's end. Ranks of
-- a job are sessions with one run_id; a session without is a job by itself. All traces of a tenant are read: trace_collective_ranks can be
-- asked for the sessions of one job.
SELECT
    tenant, run_id, process_group, any(r.name) AS name, if(has_seq, toInt64(nth), -1) AS seq, if(has_seq, 0, nth) AS ordinal,
    count() AS ranks, fromUnixTimestamp64Nano(min(at), 'UTC') AS started_at,
    toUInt64(max(at) - min(at)) AS skew_ns,
    toUInt64(greatest(min(till) - max(at), 0)) AS transfer_ns,
    argMax(rank, (at, -rank)) AS late_rank
FROM (
    SELECT *, toUnixTimestamp64Nano(c.started_at) AS at, toUnixTimestamp64Nano(c.ended_at) AS till FROM {{db}}.trace_collective_ranks AS c
) AS r
GROUP BY tenant, run_id, process_group, has_seq, nth, key
