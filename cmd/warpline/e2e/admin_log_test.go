package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/broker"
)

// Commands that make keys are killed at any moment, and a worker and a sink too: each key that is there is in admin_log, and each change is
// one row, which says that it is done only where it is.
func TestKilledCommandsAreInTheLog(t *testing.T) {
	c := newCluster(t, 1)
	nc, _, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	words := make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe("ingest.*._.admin", words); err != nil {
		t.Fatal(err)
	}
	const seed, attempts = 14, 40
	rng := rand.New(rand.NewPCG(seed, seed))
	for i := range attempts {
		cmd := exec.Command(binary, "key", "create", "red", "--note", fmt.Sprintf("attempt %02d", i), "--nats", "nats://"+c.natsAddr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// It is killed soon after its first word, before or after the key is stored, and some before it and some not at all.
		select {
		case <-words:
			time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
		case <-time.After(time.Duration(rng.Int64N(int64(5 * time.Second)))):
		}
		_ = cmd.Process.Kill()
		<-ended
		for len(words) > 0 {
			<-words
		}
		switch i {
		case attempts / 3:
			c.kill("worker0")
			c.start("worker0")
		case attempts / 2:
			c.kill("sink")
			c.start("sink")
		}
	}
	out, err := exec.Command(binary, "key", "list", "--json", "--nats", "nats://"+c.natsAddr).Output()
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{} // notes by id
	for line := range strings.Lines(string(out)) {
		var k struct{ ID, Note string }
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(k.Note, "attempt ") {
			made[k.ID] = k.Note
		}
	}
	const inLog = "SELECT JSONExtractString(change, 'note', 2), toUInt64(count()), toUInt64(countIf(outcome = 'done')) " +
		"FROM warpline.admin_log " +
		"WHERE tenant = 'red' AND action = 'key create' AND change LIKE '%attempt %' GROUP BY 1"
	var log map[string][]uint64
	eventually(t, 3*time.Minute, "the log has a row of each key, and some command came far enough", func() (bool, string) {
		if log, err = c.tryRows(inLog); err != nil {
			return false, err.Error()
		}
		for _, note := range made {
			if log[note] == nil {
				return false, "no row of " + note
			}
		}
		return len(log) >= attempts/4, fmt.Sprintf("%d rows of %d commands", len(log), attempts)
	})
	keys := map[string]int{}
	for _, note := range made {
		keys[note]++
	}
	done := 0
	for note, n := range log {
		if n[0] != 1 || n[1] > 1 || n[1] == 1 && keys[note] != 1 {
			t.Errorf("%q: %d rows, %d of them done, and %d keys", note, n[0], n[1], keys[note])
		}
		done += int(n[1])
	}
	t.Logf("%d commands: %d keys, %d rows, %d of them done", attempts, len(made), len(log), done)
}
