-- A row is a minute (after 30 days an hour) of memory copies of one kind.
SELECT
    a.tenant AS tenant,
    a.session_id AS session_id,
    a.bucket AS bucket,
    {{copycode "v.vendor" "a.copy_kind_id"}} AS copy_kind,
    a.calls AS calls,
    a.bytes AS bytes,
    a.total_ns AS total_ns,
    a.min_ns AS min_ns,
    a.max_ns AS max_ns,
    a.bucket_s AS bucket_s,
    a.copy_kind_id AS copy_kind_id
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        r.copy_kind_id AS copy_kind_id,
        sum(r.calls) AS calls,
        sum(r.bytes) AS bytes,
        sum(r.total_ns) AS total_ns,
        min(r.min_ns) AS min_ns,
        max(r.max_ns) AS max_ns,
        max(r.bucket_s) AS bucket_s
    FROM {{db}}.memcpy_stats_data AS r
    GROUP BY tenant, session_id, bucket, copy_kind_id
) AS a
ANY LEFT JOIN {{vendors}} AS v
    ON a.tenant = v.tenant AND a.session_id = v.session_id
