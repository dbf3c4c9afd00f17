package trace_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

// fields are the fields of a message of protobuf, by number.
type fields map[protowire.Number][]any // uint64 of numbers, []byte of texts and messages

func parse(t *testing.T, b []byte) fields {
	t.Helper()
	f := fields{}
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			t.Fatal("a damaged message")
		}
		b = b[k:]
		var v any
		switch typ {
		case protowire.VarintType:
			v, k = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, k = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v, k = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("type %d of field %d", typ, n)
		}
		if k < 0 {
			t.Fatal("a damaged field")
		}
		b, f[n] = b[k:], append(f[n], v)
	}
	return f
}

func (f fields) number(n protowire.Number) uint64 {
	if len(f[n]) == 0 {
		return 0
	}
	return f[n][0].(uint64)
}

func (f fields) text(n protowire.Number) string {
	if len(f[n]) == 0 {
		return ""
	}
	return string(f[n][0].([]byte))
}

// drawn is a slice or an instant as Perfetto would have it.
type drawn struct {
	name, category, args, process string
	ts, dur                       int64
}

func (d *drawn) String() string {
	return fmt.Sprintf("%s|%s|%d|%d|%s", d.name, d.category, d.ts, d.dur, d.args)
}

// perfettoFile is a trace as Perfetto's rules read it (R1 of its facts).
type perfettoFile struct {
	slices []*drawn
	arrows [][2]*drawn
	counts map[string]int // values of counters, by track
}

func readPerfetto(t *testing.T, b []byte) *perfettoFile {
	t.Helper()
	type packet struct {
		ts    int64
		event fields
	}
	var packets []packet
	texts := map[protowire.Number]map[uint64]string{1: {}, 2: {}, 3: {}}
	names, parents := map[uint64]string{}, map[uint64]uint64{}
	for i, p := range parse(t, b)[1] {
		f := parse(t, p.([]byte))
		if cleared := f.number(13)&1 == 1; cleared != (i == 0) || f.number(10) != 1 {
			t.Fatalf("packet %d: flags %d, sequence %d", i, f.number(13), f.number(10))
		}
		for _, interned := range f[12] {
			for n, entries := range parse(t, interned.([]byte)) {
				for _, entry := range entries {
					e := parse(t, entry.([]byte))
					texts[n][e.number(1)] = e.text(2)
				}
			}
		}
		if d := f.text(60); d != "" {
			of := parse(t, []byte(d))
			if names[of.number(1)] != "" {
				t.Fatalf("track %d twice", of.number(1))
			}
			names[of.number(1)], parents[of.number(1)] = of.text(2), of.number(5)
		}
		if e := f.text(11); e != "" {
			ev := parse(t, []byte(e))
			// Interned texts are of the time of the packet.
			if ev.number(10) != 0 {
				ev[23] = []any{[]byte(texts[2][ev.number(10)])}
			}
			if ev.number(3) != 0 {
				ev[22] = []any{[]byte(texts[1][ev.number(3)])}
			}
			for j, a := range ev[4] {
				of := parse(t, a.([]byte))
				if of.number(1) != 0 {
					of[10] = []any{[]byte(texts[3][of.number(1)])}
				}
				ev[4][j] = of
			}
			packets = append(packets, packet{int64(f.number(8)), ev})
		}
	}
	slices.SortStableFunc(packets, func(a, b packet) int { return cmp.Compare(a.ts, b.ts) })
	out := &perfettoFile{counts: map[string]int{}}
	stacks, last := map[uint64][]*drawn{}, map[uint64]*drawn{}
	args := map[*drawn]map[string]any{}
	for _, p := range packets {
		track := p.event.number(11)
		if names[track] == "" {
			t.Fatalf("an event on track %d, which has no name", track)
		}
		switch p.event.number(9) {
		case 1, 3:
			s := &drawn{name: p.event.text(23), category: p.event.text(22), ts: p.ts, process: names[parents[track]]}
			args[s] = map[string]any{}
			annotations(args[s], p.event[4])
			if p.event.number(9) == 1 {
				s.dur = -1
				stacks[track] = append(stacks[track], s)
			}
			out.slices = append(out.slices, s)
			for _, id := range p.event[47] {
				if from := last[id.(uint64)]; from != nil {
					out.arrows = append(out.arrows, [2]*drawn{from, s})
				}
				last[id.(uint64)] = s
			}
		case 2:
			stack := stacks[track]
			if len(stack) == 0 {
				t.Fatalf("an end on %s at %d without a begin", names[track], p.ts)
			}
			s := stack[len(stack)-1]
			s.dur, stacks[track] = p.ts-s.ts, stack[:len(stack)-1]
			annotations(args[s], p.event[4])
		case 4:
			out.counts[names[track]]++
		}
	}
	for s, of := range args {
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		s.args = string(text)
	}
	return out
}

