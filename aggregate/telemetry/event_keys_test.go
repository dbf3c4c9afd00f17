package telemetry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
)

// exportFrames are the events of one run as an export of them comes to the worker; poor leaves metadata out.
func exportFrames(t testing.TB, from, to int, poor bool) (body []byte, n uint64) {
	t.Helper()
	var v telemetry.Validator
	var e telemetry.Event
	for i := from; i < to; i++ {
		metadata := fmt.Sprintf(`{"step":%d,"phase_scope":{"name":"train"}}`, i)
		if poor {
			metadata = "{}"
		}
		kind := []string{"sample", "peak", "allocation"}[i%3]
		text := fmt.Sprintf(`{"schema_version":3,"session_id":"s","timestamp_ns":%d,"event_type":"%s","collector":"c",`+
			`"sampling_interval_ms":1,"pid":1,"host":"h","device_id":0,`+
			`"allocator_allocated_bytes":%d,"allocator_reserved_bytes":9,"allocator_active_bytes":null,"allocator_inactive_bytes":null,`+
			`"allocator_change_bytes":7,"device_used_bytes":9,`+
			`"device_free_bytes":null,"device_total_bytes":null,"context":null,"metadata":%s}`, exportEpoch+int64(i/3)*256, kind, i, metadata)
		if r := v.Event(&e, []byte(text), nil); r != nil {
			t.Fatal(r)
		}
		body = telemetry.AppendFrame(body, i, &e)
		n++
	}
	return body, n
}

type exportOwner struct {
	t      *testing.T
	f      *aggregate.Fold
	m      *folding
	kind   stream.Kind
	now    int64
	parts  int
	states [][]byte
	rows   map[string]int
	sum    aggregate.Counts
	bytes  uint64 // of allocations
}

func newExportOwner(t *testing.T) *exportOwner {
	o := &exportOwner{t: t, kind: stream.KindTelemetry, now: time.Now().UnixNano(), rows: map[string]int{}}
	o.f, o.m = newExportFold()
	return o
}

func (o *exportOwner) send(body []byte, n uint64) {
	o.parts++
	p := &aggregate.Part{Seq: uint64(o.parts), Now: o.now, Env: stream.Envelope{Tenant: "t", Session: "mem:s", Kind: o.kind,
		Source: "telemetry", Identity: fmt.Sprint(o.parts), Events: n,
		ReceivedAt: exportEpoch, RetentionDays: 7, RollupDays: 395}}
	o.f.Take(p, o.f.Session(p), body)
	a := p.Counted()
	o.sum.Stored, o.sum.Duplicates, o.sum.Events = o.sum.Stored+a.Stored, o.sum.Duplicates+a.Duplicates, o.sum.Events+a.Events
	for s := range o.m.own {
		for _, a := range s.minutes {
			o.bytes += a.allocationBytes
		}
		s.minutes = nil
	}
	o.m.reader.last = memoryLast{}
}

func (o *exportOwner) publish() {
	for _, tab := range []*table.Table{telemetrytable.MemoryEvents.Table, telemetrytable.MemoryReplaced.Table,
		telemetrytable.MemoryTrackAlerts.Table} {
		o.rows[tab.Name] += o.f.Out.Batch(tab, rows.RawDayPartition(exportEpoch, 7)).Rows()
	}
	o.states = append(o.states, o.f.AppendState(nil, false))
	o.f.Published()
	o.f.Out.Reset()
	o.f.OutSerial++
}

// handOver goes on in a new owner, from the changes or from a snapshot.
func (o *exportOwner) handOver(snapshot bool) {
	states := o.states
	if snapshot {
		states = [][]byte{o.f.AppendState(nil, true)}
	}
	o.f, o.m = newExportFold()
	for _, s := range states {
		if err := o.f.ApplyState(s); err != nil {
			o.t.Fatal(err)
		}
	}
	o.f.Resume(o.now, o.now, false)
}

