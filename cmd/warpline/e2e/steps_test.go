package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

// A third source, which one line in the list adds: its route, its state, its table and view, and the kernels that it writes beside those of
// other sources. Workers are killed and hand over to each other, the gateway and the sink are killed, steps are sent again: each counts
// once.
func TestThirdSource(t *testing.T) {
	enginetest.Need(t)
	binary := filepath.Join(t.TempDir(), "warpline")
	if out, err := exec.Command("go", "build", "-tags", "steps", "-o", binary, "github.com/warpline/warpline/cmd/warpline").
		CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c := newClusterOf(t, binary, 2)
	post := func(run, body string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			req, err := http.NewRequest(http.MethodPost, "http://"+c.gatewayAddr+"/api/v1/steps?run="+run, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+devKey)
			answer := ""
			if res, err := http.DefaultClient.Do(req); err != nil {
				answer = err.Error()
			} else {
				text, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					return
				}
				answer = res.Status + " " + string(text)
			}
			if time.Now().After(deadline) {
				t.Fatal(answer)
			}
		}
	}
	const runs, steps, each = 3, 400, 20
	victims := []string{"worker0", "gateway", "worker1", "sink", "worker0", "nats"}
	var sum uint64
	for from := 1; from <= steps; from += each {
		for run := range runs {
			var body strings.Builder
			for step := max(1, from-each/2); step < from+each; step++ { // half of it was sent before
				fmt.Fprintf(&body, "%d step_kernel_%d %d\n", step, step%4, 100+step)
			}
			post(fmt.Sprint("r", run), body.String())
		}
		if n := from / each; n%3 == 2 {
			victim := victims[n/3%len(victims)]
			c.kill(victim)
			time.Sleep(200 * time.Millisecond)
			c.start(victim)
		}
	}
	for step := range uint64(steps) {
		sum += 100 + step + 1
	}
	eventually(t, 3*time.Minute, "every step is there once", func() (bool, string) {
		got, err := c.tryRows("SELECT session_id, steps, total_ns FROM warpline.steps ORDER BY session_id")
		if err != nil {
			return false, err.Error()
		}
		for run := range runs {
			if g := got[fmt.Sprint("steps:r", run)]; len(g) != 2 || g[0] != steps || g[1] != sum {
				return false, fmt.Sprintf("%v, want %d steps and %d ns", got, steps, sum)
			}
		}
		kernels, err := c.tryRows("SELECT kernel, sum(calls), sum(total_ns) FROM warpline.kernel_stats WHERE session_id LIKE 'steps:%' GROUP " +
			"BY kernel")
		if err != nil || len(kernels) != 4 {
			return false, fmt.Sprintf("kernel_stats %v: %v", kernels, err)
		}
		var calls, ns uint64
		for _, k := range kernels {
			calls, ns = calls+k[0], ns+k[1]
		}
		raw := c.one("SELECT count() FROM warpline.kernels WHERE session_id LIKE 'steps:%'")
		books := c.one("SELECT sum(events) - sum(duplicates) FROM warpline.usage WHERE source = 'steps'")
		return calls == runs*steps && ns == runs*sum && raw == runs*steps && books == runs*steps,
			fmt.Sprintf("%d calls, %d ns in kernel_stats, %d kernels, %d in the books", calls, ns, raw, books)
	})
}
