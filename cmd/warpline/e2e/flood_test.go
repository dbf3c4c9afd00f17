package e2e_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

var (
	flood = flag.Duration("flood", 15*time.Second, "how long TestFloods lets two keys of one tenant flood the service; an hour before "+
		"a release")
	floodNames = flag.Bool("flood-names", false, "whether one of the floods is of sessions full of names")
)

// floodKernels is one small honest window: n kernels of a session.
func floodKernels(session string, batch, n int) []byte {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("[%d,1,7,%d,%d,0,16,0]", i, 100+i, batch*n+i)
	}
	return fmt.Appendf(nil, `{"version":1,"type":"kernel_event_batch","session_id":%q,"batch_id":%d,"base_time_ns":1795175929972803352,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[%s]}`+"\n", session,
		batch, strings.Join(rows, ","))
}

// Two keys of one tenant do all of it at once: uploads without end, bodies that trickle, bodies of blank lines, giant lines, and with
// -flood-names sessions full of names. Another tenant's uploads are answered within 2 s (p99) and visible within 10 s, and `up` keeps its
// size.
func TestFloods(t *testing.T) {
	enginetest.Need(t)
	c := &cluster{t: t, dir: t.TempDir(), natsAddr: freeAddr(t), gatewayAddr: freeAddr(t), clickTCP: freeAddr(t), clickHTTP: freeAddr(t),
		roles: map[string]*role{}}
	t.Cleanup(c.stopAll)
	data := filepath.Join(c.dir, "data")
	tabletest.Furnish(t, filepath.Join(data, "clickhouse"))
	c.add("up", "up", "--data", data, "--listen", c.gatewayAddr, "--grpc-listen", "127.0.0.1:0",
		"--nats-listen", c.natsAddr, "--clickhouse-tcp-port", port(c.clickTCP),
		"--clickhouse-http-port", port(c.clickHTTP))
	c.start("up")
	c.waitReady("up", 3*time.Minute)
	key := func(tenant string) string {
		out, err := exec.Command(binary, "key", "create", tenant, "--data", data).CombinedOutput()
		if err != nil {
			t.Fatalf("key create: %v\n%s", err, out)
		}
		words := strings.Fields(string(out))
		return words[slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "gpfl_") })]
	}
	evil, good := []string{key("evil"), key("evil")}, key("good")
	ctx, cancel := context.WithTimeout(t.Context(), *flood)
	defer cancel()
	var wg sync.WaitGroup
	var asked [5]atomic.Int64
	post := func(ctx context.Context, client *http.Client, key string, body []byte, gz bool) int {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+c.gatewayAddr+"/api/v1/events/stream", bytes.NewReader(body))
		if err != nil {
			return 0
		}
		req.Header.Set("Authorization", "Bearer "+key)
		if gz {
			req.Header.Set("Content-Encoding", "gzip")
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	forEver := func(flood, senders int, once func(client *http.Client, key string, n int64) int) {
		for i := range senders {
			wg.Go(func() {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for ctx.Err() == nil {
					if once(client, evil[i%2], asked[flood].Add(1)) != http.StatusOK {
						select { // an attacker who is refused at once asks at once, but this is one machine
						case <-ctx.Done():
						case <-time.After(20 * time.Millisecond):
						}
					}
				}
			})
		}
	}
	blank := zip(bytes.Repeat([]byte{'\n'}, 190<<20))
	giant := zip(fmt.Appendf(nil, `{"type":"cubin_disassembly","session_id":"giant","x":"%s"`+"\n", strings.Repeat("a", 30<<20)))
	forEver(0, 8, func(client *http.Client, key string, n int64) int {
		return post(ctx, client, key, fmt.Appendf(nil, `{"type":"memset_event","session_id":"e","start_ns":%d,"end_ns":9}`+"\n", n), false)
	})
	forEver(1, 2, func(client *http.Client, key string, _ int64) int { return post(ctx, client, key, blank, true) })
	forEver(2, 2, func(client *http.Client, key string, n int64) int {
		return post(ctx, client, key, append(slices.Clip(giant), zip(fmt.Appendf(nil, "%d\n", n))...), true)
	})
	if *floodNames {
		forEver(3, 2, func(client *http.Client, key string, n int64) int {
			var b bytes.Buffer
			fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"n%d","kernel_dict":{`, n)
			for i := range 20_000 {
				fmt.Fprintf(&b, `"%d":"name_%d_%d",`, i+1, n, i)
			}
			b.WriteString(`"0":"x"}}` + "\n")
			return post(ctx, client, key, zip(b.Bytes()), true)
		})
	}
	for i := range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				conn, err := net.Dial("tcp", c.gatewayAddr)
				if err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				asked[4].Add(1)
				fmt.Fprintf(conn, "POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-GpuFlight-Session-Id: "+
					"t\r\nContent-Length: %d\r\n\r\n", evil[i%2], 1<<20)
				for ctx.Err() == nil {
					conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
					if n, err := conn.Read(make([]byte, 4096)); n > 0 || err != nil && !os.IsTimeout(err) {
						break
					}
					conn.Write([]byte("x"))
				}
				conn.Close()
			}
		})
	}

	var took, seen []time.Duration
	largest, sent := int64(0), uint64(0)
	const each = 100
	client := &http.Client{Timeout: 60 * time.Second}
	time.Sleep(time.Second)
	for n := 0; n == 0 || ctx.Err() == nil; n++ {
		began := time.Now()
		status := post(t.Context(), client, good, floodKernels("g", n, each), false)
		took = append(took, time.Since(began))
		if status != http.StatusOK {
			t.Errorf("upload %d of the honest tenant: status %d after %v", n, status, time.Since(began))
			continue
		}
		sent += each
		if n%10 == 0 {
			for c.one("SELECT count() FROM kernels WHERE tenant = 'good'") < sent && time.Since(began) < time.Minute {
				time.Sleep(50 * time.Millisecond)
			}
			seen = append(seen, time.Since(began))
			largest = max(largest, processes(t, c.roles["up"].cmd.Process.Pid))
		}
		time.Sleep(100 * time.Millisecond)
	}
	wg.Wait()
	if len(took) == 0 || len(seen) == 0 {
		t.Fatal("the honest tenant sent nothing")
	}
	slices.Sort(took)
	slices.Sort(seen)
	p99, visible := took[len(took)*99/100], seen[len(seen)-1]
	t.Logf("%v of floods: %d uploads, %d of blank lines, %d giant lines, %d of names, %d that trickled; the honest tenant's %d uploads were "+
		"answered in %v (p50), %v (p99), visible in %v at most; memory %.0f MiB, disk %.0f MiB",
		*flood, asked[0].Load(), asked[1].Load(), asked[2].Load(), asked[3].Load(), asked[4].Load(), len(took), took[len(took)/2], p99,
		visible, mebi(largest), mebi(sizeOf(t, data)))
	answered, shown := 2*time.Second, 10*time.Second
	if *flood < time.Minute { // the machine of a short run may have much else to do
		answered, shown = time.Minute, time.Minute
	}
	if p99 > answered || visible > shown || largest > 2e9 {
		t.Errorf("p99 %v (%v), visible after %v (%v), memory %.0f MiB (2 GB)", p99, answered, visible, shown, mebi(largest))
	}
	eventually(t, 3*time.Minute, "the honest tenant's kernels", func() (bool, string) {
		have := c.one("SELECT count() FROM kernels WHERE tenant = 'good'")
		return have >= sent, fmt.Sprintf("%d of %d", have, sent)
	})
}

// processes is the memory that a process and its children hold.
func processes(t *testing.T, pid int) (total int64) {
	total = memoryOf(t, pid, "VmRSS:")
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				total += memoryOf(t, child, "VmRSS:")
			}
		}
	}
	return total
}

func sizeOf(t *testing.T, dir string) (total int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}
