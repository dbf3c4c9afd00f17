-- A row is an instruction and the source line that it comes from.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    if(r.function = '', {{function "f.value"}}, r.function) AS function,
    r.pc_offset AS pc_offset,
    multiIf(s.value != '', s.value, r.file != '', r.file, {{fileof "f.value"}}) AS file,
    r.line AS line,
    r.function_id AS function_id,
    r.file_id AS file_id,
    sum(r.hits) AS hits
FROM {{db}}.source_map_data AS r
ANY LEFT JOIN {{late "function_dict"}} AS f
    ON r.tenant = f.tenant AND r.session_id = f.session_id AND r.function_id = f.id
ANY LEFT JOIN {{late "source_file_dict"}} AS s
    ON r.tenant = s.tenant AND r.session_id = s.session_id AND r.file_id = s.id
GROUP BY tenant, session_id, function, function_id, pc_offset, file, file_id, line
