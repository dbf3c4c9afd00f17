package telemetry_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table/tabletest"
)

// store is a database of a test's own, with what these tests ask of it.
type store struct {
	*tabletest.Store
	// answers holds what of has asked, by query and tenant.
	answers map[string]map[string][]string
}

// newStore returns an empty store; ensured says whether the schema is made too.
func newStore(t testing.TB, ensured bool) *store {
	t.Helper()
	return &store{Store: tabletest.New(t, ensured)}
}
