package aggregate

import (
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// However many chunks wait, the notes of them are few, and the bytes stay what they are.
func TestHoldingHoldsLittle(t *testing.T) {
	h, names := newHolding(), newNameBudget(1<<20, newCounters(nil))
	const chunks = 100_000
	for n := range uint64(chunks) {
		h.published(3, n+1, 1000, map[string]uint64{"red": 3, "blue": 1})
	}
	if n := len(h.waiting[3]); n > manyHeldChunks+chunks*1000/heldGrain+2 {
		t.Errorf("%d notes", n)
	}
	of := func(tenant string) int64 { return h.tell("w", names).Tenants[tenant].Rows }
	if of("red") != 750*chunks || of("blue") != 250*chunks {
		t.Errorf("red %d, blue %d of %d", of("red"), of("blue"), 1000*chunks)
	}
	h.inserted(2, chunks)
	h.inserted(3, chunks/2)
	if left := of("red"); left < 750*chunks/2 || left > 750*chunks*6/10 {
		t.Errorf("red has %d after half of %d", left, 750*chunks)
	}
	h.inserted(3, chunks)
	if of("red") != 0 || len(h.waiting) != 0 {
		t.Errorf("red has %d", of("red"))
	}
	h.published(3, chunks+1, 1000, nil) // a chunk without rows
	if len(h.waiting) != 0 {
		t.Error("a chunk without rows waits")
	}
}

// Of very many tenants those are told of that have most, and names count until the bucket has forgotten them.
func TestHoldingTellsOfTheHeaviest(t *testing.T) {
	h, names := newHolding(), newNameBudget(1<<20, newCounters(nil))
	now := time.Unix(1_800_000_000, 0)
	for i := range 3 * stream.HoldingTenants {
		h.named(fmt.Sprint("t", i), 1+i%2*i, now)
	}
	h.published(0, 1, 1<<30, map[string]uint64{"rows": 1, "": 1})
	out := h.tell("w", names)
	if len(out.Tenants) != stream.HoldingTenants || out.Tenants["rows"].Rows == 0 || out.Tenants["t3071"].Record == 0 {
		t.Errorf("%d tenants, rows %+v", len(out.Tenants), out.Tenants["rows"])
	}
	used := stream.Fill{Used: 1, Max: 2}
	h.looked(used, used, now)
	if h.tell("w", names).Tenants["t3071"].Record == 0 {
		t.Error("names of this hour are forgotten")
	}
	h.looked(used, used, now.Add(2*time.Hour))
	if n := len(h.stored); n != 0 {
		t.Errorf("%d hours of names are held that the bucket does not have", n)
	}
}
