package parca

import (
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
)

const stalled = stallPrefix + "selected"

// A name, a launch and the frames of a stack are written once a day on which they are used: what they were written with expires with the
// day. The id stays.
func TestFactsAreWrittenAgainOnALaterDay(t *testing.T) {
	o := newOwner(t)
	b := newBuilder("n", "1", "train", parca.Label{Name: "pod", Value: "a"})
	stack := b.stack(5, "libcuda+0x10", "train_step")
	b.kernel(noon, "_Z4gemmv", 10, stack).pc(noon, "_Z4gemmv", 16, stalled, 3, 100, stack)
	for _, at := range []int64{0, 1, 2, day, day + 1, 3 * day} { // the third after a takeover, the last after silence
		o.now = noon + at
		o.say("s", &b.Part)
		o.publish()
		if at == 1 || at == day {
			o.die(at == 1)
		}
	}
	o.settle()
	for name, want := range map[string]int{"dictionaries": 3, "launches": 3, "stack_frames_data": 6, "session_labels_data": 12} {
		if have := len(o.rows[name]); have != want {
			t.Errorf("%d rows of %s, want %d: %v", have, name, want, o.rows[name])
		}
	}
	days := map[any]bool{}
	for _, r := range o.rows["launches"] {
		days[r["received_day"]] = true
		if r["launch_id"] != o.rows["launches"][0]["launch_id"] {
			t.Errorf("the launch got another id: %v", r)
		}
	}
	if len(days) != 3 {
		t.Errorf("launches were written on %v", days)
	}
	if o.sum("kernel_stats_data", "calls") != 6 || len(o.kernelTotals()) != 1 {
		t.Errorf("kernels %v", o.kernelTotals())
	}
	for _, r := range o.rows["kernel_stats_data"] {
		if r["kernel"] != "_Z4gemmv" {
			t.Errorf("a rollup of %v", r["kernel"])
		}
	}
	o.linked()
}

// A session that uses more names and stacks than are remembered writes some again, under ids that no other name has had, and its sums stay
// exact: also over takeovers, after it was forgotten, and when its state is made again.
func TestMoreNamesThanAreRemembered(t *testing.T) {
	o := newOwner(t)
	calls := uint64(0)
	for round := range 12 {
		for k := range 9 {
			b := newBuilder("n", "1", "train")
			for i := range 100 {
				n := 100*k + i
				name := fmt.Sprint("kernel_", n)
				b.kernel(o.now, name, uint64(n+1), b.stack(uint64(n+1), name)).pc(o.now, name, 16, stalled, 1, 1, b.stack(uint64(n+1), name))
				calls++
			}
			o.say("s", &b.Part)
			o.now += 5e9
			o.publish()
		}
		s := o.session("s")
		if len(s.names.all) > maxSeen || len(s.written.all) > maxSeen {
			t.Fatalf("%d names and %d stacks are remembered", len(s.names.all), len(s.written.all))
		}
		switch round % 4 {
		case 0:
			o.die(true)
		case 1:
			o.die(false)
		case 2:
			o.settle()
			o.now += int64(25 * time.Hour)
			o.f.ExpireIdle(o.now) // forgets it
			o.publish()
			if len(o.f.Sessions) != 0 {
				t.Fatal("the session is not forgotten")
			}
		case 3: // what quiet.end does
			o.settle()
			s.NextConfig += 1 << 15
			o.f.Resume(o.now, o.now, false)
			if len(s.names.all) != 0 {
				t.Fatal("names that were never written are remembered")
			}
		}
	}
	o.settle()
	sums := o.kernelTotals()
	if len(sums) != 900 || o.sum("kernel_stats_data", "calls") != calls || o.sum("pc_buckets_data", "samples") != calls {
		t.Errorf("%d kernels, %d calls of %d, %d samples", len(sums), o.sum("kernel_stats_data", "calls"), calls,
			o.sum("pc_buckets_data", "samples"))
	}
	for i := range 900 {
		if have := sums[fmt.Sprintf("kernel_%d0 7", i)]; have != uint64(12*(i+1)) {
			t.Fatalf("kernel %d ran for %d ns, want %d: %v", i, have, 12*(i+1), sums)
		}
	}
	byKernel := map[string]uint64{}
	for _, r := range o.rows["kernel_stats_data"] {
		byKernel[r["kernel"].(string)] += r["total_ns"].(uint64)
	}
	for i := range 900 {
		if have := byKernel[fmt.Sprint("kernel_", i)]; have != uint64(12*(i+1)) {
			t.Fatalf("rollups of kernel %d: %d ns, want %d", i, have, 12*(i+1))
		}
	}
	o.linked()
}

