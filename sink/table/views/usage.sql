-- A row is a day of a tenant and a source: what was sent, stored and refused.
SELECT
    u.tenant AS tenant,
    u.day AS day,
    u.source AS source,
    sum(u.events) AS events,
    sum(u.bytes) AS bytes,
    sum(u.stored_bytes) AS stored_bytes,
    sum(u.rejected) AS rejected,
    sum(u.duplicates) AS duplicates
FROM {{db}}.usage_data AS u
GROUP BY u.tenant, u.day, u.source
