package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

// load puts a tenant's parts of 1 MiB into partition 0, the first at a sequence.
func load(b *backlog, tenant string, first uint64, parts int) {
	for i := range parts {
		b.sent(tenant, mib)
		b.stored(tenant, 0, first+uint64(i), mib, mib/4)
	}
}

// waited is how long the tenant's next part waits.
func waited(t *testing.T, b *backlog, tenant string) time.Duration {
	t.Helper()
	took, err := b.wait(t.Context(), tenant, uploadPatience)
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// Who waits, and for how long.
func TestBacklog(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *backlog)
		of   string
		want time.Duration
	}{
		{"a tenant that sends alone does not wait while 192 MiB are on their way", func(b *backlog) { load(b, "loud", 1, 192) }, "loud", 0},
		{"but with more, which the next tenant would come behind", func(b *backlog) { load(b, "loud", 1, 193) }, "loud", mostWait},
		{"also where nothing was on its way for long before", func(b *backlog) {
			time.Sleep(20 * stillAfter)
			load(b, "loud", 1, 193)
		}, "loud", mostWait},
		{"while nothing comes into ClickHouse it does not", func(b *backlog) {
			load(b, "loud", 1, 1)
			time.Sleep(stillAfter + time.Second)
			load(b, "loud", 2, 1000)
		}, "loud", 0},
		{"beside another it does", func(b *backlog) { load(b, "loud", 1, 100); load(b, "quiet", 101, 1) }, "loud", mostWait},
		{"the other does not", func(b *backlog) { load(b, "quiet", 1, 1); load(b, "loud", 2, 100) }, "quiet", 0},
		{"up to 8 MiB nobody waits", func(b *backlog) { load(b, "loud", 1, 8); load(b, "quiet", 9, 1) }, "loud", 0},
		{"bytes that are not acknowledged yet count", func(b *backlog) { b.sent("loud", 9*mib); load(b, "quiet", 1, 1) }, "loud", mostWait},
		{"what was not stored does not", func(b *backlog) {
			b.sent("loud", 9*mib)
			b.stored("loud", 0, 0, 9*mib, 0)
			load(b, "quiet", 1, 1)
		}, "loud", 0},
		{"what is in ClickHouse does not", func(b *backlog) {
			load(b, "loud", 1, 100)
			load(b, "quiet", 101, 1)
			b.reach(0, 95)
		}, "loud", 0},
		{"another partition does not help", func(b *backlog) {
			load(b, "loud", 1, 100)
			load(b, "quiet", 101, 1)
			b.reach(1, 500)
		}, "loud", mostWait},
		{"a repeat that JetStream had, and ClickHouse has, is paid at once", func(b *backlog) {
			b.reach(0, 200)
			load(b, "loud", 1, 100)
			load(b, "quiet", 201, 1)
		}, "loud", 0},
		{"after ten seconds of silence the other does not count", func(b *backlog) {
			load(b, "quiet", 1, 1)
			load(b, "loud", 2, 30)
			time.Sleep(sharedFor)
			load(b, "loud", 32, 30)
			b.reach(2, 1)
		}, "loud", 0},
		{"while nothing comes into ClickHouse nobody waits: the stream is there to be filled", func(b *backlog) {
			load(b, "loud", 1, 100)
			time.Sleep(stillAfter + time.Second)
			load(b, "quiet", 101, 1)
		}, "loud", 0},
		{"a stream that was made anew owes nothing of the old one", func(b *backlog) {
			b.reach(0, 1000)
			load(b, "loud", 1001, 100)
			load(b, "quiet", 1101, 1)
			b.reach(0, 3)
		}, "loud", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backlog{}
				b.reach(7, 1)
				c.do(b)
				if got := waited(t, b, c.of); got != c.want {
					t.Errorf("waited %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A part that waits goes on as soon as enough is in ClickHouse, and when its request ends.
func TestBacklogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{}
		b.reach(7, 1)
		load(b, "loud", 1, 100)
		load(b, "quiet", 101, 1)
		go func() {
			time.Sleep(100 * time.Millisecond)
			b.reach(0, 50)
			time.Sleep(100 * time.Millisecond)
			b.reach(0, 99)
		}()
		if got := waited(t, b, "loud"); got != 200*time.Millisecond {
			t.Errorf("waited %v, want until 99 of 100 MiB were in ClickHouse", got)
		}
		load(b, "loud", 200, 100)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := b.wait(ctx, "loud", uploadPatience); err == nil {
			t.Error("the end of the request does not end the wait")
		}
	})
}

// However many parts an upload has, and however slow the service is, they wait for so long together.
func TestBacklogUploadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{}
		load(b, "loud", 1, 100)
		began, all := time.Now(), time.Duration(0)
		for part := range uint64(10_000) {
			load(b, "quiet", 1_000+part, 1)
			b.reach(7, part+1) // something comes into ClickHouse, and nothing of this tenant's
			waited, err := b.wait(t.Context(), "loud", uploadPatience-all)
			if err != nil {
				t.Fatal(err)
			}
			all += waited
		}
		if took := time.Since(began); took != uploadPatience || all != took {
			t.Errorf("waited %v in %v, want %v", all, took, uploadPatience)
		}
	})
}

