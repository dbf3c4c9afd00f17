package kineto

import (
	"bytes"

	"github.com/warpline/warpline/proto/chrometrace"
)

// Bounds of the begins that wait for their ends.
const (
	maxOpen      = 1 << 16
	maxOpenBytes = 8 << 20
)

// opened is a begin that waits for its end. It keeps copies, since an event is good until the next one is read.
type opened struct {
	offset, start                  int64
	size                           int64
	name, category, pid, tid, args []byte
	order                          int // how many were opened before
}

func (o *opened) bytes() int {
	return len(o.name) + len(o.category) + len(o.pid) + len(o.tid) + len(o.args) + 256
}

// begins are the begins that wait, by what an end is matched by: the one that was opened last is closed first.
type begins struct {
	waiting map[string][]opened
	count   int
	bytes   int
	opened  int
	key, id []byte // scratch
}

// keyOf is what a begin and its end have in common: of B and E the thread, of b and e category and id, of S and F the name too.
func (b *begins) keyOf(e *chrometrace.Event, phase byte) []byte {
	k := b.key[:0]
	id := e.ID
	if len(id) == 0 && len(e.ID2) > 0 {
		b.id = appendID2(b.id[:0], e)
		id = b.id
	}
	switch phase {
	case 'B', 'E':
		k = threadKey(append(k, 'B'), e.PID, e.TID)
	case 'b', 'e':
		k = append(append(append(append(k, 'b'), e.Category...), 0), id...)
		if len(id) == 0 {
			k = append(append(k, 0), e.Name...)
		}
	default:
		k = append(append(append(append(append(append(k, 'S'), e.Category...), 0), id...), 0), e.Name...)
	}
	b.key = k
	return k
}

// appendID2 appends what an id2 names: an id of all processes, or one of the event's own.
func appendID2(dst []byte, e *chrometrace.Event) []byte {
	chrometrace.EachMember(e.ID2, func(key, v []byte) {
		switch string(key) {
		case `"global"`:
			dst = append(append(dst, 'g'), v...)
		case `"local"`:
			dst = append(append(append(append(dst, 'l'), text(e.PID)...), 0), v...)
		}
	})
	return dst
}

// put keeps a begin; false means that too many wait.
func (b *begins) put(e *chrometrace.Event, phase byte, start, size int64, args []byte) bool {
	one := opened{offset: e.Offset, start: start, size: size, name: bytes.Clone(e.Name), category: bytes.Clone(e.Category),
		pid: bytes.Clone(e.PID), tid: bytes.Clone(e.TID), args: bytes.Clone(args), order: b.opened}
	key := b.keyOf(e, phase)
	need := one.bytes() + len(key)
	if b.count >= maxOpen || b.bytes+need > maxOpenBytes {
		return false
	}
	b.opened++
	b.count++
	b.bytes += need
	if b.waiting == nil {
		b.waiting = map[string][]opened{}
	}
	b.waiting[string(key)] = append(b.waiting[string(key)], one)
	return true
}

// take returns the begin that an end closes.
func (b *begins) take(e *chrometrace.Event, phase byte) (one opened, ok bool) {
	key := b.keyOf(e, phase)
	list := b.waiting[string(key)]
	if len(list) == 0 {
		return one, false
	}
	one = list[len(list)-1]
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(b.waiting, string(key))
	} else {
		b.waiting[string(key)] = list
	}
	b.count--
	b.bytes -= one.bytes() + len(key)
	return one, true
}
