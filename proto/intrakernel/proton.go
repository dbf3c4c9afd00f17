package intrakernel

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/warpline/warpline/proto/chrometrace"
)

// ErrProton is what Error.Err is for a trace that is to be read with ReadProton.
var ErrProton = errors.New("a trace of Proton")

// protonPath is the process of Proton's slices that are no warps': how the host came to the kernels.
const protonPath = "Kernel Call Path"

// Proton is a trace that the intra-kernel profiler of Triton wrote. It is not safe for concurrent use.
type Proton struct {
	// Visits are the slices in the order of their ends, times from the first begin on.
	Visits []Visit
	// Names has what each region is called, by id: a region is a name in a kernel, and ids are given as they come.
	Names []RegionName
	// Elements is how many elements the list of events had.
	Elements uint64
}

// ReadProton reads a trace of at most so many slices, as Triton writes them in 2026: the category is the kernel, the process
// "<kernel> Core<multiprocessor> CTA<block>", with a remark behind it in older ones, the thread "warp <warp> (line <line>)". Lines only
// keep slices of a warp from covering each other. Times are us of which each ns is a cycle. Slices of the host's call path are left out.
func ReadProton(r io.Reader, most int) (*Proton, error) {
	p := protonReader{regions: map[string]uint16{}, most: most, first: math.MaxInt64}
	in := chrometrace.NewReader(r)
	for {
		e, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, &Error{In: InTrace, Text: err.Error() + ": only a whole trace is taken; write it again", Err: err}
		}
		p.trace.Elements++
		if err := p.add(e); err != nil {
			return nil, err
		}
	}
	for i := range p.trace.Visits { // so far TS is as it stands in the trace, which may be before 0
		v := &p.trace.Visits[i]
		v.TS = uint64(int64(v.TS) - p.first)
	}
	slices.SortFunc(p.trace.Visits, func(a, b Visit) int {
		return cmp.Or(cmp.Compare(a.TS+a.Dur, b.TS+b.Dur), cmp.Compare(a.SM, b.SM), cmp.Compare(a.Block, b.Block),
			cmp.Compare(a.Warp, b.Warp), cmp.Compare(a.Region, b.Region), cmp.Compare(b.TS, a.TS))
	})
	return &p.trace, nil
}

// Kernel is the kernel of the trace, ” of none and of several.
func (p *Proton) Kernel() string {
	for _, n := range p.Names {
		if n.Kernel != p.Names[0].Kernel {
			return ""
		}
	}
	if len(p.Names) == 0 {
		return ""
	}
	return p.Names[0].Kernel
}

// Cut cuts the trace into parts, as Timeline.Cut does.
func (p *Proton) Cut(head PartHead, limit int, send func(head *PartHead, records uint64, body []byte) error) error {
	head.Clock, head.Scale, head.HistBins, head.BlockBins = ClockCycles, 1, defaultBins, defaultBins
	head.Survived, head.SliceRecords, head.Besides = uint64(len(p.Visits)), 1, p.Elements-uint64(len(p.Visits))
	return pile{
		n:      len(p.Visits),
		visit:  func(i int) Visit { return p.Visits[i] },
		region: func(region uint16) RegionName { return p.Names[region] },
	}.cut(head, limit, send)
}

// protonReader collects the slices of a trace.
type protonReader struct {
	trace   Proton
	regions map[string]uint16 // by category and name, as they stand
	most    int
	first   int64 // begin, in ns
}

// IsProton reports whether an event has the process of one of Proton's.
func IsProton(e *chrometrace.Event) bool {
	if len(e.PID) == 0 || e.PID[0] != '"' {
		return false
	}
	pid := chrometrace.Text(e.PID)
	_, _, ok := protonProcess(pid)
	return ok || pid == protonPath
}

