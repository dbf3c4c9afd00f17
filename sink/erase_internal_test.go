package sink

import (
	"testing"

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
