package pending_test

import (
	"testing"

	"github.com/warpline/warpline/ingest/pending"
)

// However many tenants fill INGEST, each until it has its share, there is room for the next.
func TestRoomLeavesRoom(t *testing.T) {
	const size = 4 << 30
	room, last := pending.Room{Max: size}, int64(size)
	for tenants := 1; tenants <= 4; tenants++ {
		own := int64(0)
		for {
			has, most := room.Share(own)
			if has > most {
				break
			}
			own += 1 << 16
			room.Used += 1 << 16
		}
		if own == 0 || own > last {
			t.Errorf("tenant %d gets %d of %d, the one before %d", tenants, own, size, last)
		}
		if free := room.Max - room.Used; free < own/5 {
			t.Errorf("tenant %d gets %d and leaves %d", tenants, own, free)
		}
		last = own
	}
	if has, most := room.Share(0); has > most {
		t.Error("a tenant that has nothing gets nothing")
	}
}

// What is folded may be gone from INGEST and not in SQL yet: then it does not keep its tenant out.
func TestRoomOfWhatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		used, own int64
		full      bool
	}{
		"all of it is gone":       {0, 8 << 30, false},
		"half of INGEST is full":  {2 << 30, 8 << 30, false},
		"nearly all of it is":     {4<<30 - 1<<20, 8 << 30, true},
		"others fill it":          {4<<30 - 1<<20, 1 << 20, false},
		"others fill it, and one": {4<<30 - 1<<20, 10 << 20, true},
	} {
		if has, most := (pending.Room{Used: c.used, Max: 4 << 30}).Share(c.own); has > most != c.full {
			t.Errorf("%s: has %d of %d", name, has, most)
		}
	}
	if _, most := (pending.Room{Used: 1 << 20, Max: 1 << 20}).Share(1 << 20); most != 0 {
		t.Error("an INGEST of one part is shared out")
	}
	if _, most := (pending.Room{Used: 1 << 40}).Share(1 << 40); most != 0 {
		t.Error("an INGEST without a bound has shares")
	}
}
