package gpuflight

import "github.com/warpline/warpline/sink/table"

type pmConfigsTable struct {
	*table.Table
	table.Head
	At         table.TimeCol
	DeviceID   table.I32Col
	IntervalUS table.U64Col
	MaxSamples table.U64Col
	Preset     table.DictCol
	Metrics    table.StrCol
	table.FactTail
}

// PMConfigs holds how PMSamples were taken.
var PMConfigs = func() pmConfigsTable {
	t := table.Define("pm_configs_data", table.Fact, "tenant, session_id, at")
	return pmConfigsTable{
		Table:      t,
		Head:       t.Head(),
		At:         t.Time("at"),
		DeviceID:   t.I32("device_id"),
		IntervalUS: t.U64("interval_us", table.Note("between samples, microseconds")),
		MaxSamples: t.U64("max_samples", table.Note("kept between decodes")),
		Preset:     t.Dict("preset"),
		Metrics:    t.Str("metrics", table.Note("JSON array")),
		FactTail:   t.FactTail(),
	}
}()

type sassConfigsTable struct {
	*table.Table
	table.Head
	At                table.TimeCol
	DeviceID          table.I32Col
	ConfiguredMetrics table.StrCol
	SkippedMetrics    table.StrCol
	table.FactTail
}

// SassConfigs holds which instruction metrics were counted.
var SassConfigs = func() sassConfigsTable {
	t := table.Define("sass_configs_data", table.Fact, "tenant, session_id, at")
	return sassConfigsTable{
		Table:             t,
		Head:              t.Head(),
		At:                t.Time("at"),
		DeviceID:          t.I32("device_id"),
		ConfiguredMetrics: t.Str("configured_metrics", table.Note("JSON array")),
		SkippedMetrics:    t.Str("skipped_metrics", table.Note("JSON array of those that the device does not have")),
		FactTail:          t.FactTail(),
	}
}()

type executionSignaturesTable struct {
	*table.Table
	table.Head
	At              table.TimeCol
	Scope           table.DictCol
	Signature       table.U64Col
	LaunchCount     table.U64Col
	DistinctKernels table.U64Col
	table.FactTail
}

// ExecutionSignatures tells which passes of one analysis ran the same kernels in a scope.
var ExecutionSignatures = func() executionSignaturesTable {
	t := table.Define("execution_signatures_data", table.Fact, "tenant, session_id, at")
	return executionSignaturesTable{
		Table:           t,
		Head:            t.Head(),
		At:              t.Time("at"),
		Scope:           t.Dict("scope", table.Note("path, '' for all of the program")),
		Signature:       t.U64("signature", table.Note("equal in passes that may be merged")),
		LaunchCount:     t.U64("launch_count"),
		DistinctKernels: t.U64("distinct_kernels"),
		FactTail:        t.FactTail(),
	}
}()
