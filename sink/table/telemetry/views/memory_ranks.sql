-- A row is a rank of a run, also one that is missing. It has how many samples came, how memory changed from first to last, how large the
-- gap between used and reserved bytes is, and the first anomaly. What a rank does not say is NULL.
WITH
-- A rank with several devices is one row: its changes add up, its gap is that of the device where it is largest.
events AS (
    SELECT
        tenant, job_id, run, rank, min(d.session_id) AS session_id, min(d.device_id) AS device_id, sum(d.samples) AS samples,
        sum(d.events) AS events,
        min(d.first_ns) AS first_ns, max(d.last_ns) AS last_ns,
        sum(d.last.1 - d.first.1) AS allocated_delta, sum(d.last.2 - d.first.2) AS reserved_delta,
        sum(d.last.3 - d.first.3) AS used_delta, max(d.peak_allocated) AS peak_allocated,
        argMax(d.gap_latest, abs(d.gap_latest)) AS gap_latest, max(d.gap_peak) AS gap_peak, max(d.world) AS world
    FROM (
        SELECT
            tenant, job_id, run, rank, session_id, device_id, count() AS events, countIf(u.event_type = 'sample') AS samples,
            min(u.timestamp_ns) AS first_ns, max(u.timestamp_ns) AS last_ns,
            argMinIf(u.says, (u.timestamp_ns, u.upload_index), u.event_type = 'sample') AS first,
            argMaxIf(u.says, (u.timestamp_ns, u.upload_index), u.event_type = 'sample') AS last,
            max(u.says.1) AS peak_allocated,
            argMax(u.gap, (u.timestamp_ns, u.upload_index)) AS gap_latest,
            max(abs(u.gap)) AS gap_peak,
            max(u.world_size) AS world
        FROM (
            SELECT
                *, (if(allocated_known, allocated_bytes, NULL), if(reserved_known, reserved_bytes, NULL),
                    if(used_known, used_bytes, NULL)) AS says,
                if(gap_known AND event_type = 'sample', used_bytes - reserved_bytes, NULL) AS gap
            FROM {{db}}.memory_used
        ) AS u
        GROUP BY tenant, job_id, run, rank, session_id, device_id
    ) AS d
    GROUP BY tenant, job_id, run, rank
),
-- Ranks that the largest world size promises, up to a number that no run reaches.
expected AS (
    SELECT
        tenant, job_id, run, r.1 AS rank, r.2 AS present
    FROM (
        SELECT
            tenant, job_id, run, groupArray(e.rank) AS have, toInt64(greatest(0, least(max(e.world), 65536))) AS believed,
            -- Of both lists together, what is there once and was promised.
            arraySort(arrayConcat(range(believed), have)) AS both,
            arrayFilter((n, last, next) -> n != last AND n != next AND n < believed, both, arrayShiftRight(both, 1, toInt64(-1)),
                arrayShiftLeft(both, 1, toInt64(-1))) AS missing
        FROM events AS e
        GROUP BY tenant, job_id, run
    )
    ARRAY JOIN arrayConcat(arrayMap(n -> (n, 1), have), arrayMap(n -> (n, 0), missing)) AS r
),
odd AS (
    SELECT
        tenant, job_id, run, rank, count() AS anomalies,
        argMin((a.at, a.signal), a.place_of_rank) AS first_odd,
        argMin(a.severity, transform(a.severity, ['critical', 'warning', 'info'], [1, 2, 3], 4)) AS worst,
        max(a.earliest) AS earliest, max(a.most_severe) AS most_severe
    FROM {{db}}.memory_anomalies AS a
    GROUP BY tenant, job_id, run, rank
)
SELECT
    x.tenant AS tenant, e.session_id AS session_id, x.job_id AS job_id, x.run AS run, x.rank AS rank, e.device_id AS device_id,
    if(x.present = 1, 'present', 'missing') AS availability, e.samples AS samples,
    fromUnixTimestamp64Nano(e.first_ns, 'UTC') AS started_at, fromUnixTimestamp64Nano(e.last_ns, 'UTC') AS ended_at,
    e.allocated_delta AS allocated_delta_bytes, e.reserved_delta AS reserved_delta_bytes, e.peak_allocated AS peak_allocated_bytes,
    e.gap_latest AS hidden_gap_latest_bytes, e.gap_peak AS hidden_gap_peak_abs_bytes,
    o.anomalies AS anomalies, o.worst AS worst_severity, o.first_odd.1 AS first_anomaly_at, o.first_odd.2 AS first_anomaly_signal,
    o.earliest AS earliest, o.most_severe AS most_severe,
    e.used_delta AS device_used_delta_bytes, e.events AS events
FROM expected AS x
LEFT JOIN events AS e ON e.tenant = x.tenant AND e.job_id = x.job_id AND e.run = x.run AND e.rank = x.rank
LEFT JOIN odd AS o ON o.tenant = x.tenant AND o.job_id = x.job_id AND o.run = x.run AND o.rank = x.rank
