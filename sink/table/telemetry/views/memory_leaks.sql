-- A row is a finding about a rank whose allocated memory only grows. It is found by the line through all samples of a rank on a device, and
-- by the rules of the TensorFlow tracker. There must be ten samples or more; those of a collector that did not work do not count.
WITH
series AS (
    SELECT
        tenant, session_id, any(s.job_id) AS job_id, any(s.host) AS host, device_id, rank, min(s.at) AS started_at,
        max(s.at) AS ended_at, count() AS samples,
        avg(s.allocated_bytes) AS mean, stddevPopStable(s.allocated_bytes) AS deviation, stddevSampStable(s.allocated_bytes) AS spread,
        max(s.allocated_bytes) AS peak,
        min(s.timestamp_ns) AS origin_ns,
        arraySort(groupArray((s.timestamp_ns, s.upload_index, s.allocated_bytes))) AS points
    FROM {{db}}.memory_samples AS s
    WHERE s.allocated_known AND s.worked
    GROUP BY tenant, session_id, device_id, rank
    HAVING samples >= 10
),
line AS (
    SELECT
        *,
        arrayMap(p -> toFloat64(p.1 - origin_ns), points) AS x,
        arrayMap(p -> toFloat64(p.3), points) AS y,
        arrayReduce('varPopStable', x) AS x_variance,
        if(x_variance > 0, arrayReduce('covarPopStable', x, y) / x_variance, 0) AS slope_per_ns,
        if(x_variance > 0 AND deviation > 0, pow(slope_per_ns, 2) * x_variance / pow(deviation, 2), 0) AS r2,
        slope_per_ns * x[-1] AS growth,
        arrayCount(d -> d > 0, arrayPopFront(arrayDifference(y))) / (samples - 1) AS rising,
        arrayCount(v -> v > mean + 3 * spread, y) AS outliers,
        arrayAvg(arraySlice(y, 1, 5)) AS first_mean,
        arrayAvg(arraySlice(y, -5)) AS last_mean
    FROM series
)
SELECT
    tenant, session_id, job_id, host, device_id, rank, f.1 AS kind, f.2 AS severity, f.3 AS confidence, f.4 AS evidence,
    f.5 AS description, started_at, ended_at, samples
FROM line
ARRAY JOIN arrayFilter(f -> f.1 != '', [
    -- A line that fits, and a rise that matters: 64 MiB, or a tenth of the average.
    if(slope_per_ns > 0 AND r2 >= 0.6 AND growth >= least(67108864., mean / 10),
        ('trend', if(r2 > 0.85, 'critical', 'warning'), r2,
            map('slope_bytes_per_sec', slope_per_ns * 1e9, 'r_squared', r2, 'growth_bytes', growth),
            concat('Allocated memory grows by ', formatReadableSize(slope_per_ns * 1e9), ' a second, ', formatReadableSize(growth),
                ' in all.')),
        ('', '', 0., map(), '')),
    -- A sawtooth rises in most steps too: there has to be a rise over all.
    if(rising > 0.7 AND growth >= least(67108864., mean / 10),
        ('rising_steps', if(rising > 0.9, 'critical', 'warning'), rising, map('rising_ratio', rising),
            concat('Allocated memory rose in ', toString(round(100 * rising)), ' % of all steps.')),
        ('', '', 0., map(), '')),
    if(spread > 0 AND outliers > 0,
        ('outliers', 'info', least(1., (peak - mean) / spread / 6),
            map('outliers', toFloat64(outliers), 'peak_bytes', toFloat64(peak), 'mean_bytes', mean, 'std_bytes', spread),
            concat('Allocated memory was far above its mean ', toString(outliers), if(outliers = 1, ' time.', ' times.'))),
        ('', '', 0., map(), '')),
    if(last_mean > 1.5 * first_mean,
        ('growth', 'warning', least(1., last_mean / first_mean / 3),
            map('first_mean_bytes', first_mean, 'last_mean_bytes', last_mean, 'ratio', last_mean / first_mean),
            if(first_mean > 0, concat('The last five samples hold ', toString(round(last_mean / first_mean, 1)),
                ' times what the first five held.'), 'The first five samples hold nothing, the last five do.')),
        ('', '', 0., map(), ''))
]) AS f
