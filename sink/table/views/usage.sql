-- A row is a day of a tenant and a source: what was sent and refused, and what its rows take at rest now.
SELECT
    u.tenant AS tenant,
    u.day AS day,
    u.source AS source,
    sum(u.events) AS events,
    sum(u.bytes) AS bytes,
    sum(u.stored_bytes) AS stored_bytes,
    sum(u.rejected) AS rejected,
    sum(u.duplicates) AS duplicates,
    sum(u.door_events) AS door_events,
    sum(u.door_bytes) AS door_bytes,
    sum(u.lost_events) AS lost_events
FROM (
    SELECT tenant, day, source, events, bytes, toUInt64(0) AS stored_bytes, rejected, duplicates, door_events, door_bytes,
        lost_events
    FROM {{db}}.usage_data
    UNION ALL
    SELECT tenant, day, source, 0, 0, raw_bytes + rollup_bytes, 0, 0, 0, 0, 0
    FROM {{db}}.stored_data
    WHERE measurement = (SELECT max(measurement) FROM {{db}}.stored_data)
) AS u
GROUP BY u.tenant, u.day, u.source
