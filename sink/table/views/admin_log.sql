-- A row is a change to a tenant or a key, a deletion, a purge, a replay or a drop, by an administrator. who is the id of the key that
-- asked, cli for a command, or file for that of --tenants. change is JSON: by field what was and what is. outcome is done, failed (nothing
-- was changed), or begun where it is not known what became of it, because the process was killed. Rows of what belongs to no tenant have
-- tenant ''.
SELECT
    l.tenant AS tenant,
    min(l.at) AS at,
    l.entry_id AS entry_id,
    any(l.who) AS who,
    any(l.action) AS action,
    argMax(l.object, l.outcome != 'begun') AS object,
    argMax(l.change, l.outcome != 'begun') AS change,
    multiIf(countIf(l.outcome = 'done') > 0, 'done', countIf(l.outcome = 'failed') > 0, 'failed', 'begun') AS outcome
FROM {{db}}.admin_log_data AS l
GROUP BY l.tenant, l.entry_id