// A tenant beside others may have on its way what came into ClickHouse of it in sharedDelay: a fast service is used.
func TestBacklogFollowsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{}
		seq := uint64(0)
		for range 100 { // 100 MiB a second
			load(b, "loud", seq+1, 10)
			load(b, "quiet", seq+11, 1)
			seq += 11
			time.Sleep(100 * time.Millisecond)
			b.reach(0, seq-1)
		}
		load(b, "loud", seq+1, 50)
		if got := waited(t, b, "loud"); got != 0 {
			t.Errorf("50 MiB on their way at 100 MiB/s: waited %v", got)
		}
		load(b, "loud", seq+51, 50)
		if got := waited(t, b, "loud"); got != mostWait {
			t.Errorf("100 MiB on their way at 100 MiB/s: waited %v, want %v", got, mostWait)
		}
	})
}

// So may one that sends alone, what came in aloneDelay.
func TestBacklogAloneFollowsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, seq := &backlog{}, uint64(0)
		for range 50 { // 100 MiB a second
			load(b, "loud", seq+1, 10)
			seq += 10
			time.Sleep(100 * time.Millisecond)
			b.reach(0, seq)
		}
		load(b, "loud", seq+1, 400)
		if got := waited(t, b, "loud"); got != 0 {
			t.Errorf("400 MiB on their way at 100 MiB/s: waited %v", got)
		}
		load(b, "loud", seq+401, 30)
		if got := waited(t, b, "loud"); got != mostWait {
			t.Errorf("430 MiB on their way at 100 MiB/s: waited %v, want %v", got, mostWait)
		}
		b.reach(0, seq+430)
		if b.all != 0 {
			t.Errorf("%d bytes are on their way after all is in ClickHouse", b.all)
		}
	})
}

// What is held of a backlog is bounded by its bytes, not by its parts, and nothing of a tenant that is silent.
func TestBacklogHoldsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{}
		for i := range 100_000 {
			b.sent("tiny", 100)
			b.stored("tiny", i%16, uint64(i+1), 100, 100)
		}
		held := 0
		for _, parts := range b.by["tiny"].parts {
			held += len(parts)
		}
		if most := 100_000*100/backlogGrain + 16; held > most {
			t.Errorf("%d notes of 10 MB in 16 partitions, want at most %d", held, most)
		}
		for p := range 16 {
			b.reach(p, 100_001)
		}
		time.Sleep(sharedFor + time.Second)
		b.reach(0, 100_002)
		if len(b.by) != 0 {
			t.Errorf("%d tenants are still noted", len(b.by))
		}
	})
}

// Tenants that cut as many uploads as they may leave some for others: a fifth and a sixth do not wait for their first.
func TestCutsAreLeftForTheNextTenant(t *testing.T) {
	cuts := newPool(cutsAtOnce, cutsPerTenant)
	for _, tenant := range []string{"a", "b", "c", "d", "e", "f"} {
		if !cuts.take(tenant, 1) {
			t.Errorf("tenant %s gets none", tenant)
		}
		for cuts.take(tenant, 1) {
		}
	}
}
