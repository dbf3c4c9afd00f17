-- A row is an instruction of a function: its code, samples, stalls and counters.
{{/* with_sass_open and with_sass_close stand around a query with tenant, session_id, function, function_id and pc_offset, and give its rows
(as p) the instruction they mean (as i) and sass_ambiguous. A function with a symbol
has that symbol's code or none: another function of the same demangled name would be another's code.
Instructions are the left side of a right join although they are many: ClickHouse then builds its table from the query's rows and reads
only the instructions that these ask for. */}}
{{define "with_sass_open"}}FROM {{db}}.sass_lines_data AS i
ANY RIGHT JOIN (
SELECT q.*, k.content.1 AS content_hi, k.content.2 AS content_lo, toUInt8(k.contents > 1) AS sass_ambiguous
FROM ({{end}}
{{define "with_sass_close"}}) AS q
ANY LEFT JOIN {{symbols}} AS y
    ON q.tenant = y.symbol_tenant AND q.session_id = y.symbol_session AND q.function_id = y.symbol_id
ANY LEFT JOIN {{code}} AS k
    ON q.tenant = k.code_tenant AND q.session_id = k.code_session
        AND substring(if(y.symbol_name = '', toString(q.function), y.symbol_name), 1, 255) = k.code_name
) AS p
    ON i.tenant = p.tenant AND i.content_hi = p.content_hi AND i.content_lo = p.content_lo AND i.pc = p.pc_offset{{end}}
{{/* What is said of instructions, a row each time: samples, counters, and where they come from. */}}
{{define "instruction_rows"}}
SELECT
    tenant, session_id, toString(cubin) AS cubin, toString(function) AS function, function_id, pc_offset, file, line,
    toUInt8(3) AS rank,
    multiIf(reason_kind = 'stall', 'stall', reason_kind = 'stall_not_issued', 'not issued', '') AS part,
    toString(stall_reason) AS name, {{reasoncode "stall_reason"}} AS code, samples AS value
FROM ({{template "pc_flight_rows"}})
UNION ALL
SELECT
    tenant, session_id, '' AS cubin, toString(function) AS function, function_id, pc_offset, file, line,
    toUInt8(2) AS rank,
    'metric' AS part, if(metric_name IN ('', {{more}}), concat('metric_', toString(metric_id)), toString(metric_name)) AS name,
    toUInt16(0) AS code, metric_value AS value
FROM ({{template "profile_metrics_rows"}})
UNION ALL
SELECT
    tenant, session_id, '' AS cubin, toString(function) AS function, function_id, pc_offset, toString(file) AS file,
    toUInt32(line) AS line, toUInt8(1) AS rank,
    '' AS part, '' AS name, toUInt16(0) AS code, toUInt64(0) AS value
FROM {{db}}.source_map
{{end}}
{{/* The rows of an instruction are added up in one step, its reasons and counters in maps: a group for each of them first, or a largest
tuple for its place, take several times the memory, and groups that do not fit are written to files. Of the places that sources name the
best is the largest text: one with a line, then by rank, then the largest line. Its first 10 bytes are a number in hex. Reasons that are
explained are numbers while they are added up (coded), which takes half the time of their names; names of others and of counters (other)
begin with a letter that says what they are. */}}
{{define "instructions_coded"}}
SELECT
    tenant, session_id, cubin, function, function_id, pc_offset,
    (substring(g.best, 11), reinterpretAsUInt32(reverse(unhex(substring(g.best, 3, 8))))) AS place,
    samples, coded, other
FROM (
    SELECT
        tenant, session_id, cubin, function, function_id, pc_offset,
        max(concat(hex(bitOr(bitShiftLeft(toUInt64(128 + 8 * (u.line > 0) + rank), 32), u.line)), u.file)) AS best,
        sumIf(u.value, part = 'stall') AS samples,
        sumMapIf(map(u.code, u.value), u.code != 0) AS coded,
        sumMapIf(map(concat(substring(part, 1, 1), name), u.value), u.code = 0 AND part != '') AS other
    FROM ({{template "instruction_rows"}}) AS u
    GROUP BY tenant, session_id, cubin, function, function_id, pc_offset
) AS g
{{end}}
{{define "instructions_flight"}}
SELECT
    tenant, session_id, cubin, function, function_id, pc_offset, place, samples,
    {{uncoded "coded" "other" "stall"}} AS stalls,
    {{uncoded "coded" "other" "not issued"}} AS stalls_not_issued,
    {{uncoded "coded" "other" "metric"}} AS metrics
FROM ({{template "instructions_coded"}})
{{end}}
{{define "instructions_bucket"}}
SELECT
    p.tenant AS tenant, p.session_id AS session_id, toString(p.cubin) AS cubin, toString(p.function) AS function,
    toUInt32(0) AS function_id, p.pc_offset AS pc_offset,
    (any(l.file), any(l.line)) AS place,
    sum(p.all) AS samples,
    sumMap(p.base) AS stalls,
    sumMap(p.unissued) AS stalls_not_issued,
    CAST(map(), 'Map(String, UInt64)') AS metrics,
    arrayStringConcat(arraySort(groupUniqArrayArray(p.opcodes)), ' or ') AS sass,
    toUInt8(uniqExactArray(p.opcodes) > 1) AS sass_ambiguous
{{template "with_lines_open"}}
SELECT
    tenant, session_id, build_id, cubin, function, pc_offset,
    sumIf(samples, reason_kind = 'stall') AS all,
    sumMapIf(map(toString(stall_reason), samples), reason_kind = 'stall') AS base,
    sumMapIf(map(toString(stall_reason), samples), reason_kind = 'stall_not_issued') AS unissued,
    groupUniqArrayIf(sass, sass != '') AS opcodes
FROM ({{template "pc_bucket_rows"}})
GROUP BY tenant, session_id, build_id, cubin, function, pc_offset
{{template "with_lines_close"}}
GROUP BY tenant, session_id, cubin, function, pc_offset
{{end -}}
SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.cubin AS cubin,
    p.function AS function,
    p.function_id AS function_id,
    p.pc_offset AS pc_offset,
    p.place.1 AS file,
    p.place.2 AS line,
    i.sass AS sass,
    p.samples AS samples,
    p.stalls AS stalls,
    p.stalls_not_issued AS stalls_not_issued,
    p.metrics AS metrics,
    p.sass_ambiguous AS sass_ambiguous
{{template "with_sass_open"}}{{template "instructions_flight"}}{{template "with_sass_close"}}
UNION ALL
SELECT
    tenant, session_id, cubin, function, function_id, pc_offset, b.place.1 AS file, b.place.2 AS line, sass, samples, stalls,
    stalls_not_issued, metrics, sass_ambiguous
FROM ({{template "instructions_bucket"}}) AS b
