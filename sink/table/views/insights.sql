-- A row is something that stands out in a session, found by one of the rules insight_….
{{range $i, $rule := rules}}{{if $i}}
UNION ALL
{{end}}SELECT tenant, session_id, rule, severity, category, subject, message, metric, value, threshold, share, numbers
    FROM {{db}}.{{$rule}}{{end}}
