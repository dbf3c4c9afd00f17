package report

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/hist"
)

// RegionsQuery says which captures of intra-kernel profilers to report on. The zero value is all.
type RegionsQuery struct {
	Database string // "" is warpline
	Tenant   string // "" is all
	Session  string // "" is all; else a session id or the beginning of one, with or without ikp:
	Kernel   string // "" is all
	Against  string // "" compares nothing; else what Session is, of the captures to compare with
	Top      int    // captures, and warps of those that end last (0: 10)
}

// Regions is what ReadRegions found. Times are in ns of the device's clock.
type Regions struct {
	Captures []RegionCapture `json:"captures"` // the latest first
	Regions  []Region        `json:"regions"`  // most time first
	Late     []LateWarp      `json:"late"`     // those that end last, of captures whose slices have not expired
	Changed  []RegionChange  `json:"changed"`  // the largest change first, in spreads

	Query RegionsQuery `json:"-"`
	All   uint64       `json:"-"` // captures that there are
	Base  uint64       `json:"-"` // captures to compare with
}

// RegionCapture is a capture of one launch.
type RegionCapture struct {
	Tenant         string    `json:"tenant"`
	Session        string    `json:"session"`
	Kernel         string    `json:"kernel"`     // "" unknown, or several
	Clock          string    `json:"clock"`      // globaltimer, or cycles, of which each is shown as a ns
	StartedAt      time.Time `json:"started_at"` // 1970 unknown
	Recorded       uint64    `json:"recorded"`
	Lost           uint64    `json:"lost"`
	UnmatchedBegin uint64    `json:"unmatched_begin"`
	UnmatchedEnd   uint64    `json:"unmatched_end"`
	PerWarpCap     uint32    `json:"per_warp_cap"`
	EnoughCap      uint32    `json:"enough_cap"` // what per_warp_cap would lose nothing if all warps record alike; 0 where nothing is lost
}

// Region is a region of a kernel, over all captures.
type Region struct {
	Kernel    string  `json:"kernel"`
	Name      string  `json:"name"`
	Captures  uint64  `json:"captures"`
	Count     uint64  `json:"count"`
	TotalNS   uint64  `json:"total_ns"`
	Share     float64 `json:"share"` // of the time of all regions of the kernel; they may lie in each other
	MinNS     uint64  `json:"min_ns"`
	P50NS     uint64  `json:"p50_ns"`
	P90NS     uint64  `json:"p90_ns"`
	P99NS     uint64  `json:"p99_ns"`
	MaxNS     uint64  `json:"max_ns"`
	Imbalance float64 `json:"imbalance"` // the largest of the captures: largest mean of a block over the mean of all
	// Blocks are the means of blocks in the order of their numbers, several together where there are many; empty once slices have expired.
	Blocks []float64 `json:"blocks"`
}

// LateWarp is a warp that ended late in its launch.
type LateWarp struct {
	Session string `json:"session"`
	Block   uint32 `json:"block"`
	Warp    uint16 `json:"warp"`
	SM      uint16 `json:"sm"`
	EndsNS  uint64 `json:"ends_ns"` // after the first slice of its capture
	Region  string `json:"region"`  // that it was in
}

// RegionChange is a region now and in the base.
type RegionChange struct {
	Kernel     string  `json:"kernel"`
	Name       string  `json:"name"`
	MeanNS     float64 `json:"mean_ns"`
	BaseMeanNS float64 `json:"base_mean_ns"`
	Spreads    float64 `json:"spreads"` // the change in standard deviations of the base; 0 where they are not known any more
}

// blockCells is how many cells the strip of blocks has at most.
const blockCells = 64

// ReadRegions asks ClickHouse. conn may be a user that only reads; it stays open.
func ReadRegions(ctx context.Context, conn driver.Conn, q RegionsQuery) (*Regions, error) {
	q.Database, q.Top = cmp.Or(q.Database, "warpline"), cmp.Or(q.Top, 10)
	r := &Regions{Query: q, Captures: []RegionCapture{}, Regions: []Region{}, Late: []LateWarp{}, Changed: []RegionChange{}}
	in := &regionsReader{reader{ctx: ctx, conn: conn}, r}
	for _, part := range []struct {
		name string
		read func(*regionsReader) error
	}{
		{"captures", readCaptures}, {"regions", readRegions}, {"blocks", readBlocks}, {"late warps", readLate}, {"changes", readChanged},
	} {
		if err := part.read(in); err != nil {
			return nil, fmt.Errorf("read %s: %w", part.name, err)
		}
		if len(r.Captures) == 0 {
			break
		}
	}
	return r, nil
}