// json, csv, ndjson, sink and a ring that is exported twice give one set of events, in any order, a day later and after a worker's
// death too; a copy that says more takes the row's place and changes no sum.
func TestOneEventCountsOnce(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := newExportOwner(t)
		for range 5 {
			for range 4 {
				from := r.IntN(300)
				o.send(exportFrames(t, from, min(300, from+1+r.IntN(120)), r.IntN(2) == 0))
			}
			o.publish()
			o.handOver(r.IntN(2) == 0)
			o.now += int64(26 * time.Hour)
			o.f.Expire(o.now)
			o.f.ExpireIdle(o.now)
		}
		o.send(exportFrames(t, 0, 300, true))
		o.send(exportFrames(t, 0, 300, false))
		o.send(exportFrames(t, 0, 300, false))
		o.publish()
		if o.sum.Stored != 300 || o.sum.Stored+o.sum.Duplicates != o.sum.Events || o.bytes != 700 {
			t.Errorf("seed %d: %+v, %d bytes allocated: want 300 stored and 700 bytes", seed, o.sum, o.bytes)
		}
		if shown := o.rows["memory_events_data"] - o.rows["memory_replaced_data"]; shown != 300 || o.rows["memory_replaced_data"] == 0 {
			t.Errorf("seed %d: rows %v, want 300 shown and some replaced", seed, o.rows)
		}
	}
}

// What a session remembers is bounded, and so is what all of a partition do; the longest silent forget first.
func TestEventKeysAreBounded(t *testing.T) {
	var k eventKeys
	for i := range uint64(3*maxEventKeys + 5) {
		k.add((i + 1) << richnessBits)
	}
	if n := k.count(); n > 2*maxEventKeys || n < maxEventKeys {
		t.Errorf("%d keys are remembered", n)
	}
	if last := uint64(3*maxEventKeys+5) << richnessBits; k.find(last) == nil || k.find(1<<richnessBits) != nil {
		t.Error("not the newest are remembered")
	}
	fold, f := newExportFold()
	add := func(tenant string, i int, at int64) *session {
		s := fold.Session(&aggregate.Part{Env: stream.Envelope{Tenant: tenant, Session: fmt.Sprint(i)}})
		s.LastReceivedAt = at
		return f.New(s).(*session)
	}
	var flood []*session
	for i := range 6 {
		s := add("t", i, int64(i))
		flood = append(flood, s)
		for j := range uint64(1 << 20) {
			if s.keys.young.n < maxEventKeys {
				s.keys.young.add((j + 1) << richnessBits)
			} else {
				s.keys.old.add((j + 1) << richnessBits)
			}
		}
	}
	// One that has been silent for longer than all of them, of a tenant that has little.
	modest := add("u", 0, -1)
	for j := range uint64(1000) {
		modest.keys.add((j + 1) << richnessBits)
	}
	last := flood[5]
	f.trimEventKeys(last)
	if flood[0].keys.count() != 0 || last.keys.count() != 1<<20 || f.eventKeys > maxPartitionEventKeys {
		t.Errorf("%d keys are left", f.eventKeys)
	}
	if modest.keys.count() != 1000 {
		t.Error("another tenant's flood made the modest one's events forgotten")
	}
}

// Keys that somebody has chosen to begin their search in one place do not make it long.
func TestChosenEventKeys(t *testing.T) {
	for name, key := range map[string]func(i uint64) uint64{
		"low bits alike":  func(i uint64) uint64 { return i << 40 },
		"high bits alike": func(i uint64) uint64 { return i << richnessBits },
		"in a band":       func(i uint64) uint64 { return i<<44 | i%64<<richnessBits },
	} {
		var table keyTable
		for i := range uint64(1 << 16) {
			table.add(key(i + 1))
		}
		longest, run := 0, 0
		for _, s := range table.slots {
			if run++; s == 0 {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > 2000 {
			t.Errorf("%s: %d entries stand in a row", name, longest)
		}
	}
}
