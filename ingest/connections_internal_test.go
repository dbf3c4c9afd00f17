package ingest

import (
	"net/netip"
	"testing"
	"time"
)

// Which connections end when there are too many: those of the origin that has most, busy ones counted, and none of a quiet one for it.
func TestWhichConnectionsEnd(t *testing.T) {
	flood, quiet, other := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32"), netip.MustParsePrefix("10.0.0.3/32")
	begin := time.Now()
	for name, c := range map[string]struct {
		idle, busy int // of the flood
		newcomer   netip.Prefix
		ends       int // of the flood
		quiet      bool
	}{
		"the flood is idle, and has a newcomer":            {100, 0, flood, 7, false},
		"the flood is idle, another comes":                 {100, 0, other, 7, false},
		"the flood is nearly all busy, and has a newcomer": {1, 99, flood, 1, false},
		"the flood is nearly all busy, another comes":      {2, 98, other, 2, false},
		"the flood is all busy, and has a newcomer":        {0, 100, flood, 0, false},
		"the flood is all busy, another comes":             {0, 100, other, 0, true}, // somebody has to go
	} {
		all := &connections{open: map[*connection]struct{}{}}
		add := func(from netip.Prefix, n int, idle time.Time) {
			for i := range n {
				o := &connection{all: all, from: from}
				if !idle.IsZero() {
					o.idle = idle.Add(time.Duration(i) * time.Second)
				}
				all.open[o] = struct{}{}
			}
		}
		add(quiet, 1, begin.Add(-time.Hour))
		add(flood, c.idle, begin)
		add(flood, c.busy, time.Time{})
		ends, ended := 0, false
		for _, o := range all.longest(7, c.newcomer) {
			if o.from == flood {
				ends++
			} else {
				ended = true
			}
			if !o.ended || o.idle.IsZero() {
				t.Errorf("%s: %+v ends", name, o)
			}
		}
		if ends != c.ends || ended != c.quiet {
			t.Errorf("%s: %d of the flood end, want %d; the quiet one ends: %v, want %v", name, ends, c.ends, ended, c.quiet)
		}
	}

	// A flood from everywhere: the longest idle ones end, many at a time.
	all := &connections{open: map[*connection]struct{}{}}
	for i := range 200 {
		from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 32)
		all.open[&connection{all: all, from: from, idle: begin.Add(time.Duration(i) * time.Second)}] = struct{}{}
	}
	pick := all.longest(20, other)
	if len(pick) != 20 {
		t.Errorf("%d of 200 end", len(pick))
	}
	for _, o := range pick {
		if o.idle.Sub(begin) >= 20*time.Second {
			t.Errorf("one ends that was idle since second %v", o.idle.Sub(begin))
		}
	}
}
