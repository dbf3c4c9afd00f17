package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// damageAll runs every attack; the short form leaves out those that differ from another only by the name of a stream.
var damageAll = flag.Bool("damage", false, "TestDamage: every attack on every stream, bucket and table, not only one of each kind")

// site is a `warpline up` under attack.
type site struct {
	*cluster
	t    *testing.T
	data string
	sent uint64 // sessions, each with one kernel
}

func newSite(t *testing.T) *site {
	t.Helper()
	enginetest.Need(t)
	c := &cluster{t: t, dir: t.TempDir(), natsAddr: freeAddr(t), gatewayAddr: freeAddr(t), clickTCP: freeAddr(t), clickHTTP: freeAddr(t),
		grpcAddr: freeAddr(t), roles: map[string]*role{}}
	s := &site{cluster: c, t: t, data: filepath.Join(c.dir, "data")}
	tabletest.Furnish(t, filepath.Join(s.data, "clickhouse"))
	c.add("up", "up", "--data", s.data, "--listen", c.gatewayAddr, "--grpc-listen", c.grpcAddr,
		"--nats-listen", c.natsAddr, "--clickhouse-tcp-port", port(c.clickTCP),
		"--clickhouse-http-port", port(c.clickHTTP),
		"--dev-key", devKey, "--partitions", "4")
	t.Cleanup(c.stopAll)
	s.begin()
	return s
}

func (s *site) begin() {
	s.t.Helper()
	s.start("up")
	s.waitReady("up", 3*time.Minute)
}

// send uploads n sessions of one kernel each; each must be answered 200 in time.
func (s *site) send(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	for range n {
		s.sent++
		w := &window{session: fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.sent), channel: "device",
			id: fmt.Sprint("w", s.sent), sequence: 1}
		w.gz = zip(fmt.Appendf(nil, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":1,`+
			`"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs",`+
			`"has_details"],"rows":[[0,1,7,5,1,0,32,0]]}`+"\n", w.session))
		if err := w.deliver(ctx, s.gatewayAddr, devKey, true); err != nil {
			s.t.Fatal(err)
		}
	}
}

// seen waits until the kernels of all sessions from one on are there, once.
func (s *site) seen(from uint64, what string) {
	s.t.Helper()
	eventually(s.t, 3*time.Minute, what, func() (bool, string) {
		where := fmt.Sprintf("session_id > '%08d-z'", from)
		have := []uint64{s.one("SELECT count() FROM kernels_data WHERE " + where),
			s.one("SELECT sum(calls) FROM kernel_stats_data WHERE " + where), s.one("SELECT sum(kernels) FROM sessions_data WHERE " + where)}
		want := s.sent - from
		if slices.Max(have) > want {
			s.t.Fatalf("%s: %v of %d kernels: counted twice", what, have, want)
		}
		return slices.Min(have) == want, fmt.Sprint(have, want)
	})
}

// audit runs the command and returns its exit code and all that it says.
func (s *site) audit() (int, string) {
	cmd := exec.Command(binary, "audit", "--data", s.data)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *site) log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "up.log"))
	return string(b)
}

// exec runs a statement as the sink's user.
func (s *site) exec(sql string) {
	s.t.Helper()
	secret, err := os.ReadFile(filepath.Join(s.data, engine.WriterSecret))
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{s.clickTCP},
		Auth: clickhouse.Auth{Database: "warpline", Username: "warpline", Password: strings.TrimSpace(string(secret))}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// nats connects as whoever has the token.
func (s *site) nats(f func(ctx context.Context, js jetstream.JetStream)) {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "nats-token"))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + s.natsAddr, Token: strings.TrimSpace(string(token))})
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	f(ctx, js)
}

// folder is where the embedded NATS keeps a stream.
func (s *site) folder(name string) string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.data, "nats", "jetstream", "*", "streams", name))
	if err != nil || len(found) != 1 {
		s.t.Fatalf("folders of %s: %v %v", name, found, err)
	}
	return found[0]
}

// flip overwrites 64 bytes in the middle of a stream's last block.
func (s *site) flip(name string) {
	s.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(s.folder(name), "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		s.t.Fatalf("blocks of %s: %v", name, err)
	}
	last := slices.MaxFunc(blocks, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	info, err := os.Stat(last)
	if err != nil {
		s.t.Fatal(err)
	}
	if info.Size() < 64 {
		s.t.Skipf("the last block of %s has %d bytes: there is nothing to damage", name, info.Size())
	}
	f, err := os.OpenFile(last, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("\xaa", 64)), info.Size()/2-32); err != nil {
		s.t.Fatal(err)
	}
}

