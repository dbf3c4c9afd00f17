package stream_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// said is what a gateway says of an upload of two parts, of one without a record, and of a count alone.
func said() stream.Door {
	return stream.Door{Gateway: "00ff", Number: 7, After: 90, Since: 5e18,
		Counts: []stream.DoorCount{{Tenant: "a", Source: "gpu-flight", Day: 20000, RollupDays: 395, Events: 10, Bytes: 1 << 40},
			{Tenant: "b", Source: "parca", Day: 20001, RollupDays: 30}},
		Uploads: []stream.DoorUpload{
			{Count: 0, Session: "s", Window: "w/ü", Last: 103, Own: true,
				Parts: []stream.DoorPart{{Part: 0, Seq: 103, Events: 9}, {Part: 1, Seq: 101}}},
			{Count: 1, Session: "s", Again: true, Parts: []stream.DoorPart{{Part: 300, Seq: 1 << 50, Events: 1}}},
		}}
}

// What a gateway says is read as it was written, and nothing that is cut or longer is read at all.
func TestDoorIsReadAsWritten(t *testing.T) {
	want := said()
	body := stream.AppendDoor(nil, &want)
	have, err := stream.ParseDoor(body)
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, have, want)
	}
	for n := range body {
		if _, err := stream.ParseDoor(body[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are read", n, len(body))
		}
	}
	if _, err := stream.ParseDoor(append(slices.Clone(body), 0)); err == nil {
		t.Error("a byte too many is read")
	}
}

// Bytes of any kind are read or refused, in memory that they are worth.
func FuzzDoor(f *testing.F) {
	d := said()
	f.Add(stream.AppendDoor(nil, &d))
	f.Add([]byte{1, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := stream.ParseDoor(body)
		if err != nil {
			return
		}
		again, err := stream.ParseDoor(stream.AppendDoor(nil, &d))
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("%v\n%+v, and read again\n%+v", err, d, again)
		}
	})
}
