package telemetry_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/warpline/warpline/proto/telemetry"
)

// sameEvent compares values; metadata in canonical spelling, and whether the identity was given does not survive its being filled in.
func sameEvent(t *testing.T, a, b telemetry.Event) bool {
	t.Helper()
	given := telemetry.HasRank | telemetry.HasLocalRank | telemetry.HasWorldSize
	a.Metadata, b.Metadata = a.AppendMetadata(nil), b.AppendMetadata(nil)
	a.Has, b.Has, a.Legacy, b.Legacy = a.Has&^given, b.Has&^given, false, false
	for _, s := range []*[]byte{&a.JobID, &b.JobID, &a.Context, &b.Context} {
		if len(*s) == 0 {
			*s = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// roundTrip checks that what was accepted is written as a record that is accepted, with the same values.
func roundTrip(t *testing.T, text []byte) {
	t.Helper()
	var v, w telemetry.Validator
	var e, again telemetry.Event
	if v.Event(&e, text, nil) != nil {
		return
	}
	line := e.AppendJSON(nil)
	if r := w.Validate(line); r != nil {
		t.Fatalf("%q was accepted, but what is written of it is not: %s\n%s", text, r.Message, line)
	}
	if r := w.Event(&again, line, &telemetry.Options{RefuseLegacy: true}); r != nil {
		t.Fatalf("%q was accepted, but what is written of it is not: %s\n%s", text, r.Message, line)
	}
	if !sameEvent(t, e, again) {
		t.Fatalf("%q:\n%+v\n%+v", text, e, again)
	}
	if second := again.AppendJSON(nil); !bytes.Equal(line, second) {
		t.Fatalf("written twice:\n%s\n%s", line, second)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"timestamp":1700000000.25,"memory_mb":2.0,"device":"/GPU:0","metadata_a":{"b":NaN,"b":"\ud800"},"message":"\u0000"}`))
	f.Add([]byte(`{"schema_version":2,"timestamp_ns":1,"event_type":"a","collector":"b","sampling_interval_ms":0,"pid":-1,"host":"h","device_id":0,` +
		`"allocator_allocated_bytes":1,"allocator_reserved_bytes":1,"allocator_active_bytes":null,"allocator_inactive_bytes":0,"allocator_change_bytes":-1,` +
		`"device_used_bytes":1,"device_free_bytes":null,"device_total_bytes":9,"context":null,"metadata":{"z":[{}],"a":1e999,"z":-0},"rank":1,"world_size":2}`))
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
