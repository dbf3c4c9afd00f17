package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

var losses = flag.Int("losses", 6, "how many times TestRowsLostAndKill9 empties ROWS")

// ROWS is emptied again and again under load, in part or whole, and whoever is about to mend that is killed: afterwards every row is there
// once. The long form: go test ./cmd/warpline/e2e -run RowsLostAndKill9 -losses 100 -timeout 40m
func TestRowsLostAndKill9(t *testing.T) {
	c := newCluster(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	rows, err := js.Stream(ctx, stream.RowsStream)
	if err != nil {
		t.Fatal(err)
	}
	l := startLoad(ctx, t, c, 60*time.Millisecond) // there is something to lose at each purge
	r := rand.New(rand.NewPCG(*seed, 7))
	for i := range *losses {
		time.Sleep(time.Duration(500+r.IntN(1000)) * time.Millisecond)
		opts := []jetstream.StreamPurgeOpt{}
		if r.IntN(3) == 0 {
			opts = append(opts, jetstream.WithPurgeSubject(stream.RowsSubject(stream.Partition("dev", "00000000-0000-4000-8000-000000000000", 16))))
		}
		eventually(t, 3*time.Minute, "the purge", func() (bool, string) { // the connection may still be that to the NATS that was killed
			err := rows.Purge(ctx, opts...)
			return err == nil, fmt.Sprint(err)
		})
		time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
		for _, victim := range [][]string{{"worker0", "worker1"}, {"sink"}, {"worker0", "sink"}, {"nats"}}[i%4] {
			c.kill(victim)
			c.start(victim)
		}
	}
	for name := range c.roles {
		c.waitReady(name, 3*time.Minute)
	}
	want := l.stop()
	// Rows are exact. Rollups are as close as can be, see docs/operate.md: where a span that was begun is lost, what they had of it counts
	// twice. The sink says so, and only then the sums of PC samples and metrics may be off.
	spanLost := false
	raw := func(k string) bool {
		switch {
		case strings.HasPrefix(k, "pc samples|"), strings.HasPrefix(k, "metric value|"), k == "source map rows":
			return !spanLost
		}
		return !strings.HasPrefix(k, "scope ") && !strings.HasPrefix(k, "honest ") && k != "synthetic calls" && k != "disturbed calls" &&
			k != "job_start" && k != "shutdown"
	}
	eventually(t, 3*time.Minute, "every row once", func() (bool, string) {
		got, err := answers(c, "dev")
		spanLost = strings.Contains(c.whole("sink"), "a span was begun, and ROWS lost it")
		d := compare(want, got, raw)
		return err == nil && d == "", fmt.Sprint(err, "\n", d)
	})
}
