-- A row is a cubin by its build id: one that was uploaded, or that samples name.
-- status is ok, no_lineinfo or corrupt of one that was uploaded, else pending (first seen less than 10 minutes ago) or not_uploaded. crcs
-- are what samples call it: several mean that different cubins have this build id.
{{/* cubins_known is what is known of cubins, a row for each build id. A cubin that can be read wins over a corrupt one, a whole one over a
stripped one, then the one that came last. */}}
{{define "cubins_known"}}
SELECT
    u.tenant AS tenant, u.build_id AS build_id,
    max(u.upload) AS upload,
    upload.1 AS uploaded,
    upload.3 AS whole,
    multiIf(uploaded, upload.5, min(u.first_seen) > now64(9, 'UTC') - toIntervalMinute(10), 'pending', 'not_uploaded') AS status,
    groupUniqArrayIf(u.cubin, u.cubin != '') AS crcs,
    min(u.first_seen) AS first_seen_at,
    max(u.last_seen) AS last_seen_at
FROM (
    SELECT
        tenant, toString(build_id) AS build_id, '' AS cubin, toDateTime64('2262-01-01 00:00:00', 9, 'UTC') AS first_seen,
        toDateTime64(0, 9, 'UTC') AS last_seen,
        (toUInt8(1), toUInt8(status != 'corrupt'), whole, uploaded_at, toString(status), sm, size_bytes, functions, lines, toString(detail))
            AS upload
    FROM {{db}}.cubins_data
    UNION ALL
    SELECT
        tenant, toString(build_id) AS build_id, toString(cubin) AS cubin, min(bucket) AS first_seen, max(bucket) AS last_seen,
        (toUInt8(0), toUInt8(0), toUInt8(0), toDateTime64(0, 9, 'UTC'), '', toUInt32(0), toUInt64(0), toUInt32(0), toUInt32(0), '')
    FROM {{db}}.pc_cubins_data
    WHERE build_id != ''
    GROUP BY tenant, build_id, cubin
) AS u
GROUP BY tenant, build_id
{{end -}}
SELECT
    tenant, build_id, status, arraySort(k.crcs) AS crcs, k.upload.6 AS sm, k.upload.7 AS size_bytes, k.upload.8 AS functions,
    k.upload.9 AS lines, whole, k.upload.10 AS detail, k.upload.4 AS uploaded_at,
    if(length(k.crcs) = 0, toDateTime64(0, 9, 'UTC'), k.first_seen_at) AS first_seen_at, k.last_seen_at AS last_seen_at
FROM ({{template "cubins_known"}}) AS k
