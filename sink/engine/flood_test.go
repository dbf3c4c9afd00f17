package engine_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

var (
	floodClients = flag.Int("flood-clients", 300, "readers that ask at once in TestFloodOfQueries")
	floodFor     = flag.Duration("flood-for", 10*time.Second, "how long TestFloodOfQueries lasts; from a minute on the writer must be "+
		"answered within 1 s")
)

// queries of a flood, light and heavy: what wedged the engine (a format that wants threads of its own), what takes all processors, all
// memory, all of the disk's room for temporary files, and nothing.
var floodQueries = []string{
	"SELECT 1",
	"SELECT number, toString(number) FROM numbers(200000) FORMAT JSONEachRow",
	"SELECT * FROM numbers(300000) FORMAT CSV",
	"SELECT sum(a), uniqExact(a) FROM warpline.t",
	endless,
	"SELECT groupArray(toString(number)) FROM numbers(50000000) FORMAT Null",
	"SELECT number FROM numbers(100000000) ORDER BY cityHash64(number) LIMIT 1 OFFSET 99999990",
	"SELECT x, count() FROM (SELECT cityHash64(number) AS x FROM numbers(30000000)) GROUP BY x FORMAT Null",
	"SELECT sleepEachRow(1) FROM numbers(3)",
}

// However many ask at once, and whatever, the writer is answered and its inserts go on.
func TestFloodOfQueries(t *testing.T) {
	enginetest.Need(t)
	var log lines
	s, err := engine.Supervise(t.Context(), engine.Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	e := s.Engine()
	must(t, e, "CREATE DATABASE warpline")
	must(t, e, "CREATE TABLE warpline.t (a UInt64) ENGINE = MergeTree ORDER BY a")
	ctx, cancel := context.WithTimeout(t.Context(), *floodFor)
	defer cancel()

	var readers, writers sync.WaitGroup
	var answered, refused, gone atomic.Int64
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *floodClients}}
	for i := range *floodClients {
		readers.Go(func() {
			dice := rand.New(rand.NewPCG(1, uint64(i)))
			native, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()}, MaxOpenConns: 1,
				Auth: clickhouse.Auth{Username: engine.Reader, Password: e.ReaderPassword()}})
			if err != nil {
				t.Error(err)
				return
			}
			defer native.Close()
			for ctx.Err() == nil {
				// Half of them lose patience.
				one, stop := context.WithTimeout(ctx, time.Duration(1+dice.IntN(20))*time.Second)
				query := floodQueries[dice.IntN(len(floodQueries))]
				var err error
				if i%2 == 0 {
					err = askOver(one, web, e, query)
				} else {
					err = drain(one, native, strings.TrimSuffix(strings.TrimSuffix(query, " FORMAT JSONEachRow"), " FORMAT CSV"))
				}
				stop()
				switch {
				case err == nil:
					answered.Add(1)
				case strings.Contains(err.Error(), "TOO_MANY_SIMULTANEOUS_QUERIES"), strings.Contains(err.Error(), "code: 202"),
					strings.Contains(err.Error(), "USER_SESSION_LIMIT_EXCEEDED"), strings.Contains(err.Error(), "code: 700"):
					refused.Add(1)
					time.Sleep(time.Duration(dice.IntN(1000)) * time.Millisecond)
				default:
					gone.Add(1)
				}
			}
		})
	}
	var took []time.Duration // of the writer's SELECT 1
	var inserted int
	var slowest time.Duration
	writers.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := ask(s.Engine(), e.User(), e.Password(), "SELECT 1"); err != nil && s.State().Phase == engine.Ready {
				t.Errorf("the writer asks: %v", err)
			}
			took = append(took, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
	})
	writers.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := ask(s.Engine(), e.User(), e.Password(), fmt.Sprintf("INSERT INTO warpline.t SELECT number FROM numbers(%d, 100000)",
				inserted)); err == nil {
				inserted += 100_000
				slowest = max(slowest, time.Since(began))
			} else if s.State().Phase == engine.Ready {
				t.Errorf("the writer inserts: %v", err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	writers.Wait()
	readers.Wait()
	slices.Sort(took)
	if len(took) == 0 || inserted == 0 {
		t.Fatalf("%d questions, %d rows", len(took), inserted)
	}
	p99, worst := took[len(took)*99/100], took[len(took)-1]
	t.Logf("%d readers for %v: %d answers, %d refusals, %d failures; writer's SELECT 1: p50 %v, p99 %v, most %v of %d; %d rows inserted, "+
		"slowest %v; %d restarts",
		*floodClients, *floodFor, answered.Load(), refused.Load(), gone.Load(), took[len(took)/2], p99,
		worst, len(took), inserted, slowest, s.State().Restarts)
	limit := 15 * time.Second // the machine of a short run may have much else to do
	if *floodFor >= time.Minute {
		limit = time.Second
	}
	if n := s.State().Restarts; n == 0 && (p99 > limit || worst > 2*limit) {
		t.Errorf("SELECT 1 by the writer took %v (p99), %v at most", p99, worst)
	} else if n > 0 && log.count("engine down") == 0 {
		t.Errorf("%d restarts, and not a word", n)
	}
	if slowest > max(10*time.Second, limit) {
		t.Errorf("an insert took %v", slowest)
	}
	want(t, "rows", must(t, s.Engine(), "SELECT count() FROM warpline.t"), fmt.Sprint(inserted))
	eventually(t, 60*time.Second, "no query outlives its client", func() bool {
		return must(t, s.Engine(), "SELECT count() FROM system.processes WHERE user = 'reader'") == "0"
	})
}

func askOver(ctx context.Context, web *http.Client, e *engine.Engine, query string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.HTTPAddr()+"/", strings.NewReader(query))
	if err != nil {
		return err
	}
	req.SetBasicAuth(engine.Reader, e.ReaderPassword())
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("HTTP %d: %s", resp.StatusCode, b)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func drain(ctx context.Context, conn clickhouse.Conn, query string) error {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// An engine that lives and does not answer is killed and started again, and that is said.
func TestSilentEngineIsRestarted(t *testing.T) {
	enginetest.Need(t)
	t.Parallel() // it waits
	var log lines
	downs := make(chan engine.State, 10)
	s, err := engine.Supervise(t.Context(), engine.Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(st engine.State) {
			if st.Phase == engine.Down {
				downs <- st
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	old := s.Engine()
	began := time.Now()
	if err := syscall.Kill(old.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	select {
	case st := <-downs:
		if st.Err == nil || !strings.Contains(st.Err.Error(), "has not answered SELECT 1 for") {
			t.Errorf("it is down because of %v", st.Err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a stopped engine is not noticed within a minute")
	}
	noticed := time.Since(began)
	eventually(t, time.Minute, "another engine is ready", func() bool {
		st := s.State()
		return st.Phase == engine.Ready && st.Pid != old.Pid()
	})
	t.Logf("noticed after %v, ready again after %v", noticed, time.Since(began))
	if noticed > 30*time.Second {
		t.Errorf("noticed after %v only", noticed)
	}
	want(t, "the next", must(t, s.Engine(), "SELECT 1"), "1")
	if log.count("engine down, killing it") != 1 || !processIsGone(old.Pid()) {
		t.Errorf("the log says %d times that the old one is killed; gone: %v", log.count("engine down, killing it"), processIsGone(old.Pid()))
	}
}
