package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/intrakernel"
)

// Regions is captures of intra-kernel profilers: launches like a matrix product, one upload each.
const Regions Workload = "regions"

// The shape of a launch: regions of a loop inside an outer one.
const (
	regionBlocks = 1024
	regionWarps  = 8
	regionZip    = 64 << 20 // buffers of more bytes are sent as gzip
)

// RegionsOptions say what RunRegions measures. Captures and Loops are 10 and 42 when 0.
type RegionsOptions struct {
	Seed     uint64
	Captures int // a launch each
	Loops    int // of each warp: 3 slices in each, and one around all
	Rest     bool
	Dir      string // of the captures' gateway; the caller removes it
	// Progress is called with what is being done; it may be nil.
	Progress func(phase string, done, of int64)
}

// slices is how many a launch has.
func (o *RegionsOptions) slices() int64 { return regionBlocks * regionWarps * (3*int64(o.Loops) + 1) }

// ring is how many records a warp's ring holds.
func (o *RegionsOptions) ring() int {
	ring := 8
	for ring < 6*o.Loops+2 {
		ring *= 2
	}
	return ring
}

// Bytes is what the buffers of all captures take.
func (o RegionsOptions) Bytes() int64 {
	o.fill()
	return int64(o.Captures) * regionBlocks * regionWarps * int64(o.ring()) * intrakernel.RecordSize
}

func (o *RegionsOptions) fill() {
	o.Captures, o.Loops = cmp.Or(o.Captures, 10), cmp.Or(o.Loops, 42)
}

// RegionsResult is what RunRegions measured.
type RegionsResult struct {
	Workload Workload      `json:"workload"`
	Seed     uint64        `json:"seed"`
	Machine  Machine       `json:"machine"`
	Captures int           `json:"captures"`
	Slices   int64         `json:"slices"`
	Bytes    int64         `json:"bytes"`
	Posted   time.Duration `json:"posted_ns"`
	Visible  time.Duration `json:"visible_ns"`

	GatewayIdle int64 `json:"gateway_idle_bytes,omitempty"` // resident, of the captures' gateway alone
	GatewayLoad *Load `json:"gateway_load,omitempty"`
	Load        *Load `json:"load,omitempty"` // of all other roles, and the engine

	// Stats is how long region_stats of one capture takes, Trends region_trends of all; medians of three.
	Stats  time.Duration `json:"region_stats_ns"`
	Trends time.Duration `json:"region_trends_ns"`

	SliceBytes int64       `json:"slice_bytes"` // of regions_data at rest
	Tables     []TableSize `json:"tables,omitempty"`
	Wrong      []string    `json:"wrong,omitempty"`
}

