-- A row is a minute (after 30 days an hour) of a source line's stalls for one reason.
-- samples are of kind stall alone, the useful reason "selected" among them; file is empty and line 0 where the line is not known, and
-- symbol_status says why. Lines of the same file and number are one, whatever the build. gpu_ns is an estimate.
SELECT
    p.tenant AS tenant, a.app AS app, a.host AS host, p.bucket AS bucket, p.file AS file, p.line AS line, p.stall_reason AS stall_reason,
    p.samples AS samples, p.session_id AS session_id, p.symbol_status AS symbol_status, p.gpu_ns AS gpu_ns, p.bucket_s AS bucket_s
{{template "with_apps_open"}}
SELECT
    tenant, session_id, bucket, toString(file) AS file, line, toString(stall_reason) AS stall_reason, symbol_status,
    sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns, max(r.bucket_s) AS bucket_s
FROM ({{template "flight_stalls"}}) AS r
WHERE reason_kind = 'stall'
GROUP BY tenant, session_id, bucket, file, line, stall_reason, symbol_status
UNION ALL
SELECT
    p.tenant AS tenant, p.session_id AS session_id, p.bucket AS bucket, l.file AS file, l.line AS line,
    p.stall_reason AS stall_reason, {{symbolstatus "p" "l"}} AS symbol_status,
    sum(p.samples) AS samples, sum(p.gpu_ns) AS gpu_ns, max(p.bucket_s) AS bucket_s
{{template "with_lines_open"}}
SELECT tenant, session_id, bucket, build_id, function, pc_offset, stall_reason, samples, gpu_ns, bucket_s
FROM ({{template "pc_bucket_rows"}})
WHERE reason_kind = 'stall'
{{template "with_lines_close"}}
GROUP BY tenant, session_id, bucket, file, line, stall_reason, symbol_status
{{template "with_apps_close"}}
