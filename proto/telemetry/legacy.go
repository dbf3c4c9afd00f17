package telemetry

// convert makes values of a record without schema_version. What is wrong is found in the peer's order; that the result is a valid
// event is checked behind it.
func (v *Validator) convert(o *Options) *Refusal {
	r, val := &v.record, &v.values
	val.wide = false
	if r := v.gather(); r != nil {
		return r
	}
	var ts integer
	if r.has(fTimestampNS) {
		ts = v.integer(fTimestampNS)
		if ts.kind != kInt {
			return notInteger(fTimestampNS)
		}
	} else {
		t := r.get(fTimestamp)
		if t.kind != kInt && t.kind != kFloat {
			return &Refusal{TimestampMissing, names[fTimestamp], "Legacy record is missing a valid timestamp"}
		}
		var refusal *Refusal
		if ts, refusal = scaled(r.bytes(t), t.kind, 1e9, fTimestamp); refusal != nil {
			return refusal
		}
	}
	val.setInt(fTimestampNS, ts)

	device, refusal := v.legacyDevice()
	if refusal != nil {
		return refusal
	}
	val.setInt(fDeviceID, device)
	allocated, refusal := v.legacyAllocated()
	if refusal != nil {
		return refusal
	}
	val.setInt(fAllocated, allocated)
	for _, c := range [...]struct {
		to, alias field
		missing   integer
	}{{fReserved, fMemoryReserved, allocated}, {fChange, fMemoryChange, small(0)}} {
		n, refusal := v.firstOf(c.missing, c.to, c.alias)
		if refusal != nil {
			return refusal
		}
		val.setInt(c.to, n)
	}
	for _, c := range [...]struct{ to, bundle field }{{fActive, fActiveMemory}, {fInactive, fInactiveMemory}} {
		from := c.to
		if o.BundleKeys && !r.has(from) {
			from = c.bundle
		}
		n, refusal := v.optional(from)
		if refusal != nil {
			return refusal
		}
		val.setInt(c.to, n)
	}
	if refusal := v.legacyDeviceBytes(allocated, o); refusal != nil {
		return refusal
	}

	eventType := v.text(fEventType)
	if !r.has(fEventType) {
		eventType = v.text(fType)
		if !r.has(fType) {
			eventType = text{[]byte("sample"), kString}
		}
	}
	if refusal := named(fEventType, eventType); refusal != nil {
		return refusal
	}
	val.texts[fEventType] = eventType

	interval := small(o.DefaultSamplingIntervalMS)
	if r.has(fSamplingIntervalMS) {
		interval = v.integer(fSamplingIntervalMS)
		if interval.kind != kInt {
			return notInteger(fSamplingIntervalMS)
		}
	}
	val.setInt(fSamplingIntervalMS, interval)

	pid := small(-1)
	if t := v.either(fPID); t.kind != kAbsent {
		pid = integerOf(v.record.bytes(t), t.kind)
		if pid.kind != kInt {
			return notInteger(fPID)
		}
	}
	val.setInt(fPID, pid)

	host := text{[]byte("unknown"), kString}
	if t := v.either(fHost); t.kind != kAbsent {
		host = v.textOf(t)
		if refusal := named(fHost, host); refusal != nil {
			return refusal
		}
	}
	val.texts[fHost] = host
	val.texts[fCollector] = v.legacyCollector(device, o)

	if refusal := v.legacyIdentity(); refusal != nil {
		return refusal
	}
	v.out, v.plain = v.meta.write(v.out[:0], 0, isStripped), nil
	if o.Peer == Peer029 && v.meta.find("session_id").kind != kAbsent {
		v.plain = v.meta.write(nil, 0, isIdentity)
	}
	val.metadata = kObject

	context := v.text(fContext)
	if !r.has(fContext) {
		context = v.text(fMessage)
	}
	switch context.kind {
	case kAbsent:
		context.kind = kNull
	case kNull, kString:
	default:
		return refuse(NotString, fContext, " must be a string")
	}
	val.texts[fContext] = context
	return nil
}

