package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// Each way of not getting through is told apart, at once.
func TestSendSaysWhatIsWrongWithTheAddress(t *testing.T) {
	const anyExit = -1
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, c := range map[string]struct {
		url, want string
		code      int
	}{
		"certificate of their own": {secure.URL, "SSL_CERT_FILE", exitUnreachable},
		// it answers or hangs up, as the body goes
		"TLS and http://":     {strings.Replace(secure.URL, "https", "http", 1), "write https://", anyExit},
		"no TLS and https://": {strings.Replace(plain.URL, "http", "https", 1), "write http://", exitUnreachable},
		"wrong path":          {plain.URL, "path prefix", exitRefused},
		"nobody there":        {"http://127.0.0.1:1", "is a gateway running", exitUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got := runIn(t, nil, "send", "../../testdata/gpuflight/scoped", "--url", c.url, "--key", "k", "--attempts", "1")
			if c.code != anyExit && got.code != c.code || got.code == exitOK || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%+v, want exit %d and %q", got, c.code, c.want)
			}
			if c.want != "is a gateway running" && strings.Contains(got.stderr, "is a gateway running") {
				t.Errorf("it asks whether a gateway runs: %s", got.stderr)
			}
		})
	}
}

// Nobody named an address and nothing runs: that is said at once, where a named gateway would be waited for.
func TestSendToNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Skipf("something listens at the default address, so that nobody can be told from somebody: %v", err)
	}
	l.Close()
	r := runIn(t, nil, "send", "../../testdata/gpuflight/scoped", "../../testdata/telemetry/exports",
		"--data", filepath.Join(t.TempDir(), "none"))
	if r.code != exitUnreachable || !strings.Contains(r.stderr, "no warpline runs on") || !strings.Contains(r.stderr, "--url") {
		t.Errorf("%+v", r)
	}
}

// A gateway that asks for a certificate is shown the one that was named; without one, it is said what is missing, at once.
func TestSendShowsItsCertificate(t *testing.T) {
	asking := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.Organization)
	}))
	asking.Config.ErrorLog = log.New(io.Discard, "", 0)
	asking.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	asking.StartTLS()
	defer asking.Close()
	for _, shown := range []bool{true, false} {
		c := &sendCmd{URL: asking.URL}
		if shown {
			c.shown = asking.TLS.Certificates
		}
		client := c.client()
		client.Transport.(*http.Transport).TLSClientConfig.RootCAs = asking.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		res, err := client.Get(asking.URL)
		if err == nil {
			res.Body.Close()
		}
		switch {
		case shown && (err != nil || res.StatusCode != http.StatusOK):
			t.Errorf("with a certificate: %v", err)
		case !shown && (err == nil || !hopeless(err) || !strings.Contains(c.advice(err), "--client-cert")):
			t.Errorf("without: %v", err)
		}
	}
}
