-- A row is a row of pc_samples with its source line: the client's own, that of source_map, or that of the cubin.
-- file and line are those of the innermost frame. inline_chain is ['<file>:<line> <function>', …], innermost first, the kernel last, empty
-- where nothing is inlined. symbol_status says where the line is from, or why there is none: wire (the client says it), ok (the cubin),
-- none (rows without a cubin), pending (no cubin yet, first seen less than 10 minutes ago), not_uploaded, no_lineinfo (compiled without
-- -lineinfo), ambiguous_name (names are cut at 127 bytes, and several functions begin like this), ambiguous_cubin (several CRCs have this
-- build id), no_function (the cubin does not have it), corrupt (the cubin cannot be read). gpu_ns is an estimate.
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
    p.sass_ambiguous AS sass_ambiguous,
    '' AS demangled
FROM ({{template "pc_flight"}}) AS p
ANY LEFT JOIN {{db}}.source_map AS s
    ON p.tenant = s.tenant AND p.session_id = s.session_id AND p.function_id = s.function_id AND p.function = s.function
        AND p.pc_offset = s.pc_offset
UNION ALL
SELECT
    p.tenant, p.session_id, p.bucket, p.bucket_s, p.cubin, p.build_id, p.function, p.pc_offset, p.sass, p.stall_reason, p.reason_kind,
    p.period_ns, p.samples, p.gpu_ns, l.file, l.line, {{chain "l.inline_chain"}}, {{symbolstatus "p" "l"}}, '' AS scope, p.device_id,
    p.hits, toUInt32(0) AS function_id, p.sass_ambiguous, p.demangled
{{template "with_lines_open"}}{{template "pc_bucket_base"}}{{template "with_lines_close"}}
