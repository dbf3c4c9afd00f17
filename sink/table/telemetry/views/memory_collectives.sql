-- A row is an interval of a run in which collective communication took memory, by one preset. It took it outside the allocator: the gap
-- jumps beyond its rank's own history, near events that name a collective, on several ranks at once. Three presets say how much evidence is
-- needed; query one of them.
WITH
-- name, samples, bytes, ratio, z, nearness of markers, padding, window of synchrony, synchrony that counts, least confidence
[('low', 8, 268435456, 0.06, 3., 120000000, 100000000, 100000000, 0.6, 0.7),
 ('medium', 6, 134217728, 0.04, 2.5, 150000000, 120000000, 120000000, 0.5, 0.5),
 ('high', 5, 67108864, 0.025, 1.8, 180000000, 160000000, 180000000, 0.34, 0.35)]
    ::Array(Tuple(name String, samples UInt64, bytes Int64, ratio Float64, z Float64, near Int64, padding Int64, window Int64,
        synchrony Float64, least Float64)) AS presets,
runs AS (
    SELECT tenant, job_id, run, min(e.timestamp_ns) AS trace_start, max(e.world_size) AS world
    FROM {{db}}.memory_used AS e
    GROUP BY tenant, job_id, run
),
-- 1. What a gap of this rank on this device usually is: median and median distance from it, mean and deviation.
series AS (
    SELECT
        tenant, job_id, run, session_id, device_id, rank, min(s.sampled) AS sampled, countIf(s.gap_known) AS samples,
        max(s.gap_known AND s.allocated_known) AS allocated_known,
        min(s.timestamp_ns) AS first_ns,
        arraySort(groupArrayIf((s.timestamp_ns, greatest(0, s.used_bytes - s.reserved_bytes), s.total_bytes), s.gap_known)) AS points,
        arrayMap(p -> p.2, points) AS gaps,
        arrayReduce('quantileExactInclusive(0.5)', gaps) AS middle,
        arrayReduce('quantileExactInclusive(0.5)', arrayMap(g -> abs(g - middle), gaps)) AS distance,
        arrayReduce('avg', gaps) AS mean,
        arrayReduce('stddevSampStable', gaps) AS deviation
    FROM {{db}}.memory_samples AS s
    WHERE s.sampled = 1 OR s.old = 1
    GROUP BY tenant, job_id, run, session_id, device_id, rank
    HAVING samples >= 5
),
-- 2. Gaps that are large and stand out, for each preset.
spikes AS (
    SELECT
        tenant, job_id, run, session_id, device_id, rank, sampled, allocated_known, first_ns, 1 AS is_spike, preset,
        point.1 AS timestamp_ns, point.2 AS gap,
        if(point.3 > 0, point.2 / point.3, NULL) AS ratio,
        multiIf(distance > 0, greatest(0, 0.6745 * (point.2 - middle) / distance), deviation > 0,
            greatest(0, (point.2 - mean) / deviation), 0) AS z
    FROM (SELECT *, point FROM series ARRAY JOIN arrayFilter(p -> p.2 > 0 AND (p.2 >= 67108864 OR p.2 >= 0.025 * p.3), points) AS point)
    ARRAY JOIN presets AS preset
    WHERE samples >= preset.samples AND (gap >= preset.bytes OR ifNull(ratio, 0) >= preset.ratio) AND z >= preset.z
),
-- 3. Events that name a collective: in their type, their context, their collector, or a string anywhere in metadata that is not a key.
markers AS (
    SELECT
        toString(e.tenant) AS tenant, ifNull(e.job_id, '') AS job_id, if(job_id = '', toString(e.session_id), job_id) AS run,
        '' AS session_id, toInt64(-1) AS device_id,
        e.rank AS rank, toUInt8(1) AS sampled, toUInt8(0) AS allocated_known, toInt64(0) AS first_ns, 0 AS is_spike, preset,
        e.timestamp_ns AS timestamp_ns, toInt64(0) AS gap, NULL AS ratio, 0. AS z
    FROM {{db}}.memory_events AS e
    ARRAY JOIN presets AS preset
    WHERE {{collective `concat(event_type, '\n', ifNull(context, ''), '\n', ifNull(telemetry_collector, ''))`}}
        OR ({{collective `metadata`}}
            AND {{collective `arrayStringConcat(arrayMap(g -> if(g[2] = '', g[1], ''),
                extractAllGroups(metadata, '"((?:[^"\\\\]|\\\\.)*)"\\s*(:?)')), '\n')`}})
),
-- 4. For each spike the markers of its rank near it, and the ranks that have a spike about then. Times are stretched so that the
-- windows of all presets have one length: 120, 150 and 180 ms times 15, 12 and 10 are 1.8 s; 100, 120 and 180 times 18, 15 and 10 too.
near AS (
    SELECT
        p.*, trace_start, greatest(1, world) AS world,
        countIf(p.is_spike = 0) OVER rank_near AS hits,
        minIf(p.timestamp_ns, p.is_spike = 0) OVER rank_near AS first_hit,
        maxIf(p.timestamp_ns, p.is_spike = 0) OVER rank_near AS last_hit,
        uniqExactIf(p.rank, p.is_spike = 1) OVER run_near AS ranks
    FROM (SELECT * FROM spikes UNION ALL SELECT * FROM markers) AS p
    INNER JOIN runs ON runs.tenant = p.tenant AND runs.job_id = p.job_id AND runs.run = p.run
    WINDOW
        rank_near AS (PARTITION BY p.tenant, p.job_id, p.run, p.preset.name, p.rank
            ORDER BY (p.timestamp_ns - trace_start) * intDiv(1800000000, p.preset.near)
            RANGE BETWEEN 1800000000 PRECEDING AND 1800000000 FOLLOWING),
        run_near AS (PARTITION BY p.tenant, p.job_id, p.run, p.preset.name
            ORDER BY (p.timestamp_ns - trace_start) * intDiv(1800000000, p.preset.window)
            RANGE BETWEEN 1800000000 PRECEDING AND 1800000000 FOLLOWING)
),
-- 5. How sure that is.
scored AS (
    SELECT
        *,
        if(world <= 1, 0, least(1., (ranks - 1) / (world - 1))) AS synchrony,
        greatest(least(1., gap / preset.bytes), least(1., ifNull(ratio, 0) / preset.ratio)) AS divergence,
        (world <= 1 OR ranks <= 1) AS alone,
        greatest(0., least(1., 0.34 * (hits > 0) + 0.34 * synchrony + 0.16 * least(1., round(z, 4) / preset.z) + 0.16 * divergence
            - 0.15 * (hits = 0) - 0.15 * alone - 0.05 * (ratio IS NULL))) AS sure,
        arrayFilter(c -> c != '', ['gap_spike_statistical_outlier',
            if(hits > 0, 'marker_collective_token', 'weak_marker_signal'), if(hits > 0, 'marker_spike_overlap', ''),
            if(synchrony >= preset.synchrony, 'cross_rank_synchrony', ''), if(divergence >= 0.5, 'allocator_device_divergence', ''),
            if(alone, 'single_rank_only', '')]) AS codes,
        greatest(0, trace_start, least(if(hits > 0, first_hit, timestamp_ns), timestamp_ns) - preset.padding) AS opens,
        greatest(if(hits > 0, last_hit, timestamp_ns), timestamp_ns) + preset.padding AS closes
    FROM near
    WHERE is_spike = 1
),
-- 6. Intervals of a rank that overlap become one: a new one begins where no earlier one reaches.
begun AS (
    SELECT *, opens > max(closes) OVER (PARTITION BY tenant, job_id, run, preset.name, rank
        ORDER BY opens, timestamp_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS begins
    FROM scored
    WHERE sure > 0 AND sure >= preset.least
),
numbered AS (
    SELECT *, sum(begins) OVER (PARTITION BY tenant, job_id, run, preset.name, rank
        ORDER BY opens, timestamp_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
    FROM begun
)
SELECT
    tenant, any(n.session_id) AS session_id, job_id, run, rank, any(n.device_id) AS device_id, n.preset.name AS preset,
    fromUnixTimestamp64Nano(min(n.opens), 'UTC') AS started_at, fromUnixTimestamp64Nano(max(n.closes), 'UTC') AS ended_at,
    multiIf(max(n.sure) >= 0.8, 'collective_confident', max(n.sure) >= 0.6, 'collective_likely', 'collective_suspect') AS classification,
    multiIf(max(n.sure) >= 0.8, 'critical', max(n.sure) >= 0.6, 'warning', 'info') AS severity,
    max(n.sure) AS confidence,
    arraySort(arrayDistinct(groupArrayArray(n.codes))) AS reason_codes,
    max(n.hits) AS marker_hits, max(n.ranks) AS synchronized_ranks, max(n.world) AS expected_world_size,
    max(n.synchrony) AS synchrony_ratio,
    max(n.gap) AS peak_gap_bytes, max(n.ratio) AS peak_gap_ratio, max(n.z) AS robust_zscore, min(n.sampled) AS sampled,
    min(n.first_ns) AS first_sample_timestamp_ns, max(n.allocated_known) AS allocated_known
FROM numbered AS n
GROUP BY tenant, job_id, run, rank, n.preset.name, number
