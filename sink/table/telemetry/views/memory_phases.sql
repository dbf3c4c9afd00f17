-- A row is a phase that a program entered: what it said it was doing, and when. Phases of a thread are a stack, in the order of time,
-- sequence and scope. An exit ends the phase on top if that has its scope, and is ignored otherwise; a phase that is still open ends with
-- the last event of its session and rank, and has synthetic_end.
WITH
boundaries AS (
    SELECT
        tenant, session_id, rank, thread_id, max(job) AS job_id,
        arraySort(groupArray((timestamp_ns, sequence, scope_id, upload_index, is_exit, thread_name, path, name, parent_scope_id,
            attributes))) AS b
    FROM (
        SELECT
            toString(tenant) AS tenant, toString(session_id) AS session_id, rank, timestamp_ns, upload_index, ifNull(job_id, '') AS job,
            toString(event_type) = 'phase_exit' AS is_exit,
            JSONExtractRaw(metadata, 'phase_scope') AS scope,
            JSONExtract(scope, 'thread_id', 'Int128') AS thread_id, JSONExtract(scope, 'sequence', 'Int128') AS sequence,
            JSONExtractString(scope, 'scope_id') AS scope_id,
            {{trimmed (string "scope" "name")}} AS name, JSONExtractString(scope, 'thread_name') AS thread_name,
            JSONExtractString(scope, 'parent_scope_id') AS parent_scope_id,
            if(JSONType(scope, 'attributes') = 'Object', JSONExtractRaw(scope, 'attributes'), '') AS attributes,
            arrayFilter(p -> p != '', arrayMap(p -> JSONExtractString(p),
                arrayFilter(p -> startsWith(p, '"'), JSONExtractArrayRaw(scope, 'path')))) AS path
        FROM {{db}}.memory_events
        WHERE event_type IN ('phase_enter', 'phase_exit') AND startsWith(scope, '{')
            AND {{string "scope" "action"}} = if(is_exit, 'exit', 'enter')
            AND name != '' AND JSONType(scope, 'scope_id') = 'String' AND JSONType(scope, 'thread_name') = 'String' AND notEmpty(path)
            AND JSONType(scope, 'thread_id') IN ('Int64', 'UInt64', 'Bool') AND JSONType(scope, 'sequence') IN ('Int64', 'UInt64', 'Bool')
            AND JSONType(scope, 'parent_scope_id') IN ('Null', 'String')
    )
    GROUP BY tenant, session_id, rank, thread_id
),
-- The stack, for whole columns at once: what is closed right after it was entered goes, and so does an exit right after an entry that it
-- does not match, or after nothing; then their neighbours are next to each other. 32 rounds are enough for a program that does not nest
-- deeper.
peeled AS (
    SELECT
        *,
        arrayMap((x, i) -> (toUInt32(i), x.5, sipHash64(x.3)), b, arrayEnumerate(b)) AS steps,
        arrayFold(
            (acc, round) -> arrayMap(
                near -> (
                    arrayMap(n -> n.1, arrayFilter(n -> if(n.1.2, n.2.2, NOT (n.3.2 AND n.3.3 = n.1.3)), near)),
                    arrayConcat(acc.2, arrayMap(n -> (n.2.1, n.1.1), arrayFilter(n -> n.1.2 AND NOT n.2.2 AND n.2.3 = n.1.3, near)))),
                [arrayZip(acc.1, arrayShiftRight(acc.1, 1, (toUInt32(0), false, toUInt64(0))),
                    arrayShiftLeft(acc.1, 1, (toUInt32(0), false, toUInt64(0))))])[1],
            range(32), (steps, CAST([], 'Array(Tuple(UInt32, UInt32))'))) AS peel
    FROM boundaries
),
-- What is left, up to its last exit, goes through the stack one by one, in pieces of 256, of which each can take at most 256 from it: so
-- the work grows with the 3/2th power of their number, not with its square. All pairs are (opened, closed), by their places.
replayed AS (
    SELECT
        *,
        arrayFold(
            (acc, piece) -> arrayMap(
                r -> (arrayConcat(arraySlice(acc.1, 1, greatest(0, toInt64(length(acc.1)) - 256)), r.1), arrayConcat(acc.2, r.2)),
                [arrayFold(
                    (a, e) -> multiIf(
                        NOT e.2, (arrayPushBack(a.1, (e.1, e.3)), a.2),
                        notEmpty(a.1) AND a.1[-1].2 = e.3, (arrayPopBack(a.1), arrayPushBack(a.2, (a.1[-1].1, e.1))),
                        a),
                    piece, (arraySlice(acc.1, -256), CAST([], 'Array(Tuple(UInt32, UInt32))')))])[1],
            arraySplit((e, i) -> i % 256 = 1, arraySlice(peel.1, 1, arrayLastIndex(e -> e.2, peel.1)) AS left, arrayEnumerate(left)),
            (CAST([], 'Array(Tuple(UInt32, UInt64))'), peel.2)).2 AS pairs,
        -- For each boundary where the phase that it closes was opened, 0 if it does not close one.
        arraySort(arrayConcat(arrayMap(p -> (p.2, p.1), pairs), arrayMap(e -> (e.1, toUInt32(0)), steps))) AS both,
        arrayMap(p -> p.2, arrayFilter((p, next) -> p.1 != next.1, both, arrayShiftLeft(both, 1, (toUInt32(0), toUInt32(0))))) AS opened
    FROM peeled
),
spans AS (
    SELECT
        tenant, session_id, rank, thread_id, job_id, if(x.5, o, n) AS place,
        anyIf(x.1, NOT x.5) AS start_ns, maxIf(x.1, x.5) AS exit_ns, max(x.5) AS closed, any(x.3) AS scope_id,
        anyIf(x.2, NOT x.5) AS sequence, anyIf(x.6, x.5) AS exit_thread, anyIf(x.6, NOT x.5) AS enter_thread, anyIf(x.7, NOT x.5) AS path,
        anyIf(x.8, NOT x.5) AS name, anyIf(x.9, NOT x.5) AS parent_scope_id, anyIf(x.10, NOT x.5) AS attributes
    FROM replayed
    ARRAY JOIN b AS x, opened AS o, arrayEnumerate(opened) AS n
    WHERE place > 0
    GROUP BY tenant, session_id, rank, thread_id, job_id, place
)
SELECT
    s.tenant AS tenant, s.session_id AS session_id, s.job_id AS job_id, s.rank AS rank, toInt64(s.thread_id) AS thread_id,
    if(s.closed, s.exit_thread, s.enter_thread) AS thread_name, s.scope_id AS scope_id,
    s.name AS name, s.path AS path, arrayStringConcat(s.path, ' / ') AS phase, toUInt64(length(s.path)) AS depth,
    fromUnixTimestamp64Nano(s.start_ns, 'UTC') AS started_at,
    fromUnixTimestamp64Nano(if(s.closed, s.exit_ns, e.last_ns) AS end_ns, 'UTC') AS ended_at,
    toUInt64(end_ns - s.start_ns) AS duration_ns, toInt64(s.sequence) AS sequence, NOT s.closed AS synthetic_end,
    s.parent_scope_id AS parent_scope_id, s.attributes AS attributes
FROM spans AS s
INNER JOIN (
    SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, rank, max(timestamp_ns) AS last_ns
    FROM {{db}}.memory_events
    GROUP BY tenant, session_id, rank
) AS e ON e.tenant = s.tenant AND e.session_id = s.session_id AND e.rank = s.rank
