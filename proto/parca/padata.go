package parca

import (
	"encoding/binary"
	"fmt"
	"io"
)

// maxRecordBytes bounds one record of an offline file.
const maxRecordBytes = 64 << 20

// padataMagic begins an offline file; two bytes of version 0 and two of a count follow. The count may lag behind the
// file, so it is not used.
const padataMagic = "\xa6\xe7\xcc\xca"

// IsPadata says whether bytes begin an offline file of the agent, not compressed.
func IsPadata(first []byte) bool { return len(first) >= 4 && string(first[:4]) == padataMagic }

// Padata reads the batches of an offline file of the agent. One goroutine at a time may use it.
type Padata struct {
	r       io.ReaderAt
	size    int64
	at      int64
	known   bool // whether it is v1 or v2
	v1      bool
	samples []byte
	locs    []byte
	earlier map[[16]byte]int32 // v1: which record of locations has a stack
	records []span             // v1: records of locations
	m       uploadMemory
}

type span struct {
	at int64
	n  int
}

// TornError says that a file ends within a batch: it still grows, or its writer was stopped. All batches before At are whole.
type TornError struct{ At int64 } // bytes from the start

func (e *TornError) Error() string {
	return fmt.Sprintf("the file ends within a batch that begins at byte %d; what is before is whole", e.At)
}

// NewPadata opens an offline file of size bytes, decompressed.
func NewPadata(r io.ReaderAt, size int64) (*Padata, error) {
	var head [8]byte
	if size < int64(len(head)) {
		return nil, &TornError{}
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if !IsPadata(head[:]) {
		return nil, corrupt("it is no .padata file: it begins with %x", head[:4])
	}
	if v := binary.BigEndian.Uint16(head[4:]); v != 0 {
		return nil, &Error{Code: CodeSchema, Detail: fmt.Sprintf(".padata files of version %d are not known, only of version 0", v)}
	}
	return &Padata{r: r, size: size, at: 8}, nil
}

// Next gives the IPC streams of the next batch: one of schema v2 for DecodeArrow; or samples and locations of schema v1 for DecodeArrowV1,
// the locations followed by those of earlier batches that the samples refer to. They are valid until the next call. After the last it
// returns io.EOF, or a *[TornError] where the file is cut off. Other errors are an *[Error], or the reader's.
func (p *Padata) Next() (ipc [][]byte, err error) {
	if p.at == p.size {
		return nil, io.EOF
	}
	start := p.at
	if p.samples, err = p.record(p.samples[:0], start); err != nil {
		return nil, err
	}
	if !p.known {
		p.m.begin(len(p.samples))
		s, err := openStream(&p.m, p.samples)
		if err != nil {
			return nil, err
		}
		p.known, p.v1 = true, isV1(s)
	}
	if !p.v1 {
		return [][]byte{p.samples}, nil
	}
	from := p.at + 4
	if p.locs, err = p.record(p.locs[:0], start); err != nil {
		p.at = start
		return nil, err
	}
	if err := p.handForward(from); err != nil {
		return nil, err
	}
	return [][]byte{p.samples, p.locs}, nil
}

// record reads the record at p.at behind dst.
func (p *Padata) record(dst []byte, start int64) ([]byte, error) {
	var size [4]byte
	if p.size-p.at < 4 {
		return dst, &TornError{At: start}
	}
	if _, err := p.r.ReadAt(size[:], p.at); err != nil {
		return dst, err
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	switch {
	case n > p.size-p.at-4:
		return dst, &TornError{At: start}
	case n == 0 && start == p.at:
		return dst, &TornError{At: start}
	case n > maxRecordBytes:
		return dst, &Error{Code: CodeTooLarge, Detail: "a record of a .padata file has more than 64 MiB"}
	}
	dst, err := p.read(dst, span{p.at + 4, int(n)})
	p.at += 4 + n
	return dst, err
}

func (p *Padata) read(dst []byte, s span) ([]byte, error) {
	if cap(dst)-len(dst) < s.n {
		dst = append(make([]byte, 0, len(dst)+s.n), dst...)
	}
	from := len(dst)
	dst = dst[:from+s.n]
	if _, err := p.r.ReadAt(dst[from:], s.at); err != nil {
		return dst[:from], err
	}
	return dst, nil
}

// handForward notes the stacks of these locations, and adds earlier records that have stacks of these samples. What cannot be read is left
// to the decoder, which says what is wrong.
func (p *Padata) handForward(from int64) error {
	if p.earlier == nil {
		p.earlier = map[[16]byte]int32{}
	}
	here := int32(len(p.records))
	p.m.begin(len(p.locs))
	err := eachStackID(&p.m, p.locs, func(id [16]byte) {
		if _, ok := p.earlier[id]; !ok && len(p.earlier) < maxAskedIDs {
			p.earlier[id] = here
		}
	})
	if err != nil {
		return nil
	}
	p.records = append(p.records, span{from, len(p.locs)})
	needed := map[int32]bool{}
	var order []int32
	own := map[[16]byte]bool{}
	p.m.begin(len(p.locs))
	_ = eachStackID(&p.m, p.locs, func(id [16]byte) { own[id] = true })
	p.m.begin(len(p.samples))
	err = eachStackID(&p.m, p.samples, func(id [16]byte) {
		if at, ok := p.earlier[id]; ok && at != here && !own[id] && !needed[at] {
			needed[at] = true
			order = append(order, at)
		}
	})
	if err != nil {
		return nil
	}
	for _, at := range order {
		s := p.records[at]
		if len(p.locs)+s.n > maxRecordBytes {
			return nil
		}
		if p.locs, err = p.read(p.locs, s); err != nil {
			return err
		}
	}
	return nil
}
