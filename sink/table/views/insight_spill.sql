-- A row is a kernel that keeps values in local memory because it lacks registers.
SELECT * FROM ({{template "launch_rules"}}) WHERE rule = 'spill'
