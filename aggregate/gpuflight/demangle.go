package gpuflight

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Names of functions are demangled once, where they arrive, since ClickHouse cannot. The spelling is that of __cxa_demangle in libstdc++,
// by which the client makes the names that it sends (float const*, A<B<int> >), so that the two can be compared as they are.

const (
	// maxMangledBytes bounds the names that are demangled: the time that takes can grow with the square of the length, to a tenth of a
	// second at this one. A longer name stays mangled.
	maxMangledBytes = 4 << 10
	// demangledBits bounds what becomes of a name, which can say a gigabyte in a hundred bytes: 4 KiB, the rest is cut.
	demangledBits = 12
	// maxPartDemangling bounds the sum of the squares of the lengths of what one part has demangled: a thousand names of 512 bytes. Those
	// beyond it stay mangled.
	maxPartDemangling = 1 << 28
)

// demangle returns the demangled form of a function's name, "" where it is not mangled, not understood or beyond the bounds.
func (a *partArtifacts) demangle(name string) (out string) {
	work := len(name) * len(name)
	if len(name) > maxMangledBytes || !strings.HasPrefix(name, "_Z") || a.demangling+work > maxPartDemangling {
		return ""
	}
	a.demangling += work
	// Names are hostile text, and one that trips the library over must not stop a partition: it stays mangled.
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
