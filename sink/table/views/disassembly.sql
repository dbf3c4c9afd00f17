-- A row is an instruction of a function's code.
SELECT
    l.tenant AS tenant,
    l.session_id AS session_id,
    l.cubin_crc AS cubin_crc,
    l.function AS function,
    l.function_name AS function_name,
    c.pc AS pc_offset,
    any(c.sass) AS sass,
    toUInt8(l.lent) AS lent
FROM {{db}}.sass_lines_data AS c
INNER JOIN {{functions "sass"}} AS l
    ON c.tenant = l.tenant AND c.content_hi = l.content_hi AND c.content_lo = l.content_lo
GROUP BY tenant, session_id, cubin_crc, function, function_name, pc_offset, lent
