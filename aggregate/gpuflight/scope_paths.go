package gpuflight

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// scopePaths are the texts of paths, so that a scope's path is not built again for each time it is entered. They follow from the names and
// are not part of the state.
type scopePaths struct {
	index map[pathEdge]int32
	texts []string
	names [maxPathDepth + 1]uint32 // scratch of scopePath
}

// pathEdge is a step down from a path, by its place in texts plus one (0: the top), to a name in it. The step to table.MoreNames, which has
// any number of ids, has ^up and no name.
type pathEdge struct {
	up   int32
	name uint32
}

// maxPaths is how many texts are kept; beyond it all are built anew.
const maxPaths = 4096

// scopePath joins the names of the enclosing scopes and the scope's own, outermost first. It has what is known when the row is written, at
// the scope's end: a parent whose window has not come yet is missing, together with those above it. If several threads have a scope one
// level up, the one that began last is named. Rollups use only the last name.
func (s *session) scopePath(name, depth uint32, begin, end int64) string {
	if s.scopes.paths == nil {
		s.scopes.paths = &scopePaths{}
	}
	paths := s.scopes.paths
	names, n := &paths.names, 0
	names[n] = name
	if depth < maxPathDepth {
		for n++; depth > 0; depth-- {
			p, ok := s.scopes.parent(depth, begin, end)
			if !ok {
				break
			}
			names[n] = p.key.name
			n++
			begin = p.begin
			if p.end != stillOpen {
				end = p.end
			}
		}
	} else {
		n = 1
	}
	if paths.index == nil || len(paths.texts) > maxPaths {
		paths.index, paths.texts = map[pathEdge]int32{}, nil
	}
	up, text, known := int32(0), "", true
	for n--; n >= 0; n-- {
		if known {
			if i, ok := paths.index[pathEdge{up, names[n]}]; ok {
				up, text = i, paths.texts[i-1]
				continue
			}
		}
		leaf, sum := s.SumName(gpuflight.ScopeNameDict, names[n])
		leaf = rows.Clip(leaf)
		edge := pathEdge{up, names[n]}
		if sum == 0 && leaf != "" {
			edge = pathEdge{up: ^up}
			if i, ok := paths.index[edge]; ok && known {
				up, text = i, paths.texts[i-1]
				continue
			}
		}
		switch {
		case leaf == "" && n > 0:
			known = false
			continue // a parent without a name, or whose name is not known yet, is left out
		case text != "" && len(text)+len(leaf) < rows.MaxTextBytes:
			text += "|" + leaf
		default:
			text = leaf
		}
		known = known && leaf != ""
		if known {
			paths.texts = append(paths.texts, text)
			i := int32(len(paths.texts))
			paths.index[edge] = i
			up = i
		}
	}
	return text
}
