-- A row is a run: one process of GPU Flight with all its segments.
SELECT
    r.tenant AS tenant,
    r.run_id AS run_id,
    app, host,
    r.started_at AS started_at,
    if(e.ended_at > toDateTime64(0, 9, 'UTC'), e.ended_at, last_ended_at) AS ended_at,
    multiIf(crashed, 'crashed',
            final_segment_index >= 0 AND arrayUniq(arrayFilter(i -> i >= 0 AND i <= final_segment_index, closed)) = final_segment_index
                + 1 AND NOT arrayExists(i -> i <= final_segment_index, unclosed), 'complete',
            e.run_id = '' AND last_received_at < now64(9, 'UTC') - toIntervalMinute(10), 'idle',
            'open') AS state,
    toUInt64(length(seen)) AS segments,
    if(e.run_id = '', -1, e.final_segment_index) AS final_segment_index,
    -- Gaps between the indices that were seen. Beyond 65536 segments gaps are not listed.
    arrayFlatten(arrayMap((a, b) -> range(a + 1, b),
        arrayPushFront(arrayFilter(i -> i < 65536, seen), -1),
        arrayPushBack(arrayFilter(i -> i < 65536, seen),
            toInt32(least(greatest(if(empty(seen), -1, seen[-1]), final_segment_index), 65535) + 1)))) AS missing_segments,
    roll_chain_id, part_index, previous_run_id,
    multiIf(e.end_reason != '', e.end_reason, crashed, 'crashed', e.run_id != '', last_reason, state = 'idle', 'idle', '') AS end_reason,
    e.rollover_reason AS rollover_reason,
    kernels, samples, sessions,
    e.requested_rollover_at AS requested_rollover_at,
    e.actual_rollover_at AS actual_rollover_at,
    e.synthetic AS synthetic
FROM (
    SELECT
        g.tenant AS tenant,
        g.run_id AS run_id,
        max(s.app) AS app,
        max(s.host) AS host,
        min(if(g.started_at > toDateTime64(0, 9, 'UTC') OR s.session_id = '', g.started_at, s.started_at)) AS started_at,
        max(greatest(g.ended_at, s.ended_at)) AS last_ended_at,
        countIf(s.state = 'crashed') > 0 AS crashed,
        arraySort(groupUniqArrayIf(g.segment_index, g.segment_index >= 0)) AS seen,
        groupUniqArrayIf(g.segment_index, s.state = 'complete') AS closed,
        groupUniqArrayIf(g.segment_index, s.state != 'complete') AS unclosed,
        max(s.last_received_at) AS last_received_at,
        max(g.roll_chain_id) AS roll_chain_id,
        max(g.part_index) AS part_index,
        max(g.previous_run_id) AS previous_run_id,
        argMax(g.end_reason, (g.segment_index, g.ended_at)) AS last_reason,
        sum(s.kernels) AS kernels,
        sum(s.samples) AS samples,
        count() AS sessions
    FROM {{db}}.segments AS g
    ANY LEFT JOIN {{db}}.sessions AS s ON g.tenant = s.tenant AND g.session_id = s.session_id
    GROUP BY g.tenant, g.run_id
) AS r
ANY LEFT JOIN (
    SELECT
        tenant, run_id,
        max(CAST(final_segment_index, 'Int32')) AS final_segment_index,
        max(CAST(ended_at, 'DateTime64(9, \'UTC\')')) AS ended_at,
        max(CAST(end_reason, 'String')) AS end_reason,
        max(CAST(rollover_reason, 'String')) AS rollover_reason,
        max(CAST(requested_rollover_at, 'DateTime64(9, \'UTC\')')) AS requested_rollover_at,
        max(CAST(actual_rollover_at, 'DateTime64(9, \'UTC\')')) AS actual_rollover_at,
        max(CAST(synthetic, 'UInt8')) AS synthetic
    FROM {{db}}.run_ends_data
    WHERE run_id != ''
    GROUP BY tenant, run_id
) AS e ON r.tenant = e.tenant AND r.run_id = e.run_id
