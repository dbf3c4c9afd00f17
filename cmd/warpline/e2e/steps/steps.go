// Package steps is a source that only tests have: lines of training steps, each a number, a kernel's name and a duration. It shows that a
// source is folders of its own and a line in a list (cmd/warpline/sources_steps.go): it has a route, state that decides what counts, a
// table and a view, and it writes kernels, which other sources fill too.
package steps

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"net/http"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

const (
	name   = "steps"
	prefix = "steps:"
	kind   = stream.Kind("steps")
)

// Door is the source at the gateway: POST /api/v1/steps?run=NAME.
func Door() ingest.Source {
	return ingest.Source{
		Name: name, Prefixes: []string{prefix}, Kinds: []stream.Kind{kind},
		Routes: []ingest.Route{{Path: "/api/v1/steps", Upload: func(r *http.Request, _ tenant.Limits) (ingest.Intake, error) {
			return &intake{run: r.URL.Query().Get("run")}, nil
		}}},
	}
}

type intake struct {
	run  string
	text []byte
}

func (in *intake) Received(u *ingest.Upload) error {
	if u.Size() == 0 {
		return ingest.ErrNothing
	}
	return nil
}

func (in *intake) Survey(u *ingest.Upload) (ingest.Identity, error) {
	var err error
	if in.text, err = io.ReadAll(u.Open()); err != nil {
		return ingest.Identity{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: err.Error()}
	}
	if _, detail := u.SetSession(prefix + in.run); detail != "" {
		return ingest.Identity{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: detail}
	}
	digest := ingest.DigestOf(string(in.text))
	return u.ByContent(digest, name+"-"+in.run+"-"+digest.String()), nil
}

func (in *intake) Conflict(*ingest.Upload) *ingest.Refusal { return nil }

func (in *intake) Publish(ctx context.Context, _ *ingest.Upload, to *ingest.Publisher) error {
	n := uint64(bytes.Count(in.text, []byte("\n")))
	to.Envelope.Kind = kind
	e := to.Envelope
	e.Events, e.Bytes, e.Last = n, uint64(len(in.text)), true
	to.Tally.Accept(n, int64(len(in.text)))
	to.Tally.Whole = true
	return to.Send(ctx, &e, in.text)
}

func (in *intake) Answer(o ingest.Outcome) any { return o }

// Fold is the source in a worker.
func Fold() aggregate.Source {
	return aggregate.Source{Name: name, Version: 1, Kinds: []stream.Kind{kind}, Open: func(f *aggregate.Fold) aggregate.Folding {
		return &folding{fold: f, pool: activity.KernelPool{Fold: f}}
	}}
}

type folding struct {
	fold *aggregate.Fold
	pool activity.KernelPool
}

// session is what is kept of a run: the highest step, since a step that is not above it was counted, and what the open chunk has added.
type session struct {
	*aggregate.Session
	fold       *aggregate.Fold
	highest    uint64
	steps, sum uint64
	kernels    activity.Kernels
}

func (f *folding) New(s *aggregate.Session) aggregate.State {
	own := &session{Session: s, fold: f.fold}
	own.kernels.Begin(s, &f.pool)
	return own
}

func (f *folding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	own := s.(*session)
	emit := own.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
	for line := range bytes.Lines(body) {
		p.Line++
		f.fold.CheckLine(p)
		p.Received(1)
		var step, ns uint64
		var kernel string
		if _, err := fmt.Sscan(string(line), &step, &kernel, &ns); err != nil {
			f.fold.Reject(p, aggregate.Reject{
				Reason: gpuflight.ReasonBadValue, Detail: "not a step, a kernel and a duration", Events: 1, Payload: line,
			})
			continue
		}
		if step <= own.highest {
			p.Duplicate(1)
			continue
		}
		own.highest, own.steps, own.sum = step, own.steps+1, own.sum+ns
		id, _ := f.fold.Intern(p, gpuflight.KernelDict, []byte(kernel))
		emit.Add(&activity.Kernel{ID: id, Start: p.Env.ReceivedAt, Duration: int64(ns), Device: -1}, 0, 0)
		p.Stored(1)
	}
}

func (f *folding) Tick(int64) {}

func (s *session) Flush(all bool) {
	if s.steps > 0 {
		Steps.Append(s.fold.Out.Batch(Steps.Table, s.FactPartition()), &StepsRow{
			HeadRow: s.Head(), Steps: s.steps, TotalNS: s.sum, ReceivedDay: rows.DayOf(s.LastReceived),
		})
		s.steps, s.sum = 0, 0
	}
	if all {
		s.kernels.Flush()
	}
}

func (s *session) Dense() bool { return s.kernels.Dense() }

func (s *session) Append(w *state.Writer, full bool) {
	w.U64(s.highest)
	s.kernels.Append(w, full)
}

func (s *session) Size(bool) int { return 8 + 40*s.kernels.Held() }

func (s *session) Read(_ uint64, r *state.Reader) {
	s.highest = r.U64()
	s.kernels.ReadFlushed(r)
	s.kernels.Read(r)
}

func (s *session) Published()         { s.kernels.Published() }
func (s *session) Resume(int64, bool) { s.kernels.ForgetLaunches() }
func (s *session) Rest(bool)          { s.kernels.Rest() }
func (s *session) Close()             {}
func (s *session) Drop()              { s.kernels.Drop() }

func (s *session) Load() aggregate.Load {
	return aggregate.Load{Rollups: s.kernels.Held(), Index: s.kernels.IndexBytes()}
}

// StepsRow is a row of Steps: what a chunk adds to a run.
type StepsRow struct {
	table.HeadRow
	Steps, TotalNS uint64
	ReceivedDay    int32
}

// Steps adds up the steps of runs.
var Steps = table.DefineRows(table.Define("steps_data", table.Fact, "tenant, session_id"),
	func(c *table.Binder[StepsRow], r *StepsRow) {
		c.Head(&r.HeadRow)
		c.U64("steps", &r.Steps)
		c.U64("total_ns", &r.TotalNS)
		c.FactTail(&r.ReceivedDay)
	})

//go:embed views/*.sql
var views embed.FS

// Tables is what the source adds to the schema.
var Tables = table.Source{Name: name, Tables: []*table.Table{Steps.Table}, Views: views}
