-- A row is the details of a launch that came after the row of their kernel was written, or whose kernel never came.
SELECT
    d.tenant AS tenant,
    d.session_id AS session_id,
    d.corr_id AS corr_id,
    d.config_id AS config_id,
    {{scopepath "c.user_scope"}} AS scope,
    c.grid AS grid,
    c.block AS block,
    d.received_at AS received_at
FROM {{db}}.kernel_details_data AS d
ANY LEFT JOIN {{db}}.launch_configs AS c
    ON d.tenant = c.tenant AND d.session_id = c.session_id AND d.config_id = c.config_id
