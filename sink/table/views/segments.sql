-- A row is a segment of a run, which is a session.
SELECT
    s.tenant AS tenant,
    s.session_id AS session_id,
    max(s.run_id) AS run_id,
    max(s.segment_index) AS segment_index,
    max(s.roll_chain_id) AS roll_chain_id,
    max(s.part_index) AS part_index,
    max(s.previous_run_id) AS previous_run_id,
    max(s.previous_session_id) AS previous_session_id,
    max(s.started_at) AS started_at,
    max(s.ended_at) AS ended_at,
    max(s.requested_boundary_at) AS requested_boundary_at,
    max(s.boundary_delay_ns) AS boundary_delay_ns,
    max(s.end_reason) AS end_reason,
    max(s.deferred_by) AS deferred_by,
    max(s.records_outside_segment_window) AS records_outside_segment_window,
    max(s.synthetic) AS synthetic,
    max(s.start_requested_boundary_at) AS start_requested_boundary_at,
    max(s.start_boundary_delay_ns) AS start_boundary_delay_ns,
    max(s.start_deferred_by) AS start_deferred_by
FROM {{db}}.segments_data AS s
GROUP BY s.tenant, s.session_id
HAVING run_id != ''
