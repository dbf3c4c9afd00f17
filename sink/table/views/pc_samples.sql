-- A row is a minute (after 30 days an hour) of samples of an instruction for one reason.
-- gpu_ns is an estimate: samples × nominal period, summed over all samplers of a GPU. It is no wall time; shares of it are safe.
{{/* Rows come from two tables: pc_flight_rows of clients that name things by ids, pc_bucket_rows of those whose rows name everything
themselves. Both are the rows as they are stored, with late names. What adds them up itself begins here: adding them up twice takes twice
the time. A session is in one of the two. */}}
{{define "pc_flight_rows"}}
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
{{define "pc_bucket_rows"}}
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    r.bucket AS bucket,
    toUInt32(r.bucket_s) AS bucket_s,
    r.cubin AS cubin,
    r.build_id AS build_id,
    r.function AS function,
    toString(r.demangled) AS demangled,
    r.pc_offset AS pc_offset,
    toString(r.sass) AS sass,
    r.stall_reason AS stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    r.period_ns AS period_ns,
    toUInt64(r.samples) AS samples,
    toUInt64(r.gpu_ns) AS gpu_ns,
    r.device_id AS device_id,
    toUInt64(r.hits) AS hits
FROM {{db}}.pc_buckets_data AS r
{{end}}
{{/* pc_flight_base adds up pc_flight_rows. Where all names of a session came before the rows that need them, rows with one sort key are all
that there is to add up, and FINAL does that while it reads in the order of the key: a hash table of the rows of many sessions takes three
times the time, and what does not fit is written to files. In the few other sessions a row without a name may belong to one with it. */}}
{{define "pc_flight_base"}}
SELECT
    r.tenant AS tenant, r.session_id AS session_id, r.bucket AS bucket, toUInt32(r.bucket_s) AS bucket_s, r.cubin AS cubin,
    r.build_id AS build_id, r.function AS function, r.pc_offset AS pc_offset, r.stall_reason AS stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    toUInt64(r.period_ns) AS period_ns, toUInt64(r.samples) AS samples, toUInt64(r.gpu_ns) AS gpu_ns, r.scope AS scope,
    r.device_id AS device_id, toString(r.file) AS file, toUInt32(r.line) AS line, toUInt64(r.hits) AS hits, r.function_id AS function_id,
    r.metric_id AS metric_id, r.scope_id AS scope_id
FROM {{db}}.pc_samples_data AS r FINAL
WHERE (r.tenant, r.session_id) NOT IN {{belated "function_dict" "metric_dict" "scope_name_dict" "source_file_dict"}}
UNION ALL
SELECT
    tenant, session_id, bucket, max(b.bucket_s) AS bucket_s, cubin, build_id, function, pc_offset, stall_reason,
    {{reasonkind "stall_reason"}} AS reason_kind,
    max(b.period_ns) AS period_ns, sum(b.samples) AS samples, sum(b.gpu_ns) AS gpu_ns, scope, device_id, max(b.file) AS file,
    max(b.line) AS line, sum(b.hits) AS hits, function_id, metric_id, scope_id
FROM ({{template "pc_flight_rows"}}) AS b
WHERE (tenant, session_id) IN {{belated "function_dict" "metric_dict" "scope_name_dict" "source_file_dict"}}
GROUP BY tenant, session_id, bucket, cubin, build_id, function, function_id, pc_offset, stall_reason, metric_id, scope, scope_id, device_id
{{end}}
{{/* As pc_flight_base; sass_ambiguous: a session's rows name several opcodes at one place, as when the agent mixes up two kernels. */}}
{{define "pc_bucket_base"}}
SELECT
    b.tenant AS tenant, b.session_id AS session_id, b.bucket AS bucket, b.bucket_s AS bucket_s, b.cubin AS cubin, b.build_id AS build_id,
    b.function AS function, b.pc_offset AS pc_offset, b.sass AS sass, b.stall_reason AS stall_reason,
    {{reasonkind "b.stall_reason"}} AS reason_kind,
    b.period_ns AS period_ns, b.samples AS samples, b.gpu_ns AS gpu_ns, b.device_id AS device_id, b.hits AS hits, b.demangled AS demangled,
    toUInt8(a.opcode != '') AS sass_ambiguous
FROM (
    SELECT
        tenant, session_id, bucket, cubin, build_id, function, pc_offset, sass, stall_reason, period_ns, device_id,
        max(r.bucket_s) AS bucket_s, max(r.demangled) AS demangled, sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns, sum(r.hits) AS hits
    FROM ({{template "pc_bucket_rows"}}) AS r
    GROUP BY tenant, session_id, bucket, cubin, build_id, function, pc_offset, sass, stall_reason, period_ns, device_id
) AS b
ANY LEFT JOIN (
    SELECT tenant, session_id, build_id, cubin, function, pc_offset, max(sass) AS opcode FROM {{db}}.pc_buckets_data
    WHERE sass != ''
    GROUP BY tenant, session_id, build_id, cubin, function, pc_offset
    HAVING min(sass) != opcode
) AS a
    ON b.tenant = a.tenant AND b.session_id = a.session_id AND b.build_id = a.build_id AND b.cubin = a.cubin AND b.function = a.function
        AND b.pc_offset = a.pc_offset
{{end}}
{{define "pc_flight"}}
SELECT
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
    p.sass_ambiguous AS sass_ambiguous,
    '' AS demangled
{{template "with_sass_open"}}{{template "pc_flight_base"}}{{template "with_sass_close"}}
{{end -}}
SELECT * FROM ({{template "pc_flight"}})
UNION ALL
SELECT
    tenant, session_id, bucket, bucket_s, cubin, build_id, function, pc_offset, sass, stall_reason, reason_kind, period_ns, samples, gpu_ns,
    '' AS scope, device_id, '' AS file, toUInt32(0) AS line, hits, toUInt32(0) AS function_id, toUInt32(0) AS metric_id,
    toUInt32(0) AS scope_id, sass_ambiguous, demangled
FROM ({{template "pc_bucket_base"}})
