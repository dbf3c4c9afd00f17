package gpuflight_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// instructions counts runs out: "pc sass", one a line.
func instructions(l *gpuflight.Line) (string, gpuflight.Disassembly, error) {
	var out []string
	d, err := gpuflight.DecodeDisassembly(l, func(r gpuflight.Run) {
		for i := range min(r.Count, 8) {
			out = append(out, fmt.Sprintf("%d %s", r.PC+uint64(i)*r.Stride, r.SASS))
		}
	})
	return strings.Join(out, "\n"), d, err
}

func example(t testing.TB, typ string) *gpuflight.Line {
	t.Helper()
	for _, file := range []string{"examples_by_type", "examples_handbuilt"} {
		body, err := os.ReadFile("../../testdata/gpuflight/" + file + ".ndjson")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(body) {
			if bytes.Contains(line, []byte(`"type":"`+typ+`"`)) {
				return &gpuflight.Line{Raw: bytes.TrimSpace(line)}
			}
		}
	}
	t.Fatal("no example of " + typ)
	return nil
}

func TestDecodeExampleArtifacts(t *testing.T) {
	got, d, err := instructions(example(t, "cubin_disassembly"))
	want := "0 s_load_dword s0, s[4:5], 0x18\n8 v_fma_f32 v0, v1, 42, v0\n16 v_fma_f32 v0, v1, 42, v0\n24 global_store_dword v0, v1, " +
		"s[2:3]\n32 s_endpgm"
	if err != nil || got != want || d.CubinCRC != 16045690984503111693 || d.Function != "_Z9vecMulAddPKfS0_Pfi" || d.Instructions != 5 {
		t.Errorf("%+v, %v:\n%s", d, err, got)
	}
	var lines []string
	s, err := gpuflight.DecodeSource(example(t, "source_file_content"), func(n int, text []byte) {
		lines = append(lines, fmt.Sprint(n, " ", string(text)))
	})
	if err != nil || s != (gpuflight.Source{FileID: 1, Lines: 4}) || len(lines) != 4 || lines[3] != "4 }" {
		t.Errorf("%+v, %v: %q", s, err, lines)
	}
	p, err := gpuflight.DecodePTX(example(t, "ptx_disassembly"))
	if err != nil || p.Function != "_Z9vecMulAddPKfS0_Pfi" || p.Arch != "sm_90" ||
		!strings.HasPrefix(string(p.Text), ".version 8.5\n.target sm_90\n") {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestDecodeDisassemblyRuns(t *testing.T) {
	const huge = gpuflight.MaxInstructions
	for name, c := range map[string]struct{ entries, want, reason string }{
		"nothing":                        {``, "", ""},
		"one has sixteen bytes":          {`{"pc":0,"sass":"a","count":3}`, "0 a\n16 a\n32 a", ""},
		"a run shares what is behind it": {`{"pc":0,"sass":"a","count":2},{"pc":32,"sass":"b"}`, "0 a\n16 a\n32 b", ""},
		"the last has the least stride":  {`{"pc":0,"sass":"a"},{"pc":4,"sass":"b"},{"pc":12,"sass":"c","count":2}`, "0 a\n4 b\n12 c\n16 c", ""},
		"it need not begin at 0":         {`{"pc":256,"sass":"a","count":2},{"pc":288,"sass":"b"}`, "256 a\n272 a\n288 b", ""},
		"an uneven run rounds down":      {`{"pc":0,"sass":"a","count":2},{"pc":33,"sass":"b"}`, "0 a\n16 a\n33 b", ""},
		"keys in any order, and others":  {` { "count" : 1 , "x":[{}], "sass":"a\tb\u00e9", "pc" : 7 } `, "7 a\tb\u00e9", ""},
		"broken UTF-8":                   {"{\"pc\":0,\"sass\":\"a\xff\"}", "0 a\uFFFD", ""},
		"the first of repeated keys":     {`{"pc":0,"pc":5,"sass":"a","sass":"b"}`, "0 a", ""},
		"at the end of the address space": {`{"pc":18446744073709551599,"sass":"a","count":2}`,
			"18446744073709551599 a\n18446744073709551615 a", ""},
		"beyond it":       {`{"pc":18446744073709551600,"sass":"a","count":2}`, "", gpuflight.ReasonOutOfRange},
		"backwards":       {`{"pc":16,"sass":"a"},{"pc":0,"sass":"b"}`, "", gpuflight.ReasonBadValue},
		"the same pc":     {`{"pc":16,"sass":"a"},{"pc":16,"sass":"b"}`, "", gpuflight.ReasonBadValue},
		"less than bytes": {`{"pc":0,"sass":"a","count":9},{"pc":8,"sass":"b"}`, "", gpuflight.ReasonBadValue},
		"count 0":         {`{"pc":0,"sass":"a","count":0}`, "", gpuflight.ReasonBadValue},
		"count -1":        {`{"pc":0,"sass":"a","count":-1}`, "", gpuflight.ReasonBadValue},
		"a huge count":    {fmt.Sprintf(`{"pc":0,"sass":"a","count":%d}`, huge+1), "", gpuflight.ReasonArtifactTooLarge},
		"the hugest":      {`{"pc":0,"sass":"a","count":9223372036854775807}`, "", gpuflight.ReasonArtifactTooLarge},
		"huge together":   {fmt.Sprintf(`{"pc":0,"sass":"a","count":%d},{"pc":%d,"sass":"b"}`, huge, huge), "", gpuflight.ReasonArtifactTooLarge},
		"no pc":           {`{"sass":"a"}`, "", gpuflight.ReasonMissingField},
		"no sass":         {`{"pc":1}`, "", gpuflight.ReasonMissingField},
		"sass a number":   {`{"pc":1,"sass":1}`, "", gpuflight.ReasonBadValue},
		"pc text":         {`{"pc":"1","sass":"a"}`, "", gpuflight.ReasonBadValue},
		"a number":        {`1`, "", gpuflight.ReasonBadValue},
		"broken":          {`{"pc":1,"sass":"a"`, "", gpuflight.ReasonBadJSON},
		"a comma more":    {`{"pc":1,"sass":"a"},`, "", gpuflight.ReasonBadJSON},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := instructions(&gpuflight.Line{Raw: []byte(`{"cubin_crc":1,"function_name":"f","entries":[` + c.entries + `]}`)})
			if c.reason == "" && (err != nil || got != c.want) {
				t.Errorf("%v:\n%s\nwant\n%s", err, got, c.want)
			}
			var e *gpuflight.LineError
			if c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason) {
				t.Errorf("error is %v, want %s", err, c.reason)
			}
		})
	}
	_, d, err := instructions(&gpuflight.Line{Raw: []byte(fmt.Sprintf(`{"function_name":"f","entries":[{"pc":0,"sass":"NOP","count":%d}]}`,
		huge))})
	if err != nil || d.Instructions != huge || d.TextBytes != 3*huge {
		t.Errorf("%+v, %v: as many as allowed are too many", d, err)
	}
}

