package e2e_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/bench"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

var (
	millionRecords  = flag.Int("million", 6000, "records that TestMillion makes and sends in three forms each; the long form: 1000000")
	millionSessions = flag.Int("million-sessions", 60, "sessions that TestMillion's records are of; the long form: 1000")
	millionThan     = flag.String("million-than", "", "a commit that TestMillion compares with, given as many records of schema version 2 "+
		"sent once; the long form: 8578aa5")
	millionPairs = flag.Int("million-pairs", 1, "how often TestMillion compares")
)

// fleet makes the records of some processes without end: what record n of session s says is a function of both alone.
type fleet struct {
	version       int
	sessions, per int
}

// reading is what a record says.
type reading struct {
	at                                                        int64
	kind                                                      string
	allocated, reserved, active, inactive, change, used, free int64
}

const fleetTotal = int64(80) << 30

func (f fleet) reading(s, n int) (r reading) {
	x := uint64(s)<<32 | uint64(n)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	r.kind = [...]string{"sample", "allocation", "sample", "deallocation", "sample", "peak"}[n%6]
	r.at = 1795000000_000000000 + int64(s)*1024 + int64(n/2)*100_000_000 // two of a step
	r.allocated = 1<<30 + int64(x&0xfffffff)
	r.reserved = r.allocated + int64(x>>28&0x7ffffff)
	r.active, r.inactive = r.allocated-4096, r.reserved-r.allocated
	r.change = int64(x>>40&0xffffff) + 1
	if r.kind == "deallocation" {
		r.change = -r.change
	}
	r.used = r.reserved + 500<<20
	r.free = fleetTotal - r.used
	return r
}

func (f fleet) id(s int) string {
	return fmt.Sprintf("%08x-5a1d-4c3c-9a44-%012x", s*2654435761%(1<<32), s)
}

// name is how the service names a session.
func (f fleet) name(s int) string {
	if f.version == 2 {
		return fmt.Sprintf("mem:node-%d:%d:job-%d:0", s, 1000+s, s%7)
	}
	return "mem:" + f.id(s)
}

const (
	fleetHealth = `"backend": "cuda", "supports_device_total": true, "supports_device_free": true, "sampling_source": ` +
		`"torch.cuda.memory_allocated/reserved"`
	fleetCan = `, "collector_health_status": "healthy", "telemetry_partial": false, "collector_partial_fields": [], "collector_last_error": ` +
		`null, ` +
		`"collector_consecutive_failures": 0, "collector_next_retry_epoch_s": null, "memory_capabilities": {"backend": "cuda", ` +
		`"telemetry_collector": "stormlog.cuda_tracker", ` +
		`"sampling_source": "torch.cuda.memory_allocated/reserved", "supports_allocator_allocated": true, "supports_allocator_reserved": true, ` +
		`"supports_allocator_active": true, ` +
		`"supports_allocator_inactive": true, "supports_device_used": true, "supports_device_free": true, "supports_device_total": true, ` +
		`"supports_native_allocator_history": true, ` +
		`"supports_fragmentation_analysis": true, "supports_allocator_attribution": true, "supports_bounded_profiling": true}`
)

var python = strings.NewReplacer(`"`, `'`, "true", "True", "false", "False", "null", "None")

var fleetMetadata = map[int][2]string{ // JSON, and as a CSV cell
	2: {"{" + fleetHealth + "}", `"` + python.Replace("{"+fleetHealth+"}") + `"`},
	4: {"{" + fleetHealth + fleetCan + "}", `"` + python.Replace("{"+fleetHealth+fleetCan+"}") + `"`},
}

var fleetForms = [...]string{"json", "ndjson", "csv"}

