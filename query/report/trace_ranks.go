package report

import (
	"cmp"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TraceCollective adds up the collective operations of a process group and a name in which several ranks took part.
type TraceCollective struct {
	Job           string  `json:"job"`
	ProcessGroup  string  `json:"process_group"`
	Name          string  `json:"name"`
	Count         uint64  `json:"count"`
	Ranks         uint64  `json:"ranks"` // the most that took part in one
	MeanSkewNS    float64 `json:"mean_skew_ns"`
	LongestSkewNS uint64  `json:"longest_skew_ns"`
	SkewNS        uint64  `json:"skew_ns"`
	TransferNS    uint64  `json:"transfer_ns"`
	LateRank      int64   `json:"late_rank"` // that which was last most often
	LateCount     uint64  `json:"late_count"`
}

// TraceLate says how often a rank was the last one in a collective operation, and how long others waited for it then.
type TraceLate struct {
	Rank   int64  `json:"rank"`
	Count  uint64 `json:"count"`
	SkewNS uint64 `json:"skew_ns"`
}

// byRank sorts what is sorted by session already.
func byRank[T any](list []T, rank func(T) int64) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(rank(a), rank(b)) })
}

func readTraceCollectives(in *traceReader) error {
	from, args := in.of("trace_collective_ranks")
	late := map[int64]*TraceLate{}
	err := in.each("SELECT job, pg, title, sum(times) AS n, max(most), sum(skews) AS skew, max(longest), sum(transfers), "+
		"argMax(late, (times, -late)), max(times), groupArray((late, times, skews)) FROM (SELECT job, pg, title, late, "+
		"count() AS times, max(ranks) AS most, sum(skew) AS skews, max(skew) AS longest, sum(transfer) AS transfers "+
		"FROM (SELECT toString(run_id) AS job, toString(process_group) AS pg, any(toString(name)) AS title, count() AS ranks, "+
		"toUInt64(max(at_ns) - min(at_ns)) AS skew, "+
		"toUInt64(greatest(min(till_ns) - max(at_ns), 0)) AS transfer, toInt64(argMax(rank, (at_ns, -rank))) AS late FROM "+from+
		" GROUP BY tenant, job, pg, has_seq, nth, key HAVING ranks > 1) GROUP BY job, pg, title, late) GROUP BY job, pg, title "+
		"ORDER BY skew DESC, job, pg, title", args, func(rows driver.Rows) error {
		var c TraceCollective
		var parts [][]any
		if err := rows.Scan(&c.Job, &c.ProcessGroup, &c.Name, &c.Count, &c.Ranks, &c.SkewNS, &c.LongestSkewNS, &c.TransferNS, &c.LateRank,
			&c.LateCount, &parts); err != nil {
			return err
		}
		c.MeanSkewNS = float64(c.SkewNS) / float64(max(c.Count, 1))
		in.r.Collectives = append(in.r.Collectives, c)
		for _, p := range parts {
			rank, times, skew := p[0].(int64), p[1].(uint64), p[2].(uint64)
			if late[rank] == nil {
				late[rank] = &TraceLate{Rank: rank}
			}
			late[rank].Count += times
			late[rank].SkewNS += skew
		}
		return nil
	})
	for _, l := range late {
		in.r.Late = append(in.r.Late, *l)
	}
	slices.SortFunc(in.r.Late, func(a, b TraceLate) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rank, b.Rank)) })
	in.r.Collectives = in.r.Collectives[:min(len(in.r.Collectives), in.r.Query.Top)]
	in.r.Late = in.r.Late[:min(len(in.r.Late), in.r.Query.Top)]
	return err
}
