package gpuflight

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Names of functions are demangled once, when they arrive, since ClickHouse cannot do it. The spelling is that of __cxa_demangle in
// libstdc++, with which the client makes the names that it sends (float const*, A<B<int> >), so that both can be compared as they are.

const (
	// maxMangledBytes bounds the names that are demangled: the time that takes can grow with the square of the length, to a tenth of a
	// second at this one. A longer name stays mangled.
	maxMangledBytes = 4 << 10
	// demangledBits bounds the result, since a name of a hundred bytes can stand for a gigabyte: 4 KiB, the rest is cut.
	demangledBits = 12
	// maxPartDemangling bounds the sum of the squares of the lengths of the names that are demangled for one part: a thousand names of 512
	// bytes. Names beyond it stay mangled.
	maxPartDemangling = 1 << 28
)

// demangle returns the demangled form of a function's name, "" if it is not mangled, not understood or beyond the bounds.
func (a *partArtifacts) demangle(name string) (out string) {
	work := len(name) * len(name)
	if len(name) > maxMangledBytes || !strings.HasPrefix(name, "_Z") || a.demangling+work > maxPartDemangling {
		return ""
	}
	a.demangling += work
	// Names are hostile text. One that makes the library panic must not stop a partition: it stays mangled.
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
