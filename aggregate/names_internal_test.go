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
	"github.com/warpline/warpline/sink/table"
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

// In a session that had a name refused, an id without a name has that of the rest, and is not remembered. One whose name is not loaded yet,
// was not found, or came after the id was used, is not of the rest.
func TestOnlyRefusedNamesAreTheRest(t *testing.T) {
	cfg := testConfig()
	found := 1
	cfg.LoadNames = func(_ context.Context, _, _ string, name func(dict string, id uint32, value string)) error {
		name(table.MoreNamesDict, 0, table.MoreNames)
		for id := range found {
			name(gpuflight.KernelDict.String(), uint32(id)+1, "gemm")
		}
		return nil
	}
	o, s := takenOver(t, cfg)
	s.full = true
	want := func(id uint32, name string, sum uint32, waits int) {
		t.Helper()
		got, under := s.SumName(gpuflight.KernelDict, id)
		if got != name || under != sum || len(s.unresolved) != waits {
			t.Errorf("%d is %q, added up under %d, want %q under %d; %d wait for names, want %d", id, got, under, name, sum, len(s.unresolved),
				waits)
		}
	}
	load := func() {
		t.Helper()
		s.dictsLoaded = false
		if err := o.loadNames(t.Context(), s); err != nil || s.names != 2 {
			t.Fatalf("%d names, %v", s.names, err)
		}
	}
	want(7, "", 7, 1) // not loaded
	load()
	want(1, "gemm", 1, 1)
	want(2, "", 2, 2) // not found
	found = 2
	load()
	want(2, "gemm", 2, 1)
	want(7, "", 7, 1) // used before
	want(8, table.MoreNames, 0, 1)
	want(0, "", 0, 1)
	o.fold.dropNames(s, false)
	want(8, "", 8, 2)
}
