package telemetry_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

// v4Record is a record as a CUDA tracker of stormlog 0.4.3 writes it.
const v4Record = `{"schema_version": 4, "session_id": "0b0e7a52-7d5e-4c3c-9a44-8f0d7be0c101", "timestamp_ns": 1795000000123456789, ` +
	`"event_type": "sample", ` +
	`"collector": "stormlog.cuda_tracker", "sampling_interval_ms": 100, "pid": 4242, "host": "node-a", "job_id": "job-1", "rank": 1, ` +
	`"local_rank": 1, ` +
	`"world_size": 4, "device_id": 0, "allocator_allocated_bytes": 1073741824, "allocator_reserved_bytes": 2147483648, ` +
	`"allocator_active_bytes": 1000000000, ` +
	`"allocator_inactive_bytes": 73741824, "allocator_change_bytes": null, "device_used_bytes": 3221225472, "device_free_bytes": ` +
	`13958643712, ` +
	`"device_total_bytes": 17179869184, "context": "step 10", "metadata": {"backend": "cuda", "memory_capabilities": {"backend": "cuda", ` +
	`"telemetry_collector": "stormlog.cuda_tracker", "sampling_source": "torch.cuda.memory_allocated/reserved", ` +
	`"supports_allocator_allocated": true, ` +
	`"supports_allocator_reserved": true, "supports_allocator_active": true, "supports_allocator_inactive": true, "supports_device_used": ` +
	`true, ` +
	`"supports_device_free": true, "supports_device_total": true, "supports_native_allocator_history": true, ` +
	`"supports_fragmentation_analysis": true, ` +
	`"supports_allocator_attribution": true, "supports_bounded_profiling": true}}}`

type verdict struct {
	Output json.RawMessage
	Error  *peerError
}

