package main

import (
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	telemetrydoor "github.com/warpline/warpline/ingest/telemetry"
)

// source is one source of data, as each stage knows it.
type source struct {
	door ingest.Source
}

// sources is the one list of sources: each stage is given them from here. To add a source, add its line.
var sources = []source{
	{door: gpuflightdoor.Source()},
	{door: telemetrydoor.Source()},
}

// doors are the sources as the gateway knows them.
func doors() (list []ingest.Source) {
	for _, s := range sources {
		list = append(list, s.door)
	}
	return list
}
