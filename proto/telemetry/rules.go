package telemetry

import "strconv"

const tooDeep = "nested deeper than 900 levels"

// rules applies the rules for values whose keys are all there, in the peer's order, up to those about metadata's content. With
// nullable, as schema version 4 has it, the four counters of the allocator and the device may be null.
func (v *values) rules(nullable bool) *Refusal {
	n := &v.ints
	if r := v.atLeast(fTimestampNS, 0); r != nil {
		return r
	}
	if r := v.named(fEventType); r != nil {
		return r
	}
	if r := v.named(fCollector); r != nil {
		return r
	}
	if r := v.atLeast(fSamplingIntervalMS, 0); r != nil {
		return r
	}
	if r := v.atLeast(fPID, -1); r != nil {
		return r
	}
	if r := v.named(fHost); r != nil {
		return r
	}
	if k := v.texts[fJobID].kind; k != kAbsent && k != kNull {
		if r := v.named(fJobID); r != nil {
			return r
		}
	}
	if r := v.ranks(v.given); r != nil {
		return r
	}
	if n[fDeviceID].kind != kInt {
		return notInteger(fDeviceID)
	}
	for f := fAllocated; f <= fChange; f++ {
		if k := n[f].kind; k != kInt && (k != kNull || !nullable && f != fActive && f != fInactive) {
			return notInteger(f)
		}
	}
	if r := v.notNegative(fAllocated, fInactive); r != nil {
		return r
	}
	for f := fDeviceUsed; f <= fDeviceTotal; f++ {
		if k := n[f].kind; k != kInt && (k != kNull || !nullable && f == fDeviceUsed) {
			return notInteger(f)
		}
	}
	if r := v.notNegative(fDeviceUsed, fDeviceTotal); r != nil {
		return r
	}
	if n[fDeviceTotal].kind == kInt {
		for _, f := range [...]field{fDeviceUsed, fDeviceFree} {
			if n[f].kind == kInt && n[f].above(n[fDeviceTotal]) {
				return refuse(AboveTotal, f, " cannot exceed device_total_bytes")
			}
		}
	}
	if k := v.texts[fContext].kind; k != kString && k != kNull {
		return refuse(NotString, fContext, " must be a string")
	}
	if v.metadata != kObject {
		return refuse(NotObject, fMetadata, " must be an object")
	}
	return nil
}

// fit refuses what no column could hold. It comes behind every rule of the peer.
func (v *values) fit() *Refusal {
	if v.wide {
		for f := range canonicals {
			if n := &v.ints[f]; n.kind == kInt && n.wide != nil {
				return refuse(IntegerRange, f, " does not fit in 64 bits")
			}
		}
	}
	return nil
}

func (v *values) atLeast(f field, least int64) *Refusal {
	if v.ints[f].kind != kInt {
		return notInteger(f)
	}
	if v.ints[f].below(least) {
		return refuse(BelowMinimum, f, " must be >= "+strconv.FormatInt(least, 10))
	}
	return nil
}

// notNegative checks the integers from first to last; those that are null pass.
func (v *values) notNegative(first, last field) *Refusal {
	for f := first; f <= last; f++ {
		if v.ints[f].kind != kInt || !v.ints[f].below(0) {
			continue
		}
		if f == fAllocated || f == fReserved || f == fDeviceUsed {
			return refuse(BelowMinimum, f, " must be >= 0")
		}
		return refuse(BelowMinimum, f, " must be >= 0 when provided")
	}
	return nil
}

func (v *values) named(f field) *Refusal { return named(f, v.texts[f]) }

// named requires a string with something in it.
func named(f field, t text) *Refusal {
	if t.kind != kString && t.kind != kNull {
		return refuse(NotString, f, " must be a string")
	}
	if t.kind == kNull || len(t.b) == 0 || (t.b[0] <= ' ' || t.b[0] >= 0x80) && blank(t.b) {
		return refuse(BlankString, f, " must be a non-empty string")
	}
	return nil
}

// ranks checks rank, local_rank and world_size as far as they are among given.
func (v *values) ranks(given uint64) *Refusal {
	for f := fRank; f <= fWorldSize; f++ {
		if given>>f&1 == 0 {
			continue
		}
		least := int64(0)
		if f == fWorldSize {
			least = 1
		}
		if r := v.atLeast(f, least); r != nil {
			return r
		}
	}
	return nil
}

// resolve fills in what is not among given of rank, local_rank and world_size, and checks how they go together.
func (v *values) resolve(given uint64) *Refusal {
	n := &v.ints
	if given>>fRank&1 == 0 {
		n[fRank] = small(0)
	}
	if given>>fLocalRank&1 == 0 {
		n[fLocalRank] = n[fRank]
	}
	if given>>fWorldSize&1 == 0 {
		n[fWorldSize] = small(1)
	}
	for _, f := range [...]field{fRank, fLocalRank} {
		if !n[fWorldSize].above(n[f]) {
			return refuse(RankOutsideWorld, f, " must be < world_size")
		}
	}
	return nil
}
