package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// What the fleet runs: jobs of some nodes, each with some of the cubins, of whose kernels and instructions few are hot. An instruction
// waits for reasons of its own.
const (
	pcCubins    = 24
	pcJobNodes  = 8   // nodes of a job
	pcJobCubins = 3   // cubins of a job
	pcKernels   = 8   // of a cubin
	pcOffsets   = 256 // instructions of a kernel that are ever seen
	pcLaunches  = 40  // launch stacks of a process
	pcPIDs      = 2   // of a node
	pcPeriod    = 597479
	launchDepth = 12
)

var pcReasons = []string{"long_scoreboard", "selected", "not_selected", "wait", "short_scoreboard", "barrier", "math_pipe_throttle",
	"mio_throttle", "lg_throttle", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "membar", "misc", "no_instructions", "sleeping",
	"tex_throttle", "warpgroup_arrive"}

var pcOpcodes = []string{"LDG", "FFMA", "IMAD", "HMMA", "LDS", "STG", "BAR", "MUFU", "ISETP", "BRA", "STS",
	"LDGSTS", "IADD3", "SHF", "LOP3", "FADD"}

// pcMaker makes rows. It is not safe for concurrent use; each goroutine has its own.
type pcMaker struct {
	r        *rand.Rand
	kernel   *rand.Zipf
	offset   *rand.Zipf
	reason   *rand.Zipf
	launches [][]parca.WireFrame
	labels   map[pcLabels]map[string]string
	stacks   map[[3]int][]parca.WireFrame
}

type pcLabels struct {
	node, pid, reason, sass int
	notIssued               bool
}

func newPCMaker(seed, stream uint64) *pcMaker {
	r := rand.New(rand.NewPCG(seed, stream))
	m := &pcMaker{r: r, kernel: rand.NewZipf(r, 1.2, 2, pcJobCubins*pcKernels-1), offset: rand.NewZipf(r, 1.1, 8, pcOffsets-1),
		reason: rand.NewZipf(r, 1.6, 1, uint64(len(pcReasons)-1)), labels: map[pcLabels]map[string]string{},
		stacks: map[[3]int][]parca.WireFrame{}}
	for l := range pcLaunches {
		frames := []parca.WireFrame{
			{Address: 3099664, FrameType: "native", MappingFile: "libcuda.so.580.65.06", MappingBuildID: "aa11bb22cc33dd44ee55ff6677889900aabbccdd"},
			{Address: 434464, FrameType: "native", MappingFile: "libcudart.so.13.0.96", MappingBuildID: "0011223344556677889900112233445566778899"}}
		for depth := range launchDepth {
			frames = append(frames, parca.WireFrame{Address: uint64(10*depth + l), FrameType: "cpython", Line: uint64(10*depth + l),
				SystemName: fmt.Sprintf("forward_%d", (l>>min(depth, 5))+depth), HasLines: true,
				Filename: fmt.Sprintf("/app/model/layer_%d.py", depth)})
		}
		m.launches = append(m.launches, frames)
	}
	return m
}

// batch makes the rows of one flush of a node's agent.
func (m *pcMaker) batch(node, n int, at int64, d *pcData) []parca.WireRow {
	rows := make([]parca.WireRow, n)
	var samples, stalls int64
	for i := range rows {
		kernel, offset := int(m.kernel.Uint64()), int(m.offset.Uint64())
		kernel = (node/pcJobNodes*pcJobCubins+kernel%pcJobCubins)%pcCubins + pcCubins*(kernel/pcJobCubins)
		reason := (kernel*5 + offset*7 + int(m.reason.Uint64())) % len(pcReasons)
		launch := (kernel*7 + m.r.IntN(4)) % pcLaunches
		notIssued := m.r.IntN(3) == 0
		value := int64(1 + m.r.IntN(1+m.r.IntN(40)))
		rows[i] = parca.WireRow{TimestampUnixNS: at + int64(i)*1_000_000, Labels: m.labelsOf(pcLabels{node, i * pcPIDs / n, reason,
			(kernel*31 + offset) % len(pcOpcodes), notIssued}), Producer: "parca_agent", SampleType: "gpu_pcsample", SampleUnit: "count",
			PeriodType: "gpu_pcsample", PeriodUnit: "nanoseconds", Temporality: "delta", Period: pcPeriod, Duration: 1e9, Value: value,
			Stacktrace: m.stack(kernel, offset, launch)}
		samples += value
		if !notIssued {
			stalls += value
		}
	}
	d.samples += samples
	d.gpuNS += samples * pcPeriod
	d.stalls += stalls
	d.pairs += int64(n)
	return rows
}

