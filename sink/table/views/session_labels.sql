-- A row is a value of a label of a session, as its client sends it.
-- '(other)' stands for the values beyond those that are kept of a session, and rows_folded says how many rows had them.
SELECT r.tenant AS tenant, r.session_id AS session_id, r.label AS label, r.value AS value, sum(r.rows) AS rows_folded
FROM {{db}}.session_labels_data AS r
GROUP BY tenant, session_id, label, value
