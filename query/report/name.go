package report

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/warpline/warpline/proto/parca"
)

const (
	// maxMangled bounds names that are demangled, in bytes: the time it takes can grow with the square of the length.
	maxMangled = 4 << 10
	// nameBits bounds the result: a short name can stand for a very long one. 4 KiB, the rest is cut.
	nameBits = 12
)

// Demangled returns the name of a function as people know it, or the name itself where it is not mangled. Names are hostile text.
func Demangled(name string) (out string) {
	if len(name) > maxMangled || !strings.HasPrefix(name, "_Z") {
		return name
	}
	defer func() {
		if recover() != nil {
			out = name
		}
	}()
	s, err := demangle.ToString(name, demangle.NoRust, demangle.MaxLength(nameBits))
	if err != nil {
		return name
	}
	return s
}

// IsCubin reports whether a session is a cubin that was uploaded, and not a run of a program.
func IsCubin(session string) bool { return strings.HasPrefix(session, parca.CubinPrefix) }
