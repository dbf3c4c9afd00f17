package ingest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// listening starts a gateway that listens and runs.
func listening(t *testing.T, change func(*ingest.Config)) *rig {
	t.Helper()
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Listen = "127.0.0.1:0"
		if change != nil {
			change(c)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return r
}

// speaking is a client that knows one protocol: HTTP/1.1, or HTTP/2 with and without TLS. It dials once for all of its requests.
func speaking(t *testing.T, protocol string, trust *tls.Config, change func(*http.Transport)) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: trust}
	switch protocol {
	case "HTTP/1.1":
		tr.Protocols.SetHTTP1(true)
	case "HTTP/2.0":
		tr.Protocols.SetHTTP2(true)
		tr.Protocols.SetUnencryptedHTTP2(true)
	default: // whatever TLS agrees on
		tr.Protocols.SetHTTP1(true)
		tr.Protocols.SetHTTP2(true)
	}
	if change != nil {
		change(tr)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func postTo(client *http.Client, url, session string, body io.Reader, headers ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	req.Header.Set("X-GpuFlight-Session-Id", session)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// Both protocols, with and without TLS, on one address: uploads, telemetry, health, metrics and refusals.
func TestHTTP2(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	for _, c := range []struct {
		name, scheme, speaks, want string
	}{
		{"h2c", "http", "HTTP/2.0", "HTTP/2.0"}, {"plain HTTP/1.1", "http", "HTTP/1.1", "HTTP/1.1"}, {"ALPN", "https", "both", "HTTP/2.0"},
		{"h2 alone over TLS", "https", "HTTP/2.0", "HTTP/2.0"}, {"HTTP/1.1 alone over TLS", "https", "HTTP/1.1", "HTTP/1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := listening(t, func(cfg *ingest.Config) {
				if c.scheme == "https" {
					cfg.TLSCert, cfg.TLSKey = certFile, keyFile
				}
			})
			base := c.scheme + "://" + r.gateway.Addr()
			client := speaking(t, c.speaks, &tls.Config{RootCAs: pool}, nil)
			for i, size := range []int{1, 1000, 60_000} { // within a frame, within a buffer, and far over both
				session := fmt.Sprintf("s%d", i)
				res, text, err := postTo(client, base+"/api/v1/events/stream", session, bytes.NewReader(ndjson(session, size)))
				if err != nil {
					t.Fatal(err)
				}
				if res.Proto != c.want || res.StatusCode != 200 || !strings.Contains(text, fmt.Sprintf(`"accepted":%d`, size)) {
					t.Errorf("%d events over %s: %d %s", size, res.Proto, res.StatusCode, text)
				}
				if got := kept(r.published(), session); got != string(ndjson(session, size)) {
					t.Errorf("%d bytes are kept of %d", len(got), len(ndjson(session, size)))
				}
			}
			for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": "warpline_gateway_requests_total",
				"/nothing": "not_found"} {
				res, err := client.Get(base + path)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.Proto != c.want || !strings.Contains(string(text), want) {
					t.Errorf("%s: %s %d %.100s", path, res.Proto, res.StatusCode, text)
				}
			}
			if res, text, err := postTo(client, base+"/api/v1/events/stream", "s", strings.NewReader("{}\n"), "Authorization",
				"Bearer wrong"); err != nil || res.StatusCode != 401 {
				t.Errorf("a wrong key: %v %s", err, text)
			}
			r.balanced()
		})
	}
}

// reluctant is a body that brings a byte, and then one every 100 ms or none, until stop is closed.
type reluctant struct {
	stop  chan struct{}
	still bool
	begun bool
}

func (r *reluctant) Read(p []byte) (int, error) {
	pause := time.After(100 * time.Millisecond)
	if r.still && r.begun {
		pause = nil
	}
	select {
	case <-r.stop:
		return 0, io.EOF
	case <-pause:
		r.begun = true
		p[0] = ' '
		return 1, nil
	}
}

