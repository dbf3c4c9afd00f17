package telemetry

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
)

// trackAlerts is a part of the alerts of a tracker's file.
func trackAlerts(t testing.TB, from, to int) []byte {
	t.Helper()
	head, err := json.Marshal(telemetry.AlertOwner{Host: "h", JobID: "j", Rank: 3, DeviceID: -1})
	if err != nil {
		t.Fatal(err)
	}
	body := append(head, '\n')
	for i := from; i < to; i++ {
		body = telemetry.AppendAlert(body, &telemetry.Alert{TimestampNS: exportEpoch + int64(i/2), MemoryMB: float64(i), ThresholdMB: 0.5,
			Message: []byte("over")})
	}
	return body
}

// A file that grows and is sent again and again, before its events and after them, gives each alert once, a day later and after a
// worker's death too, and they change nothing that is counted.
func TestOneAlertIsKeptOnce(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := newExportOwner(t)
		alerts := func(from, to int) {
			o.kind = stream.KindAlerts
			o.send(trackAlerts(t, from, to), 0)
			o.kind = stream.KindTelemetry
		}
		for range 4 {
			from := r.IntN(300)
			alerts(from, min(300, from+1+r.IntN(120)))
			o.send(exportFrames(t, from, min(300, from+1+r.IntN(120)), r.IntN(2) == 0))
			alerts(from, min(300, from+1+r.IntN(120)))
			o.publish()
			o.handOver(r.IntN(2) == 0)
			o.now += int64(26 * time.Hour)
			o.f.Expire(o.now)
			o.f.ExpireIdle(o.now)
		}
		o.send(exportFrames(t, 0, 300, false))
		alerts(0, 300)
		alerts(0, 300)
		o.publish()
		if o.sum.Stored != 300 || o.sum.Stored+o.sum.Duplicates != o.sum.Events || o.bytes != 700 {
			t.Errorf("seed %d: %+v, %d bytes allocated: want 300 stored and 700 bytes", seed, o.sum, o.bytes)
		}
		if n := o.rows["memory_track_alerts_data"]; n != 300 {
			t.Errorf("seed %d: %d alerts", seed, n)
		}
	}
}

// A part of alerts that is damaged, or of a newer version, is kept with its reason, and the books balance.
func TestDamagedAlerts(t *testing.T) {
	o := newExportOwner(t)
	o.kind = stream.KindAlerts
	good := trackAlerts(t, 0, 2)
	for _, c := range []struct {
		body   []byte
		alerts int
		bad    uint64
	}{
		{nil, 0, 1}, {[]byte("nothing\n{}"), 0, 1}, {append(good, "{}\n\n5\n"...), 2, 3}, {append(good, good...), 0, 1},
	} {
		before := o.f.Out.Batch(telemetrytable.MemoryTrackAlerts.Table, rows.RawDayPartition(exportEpoch, 7)).Rows()
		o.parts++
		p := &aggregate.Part{Seq: uint64(o.parts), Now: o.now, Env: stream.Envelope{
			Tenant: "t", Session: "mem:s", Kind: stream.KindAlerts, Source: "telemetry", Part: -2 - o.parts, ReceivedAt: exportEpoch,
			RetentionDays: 7, RollupDays: 395,
		}}
		o.f.Take(p, o.f.Session(p), c.body)
		if u := p.Counted(); u.Events != c.bad || u.Stored+u.Duplicates != 0 {
			t.Errorf("%q: %+v, want %d rejected", c.body, u, c.bad)
		}
		if n := o.f.Out.Batch(telemetrytable.MemoryTrackAlerts.Table, rows.RawDayPartition(exportEpoch, 7)).Rows() - before; n != c.alerts {
			t.Errorf("%q: %d alerts", c.body, n)
		}
	}
}