// annotations are arguments in one form, whatever wrote them.
func annotations(to map[string]any, all []any) {
	for _, a := range all {
		f := a.(fields)
		for n, v := range f {
			switch n {
			case 2:
				to[f.text(10)] = v[0].(uint64) == 1
			case 3:
				to[f.text(10)] = float64(v[0].(uint64))
			case 4:
				to[f.text(10)] = float64(int64(v[0].(uint64)))
			case 5:
				to[f.text(10)] = math.Float64frombits(v[0].(uint64))
			case 6:
				to[f.text(10)] = string(v[0].([]byte))
			case 9:
				var x any
				json.Unmarshal(v[0].([]byte), &x)
				to[f.text(10)] = x
			}
		}
	}
}

// plainEvent is an event as encoding/json reads it.
type plainEvent struct {
	Ph, Name, Cat string
	TS, Dur       json.Number
	PID, TID, ID  any
	Args          map[string]any
}

// oracle is what is to be drawn of a file: its slices, and the arrows of launches, read by encoding/json alone.
func oracle(t *testing.T, text []byte) (want []string, pairs []string, base int64) {
	t.Helper()
	var file struct {
		Base        int64 `json:"baseTimeNanoseconds"`
		TraceEvents []plainEvent
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ns := func(us json.Number) int64 {
		r, ok := new(big.Rat).SetString(string(us))
		if !ok {
			return 0
		}
		r.Mul(r, big.NewRat(1000, 1)).Add(r, big.NewRat(1, 2)) // times of traces are not negative
		return new(big.Int).Div(r.Num(), r.Denom()).Int64()
	}
	host := map[string]bool{"cuda_runtime": true, "cuda_driver": true, "Runtime": true, "hip_runtime": true}
	device := map[string]bool{"kernel": true, "gpu_memcpy": true, "gpu_memset": true, "cuda_sync": true, "Kernel": true, "Memcpy": true,
		"Memset": true}
	calls := map[float64]string{}
	forward, backward, before := map[string]string{}, map[string]string{}, plainEvent{}
	type work struct {
		correlation float64
		slice       string
	}
	var works []work
	for _, e := range file.TraceEvents {
		// Forward and backward: an end stands for the slice that was written just before it, with its thread and time.
		if e.Cat == "fwdbwd" && fmt.Sprint(e.PID, e.TID, e.TS) == fmt.Sprint(before.PID, before.TID, before.TS) {
			args, _ := json.Marshal(before.Args)
			d := drawn{name: before.Name, category: before.Cat, ts: ns(before.TS) + file.Base, dur: ns(before.Dur), args: string(args)}
			map[string]map[string]string{"s": forward, "f": backward}[e.Ph][fmt.Sprint(e.ID)] = d.String()
		}
		if e.Ph == "X" {
			before = e
		}
		if e.Ph != "X" && e.Ph != "i" || e.TS == "" {
			continue
		}
		if e.Args == nil {
			e.Args = map[string]any{}
		}
		args, _ := json.Marshal(e.Args)
		d := drawn{name: e.Name, category: e.Cat, ts: ns(e.TS) + file.Base, dur: ns(e.Dur), args: string(args)}
		want = append(want, d.String())
		if c, ok := e.Args["correlation"].(float64); ok && c > 0 {
			if host[e.Cat] {
				calls[c] = d.String()
			} else if device[e.Cat] {
				works = append(works, work{c, d.String()})
			}
		}
	}
	for _, w := range works {
		if from, ok := calls[w.correlation]; ok {
			pairs = append(pairs, from+" → "+w.slice)
		}
	}
	for id, to := range backward {
		if from, ok := forward[id]; ok {
			pairs = append(pairs, from+" → "+to)
		}
	}
	sort.Strings(want)
	sort.Strings(pairs)
	return want, pairs, file.Base
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func fix(t *testing.T, paths ...string) (*perfettoFile, *trace.Fixed) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.pftrace")
	var words bytes.Buffer
	done, err := (&trace.Fix{Paths: paths, Out: out}).Run(t.Context(), &words)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".warpline*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return readPerfetto(t, readAll(t, out)), done
}

// Of every real trace each slice is there with its name, time, duration and arguments, and each pair of a call and what a GPU did under its
// correlation has one arrow, on exactly these two.
func TestFixRealTraces(t *testing.T) {
	dirs := []string{vectors}
	if more := os.Getenv("WARPLINE_TRACE_VECTORS"); more != "" {
		dirs = append(dirs, more)
	}
	n := 0
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "real", "*.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			n++
			t.Run(filepath.Base(path), func(t *testing.T) {
				text := readAll(t, path)
				if !json.Valid(text) {
					t.Skip("no JSON: the oracle cannot read it")
				}
				want, pairs, _ := oracle(t, text)
				got, done := fix(t, path)
				var have []string
				for _, s := range got.slices {
					have = append(have, s.String())
				}
				sort.Strings(have)
				differ(t, "slices", have, want)
				drawnPairs, others := []string{}, 0
				inPairs := map[string]int{}
				for _, p := range pairs {
					inPairs[p]++
				}
				for _, a := range got.arrows {
					from, to := a[0].String(), a[1].String()
					switch {
					case inPairs[from+" → "+to] > 0:
						drawnPairs = append(drawnPairs, from+" → "+to)
					case inPairs[to+" → "+from] > 0 && a[0].ts < a[1].ts:
						drawnPairs = append(drawnPairs, to+" → "+from) // the GPU's row starts first
					default:
						others++
					}
				}
				sort.Strings(drawnPairs)
				differ(t, "arrows", drawnPairs, pairs)
				if uint64(len(got.arrows)) != done.Arrows || done.Ambiguous > 0 {
					t.Errorf("%d arrows, said are %d, %d ambiguous", len(got.arrows), done.Arrows, done.Ambiguous)
				}
				if others > 0 {
					t.Errorf("%d arrows that are no pair", others)
				}
				t.Logf("%d slices, %d pairs, %d lanes", len(want), len(pairs), done.Lanes)
			})
		}
	}
	if n < 7 {
		t.Errorf("%d traces", n)
	}
}

