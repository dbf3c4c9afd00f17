package parca_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/stream"
)

// rowsOf counts the rows of parts, each of which can be decoded alone, and their bytes.
func rowsOf(t *testing.T, parts []message) (rows, bytes uint64) {
	t.Helper()
	for _, m := range parts {
		var p parca.Part
		if err := p.Decode(m.body); err != nil {
			t.Fatalf("part %d of %s: %v", m.Part, m.Session, err)
		}
		if m.Kind != stream.KindParca || m.Source != "parca" || !m.Recurs {
			t.Errorf("part %+v", m.Envelope)
		}
		rows, bytes = rows+m.Events, bytes+m.Bytes
	}
	return rows, bytes
}

// A batch is stored as parts of its processes, once, however often it is sent; its length counts once.
func TestBatchIsStoredOnce(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	var q wire.WriteArrowRequest
	if err := proto.Unmarshal(vector(t, "batch1.WriteArrowRequest.pb"), &q); err != nil {
		t.Fatal(err)
	}
	other := startOn(t, r.streams, nil)
	wants(t, r.write(devKey, q.IpcBuffer), codes.OK)
	first := r.published()
	rows, bytes := rowsOf(t, first)
	if rows != 22 || bytes != uint64(len(q.IpcBuffer)) {
		t.Errorf("%d rows, %d bytes", rows, bytes)
	}
	wants(t, r.write(devKey, q.IpcBuffer), codes.OK)
	wants(t, other.write(devKey, q.IpcBuffer), codes.OK)
	if n := len(r.published()); n != len(first) {
		t.Errorf("%d parts after resends, %d before", n, len(first))
	}
	if n := r.metric("events_repeated_total"); n != 22 {
		t.Errorf("%v rows repeated", n)
	}
	r.balanced()
	other.balanced()
}

// The dialogue of schema v1: samples, the ids that are asked for, the stacks.
func TestWriteOfSchemaV1(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	s, err := r.conn.NewStream(r.with(devKey), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, wire.Write)
	if err != nil {
		t.Fatal(err)
	}
	var asked wire.WriteResponse
	if err := s.SendMsg(&wire.WriteRequest{Record: vector(t, "batch1.v1.samples.arrows")}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&asked); err != nil {
		t.Fatal(err)
	}
	if len(asked.Record) == 0 {
		t.Error("no stack is asked for")
	}
	if err := s.SendMsg(&wire.WriteRequest{Record: vector(t, "batch1.v1.locations.arrows")}); err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if err := s.RecvMsg(&asked); err == nil || err.Error() != "EOF" {
		t.Errorf("the end is %v", err)
	}
	if rows, _ := rowsOf(t, r.published()); rows != 22 {
		t.Errorf("%d rows", rows)
	}
	r.balanced()
}

// A message of OTLP without profiles is taken, and what is none is refused for good.
func TestExportOfProfiles(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	wants(t, r.call(wire.ExportProfiles, &wire.WriteArrowResponse{}, &wire.WriteArrowResponse{}), codes.OK)
	wants(t, r.call(wire.ExportProfiles, &wire.WriteArrowRequest{IpcBuffer: []byte("xxxxxxxxx")},
		&wire.WriteArrowResponse{}), codes.InvalidArgument)
	r.balanced()
}

// A file that still grows counts its whole batches, and when it comes again only its rest.
func TestGrowingFile(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	whole := vector(t, "offline_v2.padata")
	var got [3]struct {
		Accepted, Duplicates uint64
		Duplicate            bool
		Errors               []struct{ Code string }
	}
	for i, body := range [][]byte{whole[:len(whole)-100], whole, whole} {
		code, text := r.post("/api/v1/parca", body)
		if code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		if err := json.Unmarshal([]byte(text), &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got[0].Accepted == 0 || got[0].Accepted >= got[1].Accepted || len(got[0].Errors) != 1 || got[0].Duplicates != 0 ||
		got[1].Duplicates != got[0].Accepted || got[2].Accepted != got[1].Accepted || !got[2].Duplicate {
		t.Errorf("answers %+v", got)
	}
	if rows, _ := rowsOf(t, r.published()); rows != got[1].Accepted {
		t.Errorf("%d rows, answered %d", rows, got[1].Accepted)
	}
	r.balanced()
}

// All forms of a file have the same rows.
func TestFormsOfFiles(t *testing.T) {
	for _, name := range []string{"offline_v1.padata", "offline_v2.padata", "offline_v2.padata.zst", "batch1.v2.lz4.arrows"} {
		r := start(t, broker.Layout{}, nil)
		code, text := r.post("/api/v1/parca", vector(t, name))
		rows, _ := rowsOf(t, r.published())
		if code != 200 || rows == 0 || rows%22 != 0 {
			t.Errorf("%s: %d %s, %d rows", name, code, text, rows)
		}
		r.balanced()
	}
	r := start(t, broker.Layout{}, nil)
	if code, text := r.post("/api/v1/parca", []byte("neither")); code != 400 {
		t.Errorf("%d %s", code, text)
	}
}
