-- A row is a session and how its tracker says that it ended. Summaries of trackers say it, or an event of type stop; of several the one
-- that says most counts.
SELECT tenant, session_id, {{ending "report" "told.1"}} AS telling, told.2 AS at
FROM (
    SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, max(({{endweight "rank"}}, at)) AS told
    FROM {{db}}.session_ends_data
    WHERE rank BETWEEN 6 AND 10
    GROUP BY tenant, session_id
)
