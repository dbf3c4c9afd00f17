package telemetry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
)

// alerts folds the alerts of a tracker's file. They are not events and are not in any sum. The session remembers them with the keys of its
// events, so that a file that grows and is sent again does not write all of them again. An alert that comes again after it was forgotten is
// dropped at read (memory_alerts).
func (f *folding) alerts(s *session, p *aggregate.Part, body []byte) {
	head, rest, _ := bytes.Cut(body, []byte{'\n'})
	var of telemetry.AlertOwner
	if err := json.Unmarshal(head, &of); err != nil {
		f.badAlert(p, head, err)
		return
	}
	t := &telemetrytable.MemoryTrackAlerts
	var b *table.Batch
	var host, job int32
	var a telemetry.Alert
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		p.Line++
		f.CheckLine(p)
		if err := telemetry.ParseAlert(line, &a); err != nil {
			f.badAlert(p, line, err)
			continue
		}
		if seen, _, _ := f.seenEvent(s, f.alertKey(&of, &a), 0); seen || s.NoRaw {
			continue
		}
		if b == nil {
			b = f.Out.Batch(t.Table, p.Raw)
			host, job = t.Host.Index(b, rows.Clip(of.Host)), t.JobID.Index(b, rows.Clip(of.JobID))
		}
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.At.Append(b, a.TimestampNS)
		t.TimestampNS.Append(b, a.TimestampNS)
		t.Host.Append(b, host)
		t.JobID.Append(b, job)
		t.Rank.Append(b, of.Rank)
		t.DeviceID.Append(b, of.DeviceID)
		t.MemoryMB.Append(b, a.MemoryMB)
		t.ThresholdMB.Append(b, a.ThresholdMB)
		t.Message.AppendBytes(b, a.Message)
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

// alertKey is eventKey of an alert.
func (f *folding) alertKey(of *telemetry.AlertOwner, a *telemetry.Alert) uint64 {
	b := append(f.reader.key[:0], "alert"...)
	for _, v := range [...]uint64{uint64(a.TimestampNS), uint64(of.Rank), uint64(of.DeviceID), math.Float64bits(a.MemoryMB),
		math.Float64bits(a.ThresholdMB)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	f.reader.key = append(b, a.Message...)
	if key := xxh3.Hash(f.reader.key) &^ maxRichness; key != 0 {
		return key
	}
	return maxRichness + 1 // 0 is not a key
}

// badAlert keeps bytes that are not as the gateway writes alerts.
func (f *folding) badAlert(p *aggregate.Part, text []byte, err error) {
	p.Received(1)
	f.Reject(p, aggregate.Reject{
		Reason: gpuflight.ReasonBadJSON, Detail: "alerts of a tracker's file that this version cannot read: " + rows.Clip(err.Error()),
		Events: 1, Payload: text,
	})
}
