package main

import "github.com/warpline/warpline/aggregate"

// sources are the kinds of telemetry that this program reads.
var sources = []aggregate.Source{aggregate.Flight(), aggregate.Memory()}
