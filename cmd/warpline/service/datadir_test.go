package service

import (
	"os"
	"path/filepath"
	"testing"
)

// Who sends finds the gateway of the data folder that it takes the key from.
func TestGatewayOfADataFolder(t *testing.T) {
	const byDefault = "http://127.0.0.1:8080"
	d, err := Hold(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, runs := GatewayOf(d.Path); got != byDefault || runs {
		t.Errorf("before it has started: %s", got)
	}
	for _, c := range []struct {
		listens string
		tls     bool
		want    string
	}{
		{"127.0.0.1:18080", false, "http://127.0.0.1:18080"}, {"10.0.0.7:443", true, "https://10.0.0.7:443"},
		{"0.0.0.0:80", false, "http://127.0.0.1:80"}, {"[::]:80", false, "http://localhost:80"}, {"", false, byDefault},
	} {
		if err := d.publish(Running{Gateway: c.listens, GatewayTLS: c.tls}); err != nil {
			t.Fatal(err)
		}
		if got, _ := GatewayOf(d.Path); got != c.want {
			t.Errorf("listening on %q, TLS %t: %s, want %s", c.listens, c.tls, got, c.want)
		}
	}
	d.lock.Close() // killed: what it wrote is still there
	if got, runs := GatewayOf(d.Path); got != byDefault || runs {
		t.Errorf("of a killed one: %s", got)
	}
}

// A secret survives in its file; an empty file, as a power cut left of one that was not synced, is replaced.
func TestSecretsOfTheFirstStart(t *testing.T) {
	d := &DataDir{Path: t.TempDir()}
	first, err := d.secret("nats-token")
	if err != nil || len(first) < 20 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := d.secret("nats-token"); err != nil || again != first {
		t.Errorf("%q became %q, %v", first, again, err)
	}
	for _, left := range []string{"", "\n"} {
		if err := os.WriteFile(d.File("nats-token"), []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := d.secret("nats-token")
		if err != nil || len(made) < 20 || made == first {
			t.Errorf("in place of %q: %q, %v", left, made, err)
		}
	}
	info, err := os.Stat(d.File("nats-token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(d.File("*.new")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
