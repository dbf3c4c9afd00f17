package hist

import "math"

// smallSize is how many different buckets a Dense keeps inside itself. Most (bucket, kernel) groups of a minute have one to a few samples,
// and then a buffer would be two thousand bytes of zeros.
const smallSize = 12

// bufferSlack is how many buckets the buffer grows beyond what was asked for, at either end, so that it seldom grows twice.
const bufferSlack = 16

// Dense counts values by bucket. The zero value is empty and ready. It takes about 120 bytes until it has met more than
// 12 different buckets, then 8 bytes for each bucket between the lowest and the highest. Not safe for concurrent use.
type Dense struct {
	counts []uint64 // the buffer, nil while the small arrays are enough
	zero   uint64   // count of the value 0, kept apart so that it does not stretch the buffer
	base   int16    // bucket of counts[0]
	n      uint8    // buckets in use in the small arrays
	keys   [smallSize]int16
	small  [smallSize]uint32
}

// Add counts v once.
func (d *Dense) Add(v uint64) {
	i := Index(v)
	if off := int(i) - int(d.base); i >= 0 && uint(off) < uint(len(d.counts)) {
		d.counts[off]++
		return
	}
	d.addBucket(i, 1)
}

// AddN counts v n times.
func (d *Dense) AddN(v, n uint64) { d.AddBucket(Index(v), n) }

// AddBucket counts n values of bucket i. A bucket below Zero or above Last is a caller's error and panics.
func (d *Dense) AddBucket(i int16, n uint64) {
	if i < Zero || i > Last {
		panic("BUG: hist: bucket out of range")
	}
	d.addBucket(i, n)
}

func (d *Dense) addBucket(i int16, n uint64) {
	switch {
	case n == 0:
		return
	case i == Zero:
		d.zero += n
		return
	case len(d.counts) > 0:
		d.reach(i)
		d.counts[int(i)-int(d.base)] += n
		return
	}
	for k, key := range d.keys[:d.n] {
		if key == i {
			if uint64(d.small[k])+n > math.MaxUint32 {
				break
			}
			d.small[k] += uint32(n)
			return
		}
	}
	if int(d.n) < smallSize && n <= math.MaxUint32 && !d.has(i) {
		d.keys[d.n], d.small[d.n] = i, uint32(n)
		d.n++
		return
	}
	d.reach(i)
	d.counts[int(i)-int(d.base)] += n
}

func (d *Dense) has(i int16) bool {
	for _, key := range d.keys[:d.n] {
		if key == i {
			return true
		}
	}
	return false
}

// reach makes the buffer reach bucket i. When it did not exist, the small arrays are moved into it.
func (d *Dense) reach(i int16) {
	lo, hi := i, i
	if len(d.counts) > 0 {
		end := d.base + int16(len(d.counts)) - 1
		if i >= d.base && i <= end {
			return
		}
		lo, hi = min(lo, d.base), max(hi, end)
	}
	for _, key := range d.keys[:d.n] {
		lo, hi = min(lo, key), max(hi, key)
	}
	lo, hi = max(lo-bufferSlack, 0), min(hi+bufferSlack, Last)
	size := int(hi-lo) + 1
	old, oldBase := d.counts, d.base
	if len(old) == 0 && cap(old) >= size { // a buffer left over from before Reset
		d.counts = old[:size]
		clear(d.counts)
	} else {
		d.counts = make([]uint64, size)
		if len(old) > 0 { // after Reset the old base is without meaning
			copy(d.counts[int(oldBase)-int(lo):], old)
		}
	}
	d.base = lo
	for k, key := range d.keys[:d.n] {
		d.counts[key-lo] += uint64(d.small[k])
	}
	d.n = 0
}

// Merge adds all that o counts to d. o stays as it is.
func (d *Dense) Merge(o *Dense) {
	o.Each(func(i int16, n uint64) { d.addBucket(i, n) })
}

// Each calls f for every bucket that counts something, in ascending order.
func (d *Dense) Each(f func(i int16, n uint64)) {
	if d.zero > 0 {
		f(Zero, d.zero)
	}
	if len(d.counts) > 0 {
		for off, n := range d.counts {
			if n > 0 {
				f(d.base+int16(off), n)
			}
		}
		return
	}
	d.sortSmall()
	for k, key := range d.keys[:d.n] {
		f(key, uint64(d.small[k]))
	}
}

// AppendTo appends the buckets that count something to keys, in ascending order, and their counts to counts.
func (d *Dense) AppendTo(keys []int16, counts []uint64) ([]int16, []uint64) {
	if d.zero > 0 {
		keys, counts = append(keys, Zero), append(counts, d.zero)
	}
	if len(d.counts) > 0 {
		for off, n := range d.counts {
			if n > 0 {
				keys, counts = append(keys, d.base+int16(off)), append(counts, n)
			}
		}
		return keys, counts
	}
	d.sortSmall()
	for k, key := range d.keys[:d.n] {
		keys, counts = append(keys, key), append(counts, uint64(d.small[k]))
	}
	return keys, counts
}

// sortSmall orders the small arrays by bucket; insertion sort, as there are at most smallSize of them.
func (d *Dense) sortSmall() {
	for a := 1; a < int(d.n); a++ {
		for b := a; b > 0 && d.keys[b] < d.keys[b-1]; b-- {
			d.keys[b], d.keys[b-1] = d.keys[b-1], d.keys[b]
			d.small[b], d.small[b-1] = d.small[b-1], d.small[b]
		}
	}
}

// Count returns how many values were counted.
func (d *Dense) Count() uint64 {
	n := d.zero
	for _, c := range d.counts {
		n += c
	}
	for _, c := range d.small[:d.n] {
		n += uint64(c)
	}
	return n
}

// Size returns the bytes that d holds, its buffer included.
func (d *Dense) Size() int { return 120 + 8*cap(d.counts) }

// Reset empties d and keeps its buffer's memory for the next use.
func (d *Dense) Reset() { d.counts, d.zero, d.n = d.counts[:0], 0, 0 }
