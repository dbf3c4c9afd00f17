package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

func disassembly(session, function, entries string) string {
	return fmt.Sprintf(`{"version":1,"type":"cubin_disassembly","session_id":"%s","cubin_crc":7,"function_name":"%s","entries":[%s]}`+"\n",
		session, function, entries)
}

// The same line again is a duplicate whatever it comes in, and a successor knows it too.
func TestArtifactsAreFoldedOnce(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	f := disassembly("x", "f", `{"pc":0,"sass":"NOP","count":3},{"pc":48,"sass":"EXIT"}`)
	source := `{"type":"source_file_content","session_id":"x","source_file_id":1,"lines":["a","b"]}` + "\n"
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(f+source+f))
	waitFor(t, s, "the first", func(sum totals) bool { return sum["usage_data.events"] == 3 })
	stop()
	start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "x", Identity: "b"}, []byte(source+f))
	publish(t, s, stream.Envelope{Session: "x", Identity: "c"}, []byte(disassembly("x", "g", `{"pc":0,"sass":"NOP","count":3},{"pc":48,`+
		`"sass":"EXIT"}`)))
	sum := waitFor(t, s, "all", func(sum totals) bool { return sum["usage_data.events"] == 6 })
	for what, want := range map[string]uint64{
		"usage_data.duplicates": 3, "usage_data.rejected": 0, "rejects_data": 0,
		"session_functions_data": 2, "session_functions_data.instructions": 8, "session_functions_data.cubin_crc": 14,
		"sass_lines_data": 2 * (4 + 1), "sass_lines_data.sass=NOP": 6, "sass_lines_data.pc": 2 * (16 + 32 + 48), // a mark each
		"session_sources_data": 1, "session_sources_data.lines": 2, "source_lines_data": 2 + 1, "source_lines_data.line": 3,
	} {
		if sum[what] != want {
			t.Errorf("%s is %d, want %d", what, sum[what], want)
		}
	}
}

// A function's link carries its demangled name.
func TestFunctionsAreDemangled(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	ptx := `{"type":"ptx_disassembly","session_id":"x","function_name":"_Z1gPKf","arch":"sm_90","ptx":"ret;"}` + "\n"
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(disassembly("x", "_Z1fi", `{"pc":0,"sass":"NOP"}`)+disassembly("x",
		"plain", `{"pc":0,"sass":"NOP"}`)+ptx))
	sum := waitFor(t, s, "all", func(sum totals) bool { return sum["usage_data.events"] == 3 })
	for _, name := range []string{"f(int)", "g(float const*)", ""} {
		if sum["session_functions_data.demangled="+name] != 1 {
			t.Errorf("%q is there %d times", name, sum["session_functions_data.demangled="+name])
		}
	}
}

// A hundred bytes that say a million instructions do not become more than a part may, and their neighbours come through.
func TestRunsOfInstructionsAreBounded(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	var body strings.Builder
	for i := range 20 {
		body.WriteString(disassembly("x", fmt.Sprint("f", i), `{"pc":0,"sass":"NOP","count":1048576}`))
	}
	body.WriteString(disassembly("x", "wide", `{"pc":0,"sass":"`+strings.Repeat("w", 2000)+`","count":100000}`)) // 200 MB of text
	body.WriteString(disassembly("x", "long", `{"pc":0,"sass":"`+strings.Repeat("w", 2000)+`"}`))
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(body.String()))
	kernels, _ := load(t, s, 0, 5)
	sum := waitFor(t, s, "rejects and neighbours", func(sum totals) bool { return sum["rejects_data"] > 0 && sum["kernels_data"] >= kernels })
	if sum["rejects_data.reason=artifact_too_large"] != 20 || sum["session_functions_data"] != 2 || sum["sass_lines_data"] != 2<<20+2 {
		t.Errorf("%d rejects, %d functions, %d instructions", sum["rejects_data"], sum["session_functions_data"], sum["sass_lines_data"])
	}
}
