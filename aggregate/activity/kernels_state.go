package activity

import (
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/hist"
)

// Append writes what is held: the whole of it, or what the open chunk added to it.
func (k *Kernels) Append(w *state.Writer, full bool) {
	w.Bool(k.flushed && !full)
	n := 0
	for _, a := range k.dirty {
		if full || a.freshCount > 0 {
			n++
		}
	}
	w.N(n)
	for _, a := range k.dirty {
		if !full && a.freshCount == 0 {
			continue
		}
		w.U64(uint64(a.slot.id))
		w.Str(k.ScopeName(a.scope))
		w.I64(a.bucket)
		if !full && a.freshCount <= maxFresh {
			w.N(int(a.freshCount))
			for _, ns := range a.fresh[:a.freshCount] {
				w.U64(ns)
			}
			continue
		}
		w.N(0)
		for _, v := range []uint64{a.calls, a.total, a.low, a.high} {
			w.U64(v)
		}
		keys, counts := a.hist.AppendTo(nil, nil)
		w.N(len(keys))
		for i, key := range keys {
			w.I64(int64(key))
			w.U64(counts[i])
		}
	}
}

// ReadFlushed reads whether what was held is rows.
func (k *Kernels) ReadFlushed(r *state.Reader) {
	if r.Bool() {
		k.Drop()
	}
}

// Read applies what Append wrote after that.
func (k *Kernels) Read(r *state.Reader) {
	for range r.N(4) {
		id, scope, bucket := r.U32(), r.Str(), r.I64()
		if r.Err != nil {
			return
		}
		a := k.Acc(k.Slot(id), k.Scope(scope), bucket)
		if n := r.N(1); n > 0 {
			for range n {
				a.count(r.U64())
			}
			continue
		}
		a.calls, a.total, a.low, a.high = r.U64(), r.U64(), r.U64(), r.U64()
		a.hist.Reset()
		for range r.N(2) {
			key, n := r.I64(), r.U64()
			if key < int64(hist.Zero) || key > int64(hist.Last) {
				r.Fail()
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

// Dense reports whether what is held is worth its rows, or more than may be held.
func (k *Kernels) Dense() bool {
	if len(k.dirty) == 0 {
		return false
	}
	calls := uint64(0)
	for _, a := range k.dirty {
		calls += a.calls
	}
	return calls >= denseCalls*uint64(len(k.dirty)) || len(k.dirty) > maxHeld
}
