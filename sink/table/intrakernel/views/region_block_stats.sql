-- A row is a region in a block of one capture, with the numbers of the profiler's distributions of blocks.
-- As region_stats; hist has the bins of the block's own shortest and longest.
SELECT
    tenant, session_id, kernel, block, region, name,
    {{template "region_numbers"}},
    arrayMap(x -> x / n, arrayResize(counts, block_bins, 0)) AS hist
FROM (
    SELECT
        tenant, session_id, kernel, region, block, any(name) AS name, any(of_n) AS n, any(block_bins) AS block_bins,
        any(mean_dur) AS mean_dur, any(m2) AS m2, any(min_dur) AS min_dur, any(max_dur) AS max_dur,
        groupArrayInsertAt(toUInt64(0))(in_bin, bin) AS counts
    FROM (
        SELECT
            r.tenant AS tenant, r.session_id AS session_id, r.kernel AS kernel, r.region AS region, r.block AS block,
            {{template "region_bin" "block_bins"}} AS bin,
            sum(r.equal) AS in_bin, any(g.name) AS name, any(g.n) AS of_n, any(g.block_bins) AS block_bins,
            any(g.mean_dur) AS mean_dur, any(g.m2) AS m2, any(g.min_dur) AS min_dur, any(g.max_dur) AS max_dur
        FROM (
            SELECT tenant, session_id, kernel, region, block, duration_ns, count() AS equal FROM {{db}}.regions_data
            GROUP BY tenant, session_id, kernel, region, block, duration_ns
        ) AS r
        INNER JOIN ({{template "region_sums" ", block"}}) AS g
            ON r.tenant = g.tenant AND r.session_id = g.session_id AND r.kernel = g.kernel AND r.region = g.region AND r.block = g.block
        GROUP BY tenant, session_id, kernel, region, block, bin
    )
    GROUP BY tenant, session_id, kernel, region, block
)
