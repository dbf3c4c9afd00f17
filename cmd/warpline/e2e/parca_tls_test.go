package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/warpline/warpline/proto/parca/parcatest"
)

// authority signs certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	c := a.certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	a.file, _ = pemFiles(t, c)
	return a
}

// certificate signs one, or makes the authority's own.
func (a *authority) certificate(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func pemFiles(t *testing.T, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return writeFile(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))),
		writeFile(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// parcaCertificates: gRPC with a certificate, and with certificates of clients. HTTP on the other listener never asks for one.
func (c *cluster) parcaCertificates(ctx context.Context, t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server := ours.certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	client := &x509.Certificate{Subject: pkix.Name{CommonName: "agent"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	mine, alien := ours.certificate(t, client), theirs.certificate(t, client)
	cert, key := pemFiles(t, server)
	addr, grpcAddr, token := freeAddr(t), freeAddr(t), c.makeKey("sealed")
	totals := newParcaTotals()
	sent := 0
	batch := func() []byte {
		sent++
		rows := parcaBatch("sealed", sent)
		b := parcatest.Arrow(rows)
		totals.add(rows, len(b))
		return b
	}
	refused := parcatest.Arrow(parcaBatch("refused", 0))
	dial := func(o ...grpc.DialOption) *parcatest.Client {
		t.Helper()
		a, err := parcatest.Dial(grpcAddr, token, o...)
		if err != nil {
			t.Fatal(err)
		}
		a.Retry = parcatest.Retry{Attempts: 1, PerTry: 60 * time.Second, Overall: 60 * time.Second}
		t.Cleanup(func() { a.Close() })
		return a
	}
	with := func(roots *x509.CertPool, certs ...tls.Certificate) *parcatest.Client {
		t.Helper()
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whoever the server says that it trusts
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil
		}
		return dial(grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13,
			GetClientCertificate: show})))
	}
	// What a refused client reads depends on what it wrote by then: with a call at once it may find its connection cut, and with the next it
	// has the reason.
	fails := func(who string, a *parcatest.Client, words ...string) {
		t.Helper()
		eventually(t, 3*time.Minute, who, func() (bool, string) {
			err := a.WriteArrow(ctx, refused)
			if status.Code(err) != codes.Unavailable {
				t.Fatalf("%s: %v, want Unavailable", who, err)
			}
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }),
				fmt.Sprintf("%v, want one of %q", err, words)
		})
	}
	passes := func(who string, a *parcatest.Client) {
		t.Helper()
		if err := a.WriteArrow(ctx, batch()); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if ok, err := a.Healthy(ctx); err != nil || !ok {
			t.Errorf("%s, health: %v, %v", who, ok, err)
		}
	}
	overHTTP := func(who string) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.pool}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+"/api/v1/parca", bytes.NewReader(batch()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Errorf("%s: %v", who, err)
			return
		}
		defer resp.Body.Close()
		if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", who, resp.StatusCode, answer)
		}
	}
	launch := func(flags ...string) {
		c.addGateway("gateway2", addr, grpcAddr)
		c.roles["gateway2"].args = append(c.roles["gateway2"].args, flags...)
		c.start("gateway2")
		c.waitReady("gateway2", 3*time.Minute)
	}

	launch("--tls-cert", cert, "--tls-key", key)
	passes("a client that knows the certificate", with(ours.pool))
	fails("a client that knows another", with(theirs.pool), "certificate signed by unknown authority")
	fails("a client without TLS", dial(), "connection", "reset", "EOF")
	overHTTP("HTTP with TLS")
	c.kill("gateway2")

	launch("--tls-cert", cert, "--tls-key", key, "--grpc-client-ca", ours.file)
	passes("a client with a certificate of ours", with(ours.pool, mine))
	fails("a client without a certificate", with(ours.pool), "certificate required")
	fails("a client with a certificate of others", with(ours.pool, alien), "unknown certificate authority", "bad certificate")
	fails("a client without TLS", dial(), "connection", "reset", "EOF")
	overHTTP("HTTP, which asks no certificate")
	c.kill("gateway2")

	for flags, words := range map[string]string{
		"--grpc-client-ca " + ours.file:                                         "--tls-cert",
		"--tls-cert " + cert + " --tls-key " + key + " --grpc-client-ca " + key: "has no PEM certificate",
		"--tls-cert " + cert:                                                    "--tls-key",
	} {
		args := append(append([]string{}, c.roles["gateway"].args...), strings.Fields(flags)...)
		short, cancel := context.WithTimeout(ctx, 60*time.Second)
		out, err := exec.CommandContext(short, binary, args...).CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), words) {
			t.Errorf("gateway %s: %v, %s, want %q", flags, err, out, words)
		}
	}
	c.checkParca(t, "sealed", totals.pc, totals.kernels)
	c.books(t, "sealed", totals.events, totals.cpu, totals.bytes)
	eventually(t, 3*time.Minute, "the one session of those who may send", func() (bool, string) { // rows may be there before it
		got, err := c.tryRows("SELECT session_id, toUInt64(events) FROM sessions WHERE tenant = 'sealed'")
		return err == nil && len(got) == 1, fmt.Sprint(got, err)
	})
}
