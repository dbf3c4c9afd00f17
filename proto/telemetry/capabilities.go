package telemetry

import (
	"bytes"
	"slices"
	"strings"
)

// Capabilities says what a collector can measure: the booleans of metadata.memory_capabilities.
type Capabilities uint16

// The booleans, in the peer's order, and whether they are known at all: of what only release 0.2.9 would take they may not be.
const (
	CanAllocated Capabilities = 1 << iota
	CanReserved
	CanActive
	CanInactive
	CanDeviceUsed
	CanDeviceFree
	CanDeviceTotal
	CanNativeHistory
	CanFragmentation
	CanAttribution
	CanBoundedProfiling
	CapabilitiesKnown
)

// capabilityNames are the keys of memory_capabilities: three strings, then the booleans.
var capabilityNames = [...]string{
	"backend", "telemetry_collector", "sampling_source",
	"supports_allocator_allocated", "supports_allocator_reserved", "supports_allocator_active", "supports_allocator_inactive",
	"supports_device_used", "supports_device_free", "supports_device_total", "supports_native_allocator_history",
	"supports_fragmentation_analysis", "supports_allocator_attribution", "supports_bounded_profiling",
}

const (
	capabilityStrings = 3
	capabilitiesKey   = "memory_capabilities"
	capabilityPrefix  = "metadata." + capabilitiesKey + "."
)

// counterCapabilities are the counters that must be null where their boolean is false, in the peer's order.
var counterCapabilities = [...]struct {
	f   field
	bit Capabilities
}{
	{fAllocated, CanAllocated}, {fReserved, CanReserved}, {fActive, CanActive}, {fInactive, CanInactive},
	{fDeviceUsed, CanDeviceUsed}, {fDeviceFree, CanDeviceFree}, {fDeviceTotal, CanDeviceTotal},
}

// described is what metadata says about how it was measured. The texts are those of the record or of memory of its own.
type described struct {
	bits                       Capabilities
	backend, collector, source []byte
	refusal                    *Refusal // why the object that is there cannot be used
	given                      bool     // the object is there
}

// capabilityCache remembers the last object: a process writes the same one into every record.
type capabilityCache struct {
	text []byte
	d    described
	own  []byte // what d's texts stand in
	list []string
}

// read takes the object in text apart, of which value is any value.
func (c *capabilityCache) read(text []byte, k kind) *described {
	if k == kObject && len(c.text) > 0 && bytes.Equal(c.text, text) {
		return &c.d
	}
	c.text, c.d = append(c.text[:0], text...), described{given: true}
	if k != kObject {
		c.text = c.text[:0]
		c.d.refusal = &Refusal{NotObject, "metadata", "metadata." + capabilitiesKey + " must be an object"}
		return &c.d
	}
	c.parse()
	if len(c.text) > 1<<16 || cap(c.own) > 1<<16 {
		*c = capabilityCache{d: c.d} // one hostile record must not be remembered in memory
	}
	return &c.d
}

func (c *capabilityCache) parse() {
	var tokens [len(capabilityNames)]token
	c.own, c.list = c.own[:0], c.list[:0]
	next := 0
	members(c.text, func(key []byte, escaped bool, t token) {
		if escaped {
			key = appendDecoded(nil, key)
		}
		i := next
		if i >= len(capabilityNames) || string(key) != capabilityNames[i] {
			i = slices.Index(capabilityNames[:], string(key))
			if i < 0 {
				c.list = append(c.list, string(key))
				return
			}
		}
		tokens[i], next = t, i+1
	})
	d := &c.d
	var missing []string
	for i, t := range tokens {
		if t.kind == kAbsent {
			missing = append(missing, capabilityNames[i])
		}
	}
	if missing != nil {
		d.refusal = &Refusal{MissingFields, "metadata", "Missing memory capability fields: " + strings.Join(missing, ", ")}
		return
	}
	if len(c.list) > 0 {
		slices.Sort(c.list)
		d.refusal = &Refusal{UnknownFields, "metadata", "Unknown memory capability fields: " + strings.Join(slices.Compact(c.list), ", ")}
		c.list = nil
		return
	}
	texts := [capabilityStrings]*[]byte{&d.backend, &d.collector, &d.source}
	for i, t := range tokens[:capabilityStrings] {
		name := capabilityPrefix + capabilityNames[i]
		if t.kind != kString && t.kind != kNull {
			d.refusal = &Refusal{NotString, name, name + " must be a string"}
			return
		}
		if t.kind == kString {
			*texts[i] = c.text[t.start+1 : t.end-1]
			if t.escaped {
				start := len(c.own)
				c.own = appendDecoded(c.own, *texts[i])
				*texts[i] = c.own[start:len(c.own):len(c.own)]
			}
		}
		if blank(*texts[i]) {
			d.refusal = &Refusal{BlankString, name, name + " must be a non-empty string"}
			return
		}
	}
	for i, t := range tokens[capabilityStrings:] {
		if t.kind != kBool {
			name := capabilityPrefix + capabilityNames[capabilityStrings+i]
			d.refusal = &Refusal{NotBoolean, name, name + " must be a boolean"}
			return
		}
		if c.text[t.start] == 't' {
			d.bits |= 1 << i
		}
	}
	d.bits |= CapabilitiesKnown
}

