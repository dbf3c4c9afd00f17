package kineto

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/intrakernel"
)

// Bounds of what is kept of the metadata of a trace.
const (
	maxThreads     = 1 << 16 // names of threads
	maxThreadBytes = 4 << 20 // of all of them
	maxDevices     = 64
	maxWordBytes   = 1 << 10 // of a host, a device, a thread
)

// Device is a GPU as a trace describes it.
type Device struct {
	ID                int32  `json:"id"`
	Name              string `json:"name,omitempty"`
	TotalBytes        uint64 `json:"total_bytes,omitempty"`
	Major             uint32 `json:"major,omitempty"`
	Minor             uint32 `json:"minor,omitempty"`
	Multiprocessors   uint32 `json:"multiprocessors,omitempty"`
	SharedPerBlock    uint64 `json:"shared_per_block,omitempty"`
	RegistersPerBlock uint32 `json:"registers_per_block,omitempty"`
	WarpSize          uint32 `json:"warp_size,omitempty"`
}

// Meta is what a trace says of itself, wherever in it that stands.
type Meta struct {
	// Base is added to all times, in ns since 1970; 0 where times are since 1970 themselves.
	Base int64
	// Rank is -1 and WorldSize 0 where the trace does not say them.
	Rank      int64
	WorldSize int64
	Host      string
	Vendor    string // NVIDIA, AMD or ''
	Devices   []Device
	// Elements are those of the list of events, readable or not, Readable those that are objects.
	Elements, Readable uint64
	// Complete says that the trace is whole. Else it can be read up to TornAt, and Why says what is wrong there.
	Complete bool
	TornAt   int64
	Why      string
	// Regions says that it is an intra-kernel profiler's, of write_trace or Proton; Stretched that its times were stretched and are no
	// measurement.
	Regions, Stretched bool
	// Listed says that it has a list of events.
	Listed bool

	threads     map[string]string // by pid, 0 and tid as text
	threadBytes int
}

// Survey reads a trace to its end, for what may stand behind the events. An error is one of reading; a trace that is no trace says so in
// Meta.
func Survey(r io.Reader) (*Meta, error) {
	m := &Meta{Rank: -1, threads: map[string]string{}}
	in := chrometrace.NewReader(r)
	in.Member = m.member
	for {
		e, err := in.Next()
		var broken *chrometrace.EventError
		var syntax *chrometrace.SyntaxError
		switch {
		case err == io.EOF:
			m.Listed, m.Complete, m.TornAt = in.Listed(), true, -1
			return m, nil
		case errors.As(err, &broken):
			m.Elements++
		case errors.As(err, &syntax) && syntax.Err != nil:
			m.Listed, m.TornAt, m.Why = in.Listed(), syntax.Offset, syntax.Reason
			return m, syntax.Err
		case errors.As(err, &syntax):
			m.Listed, m.TornAt, m.Why = in.Listed(), syntax.Offset, syntax.Reason
			return m, nil
		case err != nil:
			return m, err
		default:
			m.Elements++
			if m.Readable == 0 {
				m.Regions = intrakernel.IsProton(e)
			}
			m.Readable++
			if string(e.Phase) == `"M"` {
				m.metadata(e)
			}
		}
	}
}

// metadata takes an event of phase M.
func (m *Meta) metadata(e *chrometrace.Event) {
	process := string(e.Name) == `"process_name"`
	if !process && string(e.Name) != `"thread_name"` {
		return
	}
	var name []byte
	chrometrace.EachMember(e.Args, func(key, v []byte) {
		if string(key) == `"name"` && isName(v) {
			name = text(v)
		}
	})
	if process {
		rest, found := bytes.CutPrefix(name, []byte("sm "))
		m.Regions = m.Regions || found && len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'
		return
	}
	key := threadKey(nil, e.PID, e.TID)
	if len(name) == 0 || len(name) > maxWordBytes || len(key) > maxWordBytes || len(m.threads) >= maxThreads ||
		m.threadBytes > maxThreadBytes {
		return
	}
	m.threadBytes += len(name) + len(key)
	m.threads[string(key)] = string(bytes.TrimSpace(name))
}

// threadKey appends the key of a thread: pid and tid as text, so that "7" and 7 are one.
func threadKey(dst, pid, tid []byte) []byte {
	return append(append(append(dst, text(pid)...), 0), text(tid)...)
}

func (m *Meta) member(key string, value []byte) {
	word := func(to *string) {
		if isName(value) && len(value) <= maxWordBytes {
			*to = strings.ToValidUTF8(string(text(value)), "\uFFFD")
		}
	}
	switch key {
	case "baseTimeNanoseconds":
		if n, ok := Integer(value); ok {
			m.Base = n
		}
	case "host_name":
		word(&m.Host)
	case "distributedInfo":
		m.distributed(value)
	case "deviceProperties":
		m.devices(value)
	case "cuda_driver_version", "cuda_runtime_version", "cupti_version":
		m.Vendor = "NVIDIA"
	case "hip_driver_version", "hip_runtime_version", "roctracer_version":
		m.Vendor = "AMD"
	case "metadata":
		chrometrace.EachMember(value, func(key, _ []byte) { m.Stretched = m.Stretched || string(key) == `"ikp_nsys_merge"` })
	}
}

func (m *Meta) distributed(value []byte) {
	chrometrace.EachMember(value, func(key, v []byte) {
		n, ok := Integer(v)
		switch {
		case !ok || n < 0 || n > math.MaxInt32:
		case string(key) == `"rank"`:
			m.Rank = n
		case string(key) == `"world_size"`:
			m.WorldSize = n
		}
	})
}

func (m *Meta) devices(value []byte) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return
	}
	m.Devices = m.Devices[:0]
	for _, one := range list[:min(len(list), maxDevices)] {
		d, known := Device{}, false
		chrometrace.EachMember(one, func(key, v []byte) {
			switch string(key) {
			case `"id"`:
				n, ok := Integer(v)
				if known = ok && n >= 0 && n <= math.MaxInt32; known {
					d.ID = int32(n)
				}
			case `"name"`:
				if isName(v) && len(v) <= maxWordBytes/4 {
					d.Name = strings.ToValidUTF8(string(text(v)), "\uFFFD")
				}
			case `"totalGlobalMem"`:
				d.TotalBytes = unsigned(v)
			case `"computeMajor"`:
				d.Major = clamp32(v)
			case `"computeMinor"`:
				d.Minor = clamp32(v)
			case `"numSms"`:
				d.Multiprocessors = clamp32(v)
			case `"sharedMemPerBlock"`:
				d.SharedPerBlock = unsigned(v)
			case `"regsPerBlock"`:
				d.RegistersPerBlock = clamp32(v)
			case `"warpSize"`:
				d.WarpSize = clamp32(v)
			}
		})
		if !known {
			continue
		}
		if m.Vendor == "" {
			m.Vendor = vendorOf(d.Name, d.WarpSize)
		}
		m.Devices = append(m.Devices, d)
	}
}

// vendorOf is whose a device is. Warps of 64 are AMD's; those of 32 may be anybody's.
func vendorOf(name string, warp uint32) string {
	upper := strings.ToUpper(name)
	for _, w := range []string{"NVIDIA", "TESLA", "GEFORCE", "QUADRO"} {
		if strings.Contains(upper, w) {
			return "NVIDIA"
		}
	}
	for _, w := range []string{"AMD", "RADEON", "INSTINCT"} {
		if strings.Contains(upper, w) {
			return "AMD"
		}
	}
	if warp == 64 {
		return "AMD"
	}
	return ""
}
