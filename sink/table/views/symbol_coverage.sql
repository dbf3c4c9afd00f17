-- A row is the samples of a build id whose lines are known, or not known for one reason.
-- symbol_status is that of pc_lines. samples are of kind stall alone; share is their part of the build id's.
SELECT tenant, build_id, symbol_status, samples, samples / sum(samples) OVER (PARTITION BY tenant, build_id) AS share
FROM (
    SELECT tenant, toString(build_id) AS build_id, symbol_status, sum(r.samples) AS samples
    FROM ({{template "flight_stalls"}}) AS r
    WHERE reason_kind = 'stall'
    GROUP BY tenant, build_id, symbol_status
    HAVING samples > 0
    UNION ALL
    SELECT p.tenant AS tenant, toString(p.build_id) AS build_id, {{symbolstatus "p" "l"}} AS symbol_status, sum(p.n) AS samples
    {{template "with_lines_open"}}
    SELECT tenant, build_id, function, pc_offset, sum(r.samples) AS n
    FROM ({{template "pc_bucket_rows"}}) AS r
    WHERE reason_kind = 'stall'
    GROUP BY tenant, build_id, function, pc_offset
    {{template "with_lines_close"}}
    GROUP BY tenant, build_id, symbol_status
)
