-- A row is a kernel whose registers leave room for few warps.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'registers' AS rule,
    'medium' AS severity,
    'occupancy' AS category,
    {{kernelname "r"}} AS subject,
    concat(toString(r.registers), ' registers a thread leave room for ', {{percent "value"}},
        ' of the warps that fit. Bound them with __launch_bounds__ or -maxrregcount, and see that it does not spill then.') AS message,
    'reg_occupancy' AS metric,
    r.least AS value,
    0.6 AS threshold,
    {{template "share"}} AS share,
    map('registers', toFloat64(r.registers), 'kernel_ns', toFloat64(t.ns)) AS numbers
FROM (
    SELECT
        tenant, session_id, kernel, if(kernel = '', kernel_id, 0) AS id, toFloat64(min(reg_occupancy)) AS least,
        argMin(l.registers, reg_occupancy) AS registers
    FROM {{template "launched"}} AS l
    WHERE reg_occupancy > 0 AND l.registers > 32
    GROUP BY tenant, session_id, kernel, id
    HAVING least < 0.6
) AS r
ANY LEFT JOIN {{template "kernel_time"}} AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id AND r.kernel = t.kernel
