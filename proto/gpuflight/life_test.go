package gpuflight_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/gpuflight"
)

func decodeLine(t testing.TB, text string) *gpuflight.Line {
	t.Helper()
	var d gpuflight.Decoder
	l, err := d.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

// Every field of the examples is read: what is decoded, written again, says what the line said.
func TestLifeLinesLoseNothing(t *testing.T) {
	seen := map[gpuflight.Type]int{}
	for _, raw := range exampleLines(t) {
		line := decodeLine(t, string(raw))
		var got any
		var err error
		switch line.Type {
		case gpuflight.SegmentStart:
			got, err = gpuflight.DecodeSegmentStart(line)
		case gpuflight.SegmentEnd:
			got, err = gpuflight.DecodeSegmentEnd(line)
		case gpuflight.RunEnd:
			got, err = gpuflight.DecodeRunEnd(line)
		case gpuflight.CaptureCapabilities:
			got, err = gpuflight.DecodeCapabilities(line)
		case gpuflight.DeepWindowEvent:
			got, err = gpuflight.DecodeDeepWindow(line)
		default:
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		seen[line.Type]++
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var want, have map[string]any
		if json.Unmarshal(raw, &want) != nil || json.Unmarshal(again, &have) != nil {
			t.Fatal("not JSON")
		}
		for key, v := range want {
			switch key {
			case "version", "type", "pid", "app":
				continue // the same in every line of a session
			}
			if h, ok := have[key]; !ok || v != nil && fmt.Sprint(h) != fmt.Sprint(v) {
				t.Errorf("%v.%s is %v, want %v", line.Type, key, h, v)
			}
		}
	}
	for _, typ := range []gpuflight.Type{gpuflight.SegmentStart, gpuflight.SegmentEnd, gpuflight.RunEnd, gpuflight.CaptureCapabilities,
		gpuflight.DeepWindowEvent} {
		if seen[typ] == 0 {
			t.Errorf("no example of %v", typ)
		}
	}
}

func TestLifeLinesAreBounded(t *testing.T) {
	feature := `{"feature":"x"},`
	c, err := gpuflight.DecodeCapabilities(decodeLine(t, `{"type":"capture_capabilities","session_id":"s","capabilities":[`+
		strings.Repeat(feature, 999)+`{"feature":"kernel_events","mode":"launch_callbacks_synthetic"}]}`))
	if err != nil || len(c.Features) != 256 || !c.Partial {
		t.Errorf("%d features, partial %v, %v", len(c.Features), c.Partial, err)
	}
	w, err := gpuflight.DecodeDeepWindow(decodeLine(t, `{"type":"deep_window_event","session_id":"s","start_ns":1,"end_ns":2,"engines":["`+
		strings.Repeat(`a","`, 99)+`"]}`))
	if err != nil || len(w.Engines) != 64 || !w.Partial {
		t.Errorf("%d engines, partial %v, %v", len(w.Engines), w.Partial, err)
	}
	r, err := gpuflight.DecodeRunEnd(decodeLine(t, `{"type":"run_end","session_id":"s","run_id":"r"}`))
	if err != nil || r.FinalSegmentIndex != -1 {
		t.Errorf("a run_end without an index: %+v, %v", r, err)
	}
	for _, text := range []string{
		`{"type":"deep_window_event","session_id":"s","end_ns":2}`, `{"type":"deep_window_event","session_id":"s","start_ns":2}`,
		`{"type":"deep_window_event","session_id":"s","start_ns":3,"end_ns":2}`, `{"type":"deep_window_event","session_id":"` +
			strings.Repeat("x", 300<<10) + `","start_ns":1,"end_ns":2}`,
	} {
		if _, err := gpuflight.DecodeDeepWindow(decodeLine(t, text)); err == nil {
			t.Errorf("%.60s is accepted", text)
		}
	}
}

// FuzzLifeLines: no input breaks the decoders of rare lines, and what they accept is within bounds.
func FuzzLifeLines(f *testing.F) {
	for _, raw := range exampleLines(f) {
		switch typ, _ := gpuflight.Peek(raw); typ {
		case gpuflight.SegmentStart, gpuflight.SegmentEnd, gpuflight.RunEnd, gpuflight.CaptureCapabilities, gpuflight.DeepWindowEvent,
			gpuflight.JobStart, gpuflight.Shutdown:
			f.Add(raw)
		}
	}
	for _, line := range []string{
		`{"type":"job_start","session_id":"s","pid":"x","host":[],"devices":[{"id":-1,"uuid":3},[]],"gpu_static_devices":[{"warp_size":1e2}]}`,
		`{"type":"init","session_id":"s","devices":[{"util_gpu":"x"}],"rocm_static_devices":[{"compute_major":"9","compute_minor":[]}]}`,
		`{"type":"shutdown","session_id":"s","crashed":1,"exit_code":18446744073709551616}`,
	} {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"type":"deep_window_event","session_id":"s","start_ns":1e99,"end_ns":"2","engines":{"a":1},"trigger":[1]}`))
	var d gpuflight.Decoder
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := d.Decode(raw)
		if err != nil {
			return
		}
		// What a decoder passes over is left over: as a bad field, or as an unknown one where the key is not in the usual letters.
		left := gpuflight.LeftoversOf(l)
		if len(left.Extras) > 64 || len(left.Extras) > left.Unknown+left.Bad {
			t.Fatalf("%+v", left)
		}
		partial := false
		switch l.Type {
		case gpuflight.JobStart, gpuflight.Init:
			j, _ := gpuflight.DecodeJobStart(l)
			partial = j.Partial
		case gpuflight.Shutdown:
			e, _ := gpuflight.DecodeShutdown(l)
			partial = e.Partial
		case gpuflight.SegmentStart:
			b, _ := gpuflight.DecodeSegmentStart(l)
			partial = b.Partial
		case gpuflight.SegmentEnd:
			c, _ := gpuflight.DecodeSegmentEnd(l)
			partial = c.Partial
		case gpuflight.RunEnd:
			r, _ := gpuflight.DecodeRunEnd(l)
			partial = r.Partial
		case gpuflight.CaptureCapabilities:
			c, _ := gpuflight.DecodeCapabilities(l)
			partial = c.Partial
		case gpuflight.DeepWindowEvent:
			w, _ := gpuflight.DecodeDeepWindow(l)
			partial = w.Partial
		}
		if partial && left.Unknown+left.Bad == 0 {
			t.Fatalf("something was not read of %s, and nothing is left over", raw)
		}
		gpuflight.DecodeSegmentStart(l)
		gpuflight.DecodeSegmentEnd(l)
		if r, err := gpuflight.DecodeRunEnd(l); err == nil && !utf8.ValidString(r.RunID) {
			t.Fatal("a run id is not UTF-8")
		}
		if c, err := gpuflight.DecodeCapabilities(l); err == nil && len(c.Features) > 256 {
			t.Fatal("too many features")
		}
		if w, err := gpuflight.DecodeDeepWindow(l); err == nil && (w.StartNS <= 0 || w.EndNS < w.StartNS || len(w.Engines) > 64) {
			t.Fatalf("a window %+v", w)
		}
	})
}
