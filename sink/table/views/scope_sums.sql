-- A row is a part of a minute (after 30 days of an hour) of a scope's name: add rows up. scope_stats has each minute once, and the kernels
-- in it; what is summed over many sessions is read faster here. min_ns is 0 in a row without calls.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    r.bucket AS bucket,
    toString({{named "if(r.scope = '', n.value, r.scope)" "r" "r.name_id"}}) AS scope,
    CAST(r.calls, 'UInt64') AS calls,
    CAST(r.total_ns, 'UInt64') AS total_ns,
    if(r.calls = 0, 0, CAST(r.min_ns, 'UInt64')) AS min_ns,
    CAST(r.max_ns, 'UInt64') AS max_ns,
    CAST(r.unmatched_begin, 'UInt64') AS unmatched_begin,
    CAST(r.unmatched_end, 'UInt64') AS unmatched_end,
    CAST(r.child_ns, 'UInt64') AS child_ns,
    CAST(r.bucket_s, 'UInt32') AS bucket_s,
    r.name_id AS name_id,
    CAST(r.duration_hist, 'Map(Int16, UInt64)') AS duration_hist
FROM {{db}}.scope_stats_data AS r
ANY LEFT JOIN {{late "scope_name_dict"}} AS n
    ON r.tenant = n.tenant AND r.session_id = n.session_id AND r.name_id = n.id AND r.scope = ''
