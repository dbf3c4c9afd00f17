package ingest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// What stands behind the gzip data of an upload is refused. The upload is acknowledged, so that the sender may delete its copy, only when
// every byte that came can be had again from the parts and the rejects.
func TestJunkBehindGzipIsKeptOrNotAcknowledged(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	plain := ndjson("s", 200)
	packed := compress(t, plain)
	noise := func(n int) []byte { return bytes.Repeat([]byte{0xfe, 0x00, 'x', '\n', 0x1f}, n/5+1)[:n] }
	damaged := bytes.Clone(packed)
	for i := range damaged[20:] {
		damaged[20+i] ^= 0x5a
	}
	for i, c := range []struct {
		name string
		body []byte
		junk int // bytes at the end that are no gzip data
	}{
		{"none", packed, 0},
		{"a byte", append(bytes.Clone(packed), 'x'), 1},
		{"words", append(bytes.Clone(packed), "some words"...), 10},
		{"a line", append(bytes.Clone(packed), "{}\n"...), 3},
		{"zeros", append(bytes.Clone(packed), make([]byte, 512)...), 512},
		{"half a magic", append(bytes.Clone(packed), 0x1f), 1},
		{"a magic", append(bytes.Clone(packed), 0x1f, 0x8b), 2},
		{"a header that ends", append(bytes.Clone(packed), packed[:9]...), 9},
		{"a header alone", append(bytes.Clone(packed), packed[:10]...), 10},
		{"a torn member", append(bytes.Clone(packed), packed[:len(packed)/2]...), len(packed) / 2},
		{"a member without its checksum", append(bytes.Clone(packed), packed[:len(packed)-8]...), len(packed) - 8},
		{"a damaged member", append(bytes.Clone(packed), damaged...), len(packed)},
		{"after two members", append(append(bytes.Clone(packed), packed...), "x"...), 1},
		{"after an unterminated line", append(compress(t, plain[:len(plain)-1]), "words"...), 5},
		{"after nothing", append(compress(t, nil), "words"...), 5},
		{"as much as is kept", append(bytes.Clone(packed), noise(stream.RejectBytes)...), stream.RejectBytes},
		{"a byte more", append(bytes.Clone(packed), noise(stream.RejectBytes+1)...), stream.RejectBytes + 1},
		{"much more", append(bytes.Clone(packed), noise(3<<20)...), 3 << 20},
		{"a member behind it", append(append(bytes.Clone(packed), "words"...), packed...), 5 + len(packed)},
	} {
		for _, how := range []string{"with a window", "without"} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				r.t = t
				session := fmt.Sprintf("s-%d-%s", i, how)
				headers := []string{"Content-Encoding", "gzip"}
				if how == "with a window" {
					headers = window("w", "device", 1, c.body)
				}
				before := len(r.published())
				a := r.post(session, c.body, headers...)
				if a.status != http.StatusOK {
					t.Fatalf("%d %s", a.status, a.raw)
				}
				refused := 0
				for _, m := range r.published()[before:] {
					if m.Kind == stream.KindReject {
						refused += len(m.body)
						if c.junk > 0 && !bytes.HasSuffix(c.body, m.body) && len(m.body) == c.junk {
							t.Errorf("the reject holds other bytes than came")
						}
					}
				}
				if kept := refused == c.junk; a.Whole && !kept || c.junk == 0 && !a.Whole {
					t.Errorf("%d of %d bytes behind the data are kept, the answer is %s", refused, c.junk, a.raw)
				}
				if again := r.post(session, c.body, headers...); again.Whole != a.Whole {
					t.Errorf("again: %s, first: %s", again.raw, a.raw)
				}
				r.balanced()
			})
		}
	}
}

// A line of legacy mode is kept whole, or it is not acknowledged.
func TestJunkBehindAGzipLine(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	packed := compress(t, []byte(wrap(`{"type":"kernel_detail","session_id":"s","corr_id":1}`)))
	for i, junk := range []string{"", "x", "some words", "\x1f\x8b", strings.Repeat("x", stream.RejectBytes),
		strings.Repeat("x", stream.RejectBytes+1), string(packed[:len(packed)/2])} {
		before := len(r.published())
		a := r.do(http.MethodPost, "/api/v1/events/kernel_detail", strings.NewReader(string(packed)+junk), "Content-Encoding", "gzip")
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		size := 0
		for _, m := range r.published()[before:] {
			if m.Kind == stream.KindReject {
				size += len(m.body)
			}
		}
		if a.Whole && junk != "" && size < len(junk) {
			t.Errorf("case %d: %d bytes behind the line are kept as %d, the answer is %s", i, len(junk), size, a.raw)
		}
	}
}
