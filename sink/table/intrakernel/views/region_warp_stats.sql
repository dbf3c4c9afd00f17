-- A row is a region in a warp of a block of one capture, over all multiprocessors.
-- As region_stats. The warps with most slices, as a summary has them: ORDER BY count DESC, block, warp LIMIT k BY region.
SELECT
    tenant, session_id, kernel, region, name, block, warp,
    {{template "region_numbers"}}
FROM ({{template "region_sums" ", block, warp"}})