// maxPythonSource is how long a sampling_source that is a list or an object may be to be spelled as Python does.
const maxPythonSource = 1 << 10

// infer makes of metadata without the object what the peer adds to it: text holds the values backend and source.
func (v *Validator) infer(text []byte, backend, source token) *described {
	d := &v.inferred
	val := &v.values
	*d = described{collector: val.texts[fCollector].b, bits: CapabilitiesKnown}
	if backend.kind == kString {
		d.backend = v.decoded(text, backend)
	}
	if blank(d.backend) {
		d.backend = v.backendOf(d.collector)
	}
	switch {
	case source.kind == kAbsent:
		d.source = legacySource
	case source.kind == kString:
		d.source = v.decoded(text, source)
	case source.end-source.start > maxPythonSource:
		d.source = text[source.start:source.end]
	default:
		start := len(v.strings)
		v.strings = v.appendPython(v.strings, text, source)
		d.source = v.strings[start:len(v.strings):len(v.strings)]
	}
	for _, c := range counterCapabilities {
		if val.ints[c.f].kind == kInt {
			d.bits |= c.bit
		}
	}
	if d.bits&(CanAllocated|CanReserved) == CanAllocated|CanReserved {
		d.bits |= CanFragmentation | CanAttribution
	}
	if blank(d.source) {
		d.refusal = &Refusal{BlankString, capabilityPrefix + "sampling_source", capabilityPrefix + "sampling_source must be a non-empty string"}
	}
	return d
}

// backendOf finds the backend that a collector's name says. The last name is remembered.
func (v *Validator) backendOf(collector []byte) []byte {
	if v.backend != nil && string(v.collector) == string(collector) {
		return v.backend
	}
	v.backend = unknownBackend
	for _, name := range backendNames {
		if containsFold(collector, string(name)) {
			v.backend = name
			break
		}
	}
	v.collector = v.collector[:0]
	if len(collector) <= maxCollector {
		v.collector = append(v.collector, collector...)
		return v.backend
	}
	found := v.backend
	v.backend = nil
	return found
}

// maxCollector is how long the name of a collector may be to be remembered.
const maxCollector = 256

var (
	backendNames   = [...][]byte{[]byte("cuda"), []byte("rocm"), []byte("mps"), []byte("cpu"), []byte("tensorflow"), []byte("jax")}
	unknownBackend = []byte("unknown")
	legacySource   = []byte("legacy")
)

// agrees checks the counters against what the collector can measure.
func (d *described) agrees(val *values) *Refusal {
	for _, c := range counterCapabilities {
		if d.bits&c.bit == 0 && val.ints[c.f].kind == kInt {
			return refuse(NotNull, c.f, " must be null when "+capabilityPrefix+"supports_"+strings.TrimSuffix(names[c.f], "_bytes")+" is false")
		}
	}
	if d.bits&CanAllocated == 0 && val.ints[fChange].kind == kInt {
		return refuse(NotNull, fChange, " must be null when allocator allocated memory is unsupported")
	}
	return nil
}

// decoded is the text of a string token.
func (v *Validator) decoded(text []byte, t token) []byte {
	b := text[t.start+1 : t.end-1]
	if t.escaped {
		start := len(v.strings)
		v.strings = appendDecoded(v.strings, b)
		b = v.strings[start:len(v.strings):len(v.strings)]
	}
	return b
}

// appendCapabilities appends the object as the peer makes it, keys in order of code points.
func (e *Event) appendCapabilities(dst []byte) []byte {
	texts := [capabilityStrings][]byte{e.CapabilityBackend, e.CapabilityCollector, e.SamplingSource}
	dst = append(dst, '{')
	for n, i := range capabilityOrder {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, capabilityNames[i]), ':')
		switch {
		case i < capabilityStrings:
			dst = AppendString(dst, texts[i])
		case e.Capabilities>>(i-capabilityStrings)&1 != 0:
			dst = append(dst, "true"...)
		default:
			dst = append(dst, "false"...)
		}
	}
	return append(dst, '}')
}

// capabilityOrder are the places in capabilityNames in the order of the names.
var capabilityOrder = func() (order [len(capabilityNames)]int) {
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order[:], func(a, b int) int { return strings.Compare(capabilityNames[a], capabilityNames[b]) })
	return order
}()
