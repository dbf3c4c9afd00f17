package main

import (
	"github.com/warpline/warpline/ingest"
	ingestgpuflight "github.com/warpline/warpline/ingest/gpuflight"
	ingesttelemetry "github.com/warpline/warpline/ingest/telemetry"
)

// The one list of what Warpline takes: a line a source in each stage, which is given them by its Config.
var (
	ingestSources = []ingest.Source{
		ingestgpuflight.Source(),
		ingesttelemetry.Source(),
	}
)
