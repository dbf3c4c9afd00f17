-- A row is a reason why a warp was where the sampler found it, with an explanation.
SELECT r.1 AS name, r.2 AS kind, r.3 AS `group`, r.4 AS meaning, r.5 AS remedy, r.6 AS doc
FROM (SELECT arrayJoin({{reasons}}) AS r)