func differ(t *testing.T, what string, have, want []string) {
	t.Helper()
	if slices.Equal(have, want) {
		return
	}
	shown := 0
	for i, j := 0, 0; (i < len(have) || j < len(want)) && shown < 6; {
		switch {
		case j >= len(want) || i < len(have) && have[i] < want[j]:
			t.Errorf("%s: too many: %.300s", what, have[i])
			i, shown = i+1, shown+1
		case i >= len(have) || want[j] < have[i]:
			t.Errorf("%s: missing: %.300s", what, want[j])
			j, shown = j+1, shown+1
		default:
			i, j = i+1, j+1
		}
	}
	t.Errorf("%s: %d, want %d", what, len(have), len(want))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An arrow is on its slices whatever lies beside them, at any time.
func TestFixSeedCases(t *testing.T) {
	const event = `{"ph":"X","cat":"%s","name":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"correlation":%d}}`
	for _, begin := range []string{"100", "919730262716.414", "1763639202000010"} {
		at := func(us string, plus int64) string {
			r, _ := new(big.Rat).SetString(us)
			return r.Add(r, big.NewRat(plus, 1000)).FloatString(3)
		}
		for name, c := range map[string][2][2]int64{ // begin and duration in ns of A and B, both on one thread
			"abutting":    {{0, 10000}, {10000, 10000}},
			"nested":      {{0, 10000}, {0, 4000}},
			"nested late": {{0, 10000}, {6000, 4000}},
			"zero-length": {{0, 10000}, {10000, 0}},
			"two zero":    {{5, 0}, {5, 0}},
			"overlapping": {{0, 10000}, {9999, 10000}},
		} {
			var list []string
			us := func(ns int64) string { return at("0", ns) }
			for i, s := range c {
				list = append(list, fmt.Sprintf(event, "cuda_runtime", []string{"A", "B"}[i], 1, 1, at(begin, s[0]), us(s[1]), i+1))
				list = append(list, fmt.Sprintf(event, "kernel", []string{"K1", "K2"}[i], 0, 7, at(begin, int64(30000+i*10000)), "5", i+1))
			}
			got, _ := fix(t, write(t, "t.json", "["+strings.Join(list, ",")+"]"))
			var arrows []string
			for _, a := range got.arrows {
				arrows = append(arrows, a[0].name+a[1].name)
			}
			sort.Strings(arrows)
			if fmt.Sprint(arrows) != "[AK1 BK2]" || len(got.slices) != 4 {
				t.Errorf("%s at %s: %v", name, begin, arrows)
			}
			for _, s := range got.slices {
				for i, of := range []string{"A", "B"} {
					if s.name == of && s.dur != c[i][1] {
						t.Errorf("%s at %s: %s takes %d, want %d", name, begin, of, s.dur, c[i][1])
					}
				}
			}
		}
	}
}

// The seed's trace, without correlations: its arrows start where slices end.
func TestFixArrowsAtEnds(t *testing.T) {
	for _, name := range []string{"01_seed_artifact", "03_file_order_does_not_help"} {
		got, _ := fix(t, filepath.Join(vectors, "binding", name+".json"))
		var arrows []string
		for _, a := range got.arrows {
			arrows = append(arrows, a[0].name+a[1].name)
		}
		sort.Strings(arrows)
		if fmt.Sprint(arrows) != "[AK1 BK2]" {
			t.Errorf("%s: %v", name, arrows)
		}
	}
}

// Two ranks with equal processes and correlations are kept apart; one file in which they were merged before has arrows that cannot be told.
func TestFixRanks(t *testing.T) {
	rank := func(name string) string {
		return strings.ReplaceAll(call, "launch", name) + "," + strings.ReplaceAll(work, `"k"`, `"k`+name+`"`)
	}
	a, b := write(t, "rank0.json", "["+rank("a")+"]"), write(t, "rank1.json", `{"baseTimeNanoseconds":5000,"traceEvents":[`+rank("b")+"]}")
	got, done := fix(t, a, b)
	if len(got.arrows) != 2 || done.Ambiguous != 0 {
		t.Fatalf("%d arrows, %+v", len(got.arrows), done)
	}
	for _, arrow := range got.arrows {
		if "k"+arrow[0].name != arrow[1].name || (arrow[0].name == "b") != (arrow[0].ts == 105000) {
			t.Errorf("%s → %s at %d", arrow[0].name, arrow[1].name, arrow[0].ts)
		}
		if !strings.HasPrefix(arrow[0].process, map[string]string{"a": "rank0: ", "b": "rank1: "}[arrow[0].name]) {
			t.Errorf("%s is in %s", arrow[0].name, arrow[0].process)
		}
	}
	got, done = fix(t, write(t, "merged.json", "["+rank("a")+","+strings.ReplaceAll(rank("b"), `"pid":1`, `"pid":2`)+"]"))
	if len(got.arrows) != 0 || done.Ambiguous != 2 || len(got.slices) != 4 {
		t.Errorf("%d arrows, %+v", len(got.arrows), done)
	}
}

// Begins and ends, asynchronous slices, counters, instants, arguments of ends, and what is broken.
func TestFixEverything(t *testing.T) {
	got, done := fix(t, write(t, "t.json", `{"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}},{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"main"}},
{"ph":"B","name":"outer","cat":"c","pid":1,"tid":2,"ts":10,
"args":{"x":1,"t":"a\"b","n":null,"l":[1,{"y":2}],"big":18446744073709551615,"f":0.5}},
{"ph":"B","name":"inner","pid":1,"tid":2,"ts":11},
{"ph":"E","pid":1,"tid":2,"ts":12,"args":{"late":true}},{"ph":"E","pid":1,"tid":2,"ts":20},
{"ph":"B","name":"open","pid":1,"tid":2,"ts":21},
{"ph":"b","name":"async","cat":"a","id":"0x1","pid":1,"tid":2,"ts":5},
{"ph":"e","name":"async","cat":"a","id":"0x1","pid":1,"tid":3,"ts":50},
{"ph":"i","name":"mark","s":"t","pid":1,"tid":2,"ts":13},{"ph":"i","name":"all","s":"g","pid":1,"tid":2,"ts":14},
{"ph":"C","name":"mem","pid":1,"ts":15,"args":{"used":7,"free":1.5}},{"ph":"C","name":"mem","pid":1,"ts":16,"args":{"used":8}},
{"ph":"X","name":"out","pid":1,"tid":9,"ts":1,"dur":2,"bind_id":"0x10","flow_out":true},
{"ph":"X","name":"in","pid":1,"tid":10,"ts":2,"dur":2,"bind_id":"0x10","flow_in":true},
{"ph":"X","name":"a "b" c","pid":1,"tid":20,"ts":3,"dur":0},7,{"ph":"X","name":"no time","pid":1},{"ph":"P","name":"sample","ts":1}]}`))
	var have []string
	for _, s := range got.slices {
		have = append(have, fmt.Sprint(s.name, " ", s.ts, " ", s.dur, " ", s.args))
	}
	sort.Strings(have)
	want := []string{`a "b" c 3000 0 {}`, "all 14000 0 {}", "async 5000 45000 {}", "in 2000 2000 {}",
		`inner 11000 1000 {"late":true}`, "mark 13000 0 {}",
		"open 21000 -1 {}", "out 1000 2000 {}",
		`outer 10000 10000 {"big":18446744073709552000,"f":0.5,"l":[1,{"y":2}],"n":null,"t":"a\"b","x":1}`}
	differ(t, "slices", have, want)
	if len(got.arrows) != 1 || got.arrows[0][0].name != "out" || got.arrows[0][1].name != "in" {
		t.Errorf("arrows %v", got.arrows)
	}
	if got.counts["mem used"] != 2 || got.counts["mem free"] != 1 || done.Counters != 3 || done.Broken != 1 ||
		done.Mended != 1 || done.LeftOut["P"] != 1 {
		t.Errorf("%v, %+v", got.counts, done)
	}
	for _, s := range got.slices {
		if s.name == "inner" && s.process != "python 1" {
			t.Errorf("process %q", s.process)
		}
	}
}

// Chrome's JSON has the same slices, and loses only arrows to slices that begin before their call, or at once and are longer.
func TestFixToChrome(t *testing.T) {
	dirs := []string{vectors}
	if more := os.Getenv("WARPLINE_TRACE_VECTORS"); more != "" {
		dirs = append(dirs, more)
	}
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "real", "*.json.gz"))
		for _, path := range found {
			text := readAll(t, path)
			if !json.Valid(text) {
				continue
			}
			want, pairs, _ := oracle(t, text)
			out := filepath.Join(t.TempDir(), "out.json.gz")
			done, err := (&trace.Fix{Paths: []string{path}, Out: out}).Run(t.Context(), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			have, _, _ := oracle(t, readAll(t, out))
			differ(t, filepath.Base(path), have, want)
			// What Perfetto draws of it is what was said, and all of it right.
			l := trace.Lint{Path: out, Flows: true}
			var rows bytes.Buffer
			if _, err := l.Run(t.Context(), nil, &rows); err != nil {
				t.Fatal(err)
			}
			if n := uint64(bytes.Count(rows.Bytes(), []byte("\n")) - 1); n != done.Arrows || int(done.Arrows+done.Unsaid) < len(pairs) {
				t.Errorf("%s: %d rows, %d arrows, %d unsaid, %d pairs", filepath.Base(path), n, done.Arrows, done.Unsaid, len(pairs))
			}
			t.Logf("%s: %d arrows, %d unsaid", filepath.Base(path), done.Arrows, done.Unsaid)
		}
	}
	a, b := write(t, "rank0.json", "["+call+","+work+"]"), write(t, "rank1.json",
		`{"baseTimeNanoseconds":5000,"traceEvents":[`+call+","+work+`,{"ph":"X","name":"n`+"\n"+`","pid":1,"tid":1,"ts":200,"dur":NaN}]}`)
	out := filepath.Join(t.TempDir(), "two.json")
	done, err := (&trace.Fix{Paths: []string{a, b}, Out: out}).Run(t.Context(), io.Discard)
	text := readAll(t, out)
	if err != nil || done.Arrows != 2 || !json.Valid(text) || !bytes.Contains(text, []byte(`"pid":"1:1"`)) ||
		!bytes.Contains(text, []byte(`"ts":5.000`)) {
		t.Errorf("%v, %+v: %s", err, done, text)
	}
}

