-- A row is a finding about memory that a rank's device holds and its allocator does not. gap = used - reserved, over all events of type
-- sample of a rank on a device that say both and whose total is known. There must be three or more, and a gap of 5 % of the total.
SELECT
    tenant, session_id, job_id, host, device_id, rank, classification, severity, confidence, evidence, description, started_at, ended_at,
    breached_at, samples, sampled, used_source,
    evidence_timestamp_ns
FROM {{db}}.memory_gap_parts
WHERE part < 2