// protonProcess takes a process apart: what stands before " Core", and the numbers.
func protonProcess(pid string) (kernel string, place [2]uint64, ok bool) {
	pid, _, _ = strings.Cut(pid, " [measure in")
	cta := strings.LastIndex(pid, " CTA")
	if cta < 0 {
		return "", place, false
	}
	core := strings.LastIndex(pid[:cta], " Core")
	if core < 0 {
		return "", place, false
	}
	sm, err := strconv.ParseUint(pid[core+len(" Core"):cta], 10, 16)
	block, err2 := strconv.ParseUint(pid[cta+len(" CTA"):], 10, 32)
	return pid[:core], [2]uint64{sm, block}, err == nil && err2 == nil
}

// protonWarp is the warp of a thread.
func protonWarp(tid string) (uint16, bool) {
	rest, isWarp := strings.CutPrefix(tid, "warp ")
	warp, line, hasLine := strings.Cut(rest, " (line ")
	n, err := strconv.ParseUint(warp, 10, 16)
	line, closed := strings.CutSuffix(line, ")")
	_, err2 := strconv.ParseUint(line, 10, 32)
	return uint16(n), isWarp && hasLine && closed && err == nil && err2 == nil
}

func (p *protonReader) add(e *chrometrace.Event) error {
	bad := func(format string, args ...any) error {
		return wrong(InTrace, "event at byte %d: "+format, append([]any{e.Offset}, args...)...)
	}
	if string(e.Phase) == `"M"` {
		return nil
	}
	pid := chrometrace.Text(e.PID)
	if pid == protonPath {
		return nil
	}
	_, place, ok := protonProcess(pid)
	warp, isWarp := protonWarp(chrometrace.Text(e.TID))
	if string(e.Phase) != `"X"` || !ok || !isWarp {
		return bad("ph %s, pid %s and tid %s are no slice of Proton, as ph \"X\", pid \"<kernel> Core<sm> CTA<block>\" and tid "+
			"\"warp <warp> (line <line>)\": give a trace that it wrote, as it is", Shortened(string(e.Phase)), Shortened(string(e.PID)),
			Shortened(string(e.TID)))
	}
	region, ok := p.region(e)
	if !ok {
		return bad("more than %d regions, or a cat %s or name %s that is no text: record fewer kernels at once", MaxNames,
			Shortened(string(e.Category)), Shortened(string(e.Name)))
	}
	ts, ok := protonTime(e.TS)
	dur, ok2 := protonTime(e.Dur)
	if !ok || !ok2 || dur < 0 {
		return bad("ts %s and dur %s are no time and no duration from 0 on, in us: give a trace that Proton wrote, as it is",
			Shortened(string(e.TS)), Shortened(string(e.Dur)))
	}
	if len(p.trace.Visits) >= p.most {
		return tooMany(InTrace, p.most)
	}
	p.first = min(p.first, ts)
	p.trace.Visits = append(p.trace.Visits, Visit{TS: uint64(ts), Dur: uint64(dur), Block: uint32(place[1]), Region: region, Warp: warp,
		SM: uint16(place[0])})
	return nil
}

// region is the id of an event's region.
func (p *protonReader) region(e *chrometrace.Event) (uint16, bool) {
	var buffer [256]byte
	key := append(append(append(buffer[:0], e.Category...), 0), e.Name...)
	if id, ok := p.regions[string(key)]; ok {
		return id, true
	}
	isText := func(b []byte) bool { return len(b) > 0 && b[0] == '"' }
	if len(p.trace.Names) >= MaxNames || !isText(e.Category) || !isText(e.Name) {
		return 0, false
	}
	id := uint16(len(p.trace.Names))
	p.trace.Names = append(p.trace.Names, RegionName{Region: id, Kernel: clipName(chrometrace.Text(e.Category)),
		Name: clipName(chrometrace.Text(e.Name))})
	p.regions[string(key)] = id
	return id, true
}

// protonTime is a time in ns. It is below 2^62, so that a sum of two can be held.
func protonTime(text []byte) (ns int64, ok bool) {
	us, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(us) || math.Abs(us) >= 1<<52 {
		return 0, false
	}
	return int64(math.Round(us * 1000)), true
}
