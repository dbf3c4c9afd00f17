-- A row is a function: its samples, stalls, counters, and what follows from them.
{{define "derived"}}    samples,
    stalls,
    {{shares "stalls"}} AS stall_shares,
    {{shares "stalls_not_issued"}} AS not_issued_shares,
    {{top "stalls"}} AS top_stall,
    stall_shares[top_stall] AS top_stall_share,
    {{ratio "metrics['smsp__sass_thread_inst_executed']" "32 * metrics['smsp__sass_inst_executed']"}} AS thread_efficiency,
    1 - thread_efficiency AS divergence,
    {{ratio "metrics['smsp__sass_branch_targets_threads_divergent']" "metrics['smsp__sass_branch_targets']"}} AS branch_divergence,
    mapFromArrays(
        arrayFilter(x -> mapContains(metrics, concat(x, '_ideal')) AND metrics[x] > 0, mapKeys(metrics)) AS whole,
        arrayMap(x -> metrics[concat(x, '_ideal')] / metrics[x], whole)) AS ideal_shares,
    if(has(whole, 'smsp__sass_sectors_mem_global'), ['smsp__sass_sectors_mem_global'],
        arrayFilter(x -> startsWith(x, 'smsp__sass_sectors_mem_global_'), whole)) AS global_sectors,
    if(empty(global_sectors), NULL, arraySum(x -> metrics[concat(x, '_ideal')], global_sectors)
        / arraySum(x -> metrics[x], global_sectors)) AS coalescing,
    metrics,
    stalls_not_issued{{end -}}
SELECT
    tenant, session_id, function,
    {{template "derived"}},
    function_id
FROM (
    SELECT
        tenant, session_id, function, function_id,
        sumIf(u.value, part = 'stall') AS samples,
        sumMapIf(map(name, u.value), part = 'stall') AS stalls,
        sumMapIf(map(name, u.value), part = 'not issued') AS stalls_not_issued,
        sumMapIf(map(name, u.value), part = 'metric') AS metrics
    FROM (
        SELECT tenant, session_id, function, function_id, part, name, value FROM ({{template "instruction_rows"}})
        UNION ALL
        SELECT
            tenant, session_id, toString(function) AS function, toUInt32(0) AS function_id,
            multiIf(reason_kind = 'stall', 'stall', reason_kind = 'stall_not_issued', 'not issued', '') AS part,
            toString(stall_reason) AS name, samples AS value
        FROM ({{template "pc_bucket_rows"}})
    ) AS u
    GROUP BY tenant, session_id, function, function_id
)
