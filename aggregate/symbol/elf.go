package symbol

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Sizes of ELF64 records.
const (
	headerBytes, sectionBytes, symbolBytes = 64, 64, 24
	typeNoBits, symbolFunc, entryPoint     = 8, 2, 0x10
	maxSections                            = 1 << 17
	// maxNameBytes bounds the name of a function; a cubin with a longer one is corrupt.
	maxNameBytes = 32 << 10
)

// object is the parts of an ELF file that matter here. debug/elf refuses cubins of ABI V1, and sections are found by name because the agent
// does not mend their indices when it strips.
type object struct {
	elf                       []byte
	symtab, strtab, line, str []byte
	rel, rela, note           []byte
	hasText, textBytes        bool // there are sections of code, and they have bytes
	spare                     int  // bytes of names that may still be read
}

// openObject reads the section headers.
func openObject(elf []byte) (*object, error) {
	if !IsCubin(elf) || len(elf) < headerBytes {
		return nil, corrupt("it does not begin as an ELF file of CUDA does")
	}
	le := binary.LittleEndian
	off, size, n, names := le.Uint64(elf[40:]), le.Uint16(elf[58:]), uint64(le.Uint16(elf[60:])), uint64(le.Uint16(elf[62:]))
	if size != sectionBytes || off > uint64(len(elf)) || uint64(len(elf))-off < sectionBytes {
		return nil, corrupt("its section headers are beyond the file")
	}
	table := elf[off:]
	if n == 0 { // more than fit the header
		n = le.Uint64(table[32:])
	}
	if names == 0xffff {
		names = uint64(le.Uint32(table[40:]))
	}
	if n > maxSections || n > uint64(len(table))/sectionBytes || names >= n {
		return nil, corrupt("%d section headers, with names in section %d, do not fit the file", n, names)
	}
	o := &object{elf: elf, spare: 4*len(elf) + 1<<16}
	texts, err := o.section(table[names*sectionBytes:])
	if err != nil {
		return nil, err
	}
	for i := range n {
		h := table[i*sectionBytes : (i+1)*sectionBytes]
		at := le.Uint32(h)
		if uint64(at) >= uint64(len(texts)) {
			continue
		}
		if err := o.take(texts[at:], h); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// section returns the bytes of a section, none for one that has only a size.
func (o *object) section(h []byte) ([]byte, error) {
	le := binary.LittleEndian
	if le.Uint32(h[4:]) == typeNoBits {
		return nil, nil
	}
	off, size := le.Uint64(h[24:]), le.Uint64(h[32:])
	if off > uint64(len(o.elf)) || size > uint64(len(o.elf))-off {
		return nil, corrupt("a section of %d bytes at %d is beyond the file of %d bytes", size, off, len(o.elf))
	}
	return o.elf[off : off+size], nil
}

// take keeps a section if it is one that matters. text begins with its name.
func (o *object) take(text, h []byte) (err error) {
	const longest = len(".rela.debug_line") + 1
	name := string(text[:min(len(text), longest)])
	if strings.HasPrefix(name, ".text.") {
		o.hasText = true
		o.textBytes = o.textBytes || binary.LittleEndian.Uint32(h[4:]) != typeNoBits
		return nil
	}
	name, _, _ = strings.Cut(name, "\x00")
	var to *[]byte
	switch name {
	case ".symtab":
		to = &o.symtab
	case ".strtab":
		to = &o.strtab
	case ".debug_line":
		to = &o.line
	case ".debug_str":
		to = &o.str
	case ".rel.debug_line":
		to = &o.rel
	case ".rela.debug_line":
		to = &o.rela
	case ".note.nv.cuinfo":
		to = &o.note
	default:
		return nil
	}
	if *to == nil {
		*to, err = o.section(h)
	}
	return err
}

// name reads the text at an offset of a table. The sum of all names is bounded, since they may overlap.
func (o *object) name(table []byte, at uint64) (string, error) {
	if at >= uint64(len(table)) {
		return "", corrupt("a name is at %d of %d bytes", at, len(table))
	}
	text := table[at:]
	n := bytes.IndexByte(text[:min(len(text), maxNameBytes+1)], 0)
	if n < 0 {
		return "", corrupt("a name has no end, or is over %d bytes", maxNameBytes)
	}
	if o.spare -= n; o.spare < 0 {
		return "", corrupt("its names overlap: they are far longer than the file")
	}
	return string(text[:n]), nil
}

// sm returns the architecture: from the header, which the agent empties when it strips, or from a note.
func (o *object) sm() uint32 {
	le := binary.LittleEndian
	flags := le.Uint32(o.elf[48:])
	sm := flags & 0xff
	if o.elf[8] >= 8 { // EI_ABIVERSION of ABI V2
		sm = flags >> 8 & 0xff
	}
	if sm == 0 && len(o.note) >= 12 {
		skip := 12 + (uint64(le.Uint32(o.note))+3)&^3
		if skip+4 <= uint64(len(o.note)) {
			sm = uint32(le.Uint16(o.note[skip+2:]))
		}
	}
	return sm
}

// whole reports whether the code is there.
func (o *object) whole() bool {
	if o.hasText {
		return o.textBytes
	}
	return binary.LittleEndian.Uint32(o.elf[48:]) != 0
}
