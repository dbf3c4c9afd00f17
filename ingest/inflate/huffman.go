package inflate

import "encoding/binary"

// fastInput is how many bytes of input the fast loop wants to see: two loads of a word.
const fastInput = 24

// huffman decodes symbols until the block ends, the output buffer is full or the input ends.
func (z *Reader) huffman() error {
	limit := len(z.out) - outSlack
	for {
		if len(z.in)-z.ip < fastInput && z.srcErr == nil {
			z.fillKeeping()
		}
		if end, err := z.fast(limit); end || err != nil {
			return err
		}
		if z.op > limit {
			return nil
		}
		if end, err := z.slow(); end || err != nil {
			return err
		}
	}
}

// fillKeeping reads as much input as fits, keeping the bytes whose bits are in the bit buffer.
func (z *Reader) fillKeeping() {
	back := int(z.n / 8)
	z.ip -= back
	z.more(back + fastInput)
	z.ip += back
}

// fast decodes while there is plenty of input and output. The bit buffer is filled by whole words: bits above n are then bits of the
// bytes at ip, which are or-ed in again, unchanged, by the next fill.
func (z *Reader) fast(limit int) (end bool, err error) {
	in, out := z.in, z.out
	ip, op, acc, n := z.ip, z.op, z.bits, z.n
	lit, dist := &z.lit, &z.dist
	last := len(in) - fastInput
	for ip <= last && op <= limit {
		acc |= binary.LittleEndian.Uint64(in[ip:]) << (n & 63)
		ip += int((63 - n) >> 3)
		n |= 56
		e := lit[acc&(1<<litBits-1)]
		if e&flagLiteral != 0 {
			out[op] = byte(e >> 16)
			op++
			acc >>= e & 63
			n -= uint(e & 63)
			e = lit[acc&(1<<litBits-1)]
			if e&flagLiteral != 0 {
				out[op] = byte(e >> 16)
				op++
				acc >>= e & 63
				n -= uint(e & 63)
				e = lit[acc&(1<<litBits-1)]
				if e&flagLiteral != 0 {
					out[op] = byte(e >> 16)
					op++
					acc >>= e & 63
					n -= uint(e & 63)
					continue
				}
			}
		}
		// At least 34 bits are left: enough for any length.
		if e&(flagSubtable|flagEnd) != 0 {
			if e&flagSubtable != 0 {
				acc >>= litBits
				n -= litBits
				e = lit[(uint64(e>>16)+acc&(1<<(e>>8&15)-1))&uint64(len(lit)-1)]
				if e&flagLiteral != 0 {
					out[op] = byte(e >> 16)
					op++
					acc >>= e & 63
					n -= uint(e & 63)
					continue
				}
			}
			if e&flagEnd != 0 {
				acc >>= e & 63
				n -= uint(e & 63)
				end = true
				break
			}
		}
		if e == 0 {
			err = ErrCorrupt
			break
		}
		length := int(e>>16) + int(acc&(1<<(e&63)-1)>>(e>>8&15))
		acc >>= e & 63
		n -= uint(e & 63)

		acc |= binary.LittleEndian.Uint64(in[ip:]) << (n & 63)
		ip += int((63 - n) >> 3)
		n |= 56
		e = dist[acc&(1<<distBits-1)]
		if e&flagSubtable != 0 {
			acc >>= distBits
			n -= distBits
			e = dist[(uint64(e>>16)+acc&(1<<(e>>8&15)-1))&uint64(len(dist)-1)]
		}
		if e == 0 {
			err = ErrCorrupt
			break
		}
		back := int(e>>16) + int(acc&(1<<(e&63)-1)>>(e>>8&15))
		acc >>= e & 63
		n -= uint(e & 63)
		if back > op {
			err = ErrCorrupt
			break
		}
		op = match(out, op, back, length)
	}
	z.ip, z.op, z.bits, z.n = ip, op, acc, n
	if end {
		z.endBlock()
	}
	return end, err
}

// match repeats length bytes from back bytes before op. It may write up to 8 bytes too many.
func match(out []byte, op, back, length int) int {
	end := op + length
	if back >= 8 {
		src := out[op-back : end-back+8]
		dst := out[op : end+8]
		for len(dst) >= 16 && len(src) >= 16 {
			binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
			dst, src = dst[8:], src[8:]
		}
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
		return end
	}
	if back == 1 {
		b := out[op-1]
		run := out[op:end]
		for i := range run {
			run[i] = b
		}
		return end
	}
	for ; op < end; op++ {
		out[op] = out[op-back]
	}
	return end
}

// slow decodes one symbol, taking the last bits of the input with care.
func (z *Reader) slow() (end bool, err error) {
	z.bits &= 1<<z.n - 1
	for z.n < 48 && z.ip < len(z.in) {
		z.bits |= uint64(z.in[z.ip]) << z.n
		z.ip++
		z.n += 8
	}
	acc, n := z.bits, z.n
	e := z.lit[acc&(1<<litBits-1)]
	if e&flagSubtable != 0 {
		if n < litBits {
			return false, z.short()
		}
		acc >>= litBits
		n -= litBits
		e = z.lit[(uint64(e>>16)+acc&(1<<(e>>8&15)-1))&uint64(len(z.lit)-1)]
	}
	width := uint(e & 63)
	switch {
	case e == 0 && n >= 15:
		return false, ErrCorrupt
	case e == 0 || width > n:
		return false, z.short()
	}
	length := int(e>>16&0x7fff) + int(acc&(1<<width-1)>>(e>>8&15))
	acc >>= width
	n -= width
	if e&flagLiteral != 0 {
		z.out[z.op] = byte(e >> 16)
		z.op++
		z.bits, z.n = acc, n
		return false, nil
	}
	if e&flagEnd != 0 {
		z.bits, z.n = acc, n
		z.endBlock()
		return true, nil
	}
	e = z.dist[acc&(1<<distBits-1)]
	if e&flagSubtable != 0 {
		if n < distBits {
			return false, z.short()
		}
		acc >>= distBits
		n -= distBits
		e = z.dist[(uint64(e>>16)+acc&(1<<(e>>8&15)-1))&uint64(len(z.dist)-1)]
	}
	width = uint(e & 63)
	switch {
	case e == 0 && n >= 15:
		return false, ErrCorrupt
	case e == 0 || width > n:
		return false, z.short()
	}
	back := int(e>>16) + int(acc&(1<<width-1)>>(e>>8&15))
	if back > z.op {
		return false, ErrCorrupt
	}
	z.bits, z.n = acc>>width, n-width
	z.op = match(z.out, z.op, back, length)
	return false, nil
}
