package intrakernel

import (
	"io"
	"strconv"
)

// printer collects text and hands it on in large pieces. The first error is kept, and ends the writing.
type printer struct {
	w   io.Writer
	b   []byte
	err error
}

const printerSize = 1 << 16

func newPrinter(w io.Writer) *printer { return &printer{w: w, b: make([]byte, 0, printerSize+1<<12)} }

// spill writes when there is much.
func (p *printer) spill() {
	if len(p.b) >= printerSize {
		p.flush()
	}
}

// flush writes what there is, and returns the first error.
func (p *printer) flush() error {
	if p.err == nil && len(p.b) > 0 {
		_, p.err = p.w.Write(p.b)
	}
	p.b = p.b[:0]
	return p.err
}

func (p *printer) text(s string) { p.b = append(p.b, s...) }

func (p *printer) uint(before string, n uint64) {
	p.b = strconv.AppendUint(append(p.b, before...), n, 10)
}

func (p *printer) f6(before string, x float64) { p.b = appendF6(append(p.b, before...), x) }

func (p *printer) flag(before string, on bool) {
	n := uint64(0)
	if on {
		n = 1
	}
	p.uint(before, n)
}

// quoted writes s as the peer does: the escapes of JSON with a letter; control characters without one are left out, other bytes stay.
func (p *printer) quoted(before, s string) {
	p.b = append(appendEscaped(append(append(p.b, before...), '"'), s), '"')
}

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c >= 0x20 {
				b = append(b, c)
			}
		}
	}
	return b
}

// name is what a region is called.
func (h *Header) name(region uint16) string {
	if int(region) < len(h.Names) {
		return h.Names[region]
	}
	return strconv.Itoa(int(region))
}

// keyOf is the name of a region in by_block_warp_regions, unless another region has it already.
func keyOf(name string) string {
	b := []byte("region_")
	prefix := len(b)
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			b = append(b, c)
		case len(b) > prefix && b[len(b)-1] != '_':
			b = append(b, '_')
		}
	}
	if len(b) > prefix && b[len(b)-1] == '_' {
		b = b[:len(b)-1]
	}
	if len(b) == prefix {
		b = append(b, "region"...)
	}
	return string(b)
}
