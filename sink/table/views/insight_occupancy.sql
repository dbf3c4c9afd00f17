-- A row is a kernel of which few warps fit on the GPU at a time.
{{/* What kernels were launched with, for the rules about kernels: launches and configurations live as long as rollups do. */}}
{{define "launched"}}(
    SELECT
        l.tenant AS tenant, l.session_id AS session_id, n.value AS kernel, l.kernel_id AS kernel_id, l.registers AS registers,
        c.grid AS grid, c.block AS block,
        c.occupancy AS occupancy, c.reg_occupancy AS reg_occupancy, c.limiting_resource AS limiting_resource,
        c.local_mem_per_thread_bytes AS local_mem_per_thread_bytes, c.local_mem_total_bytes AS local_mem_total_bytes
    FROM {{db}}.launches AS l
    ANY LEFT JOIN {{db}}.launch_configs AS c
        ON l.tenant = c.tenant AND l.session_id = c.session_id AND l.config_id = c.config_id
    ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM {{db}}.dictionaries WHERE dict = 'kernel_dict') AS n
        ON l.tenant = n.tenant AND l.session_id = n.session_id AND l.kernel_id = n.id
){{end}}
{{/* How much of its session's kernel time each kernel took. kernel_rows are those whose durations are true, but for
sessions whose durations are gaps. */}}
{{define "kernel_time"}}(
    SELECT tenant, session_id, k.1 AS kernel, k.2 AS ns, session_ns
    FROM (
        SELECT tenant, session_id, sum(g.ns) AS session_ns, groupArrayIf((kernel, g.ns), kernel != '') AS kernels
        FROM (
            SELECT
                r.tenant AS tenant, r.session_id AS session_id, toString(if(r.kernel = '', n.value, r.kernel)) AS kernel,
                if({{synthetic "tenant" "session_id"}}, 0, sum(r.total_ns)) AS ns
            {{template "kernel_rows"}}
            GROUP BY tenant, session_id, kernel
        ) AS g
        GROUP BY tenant, session_id
    )
    ARRAY JOIN kernels AS k
){{end}}
{{define "share"}}if(t.session_ns = 0, NULL, t.ns / t.session_ns){{end -}}
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'occupancy' AS rule,
    'high' AS severity,
    'occupancy' AS category,
    {{kernelname "r"}} AS subject,
    concat('At most ', {{percent "value"}}, ' of the warps that fit are resident',
        if(r.limit = '', '', concat(', limited by ', r.limit)), '. ', multiIf(
        r.limit = 'registers', 'Use fewer registers a thread: __launch_bounds__, smaller tiles, less unrolling.',
        r.limit = 'shared_mem', 'Use less shared memory a block, or smaller blocks.',
        r.limit = 'blocks', 'Use larger blocks.',
        'Try other block sizes.')) AS message,
    'occupancy' AS metric,
    r.least AS value,
    0.5 AS threshold,
    {{template "share"}} AS share,
    map('registers', toFloat64(r.registers), 'launches_below', toFloat64(r.below), 'launches', toFloat64(r.launches), 'kernel_ns',
        toFloat64(t.ns)) AS numbers
FROM (
    SELECT
        tenant, session_id, kernel, if(kernel = '', kernel_id, 0) AS id, toFloat64(min(occupancy)) AS least,
        toString(argMin(limiting_resource, occupancy)) AS limit,
        argMin(l.registers, occupancy) AS registers, uniqExactIf((grid, block, l.registers), occupancy < 0.5) AS below,
        uniqExact(grid, block, l.registers) AS launches
    FROM {{template "launched"}} AS l
    WHERE occupancy > 0
    GROUP BY tenant, session_id, kernel, id
    HAVING least < 0.5
) AS r
ANY LEFT JOIN {{template "kernel_time"}} AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id AND r.kernel = t.kernel
