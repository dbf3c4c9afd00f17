-- A row is a row of pc_samples, with the line of source_map if it does not have one itself.
SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.bucket AS bucket,
    p.bucket_s AS bucket_s,
    p.cubin AS cubin,
    p.build_id AS build_id,
    p.function AS function,
    p.pc_offset AS pc_offset,
    p.sass AS sass,
    p.stall_reason AS stall_reason,
    p.reason_kind AS reason_kind,
    p.period_ns AS period_ns,
    p.samples AS samples,
    p.gpu_ns AS gpu_ns,
    if(p.line = 0 AND s.line != 0, s.file, p.file) AS file,
    if(p.line = 0, s.line, p.line) AS line,
    emptyArrayString() AS inline_chain,
    if(file = '', 'none', 'wire') AS symbol_status,
    p.scope AS scope,
    p.device_id AS device_id,
    p.hits AS hits,
    p.function_id AS function_id,
    p.sass_ambiguous AS sass_ambiguous
FROM {{db}}.pc_samples AS p
ANY LEFT JOIN {{db}}.source_map AS s
    ON p.tenant = s.tenant AND p.session_id = s.session_id AND p.function_id = s.function_id AND p.function = s.function
        AND p.pc_offset = s.pc_offset
