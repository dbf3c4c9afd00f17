-- A row is a minute (after 30 days an hour) of samples of an instruction for one reason.
{{/* pc_samples_rows are the rows as they are stored, with late names. What adds them up itself begins here: adding them up twice takes
twice the time. */}}
{{define "pc_samples_rows"}}
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    r.bucket AS bucket,
    toUInt32(r.bucket_s) AS bucket_s,
    r.cubin AS cubin,
    r.build_id AS build_id,
    if(r.function = '', {{function "f.value"}}, r.function) AS function,
    r.pc_offset AS pc_offset,
    if(r.stall_reason = '', m.value, r.stall_reason) AS stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    toUInt64(r.period_ns) AS period_ns,
    toUInt64(r.samples) AS samples,
    toUInt64(r.gpu_ns) AS gpu_ns,
    if(r.scope = '', p.value, r.scope) AS scope,
    r.device_id AS device_id,
    multiIf(s.value != '', s.value, r.file != '', toString(r.file), {{fileof "f.value"}}) AS file,
    toUInt32(r.line) AS line,
    toUInt64(r.hits) AS hits,
    r.function_id AS function_id,
    r.metric_id AS metric_id,
    r.scope_id AS scope_id
FROM {{db}}.pc_samples_data AS r
ANY LEFT JOIN {{late "function_dict"}} AS f
    ON r.tenant = f.tenant AND r.session_id = f.session_id AND r.function_id = f.id
ANY LEFT JOIN {{late "metric_dict"}} AS m
    ON r.tenant = m.tenant AND r.session_id = m.session_id AND r.metric_id = m.id AND r.stall_reason = ''
ANY LEFT JOIN {{late "scope_name_dict"}} AS p
    ON r.tenant = p.tenant AND r.session_id = p.session_id AND r.scope_id = p.id AND r.scope = ''
ANY LEFT JOIN {{late "source_file_dict"}} AS s
    ON r.tenant = s.tenant AND r.session_id = s.session_id AND r.file_id = s.id
{{end}}
{{define "pc_samples_base"}}
SELECT
    tenant, session_id, bucket, max(b.bucket_s) AS bucket_s, cubin, build_id, function, pc_offset, stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    max(b.period_ns) AS period_ns, sum(b.samples) AS samples, sum(b.gpu_ns) AS gpu_ns, scope, device_id, max(b.file) AS file,
    max(b.line) AS line, sum(b.hits) AS hits, function_id, metric_id, scope_id
FROM ({{template "pc_samples_rows"}}) AS b
GROUP BY tenant, session_id, bucket, cubin, build_id, function, function_id, pc_offset, stall_reason, metric_id, scope, scope_id, device_id
{{end}}SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.bucket AS bucket,
    p.bucket_s AS bucket_s,
    p.cubin AS cubin,
    p.build_id AS build_id,
    p.function AS function,
    p.pc_offset AS pc_offset,
    i.sass AS sass,
    p.stall_reason AS stall_reason,
    p.reason_kind AS reason_kind,
    p.period_ns AS period_ns,
    p.samples AS samples,
    p.gpu_ns AS gpu_ns,
    p.scope AS scope,
    p.device_id AS device_id,
    p.file AS file,
    p.line AS line,
    p.hits AS hits,
    p.function_id AS function_id,
    p.metric_id AS metric_id,
    p.scope_id AS scope_id,
    p.sass_ambiguous AS sass_ambiguous
{{template "with_sass_open"}}{{template "pc_samples_base"}}{{template "with_sass_close"}}