// Streams of one connection are as many requests: they wait for the seats of their tenant and leave the others theirs, and few are open at
// once. A body that stands still, or trickles, is ended, and the connection goes on.
func TestHTTP2StreamsAreRequests(t *testing.T) {
	r := listening(t, func(c *ingest.Config) {
		c.MaxRequests, c.SlowGrace, c.ReadTimeout = 8, time.Second, 2*time.Second
	})
	url := "http://" + r.gateway.Addr() + "/api/v1/events/stream"
	evil, good := r.keyOf("evil", tenant.Limits{}), r.keyOf("good", tenant.Limits{})
	if res, text, err := postTo(speaking(t, "HTTP/2.0", nil, nil), url, "g", bytes.NewReader(ndjson("g", 1)), good...); err != nil ||
		res.StatusCode != 200 {
		t.Fatalf("%v %s", err, text)
	}
	most := 5*time.Second + r.slack(good...)
	client := speaking(t, "HTTP/2.0", nil, nil)
	// from now on the client knows how many streams there may be
	if res, err := client.Get("http://" + r.gateway.Addr() + "/healthz"); err != nil {
		t.Fatal(err)
	} else {
		res.Body.Close()
	}
	const streams = 55
	ended := make(chan string, streams)
	stop := make(chan struct{})
	for i := range streams {
		body := &reluctant{stop: stop, still: i%2 == 1}
		go func() {
			res, text, err := postTo(client, url, "e", body, evil...)
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- fmt.Sprint(res.StatusCode, " ", text)
		}()
	}
	eventually(t, soon, "the seats are taken", func() bool { return r.metric("active_requests") >= 2 })
	if n := r.metric("connections"); n != 2 {
		t.Errorf("%v connections are open, want the streams on one", n)
	}
	other := speaking(t, "HTTP/2.0", nil, nil)
	for i := range 10 {
		began := time.Now()
		if res, text, err := postTo(other, url, "g", bytes.NewReader(ndjson("g", 2+i)), good...); err != nil || res.StatusCode != 200 ||
			time.Since(began) > most {
			t.Errorf("upload %d of the other tenant: %v after %v: %s", i, err, time.Since(began), text)
		}
	}
	late := 0
	for late < 4 {
		select {
		case text := <-ended:
			if strings.HasPrefix(text, "408 ") && strings.Contains(text, "too_slow") {
				late++
			} else if !strings.HasPrefix(text, "503 ") {
				t.Fatalf("a stream that does not come forward got %s", text)
			}
		case <-time.After(60 * time.Second):
			t.Fatal("a stream that does not come forward does not end")
		}
	}
	// The connection is still good for an honest upload, once it has room for a stream.
	close(stop)
	eventually(t, 60*time.Second, "all of them end", func() bool { return r.metric("active_requests") == 0 })
	if res, text, err := postTo(client, url, "e2", bytes.NewReader(ndjson("e2", 5)), evil...); err != nil || res.StatusCode != 200 {
		t.Errorf("an upload on the connection afterwards: %v %s", err, text)
	}
	if n := r.metric("connections"); n > 4 {
		t.Errorf("%v connections are open", n)
	}
}

// Who does not read its answers holds no seat and no turn: other uploads of its own tenant go on.
func TestAnswersThatNobodyReadsHoldNothing(t *testing.T) {
	r := listening(t, func(c *ingest.Config) { c.MaxRequests = 8 }) // two seats a tenant
	base := "http://" + r.gateway.Addr()
	refused := bytes.Repeat([]byte(`{"schema_version":2,"a field whose name is long and which is not known to anybody at all":1}`+"\n"),
		100)
	blind := speaking(t, "HTTP/2.0", nil, func(tr *http.Transport) { tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1} })
	for i := range 6 {
		req, err := http.NewRequest(http.MethodPost, base+"/api/v1/telemetry?format=ndjson",
			bytes.NewReader(append(refused, fmt.Sprintf("{\"n\":%d}\n", i)...)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+devKey)
		res, err := blind.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() }) // not read
	}
	eventually(t, soon, "all seats are given back", func() bool { return r.metric("active_requests") == 0 })
	client := speaking(t, "HTTP/2.0", nil, nil)
	for i := range 6 {
		session := fmt.Sprintf("s%d", i)
		if res, text, err := postTo(client, base+"/api/v1/events/stream", session, bytes.NewReader(ndjson(session, 10))); err != nil ||
			res.StatusCode != 200 {
			t.Errorf("upload %d: %v %s", i, err, text)
		}
	}
}

