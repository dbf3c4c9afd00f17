package intrakernel

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// headerRules are for the JSON of a header. A number may be as long as it likes, so that the error about it can name its field.
var headerRules = jsonscan.Rules{Depth: 32}

// ParseHeader reads a header from the JSON that stands beside a capture: session, region_names, block_filter, options and trace_path. What
// is not there has its default; other members are passed over. Of a member that stands twice the last counts. A name may have bytes that
// are no UTF-8, also as Python escapes them (\udc80 to \udcff). The text is not kept.
//
// The session is checked where buffers are read (Collect), all else here.
func ParseHeader(b []byte) (*Header, error) {
	if len(b) > MaxHeader {
		return nil, wrong(InHeader, "%d bytes, and at most %d are read: leave the records out", len(b), MaxHeader)
	}
	at := jsonscan.Space(b, 0)
	end, kind, _, ok := jsonscan.Value(b, at, &headerRules)
	switch {
	case !ok:
		return nil, wrong(InHeader, "no JSON from byte %d on, or nested deeper than %d: write it as json.dump does", end, headerRules.Depth)
	case kind != jsonscan.KindObject:
		return nil, wrong(InHeader, "no JSON object: it begins with %s", Shortened(string(b[at:min(end, at+10)])))
	case jsonscan.Space(b, end) != len(b):
		return nil, wrong(InHeader, "more text behind the object at byte %d: cut it", end)
	}
	p := headerParser{h: &Header{Path: "trace.json", Options: DefaultOptions()}}
	p.object(b[at:end], "", p.top)
	if p.err != nil {
		return nil, p.err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.h, p.h.checkOptions()
}

// headerParser walks text that is known to be JSON. The first error is kept.
type headerParser struct {
	h              *Header
	err            error
	threads, warps *uint32
}

// finish makes the number of warps.
func (p *headerParser) finish() error {
	if p.threads != nil {
		p.h.Session.Warps = uint32((uint64(*p.threads) + 31) / 32)
		if p.warps != nil && *p.warps != p.h.Session.Warps {
			return wrong(InHeader, "session.warps_per_block: %d, and %d threads_per_block are %d warps: leave one of them out", *p.warps, *p.threads,
				p.h.Session.Warps)
		}
	} else if p.warps != nil {
		p.h.Session.Warps = *p.warps
	}
	return nil
}

func (p *headerParser) top(key string, v value) {
	switch key {
	case "session":
		p.h.Session, p.threads, p.warps = Session{}, nil, nil
		p.members(v, p.session)
	case "options":
		p.h.Options = DefaultOptions()
		p.members(v, p.options)
	case "region_names":
		p.h.Names = nil
		p.elements(v, func(v value) {
			if len(p.h.Names) >= MaxNames {
				p.fail(v, "more than "+strconv.Itoa(MaxNames)+" names, and ids have 16 bits: leave the others out")
				return
			}
			p.h.Names = append(p.h.Names, p.text(v))
		})
	case "block_filter":
		p.h.Filter = nil
		p.elements(v, func(v value) { p.h.Filter = append(p.h.Filter, p.uint32(v)) })
	case "trace_path":
		p.h.Path = p.text(v)
	}
}

func (p *headerParser) session(key string, v value) {
	switch key {
	case "per_warp_cap":
		p.h.Session.Cap = p.uint32(v)
	case "grid_x":
		p.h.Session.Blocks = p.uint32(v)
	case "threads_per_block":
		n := p.uint32(v)
		p.threads = &n
	case "warps_per_block":
		n := p.uint32(v)
		p.warps = &n
	}
}

func (p *headerParser) options(key string, v value) {
	o := &p.h.Options
	switch key {
	case "scale":
		o.Scale = p.float(v)
	case "emit_complete_events":
		o.CompleteEvents = p.bool(v)
	case "group_by_smid":
		o.GroupBySM = p.bool(v)
	case "emit_summary_json":
		o.Summary = p.bool(v)
	case "summary_hist_bins":
		o.HistBins = p.uint32(v)
	case "summary_dump_by_block_warp":
		o.ByBlockWarp = p.bool(v)
	case "emit_block_region_distributions":
		o.BlockRegions = p.bool(v)
	case "block_region_hist_bins":
		o.BlockRegionBins = p.uint32(v)
	case "summary_topk_block_warp_per_region":
		o.TopBlockWarps = p.uint32(v)
	case "block_region_topk_blocks":
		o.TopBlocks = p.uint32(v)
	case "block_region_topk_regions_per_block":
		o.TopRegions = p.uint32(v)
	}
}

// value is one value of the text, and the field that it is in.
type value struct {
	field string
	index int // in an array, else -1
	text  []byte
	kind  jsonscan.Kind
}

func (v value) name() string {
	if v.index < 0 {
		return v.field
	}
	return v.field + "[" + strconv.Itoa(v.index) + "]"
}

func (p *headerParser) fail(v value, what string) {
	if p.err == nil {
		p.err = wrong(InHeader, "%s: %s", v.name(), what)
	}
}

// is reports whether v is of that kind; if not, that is the error.
func (p *headerParser) is(v value, kind jsonscan.Kind, what string) bool {
	if v.kind != kind {
		p.fail(v, Shortened(string(v.text))+" is no "+what+": write one")
		return false
	}
	return true
}

// members visits those of an object; null has none.
func (p *headerParser) members(v value, visit func(key string, v value)) {
	if v.kind != jsonscan.KindNull && p.is(v, jsonscan.KindObject, "object") {
		p.object(v.text, v.field+".", visit)
	}
}

// object visits the members of an object.
func (p *headerParser) object(b []byte, prefix string, visit func(key string, v value)) {
	for i := jsonscan.Space(b, 1); b[i] != '}' && p.err == nil; {
		end, _, _ := jsonscan.String(b, i)
		key := decodeString(b[i:end])
		i = jsonscan.Space(b, jsonscan.Space(b, end)+1) // behind the colon
		end, kind, _, _ := jsonscan.Value(b, i, &headerRules)
		visit(key, value{prefix + key, -1, b[i:end], kind})
		if i = jsonscan.Space(b, end); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
}

// elements visits those of an array; null has none.
func (p *headerParser) elements(v value, visit func(v value)) {
	if v.kind == jsonscan.KindNull || !p.is(v, jsonscan.KindArray, "array") {
		return
	}
	b := v.text
	for i, n := jsonscan.Space(b, 1), 0; b[i] != ']' && p.err == nil; n++ {
		end, kind, _, _ := jsonscan.Value(b, i, &headerRules)
		visit(value{v.field, n, b[i:end], kind})
		if i = jsonscan.Space(b, end); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
}

func (p *headerParser) text(v value) string {
	if !p.is(v, jsonscan.KindString, "text") {
		return ""
	}
	return decodeString(v.text)
}

func (p *headerParser) bool(v value) bool {
	return p.is(v, jsonscan.KindBool, "true or false") && v.text[0] == 't'
}

func (p *headerParser) uint32(v value) uint32 {
	if !p.is(v, jsonscan.KindInt, "whole number") {
		return 0
	}
	n, err := strconv.ParseUint(string(v.text), 10, 32)
	if err != nil {
		text := string(v.text)
		if len(text) > 40 {
			text = Shortened(text)
		}
		p.fail(v, text+" is outside 0 to 4294967295: give the number that the profiler was given")
	}
	return uint32(n)
}

func (p *headerParser) float(v value) float64 {
	if v.kind != jsonscan.KindInt && !p.is(v, jsonscan.KindFloat, "number") {
		return 0
	}
	x, err := strconv.ParseFloat(string(v.text), 64)
	if err != nil || math.IsInf(x, 0) {
		p.fail(v, Shortened(string(v.text))+" is too large for a float64: give a smaller one")
	}
	return x
}

// decodeString is what the JSON string s, with its quotes, stands for. A lone surrogate of those that Python escapes bytes with is that
// byte, another is U+FFFD.
func decodeString(s []byte) string {
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			n := jsonscan.Special(s, i)
			if n == i { // a control character, which the rules refuse elsewhere
				n++
			}
			out = append(out, s[i:n]...)
			i = n
			continue
		}
		r, end := jsonscan.Escape(s, i)
		if r >= 0xdc80 && r <= 0xdcff {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
		i = end
	}
	return string(out)
}
