package stream_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// Names, tokens and partitions are wire format: data that is on its way when a program is replaced was placed by the old one.
func TestPlacesAreFrozen(t *testing.T) {
	for _, c := range []struct {
		tenant, session, token string
		of16, of64             int
	}{
		{"acme", "dbca9991-838e-4545-b1e3-570e3dac0e39", "5fb7c163ad3030ad06a52f433c216900", 15, 15},
		{"acme", "", "e3b0c44298fc1c149afbf4c8996fb924", 7, 55},
		{"other", "dbca9991-838e-4545-b1e3-570e3dac0e39", "5fb7c163ad3030ad06a52f433c216900", 1, 1},
	} {
		token, p16, p64 := stream.SessionToken(c.session), stream.Partition(c.tenant, c.session, 16), stream.Partition(c.tenant, c.session, 64)
		if token != c.token || p16 != c.of16 || p64 != c.of64 {
			t.Errorf("%s/%s: token %s, partitions %d of 16, %d of 64; want %s, %d, %d", c.tenant, c.session,
				token, p16, p64, c.token, c.of16, c.of64)
		}
	}
	if got, want := stream.IngestSubject(3, "acme", "aa"), "ingest.3.acme.aa"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if stream.PartitionOfRows(stream.RowsSubject(12)) != 12 || stream.PartitionOfRows("rows.x") != -1 {
		t.Error("partitions of ROWS subjects")
	}
}

func envelope() stream.Envelope {
	return stream.Envelope{Tenant: "acme", Session: "s-1", Kind: stream.KindGPUFlight, Source: "gpu-flight", Channel: "device",
		Identity: "device/0/w", Part: 2, Last: true,
		Events: 5, Bytes: 11, ReceivedAt: 1795175929972803352, Host: "h", RetentionDays: 7,
		RollupDays: 395, Reject: &stream.Reject{Reason: "torn_gzip", Detail: "d"}}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	e := envelope()
	for _, body := range []string{"", "hello\nworld", strings.Repeat("x", 1<<20)} {
		msg, err := stream.AppendEnvelope([]byte("before"), &e, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		got, packed, err := stream.ParseEnvelope(msg[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		plain, err := stream.DecodeBody(nil, packed)
		if err != nil || string(plain) != body {
			t.Errorf("body of %d bytes came back as %d (%v)", len(body), len(plain), err)
		}
		if fmt.Sprint(got.Reject.Reason, got.Part, got.Identity, got.ReceivedAt) != fmt.Sprint(e.Reject.Reason, e.Part, e.Identity,
			e.ReceivedAt) {
			t.Errorf("header came back as %+v", got)
		}
	}
}

func chunk() (stream.Chunk, []byte) {
	body := []byte("schemadata-of-oneSCHEMAtwo")
	return stream.Chunk{Partition: 1, Number: 7, Base: 3, Epoch: 2, Nonce: "n", Position: 99, Tables: []stream.Rows{
		{Table: "a", Fingerprint: "f", Day: 20000, RetentionDays: 7, Rows: 1, SchemaLen: 6, DataLen: 11},
		{Table: "b", Fingerprint: "g", Day: 20000, RetentionDays: 7, Rows: 1, SchemaLen: 6, DataLen: 3},
	}}, body
}

func TestChunkRoundTrip(t *testing.T) {
	c, body := chunk()
	msg, err := stream.AppendChunk(nil, &c, []byte("the state"), body)
	if err != nil {
		t.Fatal(err)
	}
	got, state, packed, err := stream.ParseChunk(msg)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := stream.DecodeSection(nil, state); err != nil || string(plain) != "the state" {
		t.Errorf("state %q (%v)", plain, err)
	}
	pieces, err := got.Split(packed)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for i := range got.Tables {
		plain, err := got.Tables[i].Unpack(nil, pieces[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, plain...)
	}
	if !bytes.Equal(all, body) || got.Number != 7 || got.Position != 99 {
		t.Errorf("came back as %+v with body %q", got, all)
	}
}

// A chunk whose header does not fit its body is refused by the one who writes it and by the one who reads it.
func TestChunkThatDoesNotFit(t *testing.T) {
	for name, spoil := range map[string]func(*stream.Chunk, *[]byte){
		"table longer than the body": func(c *stream.Chunk, _ *[]byte) { c.Tables[1].DataLen++ },
		"bytes of no table":          func(_ *stream.Chunk, b *[]byte) { *b = append(*b, 'x') },
		"negative length":            func(c *stream.Chunk, _ *[]byte) { c.Tables[0].SchemaLen = -1 },
	} {
		c, body := chunk()
		spoil(&c, &body)
		if _, err := stream.AppendChunk(nil, &c, nil, body); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c, body := chunk()
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(msg) {
		if _, _, _, err := stream.ParseChunk(msg[:cut]); err == nil {
			t.Fatalf("cut to %d of %d bytes: accepted", cut, len(msg))
		}
	}
}

// Whatever lies in INGEST, reading it ends with an envelope or an error, within bounds.
func FuzzParseEnvelope(f *testing.F) {
	e := envelope()
	msg, err := stream.AppendEnvelope(nil, &e, []byte("body"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg)
	f.Add([]byte("WLE\x01\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		_, body, err := stream.ParseEnvelope(msg)
		if err != nil {
			return
		}
		if plain, err := stream.DecodeBody(nil, body); err == nil && len(plain) > stream.MaxBodyBytes {
			t.Errorf("%d bytes are beyond the bound", len(plain))
		}
	})
}

// Whatever lies in ROWS, taking it apart ends with rows of the promised size or an error.
func FuzzParseChunk(f *testing.F) {
	c, body := chunk()
	msg, err := stream.AppendChunk(nil, &c, []byte("state"), body)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg)
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, _, body, err := stream.ParseChunk(msg)
		if err != nil {
			return
		}
		pieces, err := c.Split(body)
		if err != nil {
			return
		}
		for i := range c.Tables {
			plain, err := c.Tables[i].Unpack(nil, pieces[i])
			if err == nil && len(plain) != c.Tables[i].SchemaLen+c.Tables[i].DataLen {
				t.Errorf("table %d has %d bytes, header says %d + %d", i, len(plain), c.Tables[i].SchemaLen, c.Tables[i].DataLen)
			}
		}
	})
}
