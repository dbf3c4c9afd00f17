-- A row is a capture of one launch: what was recorded, what the rings lost, what has no partner. One a session.
-- started_at is 1970 where the sender does not say when the launch was.
-- lost counts records that were overwritten before they were read: give the profiler a larger per_warp_cap.
SELECT
    c.tenant AS tenant, c.session_id AS session_id, c.kernel AS kernel, c.device AS device, c.host AS host, c.job_id AS job_id,
    if(c.rank < 0, NULL, c.rank) AS rank, if(c.launch < 0, NULL, c.launch) AS launch,
    c.started_at AS started_at, c.clock AS clock,
    c.scale AS scale, c.blocks AS blocks, c.warps_per_block AS warps_per_block, c.per_warp_cap AS per_warp_cap,
    c.group_by_smid AS group_by_smid, c.bins AS bins, c.block_bins AS block_bins, c.recorded AS recorded, c.survived AS survived,
    c.lost AS lost, c.unmatched_begin AS unmatched_begin, c.unmatched_end AS unmatched_end
FROM {{db}}.region_captures_data AS c FINAL
