-- A row is a finding of memory_gaps in some of the samples of a rank. Each rank is there once with all its samples (part 0, or part 1 if
-- only some of them say what is allocated), and in the latter case once more with those that do (part 2), as stormlog's rank table needs
-- it.
WITH
series AS (
    SELECT
        tenant, session_id, part, any(s.job_id) AS job_id, any(s.host) AS host, device_id, rank, min(s.at) AS started_at,
        max(s.at) AS ended_at,
        count() AS samples, min(s.sampled) AS sampled,
        if(max(s.used_source = 'device_metrics') = 1, 'device_metrics', 'event') AS used_source,
        minIf(s.at, abs(s.used_bytes - s.reserved_bytes) / s.total_bytes >= 0.05) AS breached_at,
        max(abs(s.used_bytes - s.reserved_bytes) / s.total_bytes) AS peak_ratio,
        avg(s.used_bytes - s.reserved_bytes) AS mean, stddevSampStable(s.used_bytes - s.reserved_bytes) AS deviation,
        max(s.used_bytes - s.reserved_bytes) AS largest,
        count(s.fragmentation_ratio) AS fragmenting, avg(s.fragmentation_ratio) AS fragmented,
        max(s.fragmentation_ratio) AS most_fragmented,
        min(s.timestamp_ns) AS origin_ns,
        -- Of equal ones the first, in the order in which they were sent.
        argMax(s.timestamp_ns, (s.used_bytes - s.reserved_bytes, -s.timestamp_ns, -toInt64(s.upload_index))) AS largest_ns,
        argMax(s.timestamp_ns, (ifNull(s.fragmentation_ratio, -1), -s.timestamp_ns, -toInt64(s.upload_index))) AS most_fragmented_ns,
        max(s.allocated_known) AS allocated_known,
        arraySort(groupArray((s.timestamp_ns, s.upload_index, s.used_bytes - s.reserved_bytes))) AS points
    FROM (SELECT *, part FROM {{db}}.memory_samples ARRAY JOIN multiIf(NOT mixed, [0], allocated_known, [1, 2], [1]) AS part) AS s
    WHERE s.sampled = 1 AND s.total_bytes > 0 AND s.gap_known
    GROUP BY tenant, session_id, device_id, rank, part
    HAVING samples >= 3 AND peak_ratio >= 0.05
),
-- Least squares of the gap over time. Times are taken from the first, since nanoseconds since 1970 have no exact float.
line AS (
    SELECT
        *,
        arrayMap(p -> toFloat64(p.1 - origin_ns), points) AS x,
        arrayMap(p -> toFloat64(p.3), points) AS y,
        if(samples < 5, 0, arrayReduce('covarPopStable', x, y)) AS covariance,
        if(samples < 5, 0, arrayReduce('varPopStable', x)) AS x_variance,
        if(samples < 5, 0, arrayReduce('varPopStable', y)) AS y_variance,
        if(x_variance > 0, covariance / x_variance * 1e9, 0) AS slope,
        if(x_variance > 0 AND y_variance > 0, covariance * covariance / x_variance / y_variance, 0) AS r2,
        if(deviation > 0, arrayCount(p -> (p.3 - mean) / deviation > 2, points), 0) AS spikes,
        if(deviation > 0, (largest - mean) / deviation, 0) AS z
    FROM series
),
-- How likely such an r2 is without any drift: Student's t with two degrees of freedom fewer than samples, in its finite series. r2 is at
-- least 0.6 where it matters, so 64 terms are more than floats can distinguish.
likely AS (
    SELECT
        *,
        samples - 2 AS freedom,
        arraySum(k -> exp(lgamma(k + 0.5) - lgamma(0.5) - lgamma(k + 1)) * pow(1 - r2, k),
            range(toUInt64(least(64, intDiv(freedom, 2))))) AS even_terms,
        arraySum(k -> exp(lgamma(k + 1) + lgamma(0.5) - log(2) - lgamma(k + 1.5)) * pow(1 - r2, k),
            range(toUInt64(least(64, intDiv(freedom - 1, 2))))) AS odd_terms,
        greatest(0, 1 - if(freedom % 2 = 0, sqrt(r2) * even_terms, 2 / pi() * (asin(sqrt(r2)) + sqrt(r2 * (1 - r2)) * odd_terms)))
            AS p_value
    FROM line
)
SELECT
    tenant, session_id, job_id, host, device_id, rank, f.1 AS classification, f.2 AS severity, f.3 AS confidence, f.4 AS evidence,
    f.5 AS description,
    started_at, ended_at, breached_at, samples, sampled, used_source, f.6 AS evidence_timestamp_ns, part, allocated_known
FROM likely
ARRAY JOIN arrayFilter(f -> f.1 != '', [
    if(spikes > 0,
        ('transient_spike', if(z > 4, 'critical', 'warning'), least(1., z / 6),
            map('spike_count', toFloat64(spikes), 'max_gap_bytes', toFloat64(largest), 'max_zscore', z, 'mean_gap_bytes', mean,
                'std_gap_bytes', deviation),
            concat('Memory outside the allocator jumped ', toString(spikes), if(spikes = 1, ' time', ' times'), ', at most to ',
                formatReadableSize(largest), '.'), largest_ns),
        ('', '', 0., map(), '', 0)),
    if(slope > 0 AND r2 >= 0.6,
        ('persistent_drift', if(r2 > 0.85, 'critical', 'warning'), least(1., r2),
            map('slope_bytes_per_sec', slope, 'r_squared', r2, 'p_value', p_value, 'gap_start_bytes', y[1], 'gap_end_bytes', y[-1]),
            concat('Memory outside the allocator grows by ', formatReadableSize(slope), ' a second.'), points[-1].1),
        ('', '', 0., map(), '', 0)),
    if(fragmenting > 0 AND ifNull(fragmented, 0) >= 0.3,
        ('fragmentation_like', if(ifNull(fragmented, 0) > 0.5, 'critical', 'warning'), least(1., ifNull(fragmented, 0) / 0.6),
            map('avg_fragmentation_ratio', ifNull(fragmented, 0), 'max_fragmentation_ratio', ifNull(most_fragmented, 0), 'avg_gap_bytes',
                mean, 'sample_count', toFloat64(fragmenting)),
            concat('On average ', toString(round(100 * ifNull(fragmented, 0))),
                ' % of what the allocator reserved was free and of no use: split, inside segments still in use.'), most_fragmented_ns),
        ('', '', 0., map(), '', 0))
]) AS f
