package ingest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
)

// replace puts a file in the place of another at once.
func replace(t *testing.T, file, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// With authorities of clients, nobody is heard who shows no certificate of theirs, whichever protocol and key it has. The file is read
// again when it changes: who is not in it any more is refused at the next connection, also when it resumes a session. A bad file changes
// nothing.
func TestClientCertificates(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	mineFile, mineKey, _ := certificate(t)
	otherFile, otherKey, _ := certificate(t)
	mine, err := tls.LoadX509KeyPair(mineFile, mineKey)
	if err != nil {
		t.Fatal(err)
	}
	other, err := tls.LoadX509KeyPair(otherFile, otherKey)
	if err != nil {
		t.Fatal(err)
	}
	trusted := certFile + ".clients"
	replace(t, trusted, mineFile)
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Listen, c.TLSCert, c.TLSKey, c.TLSClientCA = "127.0.0.1:0", certFile, keyFile, trusted
		c.GRPCListen = "127.0.0.1:0"
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	defer func() { stop(); <-ended }()
	sessions := map[string]tls.ClientSessionCache{} // of each client, who may resume what it had
	post := func(http2 bool, certs ...tls.Certificate) error {
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whoever the gateway says that it trusts
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil
		}
		who := ""
		if len(certs) > 0 {
			who = string(certs[0].Certificate[0])
		}
		if sessions[who] == nil {
			sessions[who] = tls.NewLRUClientSessionCache(10)
		}
		client := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: http2, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, GetClientCertificate: show, ClientSessionCache: sessions[who], ServerName: "127.0.0.1"}}}
		req, err := http.NewRequest(http.MethodPost, "https://"+r.gateway.Addr()+"/api/v1/events/stream", bytes.NewReader(ndjson("s", 1)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+devKey)
		req.Header.Set("X-GpuFlight-Session-Id", "s")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	}
	for _, http2 := range []bool{false, true} {
		if err := post(http2, mine); err != nil {
			t.Errorf("HTTP/2 %v: a client with its certificate: %v", http2, err)
		}
		if post(http2) == nil {
			t.Errorf("HTTP/2 %v: a client without a certificate is heard", http2)
		}
		if post(http2, other) == nil {
			t.Errorf("HTTP/2 %v: a client with a certificate of somebody else is heard", http2)
		}
	}
	// The other listener asks nobody.
	conn, err := tls.Dial("tcp", r.gateway.GRPCAddr(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12})
	if err != nil {
		t.Errorf("gRPC without a certificate: %v", err)
	} else {
		conn.Close()
	}

	replace(t, trusted, otherFile)
	eventually(t, soon, "the next one is trusted", func() bool { return post(true, other) == nil })
	if post(true, mine) == nil || post(false, mine) == nil {
		t.Error("who is trusted no more is heard")
	}
	replace(t, trusted, keyFile)
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		if err := post(true, other); err != nil || post(true, mine) == nil || post(true) == nil {
			t.Fatalf("a bad file changes who is trusted: %v", err)
		}
	}
	if err := os.Remove(trusted); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		if post(false) == nil {
			t.Fatal("without the file everybody is heard")
		}
	}
	for name, c := range map[string]ingest.Config{
		"without TLS":      {Listen: "127.0.0.1:0", TLSClientCA: mineFile},
		"a file with none": {Listen: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile, TLSClientCA: keyFile},
		"no file":          {Listen: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile, TLSClientCA: trusted},
	} {
		if g, err := ingest.New(r.streams, c); err == nil {
			g.Close()
			t.Errorf("%s: it starts", name)
		}
	}
}

// Who has no key holds up nobody: of a flood from one address, whatever it begins and does not end, the oldest connections are ended, and
// an older one of another address stays, as newcomers are let in.
func TestFloodsWithoutAKey(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	s := brokertest.Start(t, broker.Layout{})
	const wrong = "POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nX-GpuFlight-Session-Id: s\r\n"
	for name, c := range map[string]struct {
		says []string // in turn
		tls  bool     // the gateway speaks it
		in   bool     // and so does the flood, to the end of the handshake
	}{
		"handshakes that never end":   {[]string{"", "\x16\x03\x01\x02\x00\x01\x00"}, true, false},
		"handshakes and nothing more": {[]string{"", "GET / HTTP/1.1\r\nHo"}, true, true},
		"bodies without a key": {[]string{wrong + "Content-Length: 200000\r\n\r\n{",
			wrong + "Transfer-Encoding: chunked\r\n\r\n5\r\n{"}, false, false},
		"beginnings of HTTP/2":         {[]string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.0\r\n"}, false, false},
		"uploads without a key in TLS": {[]string{wrong + "Content-Length: 9000000\r\n\r\n{"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ingest.Config{Listen: "127.0.0.1:0", SpoolDir: t.TempDir(), DevKey: devKey, MaxConnections: 120, Sources: sources(),
				DrainTimeout: time.Millisecond}
			if c.tls {
				cfg.TLSCert, cfg.TLSKey = certFile, keyFile
			}
			g, err := ingest.New(s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- g.Run(ctx) }()
			defer func() { cancel(); <-done }()
			waitReady(t, g)
			dial := func(from string, secure bool) net.Conn {
				t.Helper()
				d := net.Dialer{Timeout: 60 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
				conn, err := d.Dial("tcp", g.Addr())
				if err != nil {
					t.Skipf("this machine has no loopback address %s: %v", from, err)
				}
				t.Cleanup(func() { conn.Close() })
				if secure {
					conn.SetDeadline(time.Now().Add(60 * time.Second))
					sealed := tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
					sealed.Handshake() // it may be ended before
					return sealed
				}
				return conn
			}
			ask := func(conn net.Conn) error {
				conn.SetDeadline(time.Now().Add(60 * time.Second))
				if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
					return err
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err == nil {
					res.Body.Close()
				}
				return err
			}
			quiet := dial("127.0.0.2", c.tls)
			if err := ask(quiet); err != nil {
				t.Fatal(err)
			}
			// More than there may be, and than may ask at once whether their key is new.
			for i := range 300 {
				dial("127.0.0.1", c.in).Write([]byte(c.says[i%len(c.says)]))
			}
			for range 3 {
				if err := ask(dial("127.0.0.3", c.tls)); err != nil {
					t.Errorf("a newcomer: %v", err)
				}
			}
			if err := ask(quiet); err != nil {
				t.Errorf("the idle connection of another address: %v", err)
			}
		})
	}
}

// A body that does not end of a request without a key holds neither its connection nor the end of the gateway.
func TestBodiesWithoutAKeyEnd(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Listen, c.DrainTimeout = "127.0.0.1:0", 10*time.Minute })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	for _, rest := range []string{"Content-Length: 200000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"} {
		conn, err := net.Dial("tcp", r.gateway.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(60 * time.Second))
		if _, err := conn.Write([]byte("POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n" + rest)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if err != nil || !bytes.Contains(all, []byte(" 401 ")) {
			t.Errorf("%q, %v: want an answer and the end of the connection", all, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
