package parca

import (
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// What parts are bounded by. They are a matter of identity as stream.PartBytes is: how a batch is cut follows from its bytes and these.
const (
	pcRowBytes      = 90 // at most, as a part has them
	kernelRowBytes  = 75
	refusedBytes    = 60  // and its texts
	maxRefusedType  = 128 // bytes of the sample type of refused rows
	maxProcessTexts = 64  // labels of one process that a part tells
)

// Piece is a part of a batch: some rows of one session.
type Piece struct {
	Session string
	Events  uint64 // rows, refused ones too
	Body    []byte // of a [Part]; valid until the next piece
}

// cutter is what Cut keeps between calls.
type cutter struct {
	part     Part
	body     []byte
	order    []uint32
	starts   []uint32
	stamp    uint32
	strings  []local // by text
	framed   []local // by text: seen in a frame
	launches []local // by launch stack
	labels   []local // by label
	procs    []local
	refused  map[refusedKey]int
	bytes    int
	labelled int
	events   uint64
}

// local is the number of something in the current part, if stamp is the part's.
type local struct{ stamp, n uint32 }

type refusedKey struct {
	verdict verdict
	kind    uint32 // text
	minute  int64
}

// Cut gives the rows in parts: each of one session, at most stream.PartBytes long. Every row is in exactly one.
// Sessions come in the order of their first rows, rows in the order of the batch. It follows from the
// uploaded bytes alone. An error is emit's.
func (b *Batch) Cut(emit func(Piece) error) error {
	c := &b.cutter
	c.begin(b)
	for i := range b.sessions {
		s := &b.sessions[i]
		if s.rows == 0 {
			continue
		}
		c.open(b, s)
		end := c.starts[i]
		for _, at := range c.order[end-s.rows : end] {
			if c.bytes > stream.PartBytes-c.cost(b, &b.rows[at]) && c.events > 0 {
				if err := c.close(s, emit); err != nil {
					return err
				}
				c.open(b, s)
			}
			c.add(b, &b.rows[at])
		}
		if err := c.close(s, emit); err != nil {
			return err
		}
	}
	return nil
}

// begin sorts the rows by session.
func (c *cutter) begin(b *Batch) {
	c.strings = stamped(c.strings, len(b.texts.all))
	c.framed = stamped(c.framed, len(b.texts.all))
	c.launches = stamped(c.launches, len(b.launches))
	c.labels = stamped(c.labels, len(b.pairs))
	c.procs = stamped(c.procs, len(b.procs))
	c.stamp = 0
	if cap(c.order) < len(b.rows) || cap(c.order) > 1<<20 {
		c.order = make([]uint32, len(b.rows))
	}
	c.order = c.order[:len(b.rows)]
	c.starts = c.starts[:0]
	at := uint32(0)
	for i := range b.sessions {
		c.starts = append(c.starts, at)
		at += b.sessions[i].rows
	}
	for i := range b.rows {
		s := b.procs[b.sets[b.rows[i].set].proc].session
		c.order[c.starts[s]] = uint32(i)
		c.starts[s]++
	}
	if c.refused == nil || len(c.refused) > 1<<12 {
		c.refused = make(map[refusedKey]int)
	}
}

func stamped(s []local, n int) []local {
	if cap(s) < n || cap(s) > 1<<18 {
		return make([]local, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// open begins a part.
func (c *cutter) open(b *Batch, s *session) {
	c.stamp++
	c.events, c.labelled = 0, 0
	p := &c.part
	p.empty()
	p.Process.Node, p.Process.PID, p.Process.Comm = b.texts.all[s.node], b.texts.all[s.pid], b.texts.all[s.comm]
	c.bytes = 64 + len(p.Process.Node) + len(p.Process.PID) + len(p.Process.Comm)
	clear(c.refused)
}

func (c *cutter) close(s *session, emit func(Piece) error) error {
	c.body = AppendPart(c.body[:0], &c.part)
	return emit(Piece{Session: s.id, Events: c.events, Body: c.body})
}

// cost is at least how many bytes a row adds to the part.
func (c *cutter) cost(b *Batch, r *row) int {
	n := pcRowBytes + refusedBytes
	s, h, st := &b.sets[r.set], &b.heads[r.head], &b.stacks[r.stack]
	n += c.textCost(b, s.reason) + c.textCost(b, s.sass) + min(len(b.texts.all[h.sampleType]), maxRefusedType) + maxDetailBytes
	if st.from < st.to {
		l := &b.locs[b.held2[st.from]]
		n += c.textCost(b, b.kernelName(l)) + c.textCost(b, l.mapping) + c.textCost(b, l.build)
	}
	if c.launches[st.launch].stamp != c.stamp {
		n += 24
		for _, t := range b.frames[b.launches[st.launch].from:b.launches[st.launch].to] {
			n += 5
			if c.framed[t].stamp != c.stamp {
				n += 5 + len(b.texts.all[t])
			}
		}
	}
	if c.procs[s.proc].stamp != c.stamp {
		n += c.labelCost(b, &b.procs[s.proc])
	}
	return n
}

// maxDetailBytes is longer than every reason with its detail.
const maxDetailBytes = 192

func (c *cutter) textCost(b *Batch, t uint32) int {
	if c.strings[t].stamp == c.stamp {
		return 0
	}
	return 5 + len(b.texts.all[t])
}

func (c *cutter) labelCost(b *Batch, p *process) int {
	n := 40
	for i, l := range b.held[p.from:p.to] {
		if i == maxProcessTexts {
			break
		}
		if c.labels[l].stamp != c.stamp {
			n += 10 + len(b.texts.all[b.pairs[l].name]) + len(b.texts.all[b.pairs[l].value])
		}
	}
	return n
}

// text is the number of a text in the part.
func (c *cutter) text(b *Batch, t uint32) uint32 {
	if t == 0 {
		return 0
	}
	l := &c.strings[t]
	if l.stamp != c.stamp {
		*l = local{c.stamp, uint32(len(c.part.Strings))}
		c.part.Strings = append(c.part.Strings, b.texts.all[t])
		c.bytes += 5 + len(b.texts.all[t])
	}
	return l.n
}

// stack is the number of a launch stack in the part.
func (c *cutter) stack(b *Batch, n uint32) uint32 {
	if n == 0 {
		return 0
	}
	l := &c.launches[n]
	if l.stamp != c.stamp {
		*l = local{c.stamp, uint32(len(c.part.Stacks))}
		la := &b.launches[n]
		st := c.part.nextStack()
		st.Hi, st.Lo = la.hash.Hi, la.hash.Lo
		c.bytes += 24
		for _, t := range b.frames[la.from:la.to] {
			st.Frames = append(st.Frames, b.texts.all[t])
			c.bytes += 5
			if c.framed[t].stamp != c.stamp {
				c.framed[t].stamp = c.stamp
				c.bytes += 5 + len(b.texts.all[t])
			}
		}
	}
	return l.n
}

// add adds a row to the part.
func (c *cutter) add(b *Batch, r *row) {
	c.events++
	s := &b.sets[r.set]
	if c.procs[s.proc].stamp != c.stamp {
		c.procs[s.proc].stamp = c.stamp
		c.bytes += c.labelCost(b, &b.procs[s.proc])
		c.tell(b, &b.procs[s.proc])
	}
	v := b.judge(r)
	if v > keepKernel {
		c.refuse(b, r, v)
		return
	}
	st := &b.stacks[r.stack]
	leaf := &b.locs[b.held2[st.from]]
	function := c.text(b, b.kernelName(leaf))
	if v == keepKernel {
		c.part.Kernels = append(c.part.Kernels, KernelRow{
			At: r.at, DurationNS: uint64(r.value), StreamID: s.stream, GraphID: s.graph, CorrID: s.corr,
			Function: function, Stack: c.stack(b, st.launch), Device: s.device,
		})
		c.bytes += kernelRowBytes
		return
	}
	c.part.PC = append(c.part.PC, PCRow{
		At: r.at, Samples: uint64(r.value), PeriodNS: uint64(b.heads[r.head].period), Offset: leaf.address,
		Function: function, Cubin: c.text(b, leaf.mapping), BuildID: c.text(b, leaf.build),
		Reason: c.text(b, s.reason), SASS: c.text(b, s.sass), Stack: c.stack(b, st.launch), Device: s.device,
	})
	c.bytes += pcRowBytes
}

// tell adds the labels of a process to the part.
func (c *cutter) tell(b *Batch, p *process) {
	for i, n := range b.held[p.from:p.to] {
		if i == maxProcessTexts {
			c.part.Process.Labels = append(c.part.Process.Labels, Label{"(other)", "more than 64 labels"})
			return
		}
		if c.labels[n].stamp != c.stamp {
			c.labels[n].stamp = c.stamp
			l := &b.pairs[n]
			c.part.Process.Labels = append(c.part.Process.Labels, Label{b.texts.all[l.name], b.texts.all[l.value]})
		}
	}
}

// refuse counts a row that is not kept.
func (c *cutter) refuse(b *Batch, r *row, v verdict) {
	const minute = int64(time.Minute)
	kind := b.heads[r.head].sampleType
	at := max(r.at, 0)
	key := refusedKey{v, kind, at - at%minute}
	if n, ok := c.refused[key]; ok {
		c.part.Refused[n].Rows++
		return
	}
	f := &refusals[v]
	c.refused[key] = len(c.part.Refused)
	name := cut(b.texts.all[kind], maxRefusedType)
	c.part.Refused = append(c.part.Refused, Refused{Reason: f.reason, Detail: f.detail, Type: name, Minute: key.minute, Rows: 1})
	c.bytes += refusedBytes + len(f.reason) + len(f.detail) + len(name)
}
