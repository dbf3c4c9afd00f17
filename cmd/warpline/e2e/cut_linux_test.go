package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

var (
	cuts    = flag.Int("cuts", 1, "how many power cuts TestPowerCut makes in each mode")
	cutSeed = flag.Uint64("cut-seed", uint64(time.Now().UnixNano()), "seed of TestPowerCut's moments")
)

// mayLose is the oldest that an upload may be which a power cut takes in mode "os".
const mayLose = 2 * time.Minute

// The power is cut at random moments under load of GPU Flight and of Parca agents, on an ext4 volume that is cut off from its device at
// that instant, and the service is started on what the journal replay finds. With --durability fsync everything accepted is there once;
// with os the newest may be lost, the service starts each time, nothing is doubled, and what is sent later, resends of what was lost
// included, is there once.
// The long form: go test ./cmd/warpline/e2e -run PowerCut -cuts 20 -timeout 90m
func TestPowerCut(t *testing.T) {
	for _, mode := range []string{"fsync", "os"} {
		t.Run(mode, func(t *testing.T) {
			t.Logf("-cut-seed %d", *cutSeed)
			r := rand.New(rand.NewPCG(*cutSeed, 3))
			b := &cutService{t: t, disk: newDisk(t, 4<<30), mode: mode}
			b.start()
			l := &cutLoad{t: t, addr: b.listen}
			agents := &cutParca{t: t, addr: b.grpc, toy: parcaFile(t, "toy.sm_75.cubin")}
			some := false // something was lost, ever
			for n := range *cuts {
				most := 8 * time.Second
				if *cuts > 1 {
					most = 40 * time.Second
				}
				stop, stopAgents := l.run(), agents.run()
				time.Sleep(4*time.Second + time.Duration(r.Int64N(int64(most-4*time.Second))))
				b.disk.cut()
				at := time.Now()
				b.kill()
				stop()
				stopAgents()
				b.disk.replay()
				began, accepted := time.Now(), l.count()
				b.start()
				started := time.Since(began)
				l.canaries()
				lost := b.compare(l, fmt.Sprintf("cut %d", n+1))
				var oldest time.Duration
				for _, u := range lost {
					oldest = max(oldest, at.Sub(u.accepted))
				}
				lostAt, lostAgents := agents.compare(b, fmt.Sprintf("cut %d", n+1), 10*time.Second) // behind the uploads' canaries
				if lostAgents > 0 {
					oldest = max(oldest, at.Sub(lostAt))
				}
				t.Logf("cut %d: %d accepted so far, %d lost, and %d of %d batches and %d cubins of agents, the oldest %v before the cut; ready "+
					"again after %v", n+1, accepted, len(lost), lostAgents, len(agents.batches), len(agents.cubins), oldest.Round(time.Millisecond),
					started.Round(time.Millisecond))
				if mode == "fsync" && len(lost) > 0 {
					t.Errorf("cut %d: %d of %d accepted uploads are lost, the first is %s", n+1, len(lost), accepted, lost[0])
				}
				if mode == "fsync" && lostAgents > 0 {
					t.Errorf("cut %d: %d accepted batches and cubins of agents are lost", n+1, lostAgents)
				}
				if oldest > mayLose {
					t.Errorf("cut %d: an upload accepted %v before the cut is lost", n+1, oldest)
				}
				l.again() // what was lost, what was not answered, and new ones
				if late := b.compare(l, fmt.Sprintf("after cut %d", n+1)); len(late) > 0 {
					t.Errorf("after cut %d: %d uploads that were sent after the start are not there, the first is %s", n+1, len(late), late[0])
				}
				agents.again(b)
				if _, late := agents.compare(b, fmt.Sprintf("after cut %d", n+1), time.Minute); late > 0 {
					t.Errorf("after cut %d: %d batches and cubins that were sent after the start are not there", n+1, late)
				}
				agents.books(b)
				some = some || len(lost)+lostAgents > 0
				b.audit(some)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The power is cut while the very first start is under way, when every file is new: the next start finds its way, and takes data.
func TestPowerCutAtFirstStart(t *testing.T) {
	t.Logf("-cut-seed %d", *cutSeed)
	r := rand.New(rand.NewPCG(*cutSeed, 4))
	for n := range *cuts {
		b := &cutService{t: t, disk: newDisk(t, 2<<30), mode: []string{"os", "fsync"}[n%2]}
		after := time.Duration(r.Int64N(int64(2500 * time.Millisecond)))
		b.launch()
		time.Sleep(after)
		b.disk.cut()
		b.kill()
		b.disk.replay()
		b.start()
		l := &cutLoad{t: t, addr: b.listen}
		stop := l.run()
		time.Sleep(300 * time.Millisecond)
		stop()
		l.again()
		if lost := b.compare(l, fmt.Sprintf("cut %v after the start", after)); len(lost) > 0 {
			t.Errorf("cut %v after the first start: %d uploads that were sent later are not there", after, len(lost))
		}
		b.audit(false)
		b.kill()
		b.disk.unmount()
	}
}

// cutService is a `warpline up` on a volume whose power is cut.
type cutService struct {
	t            *testing.T
	disk         *disk
	mode         string
	listen, http string
	tcp, grpc    string
	more         []string // further flags
	cmd          *exec.Cmd
	words        *bytes.Buffer
	done         chan struct{}
}

func (b *cutService) data() string { return filepath.Join(b.disk.at, "data") }

// launch starts `up`.
func (b *cutService) launch() {
	b.t.Helper()
	enginetest.Need(b.t)
	if b.listen == "" {
		b.listen, b.http, b.tcp, b.grpc = freeAddr(b.t), freeAddr(b.t), freeAddr(b.t), freeAddr(b.t)
	}
	b.words, b.done = &bytes.Buffer{}, make(chan struct{})
	b.cmd = exec.Command(binary, append([]string{"up", "--data", b.data(), "--listen", b.listen, "--grpc-listen", b.grpc,
		"--clickhouse-http-port", port(b.http),
		"--clickhouse-tcp-port", port(b.tcp),
		"--durability", b.mode, "--sink-interval", "50ms", "--dev-key", devKey, "--limit-events-per-second", "1e9", "--limit-bytes-per-second",
		"1GB"}, b.more...)...)
	b.cmd.Stdout, b.cmd.Stderr = b.words, b.words
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	cmd, done := b.cmd, b.done
	go func() { cmd.Wait(); close(done) }()
	b.t.Cleanup(func() { cmd.Process.Kill(); <-done })
}

// start starts `up` and waits until it is ready.
func (b *cutService) start() {
	b.t.Helper()
	b.launch()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + b.listen + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-b.done:
			b.t.Fatalf("up does not start:\n%s%s", b.words, b.engineLog())
		default:
		}
		if time.Now().After(deadline) {
			b.kill()
			b.t.Fatalf("up is not ready after 5 min:\n%s%s", b.words, b.engineLog())
		}
	}
}

func (b *cutService) engineLog() string {
	text, _ := os.ReadFile(filepath.Join(b.data(), "clickhouse", "logs", "engine.log"))
	return string(text[max(0, len(text)-3000):])
}

// kill ends `up` and its engine, as they end with their machine.
func (b *cutService) kill() {
	pids := []int{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.cmd.Process.Pid))
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		for f := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	b.cmd.Process.Kill()
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-b.done
}

// tsv asks in SQL, as whoever may read.
func (b *cutService) tsv(sql string) ([][]string, error) {
	req, err := http.NewRequest("POST", "http://"+b.http+"/", strings.NewReader(sql+" FORMAT TSV"))
	if err != nil {
		return nil, err
	}
	if secret, err := os.ReadFile(filepath.Join(b.data(), "reader-password")); err == nil {
		req.SetBasicAuth("reader", strings.TrimSpace(string(secret)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %.500s %w", sql, resp.StatusCode, text, err)
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return out, nil
}

// audit demands that the books balance once the service is quiet. Where uploads were lost the audit may say so; in mode "os" also that NATS
// lost the ends of streams, which it does whether or not somebody misses what was there; and nothing else.
func (b *cutService) audit(lost bool) {
	b.t.Helper()
	var out []byte
	var err error
	for range 120 {
		if out, err = exec.Command(binary, "audit", "--data", b.data()).CombinedOutput(); err == nil {
			return
		}
		if _, problems, ok := strings.Cut(string(out), "the books do not balance"); ok {
			_, problems, _ = strings.Cut(strings.TrimSpace(problems), "\n")
			others := slices.DeleteFunc(strings.Split(problems, "\n"), func(line string) bool {
				if strings.Contains(line, "replay window: ") { // the disk is small
					return true
				}
				return (lost || b.mode == "os") && strings.Contains(line, "INGEST lost ") || b.mode == "os" &&
					strings.Contains(line, "gone from its end that NATS had acknowledged")
			})
			if len(others) == 0 {
				return
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	b.t.Errorf("audit: %v\n%s", err, out)
}

// upload is one window, or trace, of cutRows kernels, or a capture of as many regions. Its rows are told from all others by their
// correlation ids, or their session.
type upload struct {
	window   *window
	file     []byte // a trace or a capture; "" of a window
	door     string // of a file
	n        int    // in its session
	sum      uint64
	accepted time.Time // of the first answer 200; zero: none came
}

func (u *upload) String() string { return fmt.Sprintf("%s/%d", u.window.session, u.n) }

const cutRows = 20

func newUpload(session string, n int) *upload {
	var b bytes.Buffer
	const base = 1795175929972803352
	if n == 0 {
		fmt.Fprintf(&b, `{"version":1,"type":"job_start","pid":7,"app":"load","session_id":"%s","ts_ns":%d,"hostname":"h",`+
			`"ip_addr":"192.0.2.1","devices":[],"gpu_static_devices":[]}`+"\n", session, base)
	}
	fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"%s","kernel_dict":{"%d":"kernel_%d"}}`+"\n", session, n%7+1, n%7+1)
	fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
		`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details","external_kind","external_id"],"rows":[`,
		session, n+1, int64(base+n*300_000_000))
	u := &upload{n: n}
	for i := range cutRows {
		if i > 0 {
			b.WriteByte(',')
		}
		ns := 1000 + i*37 + n
		u.sum += uint64(ns)
		fmt.Fprintf(&b, "[%d,%d,7,%d,%d,0,32,0,0,0]", i*1000, n%7+1, ns, n*cutRows+i+1)
	}
	b.WriteString("]}\n")
	u.window = &window{session: session, channel: "device", id: fmt.Sprintf("%s-%d", session, n), sequence: n + 1, gz: zip(b.Bytes())}
	return u
}

// newFile is a session of its own: a trace, or a capture of an intra-kernel profiler.
func newFile(no int64) *upload {
	if no%12 == 5 {
		u := &upload{window: &window{session: fmt.Sprint("ikp:cut-", no)}, door: fmt.Sprint("intrakernel?session=cut-", no)}
		for i := range cutRows {
			ns := 1000 + i*37
			u.sum += uint64(ns)
			u.file = fmt.Appendf(u.file, `,{"name":"a","ph":"X","ts":%d,"dur":%d,"pid":3,"tid":65,"cname":"good",`+
				`"args":{"sm":3,"block":1,"warp":1}}`, i*5000, ns)
		}
		u.file = append([]byte{'['}, append(u.file[1:], ']')...)
		return u
	}
	u := &upload{window: &window{session: fmt.Sprint("trace:cut-", no)}, door: fmt.Sprint("traces?session=cut-", no)}
	for i := range cutRows {
		ns := 1000 + i*37
		u.sum += uint64(ns)
		u.file = fmt.Appendf(u.file, `,{"ph":"X","cat":"kernel","name":"kernel_%d","pid":0,"tid":7,"ts":%d,"dur":%d.%03d,"args":{"device":0,`+
			`"stream":7,"correlation":%d}}`, i%7, 1795175929972803+int64(i), ns/1000, ns%1000, i+1)
	}
	u.file = append([]byte{'['}, append(u.file[1:], ']')...)
	return u
}

// post sends it, and returns the answer.
func (u *upload) post(ctx context.Context, addr string) (status int, body string, header http.Header) {
	if u.file == nil {
		return u.window.post(ctx, addr, devKey, u.window.session[0] == 'a')
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/api/v1/"+u.door, bytes.NewReader(u.file))
	if err != nil {
		return 0, err.Error(), nil
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(text), resp.Header
}

// cutLoad is what was sent. Half of the sessions send windows as agents do, half plain uploads; every sixth is a trace
// or a capture.
type cutLoad struct {
	t        *testing.T
	addr     string
	mu       sync.Mutex
	uploads  []*upload
	refusal  string           // the newest answer to an upload that was not accepted
	canary   map[*upload]bool // the newest canaries
	sessions atomic.Int64
}

func (l *cutLoad) count() (n int) {
	for _, u := range l.uploads {
		if !u.accepted.IsZero() {
			n++
		}
	}
	return n
}

// send posts an upload once and reports whether it was accepted.
func (l *cutLoad) send(ctx context.Context, u *upload) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	status, body, err := u.post(ctx, l.addr)
	if status != 200 {
		l.mu.Lock()
		l.refusal = fmt.Sprintf("%d %s %v", status, body, err)
		l.mu.Unlock()
		return false
	}
	var answer struct {
		Acknowledged bool `json:"window_acknowledged"`
		Complete     bool // of a trace
		Accepted     int  // of a capture
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || !answer.Acknowledged &&
		!(u.file != nil && (answer.Complete || answer.Accepted == cutRows)) {
		l.t.Errorf("%s: %d %s", u, status, body)
		return false
	}
	l.mu.Lock()
	if u.accepted.IsZero() {
		u.accepted = time.Now()
	}
	l.mu.Unlock()
	return true
}

// run sends from eight clients until stop is called. A client whose upload is not accepted waits and tries it again.
func (l *cutLoad) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				no := l.sessions.Add(1)
				session := fmt.Sprintf("%c%07d-0000-4000-8000-000000000000", "ab"[no%2], no)
				for n := 0; n < 60 && ctx.Err() == nil; n++ {
					u := newUpload(session, n)
					if no%6 == 5 {
						u, n = newFile(no), 60
					}
					l.mu.Lock()
					l.uploads = append(l.uploads, u)
					l.mu.Unlock()
					for !l.send(ctx, u) && ctx.Err() == nil {
						time.Sleep(20 * time.Millisecond)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// canaries sends an upload of its own to every partition (150 sessions leave one of 16 out once in a thousand times). A partition is folded
// and inserted in order, so once these are in SQL, what is not there of earlier uploads does not come any more.
func (l *cutLoad) canaries() {
	l.t.Helper()
	l.canary = map[*upload]bool{}
	for range 150 {
		no := l.sessions.Add(1)
		u := newUpload(fmt.Sprintf("%c%07d-0000-4000-8000-000000000000", "ab"[no%2], no), 0)
		l.uploads = append(l.uploads, u)
		l.canary[u] = true
	}
	l.post(func(u *upload) bool { return l.canary[u] })
}

// again sends what is not known to be there: uploads that were never answered or that are lost (their accepted is zero), and one more of
// each session's own.
func (l *cutLoad) again() {
	l.t.Helper()
	last := map[string]int{}
	for _, u := range l.uploads {
		if u.file == nil {
			last[u.window.session] = max(last[u.window.session], u.n)
		}
	}
	for range 12 { // a trace and a capture among them
		if no := l.sessions.Add(1); no%6 == 5 {
			l.uploads = append(l.uploads, newFile(no))
		}
	}
	sessions := make([]string, 0, len(last))
	for s := range last {
		sessions = append(sessions, s)
	}
	slices.Sort(sessions)
	for _, s := range sessions[max(0, len(sessions)-50):] {
		l.uploads = append(l.uploads, newUpload(s, last[s]+1))
	}
	l.post(func(u *upload) bool { return u.accepted.IsZero() })
}

// post sends some uploads, eight at once, until all are accepted.
func (l *cutLoad) post(which func(*upload) bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a loaded disk syncs two or three uploads a second
	defer cancel()
	var wg sync.WaitGroup
	turns := make(chan struct{}, 8)
	var chosen []*upload
	for _, u := range l.uploads {
		if which(u) {
			chosen = append(chosen, u)
		}
	}
	for _, u := range chosen {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			for !l.send(ctx, u) {
				if ctx.Err() != nil {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.t.Errorf("%s is not accepted after the start; the last refusal: %s", u, l.refusal)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// compare waits until SQL has everything that was accepted, or nothing more can come, and returns what is missing, which from then on
// counts as not accepted. Rows too many, sums that are wrong and rollups that differ from the rows are errors.
func (b *cutService) compare(l *cutLoad, when string) (lost []*upload) {
	b.t.Helper()
	var missing []*upload
	var wrong string
	patience := time.Minute // without anything new
	for before, since := -1, time.Now(); time.Since(since) < patience; time.Sleep(300 * time.Millisecond) {
		rows, err := b.tsv(fmt.Sprintf("SELECT session_id, intDiv(corr_id - 1, %d) AS n, count(), sum(duration_ns) FROM warpline.kernels WHERE "+
			"tenant = 'dev' GROUP BY session_id, n UNION ALL SELECT session_id, 0, count(), sum(duration_ns) FROM warpline.regions WHERE "+
			"tenant = 'dev' GROUP BY session_id", cutRows))
		if err != nil {
			wrong = err.Error()
			continue
		}
		have := map[string][2]string{}
		for _, r := range rows {
			have[r[0]+"/"+r[1]] = [2]string{r[2], r[3]}
		}
		if len(have) != before {
			before, since = len(have), time.Now()
		}
		missing, wrong = nil, ""
		for _, u := range l.uploads {
			switch got, there := have[u.String()]; {
			case !there:
				if !u.accepted.IsZero() {
					missing = append(missing, u)
				}
			case got != [2]string{fmt.Sprint(cutRows), fmt.Sprint(u.sum)}:
				wrong += fmt.Sprintf("%s has %v, want %d rows of %d ns\n", u, got, cutRows, u.sum)
			}
		}
		if wrong == "" {
			wrong = b.rollups()
		}
		if wrong == "" && len(missing) == 0 {
			break
		}
		if len(l.canary) > 0 && !slices.ContainsFunc(missing, func(u *upload) bool { return l.canary[u] }) {
			patience = 10 * time.Second // all that can come was inserted, but perhaps not into every table
		}
	}
	l.canary = nil
	if wrong != "" {
		b.t.Errorf("%s: %.3000s", when, wrong)
	}
	for _, u := range missing {
		lost = append(lost, &upload{window: u.window, file: u.file, door: u.door, n: u.n, accepted: u.accepted})
		u.accepted = time.Time{}
	}
	return lost
}

// rollups says where kernel_stats, a trace's slices or region_trends differ from the rows, "" when nowhere.
func (b *cutService) rollups() string {
	rows, err := b.tsv(`SELECT session_id, sum(a), sum(b), sum(c), sum(d) FROM (
		SELECT session_id, 1 * count() AS a, sum(duration_ns) AS b, 0 AS c, 0 AS d FROM warpline.kernels WHERE tenant = 'dev' GROUP BY session_id
		UNION ALL SELECT session_id, 0, 0, sum(calls), sum(total_ns) FROM warpline.kernel_stats WHERE tenant = 'dev' GROUP BY session_id)
		GROUP BY session_id HAVING sum(a) != sum(c) OR sum(b) != sum(d)
		UNION ALL SELECT session_id, sum(a), sum(b), sum(c), sum(d) FROM (
		SELECT session_id, 1 * count() AS a, sum(duration_ns) AS b, 0 AS c, 0 AS d FROM warpline.trace_slices WHERE tenant = 'dev'
		GROUP BY session_id UNION ALL SELECT session_id, 0, 0, sum(calls), sum(total_ns) FROM warpline.kernel_stats
		WHERE tenant = 'dev' AND startsWith(session_id, 'trace:') GROUP BY session_id)
		GROUP BY session_id HAVING sum(a) != sum(c) OR sum(b) != sum(d)
		UNION ALL SELECT session_id, sum(a), sum(b), sum(c), sum(d) FROM (
		SELECT session_id, 1 * count() AS a, sum(duration_ns) AS b, 0 AS c, 0 AS d FROM warpline.regions WHERE tenant = 'dev'
		GROUP BY session_id UNION ALL SELECT session_id, 0, 0, sum(count), sum(total_ns) FROM warpline.region_trends
		WHERE tenant = 'dev' GROUP BY session_id)
		GROUP BY session_id HAVING sum(a) != sum(c) OR sum(b) != sum(d)`)
	if err != nil {
		return err.Error()
	}
	var s strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&s, "session %s: %s rows of %s ns, kernel_stats says %s of %s ns\n", r[0], r[1], r[2], r[3], r[4])
	}
	return s.String()
}
