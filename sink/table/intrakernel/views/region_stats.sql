-- A row is a region of a kernel in one capture, with the numbers of the profiler's own summary.
-- All durations are in ns times the scale of the capture. hist has the shares of the bins between min_dur and max_dur. percentiles come
-- from the histogram, as the profiler's do: region_trends has percentiles that do not depend on bins. It goes when the slices expire.
{{/* The slices as they are added up: sums are whole numbers, so the order of rows does not matter. . is the columns after the region. */}}
{{define "region_sums"}}
    SELECT
        s.tenant AS tenant, s.session_id AS session_id, s.kernel AS kernel, s.region AS region{{.}}, s.name AS name, s.n AS n,
        c.scale AS scale, c.bins AS bins, c.block_bins AS block_bins, toFloat64(s.total) / s.n * c.scale AS mean_dur,
        toFloat64(toInt256(s.n) * toInt256(s.squares) - toInt256(s.total) * toInt256(s.total)) / s.n * c.scale * c.scale AS m2,
        least(s.least_ns * c.scale, s.most_ns * c.scale) AS min_dur, greatest(s.least_ns * c.scale, s.most_ns * c.scale) AS max_dur
    FROM (
        SELECT
            tenant, session_id, kernel, region{{.}}, CAST(max(name), 'String') AS name, count() AS n,
            sum(toUInt128(duration_ns)) AS total,
            sum(toUInt256(toUInt128(duration_ns) * toUInt128(duration_ns))) AS squares, toFloat64(min(duration_ns)) AS least_ns,
            toFloat64(max(duration_ns)) AS most_ns
        FROM {{db}}.regions_data
        GROUP BY tenant, session_id, kernel, region{{.}}
    ) AS s
    INNER JOIN {{db}}.region_captures AS c ON s.tenant = c.tenant AND s.session_id = c.session_id
{{end -}}
{{/* The numbers of a summary of what region_sums gave. */}}
{{define "region_numbers"}}
    n AS count, mean_dur, if(mean_dur = 0, NULL, sqrt(greatest(0, var_dur_sample)) / abs(mean_dur)) AS cv_dur, m2 / n AS var_dur_pop,
    if(n > 1, m2 / (n - 1), 0) AS var_dur_sample, min_dur, max_dur{{end -}}
{{/* Equal durations are counted before they are joined: the device's clock has ticks of 32 ns, so there are few different ones. */}}
{{/* The bin of a duration between the shortest and the longest. */}}
{{define "region_bin"}}if(g.max_dur > g.min_dur, least(toUInt32(floor(greatest(0, least(1,
    (toFloat64(r.duration_ns) * g.scale - g.min_dur) / (g.max_dur - g.min_dur))) * g.{{.}})), toUInt32(g.{{.}} - 1)), 0){{end -}}
SELECT
    tenant, session_id, kernel, region, name,
    {{template "region_numbers"}},
    CAST(arrayZip({{levels "keys"}}, arrayMap((level, at) -> if(at = 0, max_dur,
        (min_dur + width * (at - 1) AS lower) + greatest(0, least(1, (level / 100 - if(at = 1, 0, cumulated[at - 1])) / hist[at])) *
            ((lower + width) - lower)), {{levels "numbers"}}, reached)), 'Map(String, Float64)') AS percentiles,
    hist
FROM (
    SELECT
        *, arrayResize(counts, bins, 0) AS filled, arrayMap(x -> x / n, filled) AS hist, arrayCumSum(hist) AS cumulated,
        (max_dur - min_dur) / bins AS width,
        arrayMap(level -> arrayFirstIndex(x -> x >= level / 100, cumulated), {{levels "numbers"}}) AS reached
    FROM (
        SELECT
            tenant, session_id, kernel, region, any(name) AS name, any(of_n) AS n, any(scale) AS scale, any(bins) AS bins,
            any(mean_dur) AS mean_dur, any(m2) AS m2, any(min_dur) AS min_dur, any(max_dur) AS max_dur,
            groupArrayInsertAt(toUInt64(0))(in_bin, bin) AS counts
        FROM (
            SELECT
                r.tenant AS tenant, r.session_id AS session_id, r.kernel AS kernel, r.region AS region,
                {{template "region_bin" "bins"}} AS bin,
                sum(r.equal) AS in_bin, any(g.name) AS name, any(g.n) AS of_n, any(g.scale) AS scale, any(g.bins) AS bins,
                any(g.mean_dur) AS mean_dur, any(g.m2) AS m2, any(g.min_dur) AS min_dur, any(g.max_dur) AS max_dur
            FROM (
                SELECT tenant, session_id, kernel, region, duration_ns, count() AS equal FROM {{db}}.regions_data
                GROUP BY tenant, session_id, kernel, region, duration_ns
            ) AS r
            INNER JOIN ({{template "region_sums" ""}}) AS g
                ON r.tenant = g.tenant AND r.session_id = g.session_id AND r.kernel = g.kernel AND r.region = g.region
            GROUP BY tenant, session_id, kernel, region, bin
        )
        GROUP BY tenant, session_id, kernel, region
    )
)
