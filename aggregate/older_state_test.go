package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

const testEpoch = int64(1795175929972803352)

// foldLines folds lines of session s of tenant t, one part a call.
func foldLines(f *Fold, seq int, lines ...string) {
	p := &Part{Seq: uint64(seq), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
		Source: "gpu-flight", Identity: "w", Part: seq,
		ReceivedAt: testEpoch, RetentionDays: 7, RollupDays: 395}}
	f.Take(p, f.Session(p), []byte(strings.Join(lines, "\n")+"\n"))
}

func newTestFolder() *Fold {
	cfg := testConfig()
	return newFold(&cfg, newCounters(nil))
}

// An id of our own follows from the text; a text that meets another's id gets the next one, and a session that has all the names it
// may have gets no more.
func TestTextsBecomeNames(t *testing.T) {
	f := newTestFolder()
	line := func(name string, corr int) string {
		return fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"%s","start_ns":%d,"end_ns":%d,"corr_id":%d}`, name, testEpoch,
			testEpoch+int64(corr), corr)
	}
	hash := OwnNames | uint32(xxh3.HashString("gemm"))
	foldLines(f, 1, fmt.Sprintf(`{"type":"dictionary_update","session_id":"s","kernel_dict":{"%d":"squatter"}}`, hash), line("gemm", 1),
		line("gemm", 2), line("relu", 3))
	s := f.Sessions[SessionKey{"t", "s"}]
	id := OwnNames | (hash + 1)
	if s.dicts[gpuflight.KernelDict][id] != "gemm" || s.dicts[gpuflight.KernelDict][hash] != "squatter" || s.names != 3 {
		t.Fatalf("%d names: %v", s.names, s.dicts[gpuflight.KernelDict])
	}
	if len(f.names) != 1 || len(f.names[0].entries) != 3 {
		t.Errorf("to be stored: %+v", f.names)
	}
	before := f.usage
	for i := range maxProbes + 1 { // who fills the places behind a hash gets a reject, not an endless search
		s.dicts[gpuflight.KernelDict][OwnNames|(hash+uint32(i))] = "squatter"
	}
	foldLines(f, 2, line("gemm", 4))
	delete(s.dicts[gpuflight.KernelDict], id)
	s.names = MaxNames
	foldLines(f, 3, line("new", 5), line("relu", 6))
	for _, u := range before {
		if u.rejected != 2 || u.Stored != 5 {
			t.Errorf("%d rejected, %d stored; want 2 and 5", u.rejected, u.Stored)
		}
	}
}

// The offset of a clock is part of the state.
func TestClockSurvivesAHandOver(t *testing.T) {
	f := newTestFolder()
	foldLines(f, 1, fmt.Sprintf(`{"type":"init","session_id":"s","ts_ns":%d,"system_rate_ms":250,"devices":[{"id":0,"vendor":"amd"}]}`,
		testEpoch))
	key := SessionKey{"t", "s"}
	s := f.Sessions[key]
	old := f.AppendState(nil, true)
	old[0] = state.Version + 1
	if err := newTestFolder().ApplyState(old); err == nil {
		t.Error("a version to come is read")
	}

	kernel := func(at int64) string {
		return fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"k","start_ns":%d,"end_ns":%d}`, at, at+1)
	}
	foldLines(f, 2, kernel(0), kernel(5000), kernel(9000)) // no time decides nothing
	if s.Clock != (Clock{Offset: testEpoch - 5000, SampleMS: 250}) {
		t.Fatalf("%+v", s.Clock)
	}
	for _, full := range []bool{true, false} {
		g := newTestFolder()
		if err := g.ApplyState(f.AppendState(nil, full)); err != nil || g.Sessions[key].Clock != s.Clock {
			t.Errorf("full %v: %v, %+v", full, err, g.Sessions[key].Clock)
		}
	}
}

// That a session had a name refused is part of the state, beside parts that are remembered for a time and without. Only such sessions are
// written in a way that earlier programs do not read.
func TestRefusedNamesSurviveAHandOver(t *testing.T) {
	key := SessionKey{"t", "s"}
	for _, c := range []struct{ full, aged bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		f := newTestFolder()
		foldLines(f, 1, `{"type":"dictionary_update","session_id":"s","kernel_dict":{"1":"a"}}`)
		s := f.Sessions[key]
		if c.full {
			s.names = MaxNames
			foldLines(f, 2, `{"type":"dictionary_update","session_id":"s","kernel_dict":{"2":"b"}}`)
		}
		if c.aged {
			s.aged = &state.Aged{Keep: 60}
			s.aged.Add(7, testEpoch)
		}
		for _, whole := range []bool{true, false} {
			written, g := f.AppendState(nil, whole), newTestFolder()
			if err := g.ApplyState(written); err != nil {
				t.Fatalf("%+v, whole %v: %v", c, whole, err)
			}
			got := g.Sessions[key]
			if got.full != c.full || (got.aged != nil) != c.aged || c.aged && !got.aged.Has(7) {
				t.Errorf("%+v, whole %v: full %v, aged %v", c, whole, got.full, got.aged)
			}
			version := byte(1)
			if c.aged {
				version = 2
			}
			if c.full {
				version = 3
			}
			if i := strings.Index(string(written), ownSection); written[i+len(ownSection)] != version {
				t.Errorf("%+v, whole %v: section of version %d, want %d", c, whole, written[i+len(ownSection)], version)
			}
		}
	}
}
