package e2e_test

import (
	"context"
	endian "encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// Both batches of the vectors add up to their sums in every column, whatever the order, the gateway, the number of times and the encoding,
// each encoding in an empty service of its own; usage counts each row once.
func TestParcaEveryEncodingAddsUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	shared := newCluster(t, 1) // by forms that differ in order and repeats alone
	second := freeAddr(t)
	shared.addGateway("gateway2", freeAddr(t), second)
	shared.start("gateway2")
	shared.waitReady("gateway2", 3*time.Minute)
	one, two := parcaFile(t, "batch1.v2.lz4.arrows"), parcaFile(t, "batch2.v2.lz4.arrows")
	rows1, rows2 := parcaRows(t, "batch1.wire_rows.ndjson"), parcaRows(t, "batch2.wire_rows.ndjson")
	events, arrow := uint64(len(rows1)+len(rows2)), uint64(len(one)+len(two))
	write := func(a *parcatest.Client, batches ...[]byte) error {
		for _, b := range batches {
			if err := a.WriteArrow(ctx, b); err != nil {
				return err
			}
		}
		return nil
	}
	post := func(c *cluster, key string, bodies ...[]byte) error {
		for _, b := range bodies {
			if code, answer := c.postFile(key, "/api/v1/parca", b); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, answer)
			}
		}
		return nil
	}
	v1 := func(rows []parca.WireRow) (n uint64, dialogue func(a *parcatest.Client) error) {
		samples, locations := parcatest.ArrowV1(rows)
		return uint64(len(samples) + len(locations)), func(a *parcatest.Client) error {
			return a.Write(ctx, samples, func([]byte) []byte { return locations })
		}
	}
	n1, dialogue1 := v1(rows1)
	n2, dialogue2 := v1(rows2)
	otlp1, otlp2 := parcatest.OTLP(rows1), parcatest.OTLP(rows2)
	padata, padata1 := parcatest.Padata(rows1, rows2), parcatest.PadataV1(rows1, rows2)
	for _, form := range []struct {
		tenant string
		alone  bool
		bytes  uint64 // 0: not looked at
		send   func(c *cluster, key string, a, b *parcatest.Client) error
	}{
		{"in-order", false, arrow, func(_ *cluster, _ string, a, _ *parcatest.Client) error { return write(a, one, two) }},
		{"other-way-round", false, arrow, func(_ *cluster, _ string, a, _ *parcatest.Client) error { return write(a, two, one) }},
		{"encoded-anew", true, 0, func(_ *cluster, _ string, a, _ *parcatest.Client) error {
			return write(a, parcatest.Arrow(rows1), parcatest.Arrow(rows2))
		}},
		{"doubled-over-two-gateways", false, arrow, func(_ *cluster, _ string, a, b *parcatest.Client) error {
			var wg sync.WaitGroup
			errs := make(chan error, 4)
			for _, client := range []*parcatest.Client{a, b} {
				for _, batch := range [][]byte{one, two} {
					wg.Go(func() { errs <- write(client, batch) })
				}
			}
			wg.Wait()
			for range 4 {
				if err := <-errs; err != nil {
					return err
				}
			}
			time.Sleep(1500 * time.Millisecond) // JetStream has forgotten them: now the worker must not
			return write(b, two, one, two)
		}},
		{"v1", true, n1 + n2, func(_ *cluster, _ string, a, _ *parcatest.Client) error {
			if err := dialogue1(a); err != nil {
				return err
			}
			return dialogue2(a)
		}},
		{"otlp", true, 0, func(_ *cluster, _ string, a, _ *parcatest.Client) error {
			for _, request := range [][]byte{otlp1, otlp2} {
				if err := a.Export(ctx, request); err != nil {
					return err
				}
			}
			return nil
		}},
		{"padata", true, 0, func(c *cluster, key string, _, _ *parcatest.Client) error { return post(c, key, padata) }},
		{"padata-v1", true, 0, func(c *cluster, key string, _, _ *parcatest.Client) error { return post(c, key, padata1) }},
		{"padata-zst-twice", false, 0, func(c *cluster, key string, _, _ *parcatest.Client) error {
			file := parcaFile(t, "offline_v2.padata.zst")
			return post(c, key, file, file)
		}},
		{"padata-grows", false, 0, func(c *cluster, key string, _, _ *parcatest.Client) error {
			torn := padata[:8+4+int(endian.BigEndian.Uint32(padata[8:]))+100] // the first batch, and the head of the second
			return post(c, key, torn, padata)
		}},
		{"http", true, arrow, func(c *cluster, key string, _, _ *parcatest.Client) error { return post(c, key, one, two, one) }},
	} {
		t.Run(form.tenant, func(t *testing.T) {
			c := shared
			if form.alone {
				c = newCluster(t, 1)
			}
			key := c.makeKey(form.tenant)
			if err := form.send(c, key, c.agent(c.grpcAddr, key), c.agent(second, key)); err != nil {
				t.Fatal(err)
			}
			pc, kernels := parcaSums(t)
			c.checkParca(t, form.tenant, pc, kernels)
			eventually(t, 3*time.Minute, "usage", func() (bool, string) {
				got, err := c.tryRows("SELECT '', toUInt64(sum(events)), toUInt64(sum(rejected)), toUInt64(sum(duplicates)) FROM usage "+
					"WHERE tenant = ? AND source = 'parca'", form.tenant)
				b := got[""]
				return err == nil && len(b) == 3 && b[0]-b[2] == events && b[1] == 0, fmt.Sprint(b, err)
			})
			if form.bytes > 0 {
				c.books(t, form.tenant, events, 0, form.bytes)
			}
			eventually(t, 3*time.Minute, "one process is one session", func() (bool, string) {
				got, err := c.tryRows("SELECT session_id, toUInt64(samples) FROM sessions WHERE tenant = ? AND source = 'parca'", form.tenant)
				return err == nil && len(got) == 1, fmt.Sprint(got, err)
			})
			if c != shared {
				c.auditClean(t)
			}
		})
	}
	t.Run("audit", func(t *testing.T) { shared.auditClean(t) })
}

