package parca

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Names that come in cubins are hostile text, as long and as strange as somebody likes.

// chainNames makes names of functions readable, once each. The zero value is ready.
type chainNames struct {
	known map[string]string
	work  int
}

const (
	// maxChainMangled bounds the names that are demangled: the time that takes can grow with the square of the length.
	maxChainMangled = 4 << 10
	// maxChainWork bounds the sum of the squares of the lengths of the names that are demangled for one cubin. Names beyond it stay mangled.
	maxChainWork = 1 << 28
	// chainNameBits bounds a demangled name, since a short name can stand for a gigabyte: 4 KiB, the rest is cut.
	chainNameBits = 12
)

// of returns the name as an inline chain has it: demangled where it is mangled, on one line, and not longer than maxChainNameBytes.
func (n *chainNames) of(name string) string {
	if out, ok := n.known[name]; ok {
		return out
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	out := name
	if work := len(name) * len(name); strings.HasPrefix(name, "_Z") && len(name) <= maxChainMangled && n.work+work <= maxChainWork {
		n.work += work
		if s := demangled(name); s != "" {
			out = s
		}
	}
	out = clip(out, maxChainNameBytes)
	n.known[name] = out
	return out
}

// demangled is "" for what is not understood, and for what makes the library panic.
func demangled(name string) (out string) {
	defer func() {
		if recover() != nil {
			out = ""
		}
	}()
	s, err := demangle.ToString(name, demangle.NoRust, demangle.MaxLength(chainNameBits))
	if err != nil {
		return ""
	}
	return s
}

// chainLine takes line breaks out of text that is part of a chain.
var chainLine = strings.NewReplacer("\n", " ", "\r", " ")

func clipFile(name string) string { return clip(name, maxCubinFileBytes) }

// clip makes text valid, puts it on one line and cuts it at a rune's border; the cut is marked.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return chainLine.Replace(valid(s))
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
