-- A row is one time that an issue was hit. fingerprint_id identifies the issue. A hit is an event that says that memory ran out, or else
-- that its collector is not well, or else that is a warning; and each finding of memory_gaps. dimensions is what the fingerprint is made
-- of, texts without their numbers and addresses. Each step is a query of its own, because ClickHouse writes an alias out wherever it is
-- used.
SELECT
    tenant, session_id, job_id, rank, device_id, at, kind, {{issueid "kind" "dimensions"}} AS fingerprint_id, severity, title,
    dimensions, event_type, collector, context, phase, timestamp_ns
FROM (
    SELECT
        tenant, session_id, job_id, rank, device_id, at, timestamp_ns, event_type, collector, context, '' AS phase, kind,
        multiIf(kind = 'oom', 'critical', kind = 'alert', severity_words, health_words = 'unhealthy', 'critical', 'warning') AS severity,
        multiIf(kind = 'oom', 'OOM telemetry event', kind = 'alert', concat('Alert: ', replaceAll(category, '_', ' ')),
            'Collector degradation') AS title,
        multiIf(
            kind = 'oom', concat('{"backend":', backend_json, ',"reason":', if(reason_type = 'String', reason_json, reason), '}'),
            kind = 'alert', concat('{"backend":', backend_json, ',"category":', category_json, ',"collector":', collector_json,
                ',"event_type":', type_json, ',"severity":', severity_json, '}'),
            concat('{"backend":', backend_json, ',"collector":', collector_json, ',"error_stem":', error_json, ',"health_status":',
                health_json,
                ',"partial_fields":[', arrayStringConcat(arraySort(fields_json), ','), ']}')) AS dimensions
    FROM (
        SELECT
            *, {{jsontext "backend_words"}} AS backend_json, {{jsontext "category"}} AS category_json,
            {{jsontext "collector_words"}} AS collector_json, {{jsontext "type_words"}} AS type_json,
            {{jsontext "severity_words"}} AS severity_json, {{jsontext "health_words"}} AS health_json,
            {{jsontext "stem_words"}} AS error_json, {{jsontext "reason_words"}} AS reason_json,
            arrayMap((f, w) -> if(startsWith(f, '"'), {{jsontext "w"}}, f), fields, field_words) AS fields_json
        FROM (
            SELECT
                * EXCEPT (category, severity_words, health_words, backend_words, collector_words, type_words, reason_words, field_words,
                    stem_words),
                if(category = '', 'generic_alert', category) AS category,
                multiIf(severity_words != '', severity_words, event_type IN ('critical', 'error'), 'critical', event_type = 'warning',
                    'warning', 'info') AS severity_words,
                if(health_words = '', 'degraded', health_words) AS health_words,
                if(backend_words = '', 'unknown', backend_words) AS backend_words,
                if(collector_words = '', 'unknown', collector_words) AS collector_words,
                if(type_words = '', 'unknown', type_words) AS type_words,
                if(reason_words = '', 'unknown', reason_words) AS reason_words,
                arrayMap(w -> if(w = '', 'unknown', w), field_words) AS field_words,
                if(stem_words = '', 'unknown', stem_words) AS stem_words
            FROM (
                SELECT
                    *, {{normal "stem"}} AS stem_words,
                    multiIf(position(context_words, 'fragmentation') > 0, 'high_fragmentation',
                        position(context_words, 'oom') > 0 OR position(context_words, 'out of memory') > 0, 'oom_alert',
                        context_words = 'unknown', '', context_words) AS category
                FROM (
                    SELECT *, substringUTF8({{trimmed "substringIndex(error_words, ':', 1)"}}, 1, 120) AS stem
                    FROM (
                        SELECT
                            *, {{normal "collector"}} AS collector_words, {{normal "event_type"}} AS type_words,
                            {{normal "backend"}} AS backend_words, {{normal "context"}} AS context_words,
                            {{normal "reason_text"}} AS reason_words, {{normal "error"}} AS error_words,
                            arrayMap(t -> {{normal "t"}}, field_texts) AS field_words
                        FROM (
                            SELECT
                                *, if(reason_type = 'String', JSONExtractString(reason), '') AS reason_text,
                                arrayMap(f -> if(startsWith(f, '"'), JSONExtractString(f), ''), fields) AS field_texts
                            FROM (
                                SELECT
                                    *, {{words "metadata" "backend"}} AS backend,
                                    if(kind = 'oom', toString(JSONType(metadata, 'oom_reason')), 'Null') AS reason_type,
                                    if(reason_type = 'Null', 'null', JSONExtractRaw(metadata, 'oom_reason')) AS reason,
                                    if(kind = 'collector_degradation', {{words "metadata" "collector_last_error"}}, '') AS error,
                                    if(kind = 'collector_degradation', JSONExtractArrayRaw(metadata, 'collector_partial_fields'), [])
                                        AS fields
                                FROM (
                                    SELECT
                                        *, multiIf(is_oom, 'oom', event_type = 'collector_degraded'
                                            OR health_words IN ('degraded', 'unhealthy'), 'collector_degradation',
                                            event_type IN ('warning', 'critical', 'error')
                                                OR severity_words IN ('warning', 'critical', 'error'), 'alert', '') AS kind
                                    FROM (
                                        SELECT *, {{normal "health"}} AS health_words, {{normal "told"}} AS severity_words
                                        FROM (
                                            SELECT
                                                toString(tenant) AS tenant, toString(session_id) AS session_id,
                                                ifNull(job_id, '') AS job_id, rank, device_id, at, timestamp_ns,
                                                toString(event_type) AS event_type, toString(collector) AS collector,
                                                ifNull(context, '') AS context, metadata,
                                                event_type = 'error' AND (JSONHas(metadata, 'oom_reason')
                                                    OR JSONHas(metadata, 'oom_dump_path')) AS is_oom,
                                                if(position(metadata, '"collector_health_status"') = 0, '',
                                                    {{words "metadata" "collector_health_status"}}) AS health,
                                                if(position(metadata, '"severity"') = 0, '', {{string "metadata" "severity"}}) AS told
                                            FROM {{db}}.memory_events
                                        )
                                    )
                                )
                                WHERE kind != ''
                            )
                        )
                    )
                )
            )
        )
    )
    UNION ALL
    SELECT
        tenant, session_id, job_id, rank, device_id, at, timestamp_ns, event_type, collector, description, phase,
        'hidden_memory_anomaly', severity,
        concat('Hidden-memory anomaly: ', classification),
        concat('{"backend":', backend_json, ',"classification":"', classification, '","collector":', collector_json, ',"phase":',
            if(phase_resolution = '', 'null', phase_json), ',"severity":"', severity, '"}')
    FROM (
        SELECT *, {{jsontext "if(backend_words = '', 'unknown', backend_words)"}} AS backend_json,
            {{jsontext "if(collector_words = '', 'unknown', collector_words)"}} AS collector_json,
            {{jsontext "if(phase_words = '', 'unknown', phase_words)"}} AS phase_json
        FROM (
            SELECT *, {{normal "collector"}} AS collector_words, {{normal "backend"}} AS backend_words, {{normal "phase"}} AS phase_words
            FROM (SELECT *, {{words "metadata" "backend"}} AS backend FROM {{db}}.memory_gap_phases)
        )
    )
)
