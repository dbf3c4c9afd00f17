package parca

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/state_v1.bin anew: only while no release has written that version")

// olderParts are what the partition of the fixture has folded.
func olderParts() []sent {
	b := newBuilder("n", "7", "train")
	stack := b.stack(5, "libcuda+0x10", "train_step")
	b.kernel(noon, "_Z4gemmv", 10, stack).pc(noon, "_Z4gemmv", 16, stalled, 3, 100, stack).refuse(reasonNotGPU, "samples", 19)
	return []sent{message("parca:n:7:train", "sha256-a", 0, noon, &b.Part), message("parca:n:7:train", "sha256-b", 0, noon+5e9, &b.Part)}
}

// The state that version 1 of the section has written is read: kernels that are held have their names, refusals that wait are told, parts
// are known, and what was written that day is not written again.
func TestStateOfVersion1(t *testing.T) {
	const path = "testdata/state_v1.bin"
	if *update {
		o := newOwner(t)
		for _, in := range olderParts() {
			o.take(in)
		}
		o.publish()
		if err := os.WriteFile(path, o.f.AppendState(nil, true), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := newOwner(t)
	o.now += 6e9
	o.states = [][]byte{state}
	o.die(false)
	if again := o.f.AppendState(nil, true); len(again) != len(state) {
		t.Errorf("%d bytes are written again as %d others", len(state), len(again))
	}
	for _, in := range olderParts() {
		o.take(in)
	}
	in := olderParts()[0]
	in.env.Identity, in.env.ReceivedAt = "sha256-c", o.now
	o.take(in)
	o.settle()
	if o.sum("kernel_stats_data", "calls") != 3 || o.rows["kernel_stats_data"][0]["kernel"] != "_Z4gemmv" {
		t.Errorf("kernels that were held: %v", o.rows["kernel_stats_data"])
	}
	if o.sum("usage_data", "duplicates") != 42 || o.sum("pc_buckets_data", "samples") != 3 || o.sum("rejects_data", "events") != 38 {
		t.Errorf("%d duplicates, %d samples, %d rejects", o.sum("usage_data", "duplicates"), o.sum("pc_buckets_data", "samples"),
			o.sum("rejects_data", "events"))
	}
	for _, name := range []string{"dictionaries", "launches", "stack_frames_data", "session_labels_data"} {
		if len(o.rows[name]) != 0 {
			t.Errorf("%s is written again: %v", name, o.rows[name])
		}
	}
}

// Damage of any kind is an error or another state, and never a panic.
func FuzzState(f *testing.F) {
	state, err := os.ReadFile("testdata/state_v1.bin")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Fuzz(func(t *testing.T, state []byte) {
		fold, _ := newTestFold()
		if fold.ApplyState(state) != nil {
			return
		}
		fold.Resume(noon, noon, false)
		again := fold.AppendState(nil, true)
		next, _ := newTestFold()
		if err := next.ApplyState(again); err != nil {
			t.Fatalf("a state is read and not read again: %v", err)
		}
	})
}