// What 0.4.3 says of records of versions 1 to 4.
func TestV4Vectors(t *testing.T) {
	for _, file := range []struct {
		name            string
		total, diverged int
	}{{"v4/v3_cases.jsonl", 272, 12}, {"v4/v4_cases.jsonl", 371, 12}, {"v4/changed_v2_cases.jsonl", 142, 17}} {
		var v telemetry.Validator
		var e telemetry.Event
		var validate, strict tally
		cases(t, file.name, func(line []byte) {
			var c struct {
				Name       string
				Input      json.RawMessage
				Permissive bool    `json:"permissive_legacy"`
				Session    *string `json:"default_session_id"`
				Validate   *struct{ Verdict, Message string }
				Strict     *verdict `json:"from_record_strict"`
				Either     *verdict `json:"from_record"`
				Loose      *verdict `json:"from_record_permissive"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			if c.Validate != nil {
				var want *peerError
				if c.Validate.Verdict != "accept" {
					want = &peerError{c.Validate.Message}
				}
				validate.compare(t, c.Name+" (validate)", v.Validate(c.Input, telemetry.Peer043), nil, want, nil)
			}
			o := telemetry.Options{RefuseLegacy: !c.Permissive}
			if c.Session != nil {
				o.DefaultSessionID = *c.Session
			}
			if c.Either != nil {
				c.Strict = c.Either
			}
			r := v.Event(&e, c.Input, &o)
			strict.compare(t, c.Name, r, &e, c.Strict.Error, c.Strict.Output)
			if c.Loose != nil {
				o.RefuseLegacy = false
				r := v.Event(&e, c.Input, &o)
				strict.compare(t, c.Name+" (permissive)", r, &e, c.Loose.Error, c.Loose.Output)
				strict.accepted--
			}
			roundTrip(t, c.Input)
		})
		validate.print(t, file.name+" validate")
		strict.print(t, file.name+" conversion")
		if total := strict.accepted + strict.refused + strict.diverged; total != file.total || strict.diverged != file.diverged {
			t.Errorf("%s: %d cases with %d divergences, want %d with %d", file.name, total, strict.diverged, file.total, file.diverged)
		}
	}
}

// peer043Line compares with a line of v4/peer_records.jsonl.
func peer043Line(t *testing.T, line []byte, v *telemetry.Validator, e *telemetry.Event, n *tally) {
	t.Helper()
	var c struct {
		Text       string
		Permissive bool   `json:"permissive_legacy"`
		Session    string `json:"default_session_id"`
		Validate   *string
		Canonical  string
		Error      *string
	}
	if err := json.Unmarshal(line, &c); err != nil {
		t.Fatal(err)
	}
	text := []byte(c.Text)
	switch r := v.Validate(text, telemetry.Peer043); {
	case r == nil && c.Validate != nil:
		t.Errorf("%s: valid, the peer says %q", text, *c.Validate)
	case r != nil && c.Validate == nil && r.Code != telemetry.IntegerRange:
		t.Errorf("%s: %q, the peer finds it valid", text, r.Message)
	case r != nil && c.Validate != nil && !same(r.Message, *c.Validate):
		t.Errorf("%s: %q, the peer says %q", text, r.Message, *c.Validate)
	}
	r := v.Event(e, text, &telemetry.Options{RefuseLegacy: !c.Permissive, DefaultSessionID: c.Session})
	switch {
	case c.Error != nil && (r == nil || !same(r.Message, *c.Error)):
		t.Errorf("%s: %v, the peer says %q", text, r, *c.Error)
	case c.Error != nil:
		n.refused++
	case r != nil:
		if !n.diverges(r) {
			t.Errorf("%s: %q, the peer accepts it", text, r.Message)
		}
	default:
		n.accepted++
		if got := canonical(t, e.AppendJSON(nil)); got != c.Canonical {
			t.Errorf("%s:\n%s, the peer makes\n%s", text, got, c.Canonical)
		}
		roundTrip(t, text)
	}
}

// Random records, most of them wrong in some place, and what 0.4.3 says of them.
func TestPeer043Records(t *testing.T) {
	var v telemetry.Validator
	var e telemetry.Event
	var n tally
	cases(t, "v4/peer_records.jsonl", func(line []byte) { peer043Line(t, line, &v, &e, &n) })
	n.print(t, "0.4.3 records")
	if n.accepted < 100 || n.refused < 200 {
		t.Errorf("too few of some kind: %+v", n)
	}
}

// 0.4.3's loader, in its JSON and JSON-lines forms. It returns one session and fails whole; here all sessions come, record by record.
func TestV4LoaderVectors(t *testing.T) {
	var n tally
	cases(t, "v4/loader_cases.jsonl", func(line []byte) {
		var c struct {
			Name       string
			File       string          `json:"file_name"`
			Text       string          `json:"file_text"`
			Key        *string         `json:"events_key"`
			Session    *string         `json:"session_id"`
			Permissive *bool           `json:"permissive_legacy"`
			Output     json.RawMessage `json:"output"`
			Loader     string
			Error      *peerError
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		switch c.Name {
		case "requested_session_missing", // there is no choosing here
			"jsonl_raw_line_separator_splits": // a listed divergence
			n.diverged++
			return
		}
		if c.File == "" || c.Loader != "" {
			return // sinks and CSV have tests of their own
		}
		o := telemetry.Options{EventsKey: c.Key, RefuseLegacy: c.Permissive != nil && !*c.Permissive, DefaultSessionID: "$DEFAULT"}
		o.Lines = strings.HasSuffix(c.File, ".jsonl")
		o.TornTail = o.Lines
		got := inTwo(t, []byte(c.Text), o)
		if c.Error != nil {
			n.refused++
			said := got.document
			for i, m := range got.messages {
				switch {
				case said != "" || m == "":
				case got.codes[i] == telemetry.BadJSON || got.codes[i] == telemetry.EventNotObject && o.Lines:
					said = "Telemetry record in "
					if got.codes[i] == telemetry.BadJSON {
						said = "Malformed telemetry JSONL record in "
					}
				default:
					said = m
				}
			}
			if said == "" || !strings.HasPrefix(c.Error.Message, said) {
				t.Errorf("%s: %q, the peer says %q", c.Name, said, c.Error.Message)
			}
			return
		}
		n.accepted++
		var want []json.RawMessage
		if err := json.Unmarshal(c.Output, &want); err != nil {
			t.Fatal(err)
		}
		session := func(event []byte) (id struct {
			ID string `json:"session_id"`
			At int64  `json:"timestamp_ns"`
		}) {
			if err := json.Unmarshal(event, &id); err != nil {
				t.Fatal(err)
			}
			return id
		}
		var events [][]byte
		for i, e := range got.events {
			if got.messages[i] != "" {
				t.Errorf("%s: record %d: %s", c.Name, i, got.messages[i])
			} else if len(want) > 0 && session(e).ID == session(want[0]).ID {
				events = append(events, e)
			}
		}
		slices.SortStableFunc(events, func(a, b []byte) int { return cmp.Compare(session(a).At, session(b).At) })
		if got.document != "" || len(events) != len(want) || len(want) == 0 && len(got.events) > 0 {
			t.Errorf("%s: %q, %d events, the peer has %d", c.Name, got.document, len(events), len(want))
			return
		}
		for i := range want {
			if canonical(t, events[i]) != canonical(t, want[i]) {
				t.Errorf("%s:\n%s, the peer makes\n%s", c.Name, events[i], want[i])
			}
		}
	})
	n.print(t, "0.4.3 loader")
}
