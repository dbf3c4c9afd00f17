package aggregate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// takenOver is an owner with a session as a takeover leaves it: it has names, and none of them is loaded.
func takenOver(t *testing.T, cfg Config) (*owner, *Session) {
	t.Helper()
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	cfg.Logger = slog.New(slog.DiscardHandler)
	o := newOwner(New(s, cfg), 0)
	o.position = 10
	session := newSession(SessionKey{"acme", "s"}, stream.SessionToken("s"))
	session.names, session.LastReceived, session.RetentionDays, session.RollupDays = 2, noon.UnixNano(), 7, 395
	o.fold.Sessions[session.Key] = session
	return o, session
}

var gemm = NameRef{gpuflight.KernelDict, 1}

// A takeover may meet a NATS that is away as well. Names that could not be loaded are awaited still, and so are the rows that need them:
// else those rows are written without names, which nobody looks up later.
func TestNamesAreAwaitedAfterAnError(t *testing.T) {
	o, s := takenOver(t, testConfig())
	block := nameEntries{session: s, seq: 5, entries: []nameEntry{{gemm, "gemm"}, {NameRef{gpuflight.KernelDict, 2}, "copy"}}}
	key := stream.DictionaryKey("acme", s.token, block.seq) + "-0"
	if _, err := o.streams.Dictionaries.Create(t.Context(), key, block.encode(&state.Writer{})[0]); err != nil {
		t.Fatal(err)
	}
	o.fold.AwaitNames(s)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	if o.nameScopes(away); !s.nameless() || s.names != 2 || len(o.fold.unnamed) != 1 {
		t.Fatalf("after an error the session has %d names, awaits them: %v", s.names, s.nameless())
	}
	if o.nameScopes(t.Context()); s.nameless() || s.names != 2 || s.Name(gemm.Dict, gemm.ID) != "gemm" || len(o.fold.unnamed) != 0 {
		t.Errorf("%d names, the first is %q", s.names, s.Name(gemm.Dict, gemm.ID))
	}
}

// Names that were nowhere when they were needed are written late once they are found, once.
func TestMissingNamesAreFoundLater(t *testing.T) {
	away := errors.New("ClickHouse is away")
	tries := 0
	cfg := testConfig()
	cfg.LoadNames = func(_ context.Context, _, _ string, name func(dict string, id uint32, value string)) error {
		if tries++; tries == 1 {
			return away
		}
		name(gpuflight.KernelDict.String(), 1, "gemm")
		name(gpuflight.KernelDict.String(), 2, "copy")
		return nil
	}
	o, s := takenOver(t, cfg)
	if err := o.loadNames(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if s.Name(gemm.Dict, gemm.ID) != "" { // a row uses it
		t.Fatal("it has the name")
	}
	now := time.Now()
	look := func(after time.Duration) (late int) {
		o.fold.seekMissing(now.Add(after))
		o.nameScopes(t.Context())
		rows, _ := o.fold.Out.Size()
		return rows
	}
	if look(time.Second) != 0 || tries != 1 {
		t.Errorf("looked for again at once")
	}
	if late := look(time.Minute); late != 1 || tries != 2 || s.Name(gemm.Dict, gemm.ID) != "gemm" || !s.touched || o.opened.IsZero() {
		t.Errorf("%d rows after %d tries, the name is %q", late, tries, s.Name(gemm.Dict, gemm.ID))
	}
	if late := look(time.Hour); late != 1 || tries != 2 {
		t.Errorf("%d rows after %d tries", late, tries)
	}
}

// What a replay writes is dropped. A name that it finds is written when it has ended, and who waited for names can wait again.
func TestNamesFoundByAReplay(t *testing.T) {
	cfg := testConfig()
	found := false
	cfg.LoadNames = func(_ context.Context, _, _ string, name func(dict string, id uint32, value string)) error {
		if found {
			name(gpuflight.KernelDict.String(), 1, "gemm")
			name(gpuflight.KernelDict.String(), 2, "copy")
		}
		return nil
	}
	o, s := takenOver(t, cfg)
	if err := o.loadNames(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.Name(gemm.Dict, gemm.ID) // a row uses it
	found, s.dictsLoaded = true, false
	o.fold.AwaitNames(s)
	q := &quiet{o: o}
	if err := q.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, _ := o.fold.Out.Size(); rows != 0 || s.awaited {
		t.Errorf("%d rows while it replays, awaited %v", rows, s.awaited)
	}
	q.end(noon.UnixNano(), false)
	if rows, _ := o.fold.Out.Size(); rows != 1 || len(s.unresolved) != 0 {
		t.Errorf("%d rows afterwards, %d names not resolved", rows, len(s.unresolved))
	}
	o.fold.dropNames(s, false)
	if !o.fold.AwaitNames(s) || len(o.fold.unnamed) != 1 {
		t.Errorf("the session cannot wait for its names again")
	}
}
