package table_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// benchSource makes kernel rows as the project's bench data is described: 500 kernels drawn by Zipf(1.1), log-normal durations (sigma 0.5
// around a median of the kernel's own between 2 us and 2 ms), exponential gaps, 4 streams, rising corr ids, 8 sessions.
type benchSource struct {
	r       *rand.Rand
	zipf    *rand.Zipf
	medians []float64
	corr    [benchSessions]uint32
	at      [benchSessions]int64
	turn    int
}

const (
	benchNames    = 500
	benchSessions = 8
	benchStart    = 1_795_000_000_000_000_000
	benchWindow   = 512 // rows of one session that come together
)

type benchRow struct {
	session  int
	kernel   uint32
	started  int64
	duration uint64
	stream   uint64
	corr     uint32
}

func newBenchSource(seed uint64) *benchSource {
	s := &benchSource{r: rand.New(rand.NewPCG(seed, 7))}
	s.zipf = rand.NewZipf(s.r, 1.1, 1, benchNames-1)
	for range benchNames {
		s.medians = append(s.medians, 2000*math.Pow(1000, s.r.Float64()))
	}
	for i := range s.at {
		s.at[i] = benchStart
	}
	return s
}

// next returns rows session by session, a window of them at a time.
func (s *benchSource) next() benchRow {
	i := s.turn / benchWindow % benchSessions
	s.turn++
	k := uint32(s.zipf.Uint64())
	s.at[i] += int64(s.r.ExpFloat64() * 10_000)
	s.corr[i]++
	return benchRow{session: i, kernel: k, started: s.at[i], corr: s.corr[i], stream: 7 + s.r.Uint64N(4),
		duration: uint64(s.medians[k] * math.Exp(0.5*s.r.NormFloat64()))}
}

func benchKernels(b *table.Batch, s *benchSource, n int) {
	rows := make([]benchRow, n)
	for i := range rows {
		rows[i] = s.next()
	}
	appendBenchRows(b, s, rows)
}

// appendBenchRows does what a worker does: per row it appends numbers and cached dictionary indexes.
func appendBenchRows(b *table.Batch, s *benchSource, rows []benchRow) {
	k := table.Kernels
	var sessions [benchSessions]int32
	for i := range sessions {
		sessions[i] = k.SessionID.Index(b, fmt.Sprintf("951721dc-a1ba-4ac7-9902-35c7e36d0e7%d", i))
	}
	for i := range rows {
		r := &rows[i]
		k.SessionID.Append(b, sessions[r.session])
		k.StartedAt.Append(b, r.started)
		k.DurationNS.Append(b, r.duration)
		k.LaunchID.Append(b, r.kernel+1)
		k.StreamID.Append(b, r.stream)
		k.CorrID.Append(b, r.corr)
	}
	k.Tenant.AppendN(b, k.Tenant.Index(b, "bench"), len(rows))
	k.DeviceID.Fill(b, -1)
	k.ExternalKind.Fill(b, 0)
	k.ExternalID.Fill(b, 0)
	k.ReceivedAt.Fill(b, tabletest.Received.UnixNano())
	k.RetentionDays.Fill(b, 30)
	k.RowsPartition.Fill(b, 4)
	k.Chunk.Fill(b, 99)
}
