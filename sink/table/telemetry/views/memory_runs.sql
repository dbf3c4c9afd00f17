-- A row is a run: a job over all its sessions, or a session without a job. The ranks are aligned by their first samples; first_causes has
-- those in which the memory in use rose first.
WITH
-- 1. The used bytes of each rank on each device, and the first rise that counts: 64 MiB, or a tenth of the most that it had in use,
-- in steps that all go up.
series AS (
    SELECT
        tenant, job_id, run, rank, session_id, device_id, min(s.sampled) AS sampled, countIf(s.counts) AS samples,
        max(s.others) AS others, countIf(s.sampled = 1 AND lower(s.sent_event_type) = 'sample' AND NOT s.used_known) AS unmeasured,
        arraySort(groupArrayIf((s.timestamp_ns, s.pid, s.upload_index, s.used_bytes), s.counts)) AS points,
        greatest(67108864, toInt64(floor(maxIf(s.used_bytes, s.counts) * 0.1))) AS threshold,
        arrayDifference(arrayMap(p -> p.4, points)) AS steps,
        -- A rise ends where a step does not go up; there sums and counts begin again.
        arraySplit((up, step) -> step <= 0, arrayMap(step -> greatest(0, step), steps), steps) AS rises,
        arrayFlatten(arrayMap(rise -> arrayCumSum(rise), rises)) AS risen,
        arrayFlatten(arrayMap(rise -> arrayEnumerate(rise), rises)) AS counts,
        arrayFirstIndex(sum -> sum >= threshold, risen) AS spike,
        arrayFilter(step -> step > 0, arrayPopFront(arrayDifference(arrayMap(p -> p.1, points)))) AS intervals,
        groupArrayIf(s.sampling_interval_ms * 1000000, s.counts AND s.sampling_interval_ms > 0) AS named_intervals,
        groupArrayIf(s.world_size, s.counts AND s.world_size > 1) AS declared
    FROM (
        -- stormlog's tools trim an event's type elsewhere, but not here.
        SELECT *, used_known AND if(sampled = 1, lower(sent_event_type) = 'sample', old = 1) AS counts FROM {{db}}.memory_samples
    ) AS s
    GROUP BY tenant, job_id, run, rank, session_id, device_id
),
-- 2. Of several devices of a rank the one that rose first.
ranked AS (
    SELECT
        tenant, job_id, run, rank, min(s.sampled) AS sampled, sum(s.samples) AS samples,
        minIf(s.points[1].1, s.samples > 0) AS first_ns, maxIf(s.points[-1].1, s.samples > 0) AS last_ns,
        -- when, by how much, in how many samples, in which session, on which device
        minIf((s.points[s.spike].1, -s.risen[s.spike], s.counts[s.spike] - 1, s.session_id, s.device_id), s.spike > 0) AS rise,
        countIf(s.spike > 0) > 0 AS rose,
        min(s.session_id) AS session_id, min(s.device_id) AS device_id,
        groupArrayArray(s.intervals) AS intervals, groupArrayArray(s.named_intervals) AS named_intervals,
        groupArrayArray(s.declared) AS declared,
        sum(s.others) AS others, sum(s.unmeasured) AS unmeasured
    FROM series AS s
    GROUP BY tenant, job_id, run, rank
),
-- 3. Each run with its ranks in order.
whole AS (
    SELECT
        tenant, job_id, run, min(r.sampled) AS sampled, minIf(r.first_ns, r.samples > 0) AS first_ns,
        maxIf(r.last_ns, r.samples > 0) AS last_ns,
        sum(r.others) AS others, sum(r.unmeasured) AS unmeasured,
        arraySort(groupArrayIf((r.rank, r.session_id, r.device_id, r.samples, r.first_ns), r.samples > 0)) AS rank_list,
        rank_list[1].5 AS anchor_ns,
        groupArrayArray(r.intervals) AS intervals,
        groupArrayArray(r.named_intervals) AS named_intervals,
        toInt64(floor(multiIf(notEmpty(intervals), arrayReduce('quantileExactInclusive(0.5)', intervals), notEmpty(named_intervals),
            arrayReduce('quantileExactInclusive(0.5)', named_intervals), 0))) AS interval_ns,
        toInt64(greatest(1, maxIf(r.rank, r.samples > 0) + 1, ifNull(arrayReduce('topK(1)', groupArrayArray(r.declared))[1], 1)))
            AS world_size,
        -- Runs do not have so many ranks: a larger number is believed up to here.
        least(world_size, 65536) AS believed,
        -- Ranks that are in only one of the two lists, and were promised.
        arraySort(arrayConcat(range(believed), groupArrayIf(r.rank, r.samples > 0))) AS both,
        arrayFilter((n, last, next) -> n != last AND n != next AND n < believed, both, arrayShiftRight(both, 1, toInt64(-1)),
            arrayShiftLeft(both, 1, toInt64(-1))) AS missing,
        arraySort(groupArrayIf(r.rank, r.samples = 1)) AS insufficient,
        groupArrayIf((r.rank, r.first_ns, r.rise), r.rose) AS rises
    FROM ranked AS r
    GROUP BY tenant, job_id, run
    HAVING notEmpty(rank_list)
),
-- 4. Spikes by their time when all ranks are aligned; the earliest first, of equal ones the larger, then the lower rank.
spiked AS (
    SELECT
        *,
        arraySort(arrayMap(r -> (r.3.1 - (r.2 - anchor_ns), r.3.2, r.1, r.3.1, r.3.3, r.3.4, r.3.5), rises)) AS spikes,
        length(rank_list) > 1 AS several,
        if(several AND length(spikes) > 1, spikes[2].1, 0) AS onset_ns,
        spikes[1].1 AS earliest_ns,
        -- A rank cannot be sure to be first when another is missing, or when several rose.
        length(spikes) < 2 OR notEmpty(missing) OR notEmpty(insufficient) AS doubtful,
        spikes[2].1 = earliest_ns AS tied,
        if(several, arrayFilter(s -> s.1 <= if(onset_ns = 0, earliest_ns, onset_ns), spikes), []) AS early
    FROM whole
)
SELECT
    tenant, job_id, run, fromUnixTimestamp64Nano(first_ns, 'UTC') AS started_at, fromUnixTimestamp64Nano(last_ns, 'UTC') AS ended_at,
    world_size,
    arrayMap(r -> r.1, rank_list) AS participating_ranks, missing AS missing_ranks, insufficient AS insufficient_ranks,
    toUInt64(interval_ns) AS median_interval_ns, sampled,
    fromUnixTimestamp64Nano(onset_ns, 'UTC') AS cluster_onset_at,
    length(early) AS suspects,
    arrayMap(r -> (r.1, r.2, r.3, r.4, fromUnixTimestamp64Nano(r.5, 'UTC'), r.5 - anchor_ns,
        interval_ns > 0 AND abs(r.5 - anchor_ns) > 5 * interval_ns), rank_list)
        ::Array(Tuple(rank Int64, session_id String, device_id Int64, samples UInt64, started_at DateTime64(9, 'UTC'), offset_ns Int64,
            skewed UInt8)) AS ranks,
    arrayMap(s -> (s.3, s.6, s.7, fromUnixTimestamp64Nano(s.4, 'UTC'), fromUnixTimestamp64Nano(s.1, 'UTC'), -s.2, s.5,
        if(onset_ns = 0, 0, onset_ns - s.1),
            multiIf(doubtful OR s.1 != earliest_ns, 'low', NOT tied AND onset_ns - s.1 >= interval_ns, 'high', 'medium')), early)
        ::Array(Tuple(rank Int64, session_id String, device_id Int64, spike_at DateTime64(9, 'UTC'), aligned_at DateTime64(9, 'UTC'),
            delta_bytes Int64, samples UInt64, lead_ns UInt64, confidence String)) AS first_causes,
    arrayFilter(n -> n != '', arrayConcat([
        if(sampled = 1 AND others > 0, 'Events that are no samples were left out.', ''),
        if(unmeasured > 0, 'Samples that do not say how much of the device is used were left out.', ''),
        if(notEmpty(missing), concat('Nothing came from ', toString(length(missing)), ' of ', toString(world_size), ' ranks: ',
            arrayStringConcat(arraySlice(missing, 1, 32), ', '), if(length(missing) > 32, ', …', ''), '.'), ''),
        if(several, '', 'There is only one rank: nothing to compare it with.'),
        if(several AND notEmpty(insufficient), concat('One sample shows no rise, and these ranks have no more: ',
            arrayStringConcat(arraySlice(insufficient, 1, 32), ', '), '.'), ''),
        if(several AND empty(spikes), 'No rank had a rise that counts.', ''),
        if(several AND length(spikes) = 1, 'Only one rank had a rise that counts.', '')],
        arrayMap(r -> concat('Rank ', toString(r.1), ' begins ', toString((r.5 - anchor_ns) / 1e9),
            ' s from the first: laying ranks over each other by their first samples may be wrong.'),
            arrayFilter(r -> interval_ns > 0 AND abs(r.5 - anchor_ns) > 5 * interval_ns, rank_list)))) AS notes
FROM spiked