func (m *pcMaker) labelsOf(k pcLabels) map[string]string {
	l, ok := m.labels[k]
	if !ok {
		if len(m.labels) > 100_000 {
			clear(m.labels)
		}
		reason := "smsp__pcsamp_warps_issue_stalled_" + pcReasons[k.reason]
		if k.notIssued {
			reason += "_not_issued"
		}
		l = map[string]string{"node": pcNode(k.node), "pid": pcPID(k.pid), "comm": "python3", "thread_id": pcPID(k.pid), "thread_name": "python3",
			"cpu": strconv.Itoa(k.node % 96), "cuda_stall_reason": reason, "cuda_sass_instruction": pcOpcodes[k.sass]}
		m.labels[k] = l
	}
	return l
}

func pcNode(i int) string { return fmt.Sprintf("gpu-node-%04d", i) }

func pcPID(i int) string { return strconv.Itoa(4200 + i) }

// pcSessions are the session ids of a node.
func pcSessions(node int) (ids []string) {
	for pid := range pcPIDs {
		ids = append(ids, "parca:"+pcNode(node)+":"+pcPID(pid)+":python3")
	}
	return ids
}

func (m *pcMaker) stack(kernel, offset, launch int) []parca.WireFrame {
	k := [3]int{kernel, offset, launch}
	s, ok := m.stacks[k]
	if !ok {
		if len(m.stacks) > 100_000 {
			clear(m.stacks)
		}
		cubin := kernel % pcCubins
		leaf := parca.WireFrame{Address: uint64(16 * offset), FrameType: "cuda-pc", MappingFile: fmt.Sprintf("cubin-%016x", 0xbe9c0000+cubin),
			MappingBuildID: fmt.Sprintf("%032x", 0xbe9c0000+cubin), HasLines: true,
			SystemName: fmt.Sprintf("_ZN6kernel%02d9tile_gemmI6__halfLi%dELi128EEEvPKT_S3_PS1_iii", kernel/pcCubins, kernel)}
		s = append([]parca.WireFrame{leaf}, m.launches[launch]...)
		m.stacks[k] = s
	}
	return s
}

// generatePC writes batches to one file, several goroutines side by side; equal seeds make equal batches.
func generatePC(ctx context.Context, seed uint64, nodes, batches, rows int, dir string, progress func(done, of int64)) (*pcData, error) {
	f, err := newPCFile(dir)
	if err != nil {
		return nil, err
	}
	all := &pcData{file: f, batches: make([]pcBatch, batches), nodes: make([][]int, nodes)}
	for i := range batches {
		all.nodes[i%nodes] = append(all.nodes[i%nodes], i)
	}
	var mu sync.Mutex
	var done, end int64
	g, ctx := errgroup.WithContext(ctx)
	const makers = 2
	for maker := range makers {
		g.Go(func() error {
			m, d := newPCMaker(seed, uint64(maker)), &pcData{}
			for i := maker; i < batches; i += makers {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				at := defaultStart.UnixNano() + int64(i/nodes)*agentEvery.Nanoseconds()
				b := parcatest.Arrow(m.batch(i%nodes, rows, at, d))
				mu.Lock()
				all.batches[i] = pcBatch{end, len(b), int64(rows)}
				end += int64(len(b))
				done++
				n := done
				mu.Unlock()
				if _, err := f.WriteAt(b, all.batches[i].at); err != nil {
					return fmt.Errorf("batches: %w", err)
				}
				if n%64 == 0 {
					progress(n*int64(rows), int64(batches)*int64(rows))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.pairs, all.samples, all.gpuNS, all.stalls = all.pairs+d.pairs, all.samples+d.samples, all.gpuNS+d.gpuNS, all.stalls+d.stalls
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		all.close()
		return nil, err
	}
	all.bytes = end
	return all, nil
}
