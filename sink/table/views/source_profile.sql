-- A row is an instruction with everything known of it: source, code, samples, stalls and counters.
SELECT
    q.tenant AS tenant,
    q.session_id AS session_id,
    q.function AS function,
    q.pc_offset AS pc_offset,
    q.file AS file,
    q.line AS line,
    c.text AS source,
    q.sass AS sass,
    q.samples AS samples,
    q.stalls AS stalls,
    {{top "q.stalls"}} AS top_stall,
    q.metrics AS metrics,
    q.stalls_not_issued AS stalls_not_issued,
    q.sass_ambiguous AS sass_ambiguous,
    q.function_id AS function_id,
    q.cubin AS cubin
FROM {{db}}.source_lines_data AS c
ANY RIGHT JOIN (
    SELECT
        p.tenant AS tenant, p.session_id AS session_id, p.cubin AS cubin, p.function AS function, p.function_id AS function_id,
        p.pc_offset AS pc_offset,
        p.file AS file, p.line AS line, p.sass AS sass, p.samples AS samples, p.stalls AS stalls, p.stalls_not_issued AS stalls_not_issued,
        p.metrics AS metrics, p.sass_ambiguous AS sass_ambiguous, s.content_hi AS content_hi, s.content_lo AS content_lo
    FROM {{db}}.instructions AS p
    ANY LEFT JOIN {{sources}} AS s
        ON p.tenant = s.tenant AND p.session_id = s.session_id AND p.file = s.path AND p.line > 0
) AS q
    ON c.tenant = q.tenant AND c.content_hi = q.content_hi AND c.content_lo = q.content_lo AND c.line = q.line
