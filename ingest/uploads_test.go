package ingest_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

func (r *rig) windowsState() jetstream.StreamState {
	r.t.Helper()
	s, err := r.streams.JS.Stream(r.t.Context(), "KV_"+stream.WindowsBucket)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State
}

// What is sealed into a block is recognised as before: by the gateway that sealed it, by another one that runs, and by one that starts
// later. So is the conflict, and an accepted conflict.
func TestSealedUploadsAreRecognised(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	r := startOn(t, s, nil)
	other := startOn(t, s, nil)
	const n = 700 // more than a page
	send := func(r *rig, i int, want string) {
		t.Helper()
		body := compress(t, ndjson("s", 1+i%3))
		before := r.metric("windows_total", "outcome", want)
		a := r.post("s", body, window(fmt.Sprint("w", i), "device", i, body)...)
		if a.status != http.StatusOK || a.Accepted != uint64(1+i%3) || !a.Whole {
			t.Fatalf("window %d: %d %s", i, a.status, a.raw)
		}
		if r.metric("windows_total", "outcome", want) != before+1 {
			t.Fatalf("window %d is not %s", i, want)
		}
	}
	for i := range n {
		send(r, i, "new")
	}
	plain := ndjson("p", 7)
	if a := r.post("p", plain); a.status != http.StatusOK {
		t.Fatal(a.raw)
	}
	if have := r.gateway.SealUploads(t.Context(), "dev"); have != n+1 {
		t.Fatalf("sealed %d, want %d", have, n+1)
	}
	if msgs := r.windowsState().Msgs; msgs != 3 { // two pages and the index
		t.Errorf("the bucket has %d messages after sealing, want 3", msgs)
	}
	third := startOn(t, s, nil)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the other one hears of the block by its watch
		body := compress(t, ndjson("s", 1))
		before := other.metric("windows_total", "outcome", "repeat")
		if other.post("s", body, window("w0", "device", 0, body)...); other.metric("windows_total", "outcome", "repeat") > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the other gateway does not know what the first sealed")
		}
	}
	messages := len(r.published())
	for i := range n {
		send([]*rig{r, other, third}[i%3], i, "repeat")
	}
	for _, at := range []*rig{r, other, third} {
		if a := at.post("p", plain); a.status != http.StatusOK || a.Accepted != 7 || at.metric("windows_total", "outcome", "repeat") == 0 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	eventually(t, 60*time.Second, "the workers are told of every repeat", func() bool { // once a second
		var repeated, told float64
		for _, at := range []*rig{r, other, third} {
			repeated += at.metric("events_repeated_total")
		}
		for _, m := range r.publishedFrom(1) {
			if m.Kind == stream.KindRepeats {
				told += float64(m.Events)
			}
		}
		return told == repeated
	})
	for _, m := range r.published()[messages:] {
		if m.Kind != stream.KindRepeats {
			t.Errorf("a part was published again: %+v", m.Envelope)
		}
	}
	wrong := compress(t, ndjson("s", 50))
	for range 2 {
		if a := third.post("s", wrong, window("w5", "device", 5, wrong)...); a.status != http.StatusConflict {
			t.Fatalf("other bytes under a sealed id: %d %s", a.status, a.raw)
		}
	}
	if err := ingest.AcceptConflict(t.Context(), s, "dev", "s", "w5"); err != nil {
		t.Fatal(err)
	}
	if a := r.post("s", wrong, window("w5", "device", 5, wrong)...); a.status != http.StatusOK || a.Accepted != 50 {
		t.Fatalf("after accepting: %d %s", a.status, a.raw)
	}
	r.gateway.SealUploads(t.Context(), "dev")
	if a := r.post("s", wrong, window("w5", "device", 5, wrong)...); a.status != http.StatusOK || a.Accepted != 50 {
		t.Errorf("the accepted one again: %d %s", a.status, a.raw)
	}
}

