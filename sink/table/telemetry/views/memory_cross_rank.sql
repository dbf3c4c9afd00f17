-- A row is a rank of a run that may have been the first to run out of room. The likeliest of a run comes first.
SELECT
    tenant, s.session_id AS session_id, job_id, run, s.rank AS rank, s.device_id AS device_id, s.spike_at AS first_spike_at,
    s.aligned_at AS aligned_first_spike_at,
    s.delta_bytes AS peak_delta_bytes, s.samples AS spike_window_samples, s.lead_ns AS lead_over_cluster_onset_ns,
    s.confidence AS confidence,
    multiIf(s.confidence = 'high', 'critical', s.confidence = 'medium', 'warning', 'info') AS severity,
    position AS position, suspects AS supporting_ranks, cluster_onset_at, world_size, missing_ranks, notes, sampled
FROM {{db}}.memory_runs
ARRAY JOIN first_causes AS s, arrayEnumerate(first_causes) AS position
