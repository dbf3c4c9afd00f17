// Package inflate reads gzip (RFC 1951, RFC 1952) for the gateway, where decompressing is the largest single cost.
//
// It differs from a general reader in what it is given: it reads from memory or a file in large steps, so it may look ahead, and it keeps
// its history in the buffer that it decodes into. Its decoder takes several symbols from one load of input. Start with Reader.
//
// It is here only because it costs less. With the reader of klauspost/compress the roles take some 12 % more of the processors for the same
// kernels (warpline bench, columnar). BenchmarkStages of package ingest has the two side by side.
package inflate

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Errors of Reader. A body that ends too early is io.ErrUnexpectedEOF.
var (
	// ErrHeader says that the bytes at hand do not begin a gzip member.
	ErrHeader = errors.New("no gzip header")
	// ErrCorrupt says that the compressed data makes no sense.
	ErrCorrupt = errors.New("damaged deflate data")
	// ErrChecksum says that the decompressed bytes are not what was compressed.
	ErrChecksum = errors.New("wrong gzip checksum")
)

const (
	inSize   = 64 << 10
	window   = 32 << 10
	outSize  = window + 256<<10
	outSlack = 320 // what one step of the decoder may write, and the overshoot of copying by words
)

type state byte

const (
	betweenMembers state = iota
	atBlock              // a block header comes next
	inStored
	inHuffman
	atTrailer
)

// Reader reads gzip members one by one: NextMember, then Read until io.EOF, and again. The zero value needs Reset. It holds
// about 400 KiB and may be reused. It is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	srcErr error
	base   int64 // offset of in[0]
	in     []byte
	ip     int // next byte of in
	bits   uint64
	n      uint // valid bits in bits

	out    []byte
	rp, op int // delivered up to, decoded up to

	state  state
	final  bool
	stored int // bytes left of a stored block
	crc    uint32
	size   uint32
	err    error

	inBuf  [inSize]byte
	outBuf [outSize]byte
	lit    litTable
	dist   distTable
}

// Reset makes the reader ready for another source. It does not read yet.
func (z *Reader) Reset(src io.Reader) {
	z.src, z.srcErr, z.base, z.in, z.ip, z.bits, z.n = src, nil, 0, z.inBuf[:0], 0, 0, 0
	z.out, z.rp, z.op, z.state, z.err = z.outBuf[:], 0, 0, betweenMembers, nil
}

// Offset returns how many bytes of the source belong to what was read so far. Between members it is exact.
func (z *Reader) Offset() int64 { return z.base + int64(z.ip) - int64(z.n/8) }

// more reads until min bytes are at hand; it reports false when the source ends before.
func (z *Reader) more(min int) bool {
	for len(z.in)-z.ip < min {
		if z.srcErr != nil {
			return false
		}
		left := copy(z.inBuf[:], z.in[z.ip:])
		z.base += int64(z.ip)
		z.ip = 0
		var n int
		n, z.srcErr = z.src.Read(z.inBuf[left:])
		z.in = z.inBuf[:left+n]
	}
	return true
}

// short is the error for a source that ended where more was expected.
func (z *Reader) short() error {
	if z.srcErr != nil && z.srcErr != io.EOF {
		return z.srcErr
	}
	return io.ErrUnexpectedEOF
}

// NextMember reads a member's header. It returns io.EOF at the end of the source and ErrHeader where no header stands; Offset then is
// where it was expected.
func (z *Reader) NextMember() error {
	if z.state != betweenMembers {
		return errors.New("inflate: the member before was not read to its end")
	}
	if !z.more(1) {
		if z.srcErr != io.EOF {
			return z.srcErr
		}
		return io.EOF
	}
	n, err := z.header()
	if err != nil {
		if z.srcErr != nil && z.srcErr != io.EOF {
			return z.srcErr
		}
		return err
	}
	z.ip += n
	z.bits, z.n, z.rp, z.op, z.crc, z.size, z.final, z.state, z.err = 0, 0, 0, 0, 0, 0, false, atBlock, nil
	return nil
}

// maxHeader bounds a member's header: with longer names or comments it does not count as gzip. It must fit the input buffer.
const maxHeader = 32 << 10

