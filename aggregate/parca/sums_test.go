package parca

import (
	"testing"

	"github.com/warpline/warpline/proto/stream"

	"github.com/warpline/warpline/sink/table"
)

// Rows of one key in one chunk are one row, and rows that differ in period, opcode, device, session, minute, day or retention class are
// not; whatever is freed meanwhile, the sums are exact.
func TestOneRowAKey(t *testing.T) {
	o := newOwner(t)
	var total, hits uint64
	send := func(session string, days uint16, at int64, b *builder) {
		in := message(session, "x", int(o.seq), at, &b.Part)
		in.env.RollupDays = days
		o.take(in)
		for _, r := range b.PC {
			total += r.Samples * r.PeriodNS
			hits++
		}
	}
	make2 := func() *builder {
		b := newBuilder("n", "1", "train").pc(noon, "k", 16, stalled, 3, 100, 0).pc(noon, "k", 16, stalled, 4, 100, 0)
		return b
	}
	other := newBuilder("n", "1", "train").pc(noon, "k", 16, stalled, 1, 100, 0).pc(noon, "k", 16, stalled, 1, 0, 0).
		pc(noon, "k", 16, stalled, 1, 101, 0).pc(noon+60e9, "k", 16, stalled, 1, 100, 0).pc(noon, "k", 32, stalled, 1, 100, 0).
		pc(noon, "l", 16, stalled, 1, 100, 0).pc(noon, "k", 16, stalled+"x", 1, 100, 0)
	other.PC[0].SASS = other.text("LDG")
	other.PC[1].Device = 3
	for range 5 {
		send("a", 395, noon, make2())
	}
	send("b", 395, noon, make2())
	send("a", 395, noon, other)
	send("a", 395, noon+day, make2())
	o.publish()
	if n := len(o.rows["pc_buckets_data"]); n != 1+1+7+1 {
		t.Errorf("%d rows of pc_buckets", n)
	}
	for i := range 40 { // more classes than are known at once
		for round := range 3 {
			send("a", uint16(100+i), noon, make2())
			if round == 1 && i%5 == 0 {
				o.now += trimEvery + 1
				o.f.Expire(o.now)
			}
		}
		if i%7 == 0 {
			o.publish()
		}
	}
	o.settle()
	if o.sum("pc_buckets_data", "gpu_ns") != total || o.sum("pc_buckets_data", "hits") != hits ||
		o.sum("pc_cubins_data", "samples") != o.sum("pc_buckets_data", "samples") {
		t.Errorf("%d ns in buckets, want %d; %d hits of %d; %d samples, by cubin %d", o.sum("pc_buckets_data", "gpu_ns"), total,
			o.sum("pc_buckets_data", "hits"), hits, o.sum("pc_buckets_data", "samples"), o.sum("pc_cubins_data", "samples"))
	}
	if len(o.m.buckets)+len(o.m.cubins)+len(o.m.stacks) != 0 {
		t.Error("sums that nobody uses are kept")
	}
}

// A key that keeps launch stacks out has none in the tables, and the same samples.
func TestNoLaunchStacks(t *testing.T) {
	o := newOwner(t)
	b := newBuilder("n", "1", "train")
	b.pc(noon, "k", 16, stalled, 3, 100, b.stack(9, "main")).kernel(noon, "k", 5, b.stack(9, "main"))
	in := message("s", "x", 0, noon, &b.Part)
	in.env.NoStacks = true
	o.take(in)
	o.settle()
	if len(o.rows["kernel_stacks_data"])+len(o.rows["session_stacks_data"])+len(o.rows["stack_frames_data"]) != 0 ||
		o.sum("pc_buckets_data", "samples") != 3 || o.sum("pc_buckets_data", "content_hi") != 0 ||
		o.sum("pc_buckets_data", "content_lo") != table.StackNotKept {
		t.Errorf("%v, %v", o.rows["kernel_stacks_data"], o.rows["pc_buckets_data"])
	}
}

// A session that is deleted and comes again begins anew: its facts are written again.
func TestDeletedSessionBeginsAnew(t *testing.T) {
	o := newOwner(t)
	b := newBuilder("n", "1", "train")
	b.kernel(noon, "k", 5, b.stack(9, "main")).refuse(reasonNotGPU, "samples", 2)
	o.say("s", &b.Part)
	o.say("s", &b.Part)
	o.publish()
	before := len(o.rows["stack_frames_data"])
	o.f.Erase(stream.Deletion{ID: "d", Tenant: "t", Session: "s", At: o.now + 1})
	if len(o.m.refusing) != 0 {
		t.Error("refusals of a deleted session wait")
	}
	o.publish()
	o.now += 1e9
	o.say("s", &b.Part)
	o.settle()
	if len(o.rows["stack_frames_data"]) != 2*before || len(o.rows["launches"]) != 2 {
		t.Errorf("%d rows of frames, %d launches", len(o.rows["stack_frames_data"]), len(o.rows["launches"]))
	}
}

// The row of a session says who it is and when it was seen.
func TestSessionRow(t *testing.T) {
	o := newOwner(t)
	b := newBuilder("node-a", "4242", "train").kernel(noon+5, "k", 5, 0).pc(noon, "k", 16, stalled, 3, 1, 0).
		pc(noon+9, "k", 16, stalled+notIssued, 5, 1, 0).pc(noon, "k", 16, "stall_reason_7", 7, 1, 0)
	o.say("parca:node-a:4242:train", &b.Part)
	o.settle()
	row := o.rows["sessions_data"][0]
	for column, want := range map[string]any{
		"app": "train", "host": "node-a", "pid": uint64(4242), "kernels": uint64(1), "samples": uint64(3), "events": uint64(4),
		"first_event_at": noon, "last_event_at": noon + 9, "source": "parca", "vendor": "NVIDIA",
	} {
		if row[column] != want {
			t.Errorf("%s is %v, want %v", column, row[column], want)
		}
	}
}
