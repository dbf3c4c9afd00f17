-- A row is a part of a minute (after 30 days of an hour) of a kernel in a scope: add rows up. kernel_stats has each minute once; what is
-- summed over many sessions is read faster here. In a row without calls min_ns and max_ns are 0.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    r.bucket AS bucket,
    {{named "if(r.kernel = '', n.value, r.kernel)" "r" "r.kernel_id"}} AS kernel,
    r.scope AS scope,
    if({{synthetic "r.tenant" "r.session_id"}}, 0, r.calls) AS calls,
    if({{synthetic "r.tenant" "r.session_id"}}, 0, r.total_ns) AS total_ns,
    if({{synthetic "r.tenant" "r.session_id"}} OR r.calls = 0, 0, r.min_ns) AS min_ns,
    if({{synthetic "r.tenant" "r.session_id"}} OR r.calls = 0, 0, r.max_ns) AS max_ns,
    r.bucket_s AS bucket_s,
    r.kernel_id AS kernel_id,
    if({{synthetic "r.tenant" "r.session_id"}}, CAST(map(), 'Map(Int16, UInt64)'), r.duration_hist) AS duration_hist,
    if({{synthetic "r.tenant" "r.session_id"}}, r.calls + r.left_out, 0) AS synthetic_calls,
    if({{synthetic "r.tenant" "r.session_id"}}, 0, r.left_out) AS disturbed_calls,
    toUInt8(NOT {{synthetic "r.tenant" "r.session_id"}} AND (r.left_out > 0 OR r.hour_touched)) AS disturbed
{{template "kernel_rows"}}
