package parca

import (
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Batch is the decoded rows of one upload. It is used again for the next one: a Decode call forgets what was before. It refers to the bytes
// that it was decoded from, which must stay as they are until the next call. One goroutine at a time may use it. The zero value is ready.
//
// After a failed Decode call it is empty.
type Batch struct {
	m     uploadMemory
	texts texts

	rows  []row
	heads []head
	headN map[head]uint32

	pairs []pairInfo // distinct labels
	pairN map[pair]uint32
	sets  []set
	held  []uint32 // pairs of the sets, sorted by name
	setN  map[sum]uint32

	lines  []line
	locs   []location
	held2  []uint32 // locations of the stacks, innermost first
	stacks []stack
	stackN map[uint64]uint32
	idN    map[[16]byte]uint32 // v1: stacks by their id
	ids    []idsOf

	launches []launch
	frames   []uint32 // texts of the launch stacks' frames
	rendered []uint32 // texts of the frames of locations
	launchN  map[xxh3.Uint128]uint32

	procs    []process
	procN    map[sum]uint32
	sessions []session
	nameN    map[string]uint32 // sessions by their id

	work    labelWork
	scratch []byte
	cutter  cutter
}

type sum struct{ a, b uint64 }

// row is a row of an upload.
type row struct {
	at, value        int64
	head, set, stack uint32
	bad              badness
}

type badness uint8

const (
	fine badness = iota
	noTime
	noValue
)

// head is what is mostly the same in all rows of a type.
type head struct {
	producer, sampleType, sampleUnit, periodType, periodUnit, temporality uint32 // texts
	period                                                                int64
	duration                                                              uint64
}

// pair is a label.
type pair struct{ name, value uint32 } // texts

type line struct {
	line, column   uint64
	function, file uint32 // texts
}

// location is an entry of a stack: an address, and the functions that are there if it is resolved.
type location struct {
	address              uint64
	kind, mapping, build uint32 // texts
	from, to             uint32 // lines
	resolved, rendered   bool
	texts                uint32       // of Batch.rendered: its first frame, once rendered
	hash                 xxh3.Uint128 // of its frames' texts, once rendered
}

type stack struct {
	from, to uint32 // Batch.held2
	id       [16]byte
	hasID    bool
	missing  bool   // v1: its id was not among the locations
	known    bool   // launch is known
	launch   uint32 // of Batch.launches
}

// idsOf is the ids of stacks of some rows, 16 bytes each.
type idsOf struct {
	from int // first row
	raw  []byte
}

// Len returns the number of rows.
func (b *Batch) Len() int { return len(b.rows) }

// Reset forgets the upload, and the bytes that it was decoded from.
func (b *Batch) Reset() { b.reset(0) }

func (b *Batch) reset(size int) {
	b.m.begin(size)
	b.texts.reset(&b.m)
	b.rows = emptied(b.rows, 1<<16)
	b.heads = emptied(b.heads, 1<<12)
	b.pairs = emptied(b.pairs, 1<<14)
	b.sets = emptied(b.sets, 1<<14)
	b.held = emptied(b.held, 1<<16)
	b.lines = emptied(b.lines, 1<<16)
	b.locs = emptied(b.locs, 1<<15)
	b.held2 = emptied(b.held2, 1<<18)
	b.launches = append(emptied(b.launches, 1<<14), launch{})
	b.frames = emptied(b.frames, 1<<18)
	b.rendered = emptied(b.rendered, 1<<16)
	b.sessions = emptied(b.sessions, 1<<12)
	b.procs = emptied(b.procs, 1<<12)
	b.ids = b.ids[:0]
	b.stacks = append(emptied(b.stacks, 1<<16), stack{})
	b.headN = emptyMap(b.headN)
	b.pairN = emptyMap(b.pairN)
	b.setN = emptyMap(b.setN)
	b.stackN = emptyMap(b.stackN)
	b.idN = emptyMap(b.idN)
	b.launchN = emptyMap(b.launchN)
	b.procN = emptyMap(b.procN)
	b.nameN = emptyMap(b.nameN)
}

// emptied keeps a slice for the next upload unless it is large.
func emptied[T any](s []T, most int) []T {
	if cap(s) > most {
		return nil
	}
	clear(s)
	return s[:0]
}

func emptyMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil || len(m) > 1<<14 {
		return make(map[K]V)
	}
	clear(m)
	return m
}

// text returns the number of a text.
func (b *Batch) text(s []byte) (uint32, error) {
	return b.texts.id(unsafe.String(unsafe.SliceData(s), len(s)))
}

// head returns the number of a head.
func (b *Batch) head(h head) (uint32, error) {
	if n, ok := b.headN[h]; ok {
		return n, nil
	}
	if err := b.m.take(160); err != nil {
		return 0, err
	}
	n := uint32(len(b.heads))
	b.heads = append(b.heads, h)
	b.headN[h] = n
	return n, nil
}

// pair returns the number of a label.
func (b *Batch) pair(p pair) (uint32, error) {
	if n, ok := b.pairN[p]; ok {
		return n, nil
	}
	if err := b.m.take(80); err != nil {
		return 0, err
	}
	n := uint32(len(b.pairs))
	b.pairs = append(b.pairs, infoOf(p, b.texts.all[p.name], b.texts.all[p.value]))
	b.pairN[p] = n
	return n, nil
}

// room makes room for n more rows.
func (b *Batch) room(n int) (err error) {
	if len(b.rows)+n > maxRows {
		return &Error{Code: CodeTooLarge, Detail: "more than 4 Mi rows"}
	}
	b.rows, err = grown(&b.m, b.rows, n, bytesPerRow)
	return err
}

// fail empties the batch.
func (b *Batch) fail(err error) error {
	if err != nil {
		b.reset(0)
	}
	return err
}
