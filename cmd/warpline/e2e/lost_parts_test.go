package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/engine"
)

// audit runs the command and returns what it says, and its exit code.
func (c *cluster) audit(args ...string) (string, int) {
	c.t.Helper()
	out, err := exec.Command(binary, append([]string{"audit", "--nats", "nats://" + c.natsAddr, "--clickhouse", c.clickTCP,
		"--clickhouse-http", c.clickHTTP, "--clickhouse-user", engine.Writer, "--clickhouse-password", c.secret(engine.WriterSecret)},
		args...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if exit == nil {
		return string(out), 0
	}
	return string(out), exit.ExitCode()
}

// settled waits until all that was accepted is in SQL.
func (c *cluster) settled(t testing.TB) {
	t.Helper()
	eventually(t, 3*time.Minute, "nothing is on its way", func() (bool, string) {
		out, _ := exec.Command(binary, append([]string{"audit", "--json"}, c.reach()...)...).Output()
		var proof struct {
			Usage []struct {
				Tenant  string
				Pending uint64
			}
		}
		if err := json.Unmarshal(out, &proof); err != nil {
			return false, fmt.Sprintf("%v: %s", err, out)
		}
		for _, u := range proof.Usage {
			if u.Pending > 0 {
				return false, fmt.Sprintf("%d events of %s are", u.Pending, u.Tenant)
			}
		}
		return true, ""
	})
}

// A part is deleted from INGEST by hand while no worker runs. Workers, the gateway and NATS are killed before the loss is told, after it
// and while the window is sent again: in the end each kernel is there once, of the neighbour too, the audit named the window, and what
// gateways counted is what was folded and what was lost.
func TestLostPartAndKill9(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ingest, err := js.Stream(ctx, stream.IngestStream)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{"one": c.makeKey("one"), "two": c.makeKey("two")}
	of := func(tenant string, n int) *window {
		line := fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":%d,"base_time_ns":1795175929972803352,`+
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, n)
		for i := range 10 {
			line += fmt.Sprintf("[%d,1,7,100,%d,0,16,0],", i, 10*n+i)
		}
		return &window{session: "s", channel: "device", id: fmt.Sprint(tenant, n), sequence: n,
			gz: zip([]byte(strings.TrimSuffix(line, ",") + "]}\n"))}
	}
	send := func(tenant string, n int) {
		t.Helper()
		eventually(t, 3*time.Minute, "sent", func() (bool, string) {
			status, body, _ := of(tenant, n).post(ctx, c.gatewayAddr, keys[tenant], true)
			return status == http.StatusOK, fmt.Sprint(status, body)
		})
	}
	at := func(tenant string, n int) uint64 {
		t.Helper()
		send(tenant, n)
		msg, err := ingest.GetLastMsgForSubject(ctx, stream.IngestSubject(stream.Partition(tenant, "s", 16), tenant, stream.SessionToken("s")))
		if err != nil {
			t.Fatal(err)
		}
		return msg.Sequence
	}
	told := func() { // what the gateway stored until now
		t.Helper()
		last := map[string]uint64{}
		for tenant := range keys {
			p := stream.Partition(tenant, "s", 16)
			msg, err := ingest.GetLastMsgForSubject(ctx, stream.IngestSubject(p, tenant, stream.SessionToken("s")))
			if err != nil {
				t.Fatal(err)
			}
			last[tenant] = msg.Sequence
		}
		eventually(t, 3*time.Minute, "the gateway tells what it stored", func() (bool, string) {
			for tenant, seq := range last {
				msg, err := ingest.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(stream.DoorFilter(stream.Partition(tenant, "s", 16))))
				if err != nil {
					return false, fmt.Sprint(tenant, err)
				}
				if msg.Sequence < seq {
					return false, tenant
				}
			}
			return true, ""
		})
	}
	kernels := func(want uint64) {
		t.Helper()
		eventually(t, 3*time.Minute, "kernels", func() (bool, string) {
			rows, err := c.tryRows(`SELECT tenant, count(), uniqExact(corr_id) FROM kernels GROUP BY tenant`)
			have := fmt.Sprint(rows["one"], rows["two"])
			return err == nil && have == fmt.Sprint([]uint64{want, want}, []uint64{60, 60}), fmt.Sprint(have, err)
		})
	}
	for n := range 3 {
		send("one", n)
		send("two", n)
	}
	c.kill("worker0")
	lost := at("one", 3)
	send("two", 3)
	if err := ingest.DeleteMsg(ctx, lost); err != nil {
		t.Fatal(err)
	}
	for n := 4; n < 6; n++ {
		send("one", n)
		send("two", n)
	}
	c.start("worker0") // it passes the place before the gateway tells, or after
	told()
	c.kill("worker0")
	c.start("worker0")
	var said string
	eventually(t, 3*time.Minute, "the audit names the window", func() (bool, string) {
		out, code := c.audit()
		said = out
		return code == 5 && strings.Contains(out, `lost 1 parts of the window "one3" of session "s" of tenant one, with 10 events`), out
	})
	if strings.Contains(said, "tenant two") && strings.Contains(said, "of tenant two, with") {
		t.Errorf("the audit names the neighbour: %s", said)
	}
	kernels(50)
	c.kill("gateway")
	c.start("gateway")
	c.waitReady("gateway", 3*time.Minute)
	c.kill("nats")
	c.start("nats")
	c.waitReady("nats", 3*time.Minute)
	for n := range 6 {
		send("one", n)
		send("two", n)
	}
	c.kill("gateway") // it may not have told that it stored it again
	c.kill("worker0")
	c.start("gateway")
	c.start("worker0")
	for n := range 6 {
		send("one", n)
		send("two", n)
	}
	kernels(60)
	eventually(t, 3*time.Minute, "the audit is content but for what a person has to read", func() (bool, string) {
		out, code := c.audit()
		return code == 5 && !strings.Contains(out, "of session") && strings.Contains(out, "1 uploads lost parts before they were folded"), out
	})
	eventually(t, 3*time.Minute, "the audit is content", func() (bool, string) {
		c.audit("--accept")
		out, code := c.audit()
		return code == 0, out
	})
	// Of the lost window's events the first gateway's count is known, and that they are lost.
	eventually(t, 3*time.Minute, "what gateways counted is in the books", func() (bool, string) {
		rows, err := c.tryRows(`SELECT tenant, toUInt64(sum(door_events) <= sum(events) + sum(lost_events)), toUInt64(sum(door_events) >= 60),
			sum(lost_events) FROM usage GROUP BY tenant`)
		return err == nil && fmt.Sprint(rows["one"], rows["two"]) == "[1 1 10] [1 1 0]", fmt.Sprint(rows, err)
	})
}