// fillStore puts something into a store that uploads of kernels leave empty.
func (s *site) fillStore(name string) {
	s.t.Helper()
	kind, bucket, _ := strings.Cut(name, "_")
	if name != "KV_"+stream.DictionariesBucket && name != "KV_"+stream.DeletionsBucket && name != "KV_"+stream.CubinsBucket && kind != "OBJ" {
		return
	}
	s.nats(func(ctx context.Context, js jetstream.JetStream) {
		var kv jetstream.KeyValue
		var objects jetstream.ObjectStore
		var err error
		if kind == "OBJ" {
			objects, err = js.ObjectStore(ctx, bucket)
		} else {
			kv, err = js.KeyValue(ctx, bucket)
		}
		for i := 0; i < 20 && err == nil; i++ {
			if kind == "OBJ" {
				_, err = objects.PutBytes(ctx, fmt.Sprint("test.", i), make([]byte, 500))
			} else {
				_, err = kv.Put(ctx, fmt.Sprint("test.", i, ".x"), make([]byte, 500))
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
	})
	time.Sleep(2500 * time.Millisecond) // what was stored in the last second before a kill nobody has seen
}

// attack is something that happens to the data below Warpline. Afterwards what is uploaded arrives, once, without a restart by hand, and
// the damage is told.
type attack struct {
	name    string
	short   bool
	running func(s *site) // while it runs
	killed  func(s *site) // after kill -9, before the next start
	audit   []string      // words of the audit, which ends with code 5; nil: it is content, since nothing was lost
	log     []string      // words of the log; nil: none are asked for
	// unfolded: some of what was sent last is lost for good; the audit has to name as many uploads.
	unfolded bool
	keys     bool // the development key is gone with the bucket: nothing is uploaded until the next start
}

// Every stream, bucket, subject and table is damaged in turn.
func TestDamage(t *testing.T) {
	attacks := []attack{
		{name: "garbage on a subject of ROWS", short: true, running: func(s *site) {
			s.publish("rows.1", []byte("garbage"), nil, make([]byte, 1<<20))
			s.publish("rows.3", []byte("garbage"))
		}, audit: []string{"ROWS, partition 1: 3 messages", "ROWS, partition 3: 1 messages", "were set aside"}, log: []string{"is set aside"}},
		{name: "chunks sent again", short: true, running: func(s *site) {
			s.nats(func(ctx context.Context, js jetstream.JetStream) {
				rows, err := js.Stream(ctx, stream.RowsStream)
				if err != nil {
					s.t.Fatal(err)
				}
				for p := range 4 {
					last, err := rows.GetLastMsgForSubject(ctx, stream.RowsSubject(p))
					if err != nil {
						s.t.Fatal(err)
					}
					for range 3 {
						if _, err := js.Publish(ctx, stream.RowsSubject(p), last.Data); err != nil {
							s.t.Fatal(err)
						}
					}
				}
			})
		}, audit: []string{"ROWS, partition 0: 3 messages", "ROWS, partition 2: 3 messages", "sent again"}, log: []string{"is set aside"}},
		{name: "garbage on subjects of INGEST", running: func(s *site) {
			s.publish("ingest.1.dev.00", []byte("garbage"), nil, []byte("WLE\x01\xff\xff\xff\x7f"))
			s.publish("ingest.2.x", []byte("garbage"))
		}, log: []string{"a part of INGEST cannot be read and is kept as a reject"}},
		{name: "the lanes' marks overwritten", running: func(s *site) {
			s.nats(func(ctx context.Context, js jetstream.JetStream) {
				kv, err := js.KeyValue(ctx, stream.MarksBucket)
				if err != nil {
					s.t.Fatal(err)
				}
				for lane := range 2 {
					if _, err := kv.PutString(ctx, fmt.Sprint("lane.", lane), "garbage"); err != nil {
						s.t.Fatal(err)
					}
				}
			})
		}},
	}
	for _, table := range []string{"kernel_stats_data", "sessions_data", "usage_data", "kernels_data"} {
		attacks = append(attacks, attack{name: "table " + table + " truncated", short: table == "kernel_stats_data", running: func(s *site) {
			s.exec("TRUNCATE TABLE " + table)
		},
			audit: []string{"table " + table + ": received ", time.Now().UTC().Format("2006-01"), "dev: "}})
	}
	for _, name := range []string{"INGEST", "ROWS", "KV_WL_WINDOWS", "KV_WL_MARKS", "KV_WL_KEYS", "KV_WL_DICTIONARIES", "KV_WL_DELETIONS",
		"KV_WL_CUBINS", "OBJ_WL_STATE", "OBJ_WL_PARTS", "OBJ_WL_CHUNKS"} {
		words := []string{name}
		if name == "INGEST" {
			words = append(words, "uploads of tenant dev")
		}
		attacks = append(attacks, attack{name: "bytes flipped in " + name, running: func(s *site) { s.fillStore(name) }, killed: func(s *site) {
			s.flip(name)
		},
			audit: words, log: []string{"stream=" + name}})
	}
	attacks = append(attacks, attack{name: "INGEST's last uploads flipped before they were folded", short: true, running: func(s *site) {
		s.send(60)
	}, killed: func(s *site) { s.flip("INGEST") },
		audit: []string{"INGEST", "uploads of tenant dev"}, log: []string{"stream=INGEST"}, unfolded: true})
	for _, name := range []string{"INGEST", "ROWS", "KV_WL_WINDOWS", "KV_WL_LEASES", "KV_WL_MARKS", "KV_WL_DICTIONARIES", "KV_WL_DELETIONS",
		"KV_WL_KEYS", "KV_WL_CUBINS", "OBJ_WL_PARTS", "OBJ_WL_STATE", "OBJ_WL_CHUNKS"} {
		attacks = append(attacks, attack{name: name + " deleted", running: func(s *site) {
			s.nats(func(ctx context.Context, js jetstream.JetStream) {
				if err := js.DeleteStream(ctx, name); err != nil {
					s.t.Fatal(err)
				}
			})
		}, log: []string{strings.TrimPrefix(strings.TrimPrefix(name, "KV_"), "OBJ_")}, keys: name == "KV_WL_KEYS"})
	}
	for _, name := range []string{"INGEST", "ROWS"} {
		attacks = append(attacks, attack{name: name + " removed from the disk", killed: func(s *site) {
			if err := os.RemoveAll(s.folder(name)); err != nil {
				s.t.Fatal(err)
			}
		}, log: []string{name}})
	}
	attacks = append(attacks, attack{name: "the tail of INGEST cut", killed: func(s *site) {
		blocks, _ := filepath.Glob(filepath.Join(s.folder("INGEST"), "msgs", "*.blk"))
		slices.Sort(blocks)
		last := blocks[len(blocks)-1]
		info, err := os.Stat(last)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.Truncate(last, info.Size()/2); err != nil {
			s.t.Fatal(err)
		}
		os.Remove(filepath.Join(filepath.Dir(last), "index.db"))
	}, audit: []string{"INGEST"}, log: []string{"INGEST"}})

	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if !a.short && !*damageAll {
				t.Skip("only with -damage")
			}
			s := newSite(t)
			s.send(20)
			s.seen(0, "what was sent before")
			eventually(t, 3*time.Minute, "the audit is content before", func() (bool, string) {
				code, said := s.audit()
				return code == 0, said
			})
			if a.running != nil {
				a.running(s)
			}
			if a.killed != nil {
				s.kill("up")
				a.killed(s)
				s.begin()
			}
			from := s.sent
			if !a.keys {
				s.send(20)
				s.seen(from, "what was sent afterwards")
			}
			eventually(t, 3*time.Minute, "it is told", func() (bool, string) {
				code, said := s.audit()
				if a.unfolded {
					gone := from - s.one(fmt.Sprintf("SELECT uniqExact(session_id) FROM kernels_data WHERE session_id <= '%08d-z'", from))
					named := 0
					if _, rest, ok := strings.Cut(said, "INGEST lost "); ok {
						for _, part := range strings.Split(rest, "INGEST lost ") {
							if n, err := fmt.Sscanf(part, "%d uploads of tenant dev", &named); n == 1 && err == nil {
								break
							}
						}
					}
					t.Logf("%d of %d sessions are lost, the audit names %d uploads", gone, from, named)
					if uint64(named) < gone || gone == 0 {
						return false, fmt.Sprintf("%d uploads are lost, the audit names %d:\n%s", gone, named, said)
					}
				}
				log := s.log()
				for _, w := range a.audit {
					if !strings.Contains(said, w) {
						return false, fmt.Sprintf("the audit does not say %q:\n%s", w, said)
					}
				}
				for _, w := range a.log {
					if !strings.Contains(log, w) {
						return false, fmt.Sprintf("the log does not say %q; the audit, code %d:\n%s", w, code, said)
					}
				}
				return a.audit == nil || code == 5, fmt.Sprintf("exit code %d", code)
			})
		})
	}
}

// publish puts messages on a subject of a stream, as whoever has the token can.
func (s *site) publish(subject string, messages ...[]byte) {
	s.t.Helper()
	s.nats(func(ctx context.Context, js jetstream.JetStream) {
		for _, m := range messages {
			if _, err := js.Publish(ctx, subject, m); err != nil {
				s.t.Fatal(err)
			}
		}
	})
}
