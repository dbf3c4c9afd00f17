package inflate_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/warpline/warpline/ingest/inflate"
)

// readAll reads all members.
func readAll(src io.Reader, chunk int) (out []byte, err error) {
	var z inflate.Reader
	z.Reset(src)
	buf := make([]byte, chunk)
	for {
		if err := z.NextMember(); err != nil {
			return out, err
		}
		for {
			n, err := z.Read(buf)
			out = append(out, buf[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				return out, err
			}
		}
	}
}

func pack(t testing.TB, level int, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// samples are texts of many shapes: literals only, long and short matches, all distances, incompressible, empty.
func samples() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 700_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var digits, far bytes.Buffer
	for i := range 60_000 {
		fmt.Fprintf(&digits, "[%d,%d,7,%d],", i*17, rng.IntN(500), rng.IntN(100_000))
	}
	for range 400 {
		far.Write(noise[rng.IntN(30_000):][:rng.IntN(2000)])
	}
	skewed := make([]byte, 300_000) // very unequal frequencies make the longest codes
	for i := range skewed {
		skewed[i] = byte(min(rng.ExpFloat64()*12, 255))
		if rng.IntN(20_000) == 0 {
			skewed[i] = byte(rng.Uint32())
		}
	}
	return map[string][]byte{
		"empty": nil, "one": {7}, "noise": noise, "digits": digits.Bytes(), "far": far.Bytes(), "skewed": skewed,
		"run": bytes.Repeat([]byte{'x'}, 1_000_000), "pairs": bytes.Repeat([]byte("ab"), 500_000),
		"sevens": bytes.Repeat([]byte("abcdefg"), 100_000),
		"eights": bytes.Repeat([]byte("abcdefgh"), 100_000),
	}
}

func TestReader(t *testing.T) {
	for name, data := range samples() {
		for _, level := range []int{gzip.HuffmanOnly, gzip.NoCompression, 1, 6, 9} {
			packed := pack(t, level, data)
			twice := append(bytes.Clone(packed), packed...)
			for kind, src := range map[string]io.Reader{
				"at once": bytes.NewReader(twice), "halves": iotest.HalfReader(bytes.NewReader(twice)),
				"last with EOF": iotest.DataErrReader(bytes.NewReader(twice)),
			} {
				out, err := readAll(src, 70_000)
				if err != io.EOF || !bytes.Equal(out, append(bytes.Clone(data), data...)) {
					t.Errorf("%s, level %d, %s: %d bytes, %v", name, level, kind, len(out), err)
				}
			}
		}
	}
}

// Every place where a body may be torn: what comes before is right, and the error says torn.
func TestTorn(t *testing.T) {
	data := samples()["digits"][:3000]
	packed := pack(t, 6, data)
	most := 0
	for n := range packed {
		out, err := readAll(bytes.NewReader(packed[:n]), 1000)
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		} else if n < 10+2+5+5+8 { // header with extra field, name and comment
			want = inflate.ErrHeader
		}
		if !errors.Is(err, want) || !bytes.HasPrefix(data, out) {
			t.Fatalf("%d of %d bytes: %d out, %v, want %v", n, len(packed), len(out), err, want)
		}
		if len(out) < most {
			t.Fatalf("%d of %d bytes give %d out, fewer gave %d", n, len(packed), len(out), most)
		}
		most = len(out)
	}
	if most != len(data) {
		t.Errorf("without the last byte of the trailer, %d of %d bytes came out", most, len(data))
	}
}

func TestOffsetAndHeader(t *testing.T) {
	packed := pack(t, 6, []byte("hello"))
	var z inflate.Reader
	z.Reset(bytes.NewReader(append(bytes.Clone(packed), "garbage"...)))
	if err := z.NextMember(); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(&z); err != nil || string(out) != "hello" {
		t.Fatal(out, err)
	}
	if err := z.NextMember(); err != inflate.ErrHeader || z.Offset() != int64(len(packed)) {
		t.Errorf("%v at %d, want ErrHeader at %d", err, z.Offset(), len(packed))
	}
}

// Any bytes: the same verdict as the standard library's, and the same bytes where both succeed.
func FuzzReader(f *testing.F) {
	for _, data := range samples() {
		for _, level := range []int{gzip.HuffmanOnly, 1, 9} {
			f.Add(pack(f, level, data[:min(len(data), 3000)]), uint8(level))
		}
	}
	f.Fuzz(func(t *testing.T, packed []byte, chunk uint8) {
		var want []byte
		zr, wantErr := gzip.NewReader(bytes.NewReader(packed))
		if wantErr == nil {
			want, wantErr = io.ReadAll(io.LimitReader(zr, 32<<20))
		}
		out, err := readAll(bytes.NewReader(packed), 1+int(chunk)<<4)
		if err == io.EOF && len(packed) > 0 {
			err = nil
		}
		if err == nil && wantErr == gzip.ErrHeader && len(packed) > 512 {
			t.Skip("the standard library refuses names over 512 bytes, which the format does not")
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%d bytes, %v; the standard library: %d bytes, %v", len(out), err, len(want), wantErr)
		}
		if err == nil && !bytes.Equal(out, want) {
			t.Fatal("other bytes than the standard library's")
		}
		if n := min(len(out), len(want)); !errors.Is(err, inflate.ErrChecksum) && !bytes.Equal(out[:n], want[:n]) {
			t.Fatal("another beginning than the standard library's")
		}
	})
}

func BenchmarkReader(b *testing.B) {
	data := samples()["digits"]
	packed := pack(b, 6, data)
	var z inflate.Reader
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		z.Reset(bytes.NewReader(packed))
		if err := z.NextMember(); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := z.Read(buf); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