// RunRegions makes captures, sends them to a gateway beside svc, which is the bench's own, and measures.
func RunRegions(ctx context.Context, svc *Service, o RegionsOptions) (*RegionsResult, error) {
	if svc.cmd == nil {
		return nil, errors.New("captures are measured on a service of the bench's own")
	}
	o.fill()
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	r := &RegionsResult{Workload: Regions, Seed: o.Seed, Machine: thisMachine(), Captures: o.Captures,
		Slices: int64(o.Captures) * o.slices()}
	forms, total := make([]regionForm, o.Captures), int64(0)
	for i := range forms {
		var ns int64
		forms[i], ns = o.makeCapture(i)
		total += ns
		r.Bytes += int64(len(forms[i].body))
		o.Progress("generate", int64(i+1), int64(o.Captures))
	}
	o.Progress("start a gateway of the captures' own", 0, 0)
	door, err := svc.StartGateway(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer door.Stop()
	if err := pause(ctx, idleFor); err != nil {
		return nil, err
	}
	if u, err := processUsage(door.PID); err == nil {
		r.GatewayIdle = u.ownBytes
	}
	o.Progress("send", 0, 0)
	stop, stopDoor := measure(ctx, svc.PID), measure(ctx, door.PID)
	began := time.Now()
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for i := range forms {
		g.Go(func() error { return forms[i].post(inner, door) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r.Posted = time.Since(began)
	list := []want{{"regions", "SELECT count() FROM regions_data", []int64{r.Slices}},
		{"region_captures", "SELECT count() FROM region_captures_data", []int64{int64(o.Captures)}}}
	if err := wait(ctx, svc, list, map[string]int64{}, func(int64) {}); err != nil {
		return nil, err
	}
	r.Visible = time.Since(began)
	r.Load, r.GatewayLoad = stop(), stopDoor()
	for _, q := range []struct {
		want
		took *time.Duration
	}{
		{want{"region_stats", "SELECT sum(count), toInt64(round(sum(mean_dur * count))) FROM region_stats WHERE session_id = 'ikp:bench-0'",
			[]int64{o.slices(), forms[0].ns}}, &r.Stats},
		{want{"region_trends", "SELECT sum(count), sum(total_ns) FROM region_trends", []int64{r.Slices, total}}, &r.Trends},
	} {
		took := make([]time.Duration, 3) // the first one reads from the disk
		for i := range took {
			asked := time.Now()
			got, equal, err := q.ask(ctx, svc.Read)
			if err != nil {
				return nil, err
			}
			if took[i] = time.Since(asked); !equal {
				r.Wrong = append(r.Wrong, fmt.Sprintf("%s: SQL answers %v, sent %v", q.name, got, q.numbers))
			}
		}
		slices.Sort(took)
		*q.took = took[1]
	}
	if o.Rest && svc.Write != nil {
		o.Progress("merge everything", 0, 0)
		rest, err := measureRest(ctx, *svc.Write, nil, false)
		if err != nil {
			return nil, err
		}
		r.Tables = rest.Tables
		for _, t := range rest.Tables {
			if t.Name == "regions_data" {
				r.SliceBytes = t.Bytes
			}
		}
	}
	return r, nil
}

// regionForm is a capture as it is sent.
type regionForm struct {
	session, contentType string
	body                 []byte
	ns                   int64 // of all its slices
}

// makeCapture makes the buffers of a launch: ticks are 32 ns apart, as the device's are.
func (o *RegionsOptions) makeCapture(number int) (f regionForm, ns int64) {
	rng := rand.New(rand.NewPCG(o.Seed, uint64(number)))
	size := o.ring()
	events := make([]byte, regionBlocks*regionWarps*size*intrakernel.RecordSize)
	counters := make([]byte, 0, regionBlocks*regionWarps*4)
	for slot := range regionBlocks * regionWarps {
		block, warp := slot/regionWarps, slot%regionWarps
		at, first, n := 1_700_000_000_000_000_000+uint64(rng.IntN(1<<12))*32, uint64(0), 0
		ring := events[slot*size*intrakernel.RecordSize:][:0]
		add := func(region uint16, kind intrakernel.Type, step uint64) {
			ring = intrakernel.AppendRecord(ring, intrakernel.Record{TS: at, Region: region, Type: kind, Block: uint16(block),
				Place: uint16(warp) | uint16(block%132)<<6})
			at += step
			n++
		}
		first = at
		add(1, intrakernel.Begin, 32)
		for range o.Loops {
			for region := uint16(2); region <= 4; region++ {
				took := uint64(6+rng.IntN(24)) * 32
				add(region, intrakernel.Begin, took)
				add(region, intrakernel.End, 32)
				ns += int64(took)
			}
		}
		ns += int64(at - first)
		add(1, intrakernel.End, 0)
		counters = binary.LittleEndian.AppendUint32(counters, uint32(n))
	}
	input, _ := json.Marshal(map[string]any{"kernel": "gemm", "region_names": []string{"outside", "total", "load_A", "load_B", "compute"},
		"session":    map[string]int{"per_warp_cap": size, "grid_x": regionBlocks, "threads_per_block": 32 * regionWarps},
		"started_at": 1_795_176_000_000_000_000 + int64(number)*1e9})
	if len(events) > regionZip {
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
		z.Write(events)
		z.Close()
		events = packed.Bytes()
	}
	var b bytes.Buffer
	b.Grow(len(events) + len(counters) + 4096)
	w := multipart.NewWriter(&b)
	for _, field := range []struct {
		name string
		data []byte
	}{{"input", input}, {"events", events}, {"counters", counters}} {
		part, _ := w.CreateFormFile(field.name, field.name)
		part.Write(field.data)
	}
	w.Close()
	return regionForm{fmt.Sprintf("bench-%d", number), w.FormDataContentType(), b.Bytes(), ns}, ns
}

func (f *regionForm) post(ctx context.Context, svc *Service) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, svc.URL+"/api/v1/intrakernel?session="+f.session, bytes.NewReader(f.body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+svc.Key)
	req.Header.Set("Content-Type", f.contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("send %s: %w", f.session, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", f.session, err)
	}
	return nil
}

// Figures are the rows of the table. Floors and goals are for two shared cores with everything on them.
func (r *RegionsResult) Figures() []Figure {
	f := []Figure{{"slices, sent until SQL counts them", float64(r.Slices) / r.Visible.Seconds(), "rows/s", 1e6, 2e6, false}}
	if r.Slices/int64(r.Captures) < 1e6 { // the floor is for launches like the sample
		f[0].Floor, f[0].Goal = 0, 0
	}
	if r.SliceBytes > 0 {
		f = append(f, Figure{"bytes at rest per slice (regions_data)", float64(r.SliceBytes) / float64(r.Slices), "B", 8, 6, true})
	}
	each := humanize.Comma(r.Slices / int64(r.Captures))
	f = append(f, Figure{fmt.Sprintf("region_stats of a capture of %s slices", each), r.Stats.Seconds(), "s", 5, 0, true})
	f = append(f, Figure{fmt.Sprintf("region_trends of %d captures", r.Captures), r.Trends.Seconds(), "s", 1, 0, true})
	if r.GatewayLoad != nil {
		over := float64(r.GatewayLoad.RolesPeakBytes - r.GatewayIdle)
		f = append(f, Figure{"memory of the captures' gateway, over idle", over, "B", 64 << 20, 0, true})
	}
	if r.Load != nil {
		f = append(f, Figure{"memory of all other roles, peak (engine included)", float64(r.Load.PeakBytes), "B", 0, 0, true})
	}
	return f
}

// Print writes the table of figures and what belongs to it.
func (r *RegionsResult) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "warpline bench: regions, seed %d, on %s/%s, %d cores\n", r.Seed, r.Machine.OS, r.Machine.Arch, r.Machine.Cores)
	fmt.Fprintf(&b, "sent      %s slices in %d captures: %s\n", humanize.Comma(r.Slices), r.Captures, size(float64(r.Bytes)))
	fmt.Fprintf(&b, "took      %s until acknowledged, %s until SQL counted all of it\n", seconds(r.Posted), seconds(r.Visible))
	if l := r.Load; l != nil {
		fmt.Fprintf(&b, "cpu       gateway %s, other roles %s, engine %s (%.2f cores of %d); bench itself not counted\n",
			seconds(r.GatewayLoad.RolesCPU), seconds(l.RolesCPU), seconds(l.EngineCPU),
			(r.GatewayLoad.RolesCPU+l.RolesCPU+l.EngineCPU).Seconds()/r.Visible.Seconds(), r.Machine.Cores)
		fmt.Fprintf(&b, "memory    %s\n", l.memory())
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tMEASURED\tFLOOR\tGOAL\tVERDICT")
	for _, f := range r.Figures() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.show(f.Value), f.show(f.Floor), f.show(f.Goal), f.Verdict())
	}
	t.Flush()
	for _, s := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
