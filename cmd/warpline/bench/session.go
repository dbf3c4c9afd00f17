package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
)

// session writes the lines of one session, in the order in which the client's flushes write them: names, kernels, their details,
// copies, scopes, PC samples, metrics. Not safe for concurrent use.
type session struct {
	cfg      Config
	shape    shape
	id       string
	kernels  int // of this session
	rand     *rand.Rand
	zipf     *rand.Zipf
	list     []kernel
	launches []launchConfig
	channels [4]channel
	counts   Counts

	clock  int64 // ns since the epoch: start of the last kernel
	gap    float64
	corr   uint32
	ids    []uint32 // kernel id by place in list, 0 while the name was not used
	nextID uint32
	batch  [numBatches]int64 // last batch_id of each type
	rows   []kernelRow
	buf    []byte
	others others
}

// The batch types, each of which counts its own ids.
const (
	kernelBatch = iota
	memcpyBatch
	scopeBatch
	profileBatch
	hostBatch
	deviceBatch
	numBatches
)

type kernelRow struct {
	kernel   *kernel
	start    int64
	duration int64
	id       uint32
	corr     uint32
	stream   int64
	scope    bool // false: outside every scope, whatever the kernel's own is
}

func newSession(cfg Config, index int, dir string, list []kernel, launches []launchConfig) *session {
	s := &session{cfg: cfg, shape: cfg.Workload.shape(), id: uuid("session", cfg.Seed, cfg.Run, index), list: list, launches: launches,
		rand: rand.New(rand.NewPCG(cfg.Seed, uint64(index)+1)), ids: make([]uint32, len(list)), corr: 100,
		clock: cfg.Start.UnixNano(), gap: float64(cfg.MeanGap)}
	s.zipf = rand.NewZipf(s.rand, 1.1, 1, uint64(len(list)-1))
	s.kernels = cfg.kernelsOf(index)
	for i := range s.channels {
		s.channels[i] = channel{dir: dir, session: s.id, name: Channels[i], limitBytes: cfg.WindowBytes, limitRows: int64(cfg.WindowRows)}
	}
	return s
}

// generate writes the whole session. progress is called with the number of kernels as they are written.
func (s *session) generate(ctx context.Context, progress func(kernels int)) error {
	if err := s.all(s.jobStart()); err != nil {
		return err
	}
	if err := s.startOthers(); err != nil {
		return err
	}
	for left := s.kernels; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(left, s.shape.batchRows)
		from := s.clock
		if err := s.flush(n); err != nil {
			return err
		}
		left -= n
		if err := s.flushOthers(s.kernels-left, from, left == 0); err != nil {
			return err
		}
		progress(n)
	}
	if err := s.all(s.shutdown()); err != nil {
		return err
	}
	for i := range s.channels {
		if err := s.channels[i].end(); err != nil {
			return err
		}
		for _, w := range s.channels[i].done {
			s.counts.Events += w.Events
			s.counts.RawBytes += w.RawBytes
			s.counts.GzBytes += w.GzBytes
			s.counts.Windows++
		}
	}
	return nil
}

