-- A row is a range of instructions of a function of an uploaded cubin, and the line that they come from.
-- pc_to is the first offset after it. The lines of a whole cubin stand in the place of those of the stripped one.
{{/* with_lines_open and with_lines_close stand around a query with tenant, session_id, build_id, function and pc_offset, and give its rows
(as p) the line of their cubin (as l). l.line = 0 and l.file = '' is no line; symbolstatus says why. Instructions have 16 bytes and begin at
multiples of it, so ranges are taken apart into slots of 16 bytes: then rows find theirs by equality. A range counts for at most 4 096 of
them, since cubins come from outside and a block of rows may have 500 million slots; longer ranges must be several rows. Lines are the
left side of a right join although they are many: ClickHouse then builds its table from the query's
rows and reads only lines of the cubins that these name.

Names in samples are cut at 127 bytes. A name that a function has is that function's; one of 127 bytes may also be how the name of one
other function begins. */}}
{{define "with_lines_open"}}FROM (
    SELECT
        c.tenant AS tenant, c.build_id AS build_id, c.whole AS whole, c.function AS function, c.file AS file, c.line AS line,
        c.inline_chain AS inline_chain,
        arrayJoin(range(intDiv(c.pc_from, 16), intDiv(least(greatest(c.pc_to, c.pc_from), c.pc_from + 65536) + 15, 16))) AS slot
    FROM {{db}}.cubin_lines_data AS c
) AS l
ANY RIGHT JOIN (
SELECT
    q.*,
    multiIf(
        q.build_id = '', 'none',
        length(k.crcs) > 1, 'ambiguous_cubin',
        NOT k.uploaded, if(k.cubin_build = '', 'not_uploaded', k.status),
        k.status != 'ok', k.status,
        f.exact, '',
        f.functions = 1 AND length(q.function) = 127, '',
        f.functions > 1, 'ambiguous_name',
        'no_function') AS symbol,
    if(symbol = '', k.whole, 2) AS symbol_whole,
    multiIf(symbol != '', '', f.exact, toString(q.function), f.name) AS symbol_function,
    intDiv(q.pc_offset, 16) AS symbol_slot
FROM ({{end}}
{{define "with_lines_close"}}) AS q
ANY LEFT JOIN (
    SELECT tenant AS cubin_tenant, build_id AS cubin_build, uploaded, whole, status, crcs FROM ({{template "cubins_known"}})
) AS k
    ON q.tenant = k.cubin_tenant AND q.build_id = k.cubin_build
ANY LEFT JOIN (
    SELECT
        tenant AS function_tenant, toString(build_id) AS function_build, key, uniqExact(function) AS functions, any(function) AS name,
        max(toUInt8(function = key)) AS exact
    FROM {{db}}.cubin_functions_data
    ARRAY JOIN if(length(function) > 127, [function, substring(function, 1, 127)], [function]) AS key
    GROUP BY function_tenant, function_build, key
) AS f
    ON q.tenant = f.function_tenant AND q.build_id = f.function_build AND q.function = f.key
) AS p
    ON l.tenant = p.tenant AND l.build_id = p.build_id AND l.whole = p.symbol_whole AND l.function = p.symbol_function
        AND l.slot = p.symbol_slot{{end -}}
SELECT
    c.tenant AS tenant, c.build_id AS build_id, c.function AS function, c.pc_from AS pc_from, c.pc_to AS pc_to, any(c.file) AS file,
    any(c.line) AS line, {{chain "any(c.inline_chain)"}} AS inline_chain
FROM {{db}}.cubin_lines_data AS c
INNER JOIN (SELECT tenant, build_id, whole FROM ({{template "cubins_known"}})) AS k
    ON c.tenant = k.tenant AND c.build_id = k.build_id AND c.whole = k.whole
GROUP BY tenant, build_id, function, pc_from, pc_to
