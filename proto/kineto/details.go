package kineto

import (
	"math"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/jsonscan"
)

// Details is what the args of a kernel, a copy, a memset, a wait or an allocation say of it. 0, "" and nil are not known.
type Details struct {
	Bytes, Address int64
	Registers      uint32
	Grid, Block    []byte // JSON arrays, as they stand
	Context        uint32
	WaitsForEvent  uint32
	SyncKind       []byte
	DeviceType     int64
	Device         int32 // -1 unknown
}

// Read reads args, a JSON object.
func (d *Details) Read(args []byte) {
	*d = Details{Device: -1}
	chrometrace.EachMember(args, func(key, v []byte) {
		switch string(key) {
		case `"bytes"`, `"Bytes"`:
			d.Bytes, _ = Integer(v)
		case `"Addr"`:
			d.Address, _ = Integer(v)
		case `"registers per thread"`:
			d.Registers = clamp32(v)
		case `"grid"`:
			d.Grid = v
		case `"block"`:
			d.Block = v
		case `"context"`:
			d.Context = clamp32(v)
		case `"wait_on_cuda_event_id"`:
			d.WaitsForEvent = clamp32(v)
		case `"cuda_sync_kind"`:
			d.SyncKind = text(v)
		case `"Device Type"`:
			d.DeviceType, _ = Integer(v)
		case `"Device Id"`:
			if n, ok := Integer(v); ok && n >= -1 && n <= math.MaxInt32 {
				d.Device = int32(n)
			}
		}
	})
}

func clamp32(v []byte) uint32 { return uint32(min(unsigned(v), math.MaxUint32)) }

// AppendDim3 appends the three numbers of a JSON array as GPU Flight writes them, (x,y,z). What is none appends nothing.
func AppendDim3(dst, v []byte) []byte {
	start := len(dst)
	if len(v) < 2 || v[0] != '[' {
		return dst
	}
	dst = append(dst, '(')
	i, n := 1, 0
	for ; ; n++ {
		i = jsonscan.Space(v, i)
		end := jsonscan.Digits(v, i)
		if end == i || end-i > 10 || end == len(v) {
			return dst[:start]
		}
		dst = append(dst, v[i:end]...)
		i = jsonscan.Space(v, end)
		if i < len(v) && v[i] == ',' && n < 2 {
			dst = append(dst, ',')
			i++
			continue
		}
		break
	}
	if n != 2 || i != len(v)-1 || v[i] != ']' {
		return dst[:start]
	}
	return append(dst, ')')
}
