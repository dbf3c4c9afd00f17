-- A row is a rank of a run, and how far its first sample is from that of the lowest rank. The offset is the rank's first sample minus that
-- of the lowest rank. More than five sampling intervals means a late start or a wrong clock. Then views that align ranks by their first
-- samples are doubtful.
SELECT
    tenant, r.session_id AS session_id, job_id, run, r.rank AS rank, r.device_id AS device_id, r.samples AS samples,
    r.started_at AS started_at,
    r.offset_ns AS offset_ns, r.skewed AS skewed, median_interval_ns
FROM {{db}}.memory_runs
ARRAY JOIN ranks AS r
