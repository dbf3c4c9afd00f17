package admin_test

import (
	"strings"
	"testing"
)

// A class that the service does not have is refused, and nothing is changed.
func TestRetentionClasses(t *testing.T) {
	r := start(t, nil)
	a := r.ask("operator", "PATCH", "tenants/acme", `{"retention-class":"nope"}`)
	if a.status != 400 || !strings.Contains(a.text("detail"), "retention-class") {
		t.Error(a.raw)
	}
	if a := r.ask("acme admin", "POST", "keys", `{"retention-class":"nope"}`); a.status != 400 {
		t.Error(a.raw)
	}
}
