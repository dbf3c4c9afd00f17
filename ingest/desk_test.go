package ingest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
)

// Administrators are answered where they should be and nowhere else: on an address of their own, and on that of uploads only if told so.
func TestWhereAdministratorsAreAnswered(t *testing.T) {
	desk := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "desk at "+r.URL.Path) })
	for _, here := range []bool{false, true} {
		r := start(t, broker.Layout{}, func(c *ingest.Config) {
			c.Listen, c.Admin, c.AdminListen, c.AdminHere, c.PathPrefix = "127.0.0.1:0", desk, "127.0.0.1:0", here, "/profiler"
		})
		for path, its := range map[string]bool{"/api/v1/admin/tenants": true, "/profiler/api/v1/admin/tenants": true, "/api/v1/admin": true,
			"/api/v1/administer": false, "/x/api/v1/admin/tenants": false, "/api/v1/admin/../admin/tenants": true, "/admin": false} {
			a := r.do("GET", path, nil)
			if got := strings.HasPrefix(a.raw, "desk at /api/v1/admin"); got != (its && here) || !got && a.status != 404 {
				t.Errorf("with AdminHere %v, %s: %d %s", here, path, a.status, a.raw)
			}
			if here == false && strings.Contains(strings.Join(a.Routes, " "), "admin") {
				t.Errorf("routes that are not here: %v", a.Routes)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.gateway.Run(ctx) }()
		for path, want := range map[string]string{"/api/v1/admin/tenants": "desk at /api/v1/admin/tenants", "/healthz": "desk at /healthz"} {
			res, err := http.Get("http://" + r.gateway.AdminAddr() + path)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if string(text) != want {
				t.Errorf("on an address of their own, %s: %s", path, text)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := http.Get("http://" + r.gateway.AdminAddr() + "/api/v1/admin/tenants"); err == nil {
			t.Error("the address answers after the end")
		}
	}
}
