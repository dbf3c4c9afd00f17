-- A row is one report of how a session ended; a session may have several.
SELECT
    tenant, session_id, at,
    {{ending "report" (endweight "rank")}} AS end_reason,
    rank, synthetic, exit_code, signal, window_stopped
FROM {{db}}.session_ends_data