func TestDecodeArtifactsRefuses(t *testing.T) {
	source := func(l *gpuflight.Line) error { _, err := gpuflight.DecodeSource(l, nil); return err }
	disassembly := func(l *gpuflight.Line) error { _, err := gpuflight.DecodeDisassembly(l, nil); return err }
	ptx := func(l *gpuflight.Line) error { _, err := gpuflight.DecodePTX(l); return err }
	for _, c := range []struct {
		decode       func(*gpuflight.Line) error
		line, reason string
	}{
		{source, `{"source_file_id":1}`, gpuflight.ReasonMissingField},
		{source, `{"lines":[]}`, gpuflight.ReasonMissingField},
		{source, `{"source_file_id":1,"lines":["a",7]}`, gpuflight.ReasonBadValue},
		{source, `{"source_file_id":1,"lines":{}}`, gpuflight.ReasonBadValue},
		{source, `{"source_file_id":4294967296,"lines":[]}`, gpuflight.ReasonOutOfRange},
		{source, `{"source_file_id":1,"lines":["a"`, gpuflight.ReasonBadJSON},
		{source, `{"source_file_id":1,"lines":[` + strings.Repeat(`"",`, gpuflight.MaxSourceLines) + `""]}`, gpuflight.ReasonArtifactTooLarge},
		{source, `{"source_file_id":1,"lines":["` + strings.Repeat("x", 1<<20) + `"]}`, ""},
		{disassembly, `{"entries":[]}`, gpuflight.ReasonMissingField},
		{disassembly, `{"function_name":"f"}`, gpuflight.ReasonMissingField},
		{disassembly, `{"function_name":7,"entries":[]}`, gpuflight.ReasonBadValue},
		{disassembly, `{"function_name":"f","entries":7}`, gpuflight.ReasonBadValue},
		{disassembly, `{"function_name":"f","cubin_crc":-1,"entries":[]}`, gpuflight.ReasonOutOfRange},
		{disassembly, `[]`, gpuflight.ReasonBadJSON},
		{ptx, `{"function_name":"f"}`, gpuflight.ReasonMissingField},
		{ptx, `{"ptx":7}`, gpuflight.ReasonBadValue},
		{ptx, `{"ptx":""}`, ""},
		{ptx, `{"ptx":"}`, gpuflight.ReasonBadJSON},
	} {
		err := c.decode(&gpuflight.Line{Raw: []byte(c.line)})
		var e *gpuflight.LineError
		if c.reason == "" && err != nil || c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason) {
			t.Errorf("%.60s: error is %v, want %q", c.line, err, c.reason)
		}
	}
}