// A connection on which one request of several has ended is still in use: a flood of connections does not end it.
func TestHTTP2ConnectionInUseStays(t *testing.T) {
	r := listening(t, func(c *ingest.Config) { c.MaxConnections = 40 })
	base := "http://" + r.gateway.Addr()
	client := speaking(t, "HTTP/2.0", nil, nil)
	body, w := io.Pipe()
	done := make(chan string, 1)
	go func() {
		res, text, err := postTo(client, base+"/api/v1/events/stream", "s", body)
		if err != nil {
			done <- err.Error()
			return
		}
		done <- fmt.Sprint(res.StatusCode, text)
	}()
	w.Write(ndjson("s", 1))
	eventually(t, soon, "the upload begins", func() bool { return r.metric("active_requests") == 1 })
	if res, err := client.Get(base + "/healthz"); err != nil || res.Proto != "HTTP/2.0" {
		t.Fatal(err)
	} else {
		res.Body.Close()
	}
	if n := r.metric("connections"); n != 1 {
		t.Fatalf("%v connections, want both requests on one", n)
	}
	for i := range 200 {
		c, err := net.Dial("tcp", r.gateway.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		}
	}
	eventually(t, soon, "connections are ended", func() bool { return r.metric("connections_closed_total") > 100 })
	w.Write(ndjson("s", 1))
	w.Close()
	if got := <-done; !strings.HasPrefix(got, "200") || !strings.Contains(got, `"accepted":2`) {
		t.Errorf("the upload that was under way: %s", got)
	}
}

// A gateway that stops lets the streams that are open finish.
func TestHTTP2Drain(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Listen = "127.0.0.1:0" })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	body, w := io.Pipe()
	done := make(chan string, 1)
	client := speaking(t, "HTTP/2.0", nil, nil)
	go func() {
		_, text, err := postTo(client, "http://"+r.gateway.Addr()+"/api/v1/events/stream", "s", body)
		done <- fmt.Sprint(text, err)
	}()
	w.Write(ndjson("s", 5))
	eventually(t, soon, "the upload begins", func() bool { return r.metric("active_requests") == 1 })
	stop()
	eventually(t, soon, "no new connections", func() bool {
		c, err := net.Dial("tcp", r.gateway.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	w.Write(ndjson("s", 5))
	w.Close()
	if a := <-done; !strings.Contains(a, `"accepted":10`) {
		t.Errorf("the running upload: %s", a)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Streams are counted as connections are: however many a few connections open, there are not more than the bound, and others' are taken.
func TestHTTP2StreamsAreBounded(t *testing.T) {
	r := listening(t, func(c *ingest.Config) { c.MaxConnections = 40 })
	url := "http://" + r.gateway.Addr() + "/api/v1/events/stream"
	key := r.keyOf("evil", tenant.Limits{})
	ended := make(chan error, 200)
	var clients []*http.Client
	for range 4 { // all are connected before the first stream takes what another's connection needs
		client := speaking(t, "HTTP/2.0", nil, nil)
		res, err := client.Get("http://" + r.gateway.Addr() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		clients = append(clients, client)
	}
	for _, client := range clients {
		for range 50 {
			body, w := io.Pipe()
			t.Cleanup(func() { w.Close() })
			go func() {
				_, _, err := postTo(client, url, "e", body, key...)
				ended <- err
			}()
		}
	}
	// A connection that is ended takes its streams along, which are not counted one by one.
	eventually(t, 3*soon, "streams are broken off", func() bool {
		return r.metric("streams_broken_off_total") > 0 && len(ended) >= 200-44
	})
	if n := r.metric("active_requests"); n > 44 {
		t.Errorf("%v requests, of 4 connections and 40 streams at most", n)
	}
	for range len(ended) {
		if err := <-ended; err == nil {
			t.Error("a stream too many was answered")
		}
	}
	for i := range 3 {
		session := fmt.Sprint("g", i)
		if res, text, err := postTo(speaking(t, "HTTP/2.0", nil, nil), url, session, bytes.NewReader(ndjson(session, 5))); err != nil ||
			res.StatusCode != 200 {
			t.Errorf("another's upload: %v %s", err, text)
		}
	}
}
