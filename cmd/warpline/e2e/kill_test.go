package e2e_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	kills       = flag.Int("kills", 14, "how many times TestKill9 kills a role")
	engineKills = flag.Int("engine-kills", 4, "how many of them hit the ClickHouse engine")
	seed        = flag.Uint64("seed", 1, "seed of TestKill9's choices")
	loadPause   = flag.Duration("load-pause", 200*time.Millisecond, "at most so long a sender of a load waits between two uploads; there are "+
		"15 of them")
)

// loadWindow makes the n-th window of a session's channel and tells the oracle.
func loadWindow(session, channel string, n int, o *oracle, mu *sync.Mutex) *window {
	const base = 1795175929972803352
	var b bytes.Buffer
	if n == 0 {
		fmt.Fprintf(&b, `{"version":1,"type":"job_start","pid":7,"app":"load","session_id":"%s","ts_ns":%d,"hostname":"h",`+
			`"ip_addr":"192.0.2.1","devices":[{"id":0,"name":"G","uuid":"GPU-0","vendor":"NVIDIA","total_mib":80000}],"gpu_static_devices":[]}`+"\n",
			session, base)
	}
	fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"%s","kernel_dict":{"%d":"kernel_%d"},`+
		`"scope_name_dict":{"1":"step"},"metric_dict":{"1":"smsp__pcsamp_warps_issue_stalled_wait"},"function_dict":{"1":"f@/a.cu"}}`+"\n",
		session, n%7+1, n%7+1)
	at := int64(base + n*3_000_000_000)
	switch channel {
	case "device":
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details","external_kind","external_id"],"rows":[`,
			session, n+1, at)
		for i := range 200 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,%d,7,%d,%d,0,32,%d,0,0]", i*1000, n%7+1, 1000+i*37+n, n*200+i+1, i%2)
		}
		b.WriteString("]}\n")
		for i := 1; i < 200; i += 2 {
			fmt.Fprintf(&b, `{"version":1,"type":"kernel_detail","session_id":"%s","pid":7,"app":"load","corr_id":%d,"grid":"(%d,1,1)",`+
				`"block":"(128,1,1)","static_shared":0,"local_bytes":0,"const_bytes":0,"occupancy":0.5,"reg_occupancy":0.5,"smem_occupancy":0.5,`+
				`"warp_occupancy":0.5,"block_occupancy":0.5,"limiting_resource":"warps","max_active_blocks":1,"local_mem_total_bytes":0,`+
				`"local_mem_per_thread_bytes":0,"cache_config_requested":0,"cache_config_executed":0,"shared_mem_executed_bytes":0,`+
				`"user_scope":"train|s%d","stack_trace":""}`+"\n", session, n*200+i+1, 1+i%5, i%3)
		}
		fmt.Fprintf(&b, `{"version":1,"type":"memcpy_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"stream_id","duration_ns","bytes","copy_kind","corr_id"],"rows":[[0,7,%d,4096,1,1],[5,7,%d,8192,2,2]]}`+"\n", session, n+1, at,
			100+n, 200+n)
		fmt.Fprintf(&b, `{"type":"memset_event","pid":7,"app":"load","session_id":"%s","name":"memset","platform":"cuda","device_id":"0",`+
			`"stream_id":"7","stack_trace":"","user_scope":"train","scope_depth":0,"start_ns":%d,"end_ns":%d,"api_start_ns":0,"api_exit_ns":0,`+
			`"corr_id":%d,"bytes":%d}`+"\n", session, at, at+50, n, 64+n)
		fmt.Fprintf(&b, `{"type":"nvtx_marker_event","pid":7,"app":"load","session_id":"%s","name":"range %d","domain":"","start_ns":%d,`+
			`"end_ns":%d,"duration_ns":70,"marker_id":%d}`+"\n", session, n%3, at, at+70, n)
		fmt.Fprintf(&b, `{"version":1,"type":"synchronization_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,`+
			`"columns":["dt_ns","duration_ns","sync_type","stream_id","event_id","context_id","corr_id","function_id"],"rows":[[0,%d,3,7,0,1,%d,`+
			`0],[9,500,4,0,0,1,1,0]]}`+"\n", session, n+1, at, 1000+n, n)
	case "scope":
		fmt.Fprintf(&b, `{"version":3,"type":"scope_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"],"rows":[[0,%d,1,0,0,0,0,0],[%d,%d,1,1,0,0,`+
			`0,0]]}`+"\n", session, n+1, at, n+1, 1000+n, n+1)
		fmt.Fprintf(&b, `{"version":1,"type":"profile_sample_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind","scope_name_id"],"rows":[[0,`+
			`0,0,1,16,1,%d,0,0,1],[0,0,0,1,32,1,%d,0,0,1]]}`+"\n", session, n+1, at, n+1, n+2)
	case "system":
		fmt.Fprintf(&b, `{"version":1,"type":"host_metric_batch","session_id":"%s","hostname":"h","ip_addr":"","batch_id":%d,"base_time_ns":%d,`+
			`"columns":["dt_ns","cpu_pct_x100","ram_used_mib","ram_total_mib"],"rows":[[0,100,%d,24000],[1000000000,200,%d,24000]]}`+"\n",
			session, n+1, at, 100+n, 101+n)
		fmt.Fprintf(&b, `{"version":1,"type":"device_metric_batch","session_id":"%s","batch_id":1,"base_time_ns":%d,"columns":["dt_ns",`+
			`"device_id","gpu_util","mem_util","temp_c","power_mw","used_mib","total_mib","clock_sm"],"rows":[[0,0,50,30,70,150000,%d,8192,`+
			`1900]]}`+"\n", session, at, 1000+n)
	}
	mu.Lock()
	o.read(b.Bytes())
	mu.Unlock()
	return &window{session: session, channel: channel, id: fmt.Sprintf("%s-%s-%d", session[:8], channel, n), sequence: n + 1,
		gz: zip(b.Bytes())}
}