// What never can be accepted is refused for good, and what may pass is asked for again.
func TestParcaRefusals(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	key := c.makeKey("strict")
	a := c.agent(c.grpcAddr, key)
	a.Retry = parcatest.Retry{Attempts: 2, First: 10 * time.Millisecond, PerTry: 60 * time.Second, Overall: 2 * time.Minute}
	rows := parcaRows(t, "batch1.wire_rows.ndjson")
	whole := parcatest.Arrow(rows)
	nobody := c.agent(c.grpcAddr, "")
	stranger := c.agent(c.grpcAddr, "no-such-key")
	stranger.Retry = a.Retry
	for _, q := range []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"OTLP as proto 1.9 numbers it", func() error { return a.Export(ctx, parcatest.OTLP19(rows)) }, codes.InvalidArgument},
		{"no Arrow", func() error { return a.WriteArrow(ctx, []byte("nonsense")) }, codes.InvalidArgument},
		{"torn Arrow", func() error { return a.WriteArrow(ctx, whole[:len(whole)/2]) }, codes.InvalidArgument},
		{"no key", func() error { return nobody.WriteArrow(ctx, whole) }, codes.Unauthenticated},
		{"WriteRaw", func() error {
			_, err := a.Call(ctx, "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", nil)
			return err
		}, codes.Unimplemented},
		{"a message over 32 MiB", func() error {
			_, err := a.Call(ctx, "/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow", make([]byte, 32<<20+1))
			return err
		}, codes.ResourceExhausted},
	} {
		if err := q.call(); status.Code(err) != q.want {
			t.Errorf("%s: %v, want %v", q.name, err, q.want)
		}
	}
	if err := stranger.WriteArrow(ctx, whole); status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.Unavailable {
		t.Errorf("a key that nobody knows: %v", err) // it may be one that is not loaded yet
	}
	if ok, err := nobody.Healthy(ctx); err != nil || !ok {
		t.Errorf("health: %v, %v", ok, err)
	}
	for kind, name := range map[uint64]string{parcatest.GNUBuildID: "gnu", parcatest.GoBuildID: "go"} {
		if o, err := a.Ask(ctx, "aabbccdd", kind); err != nil || o.Wanted || o.Reason == parcatest.InProgress {
			t.Errorf("a %s build id: %+v, %v", name, o, err)
		}
	}
	cpu := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\x3e\x00" + strings.Repeat("\x00", 100))
	o, err := a.Offer(ctx, fileID(cpu), cpu)
	if !o.Wanted || status.Code(err) != codes.InvalidArgument {
		t.Errorf("a program of the CPU: %+v, %v", o, err)
	}
	if o, err := a.Ask(ctx, fileID(cpu), parcatest.HashBuildID); err != nil || o.Wanted || o.Reason == parcatest.InProgress {
		t.Errorf("the same again: %+v, %v", o, err)
	}
}
