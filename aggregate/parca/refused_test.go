package parca

import (
	"fmt"
	"testing"
	"time"
)

// Refused rows are counted at once; a session, reason and type has one row of rejects in a minute at most, without bytes, and together they
// say what was refused: over takeovers, and when the session falls silent.
func TestRefusedRowsShareARowAMinute(t *testing.T) {
	o := newOwner(t)
	const batches = 100
	for i := range batches {
		b := newBuilder("n", "1", "train").refuse(reasonNotGPU, "samples", 20).refuse(reasonNotGPU, "samples", 3).
			refuse(reasonNotGPU, "wallclock", 2).refuse(reasonMergedCounts, "gpu_time", 1)
		o.say("s", &b.Part)
		o.publish()
		o.now += 5e9
		if i%30 == 10 {
			o.die(i%60 == 10)
		}
		o.f.Expire(o.now)
	}
	if o.sum("usage_data", "rejected") != batches*26 || o.sum("sessions_data", "rejects") == 0 {
		t.Errorf("%d rows of %d are refused in usage", o.sum("usage_data", "rejected"), batches*26)
	}
	o.settle()
	seen := map[string]bool{}
	sums := map[string]uint64{}
	for _, r := range o.rows["rejects_data"] {
		kind := fmt.Sprint(r["reason"], " ", r["type"])
		minute := fmt.Sprint(kind, r["at"].(int64)/60e9)
		if seen[minute] {
			t.Errorf("two rows of %s in a minute", minute)
		}
		seen[minute] = true
		sums[kind] += r["events"].(uint64)
		if r["payload"] != "" || r["bytes"] != uint64(0) || r["detail"] != "why" || r["session_id"] != "s" || r["source"] != "parca" {
			t.Errorf("%v", r)
		}
	}
	for kind, want := range map[string]uint64{"not_gpu samples": 2300, "not_gpu wallclock": 200, "merged_counts gpu_time": 100} {
		if sums[kind] != want {
			t.Errorf("%s: %d, want %d", kind, sums[kind], want)
		}
	}
	if have := o.sum("sessions_data", "rejects"); have != batches*26 {
		t.Errorf("the session has %d rejects", have)
	}
	if len(o.m.refusing) != 0 || o.session("s").Load().Waits {
		t.Error("something waits for ever")
	}
}

// Types of samples are the sender's words: a session has so many of them and one that stands for the rest.
func TestRefusedTypesAreBounded(t *testing.T) {
	o := newOwner(t)
	for i := range 1000 {
		b := newBuilder("n", "1", "train").refuse(reasonNotGPU, fmt.Sprint("type", i), 1).refuse("bad_value", "gpu_pcsample", 1)
		o.say("s", &b.Part)
		if i%100 == 99 {
			o.publish()
		}
	}
	o.settle()
	total := uint64(0)
	for _, r := range o.rows["rejects_data"] {
		total += r["events"].(uint64)
	}
	if n := len(o.session("s").refused.all); total != 2000 || n > maxRefusals+1 || len(o.rows["rejects_data"]) > 2*n {
		t.Errorf("%d rows refused, %d in memory, %d rows", total, n, len(o.rows["rejects_data"]))
	}
}

// A body that is no part is one reject, and the books balance.
func TestABodyThatIsNoPart(t *testing.T) {
	o := newOwner(t)
	in := message("s", "x", 0, o.now, &newBuilder("n", "", "").refuse(reasonNotGPU, "samples", 7).Part)
	in.body = in.body[:len(in.body)/2]
	o.take(in)
	o.settle()
	if len(o.rows["rejects_data"]) != 1 || o.sum("rejects_data", "events") != 7 {
		t.Errorf("%v", o.rows["rejects_data"])
	}
	o.now += int64(time.Hour)
}
