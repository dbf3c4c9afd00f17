package aggregate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
)

// alerts folds the alerts of a tracker's file. They are no events and count in no sum. The session remembers them with the keys of its
// events, so that a file that grows and is sent again does not write all of them again; one that came back after that is found
// when it is read (memory_alerts).
func (f *folder) alerts(s *session, p *part, body []byte) {
	head, rest, _ := bytes.Cut(body, []byte{'\n'})
	var of telemetry.AlertOwner
	if err := json.Unmarshal(head, &of); err != nil {
		f.badAlert(s, p, head, err)
		return
	}
	t := &table.MemoryTrackAlerts
	var b *table.Batch
	var host, job int32
	var a telemetry.Alert
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		p.line++
		f.checkLine(p)
		if err := telemetry.ParseAlert(line, &a); err != nil {
			f.badAlert(s, p, line, err)
			continue
		}
		if seen, _, _ := f.seenEvent(s, f.alertKey(&of, &a), 0); seen || s.noRaw {
			continue
		}
		if b == nil {
			b = f.out.batch(t.Table, p.raw)
			host, job = t.Host.Index(b, clip(of.Host)), t.JobID.Index(b, clip(of.JobID))
		}
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.At.Append(b, a.TimestampNS)
		t.TimestampNS.Append(b, a.TimestampNS)
		t.Host.Append(b, host)
		t.JobID.Append(b, job)
		t.Rank.Append(b, of.Rank)
		t.DeviceID.Append(b, of.DeviceID)
		t.MemoryMB.Append(b, a.MemoryMB)
		t.ThresholdMB.Append(b, a.ThresholdMB)
		t.Message.AppendBytes(b, a.Message)
		t.ReceivedAt.Append(b, p.env.ReceivedAt)
	}
	f.out.saw(p.env.ReceivedAt)
}

// alertKey is eventKey of an alert.
func (f *folder) alertKey(of *telemetry.AlertOwner, a *telemetry.Alert) uint64 {
	b := append(f.memory.key[:0], "alert"...)
	for _, v := range [...]uint64{uint64(a.TimestampNS), uint64(of.Rank), uint64(of.DeviceID), math.Float64bits(a.MemoryMB),
		math.Float64bits(a.ThresholdMB)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	f.memory.key = append(b, a.Message...)
	if key := xxh3.Hash(f.memory.key) &^ maxRichness; key != 0 {
		return key
	}
	return maxRichness + 1 // 0 is no key
}

// badAlert keeps what the gateway has not written so.
func (f *folder) badAlert(s *session, p *part, text []byte, err error) {
	f.received(s, p, 1)
	detail := "alerts of a tracker's file that this version cannot read: " + clip(err.Error())
	f.reject(s, p, rejectRow{reason: gpuflight.ReasonBadJSON, detail: detail, events: 1, payload: text})
}
