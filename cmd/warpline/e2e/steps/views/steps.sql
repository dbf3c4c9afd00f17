-- A row is a run, with its steps.
SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, sum(steps) AS steps, sum(total_ns) AS total_ns
FROM {{db}}.steps_data
GROUP BY tenant, session_id
