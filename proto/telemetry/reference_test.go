package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/telemetry"
)

// refused is the panic with which the reference leaves.
type refused string

func no(format string, args ...any) { panic(refused(fmt.Sprintf(format, args...))) }

// obj is a record as encoding/json reads it.
type obj map[string]any

func (o obj) int(key string) *big.Int {
	n, ok := o[key].(json.Number)
	if !ok || strings.ContainsAny(string(n), ".eE") {
		no("%s must be an integer", key)
	}
	v, _ := new(big.Int).SetString(string(n), 10)
	return v
}

func (o obj) least(key string, least int64, tail string) *big.Int {
	v := o.int(key)
	if v.Cmp(big.NewInt(least)) < 0 {
		no("%s must be >= %d%s", key, least, tail)
	}
	return v
}

func (o obj) str(key string) {
	s, ok := o[key].(string)
	if o[key] != nil && !ok {
		no("%s must be a string", key)
	}
	spaces := "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029" +
		"\u202f\u205f\u3000"
	if strings.Trim(s, spaces) == "" {
		no("%s must be a non-empty string", key)
	}
}

const (
	requiredKeys = "schema_version timestamp_ns event_type collector sampling_interval_ms pid host device_id allocator_allocated_bytes " +
		"allocator_reserved_bytes allocator_active_bytes allocator_inactive_bytes allocator_change_bytes device_used_bytes device_free_bytes " +
		"device_total_bytes context metadata"
	optionalKeys = "job_id rank local_rank world_size"
)

