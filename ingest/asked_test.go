package ingest

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/tenant"
)

// receipts is a gateway as far as receipts need one.
func receipts(t testing.TB) *Gateway {
	t.Helper()
	return &Gateway{streams: brokertest.Start(t, broker.DefaultLayout())}
}

// A receipt is opened as it was sealed, by any gateway, with the key and the name that it is of; several become one.
func TestReceipts(t *testing.T) {
	g := receipts(t)
	twin := &Gateway{streams: g.streams} // another process
	ctx := context.Background()
	key := &tenant.Key{ID: "abcdefgh", Tenant: "acme"}
	a := newAsked(key, "mine")
	a.part(3, 20)
	a.part(3, 10)
	a.part(15, 1<<40)
	a.waits(4, 7)
	a.repeat(&window{accepted: 5, rejected: 2})
	first, err := g.sealReceipt(ctx, key, a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := twin.openReceipts(ctx, key, first)
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v, %v; want %+v", got, err, a)
	}
	if want := (seqRange{2, 10, 20}); got.ranges[3] != want || got.repeated != 7 || got.refused != 2 {
		t.Errorf("%+v", got)
	}
	if again, _ := g.sealReceipt(ctx, key, a); again == first {
		t.Error("the same is sealed to the same bytes: they tell something")
	}
	b := newAsked(key, "mine")
	b.part(3, 5)
	b.part(0, 6)
	second, err := twin.sealReceipt(ctx, key, b)
	if err != nil {
		t.Fatal(err)
	}
	both, err := g.openReceipts(ctx, key, first+", "+second+",mine")
	if err != nil || both.ranges[3] != (seqRange{3, 5, 20}) || both.ranges[0] != (seqRange{1, 6, 6}) || len(both.ranges) != 4 {
		t.Errorf("%+v, %v", both, err)
	}
	for what, k := range map[string]*tenant.Key{"another key": {ID: "abcdefgi", Tenant: "acme"},
		"another tenant": {ID: "abcdefgh", Tenant: "acmf"}} {
		if got, err := g.openReceipts(ctx, k, first); err == nil {
			t.Errorf("%s opens it: %+v", what, got)
		}
		if newAsked(k, "mine").id == a.id {
			t.Errorf("%s asks under the same id", what)
		}
	}
	if newAsked(key, "mind").id == a.id {
		t.Error("two names have one id")
	}
}

// What was stored in a first try whose answer was lost is no repeat.
func TestRepeatOfALostAnswer(t *testing.T) {
	for tried, want := range map[int64]uint64{0: 7, 1000: 0, 1001: 7} {
		a := newAsked(&tenant.Key{}, "n")
		a.tried = tried
		a.repeat(&window{accepted: 5, rejected: 2, at: 1000})
		if a.repeated != want {
			t.Errorf("tried at %d: %d repeated, want %d", tried, a.repeated, want)
		}
	}
}

// Whatever a client sends as a receipt is opened as it was sealed or refused, and nothing is allocated for what it claims.
func FuzzReceipt(f *testing.F) {
	g := receipts(f)
	key := &tenant.Key{ID: "k", Tenant: "t"}
	a := newAsked(key, "n")
	a.part(1, 2)
	text, err := g.sealReceipt(context.Background(), key, a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, a.appendTo(nil))
	f.Add(text+","+text, []byte{1, 0, 0, 0, 1, 1, 1, 1, 1})
	f.Add("n.", []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add("n,", []byte{})
	f.Add(strings.Repeat("n,", 70), []byte{2})
	f.Fuzz(func(t *testing.T, text string, plain []byte) {
		if got, err := g.openReceipts(context.Background(), key, text); err == nil {
			if !isUploadName(got.name) || len(got.ranges) > maxReceiptRanges {
				t.Errorf("%q: %+v", text, got)
			}
			for p, s := range got.ranges { // sealed by us alone: what was fuzzed cannot say anything else
				if p != 1 || s.first != 2 || s.last != 2 {
					t.Errorf("%q: %+v", text, got)
				}
			}
		}
		b := newAsked(key, "n")
		if b.parse(plain, 16) != nil {
			return
		}
		again := newAsked(key, "n")
		if err := again.parse(b.appendTo(nil), 16); err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%x: %+v, then %+v, %v", plain, b, again, err)
		}
	})
}