// A part that comes again within 20 minutes is known, whatever else came, over takeovers and silence; the set does not grow with the
// session's life.
func TestPartsAreRememberedForTwentyMinutes(t *testing.T) {
	o := newOwner(t)
	b := newBuilder("n", "1", "train").pc(noon, "k", 16, stalled, 1, 1, 0)
	var log []sent
	for i := range 2000 { // nearly three hours
		o.now = noon + int64(i)*5e9
		m := message("s", fmt.Sprint("batch", i), 0, o.now, &b.Part)
		log = append(log, m)
		o.take(m)
		for _, back := range []int{1, 60, 230} { // sent again, at another gateway
			if i%7 == 0 && i >= back {
				again := log[i-back]
				again.env.ReceivedAt = o.now - 3e9
				o.take(again)
			}
		}
		if i%10 == 0 {
			o.publish()
		}
		if i%500 == 250 {
			o.publish()
			o.die(i%1000 == 250)
		}
		if i%500 == 400 {
			o.publish()
			o.f.ExpireIdle(o.now + int64(10*time.Minute))
		}
	}
	o.settle()
	if have := o.sum("pc_buckets_data", "samples"); have != 2000 {
		t.Errorf("%d samples of 2000", have)
	}
	n := len(o.f.AppendState(nil, true))
	if n > 4000 {
		t.Errorf("the state is %d bytes", n)
	}
}

// A label that changes by the row does not fill the tables: some values a day are kept of it, the rows of the others are counted together,
// and labels that stay are there.
func TestFloodOfLabelsIsBounded(t *testing.T) {
	o := newOwner(t)
	const values, sessions = 100_000, 64
	for i := range values {
		b := newBuilder("n", "1", "train", parca.Label{Name: "namespace", Value: "prod"},
			parca.Label{Name: "request_id", Value: fmt.Sprint("r", i)}).pc(noon, "k", 16, stalled, 1, 1, 0)
		o.say(fmt.Sprint("s", i%sessions), &b.Part)
		if i%1000 == 999 {
			o.publish()
		}
	}
	o.settle()
	if o.sum("pc_buckets_data", "samples") != values || o.sum("sessions_data", "samples") != values {
		t.Errorf("%d samples, %d of sessions", o.sum("pc_buckets_data", "samples"), o.sum("sessions_data", "samples"))
	}
	kept, other := 0, uint64(0)
	for _, r := range o.rows["session_labels_data"] {
		switch {
		case r["value"] == "(other)" && r["label"] == "request_id":
			other += r["rows"].(uint64)
		case r["label"] == "request_id":
			kept++
		case r["rows"] != uint64(0):
			t.Errorf("%v", r)
		}
	}
	if kept != sessions*maxValues || other != values-sessions*maxValues {
		t.Errorf("%d values are kept, %d rows folded together", kept, other)
	}
	for _, s := range o.f.Sessions {
		if n := len(o.session(s.Key.ID).labels.all); n != 4+maxValues {
			t.Errorf("%d labels of %s are remembered", n, s.Key.ID)
		}
	}
	b := newBuilder("n", "1", "train").pc(noon, "k", 16, stalled, 1, 1, 0)
	for i := range 1000 {
		b.Process.Labels = append(b.Process.Labels, parca.Label{Name: fmt.Sprint("name", i), Value: "v"})
	}
	o.say("many", &b.Part)
	if n := len(o.session("many").labels.all); n != maxLabelNames {
		t.Errorf("%d of 1000 labels are remembered", n)
	}
}
