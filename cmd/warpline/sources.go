package main

import (
	"sync"

	"github.com/warpline/warpline/aggregate"
	gpuflightfold "github.com/warpline/warpline/aggregate/gpuflight"
	intrakernelfold "github.com/warpline/warpline/aggregate/intrakernel"
	parcafold "github.com/warpline/warpline/aggregate/parca"
	telemetryfold "github.com/warpline/warpline/aggregate/telemetry"
	tracefold "github.com/warpline/warpline/aggregate/trace"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	intrakerneldoor "github.com/warpline/warpline/ingest/intrakernel"
	parcadoor "github.com/warpline/warpline/ingest/parca"
	telemetrydoor "github.com/warpline/warpline/ingest/telemetry"
	tracedoor "github.com/warpline/warpline/ingest/trace"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
	intrakerneltable "github.com/warpline/warpline/sink/table/intrakernel"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
	tracetable "github.com/warpline/warpline/sink/table/trace"
)

// source is one source of data, as each stage knows it.
type source struct {
	door   ingest.Source
	fold   aggregate.Source
	tables table.Source
}

// sources is the one list of sources: each stage is given them from here. To add a source, add its line.
var sources = []source{
	{gpuflightdoor.Source(), gpuflightfold.Source(), gpuflighttable.Source},
	{telemetrydoor.Source(), telemetryfold.Source(), telemetrytable.Source},
	{intrakerneldoor.Source(), intrakernelfold.Source(), intrakerneltable.Source},
	{tracedoor.Source(), tracefold.Source(), tracetable.Source},
	{door: parcadoor.Source(), fold: parcafold.Source()}, // its tables are those that sources share
}

// givenSources are the sources as the service is given them.
func givenSources() service.Sources {
	given := service.Sources{Schema: schema()}
	for _, s := range sources {
		given.Doors = append(given.Doors, s.door)
		if s.fold.Name != "" {
			given.Folds = append(given.Folds, s.fold)
		}
	}
	return given
}

// schema is the tables and views of all sources, made once.
var schema = sync.OnceValue(func() *table.Schema {
	var of []table.Source
	for _, s := range sources {
		if s.tables.Name != "" {
			of = append(of, s.tables)
		}
	}
	made, err := table.NewSchema(of...)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return made
})
