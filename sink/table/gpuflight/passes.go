package gpuflight

import "github.com/warpline/warpline/sink/table"

// PMConfigRow is a row of PMConfigs.
type PMConfigRow struct {
	table.HeadRow
	At          int64
	DeviceID    int32
	IntervalUS  uint64
	MaxSamples  uint64
	Preset      string
	Metrics     string
	ReceivedDay int32
}

// PMConfigs holds how PMSamples were taken.
var PMConfigs = table.DefineRows(table.Define("pm_configs_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[PMConfigRow], r *PMConfigRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.I32("device_id", &r.DeviceID)
		c.U64("interval_us", &r.IntervalUS, table.Note("between samples, microseconds"))
		c.U64("max_samples", &r.MaxSamples, table.Note("kept between decodes"))
		c.Dict("preset", &r.Preset)
		c.Str("metrics", &r.Metrics, table.Note("JSON array"))
		c.FactTail(&r.ReceivedDay)
	})

// SassConfigRow is a row of SassConfigs.
type SassConfigRow struct {
	table.HeadRow
	At                int64
	DeviceID          int32
	ConfiguredMetrics string
	SkippedMetrics    string
	ReceivedDay       int32
}

// SassConfigs holds which instruction metrics were counted.
var SassConfigs = table.DefineRows(table.Define("sass_configs_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[SassConfigRow], r *SassConfigRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.I32("device_id", &r.DeviceID)
		c.Str("configured_metrics", &r.ConfiguredMetrics, table.Note("JSON array"))
		c.Str("skipped_metrics", &r.SkippedMetrics, table.Note("JSON array of those that the device does not have"))
		c.FactTail(&r.ReceivedDay)
	})

// ExecutionSignatureRow is a row of ExecutionSignatures.
type ExecutionSignatureRow struct {
	table.HeadRow
	At              int64
	Scope           string
	Signature       uint64
	LaunchCount     uint64
	DistinctKernels uint64
	ReceivedDay     int32
}

// ExecutionSignatures says which passes of one analysis ran the same kernels in a scope.
var ExecutionSignatures = table.DefineRows(table.Define("execution_signatures_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[ExecutionSignatureRow], r *ExecutionSignatureRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Dict("scope", &r.Scope, table.Note("path, '' for all of the program"))
		c.U64("signature", &r.Signature, table.Note("equal in passes that may be merged"))
		c.U64("launch_count", &r.LaunchCount)
		c.U64("distinct_kernels", &r.DistinctKernels)
		c.FactTail(&r.ReceivedDay)
	})