// What cannot be done is said, and nothing is written over.
func TestFixRefuses(t *testing.T) {
	path := write(t, "t.json", "["+call+"]")
	for name, f := range map[string]trace.Fix{
		"onto itself":        {Paths: []string{path}, Out: path},
		"no file":            {Paths: []string{path + "x"}, Out: path + ".pftrace"},
		"no format":          {Paths: []string{path}, Out: path + ".txt"},
		"no trace":           {Paths: []string{write(t, "n.json", `{"a":1}`)}, Out: path + ".pftrace"},
		"a folder not there": {Paths: []string{path}, Out: filepath.Join(path, "x", "y")},
	} {
		if _, err := f.Run(t.Context(), io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(path + ".pftrace"); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
	if b := readAll(t, path); string(b) != "["+call+"]" {
		t.Error("the input was changed")
	}
	torn := write(t, "torn.json", "["+call+","+work[:40])
	if got, done := fix(t, torn); len(got.slices) != 1 || len(done.Torn) != 1 {
		t.Errorf("a torn trace: %d slices, %+v", len(got.slices), done)
	}
}

// The same input gives the same bytes.
func TestFixIsDeterministic(t *testing.T) {
	path := filepath.Join(vectors, "real", "HTA_critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz")
	var first []byte
	for range 3 {
		out := filepath.Join(t.TempDir(), "o.pftrace")
		if _, err := (&trace.Fix{Paths: []string{path}, Out: out}).Run(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
		b := readAll(t, out)
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Fatal("other bytes")
		}
	}
}
