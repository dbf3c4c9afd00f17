package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A gateway that dies while it writes a large part leaves bytes that no object names; one that writes what another writes takes the name
// from its bytes. Both are found and removed, not before they are old; objects, and what is being written, stay.
func TestBytesOfGatewaysThatDied(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	body := bytes.Repeat([]byte("line "), 1<<18)
	dying, die := context.WithCancel(ctx)
	if _, err := s.Parts.Put(dying, jetstream.ObjectMeta{Name: "acme.1"}, &dyingReader{bytes.NewReader(body), die, 0}); err == nil {
		t.Fatal("the upload did not die")
	}
	second, err := s.JS.ObjectStore(ctx, stream.PartsObjects)
	if err != nil {
		t.Fatal(err)
	}
	// The second begins when the first has begun, and ends after it.
	var inner error
	if _, err := second.Put(ctx, jetstream.ObjectMeta{Name: "acme.2"}, &meanwhile{bytes.NewReader(body), func() {
		_, inner = s.Parts.PutBytes(ctx, "acme.2", body)
	}}); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
	js, err := s.JS.Stream(ctx, "OBJ_"+stream.PartsObjects)
	if err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		info, err := js.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Bytes
	}
	before := held()
	if before < uint64(2*len(body)) {
		t.Fatalf("%d bytes are there: nothing was left behind", before)
	}
	p := &parts{js: s.JS, objects: s.Parts, log: slog.New(slog.DiscardHandler)}
	if list, freed, err := p.dropAbandoned(ctx, js, time.Now()); err != nil || freed != 0 || len(list) != 1 || held() != before {
		t.Errorf("of what is young %d bytes were removed, %d objects, %v", freed, len(list), err)
	}
	if _, freed, err := p.dropAbandoned(ctx, js, time.Now().Add(abandonAfter+time.Minute)); err != nil || freed == 0 {
		t.Errorf("of what is old %d bytes were removed, %v", freed, err)
	}
	if now := held(); now > uint64(len(body)+len(body)/10) {
		t.Errorf("%d bytes are left, want those of one object of %d", now, len(body))
	}
	if got, err := s.Parts.GetBytes(ctx, "acme.2"); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the object that stays: %d bytes, %v", len(got), err)
	}
}

// dyingReader ends its upload's context half-way. The client cannot clean up then, as if it were dead.
type dyingReader struct {
	r   *bytes.Reader
	die func()
	n   int
}

func (d *dyingReader) Read(b []byte) (int, error) {
	if d.n++; d.n == 4 {
		d.die()
		return 0, context.Canceled
	}
	return d.r.Read(b)
}

// meanwhile does something before the first byte is read.
type meanwhile struct {
	r  *bytes.Reader
	do func()
}

func (m *meanwhile) Read(b []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.r.Read(b)
}
