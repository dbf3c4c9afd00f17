package bench

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"
)

// Sessions out of one mould differ in their ids alone, and their windows say what they hold.
func TestMould(t *testing.T) {
	m, err := newMould(t.Context(), Config{Workload: Full, Kernels: 50, Seed: 3}, t.TempDir(), func(string, int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for n := range int64(2 * moulded) {
		s, err := m.session(n)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.session(n)
		if err != nil || again.ID != s.ID || m.counts(n).Kernels != 50 || s.Counts != m.counts(n) {
			t.Errorf("session %d is another each time: %v", n, err)
		}
		for c, windows := range s.Windows {
			w := windows[0]
			z, err := gzip.NewReader(bytes.NewReader(w.body))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if crc32.ChecksumIEEE(w.body) != w.CRC32 || int64(len(w.body)) != w.GzBytes || int64(len(body)) != w.RawBytes {
				t.Errorf("session %d, %s: the window is not what it says", n, w.Channel)
			}
			if want := strings.ReplaceAll(string(m.bodies[n%moulded][c]), m.of[n%moulded].ID, s.ID); string(body) != want {
				t.Errorf("session %d, %s: more than the id differs", n, w.Channel)
			}
			if seen[w.ID] || w.Session != s.ID {
				t.Errorf("session %d, %s: the window is another's", n, w.Channel)
			}
			seen[w.ID] = true
		}
		if seen[s.ID] {
			t.Errorf("session %d has the id of another", n)
		}
		seen[s.ID] = true
	}
}

// A steady store is told from one that grows, and the minutes that are compared come after the start.
func TestSoakIsSummedUp(t *testing.T) {
	s := &Soak{Workload: Columnar, SessionsPerSecond: 4, KernelsPerSession: 20_000, For: time.Hour}
	for i := range 60 {
		grows := SoakStore{Name: "GROWS", Bytes: int64(i) * 60 * 4 * 100, MaxBytes: 1 << 30}
		s.Minutes = append(s.Minutes, SoakMinute{Minute: i + 1, RolesBytes: 500e6, Stores: []SoakStore{grows, {Name: "STEADY", Bytes: 1e6},
			{Name: "OBJ_WL_STATE", Bytes: grows.Bytes}}})
	}
	s.Stores = s.Minutes[59].Stores
	if per, ok := s.growth("GROWS"); !ok || per != 400 {
		t.Errorf("it grows by %v bytes a second, want 400", per)
	}
	if per, ok := s.growth("STEADY"); !ok || per != 0 {
		t.Errorf("a steady store grows by %v", per)
	}
	first, last, ok := s.halves()
	if !ok || first.name != "MINUTES 15-37" || last.name != "MINUTES 38-60" {
		t.Errorf("compared are %q and %q", first.name, last.name)
	}
	var b strings.Builder
	if err := s.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GROWS", "100.00 B", "243.34 MB", "35.98 MB", "1.07 GB", "+0 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if _, _, ok := (&Soak{Minutes: s.Minutes[:1]}).halves(); ok {
		t.Error("one minute is compared with itself")
	}
}

// A question about one session reads only that session, from every table of it.
func TestQuestionsOfOneSession(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1 FROM warpline.kernels": "SELECT 1 FROM (SELECT * FROM warpline.kernels WHERE session_id = 'x')",
		"SELECT 1 FROM warpline.pc_lines AS l LEFT JOIN warpline.stall_reasons AS s ON s.name = l.stall_reason": "SELECT 1 FROM (SELECT * FROM " +
			"warpline.pc_lines WHERE session_id = 'x') AS l LEFT JOIN warpline.stall_reasons AS s ON s.name = l.stall_reason",
		"SELECT 1 FROM warpline.usage": "",
	} {
		if got := onlySession(sql, "x", map[string]bool{"kernels": true, "pc_lines": true}); got != want {
			t.Errorf("%s\nis of one session\n%s\nwant\n%s", sql, got, want)
		}
	}
}

// The first session may be larger than the others; all of them together have all kernels.
func TestFirstSession(t *testing.T) {
	for _, c := range []Config{{Kernels: 100, Sessions: 7}, {Kernels: 100, Sessions: 7, First: 50}, {Kernels: 10, Sessions: 1, First: 10}} {
		sum := 0
		for i := range c.Sessions {
			n := c.kernelsOf(i)
			if sum += n; n < 1 || i == 0 && c.First > 0 && n != c.First {
				t.Errorf("%+v: session %d has %d", c, i, n)
			}
		}
		if sum != c.Kernels {
			t.Errorf("%+v: all have %d", c, sum)
		}
	}
}