// reference is the rules for schema version 2 written down as slowly and plainly as they read. It returns the message, "" if valid.
func reference(text []byte) (message string) {
	defer func() {
		if r, ok := recover().(refused); ok {
			message = string(r)
		}
	}()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var r obj
	if err := d.Decode(&r); err != nil {
		panic(err)
	}
	var missing, unknown []string
	for _, k := range strings.Fields(requiredKeys) {
		if _, ok := r[k]; !ok {
			missing = append(missing, k)
		}
	}
	for k := range r {
		if !slices.Contains(strings.Fields(requiredKeys+" "+optionalKeys), k) {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	if missing != nil {
		no("Missing required telemetry fields: %s", strings.Join(missing, ", "))
	}
	if unknown != nil {
		no("Unknown telemetry fields: %s", strings.Join(unknown, ", "))
	}
	given := func(k string) bool { _, ok := r[k]; return ok }
	nullable := func(k string) bool { return r[k] == nil }
	if r.int("schema_version").Cmp(big.NewInt(2)) != 0 {
		no("schema_version must be 2")
	}
	r.least("timestamp_ns", 0, "")
	r.str("event_type")
	r.str("collector")
	r.least("sampling_interval_ms", 0, "")
	r.least("pid", -1, "")
	r.str("host")
	if r["job_id"] != nil {
		r.str("job_id")
	}
	rank, world := big.NewInt(0), big.NewInt(1)
	if given("rank") {
		rank = r.least("rank", 0, "")
	}
	local := rank
	if given("local_rank") {
		local = r.least("local_rank", 0, "")
	}
	if given("world_size") {
		world = r.least("world_size", 1, "")
	}
	r.int("device_id")
	r.int("allocator_allocated_bytes")
	r.int("allocator_reserved_bytes")
	some := []string{"allocator_active_bytes", "allocator_inactive_bytes"}
	for _, k := range some {
		if !nullable(k) {
			r.int(k)
		}
	}
	r.int("allocator_change_bytes")
	r.least("allocator_allocated_bytes", 0, "")
	r.least("allocator_reserved_bytes", 0, "")
	for _, k := range some {
		if !nullable(k) {
			r.least(k, 0, " when provided")
		}
	}
	r.int("device_used_bytes")
	some = []string{"device_free_bytes", "device_total_bytes"}
	for _, k := range some {
		if !nullable(k) {
			r.int(k)
		}
	}
	r.least("device_used_bytes", 0, "")
	for _, k := range some {
		if !nullable(k) {
			r.least(k, 0, " when provided")
		}
	}
	if !nullable("device_total_bytes") {
		for _, k := range []string{"device_used_bytes", "device_free_bytes"} {
			if !nullable(k) && r.int(k).Cmp(r.int("device_total_bytes")) > 0 {
				no("%s cannot exceed device_total_bytes", k)
			}
		}
	}
	if _, ok := r["context"].(string); !ok && r["context"] != nil {
		no("context must be a string")
	}
	if _, ok := r["metadata"].(map[string]any); !ok {
		no("metadata must be an object")
	}
	if rank.Cmp(world) >= 0 {
		no("rank must be < world_size")
	}
	if local.Cmp(world) >= 0 {
		no("local_rank must be < world_size")
	}
	for _, k := range strings.Fields(requiredKeys + " " + optionalKeys) {
		if n, ok := r[k].(json.Number); ok && k != "schema_version" {
			if v, _ := new(big.Int).SetString(string(n), 10); !v.IsInt64() {
				return "beyond 64 bits"
			}
		}
	}
	return ""
}

var values = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `-2`, `2`, `3`, `7`, `1000`, `2.0`, `2e0`, `1e3`,
	`1.5`, `9223372036854775807`, `9223372036854775808`,
	`-9223372036854775808`, `-9223372036854775809`, `18446744073709551616`, `1180591620717411303424`,
	`123456789012345678`, `1234567890123456789`,
	`""`, `" "`, `"\t\n"`, `"\u001c"`, `"\u001f x"`, `"\u00a0"`, "\"\u3000\u2028\"", "\"\u200b\"", `"\u0000"`, `"a\"b\\\/"`, `"\ud83d\ude00"`,
	"\"é\"", `"1"`,
	`{}`, `[]`, `{"a":{"b":[1,{"c":null}]}}`, `{"rank":5}`, `[{}]`, `{"x":"]}\"","y":[[],[{}]]}`,
}

// randomRecord writes a record that is valid or nearly so.
func randomRecord(r *rand.Rand) []byte {
	type member struct{ key, value string }
	var m []member
	for _, k := range strings.Fields(requiredKeys) {
		v := "5"
		switch k {
		case "schema_version":
			v = "2"
		case "event_type", "collector", "host", "context":
			v = `"x"`
		case "metadata":
			v = `{"backend":"cuda"}`
		}
		m = append(m, member{k, v})
	}
	if r.Intn(2) == 0 {
		m = append(m, member{"rank", "1"}, member{"world_size", "4"}, member{"job_id", `"j"`}, member{"local_rank", "0"})
	}
	for range r.Intn(4) {
		m[r.Intn(len(m))].value = values[r.Intn(len(values))]
	}
	if r.Intn(5) == 0 {
		m = slices.Delete(m, 3, 3+r.Intn(3))
	}
	if r.Intn(3) == 0 { // keys that stand twice, are escaped, are nearly right
		keys := []string{"p\\u0069d", "PID", "timestamp", "schema_version", "rank", "metadata_x", "é", "host", "\\u0061llocator_active_bytes",
			"z", "z"}
		m = append(m, member{keys[r.Intn(len(keys))], values[r.Intn(len(values))]})
	}
	if r.Intn(2) == 0 {
		r.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
	}
	space := func() string { return []string{"", "", " ", "\n\t", "\r "}[r.Intn(5)] }
	var b strings.Builder
	b.WriteString("{" + space())
	for i, x := range m {
		if i > 0 {
			b.WriteString("," + space())
		}
		b.WriteString(`"` + x.key + `"` + space() + ":" + space() + x.value + space())
	}
	return []byte(b.String() + "}")
}

func TestAgainstReference(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	var v telemetry.Validator
	accepted := 0
	messages := map[string]bool{}
	for range 30_000 {
		text := randomRecord(r)
		want, got := reference(text), ""
		if refusal := v.Validate(text, telemetry.Peer029); refusal != nil {
			if got = refusal.Message; refusal.Code == telemetry.IntegerRange {
				got = "beyond 64 bits"
			}
		}
		if got != want {
			t.Fatalf("%s: %q, the reference says %q", text, got, want)
		}
		messages[want] = true
		if want == "" {
			accepted++
		}
	}
	t.Logf("%d accepted, %d kinds of message", accepted, len(messages))
	if accepted < 3000 || len(messages) < 50 {
		t.Error("the records are not varied enough")
	}
}

func TestCanonicalAgainstReference(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for range 5000 {
		text := randomRecord(r)
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil { // sorts keys
			t.Fatal(err)
		}
		plain := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(want.String()))
		if got := canonical(t, text); got != plain || !utf8.ValidString(got) {
			t.Fatalf("%s:\n%s, want\n%s", text, got, plain)
		}
	}
}
