package activity

import (
	"github.com/warpline/warpline/aggregate/rows"
)

// maxScopeNames is how many scope paths of a session rollups distinguish; kernels in later ones count under otherScopes.
const (
	maxScopeNames = 65536
	otherScopes   = "(more scopes)"
)

// Scope interns a scope path and returns its index.
func (k *Kernels) Scope(path string) int32 {
	path = rows.Clip(path)
	if path == "" {
		return 0
	}
	i, ok := k.scopeIndex[path]
	if !ok {
		if len(k.scopeNames) == maxScopeNames-1 {
			path = otherScopes
		} else if len(k.scopeNames) >= maxScopeNames {
			return maxScopeNames
		}
		if k.scopeIndex == nil {
			k.scopeIndex = map[string]int32{}
		}
		k.scopeNames = append(k.scopeNames, path)
		i = int32(len(k.scopeNames))
		k.scopeIndex[path] = i
	}
	return i
}
