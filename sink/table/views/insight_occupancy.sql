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
{{/* The three rules about how kernels are launched, as insights has them: what they read is read once. least_registers is the registers of
the launch with the least register occupancy. */}}
{{define "launch_rules"}}
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    f.1 AS rule,
    if(rule = 'occupancy', 'high', 'medium') AS severity,
    if(rule = 'spill', 'memory', 'occupancy') AS category,
    {{kernelname "r"}} AS subject,
    multiIf(
        rule = 'occupancy', concat('At most ', {{percent "value"}}, ' of the warps that fit are resident',
            if(r.limit = '', '', concat(', limited by ', r.limit)), '. ', multiIf(
            r.limit = 'registers', 'Use fewer registers a thread: __launch_bounds__, smaller tiles, less unrolling.',
            r.limit = 'shared_mem', 'Use less shared memory a block, or smaller blocks.',
            r.limit = 'blocks', 'Use larger blocks.',
            'Try other block sizes.')),
        rule = 'registers', concat(toString(r.most_registers), ' registers a thread leave room for ', {{percent "value"}},
            ' of the warps that fit. Bound them with __launch_bounds__ or -maxrregcount, and see that it does not spill then.'),
        concat('Spills ', toString(r.spilled), ' bytes a thread to local memory. Use fewer registers a thread, or allow more:{{" " -}}
            smaller tiles, less unrolling, a higher -maxrregcount.')) AS message,
    multiIf(rule = 'occupancy', 'occupancy', rule = 'registers', 'reg_occupancy', 'local_mem_per_thread_bytes') AS metric,
    f.2 AS value,
    multiIf(rule = 'occupancy', 0.5, rule = 'registers', 0.6, 0.) AS threshold,
    if(t.session_ns = 0, NULL, t.ns / t.session_ns) AS share,
    multiIf(
        rule = 'occupancy', map('registers', toFloat64(r.least_registers), 'launches_below', toFloat64(r.below),
            'launches', toFloat64(r.launches), 'kernel_ns', toFloat64(t.ns)),
        rule = 'registers', map('registers', toFloat64(r.most_registers), 'kernel_ns', toFloat64(t.ns)),
        map('registers', toFloat64(r.spill_registers), 'local_mem_total_bytes', toFloat64(r.spill_total), 'kernel_ns', toFloat64(t.ns)))
        AS numbers
FROM (
    SELECT
        tenant, session_id, kernel, if(kernel = '', kernel_id, 0) AS id,
        toFloat64(minIf(occupancy, occupancy > 0)) AS least,
        toString(argMinIf(limiting_resource, occupancy, occupancy > 0)) AS limit,
        argMinIf(l.registers, occupancy, occupancy > 0) AS least_registers,
        uniqExactIf((grid, block, l.registers), occupancy > 0 AND occupancy < 0.5) AS below,
        uniqExactIf((grid, block, l.registers), occupancy > 0) AS launches,
        toFloat64(minIf(reg_occupancy, reg_occupancy > 0 AND l.registers > 32)) AS room,
        argMinIf(l.registers, reg_occupancy, reg_occupancy > 0 AND l.registers > 32) AS most_registers,
        max(local_mem_per_thread_bytes) AS spilled,
        argMax(l.registers, local_mem_per_thread_bytes) AS spill_registers,
        argMax(local_mem_total_bytes, local_mem_per_thread_bytes) AS spill_total,
        arrayFilter(x -> x.3, [('occupancy', least, least > 0 AND least < 0.5), ('registers', room, room > 0 AND room < 0.6),
            ('spill', toFloat64(spilled), spilled > 0)]) AS found
    FROM {{template "launched"}} AS l
    GROUP BY tenant, session_id, kernel, id
    HAVING notEmpty(found)
) AS r
ANY LEFT JOIN {{template "kernel_time"}} AS t
    ON r.tenant = t.tenant AND r.session_id = t.session_id AND r.kernel = t.kernel
ARRAY JOIN r.found AS f
{{end -}}
SELECT * FROM ({{template "launch_rules"}}) WHERE rule = 'occupancy'
