-- A row is a GPU that got hot.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'temperature' AS rule,
    'high' AS severity,
    'temperature' AS category,
    trimRight(concat('GPU ', toString(r.device_id), ' ', toString(d.name))) AS subject,
    concat('Reached ', toString(toUInt64(r.most)), ' °C, hot in ', toString(r.hot), if(r.hot = 1, ' minute', ' minutes'), ' of ',
        toString(r.all), '. Look at air flow and fans: a hot GPU lowers its clocks.') AS message,
    'temp_c' AS metric,
    toFloat64(r.most) AS value,
    85. AS threshold,
    CAST(NULL, 'Nullable(Float64)') AS share,
    map('minutes_hot', toFloat64(r.hot), 'minutes', toFloat64(r.all), 'device_id', toFloat64(r.device_id)) AS numbers
FROM (
    SELECT
        tenant, session_id, device_id, max(temp_c_max) AS most, sumIf(intDiv(bucket_s, 60), temp_c_max >= 85) AS hot,
        sum(intDiv(bucket_s, 60)) AS all
    FROM {{db}}.device_metrics_1m
    GROUP BY tenant, session_id, device_id
    HAVING most >= 85
) AS r
ANY LEFT JOIN {{db}}.devices AS d
    ON r.tenant = d.tenant AND r.session_id = d.session_id AND r.device_id = d.device_id