// header returns the length of the header at hand without taking it.
func (z *Reader) header() (int, error) {
	if !z.more(10) {
		return 0, ErrHeader
	}
	h := z.in[z.ip:]
	// Reserved flags are ignored, as by the standard library: the checksum at the end tells whether the bytes are right.
	if h[0] != 0x1f || h[1] != 0x8b || h[2] != 8 {
		return 0, ErrHeader
	}
	flags, n := h[3], 10
	if flags&4 != 0 { // extra field
		if !z.more(n + 2) {
			return 0, ErrHeader
		}
		n += 2 + int(binary.LittleEndian.Uint16(z.in[z.ip+n:]))
		if n > maxHeader || !z.more(n) {
			return 0, ErrHeader
		}
	}
	for _, flag := range [...]byte{8, 16} { // name, comment: to a zero byte
		for done := flags&flag == 0; !done; n++ {
			if n >= maxHeader || !z.more(n+1) {
				return 0, ErrHeader
			}
			done = z.in[z.ip+n] == 0
		}
	}
	if flags&2 != 0 { // header CRC
		if !z.more(n + 2) {
			return 0, ErrHeader
		}
		if binary.LittleEndian.Uint16(z.in[z.ip+n:]) != uint16(crc32.ChecksumIEEE(z.in[z.ip:z.ip+n])) {
			return 0, ErrHeader
		}
		n += 2
	}
	return n, nil
}

// Read gives the bytes of the member. io.EOF says that the member ended and its checksum was right.
func (z *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for z.rp == z.op {
		if z.err != nil {
			return 0, z.err
		}
		z.step()
	}
	n := copy(p, z.out[z.rp:z.op])
	z.crc = crc32.Update(z.crc, crc32.IEEETable, p[:n])
	z.size += uint32(n)
	z.rp += n
	return n, nil
}

// step decodes more output, or sets err.
func (z *Reader) step() {
	if z.op > len(z.out)-outSlack { // all is delivered: keep the window
		copy(z.out, z.out[z.op-window:z.op])
		z.rp, z.op = window, window
	}
	switch z.state {
	case atBlock:
		z.err = z.block()
	case inStored:
		z.err = z.copyStored()
	case inHuffman:
		z.err = z.huffman()
	case atTrailer:
		z.err = z.trailer()
	case betweenMembers:
		z.err = io.EOF
	}
}

// endBlock goes to what follows a block.
func (z *Reader) endBlock() {
	z.state = atBlock
	if z.final {
		z.state = atTrailer
	}
}

// align gives whole bytes in the bit buffer back to the input.
func (z *Reader) align() {
	z.ip -= int(z.n / 8)
	z.bits, z.n = 0, 0
}

func (z *Reader) trailer() error {
	z.align()
	if !z.more(8) {
		return z.short()
	}
	crc, size := binary.LittleEndian.Uint32(z.in[z.ip:]), binary.LittleEndian.Uint32(z.in[z.ip+4:])
	z.ip += 8
	if crc != z.crc || size != z.size {
		return ErrChecksum
	}
	z.state = betweenMembers
	return io.EOF
}

// need makes sure of n bits, at most 32.
func (z *Reader) need(n uint) bool {
	for z.n < n {
		if z.ip == len(z.in) {
			// The bits at hand came from in[:ip], which more forgets; align only steps back over whole bytes it still has.
			if !z.moreKeeping() {
				return false
			}
		}
		z.bits |= uint64(z.in[z.ip]) << z.n
		z.ip++
		z.n += 8
	}
	return true
}

// moreKeeping reads more input and keeps the bytes whose bits are still in the bit buffer, so that align can step back.
func (z *Reader) moreKeeping() bool {
	back := int(z.n / 8)
	z.ip -= back
	ok := z.more(back + 1)
	z.ip += back
	return ok
}

func (z *Reader) take(n uint) uint32 {
	v := uint32(z.bits & (1<<n - 1))
	z.bits >>= n
	z.n -= n
	return v
}

func (z *Reader) block() error {
	// Bits above n may be set by the word-wise refill of the decoder; here only n count.
	z.bits &= 1<<z.n - 1
	if !z.need(3) {
		return z.short()
	}
	z.final = z.take(1) == 1
	switch z.take(2) {
	case 0:
		z.align()
		if !z.more(4) {
			return z.short()
		}
		n, inv := binary.LittleEndian.Uint16(z.in[z.ip:]), binary.LittleEndian.Uint16(z.in[z.ip+2:])
		z.ip += 4
		if n != ^inv {
			return ErrCorrupt
		}
		z.stored, z.state = int(n), inStored
		return nil
	case 1:
		z.lit, z.dist = *fixedLit(), *fixedDist()
		z.state = inHuffman
		return nil
	case 2:
		if err := z.codes(); err != nil {
			return err
		}
		z.state = inHuffman
		return nil
	}
	return ErrCorrupt
}

func (z *Reader) copyStored() error {
	if z.stored == 0 {
		z.endBlock()
		return nil
	}
	if !z.more(1) {
		return z.short()
	}
	n := copy(z.out[z.op:len(z.out)-outSlack+1], z.in[z.ip:min(len(z.in), z.ip+z.stored)])
	z.op += n
	z.ip += n
	z.stored -= n
	return nil
}
