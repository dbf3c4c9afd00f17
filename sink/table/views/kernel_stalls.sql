-- A row is a minute (after 30 days an hour) of a kernel's stalls for one reason.
-- samples are of kind stall alone, the useful reason "selected" among them. gpu_ns is an estimate.
{{/* with_apps_open and with_apps_close stand around a query with tenant and session_id, and give its rows (as p) their session (as a).
Every session with samples has a row. An inner join lets ClickHouse read only the samples of sessions that a condition on app or host
chooses, which a left join does not (0.3 s instead of 58 for one of 200 hosts). */}}
{{define "with_apps_open"}}FROM ({{end}}
{{define "with_apps_close"}}) AS p
INNER JOIN (
    SELECT tenant, session_id, CAST(max(app), 'String') AS app, CAST(max(host), 'String') AS host FROM {{db}}.sessions_data
    GROUP BY tenant, session_id
) AS a
    ON p.tenant = a.tenant AND p.session_id = a.session_id{{end -}}
SELECT
    p.tenant AS tenant, a.app AS app, a.host AS host, p.bucket AS bucket, toString(p.function) AS function,
    p.stall_reason AS stall_reason, p.samples AS samples, p.session_id AS session_id, p.demangled AS demangled, p.build_id AS build_id,
    p.gpu_ns AS gpu_ns,
    p.bucket_s AS bucket_s
{{template "with_apps_open"}}
SELECT
    tenant, session_id, bucket, function, stall_reason, build_id,
    '' AS demangled, sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns, max(r.bucket_s) AS bucket_s
FROM ({{template "pc_flight_rows"}}) AS r
WHERE reason_kind = 'stall'
GROUP BY tenant, session_id, bucket, function, stall_reason, build_id
UNION ALL
SELECT
    tenant, session_id, bucket, function, stall_reason, build_id,
    max(r.demangled) AS demangled, sum(r.samples) AS samples, sum(r.gpu_ns) AS gpu_ns, max(r.bucket_s) AS bucket_s
FROM ({{template "pc_bucket_rows"}}) AS r
WHERE reason_kind = 'stall'
GROUP BY tenant, session_id, bucket, function, stall_reason, build_id
{{template "with_apps_close"}}