// export appends what a tracker writes of a session's records from and up to to.
func (f fleet) export(dst []byte, form, s, from, to int) []byte {
	host, job, id, meta := fmt.Sprintf("node-%d", s), fmt.Sprintf("job-%d", s%7), f.id(s), fleetMetadata[f.version]
	num := func(dst []byte, key string, v int64) []byte {
		if form == 2 {
			return strconv.AppendInt(append(dst, ','), v, 10)
		}
		return strconv.AppendInt(append(append(append(dst, `, "`...), key...), `": `...), v, 10)
	}
	text := func(dst []byte, key, v string) []byte {
		if form == 2 {
			return append(append(dst, ','), v...)
		}
		return append(append(append(append(append(dst, `, "`...), key...), `": "`...), v...), '"')
	}
	if form == 2 {
		dst = append(dst, "schema_version,"...)
		if f.version > 2 {
			dst = append(dst, "session_id,"...)
		}
		dst = append(append(dst, strings.Join(telemetryKeys, ",")...), '\n')
	} else if form == 0 {
		dst = append(dst, '[')
	}
	for n := from; n < to; n++ {
		r := f.reading(s, n)
		switch {
		case form == 2:
			dst = strconv.AppendInt(dst, int64(f.version), 10)
		case form == 0 && n > from:
			dst = append(dst, ',', '\n')
			fallthrough
		default:
			dst = strconv.AppendInt(append(dst, `{"schema_version": `...), int64(f.version), 10)
		}
		if f.version > 2 {
			dst = text(dst, "session_id", id)
		}
		dst = num(dst, "timestamp_ns", r.at)
		dst = text(dst, "event_type", r.kind)
		dst = text(dst, "collector", "stormlog.cuda_tracker")
		dst = num(dst, "sampling_interval_ms", 100)
		dst = num(dst, "pid", int64(1000+s))
		dst = text(dst, "host", host)
		dst = text(dst, "job_id", job)
		dst = num(dst, "rank", 0)
		dst = num(dst, "local_rank", 0)
		dst = num(dst, "world_size", 1)
		dst = num(dst, "device_id", 0)
		dst = num(dst, "allocator_allocated_bytes", r.allocated)
		dst = num(dst, "allocator_reserved_bytes", r.reserved)
		dst = num(dst, "allocator_active_bytes", r.active)
		dst = num(dst, "allocator_inactive_bytes", r.inactive)
		dst = num(dst, "allocator_change_bytes", r.change)
		dst = num(dst, "device_used_bytes", r.used)
		dst = num(dst, "device_free_bytes", r.free)
		dst = num(dst, "device_total_bytes", fleetTotal)
		dst = text(dst, "context", "step")
		switch form {
		case 2:
			dst = append(append(append(dst, ','), meta[1]...), '\n')
		default:
			dst = append(append(append(dst, `, "metadata": `...), meta[0]...), '}')
		}
		if form == 1 {
			dst = append(dst, '\n')
		}
	}
	if form == 0 {
		dst = append(dst, ']')
	}
	return dst
}

// sums is what SQL must say of a session: events, bytes allocated and freed, peaks of allocated and used.
func (f fleet) sums(s int) string {
	var allocated, freed, peak, used int64
	for n := range f.per {
		r := f.reading(s, n)
		switch r.kind {
		case "allocation":
			allocated += r.change
		case "deallocation":
			freed -= r.change
		}
		peak, used = max(peak, r.allocated), max(used, r.used)
	}
	return fmt.Sprintf("%d %d %d %d %d", f.per, allocated, freed, peak, used)
}

// fleetRun is what a run showed.
type fleetRun struct {
	records         int
	posted, counted time.Duration
	cpu             [2]time.Duration // of the roles and of the engine
	peak            [2]int64         // resident
}

func (r *fleetRun) String() string {
	return fmt.Sprintf("%.1f k records/s (%d; posted after %.1f s, counted after %.1f s); CPU %.1f us a record (roles %.1f s, engine %.1f "+
		"s); peak memory roles %d MB, engine %d MB",
		float64(r.records)/r.counted.Seconds()/1e3, r.records, r.posted.Seconds(), r.counted.Seconds(),
		float64((r.cpu[0]+r.cpu[1]).Microseconds())/float64(r.records),
		r.cpu[0].Seconds(), r.cpu[1].Seconds(), r.peak[0]/1e6, r.peak[1]/1e6)
}

// figures are of a process and of its child: CPU time, and the most memory that was resident.
func figures(t *testing.T, pid int) (cpu [2]time.Duration, peak [2]int64) {
	t.Helper()
	child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		if b, _ := os.ReadFile(l); len(bytes.Fields(b)) > 0 {
			child = bytes.Fields(b)[0]
		}
	}
	for i, p := range []string{strconv.Itoa(pid), string(child)} {
		stat, err := os.ReadFile("/proc/" + p + "/stat")
		status, err2 := os.ReadFile("/proc/" + p + "/status")
		if err != nil || err2 != nil {
			t.Fatalf("process %s: %v, %v", p, err, err2)
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		var user, system int64
		fmt.Sscan(f[11]+" "+f[12], &user, &system)
		cpu[i] = time.Duration(user+system) * 10 * time.Millisecond
		_, hwm, _ := strings.Cut(string(status), "VmHWM:")
		fmt.Sscan(hwm, &peak[i])
		peak[i] <<= 10
	}
	return cpu, peak
}