// all writes a line to every channel, as the client does with lines about the session.
func (s *session) all(line []byte) error {
	for i := range s.channels {
		if err := s.write(i, line, 1, 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) write(to int, line []byte, events, kernels int64) error {
	s.counts.Lines++
	return s.channels[to].line(line, events, kernels)
}

// flush draws n launches and writes their lines.
func (s *session) flush(n int) error {
	s.rows = s.rows[:0]
	names := s.buf[:0]
	for range n {
		place := int(s.zipf.Uint64())
		k := &s.list[place]
		if s.ids[place] == 0 {
			s.nextID++
			s.ids[place] = s.nextID
			names = s.appendName(names, s.nextID, k.name)
		}
		s.clock += 1 + int64(s.rand.ExpFloat64()*s.gap)
		duration := max(1, int64(math.Exp(k.logMedian+Sigma*s.rand.NormFloat64())))
		s.rows = append(s.rows, kernelRow{kernel: k, id: s.ids[place], start: s.clock, duration: duration, corr: s.corr,
			stream: 7 + int64(s.rand.IntN(Streams)), scope: s.rand.IntN(20) != 0})
		s.counts.KernelNS += duration
		s.nextCorr()
	}
	if len(names) > 0 {
		if err := s.all(append(names, "}}\n"...)); err != nil {
			return err
		}
	}
	s.buf = names
	if err := s.kernelBatch(); err != nil {
		return err
	}
	s.counts.Kernels += int64(n)
	if s.shape.details {
		return s.details()
	}
	return nil
}

// nextCorr moves on as correlation ids do: one for every call of the driver, and not every call launches a kernel.
func (s *session) nextCorr() {
	s.corr++
	if b := s.rand.Uint32(); b&7 == 0 {
		s.corr += 1 + b>>3%3
	}
}

// appendName appends an entry to the dictionary line that is being built.
func (s *session) appendName(line []byte, id uint32, name string) []byte {
	if len(line) == 0 {
		line = append(s.head(line, `{"version":1,"type":"dictionary_update"`), `,"kernel_dict":{"`...)
	} else {
		line = append(line, `,"`...)
	}
	line = strconv.AppendUint(line, uint64(id), 10)
	line = append(append(line, `":"`...), name...)
	return append(line, '"')
}

// head appends the start of a line and the session id.
func (s *session) head(line []byte, start string) []byte {
	line = append(append(line, start...), `,"session_id":"`...)
	return append(append(line, s.id...), '"')
}

// batchHead appends the start of a batch up to its rows.
func (s *session) batchHead(line []byte, version, batch int, typ, extra string, base int64, columns string) []byte {
	s.batch[batch]++
	line = append(line, `{"version":`...)
	line = strconv.AppendInt(line, int64(version), 10)
	line = append(append(line, `,"type":"`...), typ...)
	line = s.head(line, `"`)
	line = append(append(line, extra...), `,"batch_id":`...)
	line = strconv.AppendInt(line, s.batch[batch], 10)
	line = append(line, `,"base_time_ns":`...)
	line = strconv.AppendInt(line, base, 10)
	line = append(append(line, `,"columns":[`...), columns...)
	return append(line, `],"rows":[`...)
}

// appendRow appends a row, with the comma between it and the one before.
func appendRow(line []byte, first bool, cells ...int64) []byte {
	if !first {
		line = append(line, ',')
	}
	line = append(line, '[')
	for i, c := range cells {
		if i > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendInt(line, c, 10)
	}
	return append(line, ']')
}

const (
	seedColumns  = `"dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"`
	todayColumns = seedColumns + `,"external_kind","external_id"`
)

func (s *session) kernelBatch() error {
	base, columns := s.rows[0].start, seedColumns
	if s.shape.today {
		columns = todayColumns
	}
	hasDetails := int64(0)
	if s.shape.details {
		hasDetails = 1
	}
	line := s.batchHead(s.buf[:0], 1, kernelBatch, "kernel_event_batch", "", base, columns)
	for i := range s.rows {
		r := &s.rows[i]
		cells := [10]int64{r.start - base, int64(r.id), r.stream, r.duration, int64(r.corr), int64(r.kernel.dynShared), int64(r.kernel.regs),
			hasDetails}
		if s.shape.today {
			line = appendRow(line, i == 0, cells[:]...)
		} else {
			line = appendRow(line, i == 0, cells[:8]...)
		}
	}
	s.buf = append(line, "]}\n"...)
	return s.write(device, s.buf, int64(len(s.rows)), int64(len(s.rows)))
}

func (s *session) details() error {
	for i := range s.rows {
		r := &s.rows[i]
		line := s.head(s.buf[:0], `{"version":1,"type":"kernel_detail"`)
		line = append(line, `,"pid":4711,"app":"train_llm","corr_id":`...)
		line = strconv.AppendUint(line, uint64(r.corr), 10)
		l := &s.launches[r.kernel.config]
		if r.scope {
			line = append(line, l.text...)
		} else {
			line = append(line, l.outside...)
		}
		s.buf = line
		if err := s.write(device, line, 1, 0); err != nil {
			return err
		}
	}
	s.counts.Details += int64(len(s.rows))
	return nil
}
