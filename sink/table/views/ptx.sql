-- A row is the PTX of a function, as it was sent.
SELECT
    l.tenant AS tenant,
    l.session_id AS session_id,
    l.function_name AS function_name,
    l.arch AS arch,
    any(c.ptx) AS ptx,
    l.function AS function,
    toUInt8(l.lent) AS lent
FROM {{db}}.ptx_data AS c
INNER JOIN {{functions "ptx"}} AS l
    ON c.tenant = l.tenant AND c.content_hi = l.content_hi AND c.content_lo = l.content_lo
GROUP BY tenant, session_id, function_name, arch, function, lent
