package aggregate_test

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/gpuflight"
	"github.com/warpline/warpline/aggregate/parca"
	"github.com/warpline/warpline/aggregate/telemetry"
	"github.com/warpline/warpline/aggregate/trace"
)

// sources are those of the program. Tests inside the package, which cannot import them, get them here.
var sources = []aggregate.Source{gpuflight.Source(), telemetry.Source(), parca.Source(), trace.Source()}

func init() { aggregate.Sources = sources }
