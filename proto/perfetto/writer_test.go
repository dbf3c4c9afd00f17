package perfetto_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/warpline/warpline/proto/perfetto"
)

// Equal calls give equal bytes, and an error of writing is told at the end. What the bytes say is read back in cmd/warpline/trace.
func TestWriter(t *testing.T) {
	write := func(w io.Writer) error {
		p := perfetto.New(w)
		p.Track(1, 0, "process", 0, false)
		for i := range int64(20000) {
			p.Slice(1, []byte("k"), []byte("kernel"))
			p.Int([]byte("stream"), 7)
			p.Flow(uint64(i))
			p.Send(i)
			p.End(1)
			p.Send(i + 1)
		}
		return p.Flush()
	}
	var a, b bytes.Buffer
	if err := write(&a); err != nil {
		t.Fatal(err)
	}
	if err := write(&b); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("%v: %d and %d bytes", err, a.Len(), b.Len())
	}
	if write(full{}) == nil {
		t.Error("a full disk is not told")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// BenchmarkSlice writes slices with three arguments and an arrow: slices a second on one core.
func BenchmarkSlice(b *testing.B) {
	w := perfetto.New(io.Discard)
	w.Track(1, 0, "stream 7", 0, false)
	name, category := []byte("void cutlass::Kernel<cutlass_80_tensorop>"), []byte("kernel")
	keys := [][]byte{[]byte("stream"), []byte("correlation"), []byte("grid")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Slice(1, name, category)
		w.Int(keys[0], 7)
		w.Int(keys[1], int64(i))
		w.JSON(keys[2], []byte("[128,1,1]"))
		w.Flow(uint64(i))
		w.Send(int64(i) * 1000)
		w.End(1)
		w.Send(int64(i)*1000 + 900)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "slices/s")
}
