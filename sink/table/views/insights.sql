-- A row is something that stands out in a session, found by one of the rules insight_….
{{template "launch_rules"}}{{range rules}}
UNION ALL
SELECT tenant, session_id, rule, severity, category, subject, message, metric, value, threshold, share, numbers
    FROM {{db}}.{{.}}{{end}}
