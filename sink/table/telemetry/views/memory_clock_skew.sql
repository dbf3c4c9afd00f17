-- A row is a rank of a run, and how far its first sample is from that of the lowest rank. How far apart the ranks of a run begin: offset is
-- first sample minus that of the lowest rank. More than five sampling intervals is a late start or a clock that is wrong, and makes what
-- lays ranks over each other by their first samples doubtful.
SELECT
    tenant, r.session_id AS session_id, job_id, run, r.rank AS rank, r.device_id AS device_id, r.samples AS samples,
    r.started_at AS started_at,
    r.offset_ns AS offset_ns, r.skewed AS skewed, median_interval_ns
FROM {{db}}.memory_runs
ARRAY JOIN ranks AS r
