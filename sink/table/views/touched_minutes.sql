-- A row is a minute of a kernel in a scope that a deep window touches, counted from raw rows where they are all there.
SELECT
    tenant, session_id, bucket,
    g.1 AS kernel_id, g.2 AS kernel, g.3 AS scope,
    g.5 AS calls, g.6 AS total_ns, g.7 AS min_ns, g.8 AS max_ns, g.9 AS duration_hist,
    g.10 AS left_out,
    toUInt8(exact) AS exact
FROM (
    SELECT
        tenant, session_id, bucket,
        sum(raw) >= sum(rolled) AS exact,
        groupArray((kernel_id, kernel, scope, raw > 0, calls, total_ns, min_ns, max_ns, duration_hist, left_out)) AS rows
    FROM (
        SELECT
            tenant, session_id, bucket, kernel_id, kernel, scope,
            count() AS raw,
            toUInt64(0) AS rolled,
            countIf(NOT disturbed) AS calls,
            sumIf(duration_ns, NOT disturbed) AS total_ns,
            min(if(disturbed, 18446744073709551615, duration_ns)) AS min_ns,
            max(if(disturbed, 0, duration_ns)) AS max_ns,
            sumMapIf(map(slot, toUInt64(1)), NOT disturbed) AS duration_hist,
            countIf(disturbed) AS left_out
        FROM (
            SELECT
                k.tenant AS tenant,
                k.session_id AS session_id,
                toDateTime64(toStartOfMinute(k.started_at), 9, 'UTC') AS bucket,
                l.kernel_id AS kernel_id,
                '' AS kernel,
                {{scopepath "c.user_scope"}} AS scope,
                k.duration_ns AS duration_ns,
                {{bucketof "k.duration_ns"}} AS slot,
                {{disturbed "k" "w"}} AS disturbed
            FROM {{db}}.kernels_data AS k
            INNER JOIN {{touched 1}} AS m
                ON k.tenant = m.tenant AND k.session_id = m.session_id AND {{minute "k.started_at"}} = m.minute
            ANY LEFT JOIN {{intervals}} AS w
                ON k.tenant = w.tenant AND k.session_id = w.session_id AND {{intervalkey "k"}} = w.minute
            ANY LEFT JOIN (SELECT * FROM {{db}}.launches WHERE (tenant, session_id) IN {{windowed}}) AS l
                ON k.tenant = l.tenant AND k.session_id = l.session_id AND k.launch_id = l.launch_id
            ANY LEFT JOIN (SELECT * FROM {{db}}.kernel_details_data WHERE (tenant, session_id) IN {{windowed}}) AS d
                ON k.tenant = d.tenant AND k.session_id = d.session_id AND k.corr_id = d.corr_id AND l.config_id = 0
            ANY LEFT JOIN (SELECT * FROM {{db}}.launch_configs WHERE (tenant, session_id) IN {{windowed}}) AS c
                ON k.tenant = c.tenant AND k.session_id = c.session_id AND if(l.config_id = 0, d.config_id, l.config_id) = c.config_id
            WHERE (k.tenant, k.session_id) IN {{windowed}}
        )
        GROUP BY tenant, session_id, bucket, kernel_id, kernel, scope
        UNION ALL
        SELECT
            tenant, session_id, bucket, kernel_id, max(named) AS kernel, scope,
            toUInt64(0) AS raw,
            sum(counted) AS rolled,
            if(hit, 0, rolled) AS calls,
            if(hit, 0, sum(sum_ns)) AS total_ns,
            if(hit, 18446744073709551615, min(least_ns)) AS min_ns,
            if(hit, 0, max(most_ns)) AS max_ns,
            if(hit, CAST(map(), 'Map(Int16, UInt64)'), sumMap(durations)) AS duration_hist,
            if(hit, rolled, 0) AS left_out
        FROM (
            SELECT
                r.tenant AS tenant, r.session_id AS session_id, bucket, kernel_id, toString(scope) AS scope,
                CAST(kernel, 'String') AS named, CAST(calls, 'UInt64') AS counted,
                CAST(total_ns, 'UInt64') AS sum_ns, CAST(min_ns, 'UInt64') AS least_ns, CAST(max_ns, 'UInt64') AS most_ns,
                CAST(duration_hist, 'Map(Int16, UInt64)') AS durations,
                h.touched = 1 AS hit
            FROM {{db}}.kernel_stats_data AS r
            INNER JOIN {{touched 1}} AS m
                ON r.tenant = m.tenant AND r.session_id = m.session_id AND {{minute "r.bucket"}} = m.minute
            ANY LEFT JOIN {{touched 0}} AS h
                ON r.tenant = h.tenant AND r.session_id = h.session_id AND {{minute "r.bucket"}} = h.minute
            WHERE bucket_s < 3600 AND (r.tenant, r.session_id) IN {{windowed}}
        )
        GROUP BY tenant, session_id, bucket, kernel_id, scope, hit
    )
    GROUP BY tenant, session_id, bucket
    HAVING sum(rolled) > 0
)
ARRAY JOIN arrayFilter(x -> x.4 = exact, rows) AS g
