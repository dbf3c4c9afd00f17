package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// StallsQuery says which stalls to report on. The zero value is everything.
type StallsQuery struct {
	Database string // "" is warpline
	Selection
	Base *Selection // what shares are compared with; nil compares nothing
	Top  int        // kernels, lines of each, and shares that rose (0: 10)
}

// Stalls is what ReadStalls found. Samples are of kind stall alone: the other counters of a PC count the same samples once more. Shares are
// from 0 to 1.
type Stalls struct {
	Samples      uint64         `json:"samples"`
	Kernels      []StallKernel  `json:"kernels"`      // most samples first
	Unsymbolized []Unsymbolized `json:"unsymbolized"` // most samples first
	Rose         []RoseShare    `json:"rose"`         // what weighs most first: the rise, in samples of the kernel

	Query       StallsQuery `json:"-"`
	BaseSamples uint64      `json:"-"` // in what shares are compared with
	TwoOpcodes  []TwoCodes  `json:"-"` // most samples first
	TwoPlaces   uint64      `json:"-"` // how many such places there are
}

// StallKernel is a kernel by its samples.
type StallKernel struct {
	Function  string      `json:"function"`  // as on the wire
	Demangled string      `json:"demangled"` // the same as function where that is not mangled
	Samples   uint64      `json:"samples"`
	Share     float64     `json:"share"`     // of all samples
	KernelNS  uint64      `json:"kernel_ns"` // how long it ran, all calls together; 0 where that was not measured
	Lines     []StallLine `json:"lines"`     // most samples first
}

// StallLine is a source line of a kernel. File is "" and Line 0 for samples whose line is not known.
type StallLine struct {
	File    string        `json:"file"`
	Line    uint32        `json:"line"`
	Samples uint64        `json:"samples"`
	Share   float64       `json:"share"`   // of the kernel's samples
	Reasons []StallReason `json:"reasons"` // most samples first
}

// StallReason is why warps were at a line.
type StallReason struct {
	Reason  string  `json:"reason"` // name on the wire
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of the line's samples
}

// Unsymbolized counts samples that have no line for one cause.
type Unsymbolized struct {
	Status  string  `json:"status"` // symbol_status of pc_lines
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of all samples
}

// RoseShare is a reason at a line that takes a larger part of its kernel's samples than in the base. File is "" and Line 0 where the lines
// of the kernel are not known on both sides.
type RoseShare struct {
	Function  string  `json:"function"`
	File      string  `json:"file"`
	Line      uint32  `json:"line"`
	Reason    string  `json:"reason"`
	Share     float64 `json:"share"`
	BaseShare float64 `json:"base_share"`

	Demangled string `json:"-"`
	Samples   uint64 `json:"-"` // of the kernel, now and in the base
	Before    uint64 `json:"-"`
}

// TwoCodes is a place in code whose samples name more than one opcode: the agent mixed up two kernels of a cubin, or one build id stands
// for two cubins.
type TwoCodes struct {
	BuildID  string
	Function string
	PCOffset uint64
	Opcodes  []Share // most samples first
	Samples  uint64
}

// maxReasons bounds the reasons of a line: names are a client's.
const maxReasons = 64

// ReadStalls asks ClickHouse. conn may be a user that only reads; it stays open.
func ReadStalls(ctx context.Context, conn driver.Conn, q StallsQuery) (*Stalls, error) {
	q.Database, q.Top = cmp.Or(q.Database, "warpline"), cmp.Or(q.Top, 10)
	s := &Stalls{Query: q, Kernels: []StallKernel{}, Unsymbolized: []Unsymbolized{}, Rose: []RoseShare{}}
	in := &stallsReader{reader{ctx: ctx, conn: conn}, s}
	for _, part := range []struct {
		name string
		read func(*stallsReader) error
	}{
		{"stalls", readStallKernels}, {"stalls by line", readStallLines}, {"kernel times", readStallTimes},
		{"symbols", readUnsymbolized}, {"opcodes", readTwoOpcodes}, {"the base", readRose},
	} {
		if err := part.read(in); err != nil {
			return nil, fmt.Errorf("read %s: %w", part.name, err)
		}
		if s.Samples == 0 {
			break
		}
	}
	return s, nil
}

