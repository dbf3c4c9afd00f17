-- A row is a minute (after 30 days an hour) of the slices of one name and category: calls and durations.
-- Slices whose names are beyond the bounds of a trace, 65,536 names, are those of (more names).
SELECT
    tenant, session_id, category, name, bucket, n AS calls, sum_ns AS total_ns, least_ns AS min_ns, most_ns AS max_ns,
    {{quantile "durations" "n" "least_ns" "most_ns" 0.5}} AS p50_ns,
    {{quantile "durations" "n" "least_ns" "most_ns" 0.9}} AS p90_ns,
    {{quantile "durations" "n" "least_ns" "most_ns" 0.99}} AS p99_ns,
    seconds AS bucket_s, durations AS duration_hist
FROM (
    SELECT
        tenant, session_id, category, name, bucket, max(s.bucket_s) AS seconds, sum(s.calls) AS n, sum(s.total_ns) AS sum_ns,
        min(s.min_ns) AS least_ns, max(s.max_ns) AS most_ns, sumMap(s.duration_hist) AS durations
    FROM {{db}}.trace_stats_data AS s
    GROUP BY tenant, session_id, category, name, bucket
)
