package telemetry

import "fmt"

// attributedSQL says for each moment to which phase it belongs; phase_resolution is ” if it does not belong to one. active has a row for
// each phase near a moment, and at least one for each moment. Its columns are: those of the moment, named by key; those of memory_phases;
// inside, whether the phase is open at the moment, ends included; and the origin that the moment names, origin_scope and origin_thread (”
// and NULL if it does not name them).
//
// It is the scope that the moment names, if that is open; otherwise the latest scope of the thread that it names; otherwise the deepest
// one, if only one thread has open scopes; otherwise the latest of all is likely.
func attributedSQL(key, active string) string {
	return fmt.Sprintf(`SELECT
    %[1]s,
    multiIf(empty(threads), '', exact OR on_thread OR alone, 'unique', 'ambiguous') AS phase_resolution,
    multiIf(exact, 'exact', on_thread, 'thread_local', alone, 'heuristic', '') AS phase_source,
    if(phase_resolution = 'unique', [it.4], arraySort(arrayDistinct(arrayFlatten(arrayMap(t -> t.2, threads))))) AS phase_paths,
    multiIf(phase_resolution IN ('', 'unique'), it.4, length(phase_paths) > 1, concat('(likely) ', it.4),
        concat('(ambiguous) ', phase_paths[1])) AS phase,
    if(phase_resolution = 'unique', it.4, '') AS phase_path,
    if(phase_resolution = 'unique', it.2, '') AS scope_id,
    if(phase_resolution = 'unique', it.5, NULL) AS thread_id,
    if(phase_resolution = 'unique', it.6, '') AS thread_name
FROM (
    SELECT
        %[1]s,
        -- (sequence, scope_id, how early, label, thread_id, thread_name), so that the latest is the largest
        arrayFlatten(groupArray(arrayFilter(s -> s.2 = origin_scope, spans))) AS named,
        origin_scope != '' AND length(named) = 1 AS exact,
        maxIf(spans[-1], thread_id = origin_thread AND notEmpty(spans)) AS of_thread,
        countIf(thread_id = origin_thread AND notEmpty(spans)) > 0 AS on_thread,
        groupArrayIf((deepest[-1], arrayDistinct(arrayMap(s -> s.4, deepest))), notEmpty(deepest)) AS threads,
        length(threads) = 1 AND length(threads[1].2) = 1 AS alone,
        multiIf(exact, named[1], on_thread, of_thread, alone, threads[1].1, maxIf(spans[-1], notEmpty(spans))) AS it
    FROM (
        SELECT
            %[1]s, origin_scope, origin_thread, thread_id, maxIf(depth, inside) AS most,
            groupUniqArrayIf((depth, sequence, scope_id, -toUnixTimestamp64Nano(started_at), ended_at, phase, thread_name), inside)
                AS found,
            arraySort(arrayMap(s -> (s.2, s.3, s.4, s.6, thread_id, s.7), found)) AS spans,
            arraySort(arrayMap(s -> (s.2, s.3, s.4, s.6, thread_id, s.7), arrayFilter(s -> s.1 = most, found))) AS deepest
        FROM (%[2]s)
        GROUP BY %[1]s, origin_scope, origin_thread, thread_id
    )
    GROUP BY %[1]s, origin_scope, origin_thread
)`, key, active)
}

// originSQL are the columns origin_scope and origin_thread of an event with this metadata.
func originSQL(metadata string) string {
	return jsonStringSQL(metadata, "origin_phase_scope_id") + " AS origin_scope, " +
		fmt.Sprintf("if(JSONType(%[1]s, 'origin_thread_id') IN ('Int64', 'UInt64', 'Bool'), toInt64(JSONExtract(%[1]s, "+
			"'origin_thread_id', 'Int128')), NULL) AS origin_thread", metadata)
}
