package main

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/gpuflight"
	"github.com/warpline/warpline/aggregate/telemetry"
)

// sources are the kinds of telemetry that this program reads.
var sources = []aggregate.Source{gpuflight.Source(), telemetry.Source()}
