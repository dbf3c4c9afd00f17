package telemetry_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/warpline/warpline/proto/telemetry"
)

// sameEvent compares values; metadata in canonical spelling. What was filled in is given when it is read again: identity, session,
// capabilities.
func sameEvent(t *testing.T, a, b telemetry.Event) bool {
	t.Helper()
	given := telemetry.HasRank | telemetry.HasLocalRank | telemetry.HasWorldSize | telemetry.HasSession | telemetry.InferredCapabilities
	if a.Has&telemetry.InferredCapabilities == b.Has&telemetry.InferredCapabilities {
		a.Metadata, b.Metadata = a.AppendMetadata(nil), b.AppendMetadata(nil)
	} else {
		a.Metadata, b.Metadata = nil, nil
	}
	if a.Has&telemetry.HasSession != 0 && string(a.SessionID) != string(b.SessionID) {
		return false
	}
	a.SessionID, b.SessionID = nil, nil
	a.Has, b.Has, a.Legacy, b.Legacy, a.Version, b.Version = a.Has&^given, b.Has&^given, false, false, 0, 0
	for _, s := range []*[]byte{&a.JobID, &b.JobID, &a.Context, &b.Context} {
		if len(*s) == 0 {
			*s = nil
		}
	}
	return reflect.DeepEqual(a.Bare(), b.Bare())
}

// roundTrip checks that what was accepted is written as a record that is accepted, with the same values; on its way as a frame too.
func roundTrip(t *testing.T, text []byte) {
	t.Helper()
	for _, p := range []telemetry.Peer{telemetry.Peer043, telemetry.Peer029} {
		var v, w telemetry.Validator
		var e, again, passed telemetry.Event
		if v.Event(&e, text, &telemetry.Options{Peer: p}) != nil {
			continue
		}
		line := e.AppendJSON(nil)
		for range 2 { // what is remembered of the one before changes nothing
			if r := v.Event(&e, text, &telemetry.Options{Peer: p}); r != nil {
				t.Fatalf("%q was accepted by %s, and then refused: %s", text, p, r.Message)
			}
			if again := e.AppendJSON(nil); !bytes.Equal(line, again) {
				t.Fatalf("%q by %s:\n%s, and then\n%s", text, p, line, again)
			}
		}
		if r := w.Validate(line, p); r != nil {
			t.Fatalf("%q was accepted by %s, but what is written of it is not: %s\n%s", text, p, r.Message, line)
		}
		if r := w.Event(&again, line, &telemetry.Options{Peer: p, RefuseLegacy: true}); r != nil {
			t.Fatalf("%q was accepted by %s, but what is written of it is not: %s\n%s", text, p, r.Message, line)
		}
		same := e
		if p == telemetry.Peer029 { // a legacy record's own session is not written
			again.Metadata, same.Metadata = nil, nil
			same.Has &^= telemetry.HasSession
		}
		if !sameEvent(t, same, again) {
			t.Fatalf("%s: %q:\n%+v\n%+v", p, text, e, again)
		}
		if second := again.AppendJSON(nil); p == telemetry.Peer043 && !bytes.Equal(line, second) {
			t.Fatalf("written twice:\n%s\n%s", line, second)
		}
		f, err := telemetry.ParseFrame(telemetry.AppendFrame(nil, 7, &e))
		if err != nil {
			t.Fatal(err)
		}
		if r := f.Event(&w, &passed); r != nil {
			t.Fatalf("%q was accepted by %s, but its frame is not: %s\n%s", text, p, r.Message, f.JSON)
		}
		if len(e.SessionID) > 512 { // too long to be carried on
			e.SessionID, passed.SessionID = nil, nil
		}
		if passed.Has != e.Has || passed.Version != e.Version || passed.Legacy != e.Legacy || !sameEvent(t, e, passed) {
			t.Fatalf("%s: frame of %q:\n%+v\n%+v", p, text, e, passed)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"timestamp":1700000000.25,"memory_mb":2.0,"device":"/GPU:0","metadata_a":{"b":NaN,"b":"\ud800"},"message":"\u0000"}`))
	f.Add([]byte(`{"schema_version":2,"timestamp_ns":1,"event_type":"a","collector":"b","sampling_interval_ms":0,"pid":-1,"host":"h",` +
		`"device_id":0,` +
		`"allocator_allocated_bytes":1,"allocator_reserved_bytes":1,"allocator_active_bytes":null,"allocator_inactive_bytes":0,` +
		`"allocator_change_bytes":-1,` +
		`"device_used_bytes":1,"device_free_bytes":null,"device_total_bytes":9,"context":null,"metadata":{"z":[{}],"a":1e999,"z":-0},"rank":1,` +
		`"world_size":2}`))
	f.Add([]byte(`{"schema_version":3,"session_id":"s:1","timestamp_ns":1,"event_type":"a","collector":"jax","sampling_interval_ms":0,` +
		`"pid":-1,"host":"h","device_id":0,` +
		`"allocator_allocated_bytes":1,"allocator_reserved_bytes":1,"allocator_active_bytes":null,"allocator_inactive_bytes":0,` +
		`"allocator_change_bytes":-1,` +
		`"device_used_bytes":1,"device_free_bytes":null,"device_total_bytes":9,"context":null,"metadata":{"z":1,"a":2,` +
		`"sampling_source":{"k":[1e16,"\u0000'"]}}}`))
	f.Add([]byte(v4Record))
	f.Fuzz(func(t *testing.T, text []byte) { roundTrip(t, text) })
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`[{"timestamp":1},5,{"timestamp":1,"host":"\ud800"},[]]`), byte(0))
	f.Add([]byte("{\"timestamp\":1}\n\n{\"timestamp\":2\n"), byte(1))
	f.Add([]byte(`{"a":[1],"events":[{"timestamp":1}],"b":{}} `), byte(2))
	f.Add([]byte("\xef\xbb\xbf[]"), byte(0))
	f.Add([]byte(`{"events":[`+`"`+string(bytes.Repeat([]byte("x"), 100))+`"`+`],"events":[1e5,-0]}`), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, mode byte) {
		key := "data"
		o := telemetry.Options{Lines: mode&1 != 0, MaxRecordBytes: 64}
		if mode&2 != 0 {
			o.EventsKey = &key
		}
		two := inTwo(t, data, o)
		one := inOne(t, bytes.NewReader(data), o)
		slow := inOne(t, iotest.OneByteReader(bytes.NewReader(data)), o)
		if !reflect.DeepEqual(one, slow) {
			t.Fatalf("%q: how it arrives matters:\n%+v\n%+v", data, one, slow)
		}
		if two.document == "" && one.document == "" && !reflect.DeepEqual(one, two) {
			t.Fatalf("%q: one pass and two differ:\n%+v\n%+v", data, one, two)
		}
		for i, c := range one.codes {
			if c != "" && !slices.Contains(telemetry.Codes(), c) {
				t.Fatalf("record %d: code %q is not listed", i, c)
			}
		}
	})
}

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"peer_records.jsonl"} {
		cases(t, name, func(line []byte) {
			start := bytes.Index(line, []byte(`"text": `)) + len(`"text": `)
			roundTrip(t, unquote(t, line[start:]))
		})
	}
}
