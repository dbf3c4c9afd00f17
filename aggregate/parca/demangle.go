package parca

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// demangler remembers readable names of functions: every part brings the same ones, and to make one takes microseconds. The zero value is
// ready.
type demangler struct {
	known map[string]string
	bytes int
	work  int // for the names of this part
}

const (
	// maxMangledBytes bounds the names that are demangled: the time that takes can grow with the square of the length. The agent cuts names
	// at 255 bytes.
	maxMangledBytes = 1 << 10
	// demangledBits bounds the result, since a short name can stand for a gigabyte: 4 KiB, the rest is cut.
	demangledBits = 12
	// maxPartDemangling bounds the sum of the squares of the lengths of the names that are demangled for one part: eight thousand as the
	// agent cuts them. Names beyond it stay mangled in that part.
	maxPartDemangling = 1 << 27
	// maxDemangledBytes bounds what is remembered; beyond it everything is forgotten.
	maxDemangledBytes = 4 << 20
)

// of returns the readable form of a function's name, in the spelling of libstdc++, or "" when it has none.
func (d *demangler) of(name string) string {
	if len(name) > maxMangledBytes || !strings.HasPrefix(name, "_Z") {
		return ""
	}
	if s, ok := d.known[name]; ok {
		return s
	}
	d.work += len(name) * len(name)
	if d.work > maxPartDemangling {
		return ""
	}
	s := readable(name)
	d.bytes += len(name) + len(s) + 64
	if d.known == nil || d.bytes > maxDemangledBytes {
		d.known, d.bytes = map[string]string{}, len(name)+len(s)+64
	}
	d.known[strings.Clone(name)] = s
	return s
}

// readable demangles hostile text: what makes the library panic stays as it is.
func readable(name string) (out string) {
	defer func() {
		if recover() != nil {
			out = ""
		}
	}()
	s, err := demangle.ToString(name, demangle.NoRust, demangle.MaxLength(demangledBits))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
