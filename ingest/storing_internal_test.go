package ingest

import (
	"strings"
	"testing"
	"time"
)

func TestUploadsThatFailForAWhileAreTold(t *testing.T) {
	var s storing
	age := func(d time.Duration) { s.since, s.last = s.since.Add(-d), s.last.Add(-d) }
	s.failed("parts_full", "one tenant's own")
	if s.failed("timeout", "no answer"); s.trouble() != "" {
		t.Errorf("one failure is %q", s.trouble())
	}
	age(storingGrace)
	if s.failed("timeout", "no answer"); !strings.Contains(s.trouble(), "no answer") {
		t.Errorf("failing for %v is %q", storingGrace, s.trouble())
	}
	if s.ok(); s.trouble() != "" {
		t.Errorf("after an upload that went well it is %q", s.trouble())
	}
	s.failed("full", "x")
	age(storingStale + time.Second)
	if s.trouble() != "" {
		t.Errorf("without an upload since it is %q", s.trouble())
	}
	if s.failed("full", "x"); s.trouble() != "" {
		t.Errorf("one failure after a long silence is %q", s.trouble())
	}
}
