package parca

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// How a batch is cut is part of the identity of its parts: gateways of two builds must cut a resent batch alike. If this fails, parts that
// were sent before an upgrade and come again after it count twice.
func TestCutIsFrozen(t *testing.T) {
	var b Batch
	h := sha256.New()
	emit := func(p Piece) error {
		h.Write([]byte(p.Session))
		h.Write(p.Body)
		return nil
	}
	for _, name := range []string{"batch1.v2.lz4.arrows", "hash_collision.v2.lz4.arrows"} {
		if err := b.DecodeArrow(vector(t, name)); err != nil {
			t.Fatal(err)
		}
		_ = b.Cut(emit)
	}
	if err := b.DecodeOTLP(otlpOf(manyRows(40_000), 0)); err != nil {
		t.Fatal(err)
	}
	_ = b.Cut(emit)
	const want = "376f52781b70b2cc26d7f8ce8adc90d26f6044d8abd9acbb81defd51893b464a"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Fatalf("the cut is %s, was %s", got, want)
	}
}
