-- A row is something that was refused, with its bytes. Equal rows of one insert share a reject_id. attempts is how often it was sent again,
-- and replayed_at when that was last taken, 1970 for never.
SELECT
    r.tenant AS tenant,
    r.at AS at,
    r.source AS source,
    r.reason AS reason,
    r.detail AS detail,
    r.payload_ref AS payload_ref,
    r.payload AS payload,
    r.session_id AS session_id,
    r.type AS type,
    r.events AS events,
    r.bytes AS bytes,
    r.received_at AS received_at,
    r.retention_days AS retention_days,
    r.reject_id AS reject_id,
    r.stage AS stage,
    a.attempts AS attempts,
    a.replayed_at AS replayed_at
FROM (
    SELECT *, substring(lower(hex(sipHash128(toString(tenant), toString(session_id), at, toString(source), toString(reason), detail,
        toString(type), payload, rows_partition, chunk))), 1, 16) AS reject_id
    FROM {{db}}.rejects_data
) AS r
LEFT JOIN (
    SELECT
        toString(tenant) AS tenant,
        reject_id,
        count() AS attempts,
        maxIf(at, stored > 0 AND refused = 0) AS replayed_at
    FROM {{db}}.reject_replays_data
    GROUP BY tenant, reject_id
) AS a ON a.tenant = toString(r.tenant) AND a.reject_id = r.reject_id