// Claims of a gateway that was killed before it sealed them are sealed by the next.
func TestUploadsOfAKilledGatewayAreAdopted(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	r := startOn(t, s, nil)
	for i := range 20 {
		if a := r.post("s", ndjson("s", 1+i)); a.status != http.StatusOK {
			t.Fatal(a.raw)
		}
	}
	r.gateway.Close()
	next := startOn(t, s, nil)
	if err := next.gateway.AdoptUploads(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if msgs := next.windowsState().Msgs; msgs != 20 {
		t.Fatalf("%d messages: young claims were adopted", msgs)
	}
	if err := next.gateway.AdoptUploads(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if msgs := next.windowsState().Msgs; msgs != 2 {
		t.Errorf("%d messages, want a page and an index", msgs)
	}
	for i := range 20 {
		if a := next.post("s", ndjson("s", 1+i)); a.status != http.StatusOK || a.Accepted != uint64(1+i) {
			t.Fatal(a.raw)
		}
	}
	if n := next.metric("windows_total", "outcome", "repeat"); n != 20 {
		t.Errorf("%.0f repeats of 20", n)
	}
}

// A full record refuses nobody. The oldest of the tenant that has most goes; who has little is recognised as before, and how far back is
// told.
func TestFullRecordForgetsTheOldestOfTheHeaviest(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	bucket, err := s.JS.Stream(t.Context(), "KV_"+stream.WindowsBucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := bucket.CachedInfo().Config
	cfg.MaxBytes = 96 << 10
	if _, err := s.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r := startOn(t, s, nil)
	keys := ingest.NewKeys(s.Keys)
	key := func(name string) []string {
		secret, _, err := keys.Create(t.Context(), name, "", tenant.Limits{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"Authorization", "Bearer " + secret}
	}
	heavy, light := key("heavy"), key("light")
	for i := range 20 {
		if a := r.post("s", ndjson("s", 1+i), light...); a.status != http.StatusOK {
			t.Fatal(a.raw)
		}
	}
	r.gateway.SealUploads(t.Context(), "light")
	const rounds, each = 30, 150
	line := func(i int) []byte {
		return fmt.Appendf(nil, `{"type":"kernel_detail","session_id":"h","corr_id":%d}`+"\n", i)
	}
	for i := range rounds {
		for j := range each {
			if a := r.post("h", line(i*each+j), heavy...); a.status != http.StatusOK || a.Accepted != 1 {
				t.Fatalf("upload %d: %d %s", i*each+j, a.status, a.raw)
			}
		}
		r.gateway.SealUploads(t.Context(), "heavy")
	}
	forgotten := r.metric("uploads_forgotten_total", "tenant", "heavy")
	if forgotten == 0 || forgotten == rounds*each || r.metric("uploads_forgotten_total", "tenant", "light") != 0 {
		t.Errorf("%.0f of the heavy tenant's %d uploads are forgotten, %.0f of the light one's", forgotten, rounds*each,
			r.metric("uploads_forgotten_total", "tenant", "light"))
	}
	if n := r.windowsState().Bytes; n > 96<<10 {
		t.Errorf("the record has %d bytes", n)
	}
	for deadline := time.Now().Add(60 * time.Second); r.metric("upload_horizon_seconds") > 300; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("horizon %.0f s", r.metric("upload_horizon_seconds"))
		}
	}
	for i := range 20 {
		r.post("s", ndjson("s", 1+i), light...)
	}
	if n := r.metric("windows_total", "tenant", "light", "outcome", "repeat"); n != 20 {
		t.Errorf("%.0f of the light tenant's 20 uploads are recognised", n)
	}
	if a := r.post("h", line(rounds*each-1), heavy...); a.status != http.StatusOK ||
		r.metric("windows_total", "tenant", "heavy", "outcome", "repeat") != 1 {
		t.Errorf("the newest is not recognised: %d %s", a.status, a.raw)
	}
	if next := startOn(t, s, nil); next.metric("upload_horizon_seconds") > 1e9 {
		t.Error("no horizon")
	} else {
		for deadline := time.Now().Add(60 * time.Second); next.metric("upload_horizon_seconds") > 300; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after a restart the horizon is %.0f s", next.metric("upload_horizon_seconds"))
			}
		}
	}
}

