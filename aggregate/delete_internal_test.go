package aggregate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// folding drives a fold as its owner does, without NATS.
type folding struct {
	f   *Fold
	seq uint64
}

func newFolding() *folding {
	cfg := testConfig()
	return &folding{f: newFold(&cfg, newCounters(nil))}
}

func (g *folding) part(tenant, session string, received time.Time) *Part {
	g.seq++
	return &Part{Seq: g.seq, Now: received.UnixNano(), Env: stream.Envelope{Tenant: tenant, Session: session, Kind: stream.KindGPUFlight,
		Source: "gpu-flight", Identity: fmt.Sprint("w", g.seq),
		Recurs: strings.HasPrefix(session, "mem:"), // as the gateway says of telemetry
		Events: 1, ReceivedAt: received.UnixNano(), RetentionDays: 7, RollupDays: 395}}
}

// take folds a part unless it is dropped, and reports which.
func (g *folding) take(tenant, session string, received time.Time) (kept bool) {
	p := g.part(tenant, session, received)
	if g.f.drops(p) {
		return false
	}
	line := fmt.Appendf(nil, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,1000,%d,0,`+
		`32,1]]}`+"\n", session, g.seq, g.seq)
	s := g.f.Session(p)
	g.f.Take(p, s, line)
	return true
}

// handOver publishes the open chunk's change and applies it to a successor, which began with the same states.
func (g *folding) handOver(t testing.TB, to *folding) {
	t.Helper()
	g.f.Flush(0)
	if err := to.f.ApplyState(g.f.AppendState(nil, false)); err != nil {
		t.Fatal(err)
	}
	g.f.Published()
	g.f.Out.Reset()
	to.seq = g.seq
}

func snapshotOf(t testing.TB, g *folding) *folding {
	t.Helper()
	to := newFolding()
	if err := to.f.ApplyState(g.f.AppendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	to.seq = g.seq
	return to
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// What was deleted stays deleted for every successor, by changes and by snapshots; neighbours do not notice.
func TestDeletedSessionStaysDeleted(t *testing.T) {
	g, successor := newFolding(), newFolding()
	g.take("a", "gone", noon)
	g.take("a", "stays", noon)
	g.take("b", "gone", noon)
	g.handOver(t, successor)
	g.take("a", "gone", noon) // in the open chunk, with rollups held back
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: "gone", At: noon.UnixNano()})
	if g.f.HeldAccs != g.f.Sessions[SessionKey{"a", "stays"}].load().Rollups+g.f.Sessions[SessionKey{"b", "gone"}].load().Rollups {
		t.Errorf("%d accumulators are held", g.f.HeldAccs)
	}
	g.handOver(t, successor)
	for name, h := range map[string]*folding{"owner": g, "successor": successor, "snapshot": snapshotOf(t, g),
		"snapshot of the successor": snapshotOf(t, successor)} {
		if h.f.Sessions[SessionKey{"a", "gone"}] != nil || len(h.f.Sessions) != 2 {
			t.Errorf("%s has %d sessions", name, len(h.f.Sessions))
		}
		if h.take("a", "gone", noon.Add(time.Hour)) || h.take("a", "gone", noon.Add(-time.Hour)) {
			t.Errorf("%s folds a part of a deleted session", name)
		}
		if !h.take("a", "stays", noon) || !h.take("b", "gone", noon) || !h.take("a", "new", noon) {
			t.Errorf("%s drops a neighbour's part", name)
		}
	}
}

// Scopes that wait to be counted as children, here or after a takeover, bring nothing of a deleted session back.
func TestDeletedScopesStayDeleted(t *testing.T) {
	for _, whole := range []bool{false, true} {
		g := newFolding()
		p := g.part("a", "gone", noon)
		g.f.Take(p, g.f.Session(p), []byte(`{"version":1,"type":"scope_event_batch","session_id":"gone","batch_id":1,`+
			`"base_time_ns":1795175929972803352,"columns":["dt_ns","scope_instance_id","name_id","event_type","depth"],"rows":[[0,1,1,0,0],[10,2,`+
			`2,0,1],[20,2,2,1,1],[30,1,1,1,0]]}`+"\n"))
		g.handOver(t, newFolding())
		successor := snapshotOf(t, g)
		s := successor.f.Sessions[SessionKey{"a", "gone"}]
		s.names = 1 // as if it had sent names, which a successor loads when it can
		s.dictsLoaded = false
		successor.f.Resume(noon.UnixNano(), noon.UnixNano(), false)
		if g.f.Sessions[s.Key].load().Waiting == 0 || s.load().Waiting == 0 || len(successor.f.unnamed) != 1 {
			t.Fatalf("nothing waits: %+v, %+v, %d", g.f.Sessions[s.Key].load(), s.load(), len(successor.f.unnamed))
		}
		d := stream.Deletion{ID: "1", Tenant: "a", At: noon.UnixNano()}
		if !whole {
			d.Session = "gone"
		}
		for name, h := range map[string]*folding{"owner": g, "successor": successor} {
			h.f.Erase(d)
			h.handOver(t, newFolding())
			h.f.Expire(noon.Add(time.Hour).UnixNano())
			h.f.ExpireIdle(noon.Add(time.Hour).UnixNano())
			if len(h.f.touched) != 0 || len(h.f.unnamed) != 0 {
				t.Errorf("%s, whole tenant %t: %d sessions have rows after they were deleted, %d wait for names", name, whole, len(h.f.touched),
					len(h.f.unnamed))
			}
		}
	}
}

// The state holds no id of a deleted session.
func TestDeletionsHoldNoID(t *testing.T) {
	g := newFolding()
	g.take("a", "a-very-secret-id", noon)
	g.handOver(t, newFolding())
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: "a-very-secret-id", At: noon.UnixNano()})
	g.handOver(t, newFolding())
	if bytes.Contains(g.f.AppendState(nil, true), []byte("secret")) {
		t.Error("the snapshot names the session")
	}
}

// A tombstone of a session that nobody has seen works for what comes later.
func TestDeletionComesFirst(t *testing.T) {
	g, successor := newFolding(), newFolding()
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: "gone", At: noon.UnixNano()})
	if len(g.f.deletes) != 1 {
		t.Fatal("the sink does not hear of it")
	}
	g.handOver(t, successor)
	if g.take("a", "gone", noon) || successor.take("a", "gone", noon) {
		t.Error("a part was folded")
	}
}

// The same tombstone twice counts once; another one of the same session counts again.
func TestTombstoneComesTwice(t *testing.T) {
	g := newFolding()
	d := stream.Deletion{ID: "1", Tenant: "a", At: noon.UnixNano()}
	g.f.Erase(d)
	g.handOver(t, newFolding())
	g.take("a", "new", noon.Add(time.Second))
	d.At = noon.Add(time.Minute).UnixNano()
	g.f.Erase(d)
	if len(g.f.deletes) != 0 || g.f.Sessions[SessionKey{"a", "new"}] == nil {
		t.Error("a purge that came twice deletes what is new")
	}
	d.ID = "2"
	g.f.Erase(d)
	if len(g.f.deletes) != 1 || g.f.Sessions[SessionKey{"a", "new"}] != nil {
		t.Error("a second purge does nothing")
	}
}

// A purge takes the tenant's sessions, and parts from before it; sessions that begin later are new.
func TestPurgeAndNewSessions(t *testing.T) {
	g, successor := newFolding(), newFolding()
	g.take("a", "old", noon)
	g.take("a", "forgotten", noon)
	g.handOver(t, successor)
	s := g.f.Sessions[SessionKey{"a", "forgotten"}]
	s.names = 1
	g.f.forget(s, noon.UnixNano())
	g.take("b", "other", noon)
	g.handOver(t, successor)
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", At: noon.Add(time.Minute).UnixNano()})
	if !g.f.deletesDue() {
		t.Error("the chunk goes on behind a purge")
	}
	g.handOver(t, successor)
	for name, h := range map[string]*folding{"owner": g, "successor": successor, "snapshot": snapshotOf(t, g)} {
		for _, c := range []struct {
			session string
			after   time.Duration
			kept    bool
		}{
			{"old", 2 * time.Minute, false}, {"forgotten", 2 * time.Minute, false}, {"late", 30 * time.Second, false}, {"late", time.Minute, false},
			{"new", time.Minute + 1, true}, {stream.NoSession, 2 * time.Minute, true}, {stream.NoSession, 0, false},
		} {
			if kept := h.take("a", c.session, noon.Add(c.after)); kept != c.kept {
				t.Errorf("%s: session %s, %v after noon: kept %t", name, c.session, c.after, kept)
			}
		}
		if !h.take("b", "other", noon) || len(h.f.tombstones) != 0 {
			t.Errorf("%s: another tenant suffers, or %d tombstones are left", name, len(h.f.tombstones))
		}
	}
}

// Uploads without a session can be deleted, and those that come later are kept.
func TestDeleteUploadsWithoutASession(t *testing.T) {
	g := newFolding()
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: stream.NoSession, At: noon.UnixNano()})
	if !g.f.deletesDue() || g.take("a", stream.NoSession, noon) || !g.take("a", stream.NoSession, noon.Add(1)) {
		t.Error("what came later is dropped, or what came before is kept")
	}
}

// Which session comes back with its sender is said by the envelope of each part, or by its source where the build before wrote it. The
// session's id says nothing: any client may send one with that beginning.
func TestDeletionOfWhatComesBack(t *testing.T) {
	const id = "mem:h:1:-:0"
	for name, c := range map[string]struct {
		change func(*stream.Envelope)
		kept   bool
	}{
		"it recurs":            {func(e *stream.Envelope) { e.Source, e.Recurs = "test", true }, true},
		"telemetry of before":  {func(e *stream.Envelope) { e.Source, e.Recurs = "telemetry", false }, true},
		"GPU Flight of before": {func(e *stream.Envelope) { e.Recurs = false }, false},
	} {
		for _, d := range []stream.Deletion{{ID: "1", Tenant: "a", Session: id}, {ID: "1", Tenant: "a"}} {
			g := newFolding()
			g.take("a", id, noon)
			d.At = noon.Add(time.Minute).UnixNano()
			g.f.Erase(d)
			if !g.f.deletesDue() {
				t.Errorf("%s: the chunk goes on behind the tombstone", name)
			}
			for after, kept := range map[time.Duration]bool{0: false, time.Minute: false, time.Minute + 1: c.kept} {
				p := g.part("a", id, noon.Add(after))
				c.change(&p.Env)
				if g.f.drops(p) == kept {
					t.Errorf("%s: %v after noon: dropped %t", name, after, kept)
				}
			}
		}
	}
}

// Dropped parts are counted, and the row that counts them does not name the session.
func TestDroppedPartsAreCounted(t *testing.T) {
	g := newFolding()
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: "gone", At: noon.UnixNano()})
	g.take("a", "gone", noon.Add(time.Hour))
	for _, u := range g.f.usage {
		if u.Events != 1 || u.rejected != 1 || u.Stored != 0 {
			t.Errorf("usage %+v", *u)
		}
	}
	rows, _ := g.f.Out.Size()
	if len(g.f.usage) != 1 || rows != 1 || len(g.f.touched) != 0 {
		t.Errorf("%d usages, %d rows, %d sessions touched; want 1 of usage, the row of the reject, no session", len(g.f.usage), rows,
			len(g.f.touched))
	}
}

// A mark lasts 30 days from the last part that it dropped, by the parts' own stamps: owners with different clocks agree.
func TestDeletionsEnd(t *testing.T) {
	g, successor := newFolding(), newFolding()
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", Session: "gone", At: noon.UnixNano()})
	g.take("a", "gone", noon.Add(20*24*time.Hour))
	g.handOver(t, successor)
	for name, h := range map[string]*folding{"owner": g, "successor": successor} {
		h.f.forgetDeletions(noon.Add(49 * 24 * time.Hour).UnixNano())
		if h.take("a", "gone", noon.Add(49*24*time.Hour)) {
			t.Errorf("%s forgot too early", name)
		}
		h.f.forgetDeletions(noon.Add(100 * 24 * time.Hour).UnixNano())
		if len(h.f.deletions) != 0 || !h.take("a", "gone", noon.Add(100*24*time.Hour)) {
			t.Errorf("%s never forgets", name)
		}
	}
}

// Marks are bounded; those that would end first go first.
func TestDeletionsAreBounded(t *testing.T) {
	g := newFolding()
	for i := range maxDeletions + 10 {
		g.f.remember(keyOf("a", fmt.Sprint(i)), deletion{at: int64(i), until: int64(i) + noon.UnixNano(), id: "x"})
	}
	g.f.forgetDeletions(noon.UnixNano())
	if _, ok := g.f.deletions[keyOf("a", "9")]; ok || len(g.f.deletions) != maxDeletions {
		t.Errorf("%d marks", len(g.f.deletions))
	}
}

// Telemetry goes on after a deletion: its sessions are named after processes, which have the same names again. What was on its way is
// dropped.
func TestTelemetryGoesOnAfterADeletion(t *testing.T) {
	for name, d := range map[string]stream.Deletion{
		"of a session": {ID: "1", Tenant: "a", Session: "mem:h:1:-:0", At: noon.UnixNano()}, "of refused records": {ID: "1", Tenant: "a",
			Session: "mem:unknown", At: noon.UnixNano()},
		"of the tenant": {ID: "1", Tenant: "a", At: noon.UnixNano()},
	} {
		g, successor := newFolding(), newFolding()
		session := "mem:h:1:-:0"
		if d.Session != "" {
			session = d.Session
		}
		g.take("a", session, noon.Add(-time.Hour))
		g.handOver(t, successor)
		g.f.Erase(d)
		if !g.f.deletesDue() {
			t.Errorf("%s: the chunk goes on behind it", name)
		}
		g.handOver(t, successor)
		for who, h := range map[string]*folding{"owner": g, "successor": successor, "snapshot": snapshotOf(t, g)} {
			if h.take("a", session, noon) || h.f.Sessions[SessionKey{"a", session}] != nil {
				t.Errorf("%s, %s: what was on its way is kept", name, who)
			}
			if !h.take("a", session, noon.Add(time.Second)) {
				t.Errorf("%s, %s: what came later is dropped", name, who)
			}
		}
	}
}