// runFleet starts `up` of a binary, sends every record in as many forms as asked, and waits until SQL counts each once.
func runFleet(t *testing.T, binary string, f fleet, forms int) *fleetRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	svc, err := bench.Start(ctx, binary, filepath.Join(t.TempDir(), "data"), "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Stop()
	ask := func(query string) [][]string {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+svc.Read.Addr+"/?database=warpline", strings.NewReader(query))
		if err != nil {
			t.Fatal(err)
		}
		if svc.Read.User != "" { // older builds let everybody read
			req.SetBasicAuth(svc.Read.User, svc.Read.Password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %s", query, err, text)
		}
		var out [][]string
		for line := range strings.Lines(string(text)) {
			out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		return out
	}
	type upload struct{ form, session, from, to int }
	const most = 2000 // records of an upload
	var uploads []upload
	for s := range f.sessions {
		for k := range forms {
			for from := 0; from < f.per; from += most {
				form := k
				if forms == 1 {
					form = (s + from/most) % len(fleetForms)
				}
				uploads = append(uploads, upload{form, s, from, min(f.per, from+most)})
			}
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(uploads), func(i, j int) { uploads[i], uploads[j] = uploads[j], uploads[i] })
	r := &fleetRun{records: f.sessions * f.per * forms}
	began := time.Now()
	before, _ := figures(t, svc.PID)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var body []byte
			for i := next.Add(1) - 1; i < int64(len(uploads)) && ctx.Err() == nil && !t.Failed(); i = next.Add(1) - 1 {
				u := uploads[i]
				body = f.export(body[:0], u.form, u.session, u.from, u.to)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, svc.URL+"/api/v1/telemetry?format="+fleetForms[u.form],
					bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+svc.Key)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf(`{"accepted":%d,"rejected":0,`, u.to-u.from); !strings.HasPrefix(string(text), want) {
					t.Errorf("%s of session %d: %s %.500s", fleetForms[u.form], u.session, resp.Status, text)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	r.posted = time.Since(began)
	want := fmt.Sprintf("%d", r.records)
	for {
		if err := svc.Died(); err != nil {
			t.Fatal(err)
		}
		got := ask("SELECT sum(events) FROM usage WHERE source = 'telemetry'")
		stored := strconv.Itoa(f.sessions * f.per) // minutes come in inserts of their own
		if got[0][0] == want && ask("SELECT count() FROM memory_events_data")[0][0] == stored &&
			ask("SELECT sum(events) FROM memory_stats_data")[0][0] == stored {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("SQL counts %v, sent %s", got, want)
		}
		time.Sleep(250 * time.Millisecond)
	}
	r.counted = time.Since(began)
	r.cpu, r.peak = figures(t, svc.PID)
	for i := range before {
		r.cpu[i] -= before[i]
	}
	expect := map[string]string{}
	for s := range f.sessions {
		expect[f.name(s)] = f.sums(s)
	}
	for name, query := range map[string]string{
		"events": "SELECT session_id, count(), sumIf(allocator_change_bytes, event_type = 'allocation'), -sumIf(allocator_change_bytes, " +
			"event_type = 'deallocation'), " +
			"max(allocator_allocated_bytes), max(device_used_bytes) FROM memory_events GROUP BY session_id",
		"minutes": "SELECT session_id, sum(events), sum(allocation_bytes), sum(deallocation_bytes), max(peak_allocated_bytes), " +
			"max(peak_used_bytes) FROM memory_stats GROUP BY session_id",
	} {
		got := map[string]string{}
		for _, row := range ask(query) {
			got[row[0]] = strings.Join(row[1:], " ")
		}
		if !maps.Equal(got, expect) {
			bad := slices.Sorted(maps.Keys(expect))
			bad = slices.DeleteFunc(bad, func(id string) bool { return got[id] == expect[id] })
			one := append(bad, "")[0]
			t.Errorf("%s: %d sessions, want %d; %d are not as sent, as %q: %q, want %q", name, len(got), len(expect), len(bad), one, got[one],
				expect[one])
		}
	}
	books := ask("SELECT sum(rejected), sum(duplicates) FROM usage WHERE source = 'telemetry'")[0]
	if stored := f.sessions * f.per; books[0] != "0" || books[1] != strconv.Itoa(stored*(forms-1)) {
		t.Errorf("rejected and duplicates are %v of %d records in %d forms", books, stored, forms)
	}
	return r
}

// Many records of many sessions, sent in three forms each, in random order and side by side, are in SQL once each, with exact sums.
// The long form also compares with what an older build did with as many records of version 2, sent once.
func TestMillion(t *testing.T) {
	enginetest.Need(t)
	per := *millionRecords / *millionSessions
	var rates [2][]float64
	for range *millionPairs {
		r := runFleet(t, binary, fleet{4, *millionSessions, per}, 3)
		t.Logf("%d records of version 4 in %d sessions, in three forms each: %v", per**millionSessions, *millionSessions, r)
		rates[0] = append(rates[0], float64(r.records)/r.counted.Seconds())
		if *millionThan == "" {
			continue
		}
		old := runFleet(t, buildOf(t, *millionThan), fleet{2, *millionSessions, 3 * per}, 1)
		t.Logf("%s, as many records of version 2, sent once: %v", *millionThan, old)
		rates[1] = append(rates[1], float64(old.records)/old.counted.Seconds())
	}
	if *millionThan != "" {
		slices.Sort(rates[0])
		slices.Sort(rates[1])
		if a, b := rates[0][len(rates[0])/2], rates[1][len(rates[1])/2]; a < 0.75*b {
			t.Errorf("%.0f records/s are more than a quarter below %.0f", a, b)
		}
	}
}
