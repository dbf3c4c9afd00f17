package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// counters reads the sums of the gateway's counters of a tenant.
func (c *cluster) counters(t testing.TB, tenant string) map[string]uint64 {
	t.Helper()
	resp, err := http.Get("http://" + c.gatewayAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]uint64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		if name, ok := strings.CutPrefix(name, "warpline_gateway_"); ok && strings.Contains(rest, `tenant="`+tenant+`"`) {
			v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			out[name] += uint64(v)
		}
	}
	return out
}

// Windows, bodies and lines, good and bad, each sent once to five times, in any order and at once: what the gateway received is what SQL
// says was received, and that is stored + rejected + duplicates, to the event. A row with an array in it is one event everywhere.
func TestBooksBalance(t *testing.T) {
	c := newCluster(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, tenant := range []string{"one", "two"} {
		key := c.makeKey(tenant)
		var posts []func() error
		var unique, stored, rejected, sent uint64 // events
		times := func(events uint64, post func() error) {
			n := 1 + rng.IntN(5)*rng.IntN(2)
			for range n {
				posts = append(posts, post)
			}
			unique += events
			sent += uint64(n) * events
		}
		batch := 0
		kernels := func(session string) (line string, events uint64) {
			batch++
			var rows []string
			for i := range 1 + rng.IntN(20) {
				value := strconv.Itoa(100 + i)
				switch rng.IntN(8) {
				case 0:
					value = []string{"[]", "[[],[]]", `"x"`, "{}", "[7,8]"}[rng.IntN(5)]
					rejected++
				default:
					stored++
				}
				rows = append(rows, fmt.Sprintf("[%d,1,7,%s,%d,0,16,0]", i, value, batch*100+i))
			}
			return fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":%q,"batch_id":%d,"base_time_ns":1795175929972803352,`+
				`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[%s]}`, session,
				batch, strings.Join(rows, ",")), uint64(len(rows))
		}
		for i := range 60 {
			session := fmt.Sprint("s", i%7)
			var b bytes.Buffer
			events := uint64(0)
			for range 1 + rng.IntN(4) {
				switch rng.IntN(4) {
				case 0:
					fmt.Fprintf(&b, "garbage %d\n\n", rng.Uint64())
					events++
					rejected++
				default:
					line, n := kernels(session)
					b.WriteString(line + "\n")
					events += n
				}
			}
			w := &window{session: session, channel: "device", id: fmt.Sprint("w", i), sequence: i, gz: zip(b.Bytes())}
			headers := i%2 == 0
			times(events, func() error {
				if status, body, _ := w.post(ctx, c.gatewayAddr, key, headers); status != http.StatusOK {
					return fmt.Errorf("%d %s", status, body)
				}
				return nil
			})
		}
		for i := range 40 {
			line, n := kernels(fmt.Sprint("l", i%3))
			times(n, func() error { return postLegacy(ctx, c.gatewayAddr, key, "device", []byte(line)) })
		}
		rng.Shuffle(len(posts), func(i, j int) { posts[i], posts[j] = posts[j], posts[i] })
		var wg sync.WaitGroup
		turns := make(chan struct{}, 8)
		for _, post := range posts {
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				if err := post(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := fmt.Sprint([]uint64{sent, rejected, sent - unique})
		eventually(t, 3*time.Minute, "usage of "+tenant, func() (bool, string) {
			rows, err := c.tryRows(`SELECT '', sum(events), sum(rejected), sum(duplicates) FROM usage WHERE tenant = '` + tenant + `'`)
			have := fmt.Sprint(rows[""])
			return err == nil && have == want, fmt.Sprintf("events, rejected, duplicates are %s, want %s (%v)", have, want, err)
		})
		eventually(t, 3*time.Minute, "kernels of "+tenant, func() (bool, string) {
			have := c.one(`SELECT count() FROM kernels WHERE tenant = '` + tenant + `'`)
			return have == stored, fmt.Sprintf("%d of %d", have, stored)
		})
		eventually(t, 3*time.Minute, "what the gateway counted of "+tenant, func() (bool, string) {
			rows, err := c.tryRows(`SELECT '', sum(door_events), sum(lost_events), toUInt64(sum(door_bytes) > 0) FROM usage
				WHERE tenant = '` + tenant + `'`)
			have := fmt.Sprint(rows[""])
			return err == nil && have == fmt.Sprint([]uint64{sent, 0, 1}), fmt.Sprintf("%s, want %d (%v)", have, sent, err)
		})
		m := c.counters(t, tenant)
		if m["events_received_total"] != sent || m["events_published_total"]+m["events_rejected_total"]+m["events_repeated_total"] != sent ||
			m["events_repeated_total"] == 0 {
			text, _ := json.Marshal(m)
			t.Errorf("the gateway's books do not balance: sent %d, %s", sent, text)
		}
	}
}
