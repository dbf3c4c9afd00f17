-- A row is a minute (after 30 days an hour) of a kernel, by the stack that launched it.
-- kernel_ns is measured: the sum of the kernels' durations. frames are as in pc_stacks.
SELECT
    p.tenant AS tenant, p.session_id AS session_id, p.bucket AS bucket, p.bucket_s AS bucket_s,
    {{stackid "p"}} AS stack_id,
    {{chain "s.frames"}} AS frames,
    p.function AS function,
    p.calls AS calls,
    p.kernel_ns AS kernel_ns
{{template "with_frames_open"}}
SELECT
    r.tenant AS tenant, r.session_id AS session_id, r.bucket AS bucket, toUInt32(max(r.bucket_s)) AS bucket_s, r.content_hi AS content_hi,
    r.content_lo AS content_lo, r.function AS function,
    sum(r.calls) AS calls, sum(r.kernel_ns) AS kernel_ns
FROM {{db}}.kernel_stacks_data AS r
GROUP BY tenant, session_id, bucket, content_hi, content_lo, function
{{template "with_frames_close"}}
