-- A row is some of the samples of an instruction for one reason: add them up. It has what pc_lines has apart from the instruction's code,
-- and is read faster.
{{define "flight_stalls"}}
SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.bucket AS bucket,
    p.bucket_s AS bucket_s,
    p.cubin AS cubin,
    p.function AS function,
    p.pc_offset AS pc_offset,
    p.stall_reason AS stall_reason,
    p.reason_kind AS reason_kind,
    p.samples AS samples,
    p.gpu_ns AS gpu_ns,
    if(p.line = 0 AND s.line != 0, s.file, p.file) AS file,
    if(p.line = 0, s.line, p.line) AS line,
    p.scope AS scope,
    p.device_id AS device_id,
    p.hits AS hits,
    p.function_id AS function_id,
    p.build_id AS build_id,
    '' AS demangled,
    if(file = '', 'none', 'wire') AS symbol_status
FROM ({{template "pc_flight_rows"}}) AS p
ANY LEFT JOIN {{db}}.source_map AS s
    ON p.tenant = s.tenant AND p.session_id = s.session_id AND p.function_id = s.function_id AND p.function = s.function
        AND p.pc_offset = s.pc_offset
{{end -}}
SELECT * FROM ({{template "flight_stalls"}})
UNION ALL
SELECT
    p.tenant, p.session_id, p.bucket, p.bucket_s, p.cubin, p.function, p.pc_offset, p.stall_reason, p.reason_kind, p.samples, p.gpu_ns,
    l.file, l.line, '' AS scope, p.device_id, p.hits, toUInt32(0) AS function_id, p.build_id, p.demangled, {{symbolstatus "p" "l"}}
{{template "with_lines_open"}}{{template "pc_bucket_rows"}}{{template "with_lines_close"}}