// gather collects the metadata: the object, then every key that begins with "metadata_", which wins.
func (v *Validator) gather() *Refusal {
	t := v.record.get(fMetadata)
	if t.kind != kAbsent && t.kind != kNull && t.kind != kObject {
		return refuse(NotObject, fMetadata, " must be an object when provided")
	}
	v.meta.clear()
	if t.kind != kObject && !v.record.prefix {
		return nil
	}
	v.meta.open(v.record.text)
	if t.kind == kObject {
		v.meta.object(int(t.start), v.meta.numberAt(t), nil)
	}
	if v.record.prefix {
		v.meta.object(0, 0, metadataPrefix)
	}
	v.meta.settle(0)
	return nil
}

// either returns the record's value of f if the key is there, else that of the metadata.
func (v *Validator) either(f field) token {
	if v.record.has(f) {
		return v.record.get(f)
	}
	return v.meta.find(names[f])
}

// firstOf returns the integer under the first of keys that is there.
func (v *Validator) firstOf(missing integer, keys ...field) (integer, *Refusal) {
	for _, f := range keys {
		if v.record.has(f) {
			n := v.integer(f)
			if n.kind != kInt {
				return n, notInteger(f)
			}
			return n, nil
		}
	}
	return missing, nil
}

// optional returns the integer under f; null if it is null or not there.
func (v *Validator) optional(f field) (integer, *Refusal) {
	n := v.integer(f)
	switch n.kind {
	case kAbsent:
		n.kind = kNull
	case kNull, kInt:
	default:
		return n, notInteger(f)
	}
	return n, nil
}

func (v *Validator) legacyAllocated() (integer, *Refusal) {
	r := &v.record
	if !r.has(fAllocated) && !r.has(fMemoryAllocated) {
		if t := r.get(fMemoryMB); t.kind == kInt || t.kind == kFloat {
			return scaled(r.bytes(t), t.kind, 1<<20, fMemoryMB)
		}
	}
	return v.firstOf(small(0), fAllocated, fMemoryAllocated, fDeviceUsed)
}

// legacyCollector names the collector by what else the record says.
func (v *Validator) legacyCollector(device integer, o *Options) text {
	r := &v.record
	if t := v.text(fCollector); t.kind == kString && !blank(t.b) {
		return t
	}
	name := o.DefaultCollector
	if name == "" {
		name = "legacy.unknown"
	}
	if r.has(fMemoryMB) {
		name = "stormlog.tensorflow.memory_tracker"
	} else if r.has(fMemoryAllocated) {
		name = "stormlog.cuda_tracker"
		if device.wide == nil && device.v == -1 {
			name = "stormlog.cpu_tracker"
		}
	}
	if t := v.either(fBackend); t.kind == kString {
		b := strip(v.textOf(t).b)
		for _, backend := range [...]string{"mps", "rocm", "cuda", "cpu"} {
			if equalFold(b, backend) {
				name = "stormlog." + backend + "_tracker"
			}
		}
	}
	return text{[]byte(name), kString}
}

// legacyIdentity takes the identity of the record, and of the metadata what the record leaves out or null.
func (v *Validator) legacyIdentity() *Refusal {
	val := &v.values
	val.given = 0
	for f := fJobID; f <= fWorldSize; f++ {
		t := v.record.get(f)
		if t.kind == kAbsent || t.kind == kNull {
			t = v.meta.find(names[f])
		}
		given := t.kind != kAbsent && t.kind != kNull
		if given {
			val.given |= 1 << f
		}
		if f == fJobID {
			val.texts[f] = v.textOf(t)
			if given {
				if refusal := val.named(f); refusal != nil {
					return refusal
				}
			}
		} else if given {
			val.setInt(f, integerOf(v.record.bytes(t), t.kind))
		}
	}
	if refusal := val.ranks(val.given); refusal != nil {
		return refusal
	}
	return val.resolve(val.given)
}

// isStripped tells the keys that a converted record's metadata does not keep.
func isStripped(key []byte) bool { return isIdentity(key) || string(key) == "session_id" }

func isIdentity(key []byte) bool {
	f := lookup(key)
	return f >= fJobID && f <= fWorldSize
}

// equalFold compares with a word in lower case.
func equalFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if lower(c) != word[i] {
			return false
		}
	}
	return true
}

func containsFold(b []byte, word string) bool {
	for i := 0; i+len(word) <= len(b); i++ {
		if equalFold(b[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
