package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// A session that has ended gives back the memory of its names and of what is kept to find them within seconds; one that only pauses keeps
// it for ten minutes. Neither loses what decides later rows.
func TestEndedSessionsGiveMemoryBack(t *testing.T) {
	for _, ends := range []bool{true, false} {
		g := newFolding()
		fold := func(kind stream.Kind, at time.Time, body string) *Session {
			p := g.part("a", "s", at)
			p.Env.Kind = kind
			s := g.f.Session(p)
			g.f.Take(p, s, []byte(body))
			g.f.charge(s) // as the owner does
			return s
		}
		publish := func(at time.Time) {
			g.f.Flush(at.UnixNano())
			g.f.Published()
			g.f.Out.Reset()
		}
		var names, rows []string
		for id := 1; id <= 500; id++ {
			names = append(names, fmt.Sprintf(`"%d":"kernel %d"`, id, id))
			rows = append(rows, fmt.Sprintf("[%d,%d,7,1000,%d,0,32,0]", id, id, id))
		}
		s := fold(stream.KindGPUFlight, noon, `{"version":1,"type":"dictionary_update","session_id":"s","kernel_dict":{`+
			strings.Join(names, ",")+`}}`+"\n"+`{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":1,`+
			`"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs",`+
			`"has_details"],"rows":[`+strings.Join(rows, ",")+"]}\n")
		if ends {
			fold(stream.KindComplete, noon, "")
		}
		held := g.f.budget.total()
		if held < 500*nameEntryBytes {
			t.Fatalf("%d bytes are charged for 500 names", held)
		}
		for i := range 9 { // rollups are held for some seconds
			at := noon.Add(time.Duration(i) * time.Second)
			g.f.Expire(at.UnixNano())
			g.f.ExpireIdle(at.UnixNano())
			publish(at)
		}
		if n := g.f.budget.total(); n != held {
			t.Errorf("ends %v: %d of %d bytes are left after 8 s", ends, n, held)
		}
		look := func(after time.Duration) int {
			at := noon.Add(after)
			g.f.Expire(at.UnixNano())
			publish(at)
			g.f.ExpireIdle(at.UnixNano())
			return g.f.budget.total()
		}
		look(11 * time.Second) // an end is written, and its row may be held for some seconds
		if n := look(16 * time.Second); (n == 0) != ends {
			t.Errorf("ends %v: %d bytes are left after 16 s", ends, n)
		}
		if n := look(10 * time.Minute); n != 0 || s.dictsLoaded || !s.nameless() {
			t.Errorf("ends %v: %d bytes are left after 10 min", ends, n)
		}
		if again := g.part("a", "s", noon); g.f.Session(again) != s || !s.nameless() {
			t.Errorf("ends %v: the session is forgotten", ends)
		}
	}
}

// A large state is not written again for a few small chunks, and the bytes of chunks that ROWS has to keep do not grow with it.
func TestLargeStatesAreWrittenLessOften(t *testing.T) {
	o := &owner{w: &Worker{cfg: testConfig()}}
	for _, c := range []struct {
		state, chunks, bytes int
		now, want            bool
	}{
		{0, 63, 1 << 20, false, false},
		{0, 64, 1 << 20, false, true},
		{0, 1, 8 << 20, false, true},
		{1<<20 - 1, 64, 0, false, true},
		{20 << 20, 64, 1<<20 - 1, false, false},
		{20 << 20, 63, 1 << 20, false, false},
		{20 << 20, 64, 1 << 20, false, true},
		{20 << 20, 16*64 - 1, 0, false, false},
		{20 << 20, 16 * 64, 0, false, true},
		{20 << 20, 1, 8 << 20, false, true},
		{20 << 20, 1, 0, true, true},
	} {
		o.stateBytes, o.sinceChunks, o.sinceBytes, o.snapshotNow = c.state, c.chunks, c.bytes, c.now
		if got := o.snapshotDue(); got != c.want {
			t.Errorf("%+v: due is %v", c, got)
		}
	}
}
