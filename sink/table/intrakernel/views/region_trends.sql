-- A row is a region of a kernel in one capture, for as long as rollups are kept: what to compare over launches and months.
-- Durations are in ns of the device's clock, not scaled. imbalance is the largest mean of a block over the mean of all: 1 where all blocks
-- take equally long.
SELECT
    t.tenant AS tenant, t.session_id AS session_id, t.kernel AS kernel, t.region AS region, t.name AS name, t.started_at AS started_at,
    t.slices AS count, t.sum_ns AS total_ns, t.least_ns AS min_ns, t.most_ns AS max_ns,
    {{quantile "t.durations" "t.slices" "t.least_ns" "t.most_ns" 0.5}} AS p50_ns,
    {{quantile "t.durations" "t.slices" "t.least_ns" "t.most_ns" 0.9}} AS p90_ns,
    {{quantile "t.durations" "t.slices" "t.least_ns" "t.most_ns" 0.99}} AS p99_ns,
    t.durations AS duration_hist,
    if(t.sum_ns = 0, 1, b.slowest / (t.sum_ns / t.slices)) AS imbalance
FROM (
    SELECT
        tenant, session_id, kernel, region, CAST(max(r.name), 'String') AS name, min(r.started_at) AS started_at, sum(r.slices) AS slices,
        sum(r.total_ns) AS sum_ns, min(r.min_ns) AS least_ns, max(r.max_ns) AS most_ns, sumMap(r.duration_hist) AS durations
    FROM {{db}}.region_trends_data AS r
    GROUP BY tenant, session_id, kernel, region
) AS t
-- Blocks come together in arrays: five times as fast as a group for each. Only where a block has several rows, they are added up.
INNER JOIN (
    SELECT
        tenant, session_id, kernel, region,
        if(length(arrayDistinct(blocks)) = length(blocks), arrayMax((ns, n) -> ns / n, totals, counts), arrayMax(
            (ns, n) -> ns / n, arrayReduce('sumMap', arrayMap(b -> [b], blocks), arrayMap(ns -> [ns], totals)).2,
            arrayReduce('sumMap', arrayMap(b -> [b], blocks), arrayMap(n -> [n], counts)).2)) AS slowest
    FROM (
        SELECT
            tenant, session_id, kernel, region, groupArray(r.block) AS blocks, groupArray(r.total_ns) AS totals,
            groupArray(r.slices) AS counts
        FROM {{db}}.region_blocks_data AS r
        GROUP BY tenant, session_id, kernel, region
    )
) AS b
    ON t.tenant = b.tenant AND t.session_id = b.session_id AND t.kernel = b.kernel AND t.region = b.region