type regionsReader struct {
	reader
	r *Regions
}

// of returns "database.view WHERE …" with its arguments, for captures of a session.
func (q RegionsQuery) of(view, session string) (from string, args []any) {
	where := []string{"true"}
	if q.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, q.Tenant)
	}
	if session != "" {
		begins, asked := SessionBegins("session_id", session)
		where, args = append(where, begins), append(args, asked...)
	}
	if q.Kernel != "" {
		where, args = append(where, "kernel = ?"), append(args, q.Kernel)
	}
	return "`" + q.Database + "`." + view + " WHERE " + strings.Join(where, " AND "), args
}

func readCaptures(in *regionsReader) error {
	all := in.r.Query
	all.Kernel = ""
	from, args := all.of("region_captures", all.Session)
	if in.r.Query.Kernel != "" { // a capture can have several kernels
		with, more := in.r.Query.of("region_trends", in.r.Query.Session)
		from, args = from+" AND (tenant, session_id) IN (SELECT tenant, session_id FROM "+with+")", append(args, more...)
	}
	return in.each(fmt.Sprintf("SELECT toString(tenant), toString(session_id) AS id, toString(kernel), toString(clock), started_at, "+
		"recorded, lost, unmatched_begin, unmatched_end, per_warp_cap, blocks * toUInt64(warps_per_block), count() OVER () FROM %s "+
		"ORDER BY started_at DESC, id LIMIT %d", from, in.r.Query.Top), args, func(rows driver.Rows) error {
		var c RegionCapture
		var warps uint64
		err := rows.Scan(&c.Tenant, &c.Session, &c.Kernel, &c.Clock, &c.StartedAt, &c.Recorded, &c.Lost, &c.UnmatchedBegin, &c.UnmatchedEnd,
			&c.PerWarpCap, &warps, &in.r.All)
		if c.Lost > 0 && warps > 0 && c.PerWarpCap > 0 {
			c.EnoughCap = enoughCap(c.Recorded, warps, c.PerWarpCap)
		}
		in.r.Captures = append(in.r.Captures, c)
		return err
	})
}

// enoughCap is the next power of two above the records of a warp: a ring has such a size.
func enoughCap(recorded, warps uint64, held uint32) uint32 {
	each := (recorded + warps - 1) / warps
	return uint32(min(1<<31, max(uint64(1)<<bits.Len64(each-1), 2*uint64(held))))
}

func readRegions(in *regionsReader) error {
	from, args := in.r.Query.of("region_trends", in.r.Query.Session)
	quantile := func(q float64) string { return hist.QuantileSQL("h", "n", "low", "high", q) }
	return in.each(fmt.Sprintf("SELECT k, region, captures, n, total, total / greatest(1, sum(total) OVER (PARTITION BY k)), low, %s, "+
		"%s, %s, high, uneven FROM (SELECT toString(kernel) AS k, toString(name) AS region, uniqExact(tenant, session_id) AS captures, "+
		"sum(count) AS n, sum(total_ns) AS total, min(min_ns) AS low, max(max_ns) AS high, sumMap(duration_hist) AS h, max(imbalance) AS uneven "+
		"FROM %s "+
		"GROUP BY k, region) ORDER BY total DESC, k, region LIMIT 200", quantile(0.5), quantile(0.9), quantile(0.99), from), args,
		func(rows driver.Rows) error {
			r := Region{Blocks: []float64{}}
			err := rows.Scan(&r.Kernel, &r.Name, &r.Captures, &r.Count, &r.TotalNS, &r.Share, &r.MinNS, &r.P50NS, &r.P90NS, &r.P99NS, &r.MaxNS,
				&r.Imbalance)
			in.r.Regions = append(in.r.Regions, r)
			return err
		})
}