// Folders of the build before: a channel's record and an upload's, as that build wrote them.
func TestRecordsOfTheBuildBefore(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	body := compress(t, ndjson("s", 5))
	plain := ndjson("p", 3)
	put := func(key string, entries ...[]byte) {
		t.Helper()
		value := []byte{1, 0, 1} // version 1, a number nobody reads, one set of limits
		for _, n := range []uint64{1 << 28, 1 << 30, 32 << 20, 4645040803167600640} {
			value = binary.AppendUvarint(value, n)
		}
		value = append(value, byte(len(entries)))
		for _, e := range entries {
			value = append(value, e...)
		}
		if _, err := s.Windows.Create(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	done := func(id, body [16]byte, accepted byte) []byte {
		return append(append(append([]byte{}, id[:]...), body[:]...), 2|1<<7, 1, 0, accepted, 0, 0)
	}
	put("dev."+stream.SessionToken("s")+".w."+ingest.DigestOf("device").String(),
		done(ingest.DigestOf("w1"), ingest.DigestOf(string(body)), 5))
	sum := ingest.DigestOf(string(plain))
	put("dev."+stream.SessionToken("p")+".u."+sum.String(), done(sum, sum, 3))
	r := startOn(t, s, nil)
	if a := r.post("s", body, window("w1", "device", 1, body)...); a.status != http.StatusOK || a.Accepted != 5 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := r.post("p", plain); a.status != http.StatusOK || a.Accepted != 3 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if n := r.metric("windows_total", "outcome", "repeat"); n != 2 {
		t.Errorf("%.0f repeats of 2", n)
	}
	other := compress(t, ndjson("s", 6))
	if a := r.post("s", other, window("w1", "device", 1, other)...); a.status != http.StatusConflict {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if err := ingest.AcceptConflict(t.Context(), s, "dev", "s", "w1"); err != nil {
		t.Error(err)
	}
	if a := r.post("s", other, window("w1", "device", 1, other)...); a.status != http.StatusOK || a.Accepted != 6 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// What INGEST has lost is taken again when it comes again; what is still there, or was purged behind the workers, is a repeat.
func TestUploadsThatINGESTLost(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%t", sealed), func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{})
			r := startOn(t, s, nil)
			body := func(i int) []byte { return compress(t, ndjson("s", 1+i)) }
			send := func(i int, want string) {
				t.Helper()
				before := r.metric("windows_total", "outcome", want)
				if a := r.post("s", body(i), window(fmt.Sprint("w", i), "device", i, body(i))...); a.status != http.StatusOK ||
					a.Accepted != uint64(1+i) {
					t.Fatalf("window %d: %d %s", i, a.status, a.raw)
				}
				if r.metric("windows_total", "outcome", want) != before+1 {
					t.Errorf("window %d is not %s", i, want)
				}
			}
			for i := range 5 {
				send(i, "new")
			}
			if sealed {
				r.gateway.SealUploads(t.Context(), "dev")
			}
			if err := s.Ingest.Purge(t.Context(), jetstream.WithPurgeSequence(3)); err != nil { // the workers are done with two
				t.Fatal(err)
			}
			for i := range 5 {
				send(i, "repeat")
			}
			cfg := s.Ingest.CachedInfo().Config
			if err := s.JS.DeleteStream(t.Context(), cfg.Name); err != nil {
				t.Fatal(err)
			}
			nextSecond() // the record knows seconds
			cfg.FirstSeq = 100
			if _, err := s.JS.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				send(i, "lost_and_resent")
			}
			for i := range 5 {
				send(i, "repeat")
			}
			if have := len(folded(r.publishedFrom(1))); have < 5 {
				t.Errorf("%d parts are in INGEST, want all 5", have)
			}
		})
	}
}

// What is gone from INGEST, as parts of a deleted session are, is stored again within the minutes in which JetStream still knows its name.
func TestUploadsThatWereRemoved(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	r := startOn(t, s, nil)
	if a := r.post("before", ndjson("before", 4)); a.status != http.StatusOK { // so that it is a hole, not what workers are done with
		t.Fatal(a.raw)
	}
	for i, want := range []string{"new", "lost_and_resent", "lost_and_resent"} {
		before := r.metric("windows_total", "outcome", want)
		if a := r.post("s", ndjson("s", 4)); a.status != http.StatusOK || r.metric("windows_total", "outcome", want) != before+1 {
			t.Errorf("%d: %d %s, and it is not %s", i, a.status, a.raw, want)
		}
		if n := len(folded(r.publishedFrom(1))); n != 2 {
			t.Fatalf("%d: %d parts are in INGEST, want 2", i, n)
		}
		subject := stream.IngestSubject(stream.Partition("dev", "s", s.Partitions), "dev", stream.SessionToken("s"))
		if err := s.Ingest.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil { // as the sink does
			t.Fatal(err)
		}
	}
}

// A deletion forgets what is sealed too: of a session without an id what comes later is new, and so it is after a purge.
func TestDeletedUploadsAreNew(t *testing.T) {
	for _, token := range []string{stream.SessionToken("s"), stream.PurgeToken} {
		r := start(t, broker.Layout{}, nil)
		if a := r.post("s", ndjson("s", 4)); a.status != http.StatusOK {
			t.Fatal(a.raw)
		}
		r.gateway.SealUploads(t.Context(), "dev")
		if _, err := r.streams.Windows.Put(t.Context(), "dev."+token+".d", binary.AppendUvarint(nil, 1)); err != nil { // as the sink does
			t.Fatal(err)
		}
		for _, want := range []float64{2, 2} {
			if a := r.post("s", ndjson("s", 4)); a.status != http.StatusOK || r.metric("windows_total", "outcome", "new") != want {
				t.Errorf("%s: %d %s, %.0f are new", token, a.status, a.raw, r.metric("windows_total", "outcome", "new"))
			}
		}
	}
}
