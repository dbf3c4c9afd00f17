-- A row is a line of a source file, as it was sent.
SELECT
    s.tenant AS tenant,
    s.session_id AS session_id,
    s.source_file_id AS source_file_id,
    s.path AS path,
    c.line AS line,
    any(c.text) AS text,
    toUInt8(s.lent) AS lent
FROM {{db}}.source_lines_data AS c
INNER JOIN {{sources}} AS s
    ON c.tenant = s.tenant AND c.content_hi = s.content_hi AND c.content_lo = s.content_lo
GROUP BY tenant, session_id, source_file_id, path, line, lent