// readBlocks reads the means of blocks from the slices, so there are none once those have expired. The strips of one kernel have one scale.
func readBlocks(in *regionsReader) error {
	from, args := in.r.Query.of("regions", in.r.Query.Session)
	return in.each(fmt.Sprintf("SELECT k, region, cell, sum(total) / sum(n) FROM (SELECT k, region, total, n, "+
		"intDiv(b, greatest(1, toUInt32(ceil((max(b) OVER (PARTITION BY k) + 1) / %d)))) AS cell FROM (SELECT toString(kernel) AS k, "+
		"toString(name) AS region, block AS b, sum(toFloat64(duration_ns)) AS total, count() AS n FROM %s GROUP BY k, region, b)) "+
		"GROUP BY k, region, cell ORDER BY k, region, cell", blockCells, from), args, func(rows driver.Rows) error {
		var kernel, name string
		var cell uint32
		var mean float64
		if err := rows.Scan(&kernel, &name, &cell, &mean); err != nil {
			return err
		}
		for i := range in.r.Regions {
			if r := &in.r.Regions[i]; r.Kernel == kernel && r.Name == name {
				r.Blocks = append(r.Blocks, mean)
			}
		}
		return nil
	})
}

func readLate(in *regionsReader) error {
	from, args := in.r.Query.of("regions", in.r.Query.Session)
	return in.each(fmt.Sprintf("SELECT id, b, w, last_sm, toUInt64(latest - min(first) OVER (PARTITION BY id)) AS late, toString(last_name) "+
		"FROM (SELECT toString(session_id) AS id, block AS b, warp AS w, argMax(sm, ends) AS last_sm, argMax(name, ends) AS last_name, "+
		"max(ends) AS latest, min(at) AS first FROM (SELECT session_id, block, warp, sm, name, "+
		"toUInt64(toUnixTimestamp64Nano(started_at)) AS at, at + duration_ns AS ends FROM %s) GROUP BY id, b, w) "+
		"ORDER BY late DESC, id, b, w LIMIT %d", from, in.r.Query.Top), args, func(rows driver.Rows) error {
		var l LateWarp
		err := rows.Scan(&l.Session, &l.Block, &l.Warp, &l.SM, &l.EndsNS, &l.Region)
		in.r.Late = append(in.r.Late, l)
		return err
	})
}

// readChanged compares means; the spread is that of the base's slices while they are kept.
func readChanged(in *regionsReader) error {
	q := in.r.Query
	if q.Against == "" {
		return nil
	}
	from, asked := q.of("region_captures", q.Against)
	if q.Kernel != "" {
		from, asked = q.of("region_trends", q.Against)
	}
	if err := in.each("SELECT uniqExact(tenant, session_id) FROM "+from, asked, func(rows driver.Rows) error {
		return rows.Scan(&in.r.Base)
	}); err != nil {
		return err
	}
	now, args := q.of("region_trends", q.Session)
	base, more := q.of("region_trends", q.Against)
	slices, last := q.of("regions", q.Against)
	return in.each(fmt.Sprintf("SELECT n.k, n.region, n.mean, b.mean, if(s.spread > 0, (n.mean - b.mean) / s.spread, 0) AS spreads FROM "+
		"(SELECT toString(kernel) AS k, toString(name) AS region, sum(total_ns) / sum(count) AS mean FROM %s GROUP BY k, region) AS n "+
		"INNER JOIN (SELECT toString(kernel) AS k, toString(name) AS region, sum(total_ns) / sum(count) AS mean FROM %s GROUP BY k, region) "+
		"AS b ON n.k = b.k AND n.region = b.region "+
		"LEFT JOIN (SELECT toString(kernel) AS k, toString(name) AS region, stddevPop(duration_ns) AS spread FROM %s GROUP BY k, region) "+
		"AS s ON n.k = s.k AND n.region = s.region ORDER BY abs(spreads) DESC, abs(n.mean - b.mean) DESC, n.k, n.region LIMIT 200", now, base,
		slices),
		append(append(args, more...), last...), func(rows driver.Rows) error {
			var c RegionChange
			err := rows.Scan(&c.Kernel, &c.Name, &c.MeanNS, &c.BaseMeanNS, &c.Spreads)
			in.r.Changed = append(in.r.Changed, c)
			return err
		})
}