// FuzzDecodeArtifacts: no input panics, what was accepted once is accepted again with the same calls, and counts agree with them.
func FuzzDecodeArtifacts(f *testing.F) {
	for _, typ := range []string{"cubin_disassembly", "source_file_content", "ptx_disassembly"} {
		f.Add(example(f, typ).Raw)
	}
	f.Add([]byte(`{"function_name":"f","entries":[{"pc":0,"sass":"a","count":3},{"pc":48,"sass":"\u0062"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := &gpuflight.Line{Raw: raw}
		n, bytes, next := 0, 0, uint64(0)
		d, err := gpuflight.DecodeDisassembly(l, func(r gpuflight.Run) {
			if r.Count < 1 || r.Stride == 0 || n > 0 && r.PC < next {
				t.Fatalf("run %+v behind %d", r, next)
			}
			last := r.PC + uint64(r.Count-1)*r.Stride
			if last < r.PC {
				t.Fatalf("run %+v goes round", r)
			}
			n, bytes, next = n+r.Count, bytes+r.Count*len(r.SASS), last
		})
		if err == nil && (n != d.Instructions || bytes != d.TextBytes || n > gpuflight.MaxInstructions) {
			t.Fatalf("%+v, but %d instructions of %d bytes", d, n, bytes)
		}
		if again, err2 := gpuflight.DecodeDisassembly(l, nil); !reflect.DeepEqual(err, err2) || again != d {
			t.Fatalf("%+v %v, then %+v %v", d, err, again, err2)
		}
		lines := 0
		s, err := gpuflight.DecodeSource(l, func(int, []byte) { lines++ })
		if err == nil && lines != s.Lines {
			t.Fatalf("%d lines, %d calls", s.Lines, lines)
		}
		var dec gpuflight.Decoder
		_, lineErr := dec.Decode(raw)
		_, ptxErr := gpuflight.DecodePTX(l)
		var bad *gpuflight.LineError
		if errors.As(lineErr, &bad) && bad.Reason == gpuflight.ReasonBadJSON && (err == nil || ptxErr == nil) {
			t.Fatal("accepts what Decode calls bad JSON")
		}
	})
}
