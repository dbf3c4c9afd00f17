package parca_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca/wire"
	"github.com/warpline/warpline/proto/tenant"
)

// frameHead is what is before a message: whether it is compressed, and its length.
func frameHead(flag byte, size int) []byte {
	return binary.BigEndian.AppendUint32([]byte{flag}, uint32(size))
}

// slowly is a body of some bytes that does not end until it is closed.
type slowly struct {
	bytes    []byte
	end      chan struct{}
	answered chan struct{} // likewise
}

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.bytes) > 0 {
		n := copy(p, s.bytes)
		s.bytes = s.bytes[n:]
		return n, nil
	}
	select {
	case <-s.end:
	case <-s.answered:
	}
	return 0, io.EOF
}

// plainHTTP2 speaks HTTP/2 without TLS, one connection for all.
func plainHTTP2(t testing.TB) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// begin begins a WriteArrow by hand and returns the code of its answer.
func (r *rig) begin(client *http.Client, key string, body *slowly, encoding string) (codes.Code, error) {
	body.answered = make(chan struct{})
	defer close(body.answered)
	req, err := http.NewRequest(http.MethodPost, "http://"+r.gateway.GRPCAddr()+wire.WriteArrow, body)
	if err != nil {
		return codes.Unknown, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	if encoding != "" {
		req.Header.Set("Grpc-Encoding", encoding)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := client.Do(req)
	if err != nil {
		return codes.Unknown, err
	}
	defer func() { go res.Body.Close() }() // it waits for the body of the request
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return codes.Unknown, err
	}
	text := res.Trailer.Get("Grpc-Status")
	if text == "" {
		text = res.Header.Get("Grpc-Status")
	}
	code, err := strconv.Atoi(text)
	return codes.Code(code), err
}

// raw sends one body.
func (r *rig) raw(key string, body []byte, encoding string) codes.Code {
	r.t.Helper()
	end := make(chan struct{})
	close(end)
	code, err := r.begin(plainHTTP2(r.t), key, &slowly{bytes: body, end: end}, encoding)
	if err != nil {
		r.t.Fatal(err)
	}
	return code
}

// Streams that announce 32 MiB each and send nothing: without a key they are answered at once, nothing of them is read; with one, as many
// wait as the tenant's share of the memory for messages allows, others are told to come again, and another tenant is not touched.
func TestStreamsThatAnnounceMuch(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.MessagesMaxBytes, c.MaxRequests = 256<<20, 1024
	})
	good := vector(t, "batch1.v2.lz4.arrows")
	neighbour := r.key("neighbour", tenant.Limits{})
	wants(t, r.write(neighbour, good), codes.OK)
	for name, key := range map[string]string{"without a key": "", "with a key": devKey} {
		end := make(chan struct{})
		got := make(chan codes.Code, 200)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				code, err := r.begin(plainHTTP2(t), key, &slowly{bytes: frameHead(0, 32<<20), end: end}, "")
				if err != nil {
					code = codes.Unknown
				}
				got <- code
			})
		}
		left := 200
		if key != "" {
			left -= 4 // half of 256 MiB
		}
		for range left {
			select {
			case code := <-got:
				if want := map[bool]codes.Code{true: codes.Unauthenticated, false: codes.ResourceExhausted}[key == ""]; code != want {
					t.Errorf("%s: answer is %v", name, code)
				}
			case <-time.After(60 * time.Second):
				t.Fatalf("%s: %d streams are not answered", name, left)
			}
		}
		wants(t, r.write(neighbour, good), codes.OK)
		close(end)
		wg.Wait()
	}
	wants(t, r.write(devKey, good), codes.OK) // all of it was given back
	r.balanced()
}

// A message that trickles is ended.
func TestMessageThatTrickles(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.ReadTimeout = 100 * time.Millisecond })
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	code, err := r.begin(plainHTTP2(t), devKey, &slowly{bytes: append(frameHead(0, 1000), 1, 2, 3), end: end}, "")
	if err != nil {
		t.Fatal(err)
	}
	if code != codes.Unavailable {
		t.Errorf("answer is %v", code)
	}
	r.balanced()
}
