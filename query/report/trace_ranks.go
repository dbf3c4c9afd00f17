package report

import (
	"cmp"
	"fmt"
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
	LateRank      int64   `json:"late_rank"` // that which was last most often, if LateCount is not 0
	LateCount     uint64  `json:"late_count"`
}

// TraceLate says how often a rank was the last one in a collective operation, and how long others waited for it then.
type TraceLate struct {
	Rank   int64  `json:"rank"`
	Count  uint64 `json:"count"`
	SkewNS uint64 `json:"skew_ns"`
}

// maxParts bounds how many collective operations of a rank are read.
const maxParts = 50_000

// operation is a collective operation as far as the ranks read until now took part in it.
type operation struct {
	name               string
	ranks              uint64
	first, last, until int64 // the first rank's begin, the last one's, and the first one's end, in ns
	late               int64
}

type operationKey struct {
	job, group, key string
	hasSeq          uint8
	nth             uint64
}

// readTraceCollectives puts the parts of ranks together here: in SQL all ranks' launches would be in memory at once.
func readTraceCollectives(all *traceReader) error {
	if len(all.at) < 2 {
		return nil
	}
	operations := map[operationKey]*operation{}
	err := all.alone(func(in *traceReader) error {
		from, args := in.of("trace_collective_ranks")
		return in.each(fmt.Sprintf("SELECT toString(run_id), toString(process_group), toString(key), has_seq, toUInt64(nth), toString(name), "+
			"toUnixTimestamp64Nano(started_at) AS begun, toUnixTimestamp64Nano(ended_at), toInt64(rank) FROM %s "+
			"ORDER BY begun LIMIT %d", from, maxParts), args, func(rows driver.Rows) error {
			var k operationKey
			var name string
			var at, till, rank int64
			if err := rows.Scan(&k.job, &k.group, &k.key, &k.hasSeq, &k.nth, &name, &at, &till, &rank); err != nil {
				return err
			}
			o := operations[k]
			if o == nil {
				o = &operation{name: name, first: at, last: at, until: till, late: rank}
				operations[k] = o
			}
			o.ranks++
			o.first, o.until = min(o.first, at), min(o.until, till)
			if at > o.last || at == o.last && rank < o.late {
				o.last, o.late = at, rank
			}
			return nil
		})
	})
	all.r.collect(operations)
	return err
}

// collect adds operations up by name, and by who was last.
func (r *Trace) collect(operations map[operationKey]*operation) {
	type groupKey struct{ job, group, name string }
	type lateKey struct {
		groupKey
		rank int64
	}
	groups, late, times := map[groupKey]*TraceCollective{}, map[int64]*TraceLate{}, map[lateKey]uint64{}
	for k, o := range operations {
		if o.ranks < 2 {
			continue
		}
		key := groupKey{k.job, k.group, o.name}
		if groups[key] == nil {
			groups[key] = &TraceCollective{Job: k.job, ProcessGroup: k.group, Name: o.name}
		}
		c, skew := groups[key], uint64(o.last-o.first)
		c.Count, c.Ranks, c.SkewNS, c.LongestSkewNS = c.Count+1, max(c.Ranks, o.ranks), c.SkewNS+skew, max(c.LongestSkewNS, skew)
		c.TransferNS += uint64(max(o.until-o.last, 0))
		if skew == 0 {
			continue // none was late
		}
		if late[o.late] == nil {
			late[o.late] = &TraceLate{Rank: o.late}
		}
		late[o.late].Count++
		late[o.late].SkewNS += skew
		times[lateKey{key, o.late}]++
	}
	for k, n := range times {
		if c := groups[k.groupKey]; n > c.LateCount || n == c.LateCount && k.rank < c.LateRank {
			c.LateRank, c.LateCount = k.rank, n
		}
	}
	for _, c := range groups {
		c.MeanSkewNS = float64(c.SkewNS) / float64(c.Count)
		r.Collectives = append(r.Collectives, *c)
	}
	for _, l := range late {
		r.Late = append(r.Late, *l)
	}
	slices.SortFunc(r.Collectives, func(a, b TraceCollective) int {
		return cmp.Or(cmp.Compare(b.SkewNS, a.SkewNS), cmp.Compare(a.Job, b.Job), cmp.Compare(a.ProcessGroup, b.ProcessGroup),
			cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(r.Late, func(a, b TraceLate) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rank, b.Rank)) })
	r.Collectives, r.Late = r.Collectives[:min(len(r.Collectives), r.Query.Top)], r.Late[:min(len(r.Late), r.Query.Top)]
}
