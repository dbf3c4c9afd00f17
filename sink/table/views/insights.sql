{{range $i, $rule := rules}}{{if $i}}
UNION ALL
{{end}}SELECT tenant, session_id, rule, severity, category, subject, message, metric, value, threshold, share, numbers FROM {{db}}.{{$rule}}{{end}}