// Kill -9 of every role at random moments while a load runs: afterwards SQL has every event once, in raw rows and rollups.
// The long form: go test ./cmd/warpline/e2e -run Kill9 -kills 200 -engine-kills 60 -timeout 40m
func TestKill9(t *testing.T) {
	c := newClusterOf(t, "", 2) // without the schema: who makes it may be killed

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Duration(*kills)*10*time.Second) // the load must outlast the kills
	defer cancel()
	l := startLoad(ctx, t, c, *loadPause)
	agents := startParcaLoad(ctx, t, c, "agents")
	files := startFileLoad(t, c, "files")
	r := rand.New(rand.NewPCG(*seed, 99))
	victims := []string{"gateway", "worker0", "worker1", "sink", "nats"}
	order := make([]string, 0, *kills)
	for i := range *kills {
		if i < *engineKills {
			order = append(order, "engine")
		} else {
			order = append(order, victims[i%len(victims)])
		}
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	began := time.Now()
	for i, victim := range order {
		time.Sleep(time.Duration(100+r.IntN(900)) * time.Millisecond)
		c.kill(victim)
		if r.IntN(3) == 0 { // sometimes it stays away for a while
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
		c.start(victim)
		if victim == "engine" {
			c.waitReady(victim, 3*time.Minute) // its port has to be there for the next kill to hit something
		}
		if testing.Verbose() && i%10 == 9 {
			t.Logf("%d kills in %v, %d windows acknowledged", i+1, time.Since(began).Round(time.Second), l.posted.Load())
		}
	}
	for name := range c.roles {
		c.waitReady(name, 3*time.Minute)
	}
	time.Sleep(500 * time.Millisecond)
	agents.stop()
	files.stop()
	want := l.stop()
	t.Logf("%d kills (%d of the engine) in %v, %d windows acknowledged", len(order), *engineKills, time.Since(began).Round(time.Second),
		l.posted.Load())
	check(t, c, "dev", want, 3*time.Minute)
	checkGroups(t, c, "dev", l.oracle.groups)
	agents.check(t, c)
	agents.checkRejects(t, c)
	files.check(t, c)
	for name := range c.roles { // and nobody says that something was
		for line := range strings.Lines(c.whole(name)) {
			if strings.Contains(line, "NATS has lost data") {
				t.Errorf("%s says %s", name, line)
			}
		}
	}
}

// load posts windows of four sessions, three channels each, as agents do, with pauses of at most so long, until stop; some windows are
// sent again though they were acknowledged.
type load struct {
	posted  atomic.Int64
	stopped atomic.Bool
	wg      sync.WaitGroup
	mu      sync.Mutex
	oracle  *oracle
}

func startLoad(ctx context.Context, t *testing.T, c *cluster, pause time.Duration) *load {
	l := &load{oracle: newOracle(t)}
	for s := range 4 {
		session := fmt.Sprintf("%08d-0000-4000-8000-000000000000", s)
		for _, channel := range []string{"device", "scope", "system"} {
			l.wg.Go(func() {
				r := rand.New(rand.NewPCG(*seed, uint64(s*10+len(channel))))
				for n := 0; !l.stopped.Load() || n < 5; n++ {
					w := loadWindow(session, channel, n, l.oracle, &l.mu)
					for range 1 + r.IntN(2) {
						if err := w.deliver(ctx, c.gatewayAddr, devKey, true); err != nil {
							t.Error(err)
							return
						}
					}
					l.posted.Add(1)
					time.Sleep(time.Duration(r.Int64N(int64(pause))))
				}
			})
		}
	}
	return l
}

// stop waits until every window that was begun is acknowledged and returns what SQL must say.
func (l *load) stop() map[string]uint64 {
	l.stopped.Store(true)
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oracle.finish()
}
