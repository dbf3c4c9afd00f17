package parca

import (
	"encoding/binary"

	"github.com/pierrec/lz4/v4"
)

// unpackLZ4 decompresses an LZ4 frame into dst, which it must fill exactly. It allocates nothing.
func unpackLZ4(dst, src []byte) bool {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != 0x184d2204 {
		return false
	}
	flags := src[4]
	if flags>>6 != 1 || flags&1 != 0 { // version; a dictionary id
		return false
	}
	at := 6
	if flags&8 != 0 {
		at += 8
	}
	at++ // checksum of the header
	n := 0
	for {
		if len(src)-at < 4 || at < 0 {
			return false
		}
		size := binary.LittleEndian.Uint32(src[at:])
		at += 4
		if size == 0 {
			return n == len(dst)
		}
		plain := size&(1<<31) != 0
		length := int(size &^ (1 << 31))
		if length > len(src)-at {
			return false
		}
		block := src[at : at+length]
		at += length
		if flags&16 != 0 {
			at += 4
		}
		if plain {
			if length > len(dst)-n {
				return false
			}
			n += copy(dst[n:], block)
			continue
		}
		var wrote int
		var err error
		if flags&32 == 0 && n > 0 { // blocks refer to those before
			wrote, err = lz4.UncompressBlockWithDict(block, dst[n:], dst[max(0, n-64<<10):n])
		} else {
			wrote, err = lz4.UncompressBlock(block, dst[n:])
		}
		if err != nil || wrote < 0 || wrote > len(dst)-n {
			return false
		}
		n += wrote
	}
}
