package sink

import (
	"slices"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// What may come again under the same name is deleted up to the chunk with the tombstone, also when the lane looks again minutes later.
func TestDeletionsOfWhatComesBackAreBounded(t *testing.T) {
	k := &Sink{s: &broker.Streams{Partitions: 4}}
	for session, bounded := range map[string]bool{"": true, stream.NoSession: true, "mem:unknown": true, "mem:h:1:-:0": true, "test:a": true,
		"5f0c": false, "5f0c:1": false} {
		d := k.targets(3, 17, []stream.Deletion{{Tenant: "a", Session: session}})[0]
		if d.Bounded != bounded || d.Chunk != 17 || d.Partition != 3 || d.Partitions != 4 {
			t.Errorf("session %q: %+v", session, d)
		}
	}
}

// A deletion is looked at again when its time has come. Where there are too many, the oldest are looked at together, before their time, so
// many that half of the room is free.
func TestDeletionsAreLookedAtTogether(t *testing.T) {
	now := time.Now()
	of := func(ages []time.Duration, each int) (all []erased) {
		for _, age := range ages {
			all = append(all, erased{At: now.Add(-age), Deletes: make([]stream.Deletion, each)})
		}
		return all
	}
	young, old := []time.Duration{time.Second}, []time.Duration{time.Hour}
	for _, c := range []struct {
		name string
		all  []erased
		want int
	}{
		{"none", nil, 0},
		{"young ones wait", of(slices.Repeat(young, 4), 256), 0},
		{"old ones go together", append(of(slices.Repeat(old, 3), 10), of(young, 10)...), 3},
		{"too many young ones leave half of the room", of(slices.Repeat(young, 5), 256), 3},
		{"one that is too large by itself", of(young, 2000), 1},
		{"a statement has its bound", of(slices.Repeat(old, 100), 256), 9},
	} {
		if got := dueAgain(c.all, now, time.Minute); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Chunks that follow a deletion of their partition join its span, unless it is of what may come again.
func TestSpansTakeManyDeletions(t *testing.T) {
	cfg := &Config{MaxRangeRows: 1 << 20, MaxRangeBytes: 1 << 30}
	chunk := func(partition int, sessions ...string) message {
		m := message{chunk: stream.Chunk{Partition: partition}}
		for _, s := range sessions {
			m.chunk.Deletes = append(m.chunk.Deletes, stream.Deletion{Tenant: "a", Session: s})
		}
		return m
	}
	for _, c := range []struct {
		name        string
		first, then message
		want        bool
	}{
		{"rows after a session's", chunk(1, "s"), chunk(1), true},
		{"a session's after a session's", chunk(1, "s"), chunk(1, "t"), true},
		{"rows after a tenant's", chunk(1, "s", ""), chunk(1), false},
		{"rows after one that may come again", chunk(1, "mem:unknown"), chunk(1), false},
		{"rows of another partition", chunk(1, ""), chunk(2), true},
		{"more than a span may have", chunk(1, slices.Repeat([]string{"s"}, mostDeletes+1)...), chunk(2, "t"), false},
		{"rows where there are more", chunk(1, slices.Repeat([]string{"s"}, mostDeletes+1)...), chunk(1), true},
	} {
		s := &span{}
		s.add(c.first)
		if got := s.fits(&c.then, cfg); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
