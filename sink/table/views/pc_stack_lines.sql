-- A row is a minute (after 30 days an hour) of an instruction that a launch stack led to, for one reason, with its line.
-- The columns are as in pc_lines and pc_stacks; gpu_ns is an estimate.
{{/* with_frames_open and with_frames_close stand around a query with tenant, content_hi and content_lo, and give its rows (as p) the frames
of their stack (as s). Stacks are the left side for the reason that lines of cubins are. */}}
{{define "with_frames_open"}}FROM {{db}}.stack_frames_data AS s
ANY RIGHT JOIN ({{end}}
{{define "with_frames_close"}}) AS p
    ON s.tenant = p.tenant AND s.content_hi = p.content_hi AND s.content_lo = p.content_lo{{end -}}
SELECT
    p.tenant AS tenant, p.session_id AS session_id, p.bucket AS bucket, p.bucket_s AS bucket_s,
    {{stackid "p"}} AS stack_id,
    {{chain "s.frames"}} AS frames,
    p.cubin AS cubin, p.build_id AS build_id, p.function AS function, p.pc_offset AS pc_offset, p.sass AS sass,
    p.stall_reason AS stall_reason,
    p.reason_kind AS reason_kind,
    p.samples AS samples, p.gpu_ns AS gpu_ns,
    p.file AS file, p.line AS line, {{chain "p.inline_chain"}} AS inline_chain, p.symbol_status AS symbol_status
{{template "with_frames_open"}}
SELECT
    p.tenant AS tenant, p.session_id AS session_id, p.bucket AS bucket, p.bucket_s AS bucket_s, p.content_hi AS content_hi,
    p.content_lo AS content_lo, p.cubin AS cubin, p.build_id AS build_id, p.function AS function, p.pc_offset AS pc_offset,
    p.sass AS sass, p.stall_reason AS stall_reason, p.reason_kind AS reason_kind, p.samples AS samples, p.gpu_ns AS gpu_ns,
    l.file AS file, l.line AS line, l.inline_chain AS inline_chain,
    {{symbolstatus "p" "l"}} AS symbol_status
{{template "with_lines_open"}}
SELECT
    r.tenant AS tenant, r.session_id AS session_id, r.bucket AS bucket, toUInt32(max(r.bucket_s)) AS bucket_s, r.content_hi AS content_hi,
    r.content_lo AS content_lo, r.cubin AS cubin, r.build_id AS build_id, r.function AS function, r.pc_offset AS pc_offset, r.sass AS sass,
    r.stall_reason AS stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns
FROM {{db}}.pc_buckets_data AS r
{{template "with_stacks"}}
GROUP BY tenant, session_id, bucket, content_hi, content_lo, cubin, build_id, function, pc_offset, sass, stall_reason
{{template "with_lines_close"}}{{template "with_frames_close"}}
