package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits for several at once gets them as soon as they are there, in order, and leaves nothing behind when it goes.
func TestPoolOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(8, 4)
		got := make(chan string, 3)
		ask := func(ctx context.Context, tenant, name string, n int64) {
			go func() {
				if p.waitFor(ctx, tenant, n, 0) != nil {
					name += " left"
				}
				got <- name
			}()
			synctest.Wait()
		}
		if !p.take("loud", 2) || !p.take("loud", 2) || p.take("loud", 1) {
			t.Fatal("a tenant has half of the pool, and not more")
		}
		if !p.take("quiet", 2) {
			t.Fatal("another tenant has what the first leaves it")
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ask(soon, "loud", "first", 4)
		ask(t.Context(), "loud", "second", 2)
		p.give("loud", 2)
		synctest.Wait()
		if len(got) > 0 || p.take("loud", 1) {
			t.Fatal("who asks for less went before who had asked earlier")
		}
		if name := <-got; name != "first left" {
			t.Fatalf("%s, want the first to leave", name)
		}
		if name := <-got; name != "second" {
			t.Fatalf("%s", name)
		}
		p.give("loud", 4)
		p.give("quiet", 2)
		if p.inUse() != 0 || len(p.own) != 0 || len(p.queue) != 0 {
			t.Errorf("left behind: %d used, %v, %v", p.inUse(), p.own, p.queue)
		}
	})
}
