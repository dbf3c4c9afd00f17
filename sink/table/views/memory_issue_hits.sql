-- Each time that something went wrong, with the fingerprint that tells an issue from others: an event that says that memory ran out, else
-- that its collector is not well, else that warns; and each finding of memory_gaps. dimensions is what the fingerprint is made of, texts
-- without their numbers and addresses.
SELECT
    tenant, session_id, job_id, rank, device_id, at, kind, {{issueid "kind" "dimensions"}} AS fingerprint_id, severity, title, dimensions, event_type, collector, context, phase, timestamp_ns
FROM (
    SELECT
        tenant, session_id, job_id, rank, device_id, at, timestamp_ns, event_type, collector, context, '' AS phase, kind,
        multiIf(kind = 'oom', 'critical', kind = 'alert', severity_told, health = 'unhealthy', 'critical', 'warning') AS severity,
        multiIf(kind = 'oom', 'OOM telemetry event', kind = 'alert', concat('Alert: ', replaceAll(category, '_', ' ')), 'Collector degradation') AS title,
        multiIf(
            kind = 'oom', concat('{"backend":', {{jsontext "backend"}}, ',"reason":', reason, '}'),
            kind = 'alert', concat('{"backend":', {{jsontext "backend"}}, ',"category":', {{jsontext "category"}}, ',"collector":', {{jsontext "collector_text"}},
                ',"event_type":', {{jsontext "event_type_text"}}, ',"severity":', {{jsontext "severity_told"}}, '}'),
            concat('{"backend":', {{jsontext "backend"}}, ',"collector":', {{jsontext "collector_text"}}, ',"error_stem":', {{jsontext "error_stem"}}, ',"health_status":', {{jsontext "health"}},
                ',"partial_fields":[', arrayStringConcat(partial_fields, ','), ']}')) AS dimensions
    FROM (
        SELECT
            *,
            if({{normal "collector"}} AS collector_words = '', 'unknown', collector_words) AS collector_text,
            if({{normal "event_type"}} AS type_words = '', 'unknown', type_words) AS event_type_text,
            if({{normal (words "metadata" "backend")}} AS backend_words = '', 'unknown', backend_words) AS backend,
            -- of an alert
            if({{normal "context"}} AS context_words = '', 'unknown', context_words) AS context_text,
            multiIf(kind != 'alert', '', position(context_text, 'fragmentation') > 0, 'high_fragmentation', position(context_text, 'oom') > 0 OR position(context_text, 'out of memory') > 0, 'oom_alert',
                context_text = 'unknown', 'generic_alert', context_text) AS category,
            multiIf(kind != 'alert', '', severity_words != '', severity_words, event_type IN ('critical', 'error'), 'critical', event_type = 'warning', 'warning', 'info') AS severity_told,
            -- of an end of memory
            if(kind != 'oom', '', multiIf(JSONType(metadata, 'oom_reason') = 'Null', 'null', JSONType(metadata, 'oom_reason') = 'String',
                {{jsontext (print "if(" (normal "JSONExtractString(metadata, 'oom_reason')") " AS reason_words = '', 'unknown', reason_words)")}}, JSONExtractRaw(metadata, 'oom_reason'))) AS reason,
            -- of a collector
            if(health_words = '', 'degraded', health_words) AS health,
            {{trimmed (print "substringIndex(" (normal (words "metadata" "collector_last_error")) ", ':', 1)")}} AS stem,
            if({{normal "substringUTF8(stem, 1, 120)"}} AS stem_words = '', 'unknown', stem_words) AS error_stem,
            if(kind != 'collector_degradation', [], arraySort(arrayMap(f -> if(startsWith(f, '"'), {{jsontext (print "if(" (normal "JSONExtractString(f)") " = '', 'unknown', " (normal "JSONExtractString(f)") ")")}}, f),
                JSONExtractArrayRaw(metadata, 'collector_partial_fields')))) AS partial_fields
        FROM (
            SELECT
                toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, rank, device_id, at, timestamp_ns, toString(event_type) AS event_type, toString(collector) AS collector,
                ifNull(context, '') AS context, metadata,
                event_type = 'error' AND (JSONHas(metadata, 'oom_reason') OR JSONHas(metadata, 'oom_dump_path')) AS is_oom,
                if(position(metadata, '"collector_health_status"') = 0, '', {{normal (words "metadata" "collector_health_status")}}) AS health_words,
                if(position(metadata, '"severity"') = 0, '', {{normal (string "metadata" "severity")}}) AS severity_words,
                multiIf(is_oom, 'oom', event_type = 'collector_degraded' OR health_words IN ('degraded', 'unhealthy'), 'collector_degradation',
                    event_type IN ('warning', 'critical', 'error') OR severity_words IN ('warning', 'critical', 'error'), 'alert', '') AS kind
            FROM {{db}}.memory_events
            WHERE kind != ''
        )
    )
    UNION ALL
    SELECT
        tenant, session_id, job_id, rank, device_id, at, timestamp_ns, event_type, collector, description, phase, 'hidden_memory_anomaly', severity,
        concat('Hidden-memory anomaly: ', classification),
        concat('{"backend":', {{jsontext "backend"}}, ',"classification":', {{jsontext "classification"}}, ',"collector":', {{jsontext "collector_text"}}, ',"phase":',
            if(phase_resolution = '', 'null', {{jsontext "phase_text"}}), ',"severity":', {{jsontext "severity"}}, '}')
    FROM (
        SELECT
            *,
            if({{normal "collector"}} AS collector_words = '', 'unknown', collector_words) AS collector_text,
            if({{normal (words "metadata" "backend")}} AS backend_words = '', 'unknown', backend_words) AS backend,
            if({{normal "phase"}} AS phase_words = '', 'unknown', phase_words) AS phase_text
        FROM {{db}}.memory_gap_phases
    )
)
