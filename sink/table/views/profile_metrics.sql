-- A row is a minute (after 30 days an hour) of a counter of an instruction.
{{/* As pc_samples_rows. */}}
{{define "profile_metrics_rows"}}
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    if(r.function = '', {{function "f.value"}}, r.function) AS function,
    r.pc_offset AS pc_offset,
    if(r.metric_name = '', m.value, r.metric_name) AS metric_name,
    toUInt64(r.metric_value) AS metric_value,
    if(r.scope = '', p.value, r.scope) AS scope,
    multiIf(s.value != '', s.value, r.file != '', toString(r.file), {{fileof "f.value"}}) AS file,
    toUInt32(r.line) AS line,
    r.bucket AS bucket,
    toUInt32(r.bucket_s) AS bucket_s,
    r.device_id AS device_id,
    toUInt64(r.hits) AS hits,
    r.function_id AS function_id,
    r.metric_id AS metric_id,
    r.scope_id AS scope_id
FROM {{db}}.profile_metrics_data AS r
ANY LEFT JOIN {{late "function_dict"}} AS f
    ON r.tenant = f.tenant AND r.session_id = f.session_id AND r.function_id = f.id
ANY LEFT JOIN {{late "metric_dict"}} AS m
    ON r.tenant = m.tenant AND r.session_id = m.session_id AND r.metric_id = m.id AND r.metric_name = ''
ANY LEFT JOIN {{late "scope_name_dict"}} AS p
    ON r.tenant = p.tenant AND r.session_id = p.session_id AND r.scope_id = p.id AND r.scope = ''
ANY LEFT JOIN {{late "source_file_dict"}} AS s
    ON r.tenant = s.tenant AND r.session_id = s.session_id AND r.file_id = s.id
{{end}}
{{define "profile_metrics_base"}}
SELECT
    tenant, session_id, function, pc_offset, metric_name, sum(b.metric_value) AS metric_value, scope, max(b.file) AS file,
    max(b.line) AS line, bucket, max(b.bucket_s) AS bucket_s, device_id, sum(b.hits) AS hits, function_id, metric_id, scope_id
FROM ({{template "profile_metrics_rows"}}) AS b
GROUP BY tenant, session_id, bucket, function, function_id, pc_offset, metric_name, metric_id, scope, scope_id, device_id
{{end}}SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.function AS function,
    p.pc_offset AS pc_offset,
    p.metric_name AS metric_name,
    p.metric_value AS metric_value,
    p.scope AS scope,
    p.file AS file,
    p.line AS line,
    p.bucket AS bucket,
    p.bucket_s AS bucket_s,
    p.device_id AS device_id,
    p.hits AS hits,
    p.function_id AS function_id,
    p.metric_id AS metric_id,
    p.scope_id AS scope_id,
    i.sass AS sass,
    p.sass_ambiguous AS sass_ambiguous
{{template "with_sass_open"}}{{template "profile_metrics_base"}}{{template "with_sass_close"}}
