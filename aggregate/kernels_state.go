package aggregate

import "github.com/warpline/warpline/proto/hist"

// append writes what is held: the whole of it, or what the open chunk added to it.
func (k *kernelRollups) append(w *writer, full bool) {
	w.bool(k.flushed && !full)
	n := 0
	for _, a := range k.dirty {
		if full || a.freshCount > 0 {
			n++
		}
	}
	w.n(n)
	for _, a := range k.dirty {
		if !full && a.freshCount == 0 {
			continue
		}
		w.u64(uint64(a.slot.id))
		w.str(k.scopeNames[a.scope])
		w.i64(a.bucket)
		if !full && a.freshCount <= maxFresh {
			w.n(int(a.freshCount))
			for _, ns := range a.fresh[:a.freshCount] {
				w.u64(ns)
			}
			continue
		}
		w.n(0)
		for _, v := range []uint64{a.calls, a.total, a.low, a.high} {
			w.u64(v)
		}
		keys, counts := a.hist.AppendTo(nil, nil)
		w.n(len(keys))
		for i, key := range keys {
			w.i64(int64(key))
			w.u64(counts[i])
		}
	}
}

// readFlushed reads whether what was held is rows.
func (k *kernelRollups) readFlushed(r *reader) {
	if r.bool() {
		k.drop()
	}
}

// read applies what append wrote behind that.
func (k *kernelRollups) read(r *reader) {
	for range r.n(4) {
		id, scope, bucket := r.u32(), r.str(), r.i64()
		if r.err != nil {
			return
		}
		a := k.acc(k.slot(id), k.scope(scope), bucket)
		if n := r.n(1); n > 0 {
			for range n {
				a.count(r.u64())
			}
			continue
		}
		a.calls, a.total, a.low, a.high = r.u64(), r.u64(), r.u64(), r.u64()
		a.hist.Reset()
		for range r.n(2) {
			key, n := r.i64(), r.u64()
			if key < int64(hist.Zero) || key > int64(hist.Last) {
				r.fail()
				return
			}
			a.hist.AddBucket(int16(key), n)
		}
	}
}

const (
	// denseCalls: when an accumulator counts this many calls on average, its row is worth writing.
	denseCalls = 8
)

// maxHeld bounds the accumulators that a session holds back.
const maxHeld = 8192

// dense reports whether what is held is worth its rows, or more than may be held.
func (k *kernelRollups) dense() bool {
	if len(k.dirty) == 0 {
		return false
	}
	calls := uint64(0)
	for _, a := range k.dirty {
		calls += a.calls
	}
	return calls >= denseCalls*uint64(len(k.dirty)) || len(k.dirty) > maxHeld
}
