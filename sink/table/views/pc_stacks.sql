-- A row is a minute (after 30 days an hour) of samples of a kernel for one reason, by the stack that launched it.
-- frames are innermost first, empty where the client knows no stack (stack_id is 32 zeros then). gpu_ns is an estimate.
-- Samples of a key that keeps launch stacks out are not here.
{{/* with_stacks leaves out rows r whose key keeps launch stacks out. */}}
{{define "with_stacks"}}WHERE NOT (r.content_hi = 0 AND r.content_lo = {{stacknotkept}}){{end -}}
SELECT
    p.tenant AS tenant, p.session_id AS session_id, p.bucket AS bucket, p.bucket_s AS bucket_s,
    {{stackid "p"}} AS stack_id,
    {{chain "s.frames"}} AS frames,
    p.function AS function,
    p.stall_reason AS stall_reason,
    p.reason_kind AS reason_kind,
    p.samples AS samples,
    p.gpu_ns AS gpu_ns
{{template "with_frames_open"}}
SELECT
    r.tenant AS tenant, r.session_id AS session_id, r.bucket AS bucket, toUInt32(max(r.bucket_s)) AS bucket_s, r.content_hi AS content_hi,
    r.content_lo AS content_lo, r.function AS function, r.stall_reason AS stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns
FROM {{db}}.pc_buckets_data AS r
{{template "with_stacks"}}
GROUP BY tenant, session_id, bucket, content_hi, content_lo, function, stall_reason
{{template "with_frames_close"}}
