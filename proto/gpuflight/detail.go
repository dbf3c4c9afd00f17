package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// Detail is a kernel_detail line: the launch configuration of the kernel row with the same correlation id in the same session.
// It has no name, time or device. Fields the line lacks are zero. Strings are copies in valid UTF-8.
type Detail struct {
	PID    int64
	App    string
	CorrID uint32

	Grid, Block          string // "(x,y,z)" as the client writes it
	StaticSharedBytes    int64
	LocalBytes           int64
	ConstBytes           int64
	Occupancy            float64 // theoretical, 0 to 1, as are the four below
	RegOccupancy         float64
	SmemOccupancy        float64
	WarpOccupancy        float64
	BlockOccupancy       float64
	LimitingResource     string // warps, registers, shared_mem, blocks, waves
	MaxActiveBlocks      int64
	LocalMemTotalBytes   int64
	LocalMemPerThread    int64 // bytes; above 0 the kernel spills registers
	CacheConfigRequested int64
	CacheConfigExecuted  int64
	SharedMemExecuted    int64  // bytes
	UserScope            string // "outer|inner", "global", "process:<app>" or ""
	StackTrace           string // "outer|…|inner" or ""
}

// ScopePath returns the user scope as a path, empty for "global".
func (d *Detail) ScopePath() string {
	if d.UserScope == "global" {
		return ""
	}
	return d.UserScope
}

const (
	detailHead   = `{"version":1,"type":"kernel_detail","session_id":"`
	detailPID    = `,"pid":`
	detailApp    = `,"app":"`
	detailCorr   = `,"corr_id":`
	detailConfig = `,"grid":`
)

// DetailKey splits a kernel_detail line that is written as the client writes it: corrID is its correlation id, tail everything
// from "grid" to the end, white space at the line's end excluded. Lines with equal tails have equal Details except for PID, App
// and CorrID, which all stand before the tail. So decode a tail once, with DecodeDetail on the whole line, and remember the result.
//
// The part before the tail is checked, the tail is not. A tail that DecodeDetail has accepted once is good in every line DetailKey
// accepts; one it refused is bad in all of them. With ok false nothing is known: use DecodeDetail.
func DetailKey(line []byte) (corrID uint32, tail []byte, ok bool) {
	if len(line) < len(detailHead) || string(line[:len(detailHead)]) != detailHead {
		return 0, nil, false
	}
	i, ok := plainString(line, len(detailHead))
	if !ok {
		return 0, nil, false
	}
	if i, ok = skipWord(line, i, detailPID); !ok {
		return 0, nil, false
	}
	end, integer, ok := jsonscan.Number(line, i)
	if !ok || !integer || end-i > 18 {
		return 0, nil, false
	}
	if i, ok = skipWord(line, end, detailApp); !ok {
		return 0, nil, false
	}
	if i, ok = plainString(line, i); !ok {
		return 0, nil, false
	}
	if i, ok = skipWord(line, i, detailCorr); !ok {
		return 0, nil, false
	}
	mag, negative, end := readInteger(line, i)
	if end < 0 || negative || mag > 1<<32-1 {
		return 0, nil, false
	}
	if _, ok = skipWord(line, end, detailConfig); !ok {
		return 0, nil, false
	}
	tail = line[end+1:]
	for n := len(tail); n > 0 && (tail[n-1] == '\n' || tail[n-1] == '\r' || tail[n-1] == ' ' || tail[n-1] == '\t'); n-- {
		tail = tail[:n-1]
	}
	return uint32(mag), tail, true
}

func skipWord(b []byte, i int, word string) (int, bool) {
	if !jsonscan.Word(b, i, word) {
		return i, false
	}
	return i + len(word), true
}

// plainString passes the rest of a string without escapes, its quote included.
func plainString(b []byte, i int) (end int, ok bool) {
	end = jsonscan.Special(b, i)
	if end >= len(b) || b[end] != '"' {
		return 0, false
	}
	return end + 1, true
}