type stallsReader struct {
	reader
	s *Stalls
}

// functions are the kernels that were found.
func (in *stallsReader) functions() (names []string) {
	for _, k := range in.s.Kernels {
		names = append(names, k.Function)
	}
	return names
}

func readStallKernels(in *stallsReader) error {
	q := in.s.Query
	from, args := q.Of(q.Database, "pc_stalls", stalling)
	return in.each(fmt.Sprintf("SELECT f, name, n, sum(n) OVER () AS everything FROM (SELECT toString(function) AS f, "+
		"max(demangled) AS name, sum(samples) AS n FROM %s GROUP BY f HAVING n > 0) ORDER BY n DESC, f LIMIT %d", from, q.Top),
		args, func(rows driver.Rows) error {
			k := StallKernel{Lines: []StallLine{}}
			if err := rows.Scan(&k.Function, &k.Demangled, &k.Samples, &in.s.Samples); err != nil {
				return err
			}
			k.Demangled = cmp.Or(k.Demangled, k.Function)
			k.Share = part(k.Samples, in.s.Samples)
			in.s.Kernels = append(in.s.Kernels, k)
			return nil
		})
}

func readStallLines(in *stallsReader) error {
	q := in.s.Query
	from, args := q.Of(q.Database, "pc_stalls", stalling, "has(?, toString(function))")
	return in.each(fmt.Sprintf(`SELECT f, path, number, sum(n) AS together, arraySlice(arraySort(x -> (-x.2, x.1), groupArray((why, n))), 1,
			%d)
		FROM (
			SELECT toString(function) AS f, toString(file) AS path, line AS number, toString(stall_reason) AS why, sum(samples) AS n
			FROM %s GROUP BY f, path, number, why HAVING n > 0)
		GROUP BY f, path, number ORDER BY together DESC, path, number LIMIT %d BY f`, maxReasons, from, q.Top),
		append(args, in.functions()), func(rows driver.Rows) error {
			var f string
			var l StallLine
			var reasons [][]any
			if err := rows.Scan(&f, &l.File, &l.Line, &l.Samples, &reasons); err != nil {
				return err
			}
			for _, x := range reasons {
				n := x[1].(uint64)
				l.Reasons = append(l.Reasons, StallReason{x[0].(string), n, part(n, l.Samples)})
			}
			k := &in.s.Kernels[slices.IndexFunc(in.s.Kernels, func(k StallKernel) bool { return k.Function == f })]
			l.Share = part(l.Samples, k.Samples)
			k.Lines = append(k.Lines, l)
			return nil
		})
}

// cutName is where agents cut the names of functions in samples; kernel times have longer ones.
const cutName = 127

// readStallTimes adds up how long the kernels ran. Those that begin like a name that was cut are one kernel here, as their samples are.
func readStallTimes(in *stallsReader) error {
	q := in.s.Query
	cuts := slices.DeleteFunc(in.functions(), func(name string) bool { return len(name) != cutName })
	from, args := q.OfKernels(q.Database, "kernel_sums",
		fmt.Sprintf("(has(?, toString(kernel)) OR has(?, substring(toString(kernel), 1, %d)))", cutName))
	if cuts == nil {
		cuts = []string{}
	}
	return in.each(fmt.Sprintf("SELECT if(has(?, substring(toString(kernel), 1, %d)), substring(toString(kernel), 1, %[1]d), "+
		"toString(kernel)) AS f, sum(total_ns) FROM %s GROUP BY f", cutName, from),
		append(append([]any{cuts}, args...), in.functions(), cuts),
		func(rows driver.Rows) error {
			var f string
			var ns uint64
			if err := rows.Scan(&f, &ns); err != nil {
				return err
			}
			for i := range in.s.Kernels {
				if k := &in.s.Kernels[i]; k.Function == f {
					k.KernelNS = ns
				}
			}
			return nil
		})
}

