package telemetry

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
)

func init() { rows.Strict = true }

const exportEpoch = int64(1795175929972803352)

// newExportFold returns a partition without an owner, and this source in it.
func newExportFold() (f *aggregate.Fold, m *folding) {
	source := Source()
	open := source.Open
	source.Open = func(f *aggregate.Fold) aggregate.Folding {
		m = open(f).(*folding)
		return m
	}
	return aggregate.NewFold(aggregate.Config{Sources: []aggregate.Source{source}}), m
}