// DecodeDetail decodes a kernel_detail line with its keys in any order. Errors are *LineError: bad_json, missing_field for corr_id,
// bad_value or out_of_range for a field of the wrong kind. It does not look at the type: the caller has, with Peek.
func DecodeDetail(line []byte) (Detail, error) {
	var d Detail
	var fail *LineError
	var have uint32
	m := walkObject(line, 0)
	for m.next() {
		f := detailFieldOf(m.key)
		if f < 0 || have&(1<<f) != 0 {
			if !m.skip() {
				return Detail{}, badJSON(line, m.i)
			}
			continue
		}
		have |= 1 << f
		if !d.read(&m, f, &fail) {
			return Detail{}, badJSON(line, m.i)
		}
	}
	if !m.ok || jsonscan.Space(line, m.i) != len(line) {
		return Detail{}, badJSON(line, m.i)
	}
	if have&(1<<fieldCorrID) == 0 {
		note(&fail, ReasonMissingField, "corr_id")
	}
	if fail != nil {
		return Detail{}, fail
	}
	return d, nil
}

const fieldCorrID = 0

var detailFields = [...]string{
	fieldCorrID: "corr_id",
	"pid", "app", "grid", "block", "static_shared", "local_bytes", "const_bytes",
	"occupancy", "reg_occupancy", "smem_occupancy", "warp_occupancy", "block_occupancy",
	"limiting_resource", "max_active_blocks", "local_mem_total_bytes", "local_mem_per_thread_bytes",
	"cache_config_requested", "cache_config_executed", "shared_mem_executed_bytes", "user_scope", "stack_trace",
}

func detailFieldOf(key []byte) int {
	for f, name := range detailFields {
		if name == string(key) {
			return f
		}
	}
	return -1
}

// read reads the value m stands on into the field; false means bad syntax.
func (d *Detail) read(m *members, f int, fail **LineError) bool {
	name := detailFields[f]
	if f == fieldCorrID {
		v, _, ok := m.integer(KindU32, name, fail)
		d.CorrID = uint32(v)
		return ok
	}
	var number *int64
	var ratio *float64
	var text *string
	switch name {
	case "pid":
		number = &d.PID
	case "app":
		text = &d.App
	case "grid":
		text = &d.Grid
	case "block":
		text = &d.Block
	case "static_shared":
		number = &d.StaticSharedBytes
	case "local_bytes":
		number = &d.LocalBytes
	case "const_bytes":
		number = &d.ConstBytes
	case "occupancy":
		ratio = &d.Occupancy
	case "reg_occupancy":
		ratio = &d.RegOccupancy
	case "smem_occupancy":
		ratio = &d.SmemOccupancy
	case "warp_occupancy":
		ratio = &d.WarpOccupancy
	case "block_occupancy":
		ratio = &d.BlockOccupancy
	case "limiting_resource":
		text = &d.LimitingResource
	case "max_active_blocks":
		number = &d.MaxActiveBlocks
	case "local_mem_total_bytes":
		number = &d.LocalMemTotalBytes
	case "local_mem_per_thread_bytes":
		number = &d.LocalMemPerThread
	case "cache_config_requested":
		number = &d.CacheConfigRequested
	case "cache_config_executed":
		number = &d.CacheConfigExecuted
	case "shared_mem_executed_bytes":
		number = &d.SharedMemExecuted
	case "user_scope":
		text = &d.UserScope
	case "stack_trace":
		text = &d.StackTrace
	}
	ok := false
	switch {
	case number != nil:
		*number, _, ok = m.integer(KindI64, name, fail)
	case ratio != nil:
		*ratio, ok = m.float(name, fail)
	default:
		var s []byte
		var isString bool
		s, isString, ok = m.text(nil)
		if !isString {
			note(fail, ReasonBadValue, name+" is not a string")
		}
		*text = string(s)
	}
	return ok
}