func readUnsymbolized(in *stallsReader) error {
	q := in.s.Query
	from, args := q.Of(q.Database, "pc_stalls", stalling, "symbol_status NOT IN ('ok', 'wire')")
	return in.each("SELECT toString(symbol_status) AS why, sum(samples) AS n FROM "+from+" GROUP BY why HAVING n > 0 ORDER BY n DESC, why",
		args, func(rows driver.Rows) error {
			var u Unsymbolized
			if err := rows.Scan(&u.Status, &u.Samples); err != nil {
				return err
			}
			u.Share = part(u.Samples, in.s.Samples)
			in.s.Unsymbolized = append(in.s.Unsymbolized, u)
			return nil
		})
}

// readTwoOpcodes looks at samples of cubins alone: clients without them send code by name, where two builds may have two codes.
func readTwoOpcodes(in *stallsReader) error {
	q := in.s.Query
	from, args := q.Of(q.Database, "pc_samples", stalling, "build_id != ''", "sass != ''")
	return in.each(fmt.Sprintf(`SELECT build, f, pc_offset, arraySlice(arraySort(x -> (-x.2, x.1), groupArray((code, n))), 1, %d),
			sum(n) AS together, count() OVER ()
		FROM (
			SELECT tenant, toString(build_id) AS build, toString(function) AS f, pc_offset, toString(sass) AS code, sum(samples) AS n
			FROM %s GROUP BY tenant, build, f, pc_offset, code)
		GROUP BY tenant, build, f, pc_offset HAVING count() > 1 ORDER BY together DESC, build, f, pc_offset LIMIT %d`, maxReasons, from, q.Top),
		args, func(rows driver.Rows) error {
			var t TwoCodes
			var codes [][]any
			if err := rows.Scan(&t.BuildID, &t.Function, &t.PCOffset, &codes, &t.Samples, &in.s.TwoPlaces); err != nil {
				return err
			}
			for _, x := range codes {
				t.Opcodes = append(t.Opcodes, Share{x[0].(string), x[1].(uint64)})
			}
			in.s.TwoOpcodes = append(in.s.TwoOpcodes, t)
			return nil
		})
}

// readRose compares parts of kernels, not of everything: a kernel that was not run says nothing about the others. Kernels that are new have
// nothing to be compared with.
func readRose(in *stallsReader) error {
	q := in.s.Query
	if q.Base == nil {
		return nil
	}
	now, args := q.Of(q.Database, "pc_stalls", stalling)
	base, more := q.Base.Of(q.Database, "pc_stalls", stalling)
	if err := in.conn.QueryRow(in.ctx, "SELECT sum(samples) FROM "+base, more...).Scan(&in.s.BaseSamples); err != nil {
		return err
	}
	const key = "toString(function) AS f, toString(file) AS path, line AS number, toString(stall_reason) AS why, max(demangled) AS name"
	return in.each(fmt.Sprintf(`SELECT f, place, at_line, why, max(name), sum(n) / any(all_n) AS share, sum(b) / any(all_b) AS before,
			any(all_n), any(all_b)
		FROM (
			SELECT f, why, name, n, b, sum(n) OVER w AS all_n, sum(b) OVER w AS all_b,
				sumIf(n, path != '') OVER w > 0 AND sumIf(b, path != '') OVER w > 0 AS known,
				if(known, path, '') AS place, if(known, number, 0) AS at_line
			FROM (
				SELECT %[1]s, sum(samples) AS n, toUInt64(0) AS b FROM %[2]s GROUP BY f, path, number, why
				UNION ALL
				SELECT %[1]s, toUInt64(0) AS n, sum(samples) AS b FROM %[3]s GROUP BY f, path, number, why)
			WINDOW w AS (PARTITION BY f))
		WHERE all_n > 0 AND all_b > 0
		GROUP BY f, place, at_line, why HAVING share > before
		ORDER BY (share - before) * any(all_n) DESC, f, place, at_line, why LIMIT %[4]d`, key, now, base, q.Top),
		append(args, more...), func(rows driver.Rows) error {
			var r RoseShare
			if err := rows.Scan(&r.Function, &r.File, &r.Line, &r.Reason, &r.Demangled, &r.Share, &r.BaseShare, &r.Samples, &r.Before); err != nil {
				return err
			}
			r.Demangled = cmp.Or(r.Demangled, r.Function)
			in.s.Rose = append(in.s.Rose, r)
			return nil
		})
}

// part is n of whole as a number from 0 to 1, 0 of nothing.
func part(n, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(n) / float64(whole)
}
