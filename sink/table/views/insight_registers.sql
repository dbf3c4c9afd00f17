-- A row is a kernel whose registers leave room for few warps.
SELECT * FROM ({{template "launch_rules"}}) WHERE rule = 'registers'
